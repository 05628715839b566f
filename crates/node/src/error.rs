//! What can go wrong with a node, told to the person who runs the experiment.

use std::io;
use std::path::Path;

/// Why a node, or the enclosure of all nodes, cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What the experiment asks for cannot be (exit 2).
    #[error("{0}")]
    Input(String),
    /// The machine lacks or already uses something (exit 3).
    #[error("{what}; {help}")]
    Machine {
        /// What is missing or in use.
        what: String,
        /// The command or setting that helps.
        help: String,
    },
    /// A node failed (exit 1).
    #[error("node {node}: {what}")]
    Node {
        /// The node's name.
        node: String,
        /// What happened.
        what: String,
    },
    /// A step of the run's own machinery failed (exit 1).
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Error {
    /// A failed system call, with the lacks that have a remedy told apart.
    pub(crate) fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        let (what, source) = (what.into(), source.into());
        // Libraries pass on the kind of an error, not always its number.
        let full = matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let lack = match source.raw_os_error() {
            _ if full => "make room (`df -h` and `df -i` show where), then run again",
            Some(libc::EPERM | libc::EACCES) => "run as root with all capabilities (`sudo diorama …`)",
            Some(libc::EMFILE | libc::ENFILE) => "raise the limit on open files (`ulimit -n 65536`)",
            _ => return Self::System { what, source },
        };
        Self::Machine { what: format!("{what}: {source}"), help: lack.into() }
    }

    /// A file operation on `path` that failed.
    pub(crate) fn file(verb: &str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::system(format!("cannot {verb} {}", path.display()), source)
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
