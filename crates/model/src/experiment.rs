//! An experiment as the rest of Diorama sees it: complete, checked, all names resolved to places in its lists.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use guest::{Arch, Firmware, Format};
use scale::{Tdf, VirtualDuration, VirtualInstant, VirtualRate};

use crate::file::{FlowChange, FlowKind};
use crate::link::{Link, LinkChange};
use crate::units::Speed;

/// A checked experiment. All times and rates are the target's, that is, virtual.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its name: a DNS label.
    pub name: String,
    /// The folder that holds its file.
    pub dir: PathBuf,
    /// The time dilation factor of its scaled variant.
    pub tdf: Tdf,
    /// Samples outside this window are warm-up and cool-down.
    pub measure: Option<(VirtualInstant, Option<VirtualInstant>)>,
    /// The nodes' entitlement: work or time of the core.
    pub cpu: Cpu,
    /// The bound on how far the slowest node's clock gets ahead in a timeslice; none: as the plan finds right.
    pub lead: Option<VirtualDuration>,
    /// Keys of the file that do nothing any more.
    pub without_meaning: Vec<&'static str>,
    /// Sentences about what is accepted, and differs here from what may be meant.
    pub notes: Vec<String>,
    /// How exact the results must be for a run to be trustworthy.
    pub accuracy: Accuracy,
    /// The classes of target hardware.
    pub machines: Vec<Machine>,
    /// The nodes, in the order of the file, `count` expanded.
    pub nodes: Vec<Node>,
    /// The links, in the order of the file, globs expanded; then those of the LANs' members.
    pub links: Vec<Link>,
    /// By link, the file and the line, counted from 1, that describe it; none if an override does.
    pub link_places: Vec<Option<(String, usize)>>,
    /// The shared segments.
    pub lans: Vec<Lan>,
    /// Addresses that were chosen.
    pub addresses: Vec<Address>,
    /// The links whose packets are recorded, in the order of the links.
    pub captures: Vec<Capture>,
    /// The names of the switches, and behind them those of hosts that exist only in the emulator.
    pub switches: Vec<String>,
    /// Routes that take the place of the shortest ones.
    pub routes: Vec<Route>,
    /// Which machines of a harness nodes may be on.
    pub placement: Vec<Placement>,
    /// The most nodes on one machine of a harness; none: as many as it takes.
    pub colocate: Option<u32>,
    /// The node that serves barriers; it runs what that takes beside its own program.
    pub barriers: Option<usize>,
    /// Flows of packets between nodes.
    pub flows: Vec<Flow>,
    /// Flows that exist only in the emulator.
    pub background: Vec<BackgroundFlow>,
    /// Metrics, by the order of the file.
    pub metrics: Vec<Metric>,
    /// How many bytes are kept of what each node prints; none: as many as usual.
    pub logs: Option<u64>,
    /// How fast each node prints at most.
    pub log_rate: Option<VirtualRate>,
    /// Whether each node has a user namespace.
    pub user_namespaces: bool,
    /// How often it is written down what nodes use of their machines.
    pub monitor: VirtualDuration,
    /// Events in order of time; simultaneous ones keep the order of the file.
    pub events: Vec<Event>,
    /// Steps for whose end events wait, by name.
    pub steps: Vec<String>,
    /// Lines in logs of nodes for which events wait.
    pub conditions: Vec<Condition>,
    /// When the run is over.
    pub ends: Ends,
    /// The action when nobody does anything any more.
    pub idle: Option<Idle>,
    /// The experiment's file as resolved, with every `--set` applied: YAML that loads to this experiment.
    pub resolved: String,
}

impl Experiment {
    /// The place of a node in [`Experiment::nodes`].
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|n| n.name == name)
    }

    /// The place of a link in [`Experiment::links`].
    pub fn link(&self, name: &str) -> Option<usize> {
        self.links.iter().position(|l| l.name == name)
    }
}

/// The nodes' entitlement: work or time of the core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cpu {
    /// The work that a core usually does in their share of the time, however slow the core is meanwhile.
    #[default]
    Work,
    /// Their share of the time.
    Time,
}

