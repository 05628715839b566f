//! Why a run could not be brought to its end.

use std::fmt::Display;
use std::io;

use site::Kind;

use crate::samples::MetricError;

/// Why a run could not be brought to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// INT, TERM or HUP arrived.
    #[error("{}", site::Error::interrupted())]
    Interrupted,
    /// A metric could not be read.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// The experiment's file is wrong: each place with its line and a pointer into that line.
    #[error("{0}")]
    Experiment(String),
    /// The user asked for something that cannot be done.
    #[error("{0}")]
    Usage(String),
    /// A site failed, or no longer answers.
    #[error(transparent)]
    Site(#[from] site::Error),
    /// A file, or a system call, failed.
    #[error("{what}: {source}")]
    Io {
        /// The attempt, and the file.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The network is none that the emulator could have.
    #[error(transparent)]
    Net(#[from] net::Error),
    /// The page of the run could not be written.
    #[error(transparent)]
    Report(report::Error),
    /// A file of the run directory could not be written or read.
    #[error(transparent)]
    Record(#[from] record::Error),
}

/// The results of a run.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// For `map_err`: names what was tried.
    pub(crate) fn io<E: Into<io::Error>>(what: impl Display) -> impl FnOnce(E) -> Error {
        let what = what.to_string();
        move |source| Error::Io { what, source: source.into() }
    }
}

impl From<report::Error> for Error {
    fn from(e: report::Error) -> Error {
        match e {
            report::Error::Record(e) => Error::Record(e),
            other => Error::Report(other),
        }
    }
}

impl From<Error> for site::Error {
    fn from(e: Error) -> site::Error {
        let kind = match &e {
            Error::Interrupted => return site::Error::interrupted(),
            Error::Experiment(_) | Error::Usage(_) => Kind::Input,
            Error::Net(net::Error::Input(_)) => Kind::Input,
            Error::Record(record::Error::Input { .. } | record::Error::NotEmpty(_)) => Kind::Input,
            Error::Report(report::Error::Incomparable(_)) => Kind::Input,
            _ => Kind::Failed,
        };
        match e {
            Error::Site(told) => told,
            Error::Net(net::Error::Machine { what, help }) => site::Error::machine(what, help),
            other => site::Error { kind, what: other.to_string(), help: None },
        }
    }
}
