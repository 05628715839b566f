//! `diorama-trials work`: what dilation costs real programs that have work to do, at TDF 1, where nothing else differs.
//!
//! Each script of `work/` is run natively and under `diorama dilate --tdf 1`, in turns. It is called with `prepare`
//! first, natively and uncounted, in an empty directory. It has a `# cost:`, the CPU time that it took with all that it
//! started and with diorama's own, or a `# rate:`, the number that it prints.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fidelity::statistics::quantile;
use record::Samples;

use crate::conformance::{children_cpu, header, scripts};
use crate::driver::Driver;
use crate::failure::Failure;
use crate::machine::Machine;

/// The scripts, from where make is run.
const SCRIPTS: &str = "crates/trials/work";

/// Arguments of `diorama-trials work`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only these pieces of work [default: all in crates/trials/work]
    work: Vec<String>,
    /// How many pairs of a native and a dilated run
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// The directory with the unpacked sources that some work on
    #[arg(long, value_name = "DIRECTORY", default_value = "target/sources")]
    sources: PathBuf,
}

/// Runs the verb. A goal that is missed is printed as such and is no failure.
pub fn main(args: Args) -> Result<(), Failure> {
    let scripts = scripts(SCRIPTS, &args.work)?;
    let driver = Driver::new()?;
    println!("| work | native | dilated, TDF 1 | dilated / native (10th to 90th percentile of the pairs) | goal |");
    println!("| --- | --- | --- | --- | --- |");
    for script in &scripts {
        println!("{}", row(&driver, script, &args)?);
    }
    println!("\nMedians of {} interleaved pairs on {}.", args.pairs, Machine::here());
    Ok(())
}

fn row(driver: &Driver, script: &Path, args: &Args) -> Result<String, Failure> {
    let text = fs::read_to_string(script).map_err(|e| Failure::failed(format!("{}: {e}", script.display())))?;
    let missing = |key: &str| Failure::failed(format!("{} has no `# {key}:`", script.display()));
    let title = header(&text, "work").ok_or_else(|| missing("work"))?;
    let (rate, unit) = match (header(&text, "rate"), header(&text, "cost")) {
        (Some(unit), None) => (true, unit),
        (None, Some(unit)) => (false, unit),
        _ => return Err(missing("rate` or `# cost")),
    };
    let goal: f64 = header(&text, "goal").and_then(|g| g.parse().ok()).ok_or_else(|| missing("goal"))?;
    let source = header(&text, "source");
    let run = |dilated: bool| {
        let directory = tempfile::tempdir().map_err(Failure::failed)?;
        if let Some(name) = &source {
            unpack(&args.sources, name, directory.path())?;
        }
        script_in(driver, script, directory.path(), false, Some("prepare"))?;
        let before = children_cpu();
        let said = script_in(driver, script, directory.path(), dilated, None)?;
        if !rate {
            return Ok(children_cpu() - before);
        }
        said.trim().parse::<f64>().map_err(|_| Failure::failed(format!("{title}: printed `{said}`, which is no rate")))
    };
    let mut pairs = Vec::new();
    for pair in 1..=args.pairs {
        eprintln!("{title}: {pair} of {}", args.pairs);
        // Whichever comes first has the colder caches: take turns.
        let first = run(pair % 2 == 0)?;
        let second = run(pair % 2 != 0)?;
        pairs.push(if pair % 2 == 0 { (second, first) } else { (first, second) });
    }
    let samples = |of: fn(&(f64, f64)) -> f64| Samples::new(pairs.iter().map(of).collect()).map_err(Failure::failed);
    let at = |samples: &Samples, part: f64| quantile(samples, part).expect("there is a pair");
    let ratios = samples(|p| p.1 / p.0)?;
    let ratio = at(&ratios, 0.5);
    let met = if rate { ratio >= goal } else { ratio <= goal };
    Ok(format!(
        "| {title} | {:.2} {unit} | {:.2} {unit} | {ratio:.3} ({:.3} to {:.3}) | {} {goal}: {} |",
        at(&samples(|p| p.0)?, 0.5),
        at(&samples(|p| p.1)?, 0.5),
        at(&ratios, 0.1),
        at(&ratios, 0.9),
        if rate { "≥" } else { "≤" },
        if met { "met" } else { "MISSED" },
    ))
}

/// A copy of the one directory in `sources` that is `NAME-VERSION`.
fn unpack(sources: &Path, name: &str, into: &Path) -> Result<(), Failure> {
    let prefix = format!("{name}-");
    let found = fs::read_dir(sources).into_iter().flatten().flatten().map(|e| e.path());
    let source = found
        .filter(|path| path.is_dir())
        .find(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix)));
    let Some(source) = source else {
        let place = sources.display();
        let message = format!("there is no source of {name} in {place}: scripts/sources fetches it");
        return Err(Failure { code: 3, message });
    };
    let copied = Command::new("cp").arg("-r").arg(&source).arg(into).status();
    if copied.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(Failure::failed(format!("{} cannot be copied", source.display())))
}

/// What a script prints.
fn script_in(
    driver: &Driver,
    script: &Path,
    directory: &Path,
    dilated: bool,
    argument: Option<&str>,
) -> Result<String, Failure> {
    let script = script.canonicalize().map_err(Failure::failed)?;
    let mut command = if dilated {
        let mut command = Command::new(driver.program());
        command.args(["dilate", "--tdf", "1", "--", "sh"]);
        command
    } else {
        Command::new("sh")
    };
    command.arg(&script).args(argument).current_dir(directory).env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    driver.listen(command, &script.display().to_string()).map(|said| said.text)
}
