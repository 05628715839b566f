//! `diorama-trials dbench`: what dbench says of a node under several TDFs, where nothing, the CPU, or the CPU and the
//! disk are scaled.
//!
//! Figure 2(c) of "DieCast: Testing Distributed Systems with an Accurate Scale Model" (NSDI 2008): ideally, throughput
//! is the same whatever the TDF.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use record::{RunDir, Variant};
use report::{Line, lines_page};

use crate::driver::Driver;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::results;
use crate::suspects::Suspects;

/// Arguments of the trial.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The TDFs beside 1
    #[arg(long, value_delimiter = ',', default_value = "2,5,10,20")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=100))]
    tdf: Vec<u32>,
    /// How often each point is measured; the rounds go over all points
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long dbench runs each time, in virtual seconds
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(5..=100))]
    seconds: u32,
    /// Only lines whose names contain this
    #[arg(long)]
    line: Option<String>,
}

/// The node's machine, as the experiment has it: a part of a core of this host.
const SPEED: f64 = 0.5;
/// Twice what the node waits for its turn on average, in virtual ms: at TDF 1 in turns of 3 real ms, the longest that
/// there are, and of one. In the shortest, of 0.1 ms, what a turn loses to caches would be what is measured.
const COARSE_MS: f64 = 1.5;
const FINE_MS: f64 = 0.5;
/// How far from its own TDF 1 the last line may be, in percent.
const GOAL: f64 = 3.0;

/// A line of the figure.
struct Scaled {
    name: &'static str,
    cpu: bool,
    disk: bool,
    grain_ms: f64,
}

/// What is not scaled costs in real time what it costs on the target: a CPU that is TDF times as fast as it should be,
/// and a disk that takes a TDF-th of what its model says.
const LINES: [Scaled; 4] = [
    Scaled { name: "nothing scaled", cpu: false, disk: false, grain_ms: COARSE_MS },
    Scaled { name: "CPU only", cpu: true, disk: false, grain_ms: COARSE_MS },
    Scaled { name: "CPU and disk", cpu: true, disk: true, grain_ms: COARSE_MS },
    Scaled { name: "CPU in finer grain, and disk", cpu: true, disk: true, grain_ms: FINE_MS },
];

/// What a run is told to be different from the file.
type Settings = Vec<(&'static str, String)>;

impl Scaled {
    fn settings(&self, tdf: u32, seconds: u32) -> Settings {
        let factor = f64::from(tdf);
        let (speed, grain_ms) =
            if self.cpu { (SPEED, self.grain_ms) } else { (SPEED * factor, self.grain_ms / factor) };
        let mut settings = vec![
            ("tdf", tdf.to_string()),
            ("machines.pc.speed", format!("{speed}")),
            ("grain", format!("{}us", (grain_ms * 1e3).round())),
            ("nodes.pc.run", format!("[sh, /srv/start, \"{seconds}\"]")),
        ];
        if !self.disk && tdf > 1 {
            let quick = format!("[{{ at: 0s, node: pc, do: slow-disk, factor: {} }}]", 1.0 / factor);
            settings.push(("events", quick));
        }
        settings
    }
}

/// Runs all, prints the table, and writes the chart.
pub fn main(args: Args) -> Result<(), Failure> {
    let driver = Driver::new()?;
    let experiment = results::experiment("dbench")?;
    let out = results::fresh(Path::new("runs"), "dbench-figure")?;
    let wanted = |line: &&Scaled| args.line.as_ref().is_none_or(|part| line.name.contains(part.as_str()));
    let lines: Vec<&Scaled> = LINES.iter().filter(wanted).collect();
    if lines.is_empty() {
        let known = LINES.map(|line| line.name).join("`, `");
        return Err(Failure::input(format!("--line: there are `{known}`")));
    }
    let tdfs: Vec<u32> = std::iter::once(1).chain(args.tdf.iter().copied()).collect();
    let mut suspects = Suspects::default();
    // What is told alike is the same run: at TDF 1 nothing differs but the grain.
    let mut measured: BTreeMap<Settings, Vec<f64>> = BTreeMap::new();
    for round in 1..=args.rounds {
        for tdf in &tdfs {
            for (number, line) in lines.iter().enumerate() {
                let settings = line.settings(*tdf, args.seconds);
                let values = measured.entry(settings.clone()).or_default();
                if values.len() >= round as usize {
                    continue;
                }
                eprintln!("{}: TDF {tdf}, round {round}", line.name);
                let directory = out.join(format!("{}-tdf{tdf}-{round}", number + 1));
                let variant = if *tdf == 1 { Variant::Baseline } else { Variant::Scaled };
                let set: Vec<_> = settings.iter().map(|(path, value)| (*path, value.as_str())).collect();
                let result = driver.run_with(&experiment, variant, &set, &directory, false)?;
                suspects.add(&directory, &result);
                let throughput = result.metrics.get("throughput").map(|metric| metric.summary.mean);
                values.push(throughput.ok_or_else(|| Failure::failed("dbench told no throughput"))?);
            }
        }
    }
    let curve = |line: &&Scaled| {
        tdfs.iter().map(|tdf| Point::of(&measured[&line.settings(*tdf, args.seconds)])).collect::<Vec<_>>()
    };
    let curves: Vec<Vec<Point>> = lines.iter().map(curve).collect();
    let names: Vec<&str> = lines.iter().map(|line| line.name).collect();
    let table = format!("{}\n{suspects}", table(&tdfs, &names, &curves));
    println!("dbench, MB/s, on {}\n\n{table}", Machine::here());
    let drawn = names.iter().zip(&curves).map(|(name, curve)| Line {
        name: (*name).to_string(),
        points: tdfs.iter().zip(curve).map(|(tdf, point)| (f64::from(*tdf), point.mean)).collect(),
        spread: curve.iter().map(|point| point.spread).collect(),
    });
    let title = "dbench under dilation: throughput against TDF";
    let html = lines_page(title, "TDF", "throughput, MB/s", &drawn.collect::<Vec<_>>(), &table);
    let page = out.join(RunDir::REPORT);
    fs::write(&page, html).map_err(|e| Failure::failed(format!("cannot write {}: {e}", page.display())))?;
    println!("chart: {}", page.display());
    Ok(())
}

/// What a line is at one TDF.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    mean: f64,
    /// How far the round that is furthest from the mean is from it.
    spread: f64,
}

