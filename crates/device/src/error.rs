//! Failures of the disks of a run.

use std::io;
use std::path::Path;

/// Why disks cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The experiment asks for something that cannot be (exit 2).
    #[error("{0}")]
    Input(String),
    /// The machine lacks or already uses something (exit 3).
    #[error(transparent)]
    Machine(#[from] host::Lack),
    /// A system call failed that should not (exit 1).
    #[error("{what}: {source}")]
    System {
        /// The attempt.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The process that serves them is not there any more (exit 1).
    #[error(
        "the process that serves the disks of {disks} was {how}: whatever these nodes read and write since then fails \
         with EIO, so the run is over; if nobody killed it, the kernel's log may say why (`dmesg`: was there no memory \
         left?)"
    )]
    Ended {
        /// Whose disks, by name.
        disks: String,
        /// In which way: "killed by signal 9".
        how: String,
    },
    /// The process that serves them failed, or said nothing (exit 1).
    #[error("the process that serves the disks: {0}")]
    Server(String),
}

impl From<host::Error> for Error {
    fn from(error: host::Error) -> Error {
        match error {
            host::Error::Input(text) => Error::Input(text),
            host::Error::Machine(lack) => Error::Machine(lack),
            host::Error::System { what, source } => Error::System { what, source },
        }
    }
}

impl Error {
    /// A failed system call, with the lacks that have a remedy told apart.
    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        host::Error::system(what, source).into()
    }

    /// A file operation on `path` that failed.
    pub(crate) fn file(verb: &str, path: &Path, source: impl Into<io::Error>) -> Self {
        host::Error::file(verb, path, source).into()
    }
}
