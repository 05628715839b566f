//! Running one command under dilation so that its end, however it comes, leaves nothing behind: `diorama dilate`.
//!
//! Three processes: this one (with the injector) ⟵ the *reaper*, a fork of this one ⟵ the command. The reaper is there
//! because a process cannot be both tracer and parent without confusing the two (see [`crate::wait`]), and because it
//! outlives this one if that is killed: it is the subreaper of all that the command starts, and when the command ends
//! or the other end of its socket closes, it kills what is left. It needs no root and no namespace for that.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use libc::pid_t;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

use crate::{Error, dilate_exec_file, launch};

/// Signals that are passed on to the command.
const FORWARDED: &[i32] = &[
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGWINCH,
    libc::SIGCONT,
];

/// The failure of the reaper itself, as an exit code.
const OWN_FAILURE: i32 = 125;

/// A reaper that waits for the command's admission to the injector.
#[derive(Debug)]
pub struct Reaper {
    pid: pid_t,
    control: UnixStream,
    signals: OwnedFd,
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code.
    Exited(u8),
    /// By this signal.
    Signalled(u8),
}

impl Ended {
    /// The exit code of a shell: the command's own, or 128 + signal.
    pub fn code(self) -> u8 {
        match self {
            Ended::Exited(code) => code,
            Ended::Signalled(signal) => signal.saturating_add(128),
        }
    }
}

impl Reaper {
    /// Forks the reaper, which will run `command` once it is admitted; `prepare` may add to how it is started. From now
    /// on the signals that are passed on are blocked in this process.
    ///
    /// # Errors
    /// If the process has more than one thread: the reaper goes on in Rust after the fork, and would find the locks of
    /// the others held for ever. And if the kernel refuses a descriptor or the fork.
    pub fn fork(
        command: &[OsString],
        prepare: impl FnOnce(&mut Command) -> Result<(), String>,
    ) -> Result<Reaper, Error> {
        let what = "the reaper must be forked while the process has one thread";
        let threads = std::fs::read_dir("/proc/self/task").map_err(Error::system(what))?.count();
        if threads != 1 {
            return Err(Error::System { what, source: io::Error::other(format!("it has {threads}")) });
        }
        let exec = dilate_exec_file()?;
        let (ours, theirs) = UnixStream::pair().map_err(Error::system("no socket pair for the reaper"))?;
        become_subreaper();
        let before = block(FORWARDED);
        let signals = signal_fd(FORWARDED).map_err(Error::system("signals cannot be watched"))?;
        // SAFETY: this process has one thread, this one, which has just counted them: no other holds a lock, or changes
        // what the child finds.
        match unsafe { libc::fork() } {
            -1 => Err(Error::System { what: "the reaper cannot be forked", source: io::Error::last_os_error() }),
            0 => {
                drop(ours);
                let code = reap(&exec, theirs, command, prepare, before);
                // SAFETY: ends this process without running what belongs to the parent.
                unsafe { libc::_exit(code) }
            }
            pid => Ok(Reaper { pid, control: ours, signals }),
        }
    }

    /// Starts the command with the descriptor that the injector admits it by, passes signals on to it, and waits for
    /// its end. Says which process it was, and how that ended.
    pub fn run(mut self, admitted: OwnedFd) -> Result<(pid_t, Ended), Error> {
        let lost = "the process that watches over the command is gone";
        send_fd(&self.control, admitted).map_err(Error::system(lost))?;
        let mut pid = [0; 4];
        let started = self.control.read_exact(&mut pid);
        let pid = i32::from_ne_bytes(pid);
        let command = rustix::process::Pid::from_raw(pid);
        let command =
            command.and_then(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok());
        let mut status = [0; 4];
        let told = started.and_then(|()| {
            self.watch(command.as_ref())?;
            self.control.read_exact(&mut status)
        });
        let _ = wait_for(self.pid);
        if let Err(source) = told {
            // The reaper was killed: its children are now children of this process.
            end_descendants();
            return Err(Error::System { what: lost, source });
        }
        let status = i32::from_ne_bytes(status);
        let ended = match libc::WIFSIGNALED(status) {
            true => Ended::Signalled(libc::WTERMSIG(status) as u8),
            false => Ended::Exited(libc::WEXITSTATUS(status) as u8),
        };
        Ok((pid, ended))
    }

    /// Passes signals on until the reaper reports.
    fn watch(&self, command: Option<&OwnedFd>) -> io::Result<()> {
        loop {
            let mut fds = [PollFd::new(&self.control, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            if !fds[0].revents().is_empty() {
                return Ok(());
            }
            let info = read_signal(&self.signals)?;
            // The terminal signals the whole foreground group, of which the command is a member.
            if info.ssi_code != libc::SI_KERNEL
                && let Some(command) = command
            {
                let (fd, signal) = (command.as_raw_fd(), info.ssi_signo as i32);
                // SAFETY: no memory is involved. It fails if the command has just ended, which is fine.
                unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, 0usize, 0) };
            }
        }
    }
}