/// How exact results must be, in percent; what is not given is left to the verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Accuracy {
    /// Of mean and median, and for tails what follows from that.
    pub all: Option<f64>,
    /// Accuracy of the arithmetic mean.
    pub mean: Option<f64>,
    /// Accuracy of the median.
    pub p50: Option<f64>,
    /// Accuracy of the 90th percentile.
    pub p90: Option<f64>,
    /// Accuracy of the 99th percentile.
    pub p99: Option<f64>,
}

/// A class of target hardware.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Its name in the file.
    pub name: String,
    /// Virtual CPUs, 1 to 256.
    pub cpus: u32,
    /// The speed of each CPU of the target.
    pub speed: Speed,
    /// Main memory, in bytes.
    pub memory_bytes: u64,
    /// The disk that holds what each node writes; none: that takes the host's time.
    pub disk: Option<Disk>,
}

/// A disk of the target.
#[derive(Clone, Debug, PartialEq)]
pub struct Disk {
    /// The disk of the catalogue that it is like.
    pub like: String,
    /// The parameters of its model.
    pub parameters: disk::Parameters,
    /// Whether the host's own disk is to have what the node has flushed, too.
    pub durable: bool,
}

/// A node of the target.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name and host name: a DNS label.
    pub name: String,
    /// The name under which the file describes it: differs from `name` where `count` is given.
    pub group: String,
    /// Its hardware: a place in [`Experiment::machines`].
    pub machine: usize,
    /// Its root file system.
    pub root: Root,
    /// The program and its arguments; at least one word, but of a guest none.
    pub argv: Vec<String>,
    /// In the place of a program, a whole machine.
    pub guest: Option<Guest>,
    /// Environment variables beyond the usual few.
    pub env: Vec<(String, String)>,
    /// The working directory, an absolute path inside the node; `/` if none.
    pub cwd: Option<String>,
    /// As whom its program runs: the numbers of the user and the group.
    pub user: (u32, u32),
    /// Its own host name; none: its name.
    pub hostname: Option<String>,
    /// Further names by which all nodes know it.
    pub names: Vec<String>,
    /// The number of the signal by which it is ended; none: SIGTERM.
    pub stop_signal: Option<i32>,
    /// Ports of the harness's loopback, and the TCP port of the node that each leads to.
    pub ports: Vec<(u16, u16)>,
    /// Its TCP's congestion control; none: the best that is offered.
    pub congestion: Option<Congestion>,
    /// Nodes that must be ready before this one starts: places in [`Experiment::nodes`], without cycles.
    pub after: Vec<usize>,
    /// The condition of its readiness; none: being started is enough.
    pub ready: Option<Ready>,
    /// Absolute paths inside the node, and the existing files or directories on the host that appear there.
    pub files: Vec<(String, PathBuf)>,
    /// How its date is off against the others' from virtual zero on; none: not at all.
    pub clock: Option<ClockOff>,
    /// Whether rdtsc and rdtscp show virtual time in it; else they count on in real time.
    pub dilated_tsc: bool,
    /// Whether the system calls of its programs are counted.
    pub observes_calls: bool,
    /// Whether its packets are counted, flow by flow.
    pub observes_packets: bool,
    /// The file and the line, counted from 1, that describe it; none if an override does.
    pub place: Option<(String, usize)>,
    /// Programs that run beside its own from its start on, each time that it starts.
    pub beside: Vec<Beside>,
}

/// A whole machine, whose processors and memory are those of the node's [`Machine`].
#[derive(Clone, Debug, PartialEq)]
pub struct Guest {
    /// The architecture of its processors.
    pub arch: Arch,
    /// How it starts.
    pub boot: Boot,
    /// The image of its disk, and the format of that.
    pub disk: Option<(PathBuf, Format)>,
}

