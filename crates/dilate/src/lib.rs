//! One command under time dilation, without an experiment: the clock, and where asked the limit of its CPU.

mod control;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use clock::{ClockPage, Injector, Reaper, VirtualCpu};
use host::warn;
use machine::claim_one;
use scale::{TargetCpu, Tdf};

use self::control::Control;

/// A command that is to be dilated, and how.
#[derive(Clone, Debug)]
pub struct Dilation {
    /// Real seconds for each second that the command sees.
    pub tdf: Tdf,
    /// Whether the command is limited to 1/TDF of a core, so that it sees one core of usual speed; needs root.
    pub limited: bool,
    /// Whether `rdtsc` and `rdtscp` show virtual time too, at a cost (docs/clock.md).
    pub dilated_tsc: bool,
    /// Where to make a socket over which the factor can be changed ([`change`]).
    pub control: Option<PathBuf>,
    /// The command and its arguments.
    pub command: Vec<OsString>,
}

/// Why a command could not be dilated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The clock.
    #[error(transparent)]
    Clock(#[from] clock::Error),
    /// The limit of its CPU.
    #[error(transparent)]
    Cpu(#[from] cpu::Error),
    /// The core that it is limited on.
    #[error(transparent)]
    Core(#[from] machine::Error),
    /// The socket over which its factor can be changed.
    #[error("--control {}: {why}", path.display())]
    Control {
        /// The socket.
        path: PathBuf,
        /// The fault in it.
        why: String,
    },
    /// The command is one that traces the programs which it starts, as debuggers do.
    #[error(
        "{0} cannot trace a dilated program from its start: run the program alone under diorama dilate, and attach \
         to it from outside (gdb -p PID, strace -f -p PID)"
    )]
    Tracer(String),
    /// The command, or a program that it has started, has taken away what dilates it.
    #[error("the command has failed because {0} takes away what dilates programs, as is said above")]
    Unfit(String),
    /// The command that runs refused another factor.
    #[error("{0}")]
    Refused(String),
}

/// Runs a command to its end and gives its exit code as a shell does: 128 + signal if one ended it, 126 and 127 if it
/// could not be executed. Passes signals on to it, and ends whatever it leaves running. A debugger that has failed, as
/// it could not start its program, is an error, and so is a command that has failed beside a program which takes away
/// what dilates it.
///
/// Call it while the process has one thread.
///
/// # Errors
///
/// If the command could not be started, or not watched to its end.
pub fn run(dilation: &Dilation) -> Result<u8, Error> {
    // Two shares of one core would halve each other.
    let claim = dilation.limited.then(claim_one).transpose()?;
    let share = TargetCpu { cpus: 1, speed: 1.0 }.share(dilation.tdf);
    let limit = claim.as_ref().map(|(core, others, _)| cpu::limit_this(share, *core, others)).transpose()?;
    let other = claim.as_ref().and_then(|(_, others, _)| others.last().copied());
    if let Some(why) = limit.as_ref().and_then(|l| l.coarse.as_ref()) {
        warn(format_args!("the CPU limit is coarse: {why}"));
    }
    let cpu = virtual_cpu(dilation);
    let page = ClockPage::new(dilation.tdf)?;
    let confine = |command: &mut Command| match &limit {
        Some(limit) => limit.confine(command).map_err(|e| e.to_string()),
        None => Ok(()),
    };
    // Before there is a second thread.
    let reaper = Reaper::fork(&dilation.command, confine)?;
    let injector = Injector::start(&page, other, |sentence| warn(sentence))?;
    let admitted = injector.admit(cpu)?;
    let rate = injector.rate_changer();
    let control = dilation.control.as_deref().map(|path| Control::open(path, &rate)).transpose()?;
    page.start();
    let (pid, ended) = reaper.run(admitted)?;
    drop(control);
    let (tracer, unfit) = (injector.refused_tracer(pid), injector.unfit().pop());
    drop(injector);
    if let Some(limit) = limit {
        limit.release()?;
    }
    match (ended.code(), tracer, unfit) {
        // One that did something else then, and succeeded, is told its code.
        (1.., Some(name), _) => Err(Error::Tracer(name)),
        (1.., _, Some(name)) => Err(Error::Unfit(name)),
        (code, ..) => Ok(code),
    }
}

/// Has the command that was started with the socket `control` go on at another factor; the virtual seconds since its
/// start at which it did, as it wrote them.
///
/// # Errors
///
/// If no command listens there, or it refuses.
pub fn change(control: &Path, tdf: Tdf) -> Result<String, Error> {
    control::ask(control, tdf)
}

/// A command with a whole core has one that is TDF times as fast; a limited one has one of usual speed.
fn virtual_cpu(dilation: &Dilation) -> VirtualCpu {
    let cpu = if dilation.limited { VirtualCpu::NATIVE } else { VirtualCpu::undivided(dilation.tdf) };
    if dilation.dilated_tsc { cpu.with_dilated_tsc() } else { cpu }
}
