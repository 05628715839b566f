//! What can be wrong with a run directory or a comparison.

use std::io;
use std::path::{Path, PathBuf};

/// A failure of this room.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file holds something that it must not hold; `what` says where in it and what would be right.
    #[error("{}: {what}", path.display())]
    Input {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong and what would be right.
        what: String,
    },
    /// A run directory that cannot be read or written.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// Runs that cannot be compared with one another.
    #[error("{0}")]
    Incomparable(String),
    /// A file could not be read or written.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// `read`, `write` or `list`.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn input(path: &Path, what: impl ToString) -> Error {
        Error::Input { path: path.to_owned(), what: what.to_string() }
    }

    pub(crate) fn io(path: &Path, doing: &'static str, source: io::Error) -> Error {
        Error::Io { path: path.to_owned(), doing, source }
    }
}
