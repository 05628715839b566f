//! Starting a process with an exact set of descriptors, without copying the engine's memory.
//!
//! `std::process::Command` can only pass descriptors beyond the standard three by way of a closure
//! after `fork`, and a fork of the engine costs its real-time threads page faults. `posix_spawn`
//! shares the memory until the exec instead.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

/// Variables of the engine's environment that are passed on to programs. A runtime becomes a node's program, and would
/// bring all others, passwords and descriptors to listen on, into the node.
const KEPT: [&str; 5] = ["HOME", "LANG", "LC_ALL", "PATH", "RUST_BACKTRACE"];

/// A child process of the engine that has not been waited for.
#[derive(Debug)]
pub(crate) struct Spawned(Pid);

impl Spawned {
    /// Waits for the process to end.
    pub(crate) fn wait(self) -> io::Result<ExitStatus> {
        loop {
            match waitpid(Some(self.0), WaitOptions::empty()) {
                Ok(Some((_, status))) => return Ok(exit_status(status)),
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Whether the process has ended; its status is then consumed.
    pub(crate) fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        Ok(waitpid(Some(self.0), WaitOptions::NOHANG)?.map(|(_, status)| exit_status(status)))
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(&self) -> io::Result<()> {
        Ok(rustix::process::kill_process(self.0, rustix::process::Signal::KILL)?)
    }
}

fn exit_status(status: WaitStatus) -> ExitStatus {
    ExitStatus::from_raw(status.as_raw())
}

/// Starts `argv` (a path, then arguments) so that its descriptor `i` is `fds[i]` and it has no others.
///
/// The child has an empty signal mask, default signal actions and its own process group, so that a
/// Ctrl-C at the terminal reaches the engine alone. Of the environment it has [`KEPT`].
pub(crate) fn spawn(argv: &[String], fds: &[BorrowedFd<'_>]) -> io::Result<Spawned> {
    let c_argv: Vec<CString> = argv.iter().map(|a| CString::new(a.as_str())).collect::<Result<_, _>>()?;
    let env: Vec<CString> = std::env::vars_os()
        .filter(|(name, _)| KEPT.iter().any(|kept| *kept == name))
        .filter_map(|(k, v)| CString::new([k.as_encoded_bytes(), b"=", v.as_encoded_bytes()].concat()).ok())
        .collect();
    let pointers = |v: &[CString]| -> Vec<*mut libc::c_char> {
        v.iter().map(|s| s.as_ptr().cast_mut()).chain([std::ptr::null_mut()]).collect()
    };
    let (argv_p, env_p) = (pointers(&c_argv), pointers(&env));

    // Copies above the target numbers, so that no dup2 overwrites a source that is still needed.
    let sources: Vec<OwnedFd> =
        fds.iter().map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, fds.len() as i32)).collect::<Result<_, _>>()?;

    let check = |code: libc::c_int| match code {
        0 => Ok(()),
        e => Err(io::Error::from_raw_os_error(e)),
    };
    // SAFETY: both objects are plain C structs that the init calls below fill in before any use;
    // every pointer handed over outlives the posix_spawn call.
    unsafe {
        let mut actions: libc::posix_spawn_file_actions_t = std::mem::zeroed();
        let mut attributes: libc::posix_spawnattr_t = std::mem::zeroed();
        check(libc::posix_spawn_file_actions_init(&mut actions))?;
        check(libc::posix_spawnattr_init(&mut attributes))?;
        let mut pid = 0;
        let outcome = (|| {
            for (target, source) in sources.iter().enumerate() {
                check(libc::posix_spawn_file_actions_adddup2(&mut actions, source.as_raw_fd(), target as i32))?;
            }
            let mut none: libc::sigset_t = std::mem::zeroed();
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::sigfillset(&mut all);
            check(libc::posix_spawnattr_setsigmask(&mut attributes, &none))?;
            check(libc::posix_spawnattr_setsigdefault(&mut attributes, &all))?;
            check(libc::posix_spawnattr_setpgroup(&mut attributes, 0))?;
            let flags = libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETPGROUP;
            check(libc::posix_spawnattr_setflags(&mut attributes, flags as libc::c_short))?;
            check(libc::posix_spawn(&mut pid, argv_p[0], &actions, &attributes, argv_p.as_ptr(), env_p.as_ptr()))
        })();
        libc::posix_spawn_file_actions_destroy(&mut actions);
        libc::posix_spawnattr_destroy(&mut attributes);
        outcome?;
        Pid::from_raw(pid).map(Spawned).ok_or_else(|| io::Error::other("posix_spawn gave no process"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_program_sees_little_of_the_engines_environment() {
        // Cargo sets it for tests.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some() && std::env::var_os("PATH").is_some());
        let (null, mut output) = (File::open("/dev/null").unwrap(), tempfile::tempfile().unwrap());
        let argv = ["/usr/bin/env".to_string()];
        let program = spawn(&argv, &[null.as_fd(), output.as_fd(), output.as_fd()]).unwrap();
        assert!(program.wait().unwrap().success());
        let mut text = String::new();
        output.rewind().unwrap();
        output.read_to_string(&mut text).unwrap();
        let names: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        assert!(names.contains(&"PATH") && names.iter().all(|name| KEPT.contains(name)), "{text}");
    }
}
