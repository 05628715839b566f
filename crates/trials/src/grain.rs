//! `diorama-trials grain`: what short and long turns on the core cost.
//!
//! A short turn begins with caches that others have used, so requests cost more; in a long one a request waits longer
//! for its turn. Both variants of an experiment run with turns of several lengths. Runs that are there already are not
//! made again, so that the many can be made bit by bit.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use record::{CheckName, RunDir, RunResult, Variant};
use report::{Line, lines_page};

use crate::driver::Driver;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::results;

/// Arguments of `diorama-trials grain`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which experiments
    #[arg(default_values = ["web-busy", "tls"])]
    experiments: Vec<String>,
    /// Lengths of turns of the slowest node where shares are small, real ms (a baseline's are longer)
    #[arg(long, value_delimiter = ',', default_values_t = [0.1, 0.2, 0.4, 0.8, 1.5])]
    turns: Vec<f64>,
    /// How often each combination runs
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Where the runs are, or go
    #[arg(long, default_value = "runs/grain")]
    out: PathBuf,
    /// Make no more runs than this, and show what there is
    #[arg(long)]
    at_most: Option<usize>,
    /// A value of the experiments that is changed (`PATH=VALUE`), in all runs
    #[arg(long = "set")]
    set: Vec<String>,
}

/// The metrics that count.
const REQUESTS: &str = "requests";
const LATENCY: &str = "latency";
/// The node whose work is compared.
const SERVER: &str = "server";
/// All requests are counted, so that they can be set against all of the CPU time.
const ALL: (&str, &str) = ("measure", "0s..");

/// One combination that is run.
#[derive(Clone, Debug, PartialEq)]
struct Kind {
    turn_ms: f64,
    variant: Variant,
}

/// What came of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    /// CPU time of the server for a request, ms of a core at its reference speed.
    cost_ms: f64,
    requests: f64,
    latency_ms: f64,
    /// What a node waits for its turn, at most so much of the latency.
    grain_percent: f64,
    suspect: bool,
}

/// Makes the runs that are missing and shows what all say.
pub fn main(args: Args) -> Result<(), Failure> {
    let driver = Driver::new()?;
    let mut left = args.at_most.unwrap_or(usize::MAX);
    let set: Vec<(&str, &str)> = args.set.iter().filter_map(|s| s.split_once('=')).collect();
    let mut text = format!("Measured on {}.\n", Machine::here());
    for name in &args.experiments {
        let folder = results::experiment(name)?;
        let out = args.out.join(name);
        let grain_of_turn = grain_of_turn(&driver, &folder, &set, &out, &mut left)?;
        let mut seen: Vec<(Kind, Vec<Seen>)> = kinds(&args.turns).map(|kind| (kind, Vec::new())).collect();
        for round in 1..=args.rounds {
            for (kind, seen) in &mut seen {
                let directory = out.join(kind.path()).join(round.to_string());
                if !RunDir::at(&directory).has_result() {
                    if left == 0 {
                        continue;
                    }
                    left -= 1;
                    eprintln!("{name}, {}, {round} of {}", kind.path(), args.rounds);
                    let grain = format!("{:.4}ms", kind.turn_ms * grain_of_turn);
                    let set: Vec<_> = set.iter().copied().chain([ALL, ("grain", grain.as_str())]).collect();
                    driver.run_with(&folder, kind.variant, &set, &directory, false)?;
                }
                seen.push(Seen::of(&RunDir::at(&directory), kind.variant)?);
            }
        }
        let table = table(&seen);
        let _ = write!(text, "\n{name}\n{table}");
        let page = out.join("grain.html");
        let html = lines_page(&format!("{name}: what turns cost"), "turn, ms", "%", &lines(&seen), &table);
        fs::write(&page, html).map_err(|e| Failure::failed(format!("cannot write {}: {e}", page.display())))?;
        let _ = writeln!(text, "chart: {}", page.display());
    }
    println!("{text}");
    Ok(())
}

/// The grain that goes with a turn, as a multiple of it: the same for all turns of an experiment. A plan of a baseline,
/// where shares are speeds, says it.
fn grain_of_turn(
    driver: &Driver,
    folder: &Path,
    set: &[(&str, &str)],
    out: &Path,
    left: &mut usize,
) -> Result<f64, Failure> {
    let directory = out.join("first");
    if !RunDir::at(&directory).has_result() && *left > 0 {
        *left -= 1;
        driver.run_with(folder, Variant::Baseline, set, &directory, false)?;
    }
    let plan = RunDir::at(&directory).plan().map_err(Failure::failed)?;
    let plan = plan.ok_or_else(|| Failure::failed(format!("{} has no plan", directory.display())))?;
    let slowest = plan.nodes.values().map(|node| node.share).min_by(f64::total_cmp);
    let slowest = slowest.ok_or_else(|| Failure::failed(format!("{} has no nodes", directory.display())))?;
    Ok(1.0 / slowest)
}

fn kinds(turns: &[f64]) -> impl Iterator<Item = Kind> {
    let variants = [Variant::Baseline, Variant::Scaled];
    turns.iter().flat_map(move |&turn_ms| variants.map(|variant| Kind { turn_ms, variant }))
}

impl Kind {
    fn path(&self) -> String {
        format!("{}ms-{}", self.turn_ms, self.variant)
    }
}

