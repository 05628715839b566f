//! Found on the machine during a run: threads that are not its own, and settings that are not what they seem.

use serde::{Deserialize, Serialize};

/// A thread of a process that is not the run's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignThread {
    /// Its process.
    pub pid: u32,
    /// The thread itself.
    pub tid: u32,
    /// Its name as `ps` shows it.
    pub name: String,
    /// The core it was last on.
    pub core: usize,
    /// Its CPU time, ns.
    pub ns: u64,
    /// The time for which it was ready to run and did not, ns.
    pub waited_ns: u64,
}

/// A setting of the kernel that a node's program made, and that is now something else than it believes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UntrueSetting {
    /// Whose program.
    pub node: String,
    /// Which setting.
    pub what: String,
    /// It is as large as the kernel takes it, and not as large as it should be; else it was not translated at all.
    pub cut: bool,
}
