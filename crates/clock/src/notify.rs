//! Seccomp user notification: the kernel's structures and the four ioctls (`linux/seccomp.h`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `struct seccomp_notif` with its `struct seccomp_data`: a call that waits for an answer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Notification {
    pub id: u64,
    /// The calling thread, as this process's PID namespace numbers it; 0 if it is not visible there.
    pub pid: u32,
    flags: u32,
    pub nr: i32,
    arch: u32,
    instruction_pointer: u64,
    pub args: [u64; 6],
}

#[repr(C)]
struct Response {
    id: u64,
    val: i64,
    error: i32,
    flags: u32,
}

#[repr(C)]
struct AddFd {
    id: u64,
    flags: u32,
    srcfd: u32,
    newfd: u32,
    newfd_flags: u32,
}

pub(crate) const CONTINUE: u32 = 1;
/// The descriptor's number is the call's result, in one step (Linux 5.14).
pub(crate) const ADDFD_SEND: u32 = 2;

const fn request(direction: u64, number: u64, size: usize) -> libc::Ioctl {
    (direction << 30 | (size as u64) << 16 | (b'!' as u64) << 8 | number) as libc::Ioctl
}
const WRITE: u64 = 1;
const READ: u64 = 2;
const READ_WRITE: u64 = 3;
pub(crate) const RECV: libc::Ioctl = request(READ_WRITE, 0, size_of::<Notification>());
pub(crate) const SEND: libc::Ioctl = request(READ_WRITE, 1, size_of::<Response>());
pub(crate) const ID_VALID: libc::Ioctl = request(WRITE, 2, size_of::<u64>());
/// As the kernel's headers had it once, which programs still say.
pub(crate) const ID_VALID_BEFORE: libc::Ioctl = request(READ, 2, size_of::<u64>());
pub(crate) const SET_FLAGS: libc::Ioctl = request(WRITE, 4, size_of::<u64>());
pub(crate) const SYNC_WAKE_UP: u64 = 1;
pub(crate) const ADDFD: libc::Ioctl = request(WRITE, 3, size_of::<AddFd>());

/// Issues an ioctl until it is not interrupted.
fn ioctl<T>(listener: BorrowedFd, request: libc::Ioctl, argument: &mut T) -> io::Result<i32> {
    loop {
        // SAFETY: every request above names the size of the structure that its caller passes.
        let result = unsafe { libc::ioctl(listener.as_raw_fd(), request, std::ptr::from_mut(argument)) };
        if result >= 0 {
            return Ok(result);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Wakes each side on the other's core, as they take turns (Linux 6.6; without it they are merely slower).
pub(crate) fn take_turns(listener: BorrowedFd) {
    // SAFETY: the argument is a number.
    unsafe { libc::ioctl(listener.as_raw_fd(), SET_FLAGS, SYNC_WAKE_UP) };
}

/// Takes the next notification; `NotFound` if its thread was killed meanwhile.
pub(crate) fn receive(listener: BorrowedFd) -> io::Result<Notification> {
    let mut notification = Notification::default();
    ioctl(listener, RECV, &mut notification)?;
    Ok(notification)
}

/// Whether the thread still waits: after looking it up by its number, this tells that it was the right one.
pub(crate) fn still_waits(listener: BorrowedFd, mut id: u64) -> bool {
    ioctl(listener, ID_VALID, &mut id).is_ok()
}

/// Lets the kernel carry out the call.
pub(crate) fn let_go(listener: BorrowedFd, id: u64) -> io::Result<()> {
    ioctl(listener, SEND, &mut Response { id, val: 0, error: 0, flags: CONTINUE }).map(drop)
}

/// Makes the call fail with `errno`.
pub(crate) fn refuse(listener: BorrowedFd, id: u64, errno: i32) -> io::Result<()> {
    answer(listener, id, 0, -errno)
}

/// Answers the call with a result, or with an error, which is negative.
pub(crate) fn answer(listener: BorrowedFd, id: u64, val: i64, error: i32) -> io::Result<()> {
    ioctl(listener, SEND, &mut Response { id, val, error, flags: 0 }).map(drop)
}

/// Installs a close-on-exec copy of `fd` in the calling process; its number is what the call returns there.
pub(crate) fn give(listener: BorrowedFd, id: u64, fd: BorrowedFd) -> io::Result<()> {
    add(listener, id, fd, ADDFD_SEND, 0, libc::O_CLOEXEC as u32).map(drop)
}

/// Installs a copy as [`give`] does, while the call goes on waiting; gives its number.
pub(crate) fn install(listener: BorrowedFd, id: u64, fd: BorrowedFd) -> io::Result<u32> {
    add(listener, id, fd, 0, 0, libc::O_CLOEXEC as u32).map(|number| number as u32)
}

/// Installs a copy of `fd` as the flags of SECCOMP_IOCTL_NOTIF_ADDFD say; gives its number.
pub(crate) fn add(
    listener: BorrowedFd,
    id: u64,
    fd: BorrowedFd,
    flags: u32,
    newfd: u32,
    newfd_flags: u32,
) -> io::Result<i32> {
    let srcfd = fd.as_raw_fd() as u32;
    ioctl(listener, ADDFD, &mut AddFd { id, flags, srcfd, newfd, newfd_flags })
}
