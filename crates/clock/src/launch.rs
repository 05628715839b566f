//! Starting a command under dilation as a child of this process.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};

use rustix::fs::MemfdFlags;

use crate::Error;

/// `dilate-exec`: a static program of a few KiB. `dilate-exec [--fd N] -- COMMAND [ARG…]` executes COMMAND, dilated,
/// found along `PATH`; descriptor N, or 3, must be what [`crate::Injector::admit`] gave. With `--native` in place of
/// `--fd N` it is not dilated. With `--wait N` before, that happens when a byte comes from descriptor N. With `--looks`
/// COMMAND lives by the clock of a node, and looks that find nothing (`poll` with a time-out of 0) wait for the run's
/// clock where the node's is ahead. 125, 126 and 127 are its exit codes for its own failure, for a command that cannot
/// be executed, and for one that is not there.
pub const DILATE_EXEC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/dilate-exec"));

/// Where a node finds it.
pub const DILATE_EXEC_PATH: &str = "/.diorama/dilate-exec";

/// `dilate-exec` as a file without a name, for commands outside containers; execute `/proc/self/fd/N`.
pub fn dilate_exec_file() -> Result<OwnedFd, Error> {
    let what = "no memfd for dilate-exec";
    let memfd = rustix::fs::memfd_create("dilate-exec", MemfdFlags::CLOEXEC).map_err(Error::system(what))?;
    let mut file = File::from(memfd);
    file.write_all(DILATE_EXEC).map_err(Error::system(what))?;
    Ok(file.into())
}

/// The command `dilate-exec --fd N -- COMMAND…`, N being the number of `admitted`, which here is nobody else's:
/// whatever descriptors the caller leaves open, COMMAND finds them. `exec` is [`dilate_exec_file`]'s and must stay open
/// until the command is spawned.
///
/// Do not use `output` or `wait` of the result but [`wait`]; see there.
pub fn launch<S: AsRef<OsStr>>(exec: BorrowedFd, admitted: OwnedFd, command: impl IntoIterator<Item = S>) -> Command {
    launch_by(exec, admitted, &[], command)
}

/// [`launch()`] with further options of [`DILATE_EXEC`].
pub fn launch_by<S: AsRef<OsStr>>(
    exec: BorrowedFd,
    admitted: OwnedFd,
    options: &[&str],
    command: impl IntoIterator<Item = S>,
) -> Command {
    let mut launched = Command::new(format!("/proc/self/fd/{}", exec.as_raw_fd()));
    let number = admitted.as_raw_fd().to_string();
    launched.arg0("dilate-exec").args(options).args(["--fd", &number, "--"]).args(command);
    // SAFETY: fcntl is async-signal-safe, and nothing is allocated unless it fails.
    unsafe {
        // Only in the child, so that no other child of this process inherits it.
        launched.pre_exec(move || match libc::fcntl(admitted.as_raw_fd(), libc::F_SETFD, 0) {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
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
