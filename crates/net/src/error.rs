//! Failures, said to the person who reads them.

use std::io;

/// A failure of this room.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The network that was asked for cannot be: in pieces, an unknown name, a number outside its range.
    #[error("{0}")]
    Input(String),
    /// The machine lacks or withholds something.
    #[error("{what}; {help}")]
    Machine {
        /// The lack.
        what: String,
        /// The command or setting that helps.
        help: String,
    },
    /// The kernel refused a step.
    #[error("{what}: {source}")]
    System {
        /// The step, with the node or interface it concerns.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The emulator's thread has ended; nothing moves in the network any more.
    #[error("the network emulator has died: {0}")]
    Died(String),
}

impl Error {
    /// A failure below, with the node or interface that it concerns.
    pub(crate) fn of_host(label: &str, error: host::Error) -> Error {
        Error::told(error, |what| format!("{label}: {what}"))
    }

    /// For `map_err`: the step that failed.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::told(host::Error::system(what, source), |what| what)
    }

    /// A failure below, of which `say` makes what is told.
    fn told(error: host::Error, say: impl FnOnce(String) -> String) -> Error {
        match error {
            host::Error::Input(what) => Error::Input(say(what)),
            host::Error::Machine(host::Lack { what, help }) => Error::Machine { what: say(what), help },
            host::Error::System { what, source } => Error::System { what: say(what), source },
        }
    }
}
