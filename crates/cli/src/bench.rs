//! `diorama bench`: how accurate and how fast each mechanism is, here and now.

use std::process::ExitCode;

use crate::failure::Failure;
use crate::terminal;

/// Arguments of `diorama bench`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The mechanism to measure.
    #[arg(value_enum)]
    mechanism: Mechanism,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Mechanism {
    Clock,
    Net,
    Cpu,
    Disk,
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let rows = match args.mechanism {
        Mechanism::Clock => bench::clock(|sentence| engine::warn(sentence))?,
        Mechanism::Net => bench::net(|sentence| terminal::say(sentence))?,
        Mechanism::Cpu => bench::cpu(|sentence| engine::warn(sentence))?,
        Mechanism::Disk => return Err(Failure::input("disks are not modelled yet, so there is nothing to measure")),
    };
    terminal::print(if args.json { bench::json(&rows)? + "\n" } else { bench::text(&rows) })?;
    Ok(ExitCode::SUCCESS)
}
