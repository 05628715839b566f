//! `diorama-trials demo`: three experiments, three variants, one table.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use record::{RunDir, RunResult, Variant};
use report::Comparison;

use crate::driver::Driver;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::results;
use crate::table::{self, Group, Variants};

/// Limited by the network, by the CPU, and by both.
const EXPERIMENTS: [&str; 3] = ["web-net", "tls", "web-half"];

/// Medians of so many pairs.
const PAIRS: u32 = 3;

/// In the order of the table.
const VARIANTS: [Variant; 3] = [Variant::Baseline, Variant::Scaled, Variant::Naive];

/// Arguments of `diorama-trials demo`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only one pair of web-net, which takes a minute
    #[arg(long)]
    quick: bool,
}

/// The runs of a demo: which experiments and variants, and how many pairs.
#[derive(Clone, Copy)]
struct Extent {
    experiments: &'static [&'static str],
    pairs: u32,
    variants: &'static [Variant],
}

impl Extent {
    fn of(quick: bool) -> Extent {
        match quick {
            true => Extent { experiments: &EXPERIMENTS[..1], pairs: 1, variants: &VARIANTS[..2] },
            false => Extent { experiments: &EXPERIMENTS, pairs: PAIRS, variants: &VARIANTS },
        }
    }
}

/// One run: of which experiment, in which variant, for which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    experiment: &'static str,
    variant: Variant,
    number: u32,
}

/// All runs, in turns: what drifts on the machine meets every experiment and both runs of a pair. A naive run, which is
/// there to be wrong, is made once.
fn turns(extent: Extent) -> Vec<Turn> {
    let mut all = Vec::new();
    for number in 1..=extent.pairs {
        for experiment in extent.experiments {
            let variants = extent.variants.iter().filter(|variant| number == 1 || **variant != Variant::Naive);
            all.extend(variants.map(|&variant| Turn { experiment, variant, number }));
        }
    }
    all
}

/// How long a run of this variant takes, in real seconds: five virtual ones, and what is needed before and after them.
fn expected(variant: Variant) -> u64 {
    match variant {
        Variant::Baseline | Variant::Native | Variant::Observed => 8,
        Variant::Scaled => 53,
        // It has a tenth of the CPU for the same work.
        Variant::Naive => 20,
    }
}

/// The work left after so many turns.
fn left(turns: &[Turn], done: usize) -> String {
    let seconds: u64 = turns[done..].iter().map(|turn| expected(turn.variant)).sum();
    format!("{} min left", seconds.div_ceil(60))
}

/// Runs the demo.
pub fn main(args: Args) -> Result<(), Failure> {
    let extent = Extent::of(args.quick);
    let driver = Driver::new()?;
    let folders = extent.experiments.iter().map(|name| Ok((*name, results::experiment(name)?)));
    let folders: HashMap<&str, PathBuf> = folders.collect::<Result<_, Failure>>()?;
    let began = Instant::now();
    let out = results::fresh(Path::new("runs"), "demo")?;
    let turns = turns(extent);
    introduce(args.quick);
    println!("{}", table::pair_head());
    // By experiment, the latest.
    let mut bases: HashMap<&str, RunResult> = HashMap::new();
    for (done, turn) in turns.iter().enumerate() {
        let Turn { experiment, variant, number } = *turn;
        eprintln!("[{} of {}, {}] {experiment}, {variant}", done + 1, turns.len(), left(&turns, done));
        let directory = variants_of(&out, experiment, variant).join(number.to_string());
        let result = driver.run(&folders[experiment], variant, &directory, false)?;
        let base = bases.get(experiment).filter(|_| variant != Variant::Baseline);
        eprintln!("    {}", table::measured(&result, base));
        match (variant, base) {
            // A pair is told as soon as it is there: nobody waits for the table to see how near a model is.
            (Variant::Scaled, Some(base)) => {
                println!("{}", table::pair(experiment, number, base, &result));
            }
            (Variant::Baseline, _) => drop(bases.insert(experiment, result)),
            _ => {}
        }
    }
    let groups = extent.experiments.iter().map(|name| group(&out, name, extent)).collect::<Result<Vec<_>, _>>()?;
    let table = table::render(&groups)?;
    write(&out.join("table.md"), &table)?;
    let pages = extent.experiments.iter().map(|name| page(&out, name)).collect::<Result<Vec<_>, _>>()?;
    if !args.quick {
        println!("\n{table}");
        println!(
            "Medians of {PAIRS} runs, but of one naive run. Beside a baseline: how far each may be off itself. Beside"
        );
        println!(
            "the others: how far from the baseline; in brackets, where that lies by what the runs say of themselves."
        );
    }
    println!("Measured on {}.", Machine::here());
    println!("Why a run is suspect, at length: {}/EXPERIMENT/VARIANT/NUMBER/{}.", out.display(), RunDir::REPORT);
    println!("The latencies, drawn over one another: {}.", pages.join(", "));
    println!("Took {}.", told(began.elapsed()));
    Ok(())
}

