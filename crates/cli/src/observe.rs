//! `diorama observe`: the system calls of a program on a plain machine, as a record for `compare`.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use engine::observe::{self, Record, Subject};

use crate::columns;
use crate::failure::Failure;

/// How many calls are shown of each program.
const SHOWN: usize = 10;

/// Arguments of `diorama observe`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Observe a process that is there, with all that it has started and starts, until INT, TERM or its end
    #[arg(long, value_name = "N", conflicts_with = "command")]
    pid: Option<u32>,
    /// Observe for so many seconds at most; a command is then asked to end
    #[arg(long = "for", value_name = "SECONDS")]
    longest: Option<f64>,
    /// Where the record goes: a directory that is new, or empty [default: runs/PROGRAM/observed]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The command and its arguments
    #[arg(
        required_unless_present = "pid",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

/// Runs the verb: the command's own exit code, or 0 for a process.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let longest = args.longest.map(|seconds| match Duration::try_from_secs_f64(seconds) {
        Ok(longest) if !longest.is_zero() => Ok(longest),
        _ => Err(Failure::input(format!("--for {seconds}: write a number of seconds above 0, such as 10"))),
    });
    let longest = longest.transpose()?;
    let subject = args.pid.map_or(Subject::Command(args.command), Subject::Process);
    let record = observe::observe(&subject, args.out, longest)?;
    // The command may have written to standard output, which whoever reads it does not want to be mixed with this.
    eprint!("{}", told(&record));
    let code = match record.status {
        None => 0,
        Some(status) => status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1),
    };
    Ok(ExitCode::from(code as u8))
}

/// Tells what was counted, as a person reads it: of each program the calls that took longest.
fn told(record: &Record) -> String {
    let mut text = String::new();
    for program in &record.observed.calls.programs {
        let made = program.made();
        let (switches, core) = (program.voluntary_switches, program.cpu_real_ns.as_secs_f64());
        let _ = writeln!(
            text,
            "{}: {made} system calls, {core:.3} s of a core, {} page faults, waited {switches} times, put aside {}",
            engine::visible(&program.program),
            program.page_faults,
            program.involuntary_switches
        );
        let mut calls: Vec<_> = program.calls.iter().collect();
        calls.sort_by_key(|call| (std::cmp::Reverse(call.virtual_ns), std::cmp::Reverse(call.made)));
        let head = ["call", "made", "errors", "s", "bytes"].map(str::to_owned);
        let rows = calls.iter().take(SHOWN).map(|call| {
            let bytes = if call.sizes.is_empty() { String::new() } else { call.bytes.to_string() };
            let seconds = format!("{:.6}", call.virtual_ns.as_secs_f64());
            [call.call.clone(), call.made.to_string(), call.errors.to_string(), seconds, bytes]
        });
        text += &columns::table(std::iter::once(head).chain(rows));
        if calls.len() > SHOWN {
            let _ = writeln!(text, "and {} others", calls.len() - SHOWN);
        }
    }
    let each = record.observed.taken.for_each.as_nanos();
    let _ = writeln!(text, "to count a call takes {each} ns here, so the program took longer by as much for each");
    let _ = writeln!(text, "record: {}", record.path.display());
    text
}
