//! The runs behind a table that their own verdict does not trust.

use std::fmt;
use std::path::Path;

use record::{RunResult, Verdict};

/// How many runs a table rests on, and which of them are suspect.
#[derive(Debug, Default)]
pub struct Suspects {
    runs: usize,
    named: Vec<String>,
}

impl Suspects {
    /// Counts a run; says whether it is suspect.
    pub fn add(&mut self, directory: &Path, result: &RunResult) -> bool {
        self.runs += 1;
        let suspect = result.fidelity.verdict == Verdict::Suspect;
        if suspect {
            let name = directory.file_name().unwrap_or_default().to_string_lossy();
            let kind = directory.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
            let breaches: Vec<_> = result.fidelity.breaches().map(|check| check.name.as_str()).collect();
            self.named.push(format!("  {kind}/{name}: {}", breaches.join(", ")));
        }
        suspect
    }
}

impl fmt::Display for Suspects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "suspect by their own verdict: {} of {} runs", self.named.len(), self.runs)?;
        self.named.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
