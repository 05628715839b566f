//! `diorama dilate`: one command under time dilation.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use engine::Tdf;
use engine::dilate::{self, Dilation};

use crate::failure::Failure;
use crate::terminal;

/// Arguments of `diorama dilate`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Time dilation factor: real seconds per second that the command sees; 1 or more, such as 10 or 1.5
    #[arg(long, value_name = "N")]
    tdf: Tdf,
    /// Also limit the command to 1/TDF of a core, so that it sees one core of usual speed (needs root)
    #[arg(long, conflicts_with = "control")]
    cpu: bool,
    /// The counter of rdtsc and rdtscp: `native`, the processor's own count, which runs on in real time, or `dilated`,
    /// virtual time; then each costs microseconds, and each reading of a clock a system call
    #[arg(long, value_name = "COUNTER", default_value = "native")]
    tsc: Tsc,
    /// Make a socket over which the factor can be changed while the command runs. Without a command: change the factor
    /// of the command that was started with this socket
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// The command and its arguments
    #[arg(
        required_unless_present = "control",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

/// The time-stamp counter of the processor, as the command sees it.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Tsc {
    Native,
    Dilated,
}

/// Runs the verb. As env and timeout do: 125 is a failure of this program's own, apart from the command's codes.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let own = |e: dilate::Error| Failure { code: 125, message: e.to_string() };
    if let (Some(socket), true) = (&args.control, args.command.is_empty()) {
        let at = dilate::change(socket, args.tdf).map_err(own)?;
        let told = terminal::print(format_args!("at {at} virtual s the factor became {}\n", args.tdf));
        return told.map(|()| ExitCode::SUCCESS).map_err(|e| Failure { code: 125, ..e });
    }
    let dilation = Dilation {
        tdf: args.tdf,
        limited: args.cpu,
        dilated_tsc: args.tsc == Tsc::Dilated,
        control: args.control,
        command: args.command,
    };
    Ok(ExitCode::from(dilate::run(&dilation).map_err(own)?))
}
