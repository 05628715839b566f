//! The process that keeps the shares, seen from the engine: started, talked to and ended.
//!
//! Over its standard input and output, a word a line: `ready` → (`go`) → `going`; `release`, or the end of the input,
//! ends it. `error …` says why it failed. The other side is [`crate::fillers`].

use std::fmt::Display;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Child, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Error;

/// How long it may take to answer, and to end.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
const TO_END: Duration = Duration::from_secs(2);

/// What begins a line that says why it failed.
pub(crate) const FAILED: &str = "error ";

/// The process, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Helper(Option<Child>);

impl Helper {
    pub fn new(process: Option<Child>) -> Helper {
        Helper(process)
    }

    /// How it ended, if it has: it must not, before it is told to.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.as_mut()?.try_wait().ok()?
    }

    /// Tells it a word.
    pub fn send(&mut self, word: &str) -> Result<(), Error> {
        let input = self.0.as_mut().and_then(|h| h.stdin.as_mut()).ok_or_else(missing)?;
        writeln!(input, "{word}").map_err(broken)
    }

    /// Reads one line and checks that it is `word`.
    pub fn expect(&mut self, word: &str) -> Result<(), Error> {
        let output = self.0.as_mut().and_then(|h| h.stdout.as_mut()).ok_or_else(missing)?;
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let mut fds = [PollFd::new(&*output, PollFlags::IN)];
            let ready = match poll(&mut fds, Some(&PATIENCE)) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other.map_err(broken)?,
            };
            if ready == 0 {
                return Err(Error::Fillers(format!("no `{word}` within {} s", PATIENCE.tv_sec)));
            }
            let mut byte = [0];
            if rustix::io::read(output.as_fd(), &mut byte).map_err(broken)? == 0 {
                break;
            }
            line.push(byte[0]);
        }
        let line = String::from_utf8_lossy(&line);
        match line.trim_end() {
            answer if answer == word => Ok(()),
            "" => Err(Error::Fillers("they ended without a word".into())),
            other => Err(Error::Fillers(other.trim_start_matches(FAILED).into())),
        }
    }

    /// Ends it, and waits until it has.
    pub fn end(&mut self) {
        let Some(mut process) = self.0.take() else { return };
        // One that has ended already cannot be told.
        let _ = process.stdin.take().map(|mut input| input.write_all(b"release\n"));
        let deadline = Instant::now() + TO_END;
        while process.try_wait().is_ok_and(|ended| ended.is_none()) {
            if Instant::now() > deadline {
                let _ = process.kill();
                let _ = process.wait();
                break;
            }
            sleep(Duration::from_millis(2));
        }
    }
}

fn missing() -> Error {
    Error::Fillers("they were not started".into())
}

fn broken(error: impl Display) -> Error {
    Error::Fillers(error.to_string())
}
