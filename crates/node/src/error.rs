//! Failures of a node, told to the person who runs the experiment.

use std::io;
use std::path::Path;

/// Why a node, or the enclosure of all nodes, cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The experiment asks for something that cannot be (exit 2).
    #[error("{0}")]
    Input(String),
    /// The machine lacks or already uses something (exit 3).
    #[error(transparent)]
    Machine(#[from] host::Lack),
    /// A node failed (exit 1).
    #[error("node {node}: {what}")]
    Node {
        /// The node's name.
        node: String,
        /// The event.
        what: String,
    },
    /// A step of the run's own machinery failed (exit 1).
    #[error("{what}: {source}")]
    System {
        /// The attempt.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
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

/// Adds what was tried to a failed system call.
pub(crate) trait Context<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|e| Error::system(what(), e))
    }
}
