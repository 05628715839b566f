//! Starting a command under dilation as a child of this process.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};

use rustix::fs::MemfdFlags;

use crate::Error;
use crate::layout::SOCKET;

/// `dilate-exec`: a static program of a few KiB. `dilate-exec -- COMMAND [ARG…]` executes COMMAND, dilated, found along
/// `PATH`; descriptor 3 must be what [`crate::Injector::admit`] gave. 125, 126 and 127 are its exit codes for its own
/// failure, for a command that cannot be executed, and for one that is not there.
pub const DILATE_EXEC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/dilate-exec"));

/// Where a node finds it.
pub const DILATE_EXEC_PATH: &str = "/.diorama/dilate-exec";

/// `dilate-exec` as a file without a name, for commands outside containers; execute `/proc/self/fd/N`.
pub fn dilate_exec_file() -> Result<OwnedFd, Error> {
    let what = "no memfd for dilate-exec";
    let memfd = rustix::fs::memfd_create("dilate-exec", MemfdFlags::CLOEXEC).map_err(Error::system(what))?;
    let mut file = File::from(memfd);
    file.write_all(DILATE_EXEC).map_err(Error::system(what))?;
    // Out of the way of number 3, which `launch` overwrites.
    rustix::io::fcntl_dupfd_cloexec(&file, SOCKET as i32 + 1).map_err(Error::system(what))
}

/// The command `dilate-exec -- COMMAND…`, with `admitted` as its descriptor 3. `exec` is [`dilate_exec_file`]'s and must
/// stay open until the command is spawned.
///
/// Do not use `output` or `wait` of the result but [`wait`]; see there.
pub fn launch<S: AsRef<OsStr>>(exec: BorrowedFd, admitted: OwnedFd, command: impl IntoIterator<Item = S>) -> Command {
    let mut launched = Command::new(format!("/proc/self/fd/{}", exec.as_raw_fd()));
    launched.arg0("dilate-exec").arg("--").args(command);
    // SAFETY: dup2 and fcntl are async-signal-safe, and nothing is allocated unless one fails.
    unsafe {
        launched.pre_exec(move || {
            let (from, to) = (admitted.as_fd().as_raw_fd(), SOCKET as i32);
            // dup2 onto itself would leave close-on-exec set.
            let done = if from == to { libc::fcntl(to, libc::F_SETFD, 0) } else { libc::dup2(from, to) };
            if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        });
    }
    launched
}

/// Waits for a dilated direct child of this process. `Child::wait` alone would take the ptrace stops that are meant for
/// the injector, a thread of this same process; a pidfd tells when only the exit is left to collect.
pub fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    use rustix::event::{PollFd, PollFlags, poll};
    let pid = rustix::process::Pid::from_child(child);
    let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    while let Err(rustix::io::Errno::INTR) = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], None) {}
    child.wait()
}