/// How a guest starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Boot {
    /// With a kernel of Linux.
    Kernel {
        /// The kernel.
        kernel: PathBuf,
        /// Its initial file system.
        initrd: Option<PathBuf>,
        /// Words for it.
        cmdline: String,
    },
    /// From its disk.
    Firmware(Firmware),
}

/// How the date of a node is off against the others'. CLOCK_MONOTONIC is not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockOff {
    /// By how many ns; none: by what it is by then.
    pub offset_ns: Option<i64>,
    /// By how many ns more with each that passes; none: as before.
    pub drift: Option<f64>,
}

/// A change of what a node's machine has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HardwareChange {
    /// Its CPUs are as fast as this part of the machine's speed.
    Speed(f64),
    /// It has so much memory, in bytes; none: as much as its machine.
    Memory(Option<u64>),
}

/// A program that runs beside a node's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// Its name in its node.
    pub program: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Whether it only receives.
    pub receives: bool,
}

/// A flow of packets from one node to another.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Its name, fit for a file name.
    pub name: String,
    /// The node that sends: a place in [`Experiment::nodes`].
    pub from: usize,
    /// The node that receives.
    pub to: usize,
    /// The end that sends.
    pub source: traffic::Source,
    /// The end that receives.
    pub sink: traffic::Sink,
    /// Packets as written in the file, which changes begin with.
    pub(crate) written: (FlowKind, FlowChange),
}

/// A flow that exists only in the emulator: sources that are all alike.
#[derive(Clone, Debug)]
pub struct BackgroundFlow {
    /// Its name.
    pub name: String,
    /// From which node, switch or simulated host and to which each source sends.
    pub ways: Vec<(String, String)>,
    /// The load that each of them sends.
    pub load: Load,
    /// Of all that is drawn.
    pub seed: u64,
    /// Packets as written in the file, which changes begin with.
    pub(crate) written: (FlowKind, FlowChange),
}

/// The load that a source of a flow sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The payload of a packet, in bytes.
    pub packet: u32,
    /// When packets leave, in virtual seconds.
    pub pattern: traffic::Pattern,
}

/// An action on a flow that exists only in the emulator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlowAction {
    /// It starts.
    Start,
    /// It stops.
    Stop,
    /// It goes on so, or will when it starts.
    Load(Load),
}

impl Flow {
    /// The name of the program that sends. No program of a file can be called so.
    pub fn sender(&self) -> String {
        format!("{}.source", self.name)
    }

    /// The name of the program that receives.
    pub fn receiver(&self) -> String {
        format!("{}.sink", self.name)
    }
}

/// A node's root file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// An overlay over the host's own root.
    Host,
    /// An overlay over this directory of the host.
    Directory(PathBuf),
    /// The contents of this OCI image archive.
    OciArchive(PathBuf),
    /// An image of this name that the machine keeps.
    Image(String),
}

/// How a node's TCP finds out how fast it may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC, RFC 9438.
    Cubic,
    /// Reno, RFC 5681.
    Reno,
}

/// When a node counts as ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// When something in it listens on this TCP port.
    Tcp(u16),
    /// When a command that is run in it ends with 0.
    Run {
        /// The command and its arguments.
        argv: Vec<String>,
        /// How long after its end it is run again.
        every: VirtualDuration,
        /// It is killed when it has not ended after this time.
        limit: VirtualDuration,
    },
}

/// A link whose packets are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    /// A place in [`Experiment::links`].
    pub link: usize,
    /// How many bytes of each packet are kept, from its beginning.
    pub snap: u64,
}

/// A shared segment: a place to which its members are joined, which hands what one of them sends to all to all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lan {
    /// Its name, that of the second end of its links.
    pub name: String,
    /// The first address of the block of its members, and how many bits of it they have in common.
    pub subnet: Option<(Ipv4Addr, u8)>,
    /// The links of its members, one each: places in [`Experiment::links`].
    pub links: Vec<usize>,
}

/// The address of a node on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The link: a place in [`Experiment::links`].
    pub link: usize,
    /// The node at one of its ends: a place in [`Experiment::nodes`].
    pub node: usize,
    /// The address of the node's interface there.
    pub address: Ipv4Addr,
}

