//! The counters that a run is judged by, as they stood at one instant. Who reads them, and where, is not known here.

use std::collections::BTreeMap;

pub use ::counters::{CoreTicks, CoreWork, ForeignThread, Looks, TcpCounters};
use scale::RealInstant;

/// Everything that is counted, at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When.
    pub at: RealInstant,
    /// In the order of [`Monitor::new`](crate::monitor::Monitor::new).
    pub nodes: Vec<NodeCounters>,
    /// By core number.
    pub cores: Vec<CoreCounters>,
    /// The threads that are not the run's; empty if they were not listed this time.
    pub foreign: Vec<ForeignThread>,
    /// By core, the work of those that hold nodes; empty where it is not metered.
    pub core_work: BTreeMap<usize, CoreWork>,
    /// How often each node was looked through for senders that wait, since the last snapshot.
    pub looks: u64,
}

impl Snapshot {
    /// The right of a node with all of a core since `before`, as a multiple of the time: 1 where the core's
    /// work is not metered.
    pub(crate) fn pace_since(&self, before: &Snapshot, core: usize) -> f64 {
        let work = [before, self].map(|snapshot| snapshot.core_work.get(&core));
        let [Some(before), Some(after)] = work else { return 1.0 };
        let passed = after.at.since(before.at).as_nanos() as f64;
        if passed > 0.0 { after.owed_ns.saturating_sub(before.owed_ns) as f64 / passed } else { 1.0 }
    }
}

/// One node, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounters {
    /// When its CPU counters were read.
    pub at: RealInstant,
    /// CPU time of its programs, ns.
    pub container_ns: u64,
    /// CPU time that the core's burner burnt of its share while it slept, ns.
    pub unused_ns: u64,
    /// Real time in which all of its threads slept, ns; 0 where the kernel does not count it.
    pub slept_ns: u64,
    /// Wake-ups of its threads that could not be counted.
    pub uncounted: u64,
    /// Of its looks at sockets that found nothing.
    pub empty_looks: Looks,
    /// Its namespace's TCP; `None` if it could not be read this time.
    pub tcp: Option<TcpCounters>,
    /// Frames that the emulator never saw, had no memory for or could not hand over, over all its interfaces.
    pub ring_drops: u64,
    /// Frames dropped for want of memory, counted in these too.
    pub no_memory: u64,
}

impl NodeCounters {
    /// The CPU that a node with this share was entitled to since `before`, and what its programs used; ns.
    pub(crate) fn cpu_since(&self, before: &NodeCounters, share: f64) -> (f64, f64) {
        let entitled = share * self.at.since(before.at).as_nanos() as f64;
        (entitled, self.used_since(before) as f64)
    }

    /// The CPU time that its programs used since `before`, ns.
    pub(crate) fn used_since(&self, before: &NodeCounters) -> u64 {
        self.container_ns.saturating_sub(before.container_ns)
    }
}

/// One core, since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreCounters {
    /// CPU time of the run itself on this core: nodes, burners, emulator, engine; ns.
    pub run_ns: u64,
    /// CPU time of everything on this core, ns.
    pub all_ns: u64,
    /// Its line of `/proc/stat`.
    pub ticks: CoreTicks,
}
