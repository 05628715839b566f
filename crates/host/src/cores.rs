//! The processors of this machine, and which of them a thread runs on.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that the calling thread may use, in the order of their numbers.
pub fn usable() -> io::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect())
}

/// How many cores this machine has, whichever of them the caller may use.
pub fn count() -> usize {
    // SAFETY: sysconf takes a number and touches no memory of ours.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// Runs the calling thread, and what it starts from now on, on one core only. Makes one system call: may run between
/// fork and exec.
pub fn pin(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

/// Has a command, when it is started, run on one core only, with all that it starts.
pub fn pin_command(command: &mut Command, core: usize) {
    // SAFETY: between fork and exec this makes one system call, on a set that lives on the stack; it takes no lock and
    // allocates nothing.
    unsafe { command.pre_exec(move || pin(core)) };
}

/// Runs the calling thread on any core but `core`: one of those that it may use now, or else any.
pub fn avoid(core: usize) -> io::Result<()> {
    let mut set = sched_getaffinity(None)?;
    set.unset(core);
    if set.count() == 0 {
        (0..count()).filter(|other| *other != core).for_each(|other| set.set(other));
    }
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_where_it_is_told() {
        // A thread of its own: where it runs must not stay with the other tests.
        let tried = || {
            let all = usable().unwrap();
            assert!(!all.is_empty() && count() >= all.len());
            pin(all[0]).unwrap();
            assert_eq!(usable().unwrap(), all[..1]);
            let mut command = Command::new("nproc");
            pin_command(&mut command, all[0]);
            assert_eq!(command.output().unwrap().stdout, b"1\n");
            if count() > 1 {
                avoid(all[0]).unwrap();
                assert!(!usable().unwrap().contains(&all[0]), "the only core that it had is left for others");
            }
            assert!(pin(usize::MAX).is_err() && pin(CpuSet::MAX_CPU - 1).is_err(), "there is no such core");
        };
        std::thread::spawn(tried).join().unwrap();
    }
}
