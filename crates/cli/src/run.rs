//! `diorama run`: run an experiment and record what happened.

use std::path::PathBuf;
use std::process::ExitCode;

use engine::{Outcome, Plan, Request, Tdf};
use record::{Status, Variant, Verdict};

use crate::experiment::{VariantArg, parse_override};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::terminal;

/// Arguments of `diorama run`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The experiment: its folder, or its YAML file
    experiment: PathBuf,
    /// With which resources: `scaled` as the plan says, `baseline` at TDF 1 with every node's full target share,
    /// `naive` at TDF 1 with the scaled variant's resources
    #[arg(long, value_enum, default_value = "scaled")]
    variant: VariantArg,
    /// Another time dilation factor than the experiment's (scaled variant only)
    #[arg(long, value_name = "N")]
    tdf: Option<Tdf>,
    /// Where the results go, new or empty [default: runs/NAME/VARIANT; an earlier one moves to VARIANT.1, …]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Change a value of the experiment, such as `machines.server.speed=0.25`
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = parse_override)]
    set: Vec<(String, String)>,
    /// For everything random: the n-th packet on a pipe meets the same fate for the same seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How often to run; the results go to DIR/1, DIR/2, …
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Leave the nodes running when the results are written, until Ctrl-C
    #[arg(long, conflicts_with = "repeat")]
    keep: bool,
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    // First of all: from here on, signals that ask the run to end are received.
    let interrupts = engine::interrupts().map_err(|e| Failure::failed(format!("cannot listen to signals: {e}")))?;
    engine::sweep();
    let experiment = engine::load(&args.experiment, &args.set)?;
    let variant: Variant = args.variant.into();
    let plan = Plan::new(&experiment, variant, args.tdf)?;
    for warning in &plan.warnings {
        engine::warn(warning);
    }
    if !interrupts.is_empty() {
        return Err(engine::Error::Interrupted.into());
    }

    // For all repetitions, so that nothing comes between.
    let cores = engine::CoreLocks::claim(&plan.all_cores())?;
    let mut outs = vec![args.out];
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
            keep: args.keep,
        };
        let outcome = engine::run(request, &interrupts, &mut |notice| progress.show(notice));
        progress.finish();
        let outcome = outcome?;
        terminal::print(told(&outcome))?;
        complain(&outcome);
        failed |= outcome.result.status == Status::Failed;
    }
    Ok(ExitCode::from(u8::from(failed)))
}

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
    for (name, metric) in &result.metrics {
        let s = &metric.summary;
        text += &if s.n == 1 {
            format!("  {name}: {} {}\n", rounded(s.mean), metric.unit)
        } else {
            format!(
                "  {name}: mean {}  p50 {}  p90 {}  p99 {} {} (n = {})\n",
                rounded(s.mean),
                rounded(s.p50),
                rounded(s.p90),
                rounded(s.p99),
                metric.unit,
                s.n
            )
        };
    }
    for recording in &outcome.recordings {
        text += &format!("  {}: {} frames\n", recording.file.display(), recording.frames);
    }
    text += &format!("  verdict: {}\n", result.fidelity.verdict);
    if result.fidelity.verdict == Verdict::Suspect {
        for check in result.fidelity.breaches() {
            text += &format!("    {}: {}\n", check.name, check.says);
        }
    }
    text + &format!("  results: {}\n", outcome.dir.display())
}

/// What is wrong with them.
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
    let digits = if v == 0.0 { 0 } else { (3 - v.abs().log10().floor() as i32).max(0) as usize };
    format!("{v:.digits$}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_have_four_digits() {
        assert_eq!(super::rounded(1234.567), "1235");
        assert_eq!(super::rounded(12.34567), "12.35");
        assert_eq!(super::rounded(0.0123456), "0.01235");
        assert_eq!(super::rounded(0.0), "0");
    }
}
