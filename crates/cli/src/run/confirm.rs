//! `diorama run --confirm`: the same experiment once more, at another TDF.

use engine::confirm::{self, Conditions, Confirmed, Seconds};
use engine::{Experiment, Outcome, Plan, Request};
use record::{Accuracy, RunDir, RunResult, Status, Variant};

use super::{Args, complain, told};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::terminal;

/// The second run, as far as it is known before the first.
pub struct Confirmation {
    experiment: Experiment,
    seconds: Seconds,
}

impl Confirmation {
    /// The run that could confirm one by `plan`; fails if none could.
    pub fn of(args: &Args, plan: &Plan) -> Result<Confirmation, Failure> {
        if plan.variant != Variant::Scaled {
            let what = format!(
                "--confirm needs another TDF, and the {} variant runs at TDF 1: leave it out, or use --variant scaled",
                plan.variant
            );
            return Err(Failure::input(what));
        }
        let mut set = args.set.clone();
        set.extend(args.lead.iter().map(|lead| ("lead".to_owned(), lead.clone())));
        // Warnings about it have been given.
        let experiment = args.hardware.describes(&args.experiment, &set, args.cores).open()?.experiment;
        let seconds = engine::seconds(&experiment, plan)?;
        Ok(Confirmation { experiment, seconds })
    }

    /// Makes the second run and says what came of it: false if it failed, and the first as it stands then.
    pub fn make(
        self,
        first: Outcome,
        plan: &Plan,
        cores: &engine::CoreLocks,
        args: &Args,
        accuracy: Accuracy,
        interrupts: &engine::Interrupts,
    ) -> Result<(bool, RunResult), Failure> {
        let Confirmation { experiment, seconds } = self;
        if !confirm::is_possible(&first.result) {
            engine::warn("not confirmed: a run that failed, or measured nothing, has nothing to confirm");
            return Ok((true, first.result));
        }
        let dir = RunDir::at(&first.dir);
        let second = seconds.choose(first.result.real_seconds);
        let conditions = [Conditions::of(plan), Conditions::of(&second)];
        let mut progress = Progress::new(format!("{} at TDF {}, to confirm", experiment.name, second.tdf));
        let request = Request {
            experiment: &experiment,
            plan: second,
            cores: cores.clone(),
            out: Some(dir.confirmation().path().to_path_buf()),
            seed: args.seed,
            accuracy,
            choice: engine::CoreChoice::default(),
            earlier: None,
            keep: false,
        };
        let outcome = engine::run(request, interrupts, &mut |notice| progress.show(notice));
        progress.finish();
        let outcome = outcome?;
        terminal::print(told(&outcome))?;
        complain(&outcome);
        if outcome.result.status == Status::Failed {
            return Ok((false, first.result));
        }
        let comparison = confirm::compare((&first.result, conditions[0]), (&outcome.result, conditions[1]));
        let settled = confirm::settle(&dir, first.result, &comparison, conditions[1])?;
        terminal::print(summary(&comparison, conditions[1], &settled))?;
        Ok((true, settled))
    }
}

fn summary(comparison: &confirm::Comparison, second: Conditions, settled: &record::RunResult) -> String {
    let mut text = match comparison.confirmed() {
        Confirmed::Yes => {
            let what = comparison.compared.join(", ");
            format!("  confirmed: at TDF {} nothing moves by more than the intervals allow ({what})\n", second.tdf)
        }
        Confirmed::No => {
            let lines: String = comparison.moved.iter().map(|line| format!("    {line}\n")).collect();
            format!("  not confirmed, so the first run is {}:\n{lines}", settled.fidelity.verdict)
        }
        Confirmed::CannotTell => {
            "  neither confirmed nor refuted: there is nothing that could be compared\n".to_owned()
        }
    };
    if !comparison.unknown.is_empty() {
        text += &format!("  too few samples to say: {}\n", comparison.unknown.join(", "));
    }
    text
}
