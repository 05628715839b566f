//! CPU shares that a node can neither exceed nor lose: a burst of work takes as long, in virtual time,
//! as on the target.
//!
//! DieCast scaled a guest's CPU with a credit scheduler that was told not to redistribute idle time
//! (Gupta et al., *DieCast: Testing Distributed Systems with an Accurate Scale Model*, NSDI 2008,
//! §3.3). A stock Linux kernel has no such mode with short slices: CFS quota lets a burst run at full
//! speed until the quota is used up. Here whatever nodes leave unused of a core is burnt by an idle burner,
//! so no sibling profits, the kernel's fair scheduler rotates all groups, and each node has a clock that
//! follows its work. `docs/cpu.md` has the whole story.
//!
//! `share` is what nodes have bought and the groups for that, `keeper` the process that keeps it, `measure` how
//! fast a core is and who used it. This room knows only real time: the shares it gets are already divided by the TDF.

mod keeper;
mod measure;
mod node_clock;
mod share;

pub use counters::{CoreWork, Speed};
pub use keeper::process::main as keeper_main;
pub use measure::caches::main as caches_main;
pub use measure::sample::{Calibration, NodeUse, Sample};
pub use measure::{caches, meter, probe};
pub use node_clock::{BUCKETS, NodeClocks, NodeTimes};
pub use share::{
    CpuGroups, CpuMeters, DEFAULT_GAIN, DEFAULT_SLICE, Exclusive, Limit, NodeJoiner, PLANNED_USABLE, Pace, Terms,
    USUALLY_USABLE, best_policy, limit_this, rounding, stale_limits, why_shared,
};

use serde::{Deserialize, Serialize};

/// A node's share of its core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeShare {
    /// The node's name; becomes the name of its group.
    pub name: String,
    /// The number of the core on which it runs.
    pub core: usize,
    /// Fraction of that core in real time that all of its CPUs have together, above 0 and at most [`PLANNED_USABLE`].
    pub share: f64,
    /// How many CPUs it has.
    #[serde(default = "one")]
    pub cpus: u32,
    /// Its cores under [`Policy::WholeCores`]; else none.
    #[serde(default)]
    pub whole_cores: Vec<usize>,
}

fn one() -> u32 {
    1
}

impl NodeShare {
    /// A node.
    pub fn new(name: impl Into<String>, core: usize, share: f64) -> NodeShare {
        NodeShare { name: name.into(), core, share, cpus: one(), whole_cores: Vec::new() }
    }

    /// The node with so many CPUs, between which the share is divided.
    pub fn with_cpus(self, cpus: u32) -> NodeShare {
        NodeShare { cpus: cpus.max(1), ..self }
    }

    /// The node with these cores to itself.
    pub fn on_whole_cores(self, whole_cores: Vec<usize>) -> NodeShare {
        NodeShare { whole_cores, ..self }
    }

    /// The fraction of its core that one of its CPUs has.
    pub fn share_of_cpu(&self) -> f64 {
        self.share / f64::from(self.cpus)
    }
}

/// How shares are enforced.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Always-runnable groups: exact at every length of burst.
    Slots,
    /// CFS bandwidth control per node: exact over a second, wrong for bursts (the run is suspect).
    Quota,
    /// All nodes share one parent that is capped at this fraction of a core: multiplexing without
    /// dilation, as in DieCast's "No DieCast". Each is on its own core all the same.
    Pool {
        /// Fraction of a core that all nodes have together; more than 1 on several cores.
        cap: f64,
    },
    /// Every node has cores of its own, all of them, or as much as a CFS quota leaves of them where it is slower.
    WholeCores,
}

/// Why CPU shares could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller asks for something that cannot be.
    #[error("{0}")]
    Input(String),
    /// The machine lacks or already uses something.
    #[error(transparent)]
    Machine(#[from] host::Lack),
    /// A file of the kernel's control groups could not be read or written.
    #[error("{what}: {source}")]
    Io {
        /// The operation and the file.
        what: String,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// The kernel does not keep the clocks of nodes.
    #[error("the clocks of nodes: {0}")]
    Clocks(String),
    /// The process that keeps the shares failed or ended.
    #[error("the process that keeps the nodes' CPU shares failed: {0}")]
    Keeper(String),
}

impl From<host::Error> for Error {
    fn from(error: host::Error) -> Error {
        match error {
            host::Error::Input(text) => Error::Input(text),
            host::Error::Machine(lack) => Error::Machine(lack),
            host::Error::System { what, source } => Error::Io { what, source },
        }
    }
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let what = format!("cannot {}", what.into());
        move |source| Error::Io { what, source }
    }
}
