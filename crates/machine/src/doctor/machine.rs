//! The machine and the user's rights on it.

use std::fs;

use device::Transport;
use guest::{Arch, OLDEST_QEMU};
use host::cgroup::Tree;
use host::cores::{by_physical_core, listed, named};
use host::reclaim::IdleMemory;
use node::Runtime;
use plan::Supply;
use site::CoreChoice;

use super::Finding;
use super::kernel::set_for;
use crate::facts::supply_among;
use crate::guests;

/// Rights that a run uses, by their bits in `CapEff`.
const NEEDED: [(u32, &str); 12] = [
    (0, "CHOWN"),
    (1, "DAC_OVERRIDE"),
    (3, "FOWNER"),
    (5, "KILL"),
    (6, "SETGID"),
    (7, "SETUID"),
    (8, "SETPCAP"),
    (12, "NET_ADMIN"),
    (19, "SYS_PTRACE"),
    (21, "SYS_ADMIN"),
    (23, "SYS_NICE"),
    (27, "MKNOD"),
];

pub(super) fn findings() -> Vec<Finding> {
    vec![
        architecture(),
        rights(),
        cores(),
        alone(),
        siblings(),
        memory(),
        idle_memory(),
        runtime(),
        disks(),
        whole_machines(),
        state(),
        open_files(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn architecture() -> Option<Finding> {
    let found = std::env::consts::ARCH;
    Some(match found {
        "x86_64" => Finding::ok("processor", found, "time can be dilated"),
        _ => Finding::lacking("processor", found, "time can be dilated on x86-64 only: use such a machine"),
    })
}

fn rights() -> Option<Finding> {
    let held = status_field("CapEff").and_then(|v| u64::from_str_radix(&v, 16).ok()).unwrap_or(0);
    let lacking: Vec<_> = NEEDED.iter().filter(|(bit, _)| held >> bit & 1 == 0).map(|(_, name)| *name).collect();
    let who = if rustix::process::geteuid().is_root() { "root" } else { "not root" };
    Some(if lacking.is_empty() {
        Finding::ok("rights", who, "all capabilities that a run uses")
    } else {
        let says = format!(
            "no capability {}: run as root (`sudo diorama …`); `diorama dilate` without --cpu needs no rights",
            lacking.join(", ")
        );
        Finding::lacking("rights", who, says)
    })
}

fn cores() -> Option<Finding> {
    let usable = host::cores::usable().unwrap_or_default();
    let found = usable.len().to_string();
    Some(match supply_among(&usable, &CoreChoice::default()) {
        Ok(supply) => Finding::ok("cores", found, who_has(&supply)),
        Err(_) => {
            let says = "a run needs two, one for the nodes and one for the harness: see `taskset -p $$`";
            Finding::lacking("cores", found, says)
        }
    })
}

/// Which cores a run uses for what.
fn who_has(supply: &Supply) -> String {
    match &supply.nodes[..] {
        [first, others @ ..] if !others.is_empty() => format!(
            "nodes on core {first}, and where a run needs more on {}; emulator and engine on {}",
            named(others),
            named(&supply.harness)
        ),
        _ => "one for the nodes, one for the emulator and the engine".into(),
    }
}

/// Whether nodes have their cores to themselves, and who has any now.
fn alone() -> Option<Finding> {
    let name = "nodes' cores";
    let held = |tree: &Tree| Some(format!("{} of run {}", tree.held()?, tree.id()));
    let held: Vec<_> = Tree::all().unwrap_or_default().iter().filter_map(held).collect();
    if !held.is_empty() {
        // As root, what a killed run had was given back before this was looked at.
        let says =
            "belong to its nodes alone until it ends; where it was killed, the next command of root gives them back";
        return Some(Finding::ok(name, held.join(", "), says));
    }
    let usable = host::cores::usable().unwrap_or_default();
    let nodes = supply_among(&usable, &CoreChoice::default()).ok()?.nodes;
    Some(match cpu::why_shared(&nodes) {
        None => Finding::ok(name, "alone", "no other program can be on those that a run's nodes have"),
        Some(why) => {
            let says = format!("other programs can be on them, though the nodes outweigh them: {why}");
            Finding::ok(name, "shared", says)
        }
    })
}

/// Which cores share the execution units of one.
fn siblings() -> Option<Finding> {
    let usable = host::cores::usable().ok()?;
    judged_siblings(&by_physical_core(&usable))
}

fn judged_siblings(physical: &[Vec<usize>]) -> Option<Finding> {
    let pairs: Vec<String> = physical.iter().filter(|threads| threads.len() > 1).map(|t| listed(t)).collect();
    Some(match physical {
        [] => return None,
        [threads] if threads.len() > 1 => {
            let says = format!(
                "cores {} are threads of one core: the harness's work slows the nodes'; \
                 `echo off > /sys/devices/system/cpu/smt/control`",
                threads.iter().map(usize::to_string).collect::<Vec<_>>().join(" and ")
            );
            Finding::degraded("hyper-threads", pairs.concat(), says)
        }
        _ if !pairs.is_empty() => {
            let says = "threads of one core each: a run uses one of them, and whatever runs on the other slows it; \
                        with `--siblings` it uses both";
            Finding::ok("hyper-threads", pairs.join(" "), says)
        }
        _ => Finding::ok(
            "hyper-threads",
            "apart",
            match physical.len() {
                0..=2 => "the first two cores are cores of their own, as far as this machine tells",
                _ => "all cores are cores of their own, as far as this machine tells",
            },
        ),
    })
}

fn memory() -> Option<Finding> {
    let gib = host::memory::Memory::read()?.available as f64 / (1 << 30) as f64;
    let found = format!("{gib:.1} GiB free");
    Some(if gib < 1.0 {
        Finding::degraded("memory", found, "nodes that fill their memory will make the machine swap or kill them")
    } else {
        Finding::ok("memory", found, "shared by the nodes; a plan does not sum up what they may use")
    })
}

/// Memory that is not used for so long, in real time, is paged out.
fn idle_memory() -> Option<Finding> {
    let IdleMemory { goes_after, set_by, settable } = host::reclaim::idle_memory()?;
    let (name, found) = ("idle memory", format!("goes after {goes_after}"));
    let what = "what is not used for so long is paged out (DAMON)";
    let says = match (settable, &set_by[..]) {
        (Ok(()), []) => format!("{what}: a dilated run has that take TDF times as long, and sets it back at its end"),
        (Ok(()), holders) => format!("{what}, {}", set_for(holders, "it")),
        (Err(e), _) => {
            let says = format!(
                "{what}, in real time: under dilation nodes lose what is in their page caches TDF times too soon, and \
                 read it again: {e}"
            );
            return Some(Finding::degraded(name, found, says));
        }
    };
    Some(Finding::ok(name, found, says))
}

fn runtime() -> Option<Finding> {
    let names: Vec<_> = Runtime::available().iter().map(|r| format!("{} {}", r.name(), r.version())).collect();
    Some(match Runtime::detect() {
        Ok(runtime) if runtime.name() == "crun" => Finding::ok("runtime", names.join(", "), "crun makes the nodes"),
        Ok(runtime) => {
            let says =
                format!("{} makes the nodes, in three times the time of crun: `apt-get install crun`", runtime.name());
            Finding::degraded("runtime", names.join(", "), says)
        }
        Err(error) => Finding::lacking("runtime", "none", error.to_string()),
    })
}

/// The transport of the nodes' disks.
fn disks() -> Option<Finding> {
    let mut lacks = device::lacks();
    if lacks.is_empty() {
        return Some(Finding::ok(
            "disks",
            format!("{}, ext4", Transport::likely()),
            "nodes can have disks that take the time of their models",
        ));
    }
    let first = lacks.remove(0);
    let says = format!("nodes cannot have disks of their own (`disk:`): {}", first.help);
    Some(Finding::degraded("disks", first.what, says))
}

/// Processors that nodes can have which are whole machines.
fn whole_machines() -> Option<Finding> {
    let all = [Arch::X86, Arch::Arm, Arch::Riscv];
    Some(judged_machines(&all.map(|arch| (arch, guests::version(arch)))))
}

fn judged_machines(all: &[(Arch, Option<[u32; 2]>)]) -> Finding {
    let found = all.iter().filter_map(|(arch, version)| {
        let [major, minor] = (*version)?;
        Some(format!("{} (QEMU {major}.{minor})", arch.name()))
    });
    let found: Vec<_> = found.collect();
    let right = |version: &Option<[u32; 2]>| version.is_some_and(|version| version >= OLDEST_QEMU);
    let lacking = all.iter().filter(|(_, version)| !right(version)).map(|(arch, _)| arch.package());
    let lacking: Vec<_> = lacking.collect();
    let says = match (lacking.is_empty(), found.is_empty()) {
        (true, _) => "nodes can be whole machines (`guest:`), emulated".to_owned(),
        (_, true) => format!("nodes cannot be whole machines (`guest:`): `apt-get install {}`", lacking.join(" ")),
        _ => format!(
            "nodes can be whole machines (`guest:`), emulated; for others, of QEMU 7.2 or newer: `apt-get install {}`",
            lacking.join(" ")
        ),
    };
    Finding::ok("guests", if found.is_empty() { "none".into() } else { found.join(", ") }, says)
}

/// Where the nodes' files are kept while they run.
fn state() -> Option<Finding> {
    let place = ["/var/lib/diorama", "/var/lib", "/"].into_iter().find(|p| fs::exists(p).unwrap_or(false))?;
    let stat = rustix::fs::statvfs(place).ok()?;
    let gib = (stat.f_bavail * stat.f_frsize) as f64 / (1u64 << 30) as f64;
    let found = format!("{gib:.1} GiB free");
    Some(if gib < 1.0 {
        Finding::degraded("disk", found, format!("{place} holds what the nodes write: make room (`df -h {place}`)"))
    } else {
        Finding::ok("disk", found, format!("{place} holds what the nodes write, and the files behind their disks"))
    })
}

fn open_files() -> Option<Finding> {
    // A run takes as many as it may.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX);
    Some(if limit < 4096 {
        Finding::degraded("open files", limit.to_string(), "too few for hundreds of nodes: `ulimit -Hn 65536`")
    } else {
        Finding::ok("open files", limit.to_string(), "a run uses about ten a node")
    })
}

/// A line of this process's own status.
fn status_field(name: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':').map(|v| v.trim().to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn it_is_said_which_cores_do_what() {
        let of = |cores: usize| {
            let physical = (0..cores).map(|core| vec![core]).collect();
            who_has(&Supply::of(physical, &CoreChoice::default()).unwrap())
        };
        assert_eq!(of(2), "one for the nodes, one for the emulator and the engine");
        let eight = "nodes on core 0, and where a run needs more on cores 2-7; emulator and engine on core 1";
        assert_eq!(of(8), eight);
        assert!(of(12).ends_with("on cores 3-11; emulator and engine on cores 1,2"), "{}", of(12));
        assert!(of(3).contains("needs more on core 2;"), "{}", of(3));
    }

    #[test]
    fn it_is_said_which_machines_can_be_emulated_and_what_others_take() {
        let all = judged_machines(&[(Arch::X86, Some([7, 2])), (Arch::Arm, Some([10, 0]))]);
        assert_eq!(all.found, "x86_64 (QEMU 7.2), aarch64 (QEMU 10.0)");
        assert!(!all.says.contains("apt-get"), "{}", all.says);
        let one = judged_machines(&[(Arch::X86, Some([7, 2])), (Arch::Arm, Some([6, 2])), (Arch::Riscv, None)]);
        assert!(one.says.ends_with("`apt-get install qemu-system-arm qemu-system-misc`"), "{}", one.says);
        let none = judged_machines(&[(Arch::X86, None)]);
        assert!(none.found == "none" && none.says.starts_with("nodes cannot"), "{none:?}");
    }

    #[test]
    fn threads_of_one_core_are_named() {
        let of = |physical: &[Vec<usize>]| judged_siblings(physical).unwrap();
        let two = of(&[vec![0, 1]]);
        assert!(two.state == State::Degraded && two.says.starts_with("cores 0 and 1 are threads"), "{}", two.says);
        assert_eq!(two.found, "0,1");
        let four = of(&[vec![0, 4], vec![1, 5]]);
        assert_eq!((four.state, four.found.as_str()), (State::Ok, "0,4 1,5"));
        assert_eq!((of(&[vec![0], vec![1]]).found.as_str(), of(&[vec![0]]).state), ("apart", State::Ok));
        assert!(judged_siblings(&[]).is_none());
    }
}
