//! This program, run as `diorama run`.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use record::{RunDir, Variant};
use rustix::process::{Pid, Signal};

use super::trouble::{Guard, Trouble};
use crate::Error;
use crate::cores::Cores;

/// How often a run is looked after.
const TICK: Duration = Duration::from_millis(50);
/// The event with which virtual time starts, when all that is calibrated has been.
const ZERO: &str = "zero";

/// An experiment to be run, and where its results go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'a> {
    pub experiment: &'a Path,
    pub set: &'a [&'a str],
    pub variant: Variant,
    pub accuracy: Option<&'a str>,
    pub out: &'a Path,
    pub trouble: Option<Trouble>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum End {
    /// Well; the results are there.
    Done,
    /// The run failed, with the last line that it wrote.
    Failed(String),
}

/// Makes a run, with trouble from its first virtual second to its end.
pub(super) fn run(job: &Job, cores: &Cores, interrupted: &dyn Fn() -> bool) -> Result<End, Error> {
    let said = job.out.with_extension("log");
    let log = File::create(&said).map_err(|e| Error::failed(format!("cannot write {}: {e}", said.display())))?;
    let mut child = command(job, log).spawn().map_err(|e| Error::failed(format!("cannot start a run: {e}")))?;
    let ended = attend(&mut child, job, cores, interrupted);
    // A run that is left alone here would go on: whatever failed, it ends first.
    let status = match &ended {
        Ok(status) => *status,
        Err(_) => end(&mut child)?,
    };
    ended?;
    let why = last_words(&fs::read_to_string(&said).unwrap_or_default());
    match status.code() {
        Some(0) => Ok(End::Done),
        Some(2) => Err(Error::Input(why)),
        Some(3) => Err(Error::machine(why)),
        _ => Ok(End::Failed(why)),
    }
}

/// The message with which a run ended: what follows its progress.
fn last_words(said: &str) -> String {
    const MESSAGE: &str = "diorama: ";
    match said.rfind(&format!("\n{MESSAGE}")).map(|at| at + 1).or_else(|| said.starts_with(MESSAGE).then_some(0)) {
        Some(at) => said[at + MESSAGE.len()..].trim().to_owned(),
        None => said.lines().last().unwrap_or("it does not say why").to_owned(),
    }
}

fn command(job: &Job, log: File) -> Command {
    let mut command = Command::new("/proc/self/exe");
    // Lists of processes would show the name of a link.
    command.arg0("diorama");
    command.arg("run").arg(job.experiment).args(["--variant", job.variant.as_str()]).arg("--out").arg(job.out);
    // Trouble is made on one core of the nodes.
    command.arg("--node-cores=1");
    command.args(job.set.iter().map(|set| format!("--set={set}")));
    command.args(job.accuracy.map(|accuracy| format!("--accuracy={accuracy}")));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
    // SAFETY: prctl and sigprocmask are async-signal-safe, and the set lives on the stack. Signals that this program
    // receives in a thread of its own are blocked in all others; a run must hear them.
    unsafe {
        command.pre_exec(|| {
            rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
            let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            match libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut()) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    command
}

fn attend(child: &mut Child, job: &Job, cores: &Cores, interrupted: &dyn Fn() -> bool) -> Result<ExitStatus, Error> {
    let directory = RunDir::at(job.out);
    let mut waiting = job.trouble;
    let mut _in_progress: Option<Guard> = None;
    loop {
        if let Some(status) = child.try_wait().map_err(Error::failed)? {
            return Ok(status);
        }
        if interrupted() {
            return Err(Error::Interrupted);
        }
        if let Some(trouble) = waiting
            // A line that is half written is whole the next time.
            && directory.events().is_ok_and(|events| events.iter().any(|event| event.event == ZERO))
        {
            waiting = None;
            _in_progress = Some(trouble.begin(cores)?);
        }
        thread::sleep(TICK);
    }
}

/// Asks a run to end, and waits until everything of it is gone.
fn end(child: &mut Child) -> Result<ExitStatus, Error> {
    // It may have ended by itself.
    let _ = rustix::process::kill_process(Pid::from_child(child), Signal::TERM);
    child.wait().map_err(Error::failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_failed_has_the_last_word() {
        assert_eq!(
            last_words("virtual 0 s\ndiorama: warning\nvirtual 1 s\ndiorama: no\n  help: yes\n"),
            "no\n  help: yes"
        );
        assert_eq!(last_words("diorama: no such file\n"), "no such file");
        assert_eq!(last_words("calibrating\nkilled"), "killed");
        assert_eq!(last_words(""), "it does not say why");
    }
}
