//! The processors of this machine, and which of them a thread runs on.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

use crate::{Error, Lack};

/// The cores that the calling thread may use, in the order of their numbers.
pub fn usable() -> io::Result<Vec<usize>> {
    of_allowed(None)
}

/// The cores that a thread of this machine may use, in the order of their numbers.
pub fn of_thread(thread: Pid) -> io::Result<Vec<usize>> {
    of_allowed(Some(thread))
}

fn of_allowed(thread: Option<Pid>) -> io::Result<Vec<usize>> {
    let allowed = sched_getaffinity(thread)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect())
}

/// How many cores this machine has, whichever of them the caller may use.
pub fn count() -> usize {
    // SAFETY: sysconf takes a number and touches no memory of ours.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// Where the kernel describes the processors.
const PROCESSORS: &str = "/sys/devices/system/cpu";

/// Finds that all of some cores are on line. What was pinned to one that is not any more is on others.
///
/// # Errors
///
/// [`Error::Machine`] if not, with how they come back.
pub fn on_line(cores: &[usize]) -> Result<(), Error> {
    let Ok(online) = std::fs::read_to_string(Path::new(PROCESSORS).join("online")) else { return Ok(()) };
    match off_line(cores, &online) {
        Some(lack) => Err(lack.into()),
        None => Ok(()),
    }
}

/// A sentence about those `cores` that are not in the kernel's list of those on line.
fn off_line(cores: &[usize], online: &str) -> Option<Lack> {
    let online = list(online.trim())?;
    let gone: Vec<usize> = cores.iter().copied().filter(|core| !online.contains(core)).collect();
    let back = gone.iter().map(|core| format!("`echo 1 > {PROCESSORS}/cpu{core}/online`"));
    let help = format!("run again when it is back: {}", back.collect::<Vec<_>>().join(", "));
    let were = if gone.len() == 1 { "was" } else { "were" };
    (!gone.is_empty()).then(|| Lack::new(format!("{} {were} taken off line", named(&gone)), help))
}

/// The processors that share the physical core of `core`, itself among them, in the order of their numbers.
///
/// # Errors
///
/// If the kernel does not say, as of a processor that is not there.
pub fn siblings(core: usize) -> Result<Vec<usize>, Error> {
    siblings_below(Path::new(PROCESSORS), core)
}

fn siblings_below(processors: &Path, core: usize) -> Result<Vec<usize>, Error> {
    let of = |name: &str| processors.join(format!("cpu{core}/topology/{name}"));
    // The second is what kernels before 5.2 call it.
    let path = Some(of("core_cpus_list")).filter(|path| path.exists()).unwrap_or_else(|| of("thread_siblings_list"));
    let text = std::fs::read_to_string(&path).map_err(|e| Error::file("read", &path, e))?;
    let wrong = || Error::system(format!("{} is no list", path.display()), io::ErrorKind::InvalidData);
    list(text.trim()).ok_or_else(wrong)
}

/// Groups processors by the physical core whose hyper-threads they are, each group in the order of its numbers and the
/// groups by their first. One of which the kernel does not say is a physical core of its own.
pub fn by_physical_core(processors: &[usize]) -> Vec<Vec<usize>> {
    grouped_below(Path::new(PROCESSORS), processors)
}

fn grouped_below(root: &Path, processors: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for &core in processors.iter().collect::<BTreeSet<_>>() {
        let siblings = siblings_below(root, core).unwrap_or_else(|_| vec![core]);
        match groups.iter_mut().find(|group| siblings.contains(&group[0])) {
            Some(group) => group.push(core),
            None => groups.push(vec![core]),
        }
    }
    groups
}

/// Writes `0,2-3`, as the kernel writes sets of processors; `numbers` are in order.
pub fn listed(numbers: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let part = |(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
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

/// The name that this machine's processors give themselves, such as `AMD EPYC 7B13`; `None` if they do not say.
pub fn model() -> Option<String> {
    model_in(&std::fs::read_to_string("/proc/cpuinfo").ok()?)
}

fn model_in(cpuinfo: &str) -> Option<String> {
    let name = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.trim_start().strip_prefix(':'))?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// `core 3`, or `cores 0,2-4`, in whatever order they are given.
pub fn named(cores: &[usize]) -> String {
    let mut sorted = cores.to_vec();
    sorted.sort_unstable();
    format!("{} {}", if cores.len() == 1 { "core" } else { "cores" }, listed(&sorted))
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

/// Runs the calling thread, and what it starts from now on, on these cores only; there is at least one.
pub fn restrict(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    if cores.iter().any(|core| *core >= CpuSet::MAX_CPU) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    cores.iter().for_each(|core| set.set(*core));
    Ok(sched_setaffinity(None, &set)?)
}

/// Has a command, when it is started, run on these cores only, with all that it starts; there is at least one.
pub fn restrict_command(command: &mut Command, cores: &[usize]) {
    let cores = cores.to_vec();
    // SAFETY: between fork and exec this makes one system call, on a set that lives on the stack; it takes no lock and
    // allocates nothing.
    unsafe { command.pre_exec(move || restrict(&cores)) };
}

/// Runs the calling thread on any core but these: one of those that it may use now, or else any.
pub fn avoid(cores: &[usize]) -> io::Result<()> {
    let mut set = sched_getaffinity(None)?;
    cores.iter().filter(|core| **core < CpuSet::MAX_CPU).for_each(|core| set.unset(*core));
    if set.count() == 0 {
        (0..count()).filter(|other| !cores.contains(other)).for_each(|other| set.set(other));
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
    fn sets_of_processors_are_written_as_the_kernel_reads_them() {
        assert_eq!(listed(&[0, 2, 3, 4, 6, 7]), "0,2-4,6,7");
        assert_eq!((listed(&[5]), listed(&[])), ("5".into(), String::new()));
        assert_eq!((named(&[5]), named(&[4, 0, 2, 3])), ("core 5".into(), "cores 0,2-4".into()));
        assert_eq!(list(&listed(&[1, 2, 3, 9])), Some(vec![1, 2, 3, 9]));
    }

    #[test]
    fn who_lost_a_core_is_told_how_it_comes_back() {
        assert_eq!(off_line(&[0, 1], "0-3\n"), None);
        assert_eq!(off_line(&[0, 1], ""), None, "nothing is said");
        let lack = off_line(&[1, 2, 3], "0,3\n").unwrap();
        assert_eq!(lack.what, "cores 1,2 were taken off line");
        assert!(lack.help.contains("`echo 1 > /sys/devices/system/cpu/cpu1/online`, `echo"), "{}", lack.help);
        assert!(off_line(&[2], "0-1").unwrap().what == "core 2 was taken off line");
        on_line(&usable().unwrap()).unwrap();
    }

    /// A machine whose processors have these siblings, in a file of this name.
    fn processors(name: &str, siblings: &[&str]) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("diorama-cores-{}-{name}", std::process::id()));
        for (core, siblings) in siblings.iter().enumerate() {
            let topology = root.join(format!("cpu{core}/topology"));
            std::fs::create_dir_all(&topology).unwrap();
            std::fs::write(topology.join(name), format!("{siblings}\n")).unwrap();
        }
        root
    }

    #[test]
    fn hyper_threads_are_grouped_by_their_physical_core() {
        // As clouds number them, and as most machines do.
        let beside = processors("core_cpus_list", &["0-1", "0-1", "2-3", "2-3"]);
        assert_eq!(grouped_below(&beside, &[0, 1, 2, 3]), [[0, 1], [2, 3]]);
        assert_eq!(grouped_below(&beside, &[3, 1]), [[1], [3]], "only what may be used");
        let apart = processors("thread_siblings_list", &["0,2", "1,3", "0,2", "1,3"]);
        assert_eq!(grouped_below(&apart, &[0, 1, 2, 3]), [[0, 2], [1, 3]]);
        assert_eq!(siblings_below(&apart, 3).unwrap(), [1, 3]);
        // Nothing is said of the last.
        assert_eq!(grouped_below(&apart, &[2, 4]), [[2], [4]]);
        std::fs::write(apart.join("cpu0/topology/thread_siblings_list"), "all").unwrap();
        assert!(siblings_below(&apart, 0).unwrap_err().to_string().contains("is no list"));
        [beside, apart].iter().for_each(|root| std::fs::remove_dir_all(root).unwrap());
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
                avoid(&all[..1]).unwrap();
                assert!(!usable().unwrap().contains(&all[0]), "the only core that it had is left for others");
                restrict(&all).unwrap();
                assert_eq!(usable().unwrap(), all);
                avoid(&all[1..]).unwrap();
                assert_eq!(usable().unwrap(), all[..1]);
            }
            assert!(restrict(&[usize::MAX]).is_err() && restrict(&[]).is_err());
            assert!(pin(usize::MAX).is_err() && pin(CpuSet::MAX_CPU - 1).is_err(), "there is no such core");
        };
        std::thread::spawn(tried).join().unwrap();
    }
}
