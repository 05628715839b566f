//! `diorama event`: have something happen in a live run.

use std::process::ExitCode;

use crate::failure::Failure;
use crate::terminal;

/// Arguments of `diorama event`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The live run: its directory, or its name
    run: String,
    /// The event as a file has it after `at: …,`, such as `link: A--B, set: { up: false }`
    event: String,
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let run = engine::find_live(&args.run)?;
    let at = engine::event(&run, &args.event)?;
    terminal::print(format!("at {at:.3} virtual seconds\n"))?;
    Ok(ExitCode::SUCCESS)
}
