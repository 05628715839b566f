//! Failures of a queue.

use std::io;
use std::path::PathBuf;

/// A sentence for whoever reads it, and with [`Error::code`] the exit code that scripts rely on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is none of ours, or there is no such job.
    #[error("{0}")]
    Input(String),
    /// The file is no database, or not what was written.
    #[error("{}: {what}; name another file with --queue", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The database's words on it.
        what: String,
    },
    /// The disk, the file system or the database fails.
    #[error("{}: {what}", file.display())]
    Failed {
        /// The file concerned.
        file: PathBuf,
        /// The fault, and what would be right where that is known.
        what: String,
    },
}

impl Error {
    /// 1 for what fails, 2 for bad input.
    pub fn code(&self) -> u8 {
        match self {
            Error::Input(_) | Error::Damaged { .. } => 2,
            Error::Failed { .. } => 1,
        }
    }

    pub(crate) fn file(file: impl Into<PathBuf>, what: &str) -> impl FnOnce(io::Error) -> Error {
        let (file, what) = (file.into(), what.to_owned());
        move |e| Error::Failed { file, what: format!("{what}: {e}") }
    }

    pub(crate) fn database(file: impl Into<PathBuf>) -> impl FnOnce(rusqlite::Error) -> Error {
        let file = file.into();
        move |e| match e.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => Error::Damaged { file, what: "this is no queue".into() },
            Some(rusqlite::ErrorCode::DatabaseCorrupt) => {
                Error::Damaged { file, what: format!("this queue is not what was written ({e})") }
            }
            Some(rusqlite::ErrorCode::DiskFull) => {
                let what = "the disk is full; nothing of the queue is lost: make room, and do the same again";
                Error::Failed { file, what: what.into() }
            }
            Some(rusqlite::ErrorCode::DatabaseBusy) => {
                Error::Failed { file, what: "others have held the queue for half a minute: try again".into() }
            }
            _ => Error::Failed { file, what: format!("the queue cannot be read or written: {e}") },
        }
    }
}

/// The result of what may fail.
pub type Result<T> = std::result::Result<T, Error>;
