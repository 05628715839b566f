//! `diorama exec`: run a command inside a live node.

use std::process::ExitCode;

use crate::failure::Failure;

/// Arguments of `diorama exec`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The live run: its directory, or its name
    run: String,
    /// The node
    node: String,
    /// The command and its arguments; it runs dilated and in the node's share
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let run = engine::find_live(&args.run)?;
    Ok(ExitCode::from(engine::exec(&run, &args.node, args.command)?))
}
