//! The arguments and answers of a site's calls while its clock runs.

use record::LogStream;
use scale::{RealDuration, RealInstant, VirtualInstant};
use serde::{Deserialize, Serialize};

use crate::NodeIndex;
use crate::error::{Error, Result};

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

/// Something that happened on a site, told without being asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The program of a node has ended.
    Exited(NodeExit),
    /// A command has ended, or could not be brought to its end.
    CommandEnded(CommandId, Result<Execution>),
    /// Somebody outside has connected to a node for the first time, by the port `here` of the machine's loopback that
    /// leads to the port `there` of the node.
    FromOutside {
        /// The node.
        node: NodeIndex,
        /// The port of the machine's loopback.
        here: u16,
        /// The port of the node.
        there: u16,
    },
    /// Nothing of the run is left on the site, or it cannot be reached any more.
    Lost(Error),
}

/// A command that was begun, by the order in which they are.
pub type CommandId = u64;

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

/// A change of a node's clock; what it does not name stays as it is then.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockChange {
    /// By how many ns its date is off against the others' from now on.
    pub offset_ns: Option<i64>,
    /// And by how many ns more with each that passes.
    pub drift: Option<f64>,
    /// Its date has been off by that since the run began: no program of its has seen it otherwise.
    pub from_start: bool,
}

/// A change of what a node's machine has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum HardwareChange {
    /// Its CPUs are as fast as this part of what they are by the plan.
    Speed(f64),
    /// It has so much memory, in bytes; without a number as much as by the plan.
    Memory(Option<u64>),
}

/// A change of a program beside a node's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramChange {
    /// The node.
    pub node: NodeIndex,
    /// The program's name in it.
    pub program: String,
    /// The change.
    pub what: ProgramDeed,
}

/// Changes of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgramDeed {
    /// It is started: the program and its arguments. What it prints is added to the node's own logs.
    Run(Vec<String>),
    /// If it runs, it is asked to end, and started with these arguments.
    Again(Vec<String>),
    /// It, and what it has started, get this signal.
    Signal(i32),
}

/// The result of a command in a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// How it ended.
    pub exit: Exit,
    /// Its standard output; the first MiB.
    pub stdout: Vec<u8>,
    /// Its standard error; the first MiB.
    pub stderr: Vec<u8>,
}

/// Something that a node wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Written {
    /// A file, by its absolute path inside the node.
    File(String),
    /// The log of its program.
    Log(LogStream),
    /// The end of that: its last `limit` bytes.
    LogEnd(LogStream),
}