impl Seen {
    fn of(directory: &RunDir, variant: Variant) -> Result<Seen, Failure> {
        let result = directory.result().map_err(Failure::failed)?;
        let metric = |name: &str| {
            let record = result.metrics.get(name).map(|m| m.summary);
            record.ok_or_else(|| Failure::failed(format!("{variant}: no metric `{name}`")))
        };
        let seconds = directory.speed().map_err(Failure::failed)?;
        // A slow core needs more time for the same work.
        let slower = seconds.iter().map(|s| s.k).sum::<f64>() / seconds.len() as f64;
        let slower = if slower.is_finite() { slower } else { 1.0 };
        let server = result.nodes.get(SERVER).ok_or_else(|| Failure::failed(format!("there is no node `{SERVER}`")))?;
        let latency = metric(LATENCY)?;
        Ok(Seen {
            cost_ms: 1e3 * server.core_seconds.unwrap_or(f64::NAN) / latency.n as f64 / slower,
            requests: metric(REQUESTS)?.mean,
            latency_ms: latency.mean,
            grain_percent: effect(&result, CheckName::CpuGrain),
            suspect: result.fidelity.verdict == record::Verdict::Suspect,
        })
    }
}

fn effect(result: &RunResult, check: CheckName) -> f64 {
    let of = result.fidelity.checks.iter().find(|c| c.name == check);
    of.and_then(|c| c.effect_percent).unwrap_or(f64::NAN)
}

fn mean(seen: &[Seen], of: fn(&Seen) -> f64) -> f64 {
    seen.iter().map(of).sum::<f64>() / seen.len() as f64
}

/// The least that a request costs in any kind of run, mean of its runs: with the warmest caches.
fn warmest(seen: &[(Kind, Vec<Seen>)]) -> f64 {
    let made = seen.iter().filter(|(_, runs)| !runs.is_empty());
    made.map(|(_, runs)| mean(runs, |s| s.cost_ms)).fold(f64::NAN, f64::min)
}

/// By how many per cent work takes longer than with the warmest caches.
fn longer(runs: &[Seen], warmest: f64) -> f64 {
    100.0 * (mean(runs, |s| s.cost_ms) / warmest - 1.0)
}

fn table(seen: &[(Kind, Vec<Seen>)]) -> String {
    let warmest = warmest(seen);
    let mut text = String::from(
        "| turn, ms | variant | runs (suspect) | CPU per request, ms | work takes longer by | requests/s | latency, \
         ms | grain, % |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (kind, runs) in seen.iter().filter(|(_, runs)| !runs.is_empty()) {
        let Kind { turn_ms, variant } = kind;
        let suspect = runs.iter().filter(|s| s.suspect).count();
        let _ = writeln!(
            text,
            "| {turn_ms} | {variant} | {} ({suspect}) | {:.3} | {:+.1} % | {:.1} | {:.1} | {:.1} |",
            runs.len(),
            mean(runs, |s| s.cost_ms),
            longer(runs, warmest),
            mean(runs, |s| s.requests),
            mean(runs, |s| s.latency_ms),
            mean(runs, |s| s.grain_percent),
        );
    }
    text
}

/// By length of turn: by how much work takes longer, and what the grain may add.
fn lines(seen: &[(Kind, Vec<Seen>)]) -> Vec<Line> {
    let warmest = warmest(seen);
    let of = |variant, value: &dyn Fn(&[Seen]) -> f64| {
        let made = seen.iter().filter(|(kind, runs)| kind.variant == variant && !runs.is_empty());
        made.map(|(kind, runs)| (kind.turn_ms, value(runs))).collect::<Vec<_>>()
    };
    let off = |runs: &[Seen]| longer(runs, warmest);
    let grain = |runs: &[Seen]| mean(runs, |s| s.grain_percent).abs();
    [
        ("caches, baseline", of(Variant::Baseline, &off)),
        ("caches, scaled", of(Variant::Scaled, &off)),
        ("grain, at most", of(Variant::Scaled, &grain)),
    ]
    .into_iter()
    .map(|(name, points)| Line { name: name.into(), points, spread: Vec::new() })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(cost_ms: f64) -> Seen {
        Seen { cost_ms, requests: 150.0, latency_ms: 70.0, grain_percent: 3.0, suspect: false }
    }

    #[test]
    fn every_turn_is_run_in_both_variants() {
        let kinds: Vec<_> = kinds(&[0.1, 3.0]).map(|k| k.path()).collect();
        assert_eq!(kinds, ["0.1ms-baseline", "0.1ms-scaled", "3ms-baseline", "3ms-scaled"]);
    }

    #[test]
    fn what_is_lost_is_told_from_the_warmest_caches() {
        let runs = [1.5, 3.0, 1.0, 1.25].map(|cost| vec![seen(cost)]);
        let mut of = kinds(&[0.1, 3.0]).zip(runs).collect::<Vec<_>>();
        assert_eq!(warmest(&of), 1.0);
        assert_eq!(lines(&of)[1].points, [(0.1, 200.0), (3.0, 25.0)]);
        of[3].1.clear();
        let table = table(&of);
        assert!(table.lines().count() == 5, "{table}");
        assert!(table.contains("| 0.1 | scaled | 1 (0) | 3.000 | +200.0 % | 150.0 | 70.0 | 3.0 |"), "{table}");
    }
}