/// Runs the reaper, from fork to exit. Its result is its exit code, which nothing reads.
fn reap(
    exec: &OwnedFd,
    mut control: UnixStream,
    command: &[OsString],
    prepare: impl FnOnce(&mut Command) -> Result<(), String>,
    mask: libc::sigset_t,
) -> i32 {
    become_subreaper();
    // Ctrl-C and the like are for the command; this process ends after it.
    block_all();
    let started = receive_fd(&control).and_then(|admitted| {
        let mut launched = launch(exec.as_fd(), admitted, command);
        prepare(&mut launched).map_err(io::Error::other)?;
        let restore = move || {
            // SAFETY: async-signal-safe; the mask was filled by the kernel.
            unsafe { libc::sigprocmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut()) };
            Ok(())
        };
        // SAFETY: `restore` makes one system call.
        unsafe { launched.pre_exec(restore) };
        let children = signal_fd(&[libc::SIGCHLD])?;
        Ok((launched.spawn()?.id() as pid_t, children))
    });
    let (pid, children) = match started {
        Ok(started) => started,
        Err(e) => {
            eprintln!("diorama: the command cannot be started: {e}");
            let status = OWN_FAILURE << 8;
            let _ = control.write_all(&0i32.to_ne_bytes()).and_then(|()| control.write_all(&status.to_ne_bytes()));
            return OWN_FAILURE;
        }
    };
    if control.write_all(&pid.to_ne_bytes()).is_err() {
        end_descendants();
        return OWN_FAILURE;
    }
    let status = loop {
        let mut fds = [PollFd::new(&control, PollFlags::IN), PollFd::new(&children, PollFlags::IN)];
        if poll(&mut fds, None).is_err() {
            continue;
        }
        // Nothing is ever sent here: the other end has closed, because its process is gone.
        if !fds[0].revents().is_empty() {
            end_descendants();
            return OWN_FAILURE;
        }
        let _ = read_signal(&children);
        if let Some(status) = reap_until(pid) {
            break status;
        }
    };
    end_descendants();
    let _ = control.write_all(&status.to_ne_bytes());
    0
}

/// Reaps what has ended; gives the status of `pid` if it is among them.
fn reap_until(pid: pid_t) -> Option<i32> {
    loop {
        let mut status = 0;
        // SAFETY: `status` is a valid place to write to.
        match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
            p if p == pid => return Some(status),
            p if p <= 0 => return None,
            _ => (),
        }
    }
}

fn wait_for(pid: pid_t) -> io::Result<i32> {
    let mut status = 0;
    // SAFETY: `status` is a valid place to write to.
    while unsafe { libc::waitpid(pid, &mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(status)
}

/// Kills every child until there is none. The children of one that ends become this process's, a subreaper, so that it
/// ends with the whole tree.
fn end_descendants() {
    loop {
        for pid in children() {
            // SAFETY: no memory is involved; a child that is not yet reaped keeps its number.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        // SAFETY: no status is asked for.
        match unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } {
            -1 => return,
            0 => std::thread::sleep(Duration::from_millis(1)),
            _ => (),
        }
    }
}

/// The children of this process, from /proc: field 4 of `stat`, behind the name in parentheses, is the parent.
fn children() -> Vec<pid_t> {
    let own = std::process::id().to_string();
    let is_child = |pid: &pid_t| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)) == Some(&own)
    };
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).filter(is_child).collect()
}

fn become_subreaper() {
    // SAFETY: changes an attribute of this process; no memory is involved. It cannot fail.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: the set is initialised by sigemptyset.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, *signal);
        }
        set
    }
}

/// Blocks `signals` in this thread; gives the mask from before.
fn block(signals: &[i32]) -> libc::sigset_t {
    let (set, mut before) = (set_of(signals), set_of(&[]));
    // SAFETY: both sets are valid.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before) };
    before
}

/// Blocks every signal in this thread.
fn block_all() {
    block(&all_signals());
}

fn all_signals() -> Vec<i32> {
    (1..=libc::SIGRTMAX()).collect()
}

/// Makes a call that no signal may interrupt.
pub(crate) fn without_signals<T>(call: impl FnOnce() -> T) -> T {
    let before = block(&all_signals());
    let result = call();
    // SAFETY: the mask was filled by the kernel.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    result
}

/// Pins this thread, and leaves all signals but SIGCHLD to the others: blocked by a tracer, it would be sent to them.
pub(crate) fn settle(core: Option<usize>) {
    let mut others = all_signals();
    others.retain(|signal| *signal != libc::SIGCHLD);
    // SAFETY: the set is valid, and the call changes this thread only.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &set_of(&others), std::ptr::null_mut()) };
    if let Some(core) = core {
        // Where it fails the thread runs on any core: slower, and as right.
        let _ = host::pin(core);
    }
}

fn signal_fd(signals: &[i32]) -> io::Result<OwnedFd> {
    // SAFETY: the set is valid; a new descriptor is owned by nobody else.
    unsafe {
        let fd = libc::signalfd(-1, &set_of(signals), libc::SFD_CLOEXEC);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

fn read_signal(fd: &OwnedFd) -> io::Result<libc::signalfd_siginfo> {
    // SAFETY: plain integers; every bit pattern is a value.
    let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
    // SAFETY: the bytes of `info`, which has no invalid values, borrowed for this call.
    let bytes = unsafe { std::slice::from_raw_parts_mut((&raw mut info).cast::<u8>(), size_of_val(&info)) };
    rustix::io::read(fd, bytes)?;
    Ok(info)
}

fn send_fd(socket: &UnixStream, fd: OwnedFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    rustix::net::sendmsg(socket, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive_fd(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let fds =
        control.drain().find_map(|m| if let RecvAncillaryMessage::ScmRights(mut f) = m { f.next() } else { None });
    fds.ok_or_else(|| io::Error::other("diorama ended before it began"))
}
