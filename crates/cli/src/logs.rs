//! `diorama logs`: what the nodes of a run wrote.

use std::io::IsTerminal;
use std::process::ExitCode;

use crate::failure::Failure;

/// Arguments of `diorama logs`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The run: its directory, or the name of a live run
    run: String,
    /// Only this node
    node: Option<String>,
    /// Go on printing until the run ends
    #[arg(long, short)]
    follow: bool,
    /// Print what a terminal would obey as it is, such as colours, where the output is one
    #[arg(long)]
    raw: bool,
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let dir = engine::find_run(&args.run)?;
    let raw = args.raw || !std::io::stdout().is_terminal();
    engine::print_logs(&dir, args.node.as_deref(), args.follow, raw, &mut std::io::stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}