/// The way of all packets from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The node that sends: a place in [`Experiment::nodes`].
    pub from: usize,
    /// The node that the packets are for.
    pub to: usize,
    /// The links passed, in order: places in [`Experiment::links`]. Each begins where the one before ends, and no node
    /// or switch is passed twice.
    pub links: Vec<usize>,
}

/// Which machines of a harness some nodes may be on. Weights are from 0 to 1; with 1 it must be so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// The names of the nodes and switches that it is about, in the order of the file.
    pub nodes: Vec<String>,
    /// The type that their machine must have.
    pub kind: Option<String>,
    /// Features that their machine should have, and with which weight.
    pub wants: Vec<(String, f64)>,
    /// The machine that they must be on.
    pub on: Option<String>,
    /// The weight of being all on one machine.
    pub together: Option<f64>,
    /// The weight of being each on a machine of its own.
    pub apart: Option<f64>,
}

/// Something that is measured.
#[derive(Clone, Debug)]
pub struct Metric {
    /// Its name, fit for a file name.
    pub name: String,
    /// The nodes that supply samples: places in [`Experiment::nodes`].
    pub nodes: Vec<usize>,
    /// Where the samples are.
    pub source: Source,
    /// The unit of the samples.
    pub unit: Unit,
    /// Whether it is what a flow of traffic measures: then there may be no samples, and runs are not judged by it.
    pub of_flow: bool,
    /// Whether it is a rate of packets that leave at instants of their own, however long everything takes.
    pub clocked: bool,
}

/// Where a metric's samples come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// One sample per row of a file that the node's program writes.
    Rows {
        /// Absolute path inside the node.
        path: String,
        /// The column, counted from 1, that says when the sample began; see [`Unit::start_seconds`].
        start: Option<usize>,
        /// The column, counted from 1, that holds the sample.
        value: usize,
    },
    /// One sample per run, from the lines that nodes print.
    Line {
        /// The regular expression, whose first group is the number.
        regex: String,
        /// Where it is looked for.
        from: Stream,
        /// How the numbers of several lines and nodes become one sample.
        combine: Combine,
    },
    /// Counts of a flow that exists only in the emulator, second by second.
    Background {
        /// A place in [`Experiment::background`].
        flow: usize,
        /// The quantity that is counted.
        what: OfFlow,
    },
}

/// A quantity of a flow that exists only in the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfFlow {
    /// Packets that left, per second.
    Sent,
    /// Packets that arrived, per second.
    Packets,
    /// The rate carried, in bit/s.
    Rate,
    /// Those that did not arrive, in percent.
    Loss,
    /// How long those took that did, in ms.
    Delay,
}

/// An output of a node's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How several numbers become one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// Their sum.
    Sum,
    /// Their arithmetic mean.
    Mean,
    /// The least.
    Min,
    /// The greatest.
    Max,
}

/// The unit of a metric. Times of any unit appear in results in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// As the file names it.
    pub written: String,
    /// As results name it: `ms` for times, else as written.
    pub result: String,
    /// Factor from the number as written to `result`'s unit.
    pub factor: f64,
    /// The length of one unit of a `start` column, in seconds: the unit's own if it is one of time, else 1.
    pub start_seconds: f64,
}

/// Something that happens during the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When; of one that waits for a step, as if that had ended at the start of the run.
    pub at: VirtualInstant,
    /// The step for whose end it waits: a place in [`Experiment::steps`], and beyond these in
    /// [`Experiment::conditions`].
    pub after: Option<usize>,
    /// The step that is over when the program has ended which it starts, and all others of the same step have.
    pub step: Option<usize>,
    /// The action.
    pub action: Action,
}

/// Something that nodes print, for which events wait.
#[derive(Clone, Debug)]
pub struct Condition {
    /// Places in [`Experiment::nodes`].
    pub nodes: Vec<usize>,
    /// Matches a line on standard output or error of any of them.
    pub log: regex::Regex,
}

