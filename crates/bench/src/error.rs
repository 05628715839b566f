//! Why a mechanism could not be measured.

use std::fmt::Display;

/// Why a mechanism could not be measured, sorted as exit codes are.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A step failed.
    #[error("{0}")]
    Failed(String),
    /// A request that cannot be met.
    #[error("{0}")]
    Input(String),
    /// The machine lacks or already uses something; the message says what helps.
    #[error("{0}")]
    Machine(String),
    /// A signal asked for the end; everything that was started has ended.
    #[error("interrupted; everything is torn down")]
    Interrupted,
}

impl Error {
    /// The exit code of `diorama bench`.
    pub fn code(&self) -> u8 {
        match self {
            Error::Failed(_) => 1,
            Error::Input(_) => 2,
            Error::Machine(_) => 3,
            Error::Interrupted => 130,
        }
    }

    pub(crate) fn failed(what: impl Display) -> Error {
        Error::Failed(what.to_string())
    }

    pub(crate) fn machine(what: impl Display) -> Error {
        Error::Machine(what.to_string())
    }
}

impl From<cpu::Error> for Error {
    fn from(e: cpu::Error) -> Error {
        match e {
            cpu::Error::Input(_) => Error::Input(e.to_string()),
            cpu::Error::Machine { .. } => Error::machine(e),
            _ => Error::failed(e),
        }
    }
}

impl From<device::Error> for Error {
    fn from(e: device::Error) -> Error {
        match e {
            device::Error::Input(_) => Error::Input(e.to_string()),
            device::Error::Machine { .. } => Error::machine(e),
            _ => Error::failed(e),
        }
    }
}

impl From<host::Error> for Error {
    fn from(e: host::Error) -> Error {
        match e {
            host::Error::Input(_) => Error::Input(e.to_string()),
            host::Error::Machine(_) => Error::machine(e),
            host::Error::System { .. } => Error::failed(e),
        }
    }
}
