//! `diorama logs`: what the nodes of a run wrote.

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
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let dir = engine::find_run(&args.run)?;
    engine::print_logs(&dir, args.node.as_deref(), args.follow, &mut std::io::stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}
