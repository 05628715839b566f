//! Names and places of the kernel's files for control groups, in either version: the only file of
//! Diorama that knows.
//!
//! Version 1, also beside version 2 (hybrid); and version 2 where it has the controllers. There, one hierarchy counts
//! and divides, and a group passes on to those below it what is switched on in it.

use std::fs::{self, File, OpenOptions};
use std::path::Path;

use crate::error::Error;

/// Where a program in a node finds the groups that it is in.
pub const NODE_VIEW: &str = "/sys/fs/cgroup";
/// How a user sees whether a group of version 1 leaves any time to real-time threads.
pub const REAL_TIME_BUDGET: &str = "cat /sys/fs/cgroup/cpu/cpu.rt_runtime_us";
/// Where version 2 is mounted beside version 1.
pub(super) const SECOND_BESIDE_FIRST: &str = "/sys/fs/cgroup/unified";

/// Who is in a group, by process; in both versions.
pub(super) const MEMBERS: &str = "cgroup.procs";

/// Version 1: the period of a cap and how much of it may be used, in us.
pub(super) const CAP: [&str; 2] = ["cpu.cfs_period_us", "cpu.cfs_quota_us"];
/// Version 1, where it divides real time among groups: for how much of each second tasks may be real-time ones, in us.
pub(super) const REAL_TIME: &str = "cpu.rt_runtime_us";
/// Version 2: both, the other way round.
pub(super) const CAP_2: &str = "cpu.max";
/// Version 1: CPU time by core, in ns.
pub(super) const USAGE_BY_CORE: &str = "cpuacct.usage_percpu";
/// Who was killed for want of memory, in version 1 and in version 2.
pub(super) const OUT_OF_MEMORY: [&str; 2] = ["memory.oom_control", "memory.events"];
/// The limit on memory, in version 1 and in version 2, and what is in use.
pub(super) const MEMORY_LIMIT: [&str; 2] = ["memory.limit_in_bytes", "memory.max"];
pub(super) const MEMORY_USED: [&str; 2] = ["memory.usage_in_bytes", "memory.current"];
/// Version 1: the limit on memory and swap together, where the kernel keeps one.
pub(super) const SWAP_LIMIT: &str = "memory.memsw.limit_in_bytes";

/// Version 1: the limit on what waits in sockets, of TCP and of all others that count their memory.
pub(super) const SOCKETS_LIMIT: &str = "memory.kmem.tcp.limit_in_bytes";

/// Version 2: what the root or a group has, and what it passes on.
pub(super) const OFFERED: &str = "cgroup.controllers";
/// How threads may be in a group of version 2; of the root nothing is said.
pub(super) const KIND: &str = "cgroup.type";
pub(super) const PASSED_ON: &str = "cgroup.subtree_control";
/// On the root of version 2, an extended attribute: what it passed on before there was any tree. What it passes on
/// beyond that is switched off with the last one: the OCI runtime switches on more than nodes need.
pub(super) const PASSED_ON_BEFORE: &str = "user.diorama.passed_on_before";

/// The controllers that systemd switches on for its units, and off. Of others it knows nothing.
pub(super) const OF_SYSTEMD: [&str; 5] = ["cpu", "cpuset", "io", "memory", "pids"];

/// Version 2: the processors that a group and those above it may have for themselves, and whether it does.
pub(super) const EXCLUSIVE: &str = "cpuset.cpus.exclusive";
pub(super) const PARTITION: &str = "cpuset.cpus.partition";

/// The most processes and threads of a group, in both versions.
pub(super) const MOST_PROCESSES: &str = "pids.max";

/// Where the scheduler tells how long tasks ran on each core.
pub(super) const SCHEDULER: &str = "/proc/schedstat";

/// Version 2: whether all processes of a group and those below are to stop, and where it says that they have.
pub(super) const FREEZE: &str = "cgroup.freeze";
pub(super) const FROZEN: &str = "cgroup.events";

/// How version 1 stops processes.
pub(super) struct Freezer {
    pub controller: &'static str,
    pub file: &'static str,
    pub frozen: &'static str,
    pub thawed: &'static str,
}
pub(super) const FREEZER: Freezer =
    Freezer { controller: "freezer", file: "freezer.state", frozen: "FROZEN", thawed: "THAWED" };

/// The controllers of version 1 that a node needs.
pub(super) const CONTROLLERS: [&str; 6] = ["cpu", "cpuacct", "cpuset", "devices", "memory", "pids"];
/// Those of version 2, which counts CPU time anyhow and has programs for devices.
pub(super) const CONTROLLERS_2: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// Which of the two a hierarchy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    First,
    Second,
}

impl Version {
    /// Who is in a group, by thread.
    pub(super) fn threads(self) -> &'static str {
        match self {
            Version::First => "tasks",
            Version::Second => "cgroup.threads",
        }
    }

    pub(super) fn weight(self) -> &'static str {
        match self {
            Version::First => "cpu.shares",
            Version::Second => "cpu.weight",
        }
    }

    pub(super) fn usage(self) -> &'static str {
        match self {
            Version::First => "cpuacct.usage",
            Version::Second => "cpu.stat",
        }
    }
}

pub(super) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|e| Error::file("read", path, e))
}

pub(super) fn write(path: &Path, value: &str) -> Result<(), Error> {
    fs::write(path, value).map_err(|e| Error::file(&format!("write {value} to"), path, e))
}

pub(super) fn open_for_writing(path: &Path) -> Result<File, Error> {
    OpenOptions::new().write(true).open(path).map_err(|e| Error::file("open", path, e))
}
