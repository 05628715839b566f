//! What a run has to say about itself at its end: what the checks are made of.

use hdrhistogram::Histogram;
use scale::{RealDuration, Tdf, Turns, VirtualDuration, VirtualInstant};

use crate::core_speed::SpeedRecord;
use crate::effects::Usage;
use crate::emulator_load::LoadInterval;
use crate::observations::Observations;

/// Everything that a run has to say about itself at its end.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// Real over virtual time.
    pub tdf: Tdf,
    /// How late each frame was delivered, real ns.
    pub lateness: &'a Histogram<u64>,
    /// How long each frame may have waited before the emulator saw it, real ns.
    pub unseen: &'a Histogram<u64>,
    /// When lateness was worst, and the 99.9th percentile then, if the emulator can tell.
    pub latest: Option<(VirtualInstant, RealDuration)>,
    /// The least delay from one node to another.
    pub shortest_path: Option<VirtualDuration>,
    /// How fast the nodes' clocks run.
    pub clock: ClockRate,
    /// How the nodes' CPU was limited.
    pub grain: Grain,
    /// Where nodes' slices were those of all programs of the machine: how long they were in the run, and otherwise.
    pub host_slices: Option<[RealDuration; 2]>,
    /// The turns in which nodes were to run, if they took any.
    pub turns: Option<Turns>,
    /// Whether nodes had shares of time or of work.
    pub pace: Pace,
    /// By core that holds nodes, how fast it was, if that was measured.
    pub speeds: &'a [(usize, SpeedRecord)],
    /// By core that holds nodes, what it costs there to come back to data, if that was measured.
    pub caches: &'a [(usize, Caches)],
    /// What the disks of those nodes did that have one that is modelled.
    pub disks: &'a [DiskUse],
    /// Why the kernel writes to them of its own accord at other times than the target's, if it does; whatever is
    /// younger than the real time is written by neither.
    pub other_writeback: Option<(&'a str, RealDuration)>,
    /// That memory which nodes do not use is paged out in real time, if it is.
    pub goes_in_real_time: Option<GoesInRealTime<'a>>,
    /// How busy the emulator was, interval by interval.
    pub loads: &'a [LoadInterval],
    /// Which of TCP's time-outs were scaled in every node.
    pub scaled: ScaledTimers,
    /// What the counters showed.
    pub observations: &'a Observations,
}

impl Evidence<'_> {
    /// How many nodes have no disk that is modelled.
    pub(crate) fn nodes_without_disk(&self) -> usize {
        self.observations.nodes.len().saturating_sub(self.disks.len())
    }

    /// What the run was made of, as far as its metrics depend on it.
    pub(crate) fn usage(&self) -> Usage {
        Usage {
            virtual_s: self.observations.lasted.as_secs_f64(),
            frames: self.lateness.len(),
            requests: self.disks.iter().map(DiskUse::waits).sum(),
            shortest_path_s: self.shortest_path.map(VirtualDuration::as_secs_f64),
            busy: self.observations.nodes.iter().map(|n| n.busy).collect(),
        }
    }
}

/// That memory which nobody uses is paged out after real times, under dilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoesInRealTime<'a> {
    /// Why.
    pub because: &'a str,
    /// How many pages of files the whole machine has read again in the run that it had had in memory, if it tells.
    pub read_again: Option<u64>,
}

/// What the disk of a node did in the whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskUse {
    /// Whose it is.
    pub node: String,
    /// Reads, writes, flushes and trims that were answered.
    pub kinds: [DiskRequests; 4],
    /// The most that one was answered too late.
    pub latest: VirtualDuration,
    /// What 99 of 100 were at most.
    pub late_p99: VirtualDuration,
    /// Bytes that the node's programs have read from the host's own disks, if that is known.
    pub from_host: Option<u64>,
}

impl DiskUse {
    /// How many requests a program waits for: reads and flushes. What is written goes to the page cache first.
    pub(crate) fn waited_for(&self) -> u64 {
        let [reads, _, flushes, _] = &self.kinds;
        reads.count + flushes.count
    }

    /// How often a program waits and has to have its turn then: also for what it wrote just before a flush.
    pub(crate) fn waits(&self) -> u64 {
        let [_, writes, flushes, _] = &self.kinds;
        self.waited_for() + writes.count.min(flushes.count)
    }

    /// How long what a program waits for takes by the model, on average.
    pub(crate) fn waited(&self) -> VirtualDuration {
        let [reads, _, flushes, _] = &self.kinds;
        let took = reads.took.as_secs_f64() + flushes.took.as_secs_f64();
        VirtualDuration::from_secs_f64(took / self.waited_for().max(1) as f64)
    }
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskRequests {
    /// How many.
    pub count: u64,
    /// How long they took by the model, together.
    pub took: VirtualDuration,
    /// Those that were not done when their model said so.
    pub late: u64,
    /// By how much these were answered too late, together.
    pub late_by: VirtualDuration,
    /// By how much the others were, together.
    pub behind: VirtualDuration,
}

/// Whether nodes had shares of the core's time or of its work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// The speed that everything is related to, in units of the yardstick per microsecond; `None` if there is none.
    pub reference: Option<f64>,
    /// How far nodes got more time for a slower core, 1 for in proportion; `None` if not at all (`cpu: time`).
    pub gain: Option<f64>,
}

/// What is known of the clocks inside the nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum ClockRate {
    /// The run was not dilated: nodes read the host's own clock.
    Native,
    /// Measured inside a node: how far off its rate was, in parts per million, and in which node it was furthest off.
    Measured {
        /// Signed: positive is fast.
        ppm: f64,
        /// Where.
        node: String,
    },
    /// Not measured, and why.
    Unknown(String),
}

/// Which of TCP's time-outs passed as fast as they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaledTimers {
    /// The least retransmission time-out.
    pub rto_min: bool,
    /// That of a connection that has not measured a round trip.
    pub initial_rto: bool,
}

/// How the nodes' CPU was limited.
#[derive(Clone, Debug, PartialEq)]
pub enum Grain {
    /// Always-runnable groups, and by core how long a turn lasted, if that was measured.
    Slots(Vec<(usize, RealDuration)>),
    /// CFS quota, and why not slots.
    Quota(String),
    /// One cap for all, on purpose: the naive variant.
    Pool,
}

impl Grain {
    /// How long a turn lasted on a core, if nodes took turns and that was measured.
    pub(crate) fn turn_on(&self, core: usize) -> Option<RealDuration> {
        match self {
            Grain::Slots(turns) => turns.iter().find(|(number, _)| *number == core).map(|(_, turn)| *turn),
            Grain::Quota(_) | Grain::Pool => None,
        }
    }
}

/// What it costs to come back to data after some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// Mean time to fetch a line of memory that was touched 1 ms ago.
    pub soon: RealDuration,
    /// How long ago other lines were touched: a virtual millisecond, or the longest that makes a difference.
    pub away: RealDuration,
    /// Mean time to fetch one of those.
    pub late: RealDuration,
}
