//! A failure as it crosses the boundary between a run and a machine: data, whose kind decides the exit code.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The experiment itself failed, or the harness failed it: exit code 1.
    Failed,
    /// The machine of a site no longer answers, or has nothing of the run any more: exit code 1.
    Lost,
    /// The user's input is wrong; the message says where and what would be right: exit code 2.
    Input,
    /// The machine lacks something, or something is in use; the error has a [help](Error::help): exit code 3.
    Machine,
    /// INT, TERM or HUP arrived; everything has been torn down: exit code 130.
    Interrupted,
}

impl Kind {
    /// The exit code of the command line (docs/command-line.md).
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Failed | Kind::Lost => 1,
            Kind::Input => 2,
            Kind::Machine => 3,
            Kind::Interrupted => 130,
        }
    }
}

/// A failure: each part of the engine has an error type of its own and turns it into this one at its boundary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    /// Its kind.
    pub kind: Kind,
    /// The failure, as a sentence.
    pub what: String,
    /// The command or setting that helps, if it is something of the machine.
    pub help: Option<String>,
}

/// The results of a site.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A failure that is neither the user's nor for want of something.
    pub fn failed(what: impl fmt::Display) -> Error {
        Error { kind: Kind::Failed, what: what.to_string(), help: None }
    }

    /// The machine of a site no longer answers, or has nothing of the run any more.
    pub fn lost(what: impl fmt::Display) -> Error {
        Error { kind: Kind::Lost, what: what.to_string(), help: None }
    }

    /// The user named something that is not there, or gave something that cannot be used.
    pub fn input(what: impl fmt::Display) -> Error {
        Error { kind: Kind::Input, what: what.to_string(), help: None }
    }

    /// The machine lacks something, or something is in use.
    pub fn machine(what: impl fmt::Display, help: impl fmt::Display) -> Error {
        Error { kind: Kind::Machine, what: what.to_string(), help: Some(help.to_string()) }
    }

    /// INT, TERM or HUP arrived.
    pub fn interrupted() -> Error {
        let what = "interrupted; everything of this run has been torn down".into();
        Error { kind: Kind::Interrupted, what, help: None }
    }

    /// The exit code of the command line.
    pub fn code(&self) -> u8 {
        self.kind.exit_code()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, "\n  help: {help}"))
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_survives_the_way_to_another_process() {
        for e in [Error::input("a"), Error::lost("b"), Error::machine("c", "d\n  help: e"), Error::interrupted()] {
            let bytes = serde_json::to_vec(&e).unwrap();
            let told: Error = serde_json::from_slice(&bytes).unwrap();
            assert_eq!((told.code(), told.to_string()), (e.code(), e.to_string()));
            assert_eq!(told, e);
        }
        assert_eq!(Error::machine("no core", "wait").to_string(), "no core\n  help: wait");
    }

    #[test]
    fn the_kind_decides_the_exit_code() {
        let codes = [Kind::Lost, Kind::Input, Kind::Machine, Kind::Interrupted].map(Kind::exit_code);
        assert_eq!(codes, [1, 2, 3, 130]);
    }
}
