//! `diorama doctor`: what this machine offers and lacks, and what that costs in fidelity.

use std::process::ExitCode;

use engine::doctor::{Finding, State, findings};

use crate::failure::Failure;
use crate::terminal;

/// Arguments of `diorama doctor`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the verb: 0 if runs are possible here, else 3.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let findings = findings();
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
