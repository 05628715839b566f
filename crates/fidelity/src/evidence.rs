//! The evidence that a run has of itself at its end: what the checks are made of.

use ::counters::{Answered, Staleness, UntrueSetting};
use hdrhistogram::Histogram;
use scale::{RealDuration, Tdf, VirtualDuration, VirtualInstant};

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
    pub sharing: Sharing,
    /// How far nodes' own clocks were from the run's when frames crossed, if nodes had any.
    pub crossings: Option<Crossings>,
    /// Where nodes' slices were those of all programs of the machine: how long they were in the run, and otherwise.
    pub host_slices: Option<[RealDuration; 2]>,
    /// Whether nodes had shares of time or of work.
    pub pace: Pace,
    /// By core that holds nodes, how fast it was, if that was measured.
    pub speeds: &'a [(usize, SpeedRecord)],
    /// By core that holds nodes, what it costs there to come back to data, if that was measured.
    pub caches: &'a [(usize, Staleness)],
    /// The work of the disks of those nodes that have one that is modelled.
    pub disks: &'a [DiskUse],
    /// Why the kernel writes to them of its own accord at other times than the target's, if it does; whatever is
    /// younger than the real time is written by neither.
    pub other_writeback: Option<(&'a str, RealDuration)>,
    /// That memory which nodes do not use is paged out in real time, if it is.
    pub goes_in_real_time: Option<GoesInRealTime<'a>>,
    /// Settings of the kernel that programs made, and that are not what they take them for; `None` in real time.
    pub untrue_settings: Option<&'a [UntrueSetting]>,
    /// Costs of looking at the nodes again and again, if somebody did.
    pub monitoring: Option<&'a Monitoring>,
    /// The counting of system calls; `None` if nobody's were.
    pub observation: Option<&'a Result<Observation, String>>,
    /// How busy the emulator was, interval by interval.
    pub loads: &'a [LoadInterval],
    /// Which of TCP's time-outs were scaled in every node.
    pub scaled: ScaledTimers,
    /// The counters.
    pub observations: &'a Observations,
}

impl Evidence<'_> {
    /// How many nodes have no disk that is modelled.
    pub(crate) fn nodes_without_disk(&self) -> usize {
        self.observations.nodes.len().saturating_sub(self.disks.len())
    }

    /// The parts of the run that its metrics depend on.
    pub(crate) fn usage(&self) -> Usage {
        Usage {
            virtual_s: self.observations.lasted.as_secs_f64(),
            frames: self.lateness.len(),
            shortest_path_s: self.shortest_path.map(VirtualDuration::as_secs_f64),
            busy: self.observations.nodes.iter().map(|n| n.busy).collect(),
        }
    }
}

/// Looks at all nodes, again and again, and what they have cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Monitoring {
    /// The time from one to the next, at first, virtual s.
    pub every_s: f64,
    /// How many there were.
    pub samples: u64,
    /// How many were left out, for want of time.
    pub missed: u64,
    /// CPU time that they took, in s of a core of this machine,
    pub cpu_s: f64,
    /// of so many real s.
    pub lasted_s: f64,
    /// From which virtual s on there was more time between them, and how much at last.
    pub coarser: Option<(f64, f64)>,
    /// At which virtual s they ended before the run did, and why.
    pub ended: Option<(f64, String)>,
}

/// The counting of nodes' system calls, and what it has cost them.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The nodes whose calls were counted.
    pub nodes: Vec<ObservedNode>,
    /// CPU time of a core that each call took more, in real s.
    pub for_each_s: f64,
    /// How many threads and steps were left out, for want of memory.
    pub uncounted: u64,
}

/// A node whose system calls were counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedNode {
    /// Its name.
    pub node: String,
    /// How many calls it made.
    pub calls: u64,
    /// CPU time of its programs, with what counting took, in s of a core of this machine.
    pub cpu_s: f64,
}

/// That memory which nobody uses is paged out after real times, under dilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoesInRealTime<'a> {
    /// Why.
    pub because: &'a str,
    /// How many pages of files the whole machine has read again in the run that it had had in memory, if it tells.
    pub read_again: Option<u64>,
}

/// The work of the disk of a node in the whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskUse {
    /// Whose it is.
    pub node: String,
    /// Reads, writes, flushes and trims that were answered.
    pub kinds: [Answered; 4],
    /// The most that one was answered too late.
    pub latest: VirtualDuration,
    /// The bound that 99 of 100 kept to.
    pub late_p99: VirtualDuration,
    /// Bytes that the node's programs have read from the host's own disks, if that is known.
    pub from_host: Option<u64>,
}

/// Whether nodes had shares of the core's time or of its work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// The speed that everything is related to, in units of the yardstick per microsecond; `None` if there is none.
    pub reference: Option<f64>,
    /// How far nodes got more time for a slower core, 1 for in proportion; `None` if not at all (`cpu: time`).
    pub gain: Option<f64>,
}

/// The clocks inside the nodes.
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
pub enum Sharing {
    /// Weights, and by core how long the slices were that nodes asked for.
    Slots(Vec<(usize, RealDuration)>),
    /// CFS quota, and why not slots.
    Quota(String),
    /// One cap for all, on purpose: the naive variant.
    Pool,
    /// None: every node has whole cores of its own.
    WholeCores,
}

impl Sharing {
    /// How long slices are on a core, if nodes ask for any.
    pub(crate) fn slice_on(&self, core: usize) -> Option<RealDuration> {
        match self {
            Sharing::Slots(slices) => slices.iter().find(|(number, _)| *number == core).map(|(_, slice)| *slice),
            Sharing::Quota(_) | Sharing::Pool | Sharing::WholeCores => None,
        }
    }
}

/// How far nodes' own clocks were from the run's when frames crossed from node to node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crossings {
    /// Frames that bore their sender's clock.
    pub stamped: u64,
    /// Those that bore none, such as what the kernel sends in an interrupt.
    pub unstamped: u64,
    /// How much later frames entered links than they should, since others had entered that were sent later.
    pub late: Spread,
    /// Frames handed to nodes that had something to do.
    pub to_busy: u64,
    /// How far the clocks of these were ahead of the run's then.
    pub lead: Spread,
    /// How far they were behind.
    pub lag: Spread,
}

/// How long something was; real time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// On average.
    pub mean: RealDuration,
    /// In half of all cases at most.
    pub p50: RealDuration,
    /// In 99 of 100 cases at most.
    pub p99: RealDuration,
}

impl Spread {
    /// Of real nanoseconds.
    pub fn of(all: &Histogram<u64>) -> Spread {
        let [p50, p99] = [0.5, 0.99].map(|part| RealDuration::from_nanos(all.value_at_quantile(part)));
        Spread { mean: RealDuration::from_nanos(all.mean().round() as u64), p50, p99 }
    }
}
