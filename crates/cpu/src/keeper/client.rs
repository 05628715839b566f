//! The keeper's process, seen from the engine: talked to and ended.

use std::fmt::Display;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Child, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::protocol::{Reply, Request};
use crate::{CoreWork, Error};

/// How long it may take to answer, and to end.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
const TO_END: Duration = Duration::from_secs(2);

/// The process, if there is one.
#[derive(Debug, Default)]
pub(crate) struct KeeperProcess(Option<Child>);

impl KeeperProcess {
    pub fn new(process: Option<Child>) -> KeeperProcess {
        KeeperProcess(process)
    }

    /// How it ended, if it has: it must not, before it is told to.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.as_mut()?.try_wait().ok()?
    }

    /// Waits until it is ready for requests.
    pub fn started(&mut self) -> Result<(), Error> {
        self.reply().map(drop)
    }

    /// Tells it something, and waits until it is done.
    pub fn tell(&mut self, request: &Request) -> Result<(), Error> {
        self.send(request)?;
        self.reply().map(drop)
    }

    /// Asks for the counters of all cores; none, before the first measurement.
    pub fn work(&mut self) -> Result<Vec<CoreWork>, Error> {
        self.send(&Request::Work)?;
        match self.reply()? {
            Reply::Work(work) => Ok(work),
            other => Err(Error::Keeper(format!("it answered {other:?}"))),
        }
    }

    fn send(&mut self, request: &Request) -> Result<(), Error> {
        let input = self.0.as_mut().and_then(|process| process.stdin.as_mut()).ok_or_else(missing)?;
        let line = serde_json::to_string(request).expect("requests have finite numbers");
        writeln!(input, "{line}").map_err(broken)
    }

    /// Reads one line, which is not that it failed.
    fn reply(&mut self) -> Result<Reply, Error> {
        let output = self.0.as_mut().and_then(|process| process.stdout.as_mut()).ok_or_else(missing)?;
        // Nothing else comes before the next request, so that all there is belongs to this line.
        let (mut line, mut buffer) = (Vec::new(), [0; 4096]);
        while line.last() != Some(&b'\n') {
            let mut fds = [PollFd::new(&*output, PollFlags::IN)];
            let ready = match poll(&mut fds, Some(&PATIENCE)) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other.map_err(broken)?,
            };
            if ready == 0 {
                return Err(Error::Keeper(format!("no answer within {} s", PATIENCE.tv_sec)));
            }
            match rustix::io::read(output.as_fd(), &mut buffer).map_err(broken)? {
                0 => return Err(Error::Keeper("it ended without a word".into())),
                read => line.extend_from_slice(&buffer[..read]),
            }
        }
        match serde_json::from_slice(&line) {
            Ok(Reply::Failed(why)) => Err(Error::Keeper(why)),
            Ok(reply) => Ok(reply),
            Err(_) => Err(Error::Keeper(format!("it said `{}`", String::from_utf8_lossy(&line).trim_end()))),
        }
    }

    /// Ends it, and waits until it has.
    pub fn end(&mut self) {
        // One that has ended already cannot be told.
        let _ = self.send(&Request::Release);
        let Some(mut process) = self.0.take() else { return };
        drop(process.stdin.take());
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
    Error::Keeper("it was not started".into())
}

fn broken(error: impl Display) -> Error {
    Error::Keeper(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// A process that says this, and then nothing.
    fn says(text: &str) -> KeeperProcess {
        let mut command = Command::new("printf");
        command.args(["%s", text]).stdin(Stdio::null()).stdout(Stdio::piped());
        KeeperProcess::new(Some(command.spawn().unwrap()))
    }

    #[test]
    fn what_a_process_says_is_told() {
        assert!(says("\"Done\"\n").started().is_ok());
        let why = |text: &str| says(text).started().unwrap_err().to_string();
        assert!(why("{\"Failed\":\"no core\"}\n").contains("no core"));
        assert!(why("thread panicked\n").contains("`thread panicked`"));
        assert!(why("").contains("without a word"));
        assert!(KeeperProcess::default().started().unwrap_err().to_string().contains("not started"));
    }
}
