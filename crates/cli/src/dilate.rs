//! `diorama dilate`: one command under time dilation.

mod control;

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

use clock::{ClockPage, CpuRate, Injector, Reaper};
use scale::{RealDuration, Tdf};

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
    /// What rdtsc and rdtscp show: `native`, the processor's own count, which runs on in real time, or `dilated`,
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

/// As env and timeout do: 125 is a failure of this program's own, apart from the command's codes.
fn own(error: impl Display) -> Failure {
    Failure { code: 125, message: error.to_string() }
}

/// Runs the verb.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    if let (Some(socket), true) = (&args.control, args.command.is_empty()) {
        let at = control::ask(socket, args.tdf).map_err(own)?;
        terminal::print(format_args!("at {at} virtual s the factor became {}\n", args.tdf))
            .map_err(|e| own(e.message))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (mine, other) = cores();
    // As many virtual seconds as pass in a real one: 1/TDF.
    let share = args.tdf.to_virtual(RealDuration::from_secs_f64(1.0)).as_secs_f64();
    // Two shares of one core would halve each other.
    let _claim = args.cpu.then(|| engine::Cores::claim(&[mine])).transpose().map_err(own)?;
    let limit = args.cpu.then(|| cpu::limit_this(share, mine)).transpose().map_err(own)?;
    if let Some(why) = limit.as_ref().and_then(|l| l.coarse.as_ref()) {
        engine::warn(format_args!("the CPU limit is coarse: {why}"));
    }
    let rate = if args.cpu { CpuRate::NATIVE } else { CpuRate::undivided(args.tdf) };
    let rate = if args.tsc == Tsc::Dilated { rate.with_dilated_tsc() } else { rate };
    let page = ClockPage::new(args.tdf).map_err(own)?;
    let confine = |command: &mut std::process::Command| match &limit {
        Some(limit) => limit.confine(command).map_err(|e| e.to_string()),
        None => Ok(()),
    };
    // Before there is a second thread.
    let reaper = Reaper::fork(&args.command, confine).map_err(own)?;
    let core = if args.cpu { other } else { None };
    let injector = Injector::start(&page, core, |sentence| engine::warn(sentence)).map_err(own)?;
    let admitted = injector.admit(rate).map_err(own)?;
    let rate = injector.rate_changer();
    let control = args.control.as_deref().map(|path| control::Control::open(path, &rate)).transpose().map_err(own)?;
    page.start();
    let ended = reaper.run(admitted).map_err(own)?;
    drop(control);
    drop(injector);
    if let Some(limit) = limit {
        limit.release().map_err(own)?;
    }
    Ok(ExitCode::from(ended.code()))
}

/// The core for a limited or measured command, and one for the injector if there is another.
pub(crate) fn cores() -> (usize, Option<usize>) {
    let allowed = rustix::thread::sched_getaffinity(None).ok();
    let mut cores = (0..).take(rustix::thread::CpuSet::MAX_CPU).filter(|c| allowed.is_some_and(|set| set.is_set(*c)));
    (cores.next().unwrap_or(0), cores.last())
}
