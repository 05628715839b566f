//! Why the engine could not do what was asked. Every error has a kind, and the kind decides the exit code.

use std::fmt::Display;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::plan::Refusal;
use crate::run::MetricError;

/// What sort of failure an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The experiment itself failed, or the harness failed it: exit code 1.
    Failed,
    /// The user's input is wrong; the message says where and what would be right: exit code 2.
    Input,
    /// The machine lacks something, or something is in use; the error has a [help](Error::help): exit code 3.
    Machine,
    /// INT, TERM or HUP arrived; everything has been torn down: exit code 130.
    Interrupted,
}

impl Kind {
    /// The exit code of the command line (docs/command-line.md).
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Failed => 1,
            Kind::Input => 2,
            Kind::Machine => 3,
            Kind::Interrupted => 130,
        }
    }
}

/// A failure of the engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// INT, TERM or HUP arrived.
    #[error("interrupted; everything of this run has been torn down")]
    Interrupted,
    /// The machine lacks something, or something is in use.
    #[error("{what}\n  help: {help}")]
    Machine {
        /// What is lacking or in use.
        what: String,
        /// The command or setting that helps.
        help: String,
    },
    /// The harness could not keep to the experiment, or the experiment contradicts itself.
    #[error(transparent)]
    Plan(Box<Refusal>),
    /// A metric could not be read.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// The experiment's file is wrong: each place with its line and a pointer into that line.
    #[error("{0}")]
    Experiment(String),
    /// The user named something that is not there, or gave something that cannot be used.
    #[error("{0}")]
    Usage(String),
    /// A run has no node of that name.
    #[error("there is no node `{name}`; the run's nodes: {}", known.join(", "))]
    NoSuchNode {
        /// The name that was given.
        name: String,
        /// The names of the run's nodes.
        known: Vec<String>,
    },
    /// Nothing can run in a node that has ended.
    #[error("node {0} has ended, so nothing can run in it")]
    NodeEnded(String),
    /// The machine of a site no longer answers.
    #[error("{0}")]
    SiteLost(String),
    /// A file of the run, or a system call, failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, and with which file.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// What another process reported of its failure.
    #[error("{}", .0.message())]
    Reported(ErrorReport),
    /// Dilation failed.
    #[error(transparent)]
    Clock(clock::Error),
    /// CPU shares could not be kept.
    #[error(transparent)]
    Cpu(cpu::Error),
    /// The emulator failed.
    #[error(transparent)]
    Net(net::Error),
    /// A node failed.
    #[error(transparent)]
    Node(node::Error),
    /// The disks of the nodes failed.
    #[error(transparent)]
    Disk(device::Error),
    /// The kernel refused something.
    #[error(transparent)]
    Host(host::Error),
    /// The page of a run could not be written.
    #[error(transparent)]
    Report(report::Error),
    /// A file of a run directory could not be written or read.
    #[error(transparent)]
    Record(record::Error),
}

/// The engine's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error as it is reported to another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorReport {
    /// Its kind.
    pub kind: Kind,
    /// What happened.
    pub what: String,
    /// What helps, if it is something of the machine.
    pub help: Option<String>,
}

impl ErrorReport {
    fn message(&self) -> String {
        match &self.help {
            Some(help) => format!("{}\n  help: {help}", self.what),
            None => self.what.clone(),
        }
    }
}

impl Error {
    /// What sort of failure it is.
    pub fn kind(&self) -> Kind {
        match self {
            Error::Interrupted => Kind::Interrupted,
            Error::Machine { .. } => Kind::Machine,
            Error::Plan(_) | Error::Experiment(_) | Error::Usage(_) | Error::NoSuchNode { .. } => Kind::Input,
            Error::Cpu(cpu::Error::Input(_)) | Error::Net(net::Error::Input(_)) => Kind::Input,
            Error::Disk(device::Error::Input(_)) => Kind::Input,
            Error::Node(node::Error::Input(_)) | Error::Host(host::Error::Input(_)) => Kind::Input,
            Error::Record(record::Error::Input { .. } | record::Error::NotEmpty(_)) => Kind::Input,
            Error::Report(report::Error::Incomparable(_)) => Kind::Input,
            Error::Reported(told) => told.kind,
            _ => Kind::Failed,
        }
    }

