//! `diorama doctor`: what this machine offers and lacks, and what that costs in fidelity.

mod kernel;
mod machine;
mod timing;

use std::process::ExitCode;

use serde::Serialize;

use crate::failure::Failure;
use crate::terminal;

/// Arguments of `diorama doctor`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// What a finding means for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// As it should be.
    Ok,
    /// Runs are possible; `says` tells what they lose.
    Degraded,
    /// No run is possible; `says` tells what helps.
    Lacking,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
struct Finding {
    name: String,
    /// What was found, in a word or two.
    found: String,
    state: State,
    /// What that means, and what helps.
    says: String,
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

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let findings: Vec<Finding> =
        machine::findings().into_iter().chain(kernel::findings()).chain(timing::findings()).collect();
    let text = if args.json {
        serde_json::to_string_pretty(&findings).map_err(Failure::failed)? + "\n"
    } else {
        table(&findings)
    };
    terminal::print(text)?;
    let possible = findings.iter().all(|f| f.state != State::Lacking);
    Ok(if possible { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn table(findings: &[Finding]) -> String {
    let width = |of: fn(&Finding) -> &str| findings.iter().map(|f| of(f).chars().count()).max().unwrap_or(0);
    let (name, found) = (width(|f| &f.name), width(|f| &f.found));
    let line = |f: &Finding| {
        let mark = match f.state {
            State::Ok => "ok      ",
            State::Degraded => "degraded",
            State::Lacking => "LACKING ",
        };
        format!("{mark}  {:name$}  {:found$}  {}\n", f.name, f.found, f.says)
    };
    let count = |state| findings.iter().filter(|f| f.state == state).count();
    let summary = match (count(State::Lacking), count(State::Degraded)) {
        (0, 0) => "This machine can run experiments, and lacks nothing.\n".to_string(),
        (0, n) => format!("This machine can run experiments; {n} of these findings can cost fidelity.\n"),
        (n, _) => format!("This machine cannot run experiments: {n} of these findings must be helped first.\n"),
    };
    findings.iter().map(line).chain([summary]).collect()
}
