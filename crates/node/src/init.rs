//! The first process of a run's PID namespace (the hidden verb `__init`).
//!
//! It mounts the namespace's own `/proc`, reaps whatever is orphaned there (the container of a node,
//! once the runtime that made it has exited) and reports each as a record `(pid, wait status)`. It
//! dies with the engine, by PDEATHSIG or by the end of the socket, and the kernel then kills every
//! other process of the namespace.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::MountFlags;
use rustix::process::{WaitOptions, wait};

/// The descriptor on which [`init_main`] finds its socket.
const SOCKET: i32 = 3;

/// A record of the reaper: the process, as the run's PID namespace numbers it, and its wait status.
///
/// The first record is `(0, 0)` when the namespace is ready, or `(0, errno)`.
pub(crate) type Record = [u8; 8];

pub(crate) fn encode(pid: i32, status: i32) -> Record {
    let mut record = [0; 8];
    record[..4].copy_from_slice(&pid.to_ne_bytes());
    record[4..].copy_from_slice(&status.to_ne_bytes());
    record
}

pub(crate) fn decode(record: &Record) -> (i32, i32) {
    let [a, b, c, d, e, f, g, h] = *record;
    (i32::from_ne_bytes([a, b, c, d]), i32::from_ne_bytes([e, f, g, h]))
}

/// The hidden verb `__init`: PID 1 of a run, with its socket as descriptor 3. Never returns.
pub fn init_main() -> ! {
    // SAFETY: the enclosure passes the socket as this descriptor and nothing in this process owns it.
    let mut socket = unsafe { UnixStream::from_raw_fd(SOCKET) };
    let code = match prepare() {
        Ok(children) => match socket.write_all(&encode(0, 0)).and_then(|()| reap(&mut socket, &children)) {
            Ok(()) => 0,
            Err(_) => 1,
        },
        Err(e) => {
            let _ = socket.write_all(&encode(0, e.raw_os_error().unwrap_or(libc::EIO)));
            1
        }
    };
    std::process::exit(code)
}

/// Ties this process to the engine's life and gives the namespace its `/proc`; gives a signalfd for SIGCHLD.
fn prepare() -> io::Result<OwnedFd> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // Anything else that was inherited is not ours to keep open.
    // SAFETY: this process has just begun and owns no descriptor above its socket.
    unsafe { libc::close_range(SOCKET as u32 + 1, u32::MAX, 0) };
    if rustix::process::getpid() != rustix::process::Pid::INIT {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("proc", "/proc", "proc", flags, None)?;
    // SAFETY: plain C structs, initialised by sigemptyset before use; signalfd takes no ownership.
    unsafe {
        let mut children: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut children);
        libc::sigaddset(&mut children, libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, &children, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = libc::signalfd(-1, &children, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// Reports every orphan that ends, until the engine closes its end of the socket.
fn reap(socket: &mut UnixStream, children: &OwnedFd) -> io::Result<()> {
    loop {
        let mut waiting = [PollFd::new(children, PollFlags::IN), PollFd::new(&*socket, PollFlags::IN)];
        match poll(&mut waiting, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        if !waiting[1].revents().is_empty() {
            let mut byte = [0];
            if socket.read(&mut byte)? == 0 {
                return Ok(());
            }
        }
        // SAFETY: the buffer is large enough for one record, and any bytes are a valid value of it.
        unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            libc::read(children.as_raw_fd(), (&raw mut info).cast(), size_of_val(&info));
        }
        // Signals merge, so that one may stand for many children.
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            socket.write_all(&encode(pid.as_raw_nonzero().get(), status.as_raw()))?;
        }
    }
}
