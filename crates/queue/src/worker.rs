//! Making a job.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Error, Result};
use crate::job::{Job, State};
use crate::lock::Held;
use crate::store::Queue;

/// The shortest and the longest time after which is looked whether a run has ended, or is to end.
const LOOK: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(50)];
/// Every so many looks is asked whether somebody wants to cancel it.
const LOOKS: u32 = 20;
/// The exit codes of a run that was asked to end.
const INTERRUPTED: i32 = 130;

/// Result of a look for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Worked {
    /// No job waits.
    Nothing,
    /// A job is over.
    Over(Job),
    /// A job was begun and waits again: interrupted, or cut.
    Again(Job),
}

/// Asks a process that was started to end.
pub fn ask_to_end(child: &Child) {
    // It may have ended meanwhile, and is a child, so its number is still its own.
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
}

impl Queue {
    /// Makes the next job that waits, if one does, by the program that `program` says, to which nothing but this is
    /// added: the job's directory, no input, and its output to the job's log. When `stop` says so the program is asked
    /// to end, and the job waits again.
    ///
    /// The program inherits the job's lock. So would one that another thread of this process starts meanwhile, and the
    /// job would be held for as long as that lives: nobody else may start anything.
    pub fn work(&mut self, program: impl FnOnce(&Job) -> Command, mut stop: impl FnMut() -> bool) -> Result<Worked> {
        let Some(held) = self.take()? else { return Ok(Worked::Nothing) };
        let id = held.job.id;
        let log = self.open_log(id)?;
        let errors = log.try_clone().map_err(Error::file(self.log(id), "cannot write"))?;
        let mut command = program(&held.job);
        command.current_dir(&held.job.wanted.dir).stdin(Stdio::null()).stdout(log).stderr(errors);
        // The job is held for as long as its run lives, whatever becomes of this process.
        fcntl_setfd(held.file().as_fd(), FdFlags::empty()).map_err(|e| Error::file(self.log(id), "lock")(e.into()))?;
        let child = match command.spawn() {
            Ok(child) => child,
            Err(e) => {
                let why = format!("cannot be started in {}: {e}", held.job.wanted.dir.display());
                self.close(held, State::Failed, None, Some(&why))?;
                return Ok(Worked::Over(self.job(id)?));
            }
        };
        let (status, stopped) = self.wait(child, &held, &mut stop)?;
        self.note(held, status, stopped)?;
        let job = self.job(id)?;
        Ok(if job.state.is_over() { Worked::Over(job) } else { Worked::Again(job) })
    }

    /// Waits for the end; whether it was asked for.
    fn wait(&self, mut child: Child, held: &Held, stop: &mut impl FnMut() -> bool) -> Result<(ExitStatus, bool)> {
        let mut asked = false;
        for look in 0u32.. {
            if let Some(status) = child.try_wait().map_err(Error::file(self.log(held.job.id), "cannot wait"))? {
                return Ok((status, asked));
            }
            // A queue that cannot be read now does not make a run end.
            let cancelled = || look % LOOKS == 0 && self.job(held.job.id).is_ok_and(|job| job.to_cancel);
            if !asked && (stop() || cancelled()) {
                asked = true;
                ask_to_end(&child);
            }
            std::thread::sleep((LOOK[0] * (look + 1)).min(LOOK[1]));
        }
        unreachable!("a run has ended before so many looks")
    }

    fn note(&mut self, held: Held, status: ExitStatus, asked: bool) -> Result<()> {
        let to_cancel = self.job(held.job.id)?.to_cancel;
        match (status.code(), status.signal()) {
            (Some(0), _) => self.close(held, State::Done, Some(0), None),
            (Some(INTERRUPTED), _) if to_cancel => self.close(held, State::Cancelled, Some(130), None),
            (Some(INTERRUPTED), _) => self.put_back(&held, "it was interrupted"),
            (_, Some(_)) if asked && !to_cancel => self.put_back(&held, "it was interrupted"),
            (None, Some(signal)) => self.again(&held, &format!("try {} was ended by signal {signal}", held.job.tries)),
            (code, _) => {
                let code = code.and_then(|code| u8::try_from(code).ok());
                self.close(held, State::Failed, code, Some("its log says why"))
            }
        }
    }
}
