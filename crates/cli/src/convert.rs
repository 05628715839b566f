//! `diorama convert`: print the experiment's file that an ns script or a Compose file becomes.

use std::path::PathBuf;
use std::process::ExitCode;

use engine::Wanted;
use record::Variant;

use crate::experiment::{CoreArgs, HardwareArgs, tell};
use crate::failure::Failure;
use crate::terminal;

/// Arguments of `diorama convert`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The ns script, or the Compose file
    file: PathBuf,
    #[command(flatten)]
    hardware: HardwareArgs,
    #[command(flatten)]
    cores: CoreArgs,
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let (text, notes) = match compose::is_compose(&args.file) {
        true => of_compose(&args)?,
        false => args.hardware.describes(&args.file, &[], args.cores).convert()?,
    };
    tell(&notes);
    terminal::print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// A Compose file says no TDF: it gets the smallest at which its nodes have room on this machine.
fn of_compose(args: &Args) -> Result<(String, Vec<String>), Failure> {
    let wrong = |e: compose::Error| Failure::input(e.render());
    let converted = compose::convert(&args.file, |name| std::env::var(name).ok()).map_err(wrong)?;
    let experiment = converted.load().map_err(wrong)?;
    let wanted = Wanted { experiment: &experiment, variant: Variant::Scaled, tdf: None, cores: args.cores.into() };
    let tdf = wanted.smallest_tdf()?;
    Ok((converted.text(&tdf.to_string()), converted.notes))
}
