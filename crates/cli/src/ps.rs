//! `diorama ps`: the live runs of this machine.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use engine::{LiveRun, Tdf};
use record::RunDir;
use serde_json::json;

use crate::failure::Failure;
use crate::{columns, terminal};

/// Arguments of `diorama ps`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// For a program
    #[arg(long)]
    json: bool,
}

/// A live run, as it is shown.
struct Shown {
    run: LiveRun,
    age: Option<Duration>,
    /// For how long, in virtual time, nobody has done anything in it.
    idle: Option<Duration>,
    /// Not known until the run has written its plan.
    tdf: Option<Tdf>,
    nodes: Option<usize>,
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let mut all: Vec<Shown> = engine::live_runs().into_iter().map(look).collect();
    all.sort_by(|a, b| b.age.cmp(&a.age).then_with(|| a.run.id.cmp(&b.run.id)));
    let text =
        if args.json { format!("{:#}\n", json!(all.iter().map(as_json).collect::<Vec<_>>())) } else { table(&all) };
    terminal::print(text)?;
    Ok(ExitCode::SUCCESS)
}

fn look(run: LiveRun) -> Shown {
    let age = engine::begun(&run).and_then(|begun| SystemTime::now().duration_since(begun).ok());
    let plan = RunDir::at(&run.out).plan().ok().flatten();
    let tdf = plan.as_ref().map(|plan| plan.tdf);
    let idle = engine::idle_s(&run).and_then(|s| Duration::try_from_secs_f64(s).ok());
    Shown { age, idle, tdf, nodes: plan.map(|plan| plan.nodes.len()), run }
}

fn as_json(shown: &Shown) -> serde_json::Value {
    json!({
        "id": shown.run.id,
        "name": shown.run.name,
        "variant": shown.run.variant,
        "out": shown.run.out,
        "pid": shown.run.pid,
        "cores": shown.run.cores,
        "age_s": shown.age.map(|age| age.as_secs_f64()),
        "idle_s": shown.idle.map(|idle| idle.as_secs_f64()),
        "tdf": shown.tdf,
        "nodes": shown.nodes,
    })
}

fn table(all: &[Shown]) -> String {
    let heads = ["run", "variant", "age", "idle", "TDF", "nodes", "cores", "pid", "results"].map(str::to_owned);
    let unknown = || "–".to_owned();
    let line = |shown: &Shown| {
        let cores: Vec<String> = shown.run.cores.iter().map(usize::to_string).collect();
        [
            shown.run.name.clone(),
            shown.run.variant.clone(),
            shown.age.map_or_else(unknown, told),
            shown.idle.map_or_else(unknown, told),
            shown.tdf.map_or_else(unknown, |tdf| tdf.to_string()),
            shown.nodes.map_or_else(unknown, |nodes| nodes.to_string()),
            cores.join(","),
            shown.run.pid.to_string(),
            shown.run.out.display().to_string(),
        ]
    };
    columns::table(std::iter::once(heads).chain(all.iter().map(line)))
}

/// `2 h 05 min`, `7 min 30 s`, `12 s`.
fn told(age: Duration) -> String {
    let s = age.as_secs();
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {:02} s", s / 60, s % 60),
        _ => format!("{} h {:02} min", s / 3600, s / 60 % 60),
    }
}
