//! Why this machine could not do what was asked, in whichever mechanism that was.

use std::fmt::Display;
use std::io;
use std::path::Path;

use site::Kind;

use crate::live::LiveRun;

/// A failure of this machine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// INT, TERM or HUP arrived.
    #[error("{}", site::Error::interrupted())]
    Interrupted,
    /// The machine lacks something, or something is in use.
    #[error("{what}\n  help: {help}")]
    Machine {
        /// The lack, or what is in use.
        what: String,
        /// The command or setting that helps.
        help: String,
    },
    /// There is no plan.
    #[error(transparent)]
    Plan(plan::Error),
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
    /// Nothing can be run in a guest from outside.
    #[error("node {0} is a guest, a machine of its own: nothing can be run in it from outside; its console is its log")]
    IsGuest(String),
    /// The machine of a site no longer answers.
    #[error("{0}")]
    SiteLost(String),
    /// A file of the run, or a system call, failed.
    #[error("{what}: {source}")]
    Io {
        /// The attempt, and the file.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A failure that another process reported.
    #[error(transparent)]
    Reported(site::Error),
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
    /// A file of a run directory could not be written or read.
    #[error(transparent)]
    Record(record::Error),
}

/// The results of this machine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The kind of those that neither lack something nor come from another part.
    fn kind(&self) -> Kind {
        match self {
            Error::Experiment(_) | Error::Usage(_) | Error::NoSuchNode { .. } | Error::IsGuest(_) => Kind::Input,
            Error::Cpu(cpu::Error::Input(_)) | Error::Net(net::Error::Input(_)) => Kind::Input,
            Error::Disk(device::Error::Input(_)) => Kind::Input,
            Error::Node(node::Error::Input(_)) | Error::Host(host::Error::Input(_)) => Kind::Input,
            Error::Record(record::Error::Input { .. } | record::Error::NotEmpty(_)) => Kind::Input,
            Error::SiteLost(_) => Kind::Lost,
            _ => Kind::Failed,
        }
    }

    pub(crate) fn machine(what: impl Into<String>, help: impl Into<String>) -> Error {
        Error::Machine { what: what.into(), help: help.into() }
    }

    /// A live run does not answer.
    pub(crate) fn unreachable(run: &LiveRun, source: io::Error) -> Error {
        Error::Io { what: format!("run {}: cannot reach it", run.name), source }
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

/// Turns errors of a mechanism into this room's: each tells what the machine lacks in one shape.
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

/// Turns errors of those rooms that share `host`'s word for it into this room's.
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

impl From<plan::Error> for Error {
    fn from(e: plan::Error) -> Error {
        match e {
            plan::Error::Machine { what, help } => Error::Machine { what, help },
            other => Error::Plan(other),
        }
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

impl From<site::Error> for Error {
    fn from(e: site::Error) -> Error {
        Error::Reported(e)
    }
}

impl From<Error> for site::Error {
    fn from(e: Error) -> site::Error {
        match e {
            Error::Interrupted => site::Error::interrupted(),
            Error::Machine { what, help } => site::Error::machine(what, help),
            Error::Plan(e) => e.into(),
            Error::Reported(told) => told,
            other => site::Error { kind: other.kind(), what: other.to_string(), help: None },
        }
    }
}
