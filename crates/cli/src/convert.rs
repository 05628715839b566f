//! `diorama convert`: print the experiment's file that an ns script becomes.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::experiment::{CoreArgs, HardwareArgs, tell};
use crate::failure::Failure;
use crate::terminal;

/// Arguments of `diorama convert`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The ns script
    file: PathBuf,
    #[command(flatten)]
    hardware: HardwareArgs,
    #[command(flatten)]
    cores: CoreArgs,
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let (text, notes) = args.hardware.describes(&args.file, &[], args.cores).convert()?;
    tell(&notes);
    terminal::print(text)?;
    Ok(ExitCode::SUCCESS)
}
