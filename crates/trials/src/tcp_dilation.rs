//! `diorama-trials tcp-dilation`: does a dilated CUBIC send as much, second by second, as one that is not dilated?

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
use crate::{tcp_flows, tcp_packets};

/// Virtual seconds that are compared.
const SECONDS: usize = 12;

/// What a scaled second may differ from the undilated mean, unless it lies within the undilated spread.
const GOAL_PERCENT: f64 = 3.0;

/// Arguments of `diorama-trials tcp-dilation`.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// How often each kind runs
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The round trip of the path, ms
    #[arg(long, default_value_t = 20)]
    round_trip: u32,
}

/// Another comparison instead.
#[derive(clap::Subcommand, Debug)]
enum What {
    /// Compare when packets leave under TDF 1, 10 and 100, with and without loss
    Table3(tcp_packets::Args),
    /// Compare what sixty connections of three round trips get of one bottleneck, under TDF 1 and 10
    Figure5(tcp_flows::Args),
    /// Compare what fifty connections get of 150 Mbit/s at round trips of 0 to 800 ms, under TDF 1 and 10
    Figure10(tcp_flows::Args),
}

/// The kernel's own CUBIC, in place of the node's.
const KERNELS: (&str, &str) = ("nodes.sender.env.CONGESTION", "cubic");

/// A way to run the connection.
struct Kind {
    name: &'static str,
    variant: Variant,
    set: &'static [(&'static str, &'static str)],
}

const KINDS: [Kind; 4] = [
    Kind { name: "stock", variant: Variant::Baseline, set: &[KERNELS] },
    Kind { name: "baseline", variant: Variant::Baseline, set: &[] },
    Kind { name: "scaled", variant: Variant::Scaled, set: &[] },
    Kind { name: "unscaled", variant: Variant::Scaled, set: &[KERNELS] },
];

/// Mbit of one run, second by second.
type Seconds = [f64; SECONDS];

/// Runs every kind and prints the table.
pub fn main(args: Args) -> Result<(), Failure> {
    match args.what {
        Some(What::Table3(args)) => return tcp_packets::main(args),
        Some(What::Figure5(args)) => return tcp_flows::FIGURE_5.reproduce(&args),
        Some(What::Figure10(args)) => return tcp_flows::FIGURE_10.reproduce(&args),
        None => {}
    }
    let driver = Driver::new()?;
    let folder = results::experiment("tcp-dilation")?;
    let out = results::fresh(Path::new("runs"), "tcp-dilation")?;
    let delay = format!("{}us", 500 * args.round_trip);
    let mut runs: [Vec<Seconds>; KINDS.len()] = Default::default();
    let mut suspects = Suspects::default();
    for round in 1..=args.rounds {
        for (kind, runs) in KINDS.iter().zip(&mut runs) {
            eprintln!("{}, {round} of {}", kind.name, args.rounds);
            let directory = out.join(kind.name).join(round.to_string());
            let delay = ("links.0.delay", delay.as_str());
            let set: Vec<_> = kind.set.iter().copied().chain([delay]).collect();
            let result = driver.run_with(&folder, kind.variant, &set, &directory, false)?;
            suspects.add(&directory, &result);
            let rows = RunDir::at(&directory).samples("received").map_err(Failure::failed)?;
            runs.push(by_second(&rows.iter().filter_map(|r| Some((r.virtual_s?, r.value))).collect::<Vec<_>>()));
        }
    }
    let table = format!("{}{suspects}", table(&runs));
    println!("Mbit in each virtual second, round trips of {} ms, on {}\n\n{table}", args.round_trip, Machine::here());
    let page = out.join(RunDir::REPORT);
    let lines = KINDS.iter().zip(&runs).map(|(kind, runs)| Line {
        name: kind.name.into(),
        points: (0..SECONDS).map(|s| (s as f64 + 1.0, mean(runs, s))).collect(),
        spread: Vec::new(),
    });
    let html = lines_page("CUBIC, second by second", "virtual second", "Mbit", &lines.collect::<Vec<_>>(), &table);
    fs::write(&page, html).map_err(|e| Failure::failed(format!("cannot write {}: {e}", page.display())))?;
    println!("chart: {}", page.display());
    Ok(())
}

