//! A site: all that one machine does for a run.
//!
//! A [`Run`](crate::run) decides what happens and when; its site does it: it makes the enclosure, the network and the
//! nodes, applies limits, starts the clock, starts and ends programs, counts, and takes everything down again. Every
//! argument and every answer is plain data that can be serialised ([`wire`] does so), and none is a descriptor or a
//! path of the machine, so a second machine is a second `Site`, and nothing above changes.
//!
//! Nodes are named by their place in [`Setup::nodes`], pipes by their names (`A--B/ab`). Real instants are those of the
//! machine's own `CLOCK_MONOTONIC`.

mod local;
pub mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;

use cpu::caches::Staleness;
use cpu::{Calibration, Exclusive, Policy, Terms};
use device::Transport;
use fidelity::evidence::UntrueSetting;
use host::Change;
use host::foreign::Thread;
use host::stat::CoreTicks;
use net::{NetworkSpec, Observation, PipeChange};
use node::NotApplied;
use record::LogStream;
use record::plan::{Congestion, Cores};
use scale::{RealDuration, RealInstant, Tdf, VirtualInstant};
use serde::{Deserialize, Serialize};

pub use self::local::LocalSite;
pub(crate) use self::local::Place;
use crate::aside::Part;
use crate::error::{ErrorReport, Result};

/// A node, by its place in the plan.
pub type NodeIndex = usize;

/// What a machine does for a run. Calls come in the order of the methods; those from `start` to `sample` come again and
/// again between `start_clock` and `finish`.
pub trait Site {
    /// Makes the enclosure, the clock, the control groups and the network. Nothing of a node runs yet.
    fn prepare(&mut self, setup: Setup) -> Result<()>;

    /// Creates the containers of all nodes, without limits.
    fn create_nodes(&mut self) -> Result<()>;

    /// Applies all limits, and says under which conditions the run will take place.
    fn apply_limits(&mut self) -> Result<Conditions>;

    /// The time on the machine's clock.
    fn now(&mut self) -> Result<RealInstant>;

    /// Starts virtual time at a real instant, or as soon after as the machine can; the answer tells when. Counting and
    /// capturing begin with it.
    fn start_clock(&mut self, at: RealInstant) -> Result<Zero>;

    /// Starts the programs of nodes: for the first time, or again where they have ended.
    fn start(&mut self, nodes: &[Start]) -> Result<()>;

    /// Ends the program of a node; returns before it has.
    fn stop(&mut self, node: NodeIndex, how: Stop) -> Result<()>;

    /// Changes pipes, all at one instant.
    fn change_pipes(&mut self, changes: &[(String, PipeChange)]) -> Result<()>;

    /// Has something happen to a flow of the emulator's, by its place in the specification of the network.
    fn change_flow(&mut self, flow: usize, change: net::FlowChange) -> Result<()>;

    /// Has something happen to the disk of a node, which has one.
    fn change_disk(&mut self, node: NodeIndex, change: device::Change) -> Result<()>;

    /// Ends all that runs in a node which has a disk, at once, and has the disk lose what a power cut takes.
    fn cut_power(&mut self, node: NodeIndex) -> Result<device::Cut>;

    /// Starts a program beside a node's own, or sends one a signal; whether there was anything to do: one that runs is
    /// not started, and one that does not run gets no signal.
    fn change_program(&mut self, change: &ProgramChange) -> Result<bool>;

    /// Which of these programs beside nodes' own run.
    fn programs_running(&mut self, programs: &[(NodeIndex, String)]) -> Result<Vec<bool>>;

    /// Which of these nodes listen on the TCP port that is given with each.
    fn listening(&mut self, waiting: &[(NodeIndex, u16)]) -> Result<Vec<NodeIndex>>;

    /// The nodes that have ended since this was last asked, in order; waits for one, at most for `limit`.
    fn exits(&mut self, limit: RealDuration) -> Result<Vec<NodeExit>>;

    /// Runs a command in a node that runs, and waits for its end.
    fn exec(&mut self, command: &Command) -> Result<Execution>;

    /// Notes which programs the nodes run at this instant.
    fn note_programs(&mut self) -> Result<()>;

    /// Reads all counters.
    fn sample(&mut self) -> Result<Sample>;

    /// Ends counting and capturing, all at one instant. Nodes that run are left alone.
    fn finish(&mut self) -> Result<Closing>;

    /// What only the end of the nodes tells.
    fn collect(&mut self) -> Result<Collected>;

    /// What a node wrote: at most `limit` bytes of a file or a log from `offset` on, nothing behind its end. `None`:
    /// there is no such file. Logs are as they were when they were [collected](Site::collect).
    fn read(&mut self, node: NodeIndex, what: &Written, offset: u64, limit: u64) -> Result<Option<Vec<u8>>>;

    /// Writes down what it takes to go on with the run some day: its nodes' files are kept when it is taken down. What
    /// was written down before is replaced; there is room for what may be longer by little.
    fn put_aside(&mut self, what: &[u8]) -> Result<()>;

