//! `diorama-trials grain`: what short and long turns on the core cost, with and without giving refills back.
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
    gives_back: bool,
    variant: Variant,
}

/// What came of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    /// CPU time of the server for a request, ms of a core at its reference speed.
    cost_ms: f64,
    requests: f64,
    latency_ms: f64,
    /// The server's share was raised by this factor.
    factor: f64,
    refill_us: f64,
    refill_error_us: f64,
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
                    let refill = kind.gives_back.to_string();
                    let more = [("grain", grain.as_str()), ("refill", refill.as_str())];
                    let set: Vec<_> = set.iter().copied().chain([ALL]).chain(more).collect();
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
    turns.iter().flat_map(move |&turn_ms| {
        let of = move |gives_back| variants.map(|variant| Kind { turn_ms, gives_back, variant });
        of(false).into_iter().chain(of(true))
    })
}

impl Kind {
    fn path(&self) -> String {
        let refill = if self.gives_back { "given-back" } else { "lost" };
        format!("{}ms-{refill}-{}", self.turn_ms, self.variant)
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
        let of = |f: fn(&record::NodeRefill) -> f64, none| server.refill.as_ref().map_or(none, f);
        let latency = metric(LATENCY)?;
        Ok(Seen {
            cost_ms: 1e3 * server.core_seconds.unwrap_or(f64::NAN) / latency.n as f64 / slower,
            requests: metric(REQUESTS)?.mean,
            latency_ms: latency.mean,
            factor: of(|r| r.factor, 1.0),
            refill_us: of(|r| r.refill_us, 0.0),
            refill_error_us: of(|r| r.error_us, 0.0),
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

/// By how many per cent work takes longer than with the warmest caches: what a request costs more, less what the share
/// was raised by.
fn longer(runs: &[Seen], warmest: f64) -> f64 {
    100.0 * (mean(runs, |s| s.cost_ms / s.factor) / warmest - 1.0)
}

fn table(seen: &[(Kind, Vec<Seen>)]) -> String {
    let warmest = warmest(seen);
    let mut text = String::from(
        "| turn, ms | refill | variant | runs (suspect) | CPU per request, ms | refill, us | share times | work takes \
         longer by | requests/s | latency, ms | grain, % |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (kind, runs) in seen.iter().filter(|(_, runs)| !runs.is_empty()) {
        let Kind { turn_ms, gives_back, variant } = kind;
        let suspect = runs.iter().filter(|s| s.suspect).count();
        let refill = match gives_back {
            true => format!("{:.0} ± {:.0}", mean(runs, |s| s.refill_us), mean(runs, |s| s.refill_error_us)),
            false => String::new(),
        };
        let _ = writeln!(
            text,
            "| {turn_ms} | {} | {variant} | {} ({suspect}) | {:.3} | {refill} | {:.2} | {:+.1} % | {:.1} | {:.1} | \
             {:.1} |",
            if *gives_back { "given back" } else { "lost" },
            runs.len(),
            mean(runs, |s| s.cost_ms),
            mean(runs, |s| s.factor),
            longer(runs, warmest),
            mean(runs, |s| s.requests),
            mean(runs, |s| s.latency_ms),
            mean(runs, |s| s.grain_percent),
        );
    }
    text
}

/// By length of turn: by how much work takes longer or shorter with refills lost and given back, and what the grain may
/// add.
fn lines(seen: &[(Kind, Vec<Seen>)]) -> Vec<Line> {
    let warmest = warmest(seen);
    let of = |variant, gives_back, value: &dyn Fn(&[Seen]) -> f64| {
        let of_kind = |k: &Kind| k.variant == variant && k.gives_back == gives_back;
        let made = seen.iter().filter(|(kind, runs)| of_kind(kind) && !runs.is_empty());
        made.map(|(kind, runs)| (kind.turn_ms, value(runs))).collect::<Vec<_>>()
    };
    let off = |runs: &[Seen]| longer(runs, warmest).abs();
    let grain = |runs: &[Seen]| mean(runs, |s| s.grain_percent).abs();
    [
        ("caches, baseline", of(Variant::Baseline, false, &off)),
        ("caches, scaled", of(Variant::Scaled, false, &off)),
        ("given back, baseline", of(Variant::Baseline, true, &off)),
        ("given back, scaled", of(Variant::Scaled, true, &off)),
        ("grain, at most", of(Variant::Scaled, false, &grain)),
    ]
    .into_iter()
    .map(|(name, points)| Line { name: name.into(), points, spread: Vec::new() })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(cost_ms: f64, factor: f64) -> Seen {
        let (refill_us, refill_error_us, grain_percent) = (80.0, 9.0, 3.0);
        let (requests, latency_ms, suspect) = (150.0, 70.0, false);
        Seen { cost_ms, requests, latency_ms, factor, refill_us, refill_error_us, grain_percent, suspect }
    }

    #[test]
    fn every_turn_is_run_with_and_without_in_both_variants() {
        let kinds: Vec<_> = kinds(&[0.1, 3.0]).map(|k| k.path()).collect();
        assert_eq!(kinds.len(), 8);
        assert_eq!(kinds[..3], ["0.1ms-lost-baseline", "0.1ms-lost-scaled", "0.1ms-given-back-baseline"]);
    }

    #[test]
    fn what_is_lost_is_told_from_the_warmest_caches_and_less_what_is_given_back() {
        let costs = [(1.5, 1.0), (3.0, 1.0), (1.5, 1.5), (3.0, 2.0), (1.0, 1.0), (1.25, 1.0), (1.0, 1.0), (1.25, 1.0)];
        let runs = costs.map(|(cost, factor)| vec![seen(cost, factor)]);
        let mut of = kinds(&[0.1, 3.0]).zip(runs).collect::<Vec<_>>();
        assert_eq!(warmest(&of), 1.0);
        let lines = lines(&of);
        assert_eq!(lines[1].points, [(0.1, 200.0), (3.0, 25.0)]);
        assert_eq!(lines[3].points, [(0.1, 50.0), (3.0, 25.0)]);
        of[7].1.clear();
        let table = table(&of);
        assert!(table.lines().count() == 9, "{table}");
        assert!(table.contains("| given back | scaled | 1 (0) | 3.000 | 80 ± 9 | 2.00 | +50.0 % |"), "{table}");
    }
}