    /// The command or setting that helps, where the machine lacks or already uses something.
    pub fn help(&self) -> Option<&str> {
        match self {
            Error::Machine { help, .. } => Some(help),
            Error::Reported(told) => told.help.as_deref(),
            _ => None,
        }
    }

    /// The exit code of the command line.
    pub fn code(&self) -> u8 {
        self.kind().exit_code()
    }

    /// The error as it is reported to another process.
    pub fn report(&self) -> ErrorReport {
        match self {
            Error::Machine { what, help } => {
                ErrorReport { kind: Kind::Machine, what: what.clone(), help: Some(help.clone()) }
            }
            Error::Reported(told) => told.clone(),
            other => ErrorReport { kind: other.kind(), what: other.to_string(), help: None },
        }
    }

    pub(crate) fn machine(what: impl Into<String>, help: impl Into<String>) -> Error {
        Error::Machine { what: what.into(), help: help.into() }
    }

    /// For `map_err`: names what was tried.
    pub(crate) fn io<E: Into<io::Error>>(what: impl Display) -> impl FnOnce(E) -> Error {
        let what = what.to_string();
        move |source| match source.into() {
            source if source.raw_os_error() == Some(libc::EMFILE) => host::Error::system(what, source).into(),
            source => Error::Io { what, source },
        }
    }

    /// For `map_err`: names the file, and what was tried with it.
    pub(crate) fn file<E: Into<io::Error>>(path: &Path, verb: &str) -> impl FnOnce(E) -> Error {
        Error::io(format!("{}: cannot {verb}", path.display()))
    }
}

/// Every mechanism tells what the machine lacks in the same shape.
macro_rules! from_room {
    ($room:ident, $variant:ident) => {
        impl From<$room::Error> for Error {
            fn from(e: $room::Error) -> Error {
                match e {
                    $room::Error::Machine { what, help } => Error::Machine { what, help },
                    other => Error::$variant(other),
                }
            }
        }
    };
}

from_room!(clock, Clock);
from_room!(net, Net);

/// The same of those that share `host`'s word for it.
macro_rules! from_room_with_lack {
    ($room:ident, $variant:ident) => {
        impl From<$room::Error> for Error {
            fn from(e: $room::Error) -> Error {
                match e {
                    $room::Error::Machine(host::Lack { what, help }) => Error::Machine { what, help },
                    other => Error::$variant(other),
                }
            }
        }
    };
}

from_room_with_lack!(host, Host);
from_room_with_lack!(cpu, Cpu);
from_room_with_lack!(node, Node);
from_room_with_lack!(device, Disk);

impl From<Refusal> for Error {
    fn from(e: Refusal) -> Error {
        Error::Plan(Box::new(e))
    }
}

impl From<tcp::Error> for Error {
    fn from(e: tcp::Error) -> Error {
        Error::machine(e.to_string(), "see `diorama doctor`")
    }
}

impl From<record::Error> for Error {
    fn from(e: record::Error) -> Error {
        match e {
            record::Error::InUse { .. } => {
                Error::machine(e.to_string(), "wait for that run to end, or give another directory with --out")
            }
            other => Error::Record(other),
        }
    }
}

impl From<report::Error> for Error {
    fn from(e: report::Error) -> Error {
        match e {
            report::Error::Record(e) => e.into(),
            other => Error::Report(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_survives_being_reported() {
        let all = [
            Error::Usage("a".into()),
            Error::NodeEnded("b".into()),
            Error::machine("c", "d\n  help: e"),
            Error::Interrupted,
        ];
        for e in all {
            let bytes = serde_json::to_vec(&e.report()).unwrap();
            let told = Error::Reported(serde_json::from_slice(&bytes).unwrap());
            assert_eq!((told.code(), told.to_string()), (e.code(), e.to_string()));
            assert_eq!(told.help(), e.help());
        }
    }

    #[test]
    fn the_kind_decides_the_exit_code() {
        let codes = [Kind::Failed, Kind::Input, Kind::Machine, Kind::Interrupted].map(Kind::exit_code);
        assert_eq!(codes, [1, 2, 3, 130]);
    }
}
