//! `diorama run`: run an experiment and record what happened.

mod confirm;
mod requirements;

use std::path::PathBuf;
use std::process::ExitCode;

use engine::{CoreLocks, Experiment, Outcome, Request, Suspension, Wanted};
use record::{MetricRecord, Status, Variant, Verdict};
use report::{Bound, Requirement, significant};

use self::confirm::Confirmation;
use self::requirements::Requirements;
use crate::experiment::{CoreArgs, HardwareArgs, TdfArg, VariantArg, open, parse_override};
use crate::failure::Failure;
use crate::harness;
use crate::progress::Progress;
use crate::swap::put_aside;
use crate::terminal;

/// Arguments of `diorama run`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The experiment: its folder, its YAML file, or its ns script
    experiment: PathBuf,
    /// With which resources: `scaled` as the plan says, `baseline` at TDF 1 with every node's full target share,
    /// `naive` at TDF 1 with the scaled variant's resources, `native` at TDF 1 with a whole core for each CPU
    #[arg(long, value_enum, default_value = "scaled")]
    variant: VariantArg,
    /// Another time dilation factor than the experiment's, or `auto` for the smallest that fits this machine (scaled
    /// variant only)
    #[arg(long, value_name = "N|auto")]
    tdf: Option<TdfArg>,
    /// Where the results go, new or empty [default: runs/NAME/VARIANT; an earlier one moves to VARIANT.1, …]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Change a value of the experiment, such as `machines.server.speed=0.25`
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = parse_override)]
    set: Vec<(String, String)>,
    /// For everything random: the n-th packet on a pipe meets the same fate for the same seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How exact the results must be for the run to be trustworthy: `5%` for mean and p50, with twice that for p90 and
    /// four times for p99; `p99=20%` for one of them; may be given several times [default: the experiment's, or 5%]
    #[arg(long, value_name = "BOUND", value_parser = parse_accuracy)]
    accuracy: Vec<Bound>,
    /// End with 1 unless this holds: `trustworthy`, or a limit for mean, p50, p90 or p99 of a metric, such as
    /// `latency.p99<200ms`; may be given several times
    #[arg(long, value_name = "WHAT")]
    require: Vec<Requirement>,
    /// Write what continuous integration reads: the runs and what is required of them as tests, in JUnit's XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Run once more at twice the TDF, or half of it, and say what moves by more than the runs' intervals allow (scaled
    /// variant only)
    #[arg(long, conflicts_with_all = ["repeat", "keep"])]
    confirm: bool,
    /// Another lead of clocks for the second run of --confirm, such as `5ms`
    #[arg(long, value_name = "TIME", requires = "confirm", alias = "grain")]
    lead: Option<String>,
    /// How often to run; the results go to DIR/1, DIR/2, …
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Leave the nodes running when the results are written, until Ctrl-C
    #[arg(long, conflicts_with = "repeat")]
    keep: bool,
    #[command(flatten)]
    hardware: HardwareArgs,
    #[command(flatten)]
    cores: CoreArgs,
    /// Where other runs have the cores, wait until they have ended, and say which they are
    #[arg(long)]
    wait: bool,
    /// Have the run's site where the one machine of this harness file is: a process of its own, on this machine yet
    #[arg(long, value_name = "FILE", conflicts_with_all = ["wait", "confirm"])]
    harness: Option<PathBuf>,
}

/// Words of `diorama run` that are kept to be carried out later.
#[derive(clap::Parser, Debug)]
#[command(name = "diorama run")]
struct Later {
    #[command(flatten)]
    args: Args,
}

/// Checks words that are to follow `diorama run` some time: that they are understood, that the experiment has no
/// mistake, and that they leave where the results go, and that the run ends, to whoever makes it then. Gives the
/// experiment.
pub fn check_later(words: &[String]) -> Result<Experiment, Failure> {
    let parsed =
        <Later as clap::Parser>::try_parse_from(std::iter::once("diorama run").chain(words.iter().map(|w| &**w)));
    let args = parsed.map_err(|e| Failure::input(e.render().to_string().trim_end()))?.args;
    let refused = [
        (args.out.is_some(), "--out"),
        (args.keep, "--keep"),
        (args.repeat > 1, "--repeat"),
        (args.harness.is_some(), "--harness"),
    ];
    if let Some((_, option)) = refused.into_iter().find(|(given, _)| *given) {
        return Err(Failure::input(format!(
            "{option} cannot be given here: where results go, how often a run is made and \
            when it ends is up to who makes it"
        )));
    }
    let experiment = open(args.hardware.describes(&args.experiment, &args.set, args.cores))?;
    let mut wanted =
        Wanted { experiment: &experiment, variant: args.variant.into(), tdf: None, cores: args.cores.into() };
    wanted.tdf = args.tdf.map(|tdf| tdf.of(&wanted)).transpose()?;
    wanted.plan()?;
    Ok(experiment)
}

