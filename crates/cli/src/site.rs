//! `diorama site`: one machine's side, on standard input and output, for a coordinator elsewhere.

use std::io::{BufReader, BufWriter, IsTerminal};
use std::process::ExitCode;

use engine::site::serve_machine;
use engine::{LocalMachine, take_standard_streams};

use crate::failure::Failure;

/// Arguments of `diorama site`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Tell a clock that is so much faster than this machine's, for tests
    #[arg(long, value_name = "PPM", hide = true, default_value_t = 0.0, allow_negative_numbers = true)]
    clock_drift: f64,
}

/// Runs the verb, until the coordinator closes the stream.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    if std::io::stdin().is_terminal() || std::io::stdout().is_terminal() {
        return Err(Failure::input(
            "`diorama site` is started by a coordinator, which has its standard input and output: name this machine in \
             a harness file, and run `diorama doctor --harness FILE` there",
        ));
    }
    let (from, to) =
        take_standard_streams().map_err(|e| Failure::failed(format!("cannot have the stream to itself: {e}")))?;
    serve_machine(
        &mut LocalMachine::with_drift(args.clock_drift),
        BufReader::new(from),
        BufWriter::new(to),
        env!("DIORAMA_VERSION"),
    )?;
    Ok(ExitCode::SUCCESS)
}
