//! The counters of a site: while the run goes on, when counting ends, and when its nodes have ended.

use std::collections::BTreeMap;
use std::path::PathBuf;

use counters::{
    CoreTicks, CpuSample, DiskCounters, ForeignThread, NodeCalls, ObservedPackets, Speed, Staleness, TcpCounters,
    UntrueSetting,
};
use net::Observation;
use record::LogStream;
use scale::{RealDuration, VirtualDuration, VirtualInstant};
use serde::{Deserialize, Serialize};

use crate::NodeIndex;
use crate::error::Error;

/// All counters of the machine and of the run at one instant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Counters of the emulator.
    pub network: Observation,
    /// CPU time by node and by core.
    pub cpu: CpuSample,
    /// Ticks of each core since boot.
    pub ticks: Vec<CoreTicks>,
    /// TCP's counters node by node; `None` for one that could not be read this time.
    pub tcp: Vec<Option<TcpCounters>>,
    /// Threads on the machine that are not the run's; empty if they were not looked at this time.
    pub foreign: Vec<ForeignThread>,
    /// CPU time of the site's own process, all threads, and of the one that serves disks.
    pub own: RealDuration,
    /// The kernel's reason, if the nodes' cores were theirs alone and are no more.
    pub cores_lost: Option<String>,
    /// Counters of the disks of those nodes that have one.
    pub disks: Vec<(NodeIndex, DiskCounters)>,
    /// Bytes that these nodes' programs have read from block devices, their own and the host's, where that is known.
    pub device_reads: Vec<(NodeIndex, u64)>,
    /// How often nodes were looked through for senders that wait, since the last sample.
    pub looks: u64,
    /// How many pages of files the whole machine has read again since it booted; `None` where nobody wants to know, as
    /// idle memory goes when it should, or can.
    pub read_again: Option<u64>,
    /// How many commands of `diorama exec` have begun, and how many of them go on.
    pub commands: [u64; 2],
}

/// The last counters of a site, and all that only the end of counting tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Closing {
    /// The last counters.
    pub sample: Result<Sample, Error>,
    /// How far off the rate of the nodes' clocks was, in ppm, or why that is not known; `None` in real time.
    pub clock_error_ppm: Option<Result<f64, String>>,
    /// By core that holds nodes, what its caches forgot between two turns, where that was measured.
    pub caches: Vec<(usize, Staleness)>,
    /// The programs that were dilated, or could not be; `None` in real time.
    pub injections: Option<Injections>,
    /// The captures.
    pub recordings: Result<Vec<Recording>, Error>,
    /// How it went to write down what nodes use.
    pub monitored: Monitored,
    /// The system calls of those nodes of which they are counted, or why nothing is known of them; `None` if they are
    /// of none.
    pub calls: Option<Result<CountedCalls, String>>,
    /// The packets of those nodes of which they are counted; `None` if they are of none.
    pub packets: Option<CountedPackets>,
}

/// Packets that were counted, and what that has cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedPackets {
    /// Flow by flow; or why nothing is known of them.
    pub packets: Result<ObservedPackets, String>,
    /// CPU time of the harness's cores.
    pub cpu: RealDuration,
}

/// System calls that were counted, and what that has cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedCalls {
    /// By node.
    pub nodes: Vec<(NodeIndex, NodeCalls)>,
    /// CPU time of a core for each call, as it was tried.
    pub for_each: RealDuration,
}

/// How the series went of what nodes use of their machines, and what it has cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Monitored {
    /// How often it was to be written down.
    pub every: VirtualDuration,
    /// How often it was.
    pub samples: u64,
    /// How many of them were left out, as the thread did not get its core in time.
    pub missed: u64,
    /// CPU time of the thread,
    pub cpu: RealDuration,
    /// of so much.
    pub lasted: RealDuration,
    /// From when on intervals were longer, since the file had become long, and how long.
    pub coarser: Vec<(VirtualInstant, VirtualDuration)>,
    /// When it ended before the run did, and why.
    pub ended: Option<(VirtualInstant, String)>,
}

/// How many programs were dilated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Injections {
    /// Programs that run, or ran, under the run's clock.
    pub dilated: u64,
    /// Programs that were kept from running because they could not be dilated.
    pub refused: u64,
    /// Settings of the kernel that they made, and that are not what they take them for.
    pub untrue_settings: Vec<UntrueSetting>,
}

/// The capture of one link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// The link.
    pub link: String,
    /// The file, relative to the run directory.
    pub file: PathBuf,
    /// Frames in it.
    pub frames: u64,
    /// Frames that passed and are not in it: it could not be written fast enough.
    pub missed: u64,
}

/// The results of a site that only the end of its nodes tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collected {
    /// Node by node, whether the kernel ended a process of it for want of memory.
    pub out_of_memory: Vec<bool>,
    /// The programs that nodes ran, by path: package, version and checksum.
    pub programs: BTreeMap<String, String>,
    /// Logs that had become longer than what is kept of them.
    pub cut_logs: Vec<CutLog>,
}

/// A log of which only the beginning and the end are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutLog {
    /// Whose.
    pub node: NodeIndex,
    /// Which.
    pub log: LogStream,
    /// How many bytes were cut out.
    pub bytes: u64,
}

/// A time in which a core was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedSeen {
    /// How fast it was.
    pub speed: Speed,
    /// How long it was measured.
    pub lasted: RealDuration,
}
