//! Findings about a machine: what it offers and lacks, and what that costs in fidelity.

use serde::{Deserialize, Serialize};

/// The meaning of a finding for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// Runs are possible; `says` tells what they lose.
    Degraded,
    /// No run is possible; `says` tells what helps.
    Lacking,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The subject.
    pub name: String,
    /// The finding, in a word or two.
    pub found: String,
    /// Its meaning for a run.
    pub state: State,
    /// A sentence on what that means, and what helps.
    pub says: String,
}

impl Finding {
    /// A finding that is fine.
    pub fn ok(name: &str, found: impl Into<String>, says: impl Into<String>) -> Finding {
        Finding { name: name.into(), found: found.into(), state: State::Ok, says: says.into() }
    }

    /// A finding that costs something.
    pub fn degraded(name: &str, found: impl Into<String>, says: impl Into<String>) -> Finding {
        Finding { state: State::Degraded, ..Finding::ok(name, found, says) }
    }

    /// Something without which no run is possible.
    pub fn lacking(name: &str, found: impl Into<String>, says: impl Into<String>) -> Finding {
        Finding { state: State::Lacking, ..Finding::ok(name, found, says) }
    }
}
