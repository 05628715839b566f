//! The processors of this machine, and which of them a thread runs on.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

use crate::Error;

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

/// The processors that share the physical core of `core`, itself among them, in the order of their numbers.
pub fn siblings(core: usize) -> Result<Vec<usize>, Error> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    let text = std::fs::read_to_string(&path).map_err(|e| Error::file("read", Path::new(&path), e))?;
    list(text.trim()).ok_or_else(|| Error::system(format!("{path} is no list"), io::ErrorKind::InvalidData))
}

/// Reads `0,2-3`, as the kernel writes sets of processors.
fn list(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse().ok()?..=last.parse::<usize>().ok()?);
    }
    Some(all)
}

/// What the processors of this machine call themselves, such as `AMD EPYC 7B13`; `None` if they do not say.
pub fn model() -> Option<String> {
    model_in(&std::fs::read_to_string("/proc/cpuinfo").ok()?)
}

fn model_in(cpuinfo: &str) -> Option<String> {
    let name = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.trim_start().strip_prefix(':'))?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Runs the calling thread, and what it starts from now on, on one core only. Makes one system call: may run between
/// fork and exec.
pub fn pin(core: usize) -> io::Result<()> {
    pin_other(None, core)
}

/// Runs another thread, or the calling one, on that core only.
pub fn pin_other(thread: Option<Pid>, core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(thread, &set)?)
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
    fn sets_of_processors_are_read_as_the_kernel_writes_them() {
        assert_eq!(list("0"), Some(vec![0]));
        assert_eq!(list("1,3"), Some(vec![1, 3]));
        assert_eq!(list("0-1,4-6"), Some(vec![0, 1, 4, 5, 6]));
        for wrong in ["", "a", "1-", "-2", "1,,2"] {
            assert_eq!(list(wrong), None, "{wrong}");
        }
        let own = usable().unwrap()[0];
        assert!(siblings(own).unwrap().contains(&own));
        assert!(siblings(1 << 20).unwrap_err().to_string().contains("cpu1048576"));
    }

    #[test]
    fn the_model_is_that_of_the_first_processor() {
        let text = "processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7B13\n\nmodel name\t: another\n";
        assert_eq!(model_in(text).as_deref(), Some("AMD EPYC 7B13"));
        assert_eq!((model_in("processor: 0\n"), model_in("model name\t: \n")), (None, None));
    }

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