/// Reads `5%` or `p99=20%`.
fn parse_accuracy(text: &str) -> Result<Bound, String> {
    text.parse().map_err(|_| "write 5%, or mean=5%, p50=5%, p90=10%, p99=20% for one of them".into())
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    // First of all: from here on, signals that ask the run to end are received.
    let interrupts = terminal::interrupts()?;
    engine::setting_up(|| ());
    engine::sweep();
    let way = args.harness.as_deref().map(harness::only_machine).transpose()?;
    let experiment = open(args.hardware.describes(&args.experiment, &args.set, args.cores))?;
    let variant: Variant = args.variant.into();
    let mut wanted = Wanted { experiment: &experiment, variant, tdf: None, cores: args.cores.into() };
    wanted.tdf = args.tdf.map(|tdf| tdf.of(&wanted)).transpose()?;
    let plan = wanted.plan()?;
    let accuracy = engine::accuracy(&experiment, &args.accuracy)?;
    let mut requirements = Requirements::of(&args, &experiment)?;
    // A second run that could not be made is refused now.
    if args.confirm {
        Confirmation::of(&args, &plan)?;
    }
    if !interrupts.is_empty() {
        return Err(engine::Error::interrupted().into());
    }

    // For all repetitions, so that nothing comes between.
    let mut waiting = |who: &str| engine::warn(format_args!("waiting: {who}"));
    let waits: Option<&mut dyn FnMut(&str)> = if args.wait { Some(&mut waiting) } else { None };
    let (plan, cores) = match &way {
        // The site claims the plan's cores itself.
        Some(_) => (plan, CoreLocks::claim(&[])?),
        None => wanted.claim(plan, &interrupts, waits)?,
    };
    for warning in &plan.warnings {
        engine::warn(warning);
    }
    let mut confirmation = args.confirm.then(|| Confirmation::of(&args, &plan)).transpose()?;
    let mut outs = vec![args.out.clone()];
    if args.repeat > 1 {
        let all = engine::claim_directory(outs[0].as_deref(), &experiment.name, variant)?;
        outs = (1..=args.repeat).map(|n| Some(all.join(n.to_string()))).collect();
    }
    let mut failed = false;
    for (index, out) in outs.into_iter().enumerate() {
        let count = if args.repeat > 1 { format!(" {}/{}", index + 1, args.repeat) } else { String::new() };
        let mut progress = Progress::new(format!("{} {variant}{count}", experiment.name));
        let request = Request {
            experiment: &experiment,
            plan: plan.clone(),
            cores: cores.clone(),
            out,
            // Repetitions differ as repetitions on the target would.
            seed: args.seed.wrapping_add(index as u64),
            accuracy,
            choice: args.cores.into(),
            earlier: None,
            keep: args.keep,
        };
        let mut tell = |notice: &engine::Notice| progress.show(notice);
        let outcome = match &way {
            Some(way) => engine::run_at(way, env!("DIORAMA_VERSION"), request, &interrupts, &mut tell),
            None => engine::run(request, &interrupts, &mut tell),
        };
        progress.finish();
        let outcome = requirements.attempted(outcome)?;
        failed |= report(&outcome)? != ExitCode::SUCCESS;
        if outcome.suspended.is_some() {
            break;
        }
        let Some(confirmation) = confirmation.take() else {
            failed |= !requirements.judge(outcome.result)?;
            continue;
        };
        let first = outcome.result.clone();
        let confirmed = confirmation.make(outcome, &plan, &cores, &args, accuracy, &interrupts);
        if confirmed.is_err() {
            // It was made all the same.
            requirements.judge(first)?;
        }
        let (made, result) = requirements.attempted(confirmed)?;
        failed |= !made | !requirements.judge(result)?;
    }
    requirements.write()?;
    Ok(ExitCode::from(u8::from(failed)))
}

/// Tells what came of a run; the exit code of the command that made it.
pub fn report(outcome: &Outcome) -> Result<ExitCode, Failure> {
    terminal::print(told(outcome))?;
    if let Some(Suspension { id, at }) = &outcome.suspended {
        terminal::print(put_aside(id, *at))?;
    }
    complain(outcome);
    Ok(ExitCode::from(u8::from(outcome.result.status == Status::Failed)))
}

