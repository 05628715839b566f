//! The counters over a whole run: the worst interval of each quantity, and what grew by how much.

use scale::{RealDuration, VirtualDuration, VirtualInstant};

use crate::counters::TcpCounters;

/// The value of a quantity, where and when: in most places, the worst of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Occurrence {
    /// The quantity.
    pub value: f64,
    /// Which node or process it was, if one can be named.
    pub whose: Option<String>,
    /// When the interval began.
    pub from: VirtualInstant,
    /// When it ended.
    pub to: VirtualInstant,
}

/// The growth of the counters of one node's TCP during the run.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeTcp {
    /// The node.
    pub node: String,
    /// By how much each counter grew; `waiting` is how often a waiting sender was met.
    pub grew: TcpCounters,
    /// When a waiting sender was first met.
    pub first_waiting: Option<VirtualInstant>,
    /// When a SYN was first sent again or a connection first given up.
    pub first_hard: Option<VirtualInstant>,
}

/// The right of one node to its core.
#[derive(Clone, Debug, PartialEq)]
pub struct Entitled {
    /// The node.
    pub node: String,
    /// The number of the core on which it runs.
    pub core: usize,
    /// The fraction of that core in real time.
    pub share: f64,
    /// How many CPUs it has.
    pub cpus: u32,
}

/// The CPUs that the threads of one node wanted, and had.
#[derive(Clone, Debug, PartialEq)]
pub struct Parallelism {
    /// In a virtual second in which the node never slept, the CPU that it had, in per cent of what its threads
    /// wanted: the second furthest from 100.
    pub worst: Occurrence,
    /// How many CPUs its threads wanted on average in that second, and how many it has.
    pub wanted: (f64, u32),
    /// In how many such seconds of how many nodes.
    pub seconds: usize,
    /// Its mean over all those seconds, of the node that is furthest from 100.
    pub all: Occurrence,
}

/// A node that looked at sockets again and again, and found nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Spinning {
    /// The node.
    pub node: String,
    /// How many looks.
    pub looks: u64,
    /// By how much its clock was ahead of the run's in one, on average.
    pub ahead: RealDuration,
}

/// The CPU of one node over the whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeCpu {
    /// The node.
    pub node: String,
    /// The core that it was on.
    pub core: usize,
    /// Its share of that core.
    pub share: f64,
    /// The part of what it was entitled to that it used, 0 to 1.
    pub busy: f64,
    /// The CPU time that its programs used.
    pub used: RealDuration,
}

/// The observations of the whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observations {
    /// CPU of a node that always wanted it, in per cent of its entitlement: the interval furthest from 100. `None` if
    /// no node wanted its CPU for a whole interval.
    pub entitlement: Option<Occurrence>,
    /// In how many virtual seconds of how many nodes CPU was always wanted.
    pub entitled_intervals: usize,
    /// Its mean over all those intervals, of the node that is furthest from 100.
    pub entitled: Option<Occurrence>,
    /// Of nodes with several CPUs; `None` if none of them was awake for a whole interval.
    pub parallelism: Option<Parallelism>,
    /// The most wake-ups of threads that could not be counted, of a node with several CPUs; its name.
    pub uncounted: Option<(u64, String)>,
    /// The node that looked while it was furthest ahead, of those that spun.
    pub spinning: Option<Spinning>,
    /// The CPU of each node over the whole run, in the order of [`Monitor::new`](crate::monitor::Monitor::new).
    pub nodes: Vec<NodeCpu>,
    /// How long the run was.
    pub lasted: VirtualDuration,
    /// How many cores held nodes.
    pub nodes_cores: usize,
    /// Others' use of a core that holds nodes, per cent of the core; of several, where it was most.
    pub foreign_nodes: Option<Occurrence>,
    /// Its mean over the run; `None` if it was too short.
    pub foreign_nodes_percent: Option<f64>,
    /// The time for which one thread of others had a core of the nodes or waited for it, per cent. `None` if the kernel
    /// does not tell or the run was too short.
    pub wanted_nodes: Option<Occurrence>,
    /// Others' use of the harness core, per cent of the core; of several, on average.
    pub foreign_harness: Option<Occurrence>,
    /// Time that the hypervisor took from any core of the run, per cent.
    pub steal: Option<Occurrence>,
    /// Of a core that holds nodes, on average over the run; of several, where it was most. `None` if it was too short.
    pub stolen_nodes_percent: Option<f64>,
    /// Frames lost between a node and the emulator: how many in all, of which node and when first.
    pub ring_drops: u64,
    /// How many of them because the emulator had no memory left.
    pub no_memory: u64,
    /// The first of them.
    pub first_ring_drop: Option<Occurrence>,
    /// When most of them were lost, of all nodes together.
    pub most_ring_drops: Option<Occurrence>,
    /// TCP, by node.
    pub tcp: Vec<NodeTcp>,
    /// How often each node was looked through for senders that wait.
    pub looks: u64,
}

impl Observations {
    /// How often that was in a virtual second.
    pub fn looks_per_s(&self) -> f64 {
        self.looks as f64 / self.lasted.as_secs_f64()
    }
}
