//! `diorama bench`: how accurate and how fast each mechanism is, here and now.

pub mod clock;
pub mod cpu;
pub mod net;

use std::process::ExitCode;

use fidelity::statistics;
use serde::Serialize;

use crate::failure::Failure;
use crate::terminal;

/// One figure of a benchmark, as `--json` prints it.
#[derive(Debug, Serialize)]
pub struct Figure {
    /// What was measured; a name that ends in `_rate` has a lower bound as its goal, all others an upper bound.
    pub name: String,
    /// The conditions, such as `{"tdf": 10, "bytes": 1518}`.
    pub params: serde_json::Value,
    /// The measured value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// What it is compared with, measured in the same run or taken from a paper.
    pub reference: Option<f64>,
    /// 100 (value - reference) / reference.
    pub error_percent: Option<f64>,
    /// The bound it should keep, if there is one.
    pub goal: Option<f64>,
    /// Whether it does.
    pub ok: Option<bool>,
}

/// A figure that has a goal, and nothing that it is compared with.
fn bounded(name: &str, params: serde_json::Value, value: f64, unit: &str, goal: f64) -> Figure {
    let ok = if name.ends_with("_rate") { value >= goal } else { value <= goal };
    Figure {
        name: name.into(),
        params,
        value,
        unit: unit.into(),
        reference: None,
        error_percent: None,
        goal: Some(goal),
        ok: Some(ok),
    }
}

/// Not a number of nothing: a figure that was not measured meets no goal.
fn median(values: Vec<f64>) -> f64 {
    statistics::median(values).unwrap_or(f64::NAN)
}

/// Arguments of `diorama bench`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The mechanism to measure.
    #[arg(value_enum)]
    mechanism: Mechanism,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Mechanism {
    Clock,
    Net,
    Cpu,
    Disk,
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let figures = match args.mechanism {
        Mechanism::Clock => clock::measure()?,
        Mechanism::Net => net::measure()?,
        Mechanism::Cpu => cpu::measure()?,
        Mechanism::Disk => return Err(Failure::input("disks are not modelled yet, so there is nothing to measure")),
    };
    let text = if args.json {
        serde_json::to_string_pretty(&figures).map_err(Failure::failed)? + "\n"
    } else {
        let (tables, rest) = match args.mechanism {
            Mechanism::Net => net::tables::tables(&figures),
            _ => (String::new(), figures.iter().collect()),
        };
        tables + &rest.into_iter().map(line).collect::<String>()
    };
    terminal::print(text)?;
    Ok(ExitCode::SUCCESS)
}

fn line(f: &Figure) -> String {
    let reference = f.reference.map(|r| format!("  reference {r:.4}")).unwrap_or_default();
    let error = f.error_percent.map(|e| format!("  error {e:+.3} %")).unwrap_or_default();
    let goal = match (f.goal, f.ok) {
        (Some(g), Some(true)) => format!("  goal {g}: met"),
        (Some(g), _) => format!("  goal {g}: MISSED"),
        _ => String::new(),
    };
    let params = if f.params.is_null() { String::new() } else { format!(" {}", f.params) };
    format!("{}{params}: {:.4} {}{reference}{error}{goal}\n", f.name, f.value, f.unit)
}
