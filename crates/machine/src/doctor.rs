//! Offers and lacks of this machine, and what they cost in fidelity.
//!
//! Features that can be tried are tried and not guessed: BPF programs are loaded and let go of again, a namespace gets
//! its settings, a thread becomes a real-time one. Nothing of it stays.

mod kernel;
mod machine;
mod speed;
mod timing;

use serde::Serialize;

/// The meaning of a finding for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
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
    fn ok(name: &str, found: impl Into<String>, says: impl Into<String>) -> Finding {
        Finding { name: name.into(), found: found.into(), state: State::Ok, says: says.into() }
    }

    /// A finding that costs something.
    fn degraded(name: &str, found: impl Into<String>, says: impl Into<String>) -> Finding {
        Finding { state: State::Degraded, ..Finding::ok(name, found, says) }
    }

    /// Something without which no run is possible.
    fn lacking(name: &str, found: impl Into<String>, says: impl Into<String>) -> Finding {
        Finding { state: State::Lacking, ..Finding::ok(name, found, says) }
    }
}

/// Looks at the machine, the kernel and how punctual and fast both are; takes some three seconds.
pub fn findings() -> Vec<Finding> {
    let all = [machine::findings(), kernel::findings(), timing::findings(), speed::findings()];
    all.into_iter().flatten().collect()
}
