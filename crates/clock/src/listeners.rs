//! Listeners for user notification that programs make themselves, kept in their place (`guest/settings/listener.c`).
//!
//! A program has one end of a pair of sockets: a byte in it is a call that waits to be received, and it hangs up when
//! no process has the filter any more. The calls themselves wait as notifications of the injector's own listener, so
//! what a supervisor asks for is done by the kernel: whether a call still waits, its answer, a descriptor more.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

use libc::pid_t;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use crate::crew::Listener;
use crate::layout::{LISTENED, LISTENER_DATA, LISTENERS, NO_LISTENER};
use crate::memory::{read_memory, write_memory};
use crate::notify::{self, Notification};
use crate::supervise;
use crate::tracee::{descriptor_of, open_process, status_of, status_text};

/// Requests of the image (`settings/listener.c`); all others are ioctls of a supervisor.
const MAKE: u64 = 0;
const TELL: u64 = 1;

/// Where in what a call tells about itself its answer is announced, and how.
const STATE: u64 = 9 * 8;
const NOT_YET: u64 = 0;
const ANSWERED: u64 = 1;
const GO_ON: u64 = 2;

/// `struct seccomp_notif`, `…_resp` and `…_addfd`, in words.
const NOTIF: usize = 10;
const RESPONSE: usize = 3;
const ADDFD: usize = 3;
/// AUDIT_ARCH_X86_64, the upper half of the word that begins with the call's number.
const ARCHITECTURE: u64 = 0xc000_003e << 32;

/// How often, in real time, to look whether a filter is anybody's still: looking costs some µs for each process.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// So many are remembered of which nobody has the filter any more, for supervisors that ask.
const ENDED: usize = 64;
/// So many looks in a row must find nobody: a program that is being executed cannot be looked into.
const LOOKS: u32 = 3;

/// All listeners that are kept.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kept: Vec<Kept>,
    watched: bool,
}

#[derive(Debug)]
struct Kept {
    number: u64,
    /// Inode of the program's end, by which that is found in whichever process has it.
    inode: u64,
    /// Closed when nobody has the filter any more.
    ours: Option<OwnedFd>,
    calls: Vec<Waiting>,
    /// The program's end is closed.
    abandoned: bool,
    /// Who has asked for it, and may not have its filter yet.
    maker: OwnedFd,
    /// For how many looks nobody has had the filter.
    missed: u32,
}

/// A call that waits for a supervisor.
#[derive(Clone, Debug)]
struct Waiting {
    id: u64,
    tid: pid_t,
    listener: Arc<Listener>,
    /// Where it tells about itself.
    place: u64,
    /// Its number, from where it was made, and its arguments.
    data: [u64; 8],
    received: bool,
}

impl Waiting {
    fn still_waits(&self) -> bool {
        notify::still_waits(self.listener.fd.as_fd(), self.id)
    }

    /// Says how it is answered; the answer itself comes after that.
    fn announce(&self, how: u64) -> io::Result<()> {
        write_memory(self.tid, self.place + STATE, &how)
    }

    fn refuse(&self, error: i32) {
        // Both fail only if it was killed.
        let _ = self.announce(ANSWERED);
        let _ = notify::answer(self.listener.fd.as_fd(), self.id, 0, -error);
    }
}

/// Result or error of the image's call; `None` if that has been answered, or waits for a supervisor.
type Outcome = io::Result<Option<i64>>;

fn error<T>(number: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(number))
}

impl Listeners {
    /// Does what the image's call asks for.
    pub fn serve(self: &Arc<Listeners>, listener: &Arc<Listener>, n: &Notification) -> Outcome {
        match n.args[0] {
            MAKE => self.make(listener, n),
            TELL => self.tell(listener, n),
            _ => {
                let inode = descriptor(n.pid as pid_t, n.args[1]).and_then(|fd| Ok((inode_of(&fd)?, fd)));
                let Ok((inode, fd)) = inode else { return error(NO_LISTENER as i32) };
                let known = self.state().kept.iter().any(|kept| kept.inode == inode);
                if known { self.ask(n, inode, &fd) } else { error(NO_LISTENER as i32) }
            }
        }
    }

