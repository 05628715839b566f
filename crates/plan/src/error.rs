//! Why there is no plan.

use site::Kind;

use crate::Refusal;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The harness could not keep to the experiment, or the experiment contradicts itself.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// The machine lacks something.
    #[error("{what}\n  help: {help}")]
    Machine {
        /// The lack.
        what: String,
        /// The command or setting that helps.
        help: String,
    },
    /// The network is none that the emulator could have.
    #[error(transparent)]
    Network(net::Error),
    /// A machine has a speed that is none.
    #[error(transparent)]
    Speed(clock::Error),
}

/// The results of planning.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Error::Machine { .. } => Kind::Machine,
            Error::Refused(_) | Error::Network(net::Error::Input(_)) => Kind::Input,
            Error::Network(_) | Error::Speed(_) => Kind::Failed,
        }
    }

    pub(crate) fn machine(what: impl Into<String>, help: impl Into<String>) -> Error {
        Error::Machine { what: what.into(), help: help.into() }
    }
}

impl From<Refusal> for Error {
    fn from(e: Refusal) -> Error {
        Error::Refused(Box::new(e))
    }
}

impl From<net::Error> for Error {
    fn from(e: net::Error) -> Error {
        match e {
            net::Error::Machine { what, help } => Error::Machine { what, help },
            other => Error::Network(other),
        }
    }
}

impl From<clock::Error> for Error {
    fn from(e: clock::Error) -> Error {
        match e {
            clock::Error::Machine { what, help } => Error::Machine { what, help },
            other => Error::Speed(other),
        }
    }
}

impl From<Error> for site::Error {
    fn from(e: Error) -> site::Error {
        match e {
            Error::Machine { what, help } => site::Error::machine(what, help),
            other => site::Error { kind: other.kind(), what: other.to_string(), help: None },
        }
    }
}
