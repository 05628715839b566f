//! `diorama doctor`: what this machine, or each of a harness, offers and lacks, and what that costs in fidelity.

use std::path::PathBuf;
use std::process::ExitCode;

use engine::doctor::{Finding, State, findings};
use engine::far::{self, Between, Found, Seen};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::{columns, harness, terminal};

/// Arguments of `diorama doctor`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// Ask the machines of a harness file, and measure what is between them and this one; without FILE those of your
    /// configuration
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    harness: Option<Option<PathBuf>>,
}

/// Runs the verb: 0 if runs are possible here, or on all machines of the harness, else 3.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let Some(file) = args.harness else {
        let findings = findings();
        let text = if args.json { pretty(&json!(findings))? } else { table(&findings) };
        terminal::print(text)?;
        return Ok(code(is_possible(&findings)));
    };
    let seen = far::look(&harness::machines(file.as_deref())?, env!("DIORAMA_VERSION"));
    let text = if args.json { pretty(&seen.iter().map(as_json).collect())? } else { tables(&seen) };
    terminal::print(text)?;
    Ok(code(seen.iter().all(is_possible_at)))
}

fn code(possible: bool) -> ExitCode {
    if possible { ExitCode::SUCCESS } else { ExitCode::from(3) }
}

fn pretty(all: &Value) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(all).map_err(Failure::failed)? + "\n")
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

fn is_possible(findings: &[Finding]) -> bool {
    findings.iter().all(|f| f.state != State::Lacking)
}

fn is_possible_at(seen: &Seen) -> bool {
    seen.found.as_ref().is_ok_and(|found| is_possible(&found.findings))
}

/// A row for each subject, a column for each machine; then a sentence on each finding that costs something.
fn tables(seen: &[Seen]) -> String {
    let mut subjects: Vec<(&str, usize)> = Vec::new();
    let reached = || seen.iter().filter_map(|seen| Some((&seen.name, seen.found.as_ref().ok()?)));
    for (_, found) in reached() {
        for key in keyed(found).map(|(key, _)| key) {
            if !subjects.contains(&key) {
                subjects.push(key);
            }
        }
    }
    let head = std::iter::once(String::new()).chain(seen.iter().map(|seen| seen.name.clone())).collect();
    let reach = |seen: &Seen| if seen.found.is_ok() { "yes".to_owned() } else { "NO".to_owned() };
    let first = std::iter::once("reached".to_owned()).chain(seen.iter().map(reach)).collect();
    let mut rows: Vec<Vec<String>> = vec![head, first];
    for key in subjects {
        let cell = |seen: &Seen| {
            let finding = seen.found.as_ref().ok().and_then(|found| keyed(found).find(|(of, _)| *of == key));
            finding.map_or_else(String::new, |(_, f)| match f.state {
                State::Ok => f.found.clone(),
                State::Degraded => format!("{} (degraded)", f.found),
                State::Lacking => format!("{} (LACKING)", f.found),
            })
        };
        rows.push(std::iter::once(key.0.to_owned()).chain(seen.iter().map(cell)).collect());
    }
    let mut text = columns::table(rows.iter()) + "\n";
    for Seen { name, found } in seen {
        if let Err(e) = found {
            text += &format!("{name}: {e}\n");
        }
    }
    for (mark, state) in [("LACKING", State::Lacking), ("degraded", State::Degraded)] {
        let mut said: Vec<(String, Vec<&str>)> = Vec::new();
        for (name, found) in reached() {
            for f in found.findings.iter().filter(|f| f.state == state) {
                let line = format!("{mark}: {}, {}: {}", f.name, f.found, f.says);
                match said.iter_mut().find(|(other, _)| *other == line) {
                    Some((_, names)) => names.push(name),
                    None => said.push((line, vec![name])),
                }
            }
        }
        said.iter().for_each(|(line, names)| text += &format!("{}: {line}\n", names.join(", ")));
    }
    let possible = seen.iter().filter(|seen| is_possible_at(seen)).count();
    text + &format!("{possible} of {} machines can run experiments.\n", seen.len())
}

/// The findings of a machine by their names; where there are several of one, with their places among those.
fn keyed(found: &Found) -> impl Iterator<Item = ((&str, usize), &Finding)> {
    let all = &found.findings;
    all.iter().enumerate().map(move |(i, finding)| {
        let before = all[..i].iter().filter(|f| f.name == finding.name).count();
        ((finding.name.as_str(), before), finding)
    })
}

fn as_json(seen: &Seen) -> Value {
    match &seen.found {
        Err(e) => json!({ "name": seen.name, "error": e.to_string() }),
        Ok(Found { about, findings, between }) => json!({
            "name": seen.name, "machine": about, "findings": findings, "between": measured(between),
        }),
    }
}

fn measured(between: &Between) -> Value {
    let [min, half, most] = [0.0, 0.5, 0.99].map(|q| between.round_trip(q).as_secs_f64());
    json!({
        "round_trip_s": { "min": min, "p50": half, "p99": most, "n": between.round_trips.len() },
        "bits_per_s": { "there": between.bits_per_s[0], "back": between.bits_per_s[1] },
        "clock": between.clock.map(|clock| json!({
            "offset_s": clock.offset_ns as f64 / 1e9,
            "offset_within_s": clock.offset_within.as_secs_f64(),
            "drift_ppm": clock.drift_ppm,
            "drift_within_ppm": clock.drift_within_ppm,
        })),
        "jumps_s": between.jumps.iter().map(|jump| jump.by_ns as f64 / 1e9).collect::<Vec<_>>(),
    })
}