    /// Whether serving it may take until other programs have run.
    pub fn may_take_long(n: &Notification) -> bool {
        n.args[0] == MAKE || n.args[2] as u32 == notify::ADDFD as u32
    }

    /// Hangs up all of them.
    pub fn stop(&self) {
        self.state().kept.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding the lock")
    }

    /// Makes one, whose number is written where the call says, and whose descriptor is the call's result.
    fn make(self: &Arc<Listeners>, listener: &Arc<Listener>, n: &Notification) -> Outcome {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let (inode, maker) = (inode_of(&theirs)?, process_of(n.pid as pid_t)?);
        let mut state = self.state();
        let ended: Vec<u64> = state.kept.iter().filter(|kept| kept.ours.is_none()).map(|kept| kept.inode).collect();
        if let Some(oldest) = ended.first().filter(|_| ended.len() >= ENDED) {
            state.kept.retain(|kept| kept.inode != *oldest);
        }
        let is_free = |number: &u64| state.kept.iter().all(|kept| kept.number != *number || kept.ours.is_none());
        let free = (0..LISTENERS).find(is_free);
        let Some(number) = free else { return error(libc::EMFILE) };
        write_memory(n.pid as pid_t, n.args[1], &number)?;
        let ours = Some(ours);
        state.kept.push(Kept { number, inode, ours, calls: Vec::new(), abandoned: false, maker, missed: 0 });
        if !state.watched {
            let listeners = self.clone();
            let watch = move || listeners.watch();
            std::thread::Builder::new().name("injector-listens".to_owned()).spawn(watch)?;
            state.watched = true;
        }
        drop(state);
        // Where it fails, the other end hangs up, and the watch finds nobody there.
        supervise::without_signals(|| notify::give(listener.fd.as_fd(), n.id, theirs.as_fd()))?;
        Ok(None)
    }

    /// Has a call wait.
    fn tell(&self, listener: &Arc<Listener>, n: &Notification) -> Outcome {
        let told: [u64; 9] = read_memory(n.pid as pid_t, n.args[1])?;
        let [number, data @ ..] = told;
        let mut state = self.state();
        let kept = state.kept.iter_mut().find(|kept| kept.number == number && !kept.abandoned);
        let Some(Kept { ours: Some(ours), calls, .. }) = kept else { return error(libc::ENOSYS) };
        match send(ours, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            // Where so many wait, who waits for one more has seen others.
            Ok(_) | Err(rustix::io::Errno::AGAIN) => (),
            Err(_) => return error(libc::ENOSYS),
        }
        let (tid, place, listener) = (n.pid as pid_t, n.args[1], listener.clone());
        calls.push(Waiting { id: n.id, tid, listener, place, data, received: false });
        Ok(None)
    }

    /// Does what a supervisor asks of its listener by ioctl.
    fn ask(&self, n: &Notification, inode: u64, fd: &OwnedFd) -> Outcome {
        let (pid, argument) = (n.pid as pid_t, n.args[3]);
        let command = n.args[2] as u32;
        if command == notify::RECV as u32 {
            self.receive(pid, argument, inode, fd)
        } else if command == notify::SEND as u32 {
            self.send(read_memory(pid, argument)?, inode)
        } else if command == notify::ID_VALID as u32 || command == notify::ID_VALID_BEFORE as u32 {
            let call = self.find(inode, read_memory(pid, argument)?)?;
            if call.received && call.still_waits() { Ok(Some(0)) } else { error(libc::ENOENT) }
        } else if command == notify::ADDFD as u32 {
            self.add(pid, read_memory(pid, argument)?, inode)
        } else if command == notify::SET_FLAGS as u32 && argument & !notify::SYNC_WAKE_UP == 0 {
            Ok(Some(0))
        } else {
            error(libc::EINVAL)
        }
    }

