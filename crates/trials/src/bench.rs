//! `diorama-trials bench`: how close scaled runs come to the baseline, and what each mechanism costs.

use std::path::Path;

use record::Variant;
use scale::Tdf;
use serde_json::json;

use crate::driver::Driver;
use crate::failure::Failure;
use crate::goals::{self, Figure};
use crate::machine::Machine;
use crate::results;

/// Those that have goals.
const EXPERIMENTS: [&str; 4] = ["tls", "web-net", "web-half", "web-busy"];

/// The mechanisms that `diorama bench` measures by themselves.
const MECHANISMS: [&str; 3] = ["clock", "net", "cpu"];

/// Arguments of `diorama-trials bench`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only these experiments, and no mechanisms [default: tls web-net web-half web-busy, then clock, net, cpu]
    experiments: Vec<String>,
    /// How often each experiment runs in each variant
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    triples: u32,
    /// At which time dilation factors the scaled variant runs; may be given several times [default: 10]
    #[arg(long = "tdf", value_name = "N")]
    tdfs: Vec<Tdf>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the benchmark. A goal that is missed is printed as such and is no failure: this measures, tests judge.
pub fn main(args: Args) -> Result<(), Failure> {
    let driver = Driver::new()?;
    let machine = Machine::here();
    let all = args.experiments.is_empty();
    let names = if all { EXPERIMENTS.map(String::from).to_vec() } else { args.experiments };
    let folders = names.iter().map(|name| results::experiment(name)).collect::<Result<Vec<_>, _>>()?;
    let out = results::fresh(Path::new("runs"), "bench")?;
    if !args.json {
        println!("Measured on {machine}.");
    }
    let round = round(&args.tdfs);
    let mut figures = Vec::new();
    for (name, folder) in names.iter().zip(&folders) {
        let directory = out.join(name);
        for number in 1..=args.triples {
            for of in &round {
                eprintln!("{name}, {}, {number} of {}", of.label, args.triples);
                let out = directory.join(&of.label).join(number.to_string());
                driver.run_with(folder, of.variant, &of.set(), &out, false)?;
            }
        }
        let (text, judged) = compared(name, &directory, &round)?;
        if !args.json {
            println!("\n{text}");
            judged.iter().for_each(|figure| println!("{}", goals::line(figure)));
        }
        figures.extend(judged);
    }
    let mut mechanisms = serde_json::Map::new();
    if all {
        for mechanism in MECHANISMS {
            eprintln!("diorama bench {mechanism}");
            let measured = driver.bench(mechanism)?;
            if !args.json {
                println!("\ndiorama bench {mechanism}");
                measured.as_array().into_iter().flatten().for_each(|figure| println!("  {}", mechanism_line(figure)));
            }
            mechanisms.insert(mechanism.into(), measured);
        }
    }
    if args.json {
        let all = json!({"machine": machine, "experiments": figures, "mechanisms": mechanisms});
        println!("{all:#}");
    }
    Ok(())
}

/// A run of each round.
#[derive(Clone, Debug, PartialEq)]
struct Turn {
    variant: Variant,
    /// The factor of the scaled variant.
    tdf: Tdf,
    /// The directory of such runs, and how figures are called: `scaled`, or `scaled-20`.
    label: String,
}

impl Turn {
    fn set(&self) -> Vec<(&str, &str)> {
        let factor = self.label.strip_prefix("scaled-");
        factor.map(|tdf| ("tdf", tdf)).into_iter().collect()
    }
}

/// The baseline first. Interleaved, so that what drifts on the machine meets all of them.
fn round(tdfs: &[Tdf]) -> Vec<Turn> {
    let own: Tdf = Tdf::new(10, 1).expect("ten is a factor");
    let turn = |variant: Variant| Turn { variant, tdf: own, label: variant.to_string() };
    let scaled = |tdf: &Tdf| match *tdf == own {
        true => turn(Variant::Scaled),
        false => Turn { variant: Variant::Scaled, tdf: *tdf, label: format!("scaled-{tdf}") },
    };
    let tdfs = if tdfs.is_empty() { &[own] } else { tdfs };
    let mut round = vec![turn(Variant::Baseline)];
    round.extend(tdfs.iter().map(scaled));
    round.push(turn(Variant::Naive));
    round
}

/// All others against the baseline: a table, and the figures that have goals.
fn compared(name: &str, directory: &Path, round: &[Turn]) -> Result<(String, Vec<Figure>), Failure> {
    let [base, others @ ..] = round else { return Err(Failure::failed("a round begins with the baseline")) };
    let of = |turn: &Turn| directory.join(&turn.label);
    let compared =
        report::compare(&of(base), &others.iter().map(of).collect::<Vec<_>>(), &[]).map_err(Failure::failed)?;
    let mut figures = Vec::new();
    for (turn, comparison) in others.iter().zip(compared.each()) {
        let goals = match turn.variant {
            Variant::Naive => goals::naive(name),
            _ => goals::scaled(name, turn.tdf),
        };
        for goal in goals {
            figures.push(goals::judge(name, &turn.label, &goal, comparison)?);
        }
    }
    Ok((compared.table(), figures))
}

/// One figure of `diorama bench`, for a person.
fn mechanism_line(figure: &serde_json::Value) -> String {
    let word = |key: &str| figure[key].as_str().unwrap_or_default().to_string();
    let number = |key: &str| figure[key].as_f64();
    let mut line = word("name");
    if let Some(params) = figure["params"].as_object().filter(|params| !params.is_empty()) {
        let params: Vec<String> = params.iter().map(|(key, value)| format!("{key} {value}")).collect();
        line += &format!(" ({})", params.join(", "));
    }
    line += &format!(": {:.4} {}", number("value").unwrap_or(f64::NAN), word("unit"));
    if let Some(reference) = number("reference") {
        line += &format!(", reference {reference:.4}");
    }
    if let Some(error) = number("error_percent") {
        line += &format!(", error {error:+.3} %");
    }
    match (number("goal"), figure["ok"].as_bool()) {
        (Some(goal), Some(true)) => line += &format!(", goal {goal}: met"),
        (Some(goal), Some(false)) => line += &format!(", goal {goal}: MISSED"),
        (Some(goal), None) => line += &format!(", goal {goal}: not measurable here"),
        (None, _) => {}
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_the_baseline_the_models_and_the_naive_run() {
        let labels = |tdfs: &[&str]| {
            let tdfs: Vec<Tdf> = tdfs.iter().map(|t| t.parse().unwrap()).collect();
            round(&tdfs).into_iter().map(|turn| turn.label).collect::<Vec<_>>()
        };
        assert_eq!(labels(&[]), ["baseline", "scaled", "naive"]);
        assert_eq!(labels(&["10", "20", "50"]), ["baseline", "scaled", "scaled-20", "scaled-50", "naive"]);
        let scaled = &round(&["20".parse().unwrap()])[1];
        assert_eq!((scaled.variant, scaled.set()), (Variant::Scaled, vec![("tdf", "20")]));
    }

    #[test]
    fn a_figure_of_a_mechanism_reads_as_a_sentence() {
        let figure = json!({"name": "rtt", "params": {"tdf": 10}, "value": 1.5, "unit": "ms", "reference": null,
                            "error_percent": 2.0, "goal": 1.0, "ok": false});
        assert_eq!(mechanism_line(&figure), "rtt (tdf 10): 1.5000 ms, error +2.000 %, goal 1: MISSED");
    }
}
