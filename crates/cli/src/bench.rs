//! `diorama bench`: how accurate and how fast each mechanism is, here and now.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::failure::Failure;
use crate::terminal;

/// How many pairs of runs `bench trust` makes.
const PAIRS: u32 = 40;

/// Arguments of `diorama bench`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The mechanism to measure.
    #[arg(value_enum)]
    mechanism: Mechanism,
    /// With `cpu`: only measures how fast this machine's cores are now, in the units of a machine class's `speed`.
    #[arg(long, conflicts_with = "gain")]
    calibrate: bool,
    /// With `cpu`: only measures how much longer a command, which does the same work each time, takes on a slower core.
    #[arg(long, requires = "command")]
    gain: bool,
    /// With `disk`: all depths, lengths and patterns, and at TDF 50 too.
    #[arg(long)]
    all: bool,
    /// With `disk`: only at this factor. Can be repeated [default: 1 and 10, and with --all 50]
    #[arg(long = "tdf", value_name = "TDF", value_parser = clap::value_parser!(u32).range(1..))]
    tdfs: Vec<u32>,
    /// With `cpu`: how long nodes' timeslices are, such as 2ms, in place of the shortest.
    #[arg(long, alias = "turn", value_name = "TIME", conflicts_with_all = ["calibrate", "gain"])]
    timeslice: Option<String>,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
    /// Fail if a row of this name misses its goal, or there is none. Can be repeated.
    #[arg(long, value_name = "ROW")]
    must: Vec<String>,
    /// With `trust`: how many pairs of runs; a pair takes about a minute [default: 40]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pairs: Option<u32>,
    /// With `trust`: only experiments of this kind: network, cpu-small, cpu-large, mixed or lockstep. Can be repeated.
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<bench::TrustKind>,
    /// With `trust`: what each run is asked for, as by `run --accuracy`.
    #[arg(long, value_name = "ACCURACY")]
    accuracy: Option<String>,
    /// With `trust`: keeps the runs of every pair in this directory, which must be new.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// The command for `--gain`.
    #[arg(last = true, requires = "gain", value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Mechanism {
    Clock,
    Net,
    Cpu,
    Disk,
    Trust,
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    if (args.calibrate || args.gain || args.timeslice.is_some()) && !matches!(args.mechanism, Mechanism::Cpu) {
        return Err(Failure::input("--calibrate, --gain and --timeslice are of `bench cpu`"));
    }
    if (args.all || !args.tdfs.is_empty()) && !matches!(args.mechanism, Mechanism::Disk) {
        return Err(Failure::input("--all and --tdf are of `bench disk`"));
    }
    let of_trust = args.pairs.is_some() || !args.kinds.is_empty() || args.accuracy.is_some() || args.keep.is_some();
    if of_trust && !matches!(args.mechanism, Mechanism::Trust) {
        return Err(Failure::input("--pairs, --kind, --accuracy and --keep are of `bench trust`"));
    }
    let rows = match args.mechanism {
        Mechanism::Cpu if args.calibrate => bench::speed(engine::host_speed::HostSpeed::here().best())?,
        Mechanism::Cpu if args.gain => bench::gain(&args.command, |sentence| engine::warn(sentence))?,
        Mechanism::Clock => bench::clock(|sentence| engine::warn(sentence))?,
        Mechanism::Net => bench::net(|sentence| terminal::say(sentence))?,
        Mechanism::Cpu => bench::cpu(args.timeslice.as_deref(), |sentence| engine::warn(sentence))?,
        Mechanism::Trust => {
            let kinds = if args.kinds.is_empty() { bench::TrustKind::ALL.to_vec() } else { args.kinds };
            let pairs = args.pairs.unwrap_or(PAIRS) as usize;
            trust(&bench::Trust { pairs, kinds, accuracy: args.accuracy, keep: args.keep })?
        }
        Mechanism::Disk => bench::disk(args.all, &args.tdfs, |sentence| engine::warn(sentence))?,
    };
    terminal::print(if args.json { bench::json(&rows)? + "\n" } else { bench::text(&rows) })?;
    held(&rows, &args.must)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether all rows of these names meet their goals; one without a goal of its own meets any.
fn held(rows: &[bench::Row], names: &[String]) -> Result<(), Failure> {
    for name in names {
        let mut found = rows.iter().filter(|row| row.name == *name && row.ok.is_some()).peekable();
        if found.peek().is_none() {
            let with_goals: BTreeSet<_> = rows.iter().filter(|row| row.ok.is_some()).map(|row| &*row.name).collect();
            let known = with_goals.into_iter().collect::<Vec<_>>().join(", ");
            return Err(Failure::input(format!("--must {name}: no row of this name has a goal; these do: {known}")));
        }
        if let Some(row) = found.find(|row| row.ok == Some(false)) {
            let goal = row.goal.map_or_else(String::new, |goal| format!(" where {goal} is allowed"));
            return Err(Failure::failed(format!(
                "{name} misses its goal: {} {}{goal} ({})",
                row.value, row.unit, row.params
            )));
        }
    }
    Ok(())
}

fn trust(trust: &bench::Trust) -> Result<Vec<bench::Row>, Failure> {
    let interrupts = terminal::interrupts()?;
    Ok(bench::trust(trust, &|| !interrupts.is_empty(), &mut |sentence| terminal::say(sentence))?)
}