    /// Takes everything down. Nothing of the run is left on the machine when this returns, but what is to be kept, and
    /// further calls fail.
    fn tear_down(&mut self) -> Result<()>;
}

/// All that a site has to know about a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Real time over virtual time; 1 where the run is not dilated.
    pub tdf: Tdf,
    /// Whether the nodes' programs get the run's clock. Not in a variant that runs in real time.
    pub dilated: bool,
    /// Which cores do what.
    pub cores: Cores,
    /// How much of a core all nodes have together, where they share theirs as the naive variant does.
    pub pool_cap: Option<f64>,
    /// The terms on which nodes share their cores, where they do not share a pool.
    pub terms: Terms,
    /// The nodes.
    pub nodes: Vec<NodeSetup>,
    /// The links between them, in real rates and delays.
    pub network: NetworkSpec,
    /// For everything random in the network.
    pub seed: u64,
    /// Whether the nodes' initial retransmission time-out is scaled by a program in the kernel.
    pub scales_initial_timeout: bool,
    /// What is recorded of the links' traffic.
    pub captures: Vec<CaptureSetup>,
    /// How many bytes are kept of what each node prints.
    pub logs: u64,
    /// What this run goes on with, whose nodes' files the machine has.
    pub continues: Option<Continues>,
}

/// What a run knows of the one that it goes on with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continues {
    /// The virtual time at which that ended, and this begins.
    pub at: VirtualInstant,
    /// Virtual zero as a date: ns since 1970.
    pub zero_unix_ns: u64,
    /// Its parts.
    pub parts: Vec<Part>,
}

/// What a site has to know about a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeSetup {
    /// Its name and host name.
    pub name: String,
    /// Its root file system.
    pub root: Root,
    /// Its program and its arguments.
    pub argv: Vec<String>,
    /// Its environment, beyond the usual.
    pub env: Vec<(String, String)>,
    /// Its working directory, inside the node.
    pub cwd: Option<String>,
    /// As whom its program runs: the numbers of the user and the group.
    pub user: (u32, u32),
    /// What it is called by itself; none: by its name.
    pub hostname: Option<String>,
    /// Further names by which all nodes know it.
    pub names: Vec<String>,
    /// The number of the signal by which it is ended; none: SIGTERM.
    pub stop_signal: Option<i32>,
    /// Absolute paths inside the node, and what appears there.
    pub files: Vec<(String, Source)>,
    /// The core that it runs on.
    pub core: usize,
    /// How many CPUs it has, all of them on that core.
    pub cpus: u32,
    /// Their share of that core together, in real time; in a pool its weight.
    pub share: f64,
    /// Its memory limit.
    pub memory_bytes: u64,
    /// What its CPU clocks are divided by.
    pub cpu_clock_divisor: f64,
    /// Whether rdtsc and rdtscp show virtual time in it.
    pub dilated_tsc: bool,
    /// Its TCP's congestion control.
    pub congestion: Congestion,
    /// The disk that holds what it writes; none: that takes the machine's time.
    pub disk: Option<disk::Parameters>,
    /// Whether the machine's own disk is to have what is flushed to that one.
    pub durable: bool,
    /// Whether its power is cut during the run.
    pub may_lose_power: bool,
    /// Whether the program of traffic runs in it.
    pub traffic: bool,
    /// Whether programs in it can wait at barriers.
    pub barriers: bool,
}

/// A file or folder that the user named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// Below the experiment's folder, wherever the machine has that.
    Experiment(PathBuf),
    /// Of the machine itself, by the path that the user wrote.
    Machine(PathBuf),
}

/// A node's root file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Root {
    /// The machine's own, without its data and secrets.
    Host,
    /// A directory.
    Directory(Source),
    /// An OCI image archive.
    OciArchive(Source),
    /// An image of this name that the machine keeps.
    Image(String),
}

/// A link whose traffic is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureSetup {
    /// Its name.
    pub link: String,
    /// The names of its pipes.
    pub pipes: Vec<String>,
    /// How many bytes of each frame are kept.
    pub snap: usize,
}

/// Under which conditions a run takes place, for its verdict.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Conditions {
    /// How CPU shares are enforced.
    pub policy: Policy,
    /// Why not by always-runnable groups, if they are not.
    pub policy_because: Option<String>,
    /// Whether the nodes' cores are theirs alone.
    pub exclusive: Exclusive,
    /// What is different for the whole machine as long as the run lasts.
    pub host_setting: Option<Change>,
    /// What was measured of each core that holds nodes.
    pub cores: Vec<Calibration>,
    /// The terms on which nodes share them.
    pub terms: Terms,
    /// Kernel settings that could not be applied.
    pub not_applied: Vec<NotApplied>,
    /// Of the nodes' disks, if any node has one.
    pub disks: Option<DiskConditions>,
    /// After how long the machine pages out memory that is not used, where it does: what is different for the whole
    /// machine, or why that is not as it should be for this run.
    pub idle_memory: Result<Vec<Change>, String>,
}