/// The most metrics that a person reads on a terminal: those of the file's own come first, those of flows after them.
const MOST_METRICS: usize = 40;

/// The results, as a person reads them.
fn told(outcome: &Outcome) -> String {
    let result = &outcome.result;
    let mut text = format!(
        "{} {} at TDF {}: {} virtual s in {} real s\n",
        result.experiment,
        result.variant,
        result.tdf,
        rounded(result.virtual_seconds),
        rounded(result.real_seconds)
    );
    for (name, metric) in result.metrics.iter().take(MOST_METRICS) {
        text += &measured(name, metric);
    }
    if let Some(more @ 1..) = result.metrics.len().checked_sub(MOST_METRICS) {
        text += &format!("  and {more} metrics more, which the report has\n");
    }
    for recording in &outcome.recordings {
        text += &format!("  {}: {} frames\n", recording.file.display(), recording.frames);
    }
    text += &format!("  verdict: {}\n", result.fidelity.verdict);
    if result.fidelity.verdict == Verdict::Suspect {
        for why in &result.fidelity.why {
            text += &format!("    {why}\n");
        }
        for check in result.fidelity.breaches() {
            text += &format!("    {}: {}\n", check.name, check.says);
        }
    }
    text + &format!("  results: {}\n", outcome.dir.display())
}

/// A metric, each statistic with how far it may be off where that is known.
fn measured(name: &str, metric: &MetricRecord) -> String {
    let s = &metric.summary;
    let intervals = metric.interval.unwrap_or_default();
    let figure = |value: f64, interval: Option<[f64; 2]>| match interval {
        Some([low, high]) => format!("{} ± {}", rounded(value), two_digits((value - low).max(high - value).max(0.0))),
        None => rounded(value),
    };
    if s.n == 1 {
        return format!("  {name}: {} {}\n", figure(s.mean, intervals.mean), metric.unit);
    }
    format!(
        "  {name}: mean {}  p50 {}  p90 {}  p99 {} {} (n = {})\n",
        figure(s.mean, intervals.mean),
        figure(s.p50, intervals.p50),
        figure(s.p90, intervals.p90),
        figure(s.p99, intervals.p99),
        metric.unit,
        s.n
    )
}

/// Warns of what is wrong with them.
fn complain(outcome: &Outcome) {
    for recording in outcome.recordings.iter().filter(|r| r.missed > 0) {
        engine::warn(format_args!(
            "warning: {} frames of link {} passed and are not in its capture, which could not be written fast \
             enough: keep less of each (`capture: {{ snap: 128B }}`), capture fewer links, or raise the TDF",
            recording.missed, recording.link
        ));
    }
    if let Some(why) = &outcome.result.why {
        engine::warn(format_args!("the experiment failed: {why}"));
    }
}

/// Four significant digits, as a person would write them.
fn rounded(v: f64) -> String {
    significant(v, 4)
}

/// Of an error more digits mean nothing.
fn two_digits(v: f64) -> String {
    significant(v, 2)
}

#[cfg(test)]
mod tests {
    use record::{Intervals, MetricRecord, Summary};

    #[test]
    fn a_statistic_is_told_with_how_far_it_may_be_off() {
        let summary = Summary { n: 40, mean: 12.345, p50: 11.0, p90: 34.91, p99: 80.0 };
        let interval = Intervals { mean: Some([11.9, 12.6]), p90: Some([33.0, 37.0]), ..Intervals::default() };
        let mut metric = MetricRecord { interval: Some(interval), ..MetricRecord::new("ms", summary, "metrics/x.csv") };
        let told = super::measured("latency", &metric);
        assert_eq!(told, "  latency: mean 12.35 ± 0.45  p50 11.00  p90 34.91 ± 2.1  p99 80.00 ms (n = 40)\n");
        metric.summary.n = 1;
        assert_eq!(super::measured("latency", &metric), "  latency: 12.35 ± 0.45 ms\n");
        metric.interval = None;
        assert_eq!(super::measured("latency", &metric), "  latency: 12.35 ms\n");
    }

    #[test]
    fn numbers_have_four_digits() {
        assert_eq!(super::rounded(1234.567), "1235");
        assert_eq!(super::rounded(12.34567), "12.35");
        assert_eq!(super::rounded(0.0123456), "0.01235");
        assert_eq!(super::rounded(0.0), "0");
    }
}
