//! Why the engine could not do what was asked, sorted as the exit codes of the command line are.

use std::fmt::Display;

/// What stands between what is wrong and what helps.
const HELP: &str = "\n  help: ";

/// A failure of the engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The experiment itself failed, or the harness failed it: exit code 1.
    #[error("{0}")]
    Failed(String),
    /// The user's input is wrong; the message says where and what would be right: exit code 2.
    #[error("{0}")]
    Input(String),
    /// The machine lacks something, or something is in use; `help` says what to do: exit code 3.
    #[error("{what}{HELP}{help}")]
    Machine {
        /// What is lacking or in use.
        what: String,
        /// The command or setting that helps.
        help: String,
    },
    /// INT or TERM arrived; everything has been torn down: exit code 130.
    #[error("interrupted; everything of this run has been torn down")]
    Interrupted,
}

impl Error {
    /// The exit code of the contract.
    pub fn code(&self) -> u8 {
        match self {
            Error::Failed(_) => 1,
            Error::Input(_) => 2,
            Error::Machine { .. } => 3,
            Error::Interrupted => 130,
        }
    }

    /// The failure that another process has told by its [code](Error::code) and its message.
    pub(crate) fn told(code: u8, message: String) -> Error {
        match (code, message.split_once(HELP)) {
            (3, Some((what, help))) => Error::machine(what, help),
            (2, _) => Error::Input(message),
            _ => Error::Failed(message),
        }
    }

    /// Something on the harness did not work: what was tried, and the reason.
    pub(crate) fn failed(what: impl Display, why: impl Display) -> Error {
        Error::Failed(format!("{what}: {why}"))
    }

    pub(crate) fn machine(what: impl Into<String>, help: impl Into<String>) -> Error {
        Error::Machine { what: what.into(), help: help.into() }
    }
}

/// The engine's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every room tells what the machine lacks in the same shape.
macro_rules! from_room {
    ($room:ident $(, $input:pat => $text:expr)?) => {
        impl From<$room::Error> for Error {
            fn from(e: $room::Error) -> Error {
                match e {
                    $room::Error::Machine { what, help } => Error::Machine { what, help },
                    $($input => Error::Input($text),)?
                    other => Error::Failed(other.to_string()),
                }
            }
        }
    };
}

from_room!(clock);
from_room!(cpu, cpu::Error::Input(text) => text);
from_room!(net, net::Error::Input(text) => text);
from_room!(node, node::Error::Input(text) => text);

impl From<host::Error> for Error {
    fn from(e: host::Error) -> Error {
        match e {
            host::Error::Input(text) => Error::Input(text),
            host::Error::Machine(host::Lack { what, help }) => Error::Machine { what, help },
            other => Error::Failed(other.to_string()),
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
            record::Error::Input { .. } | record::Error::NotEmpty(_) => Error::Input(e.to_string()),
            record::Error::InUse { .. } => {
                Error::machine(e.to_string(), "wait for that run to end, or give another directory with --out")
            }
            record::Error::Io { .. } => Error::Failed(e.to_string()),
        }
    }
}

impl From<fidelity::Error> for Error {
    fn from(e: fidelity::Error) -> Error {
        match e {
            fidelity::Error::Record(e) => e.into(),
            fidelity::Error::Input { .. } => Error::Input(e.to_string()),
            other => Error::Failed(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_survives_being_told() {
        for e in [Error::Failed("a".into()), Error::Input("b".into()), Error::machine("c", "d\n  help: e")] {
            let told = Error::told(e.code(), e.to_string());
            assert_eq!((told.code(), told.to_string()), (e.code(), e.to_string()));
        }
    }
}
