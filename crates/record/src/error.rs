//! Faults of a run directory.

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
        /// The fault, and what would be right.
        what: String,
    },
    /// The directory that was asked for belongs to a live run.
    #[error("{}: a live run writes to {}", path.display(), by.display())]
    InUse {
        /// The directory that was asked for.
        path: PathBuf,
        /// Where the live run writes to.
        by: PathBuf,
    },
    /// The directory that was asked for holds something.
    #[error("--out {}: the directory is not empty; give one that is new or empty", .0.display())]
    NotEmpty(PathBuf),
    /// A file or directory could not be read, written or made.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The attempt: `read`, `write`, `list`, ….
        doing: String,
        /// The system's reason.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn input(path: &Path, what: impl ToString) -> Error {
        Error::Input { path: path.to_owned(), what: what.to_string() }
    }

    pub(crate) fn io(path: &Path, doing: impl Into<String>, source: io::Error) -> Error {
        Error::Io { path: path.to_owned(), doing: doing.into(), source }
    }

    /// The failure of a CSV file while it was being read or written (`doing`); `form` says what each line is.
    pub(crate) fn csv(path: &Path, doing: &str, form: &str, e: csv::Error) -> Error {
        let what = e.to_string();
        match e.into_kind() {
            // A fault of the file, and not of reading it.
            csv::ErrorKind::Io(e) if e.kind() == io::ErrorKind::InvalidData => Error::input(path, e),
            csv::ErrorKind::Io(e) => Error::io(path, doing, e),
            _ => Error::input(path, format!("{what}; each line is {form}")),
        }
    }
}

/// The room's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;