    /// The call of this number.
    fn find(&self, inode: u64, id: u64) -> io::Result<Waiting> {
        let state = self.state();
        let kept = state.kept.iter().find(|kept| kept.inode == inode);
        let call = kept.and_then(|kept| kept.calls.iter().find(|call| call.id == id));
        call.cloned().ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
    }

    fn forget(&self, inode: u64, id: u64) {
        if let Some(kept) = self.state().kept.iter_mut().find(|kept| kept.inode == inode) {
            kept.calls.retain(|call| call.id != id);
        }
    }

    /// Gives the supervisor the next call; EAGAIN if there is none, ENOENT if it was killed meanwhile.
    fn receive(&self, pid: pid_t, to: u64, inode: u64, fd: &OwnedFd) -> Outcome {
        if read_memory::<[u64; NOTIF]>(pid, to)? != [0; NOTIF] {
            return error(libc::EINVAL);
        }
        let mut state = self.state();
        let Some(kept) = state.kept.iter_mut().find(|kept| kept.inode == inode) else { return error(libc::ENOENT) };
        kept.calls.retain(|call| call.received || call.still_waits());
        let Some(call) = kept.calls.iter_mut().find(|call| !call.received) else {
            let told = recv(fd, &mut [0; 1], RecvFlags::DONTWAIT).is_ok_and(|(n, _)| n > 0);
            return error(if told { libc::ENOENT } else { libc::EAGAIN });
        };
        let [nr, from, args @ ..] = call.data;
        let mut notif = [0; NOTIF];
        notif[..4].copy_from_slice(&[
            call.id,
            u64::from(as_seen_by(pid, call.tid)),
            nr & 0xffff_ffff | ARCHITECTURE,
            from,
        ]);
        notif[4..].copy_from_slice(&args);
        write_memory(pid, to, &notif)?;
        call.received = true;
        let _ = recv(fd, &mut [0; 1], RecvFlags::DONTWAIT);
        Ok(Some(0))
    }

    /// Answers a call as the supervisor says.
    fn send(&self, response: [u64; RESPONSE], inode: u64) -> Outcome {
        let [id, value, rest] = response;
        let (negative, flags) = (rest as u32 as i32, rest >> 32);
        let go_on = flags == u64::from(notify::CONTINUE);
        if (flags != 0 && !go_on) || (go_on && (value != 0 || negative != 0)) {
            return error(libc::EINVAL);
        }
        let call = self.find(inode, id)?;
        if !call.received {
            return error(libc::EINPROGRESS);
        }
        let sent = call.announce(if go_on { GO_ON } else { ANSWERED });
        let sent = sent.and_then(|()| notify::answer(call.listener.fd.as_fd(), id, value as i64, negative));
        self.forget(inode, id);
        if sent.is_ok() { Ok(Some(0)) } else { error(libc::ENOENT) }
    }

    /// Gives a descriptor of the supervisor's to the process that has called; its number there.
    fn add(&self, pid: pid_t, asked: [u64; ADDFD], inode: u64) -> Outcome {
        let [id, first, second] = asked;
        let (flags, source) = (first as u32, first >> 32);
        let (number, of_number) = (second as u32, (second >> 32) as u32);
        let Ok(source) = descriptor(pid, source) else { return error(libc::EBADF) };
        let call = self.find(inode, id)?;
        if !call.received {
            return error(libc::EINPROGRESS);
        }
        let answers = flags & notify::ADDFD_SEND != 0;
        if answers {
            call.announce(ANSWERED)?;
        }
        let fd = call.listener.fd.as_fd();
        let add = || notify::add(fd, id, source.as_fd(), flags, number, of_number);
        let added = supervise::without_signals(add);
        match (&added, answers) {
            (Ok(_), true) => self.forget(inode, id),
            (Err(_), true) => call.announce(NOT_YET)?,
            _ => (),
        }
        added.map(|number| Some(number.into()))
    }