/// The action of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Changes a link.
    Link {
        /// A place in [`Experiment::links`].
        link: usize,
        /// The change.
        change: Box<LinkChange>,
    },
    /// Does something to a node.
    Node {
        /// A place in [`Experiment::nodes`].
        node: usize,
        /// The action on the node.
        act: NodeAction,
    },
    /// Sets the date of a node off against the others'.
    Clock {
        /// A place in [`Experiment::nodes`].
        node: usize,
        /// By how much.
        off: ClockOff,
    },
    /// Changes what the machine of a node has.
    Hardware {
        /// A place in [`Experiment::nodes`].
        node: usize,
        /// The memory that it has then.
        change: HardwareChange,
    },
    /// Does something to the disk of a node.
    Disk {
        /// A place in [`Experiment::nodes`]; it has a disk.
        node: usize,
        /// The change of the disk.
        change: DiskChange,
    },
    /// Cuts groups of nodes off from one another, or ends that.
    Partition {
        /// Whom.
        partition: Partition,
        /// Whether they are from now on; else one such partition ends.
        on: bool,
    },
    /// Ends all partitions.
    Heal,
    /// Does something to a flow that exists only in the emulator.
    Flow {
        /// A place in [`Experiment::background`].
        flow: usize,
        /// The action on the flow.
        act: FlowAction,
    },
    /// Ends the run.
    End,
    /// Starts a program beside a node's own, or sends it a signal.
    Program {
        /// A place in [`Experiment::nodes`].
        node: usize,
        /// The program's name in the node.
        program: String,
        /// The action on the program.
        act: ProgramAction,
    },
}

/// Groups of nodes that are cut off from one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Places in [`Experiment::nodes`], each in one group at most.
    pub groups: Vec<Vec<usize>>,
    /// Which of their packets are lost.
    pub direction: Direction,
}

/// Which packets between groups of nodes are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// All of them.
    #[default]
    Both,
    /// Those from the first group to the second.
    To,
    /// Those from the second group to the first.
    From,
}

impl Partition {
    /// Who cannot reach whom: pairs of a sender and a receiver.
    pub fn pairs(&self) -> Vec<[usize; 2]> {
        let mut pairs = Vec::new();
        for (j, second) in self.groups.iter().enumerate() {
            for (a, b) in self.groups[..j].iter().flatten().flat_map(|a| second.iter().map(move |b| (*a, *b))) {
                pairs.extend((self.direction != Direction::From).then_some([a, b]));
                pairs.extend((self.direction != Direction::To).then_some([b, a]));
            }
        }
        pairs
    }
}

/// An action on a program beside a node's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramAction {
    /// Starts it: the program and its arguments.
    Run(Vec<String>),
    /// Ends it and starts it with other arguments, if it runs.
    Again(Vec<String>),
    /// Sends it, and what it has started, a signal of this number.
    Signal(i32),
}

/// A change of a disk by an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DiskChange {
    /// Everything takes so many times as long from now on; 1: as long as at first.
    Slow(f64),
    /// All requests fail from now on.
    Fail,
    /// There is no room any more.
    Full,
}

/// An action on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeAction {
    /// SIGKILL.
    Kill,
    /// SIGTERM, as an init system would.
    Stop,
    /// Starts its program again.
    Start,
    /// Cuts its power.
    PowerOff,
    /// Gives it power again: it boots.
    PowerOn,
    /// Stops all its processes where they are.
    Pause,
    /// Lets them go on.
    Resume,
}

/// When nobody does anything any more, and what is done then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// After so long without a packet, work of a node or a command of `diorama exec`.
    pub after: VirtualDuration,
    /// Whether the run is suspended then; else it is said.
    pub swap_out: bool,
}

/// When the run is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Ends {
    /// When all these nodes have exited: places in [`Experiment::nodes`]. Empty: at the limit.
    pub exited: Vec<usize>,
    /// At the latest.
    pub limit: VirtualInstant,
    /// Whether it is to go on until somebody ends it. The limit is then only the longest that can be counted.
    pub never: bool,
}
