//! A program on a plain machine, observed: its record is that of a run, for `compare`.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use machine::Interrupts;
use observe::{Observed, Plain};
use record::{Ended, Fidelity, NodeOutcome, RunDir, RunResult, Status, Variant, Verdict};
use rustix::process::{Pid, Signal, kill_process};
use scale::Tdf;
use site::{Error, Result};

use crate::claim_directory;

/// How often it is looked whether it goes on.
const STEP: Duration = Duration::from_millis(20);

/// A terminal's INT reaches the command by itself. One that has come to this process alone is passed on after so long.
const OF_TERMINAL: Duration = Duration::from_millis(500);

/// Whose calls are counted.
#[derive(Debug)]
pub enum Subject {
    /// A command, which is started, and all that it starts.
    Command(Vec<OsString>),
    /// A process that is there, its descendants, and all that they start.
    Process(u32),
}

/// How an observation ended.
#[derive(Debug)]
pub struct Record {
    /// Its directory.
    pub path: PathBuf,
    /// The calls, and what it took to count them.
    pub observed: Observed,
    /// How the command ended; `None` for a process, which goes on.
    pub status: Option<ExitStatus>,
}

/// Observes a program until it ends, somebody interrupts, or it has been long enough, and writes the record.
///
/// # Errors
///
/// If nothing can be counted here, if the command cannot be started, or the record not be written.
pub fn observe(subject: &Subject, out: Option<PathBuf>, longest: Option<Duration>) -> Result<Record> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::machine("system calls are counted by a BPF program, which only root may load", "sudo"));
    }
    let path = claim_directory(out.as_deref(), &name_of(subject), Variant::Observed)?;
    let dir = RunDir::prepare(&path, [NODE]).map_err(machine::Error::from)?;
    let until = longest.map(|longest| Instant::now() + longest);
    let (observed, status) = match subject {
        Subject::Command(command) => {
            let (program, arguments) = command.split_first().ok_or_else(|| Error::input("there is no command"))?;
            let (mut plain, child) = Plain::start(Command::new(program).args(arguments)).map_err(lacks)?;
            let child = child.map_err(|e| Error::input(format!("{}: {e}", program.display())))?;
            let status = until_it_ends(child, until, &mut plain)?;
            (plain.finish().map_err(lacks)?, Some(status))
        }
        Subject::Process(pid) => {
            let mut plain = Plain::follow(*pid).map_err(|e| match e {
                observe::Error::Process { .. } => Error::input(e.to_string()),
                observe::Error::Bpf(_) => lacks(e),
            })?;
            let interrupts = listen()?;
            while interrupts.recv_timeout(STEP).is_err() && !is_over(until) && observe::is_there(*pid) {
                plain.look().map_err(lacks)?;
            }
            (plain.finish().map_err(lacks)?, None)
        }
    };
    dir.write_calls(NODE, observed.calls.clone()).map_err(machine::Error::from)?;
    dir.write_result(&result(subject, &observed, status)).map_err(machine::Error::from)?;
    Ok(Record { path, observed, status })
}

/// Waits for a command, and asks it to end once somebody interrupts or it has been long enough.
fn until_it_ends(mut child: Child, until: Option<Instant>, plain: &mut Plain) -> Result<ExitStatus> {
    let pid = Pid::from_child(&child);
    // Not before it has been started: it would have these signals blocked, as this process does from now on.
    let interrupts = listen()?;
    let (mut asked, mut told) = (None, false);
    loop {
        if let Some(status) = child.try_wait().map_err(Error::failed)? {
            return Ok(status);
        }
        plain.look().map_err(lacks)?;
        if let Ok(signal) = interrupts.recv_timeout(STEP) {
            asked = Some((Instant::now(), signal));
        }
        let signal = match asked {
            Some((at, signal)) if signal == Signal::INT.as_raw() => (at.elapsed() > OF_TERMINAL).then_some(Signal::INT),
            Some(_) => Some(Signal::TERM),
            None => is_over(until).then_some(Signal::TERM),
        };
        if let Some(signal) = signal.filter(|_| !told) {
            told = true;
            // It may have ended just now.
            let _ = kill_process(pid, signal);
        }
    }
}

fn is_over(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() >= until)
}

fn listen() -> Result<Interrupts> {
    machine::interrupts().map_err(|e| Error::failed(format!("cannot listen to signals: {e}")))
}

/// The only node of a plain machine.
const NODE: &str = "program";

fn lacks(e: observe::Error) -> Error {
    Error::machine(e.to_string(), "see `diorama doctor`")
}

/// The name of the program as that of an experiment.
fn name_of(subject: &Subject) -> String {
    let file = match subject {
        Subject::Command(command) => command.first().map(PathBuf::from),
        Subject::Process(pid) => observe::program_of(*pid),
    };
    let name = file.as_deref().and_then(|file| file.file_name()).unwrap_or_default();
    let fits = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.to_string_lossy().chars().take(63).map(fits).collect();
    match name.trim_matches('-') {
        "" => "program".into(),
        name => name.into(),
    }
}

fn result(subject: &Subject, observed: &Observed, status: Option<ExitStatus>) -> RunResult {
    let outcome = NodeOutcome {
        exit: status.and_then(|status| status.code()),
        ended: match status {
            Some(status) if status.signal().is_none() => Ended::Exited,
            Some(_) => Ended::Killed,
            None => Ended::Stopped,
        },
        core_seconds: Some(observed.calls.core_seconds()),
    };
    RunResult {
        experiment: name_of(subject),
        variant: Variant::Observed,
        tdf: Tdf::ONE,
        scaling_factor: 1.0,
        status: Status::Ok,
        why: None,
        virtual_seconds: observed.lasted.as_secs_f64(),
        real_seconds: observed.lasted.as_secs_f64(),
        metrics: IndexMap::new(),
        nodes: [(NODE.to_owned(), outcome)].into(),
        // It is no model of anything.
        fidelity: Fidelity {
            verdict: Verdict::Trustworthy,
            accuracy_percent: None,
            why: Vec::new(),
            core_speed: None,
            checks: Vec::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_is_named_after_the_program() {
        let command = |word: &str| name_of(&Subject::Command(vec![word.into(), "-x".into()]));
        assert_eq!(
            ["/usr/sbin/nginx", "./a_B.out", "/", "..", "ä"].map(command),
            ["nginx", "a-b-out", "program", "program", "program"]
        );
    }
}
