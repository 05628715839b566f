//! `diorama swap`: suspend a run, and go on with it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use engine::{Listed, Request, SuspendedState, Wanted};
use record::Variant;

use crate::failure::Failure;
use crate::progress::Progress;
use crate::{run, terminal};

/// Arguments of `diorama swap`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Suspend a live run: its cores and memory become free, its nodes' files are kept
    Out {
        /// The live run: its directory, or its name
        run: String,
    },
    /// Go on with a suspended run, in the same state of disks, at the virtual time where it stopped
    In(InArgs),
    /// List the suspended runs
    List,
    /// Remove a suspended run, with its nodes' files
    Remove {
        /// Its identity, or its experiment's name if there is but one
        id: String,
    },
}

#[derive(clap::Args, Debug)]
struct InArgs {
    /// Its identity, or its experiment's name if there is but one
    id: String,
    /// Where the results go, new or empty [default: runs/NAME/VARIANT; an earlier one moves to VARIANT.1, …]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Where other runs have the cores, wait until they have ended, and say which they are
    #[arg(long)]
    wait: bool,
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    match args.what {
        What::In(args) => go_on(args),
        What::Out { run } => {
            let run = engine::find_live(&run)?;
            let (id, at) = engine::swap_out(&run)?;
            terminal::print(put_aside(&id, at))?;
            Ok(ExitCode::SUCCESS)
        }
        What::List => {
            let all: String = engine::suspended_runs().iter().map(line).collect();
            let damaged = engine::damaged();
            let damaged = damaged.iter().map(|(id, why)| format!("{id}  damaged: {why}; `diorama swap remove {id}`\n"));
            terminal::print(all + &damaged.collect::<String>())?;
            Ok(ExitCode::SUCCESS)
        }
        What::Remove { id } if engine::remove_damaged(&id)? => {
            terminal::print(format!("{id} is gone, with its nodes' files\n"))?;
            Ok(ExitCode::SUCCESS)
        }
        What::Remove { id } => {
            let (found, files) = engine::take_suspended(&id)?;
            files.remove()?;
            terminal::print(format!("{} is gone, with its nodes' files\n", found.run.id))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The message that a run is suspended, and how to go on with it.
pub fn put_aside(id: &str, at: f64) -> String {
    format!("suspended at {at:.3} virtual seconds; `diorama swap in {id}` goes on with it\n")
}

fn go_on(args: InArgs) -> Result<ExitCode, Failure> {
    let interrupts = terminal::interrupts()?;
    engine::setting_up(|| ());
    let (found, files) = engine::take_suspended(&args.id)?;
    let suspended = found.run;
    if found.state == SuspendedState::CutOff {
        engine::warn(format_args!(
            "a run went on with {} and was cut off: the nodes' files are as it left them, and virtual time goes on \
             from {:.3} s all the same",
            suspended.id,
            suspended.at.as_secs_f64()
        ));
    }
    let experiment = engine::read_experiment(&suspended)?;
    let (variant, tdf) = (Variant::Scaled, Some(suspended.tdf));
    let wanted = Wanted { experiment: &experiment, variant, tdf, cores: suspended.cores };
    let plan = wanted.plan()?;
    let mut waiting = |who: &str| engine::warn(format_args!("waiting: {who}"));
    let waits: Option<&mut dyn FnMut(&str)> = if args.wait { Some(&mut waiting) } else { None };
    let (plan, cores) = wanted.claim(plan, &interrupts, waits)?;
    for warning in &plan.warnings {
        engine::warn(warning);
    }
    let mut progress = Progress::new(format!("{} {variant}", experiment.name));
    let request = Request {
        experiment: &experiment,
        plan,
        cores,
        out: args.out,
        seed: suspended.seed,
        accuracy: suspended.accuracy,
        keep: false,
        choice: suspended.cores,
        earlier: Some((suspended, files)),
    };
    let outcome = engine::run(request, &interrupts, &mut |notice| progress.show(notice));
    progress.finish();
    run::report(&outcome?)
}

fn line(listed: &Listed) -> String {
    let suspended = &listed.run;
    let state = match listed.state {
        SuspendedState::Untouched => "",
        SuspendedState::InUse => "; a run goes on with it",
        SuspendedState::CutOff => "; a run that went on with it was cut off, its files are as that left them",
    };
    format!(
        "{}  {}: {} nodes at TDF {}, suspended at {:.3} virtual seconds, {} ago{state}\n",
        suspended.id,
        suspended.name,
        suspended.nodes.len(),
        suspended.tdf,
        suspended.at.as_secs_f64(),
        rough(listed.age)
    )
}

/// A time that nobody needs to know exactly.
pub fn rough(age: Duration) -> String {
    match age.as_secs() {
        s @ 0..=119 => format!("{s} s"),
        s @ 120..=7199 => format!("{} min", s / 60),
        s @ 7200..=172_799 => format!("{} h", s / 3600),
        s => format!("{} days", s / 86_400),
    }
}
