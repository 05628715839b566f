//! The parts of a run that a site has to know before it can prepare: plain data, made by the plan.

use std::path::PathBuf;

use cpu::Terms;
use guest::{Arch, Firmware, Format};
use net::NetworkSpec;
use record::plan::{Congestion, Cores};
use scale::{RealRate, Tdf, VirtualDuration, VirtualInstant};
use serde::{Deserialize, Serialize};

use crate::suspended::Part;

/// All that a site has to know about a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Real time over virtual time; 1 where the run is not dilated.
    pub tdf: Tdf,
    /// Whether the nodes' programs get the run's clock. Not in a variant that runs in real time.
    pub dilated: bool,
    /// Which cores do what.
    pub cores: Cores,
    /// How nodes have their cores.
    pub sharing: CoreSharing,
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
    /// The links whose traffic is recorded.
    pub captures: Vec<CaptureSetup>,
    /// How many bytes are kept of what each node prints.
    pub logs: u64,
    /// How often is written down what nodes use.
    pub monitor: MonitorSetup,
    /// How fast each node prints at most, in bits per real second.
    #[serde(default)]
    pub log_rate: Option<RealRate>,
    /// Whether each node has a user namespace.
    #[serde(default)]
    pub user_namespaces: bool,
    /// The suspended run that this one goes on with, whose nodes' files the machine has.
    pub continues: Option<Continues>,
}

/// The beginning of a run that goes on with a suspended one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continues {
    /// The virtual time at which that ended, and this begins.
    pub at: VirtualInstant,
    /// Virtual zero as a date: ns since 1970.
    pub zero_unix_ns: u64,
    /// Its parts.
    pub parts: Vec<Part>,
}

/// How the nodes of a run have their cores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoreSharing {
    /// Each has a share of its core.
    Shares,
    /// All have so much of a core together, as in the naive variant.
    Pool {
        /// How much; more than 1 on several cores.
        cap: f64,
    },
    /// Each has whole cores of its own, as in the native variant.
    WholeCores,
}

/// A node as a site has to know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeSetup {
    /// Its name and host name.
    pub name: String,
    /// Its root file system.
    pub root: Root,
    /// Its program and its arguments; none of a guest.
    pub argv: Vec<String>,
    /// In the place of a program, a whole machine.
    #[serde(default)]
    pub guest: Option<GuestSetup>,
    /// Its environment, beyond the usual.
    pub env: Vec<(String, String)>,
    /// Its working directory, inside the node.
    pub cwd: Option<String>,
    /// As whom its program runs: the numbers of the user and the group.
    pub user: (u32, u32),
    /// Its own host name; none: its name.
    pub hostname: Option<String>,
    /// Further names by which all nodes know it.
    pub names: Vec<String>,
    /// The number of the signal by which it is ended; none: SIGTERM.
    pub stop_signal: Option<i32>,
    /// Absolute paths inside the node, and what appears there.
    pub files: Vec<(String, Source)>,
    /// Ports of the machine's loopback, and the TCP port of the node that each leads to.
    #[serde(default)]
    pub ports: Vec<(u16, u16)>,
    /// The core that it runs on.
    pub core: usize,
    /// The cores that it has to itself, a CPU each; none: it shares `core`.
    #[serde(default)]
    pub whole_cores: Vec<usize>,
    /// How many CPUs it has; without cores of its own all of them on that core.
    pub cpus: u32,
    /// Their share of that core together, in real time; in a pool its weight.
    pub share: f64,
    /// Its memory limit.
    pub memory_bytes: u64,
    /// The divisor of its CPU clocks.
    pub cpu_clock_divisor: f64,
    /// Whether rdtsc and rdtscp show virtual time in it.
    pub dilated_tsc: bool,
    /// Whether the system calls of its programs are counted.
    #[serde(default)]
    pub observes_calls: bool,
    /// Whether its packets are counted, flow by flow.
    #[serde(default)]
    pub observes_packets: bool,
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

/// A whole machine as a site has to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestSetup {
    /// The architecture of its processors.
    pub arch: Arch,
    /// How it starts.
    pub boot: Boot,
    /// The image of its disk.
    pub disk: Option<(Source, Format)>,
}

/// How a guest starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Boot {
    /// With a kernel of Linux.
    Kernel {
        /// The kernel.
        kernel: Source,
        /// Its initial file system.
        initrd: Option<Source>,
        /// Words for it.
        cmdline: String,
    },
    /// From its disk.
    Firmware(Firmware),
}

/// How it is written down what nodes use of their machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MonitorSetup {
    /// How often.
    pub every: VirtualDuration,
    /// Of each node, how much of a core of this machine one of its CPUs is, where nodes have no clocks of their own.
    pub cores: Vec<f64>,
}

/// A file or folder that the user named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// Below the experiment's folder, wherever the machine has that.
    Experiment(PathBuf),
    /// A path on the machine itself, as the user wrote it.
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

/// The root that a node's own files lie over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// The machine's own root.
    Host,
    /// A directory.
    Directory(PathBuf),
    /// An image archive.
    Archive(PathBuf),
    /// An image that the machine keeps.
    Image(String),
}

/// The user's choice of cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreChoice {
    /// How many are for the emulator, the injector and the engine; one up to eight cores and two above, if nothing is
    /// said.
    pub harness: Option<usize>,
    /// How many are for nodes; as few as leave room, if nothing is said.
    pub nodes: Option<usize>,
    /// Whether both of two sibling hyper-threads may be used.
    pub siblings: bool,
}

impl CoreChoice {
    /// Whether both hyper-threads of a core are used on a machine that has so many physical ones.
    pub fn both_threads(&self, physical: usize) -> bool {
        self.siblings || physical < 2
    }
}