/// Under which conditions nodes have disks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskConditions {
    /// How requests come to whoever serves them.
    pub over: Transport,
    /// Why not in a better way.
    pub because: Option<String>,
    /// When the kernel writes back what programs have written: what is different for the whole machine, or why that is
    /// not as it should be for this run.
    pub writeback: Result<[Change; 2], OtherWriteback>,
}

/// That the kernel writes back at other times than the target's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OtherWriteback {
    /// Why.
    pub because: String,
    /// Whatever is younger than this is written back by neither.
    pub from: RealDuration,
}

/// Virtual zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zero {
    /// When it was; in a run that goes on with an earlier one, when that began.
    pub real: RealInstant,
    /// The virtual time then.
    pub from: VirtualInstant,
    /// The date that the nodes see at virtual zero: ns since 1970.
    pub unix_ns: u64,
}

/// A node that is to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Which.
    pub node: NodeIndex,
    /// In which way.
    pub how: How,
}

/// How a node starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// For the first time.
    First,
    /// Its program again, after its end.
    Again,
    /// From its disk, after its power was cut.
    Boot,
}

/// How a node's program is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// As an init system does: TERM, and KILL where TERM would do nothing.
    Ask,
    /// KILL.
    Kill,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// As a shell tells it: the code, or 128 + signal.
    pub fn shell_code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
        }
    }
}

impl From<std::process::ExitStatus> for Exit {
    fn from(status: std::process::ExitStatus) -> Exit {
        use std::os::unix::process::ExitStatusExt;
        match status.code() {
            Some(code) => Exit::Code(code),
            None => Exit::Signal(status.signal().unwrap_or(0)),
        }
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::os::unix::process::ExitStatusExt;
        let status = match self {
            Exit::Code(code) => std::process::ExitStatus::from_raw(code << 8),
            Exit::Signal(signal) => std::process::ExitStatus::from_raw(*signal),
        };
        status.fmt(f)
    }
}

/// The end of a node's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeExit {
    /// Which node.
    pub node: NodeIndex,
    /// How it ended.
    pub exit: Exit,
}

/// A command to run in a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// The node.
    pub node: NodeIndex,
    /// The command and its arguments.
    pub argv: Vec<String>,
    /// It is killed when it has not ended after this time.
    pub limit: RealDuration,
}

/// What happens to a program beside a node's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramChange {
    /// The node.
    pub node: NodeIndex,
    /// What the program is called in it.
    pub program: String,
    /// What is done.
    pub what: ProgramDeed,
}

/// What is done to a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgramDeed {
    /// It is started: the program and its arguments. What it prints is added to the node's own logs.
    Run(Vec<String>),
    /// If it runs, it is asked to end, and started with these arguments.
    Again(Vec<String>),
    /// It, and what it has started, get this signal.
    Signal(i32),
}

/// What came of a command in a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// How it ended.
    pub exit: Exit,
    /// What it wrote to its standard output; the first MiB.
    pub stdout: Vec<u8>,
    /// What it wrote to its standard error; the first MiB.
    pub stderr: Vec<u8>,
}

/// All counters of the machine and of the run at one instant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// What the emulator counted.
    pub network: Observation,
    /// CPU time by node and by core.
    pub cpu: cpu::Sample,
    /// What each core did since boot.
    pub ticks: Vec<CoreTicks>,
    /// TCP's counters node by node; `None` for one that could not be read this time.
    pub tcp: Vec<Option<host::tcp::Counters>>,
    /// Threads on the machine that are not the run's; empty if they were not looked at this time.
    pub foreign: Vec<Thread>,
    /// CPU time of the site's own process, all threads, and of the one that serves disks.
    pub own: RealDuration,
    /// What the kernel says, if the nodes' cores were theirs alone and are no more.
    pub cores_lost: Option<String>,
    /// What the disks of those nodes have counted that have one.
    pub disks: Vec<(NodeIndex, device::queue::Counters)>,
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

/// What a site tells when counting ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Closing {
    /// The last counters.
    pub sample: Result<Sample, ErrorReport>,
    /// How far off the rate of the nodes' clocks was, in ppm, or why that is not known; `None` in real time.
    pub clock_error_ppm: Option<Result<f64, String>>,
    /// By core that holds nodes, what its caches forgot between two turns, where that was measured.
    pub caches: Vec<(usize, Staleness)>,
    /// What became of the programs that were to be dilated; `None` in real time.
    pub injections: Option<Injections>,
    /// What the captures hold.
    pub recordings: Result<Vec<Recording>, ErrorReport>,
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

/// What was recorded of one link.
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

/// What a site tells when the nodes have ended.
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

/// Something that a node wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Written {
    /// A file, by its absolute path inside the node.
    File(String),
    /// What its program printed.
    Log(LogStream),
    /// The end of that: its last `limit` bytes.
    LogEnd(LogStream),
}