fn introduce(quick: bool) {
    if quick {
        println!("A web server and its clients, limited by their link (web-net).");
    } else {
        println!(
            "A web server and its clients: limited by their link (web-net), by the CPU (tls), by both (web-half)."
        );
    }
    println!("  baseline  as they would run on real machines, for five seconds");
    println!("  scaled    on a tenth of those machines, with time running ten times slower for them too");
    match quick {
        true => println!("One pair, which takes about a minute.\n"),
        false => {
            println!("  naive     squeezed into that tenth, as containers on one host would be");
            println!("Three times in turn, which takes about ten minutes; the first pair is there after one.\n");
        }
    }
}

fn compared(base: &Path, other: &Path) -> Result<Comparison, Failure> {
    let all = report::compare(base, &[other.to_path_buf()], &[]).map_err(Failure::failed)?;
    all.each().next().cloned().ok_or_else(|| Failure::failed("there is nothing to compare"))
}

fn variants_of(out: &Path, experiment: &str, variant: Variant) -> PathBuf {
    out.join(experiment).join(variant.as_str())
}

/// The runs of an experiment, compared. The naive one has the first baseline beside it, which was made with it.
fn group(out: &Path, name: &str, extent: Extent) -> Result<Group, Failure> {
    let first = PathBuf::from("1");
    let of = |variant: Variant| {
        let all = variants_of(out, name, variant);
        let base = variants_of(out, name, Variant::Baseline);
        let (numbers, base, other) = match variant {
            Variant::Naive => (1..=1, base.join(&first), all.join(&first)),
            _ => (1..=extent.pairs, base, all.clone()),
        };
        let runs = numbers.map(|n| RunDir::at(all.join(n.to_string())).result()).collect::<Result<Vec<_>, _>>();
        let comparison = match variant {
            Variant::Baseline => None,
            _ => Some(compared(&base, &other)?),
        };
        Ok(Variants { variant, runs: runs.map_err(Failure::failed)?, comparison })
    };
    Ok(Group { name: name.into(), variants: extent.variants.iter().copied().map(of).collect::<Result<_, Failure>>()? })
}

/// Writes the experiment's comparison as a page, and gives its path.
fn page(out: &Path, name: &str) -> Result<String, Failure> {
    let [base, scaled] = [Variant::Baseline, Variant::Scaled].map(|variant| out.join(name).join(variant.as_str()));
    let compared = report::compare(&base, &[scaled], &[]).map_err(Failure::failed)?;
    let path = out.join(format!("{name}.html"));
    write(&path, &compared.page().map_err(Failure::failed)?)?;
    Ok(path.display().to_string())
}

fn told(time: Duration) -> String {
    format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|e| Failure::failed(format!("cannot write {}: {e}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_and_variants_take_turns_within_ten_minutes() {
        let turns = turns(Extent::of(false));
        assert_eq!(turns.len(), 21);
        for experiment in EXPERIMENTS {
            let of = |variant| turns.iter().filter(|t| t.experiment == experiment && t.variant == variant).count();
            assert_eq!(VARIANTS.map(of), [3, 3, 1]);
        }
        for (base, scaled) in turns.iter().zip(&turns[1..]).filter(|(turn, _)| turn.variant == Variant::Baseline) {
            let pair = (scaled.variant, scaled.experiment, scaled.number);
            assert_eq!(pair, (Variant::Scaled, base.experiment, base.number), "a pair is made in one go");
        }
        assert_eq!(left(&turns, 0), "11 min left");
        assert_eq!(left(&turns, turns.len()), "0 min left");
    }

    #[test]
    fn the_quick_demo_is_the_first_pair_of_the_long_one() {
        let quick = turns(Extent::of(true));
        assert_eq!(quick, turns(Extent::of(false))[..2]);
        assert_eq!(quick.iter().map(|turn| expected(turn.variant)).sum::<u64>(), 61);
    }
}