impl Point {
    fn of(rounds: &[f64]) -> Point {
        let mean = rounds.iter().sum::<f64>() / rounds.len() as f64;
        Point { mean, spread: rounds.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max) }
    }
}

/// A row for each TDF, with how far each line is from its own TDF 1; and whether the last of all lines is flat.
fn table(tdfs: &[u32], names: &[&str], curves: &[Vec<Point>]) -> String {
    let mut text = format!("{:>4}", "TDF");
    for name in names {
        let _ = write!(text, "  {name:>30}");
    }
    text.push('\n');
    for (row, tdf) in tdfs.iter().enumerate() {
        let _ = write!(text, "{tdf:>4}");
        for curve in curves {
            let Point { mean, spread } = curve[row];
            let spread = if spread > 0.0 { format!(" ± {spread:.2}") } else { String::new() };
            let _ = write!(text, "  {:>30}", format!("{mean:.2}{spread} ({:+.1} %)", beyond(curve, row)));
        }
        text.push('\n');
    }
    let flat = names.iter().position(|name| *name == LINES[3].name).map(|line| &curves[line]);
    if let Some(curve) = flat {
        let furthest = (0..tdfs.len()).map(|row| beyond(curve, row).abs()).fold(0.0, f64::max);
        let met = if furthest <= GOAL { "met" } else { "missed" };
        let _ = writeln!(text, "\nfurthest of the last line from its TDF 1: {furthest:.1} %, goal {GOAL} %: {met}");
    }
    text
}

/// How far a line is from its own TDF 1, in percent.
fn beyond(curve: &[Point], row: usize) -> f64 {
    100.0 * (curve[row].mean - curve[0].mean) / curve[0].mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_scaled_is_as_fast_as_the_host() {
        let told = LINES[0].settings(10, 20);
        assert!(
            told.contains(&("machines.pc.speed", "5".into())) && told.contains(&("grain", "150us".into())),
            "{told:?}"
        );
        assert!(told.contains(&("events", "[{ at: 0s, node: pc, do: slow-disk, factor: 0.1 }]".into())), "{told:?}");
        let told = LINES[3].settings(10, 20);
        assert!(told.contains(&("machines.pc.speed", "0.5".into())) && told.contains(&("grain", "500us".into())));
        assert!(!told.iter().any(|(path, _)| *path == "events"));
    }

    #[test]
    fn at_tdf_1_lines_differ_in_nothing_but_the_grain() {
        let at_one = LINES.each_ref().map(|line| line.settings(1, 20));
        assert!(at_one[0] == at_one[1] && at_one[1] == at_one[2] && at_one[2] != at_one[3]);
    }

    #[test]
    fn a_line_is_judged_by_its_own_first_point() {
        let curve = |values: &[f64]| values.iter().map(|v| Point::of(&[*v])).collect::<Vec<_>>();
        let names = [LINES[0].name, LINES[3].name];
        let text = table(&[1, 10], &names, &[curve(&[10.0, 90.0]), curve(&[20.0, 20.5])]);
        assert!(text.contains("90.00 (+800.0 %)") && text.contains("TDF 1: 2.5 %, goal 3 %: met"), "{text}");
        let text = table(&[1, 10], &names, &[curve(&[10.0, 90.0]), curve(&[20.0, 21.0])]);
        assert!(text.contains("5.0 %, goal 3 %: missed"), "{text}");
        assert_eq!(Point::of(&[1.0, 2.0, 6.0]), Point { mean: 3.0, spread: 3.0 });
    }
}