/// Mbit in each second after the first row.
fn by_second(rows: &[(f64, f64)]) -> Seconds {
    let mut seconds = [0.0; SECONDS];
    let first = rows.first().map_or(0.0, |(at, _)| *at);
    for (at, bytes) in rows {
        // Rows begin at tenths, give or take what a float is off.
        let second = (at - first + 0.05) as usize;
        if let Some(sum) = seconds.get_mut(second) {
            *sum += bytes * 8e-6;
        }
    }
    seconds
}

fn mean(runs: &[Seconds], second: usize) -> f64 {
    runs.iter().map(|r| r[second]).sum::<f64>() / runs.len() as f64
}

fn spread(runs: &[Seconds], second: usize) -> (f64, f64) {
    let of = |f: fn(f64, f64) -> f64, start| runs.iter().map(|r| r[second]).fold(start, f);
    (of(f64::min, f64::INFINITY), of(f64::max, f64::NEG_INFINITY))
}

/// Every second of every kind beside *stock*; a difference is marked if it is beyond the goal and the spread.
fn table(runs: &[Vec<Seconds>; KINDS.len()]) -> String {
    let [stock, others @ ..] = runs;
    let mut text = format!("{:>6}  {:>8} {:>17}", "second", "stock", "its spread");
    for kind in &KINDS[1..] {
        let _ = write!(text, "  {:>18}", kind.name);
    }
    text.push('\n');
    let mut missed = [0; KINDS.len() - 1];
    for second in 0..SECONDS {
        let (low, high) = spread(stock, second);
        let base = mean(stock, second);
        let _ = write!(text, "{:>6}  {base:>8.2} {:>17}", second + 1, format!("{low:.2}–{high:.2}"));
        for (runs, missed) in others.iter().zip(&mut missed) {
            let value = mean(runs, second);
            let error = 100.0 * (value - base) / base;
            let fine = error.abs() <= GOAL_PERCENT || (low..=high).contains(&value);
            *missed += usize::from(!fine);
            let mark = if fine { ' ' } else { '!' };
            let _ = write!(text, "  {:>18}", format!("{value:.2} ({error:+.1} %){mark}"));
        }
        text.push('\n');
    }
    let total = |runs: &Vec<Seconds>| (0..SECONDS).map(|s| mean(runs, s)).sum::<f64>();
    let base = total(stock);
    let _ = write!(text, "{:>6}  {base:>8.2} {:>17}", "all", "");
    for runs in others {
        let value = total(runs);
        let _ = write!(text, "  {:>18}", format!("{value:.2} ({:+.1} %) ", 100.0 * (value - base) / base));
    }
    let _ = write!(text, "\nseconds beyond {GOAL_PERCENT} % and the spread:");
    for (kind, missed) in KINDS[1..].iter().zip(missed) {
        let _ = write!(text, " {} {missed}", kind.name);
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_fall_into_the_second_in_which_they_came() {
        let rows: Vec<_> = (0..25).map(|i| (3.1 + f64::from(i) * 0.1, 125_000.0)).collect();
        let seconds = by_second(&rows);
        assert!(
            (seconds[0] - 10.0).abs() < 1e-9 && (seconds[1] - 10.0).abs() < 1e-9 && (seconds[2] - 5.0).abs() < 1e-9
        );
    }

    #[test]
    fn a_difference_is_marked_when_it_is_beyond_the_goal_and_the_spread() {
        let near = [104.0; SECONDS];
        let stock = vec![[100.0; SECONDS], [98.0; SECONDS]];
        let text = table(&[stock, vec![[100.0; SECONDS]], vec![near], vec![[140.0; SECONDS]]]);
        assert!(text.contains("baseline 0 scaled 12 unscaled 12"), "{text}");
        assert!(text.contains("104.00 (+5.1 %)!"), "{text}");
    }
}