    /// Looks after them until there is none.
    fn watch(&self) {
        supervise::settle(None);
        loop {
            self.await_hang_up();
            let used = in_use();
            let mut state = self.state();
            for kept in &mut state.kept {
                let used = used.contains(&kept.number) || !has_ended(&kept.maker);
                kept.missed = if used { 0 } else { kept.missed + 1 };
                if kept.missed >= LOOKS {
                    kept.ours = None;
                }
                if let Some(ours) = &kept.ours
                    && !kept.abandoned
                    && hangs_up(ours)
                {
                    kept.abandoned = true;
                    kept.calls.drain(..).for_each(|call| call.refuse(libc::ENOSYS));
                }
            }
            state.kept.retain(|kept| kept.missed < LOOKS || !kept.abandoned);
            if state.kept.iter().all(|kept| kept.ours.is_none()) {
                state.watched = false;
                return;
            }
        }
    }

    /// Waits until a supervisor's end is closed, or for the next look.
    fn await_hang_up(&self) {
        let copies: Vec<OwnedFd> = {
            let state = self.state();
            let open = state.kept.iter().filter(|kept| !kept.abandoned).filter_map(|kept| kept.ours.as_ref());
            open.filter_map(|ours| ours.try_clone().ok()).collect()
        };
        let mut fds: Vec<_> = copies.iter().map(|fd| PollFd::new(fd, PollFlags::empty())).collect();
        // Interrupted, it looks a little earlier.
        let _ = poll(&mut fds, Some(&LOOK));
    }
}

fn hangs_up(fd: &OwnedFd) -> bool {
    state_of(fd, PollFlags::empty()).contains(PollFlags::HUP)
}

fn has_ended(process: &OwnedFd) -> bool {
    state_of(process, PollFlags::IN).contains(PollFlags::IN)
}

fn state_of(fd: &OwnedFd, asked: PollFlags) -> PollFlags {
    let mut fds = [PollFd::new(fd, asked)];
    let polled = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    if polled.is_ok() { fds[0].revents() } else { PollFlags::empty() }
}

/// The numbers of the listeners whose filters some process has.
fn in_use() -> BTreeSet<u64> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return BTreeSet::new() };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<pid_t>().ok());
    let said = numbers.filter_map(|pid| read_memory::<u64>(pid, LISTENED).ok());
    said.filter_map(|data| data.checked_sub(LISTENER_DATA)).map(|data| data % LISTENERS).collect()
}

/// The process of which `tid` is a thread.
fn process_of(tid: pid_t) -> io::Result<OwnedFd> {
    let gone = || io::Error::from_raw_os_error(libc::ESRCH);
    open_process(status_of(tid, "Tgid:").ok_or_else(gone)?)
}

/// A descriptor of the process of which `tid` is a thread.
fn descriptor(tid: pid_t, number: u64) -> io::Result<OwnedFd> {
    descriptor_of(&process_of(tid)?, number as i32)
}

fn inode_of(fd: &OwnedFd) -> io::Result<u64> {
    let stat = rustix::fs::fstat(fd)?;
    let is_socket = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Socket;
    if is_socket { Ok(stat.st_ino) } else { error(libc::ENOTSOCK) }
}

/// The number of a thread in the PID namespace of another; 0 if it is not there.
fn as_seen_by(other: pid_t, tid: pid_t) -> u32 {
    let numbers = |tid: pid_t| -> Vec<u32> {
        let line = status_text(tid, "NSpid:").unwrap_or_default();
        line.split_whitespace().filter_map(|number| number.parse().ok()).collect()
    };
    let depth = numbers(other).len();
    depth.checked_sub(1).and_then(|at| numbers(tid).get(at).copied()).unwrap_or(0)
}
