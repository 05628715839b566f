//! What this machine offers and lacks, and what that costs in fidelity.
//!
//! Whatever can be tried is tried and not guessed: BPF programs are loaded and let go of again, a namespace gets its
//! settings, a thread becomes a real-time one. Nothing of it stays.

mod kernel;
mod machine;
mod speed;
mod timing;

use serde::Serialize;

/// What a finding means for a run.
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
    /// What was looked at.
    pub name: String,
    /// What was found, in a word or two.
    pub found: String,
    /// What it means for a run.
    pub state: State,
    /// What that means, and what helps.
    pub says: String,
}

impl Finding {
    /// A finding that is fine.
    fn ok(name: &str, found: impl Into<String>, says: impl Into<String>) -> Finding {
        Finding { name: name.into(), found: found.into(), state: State::Ok, says: says.into() }
    }

    /// The same thing found, but at a cost.
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
