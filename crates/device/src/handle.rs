//! The process that serves the disks of a run, seen from the engine.

use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use counters::DiskCounters;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use scale::{RealDuration, RealInstant, Tdf};

use crate::error::Error;
use crate::image::Devices;
use crate::request_trace::Watched;
use crate::transport::Transport;
use crate::wire::{Answer, Change, Cut, DiskSetup, Order};

/// How long it may take to make the disks, and to do anything else.
const TO_MAKE: Duration = Duration::from_secs(300);
const PATIENCE: Duration = Duration::from_secs(10);

/// The disks of a run. They are there until this is dropped, or the process ends in another way.
#[derive(Debug)]
pub struct Disks {
    process: Child,
    names: Vec<String>,
    /// The devices to be removed.
    noted: Devices,
    devices: Vec<PathBuf>,
    over: Transport,
    because: Option<String>,
    spent: RealDuration,
    /// Bytes read behind the latest line.
    read: Vec<u8>,
}

/// Counters of the disks of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// Disk by disk.
    pub disks: Vec<DiskCounters>,
    /// The CPU time that the process has used.
    pub cpu: RealDuration,
}

impl Disks {
    /// The process, to be started in the run's enclosure: this program itself, which must answer to the verb `__disks`
    /// with [`disks_main`](crate::disks_main).
    pub fn command() -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.arg("__disks").stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// Makes disks, each with an empty ext4 file system; what is written to them is kept below `directory`, a directory
    /// of the run's own. They take no time until [`Disks::begin`]. `over` is how requests are to come to the process;
    /// none: by ublk where there is that, and else by FUSE and loop devices. `asker` is the core of whoever uses them,
    /// or one of them: from there it is measured how long requests are on their way.
    ///
    /// # Errors
    /// [`Error::Input`] if there can be no such disk, [`Error::Machine`] if this machine lacks what it takes.
    pub fn make(
        process: Child,
        directory: &Path,
        disks: &[DiskSetup],
        over: Option<Transport>,
        asker: Option<usize>,
    ) -> Result<Disks, Error> {
        let mut made = Disks {
            process,
            names: disks.iter().map(|disk| disk.name.clone()).collect(),
            noted: Devices::default(),
            devices: Vec::new(),
            over: Transport::FuseAndLoop,
            because: None,
            spent: RealDuration::ZERO,
            read: Vec::new(),
        };
        let order = Order::Make { directory: directory.to_path_buf(), disks: disks.to_vec(), over, asker };
        let answer = made.ask(&order, TO_MAKE);
        // Also if it could not make all.
        made.noted = Devices::noted(directory);
        match answer? {
            Answer::Made { devices, over, because, spent } => {
                (made.devices, made.over, made.because, made.spent) = (devices, over, because, spent);
            }
            other => return Err(unexpected(&other)),
        }
        Ok(made)
    }

    /// How requests come to the process.
    pub fn transport(&self) -> Transport {
        self.over
    }

    /// Why they come by FUSE and loop devices, where nobody asked for that.
    pub fn because(&self) -> Option<&str> {
        self.because.as_deref()
    }

    /// The block devices, in the order of the disks.
    pub fn devices(&self) -> &[PathBuf] {
        &self.devices
    }

    /// How long a request is on its way to the process that serves it, and back; it is subtracted from what each takes.
    pub fn spent(&self) -> RealDuration {
        self.spent
    }

    /// The number of the process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Lets go of the devices: each is there for as long as somebody has it open or mounted, and free after that, while
    /// there still is somebody who answers what is written then.
    ///
    /// Devices of disks whose power may be cut are let go of only if it is of `all`: they are mounted once more.
    pub fn let_go(&mut self, all: bool) -> Result<(), Error> {
        self.tell(&Order::LetGo { all })
    }

    /// From now on the disks take the time that their models say. Virtual zero was at `zero`.
    pub fn begin(&mut self, zero: RealInstant, tdf: Tdf) -> Result<(), Error> {
        self.tell(&Order::Begin { zero, tdf })
    }

    /// Has something happen to a disk, by its place. The answer is what a power cut took.
    pub fn change(&mut self, disk: usize, change: Change) -> Result<Cut, Error> {
        match self.ask(&Order::Change { disk, change }, PATIENCE)? {
            Answer::Done => Ok(Cut::default()),
            Answer::Cut(cut) => Ok(cut),
            other => Err(unexpected(&other)),
        }
    }

    /// From now on they take none again.
    pub fn pass(&mut self) -> Result<(), Error> {
        self.tell(&Order::Pass)
    }

    /// Counters since they began.
    ///
    /// # Errors
    /// [`Error::Server`] if a request could not be done, or the process has ended.
    pub fn count(&mut self) -> Result<Counted, Error> {
        match self.ask(&Order::Count, PATIENCE)? {
            Answer::Counted { failure: Some(what), .. } => Err(Error::Server(what)),
            Answer::Counted { disks, cpu, failure: None } => Ok(Counted { disks, cpu }),
            other => Err(unexpected(&other)),
        }
    }

    /// The requests that a disk, by its place, has answered since this was last asked; none the first time.
    pub fn watch(&mut self, disk: usize) -> Result<Vec<Watched>, Error> {
        match self.ask(&Order::Watch { disk }, PATIENCE)? {
            Answer::Watched(requests) => Ok(requests),
            other => Err(unexpected(&other)),
        }
    }

    /// From now on nothing is done, and each request is answered as soon as it has come: what is left is what the way
    /// to the process and back costs.
    pub fn null(&mut self) -> Result<(), Error> {
        self.tell(&Order::Null)
    }

    fn tell(&mut self, order: &Order) -> Result<(), Error> {
        match self.ask(order, PATIENCE)? {
            Answer::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn ask(&mut self, order: &Order, patience: Duration) -> Result<Answer, Error> {
        let broken = |e: io::Error| Error::Server(format!("it cannot be told: {e}"));
        let line = serde_json::to_string(order).map_err(|e| broken(e.into()))?;
        let input = self.process.stdin.as_mut().ok_or_else(|| broken(io::ErrorKind::NotConnected.into()))?;
        if let Err(e) = writeln!(input, "{line}") {
            return Err(if e.kind() == io::ErrorKind::BrokenPipe { self.ended() } else { broken(e) });
        }
        let line = self.line(patience)?;
        match serde_json::from_str(&line) {
            Ok(Answer::Failed(failure)) => Err(failure.into()),
            Ok(answer) => Ok(answer),
            Err(e) => Err(Error::Server(format!("nobody understands `{line}`: {e}"))),
        }
    }

    fn line(&mut self, patience: Duration) -> Result<String, Error> {
        let broken = |e: io::Error| Error::Server(format!("it does not answer: {e}"));
        let end = Instant::now() + patience;
        loop {
            if let Some(length) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=length).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_string());
            }
            let output = self.process.stdout.as_mut().ok_or_else(|| broken(io::ErrorKind::NotConnected.into()))?;
            let rest = end.saturating_duration_since(Instant::now());
            let wait = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() };
            let mut fds = [PollFd::new(&*output, PollFlags::IN)];
            match poll(&mut fds, Some(&wait)) {
                Ok(0) => return Err(Error::Server(format!("it did not answer within {} s", patience.as_secs()))),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(broken(e.into())),
            }
            let mut buffer = [0; 4096];
            match output.read(&mut buffer).map_err(broken)? {
                0 => return Err(self.ended()),
                read => self.read.extend_from_slice(&buffer[..read]),
            }
        }
    }
}

impl Disks {
    /// The message when the process is not there any more.
    fn ended(&mut self) -> Error {
        // It has closed its side, so that it ends at once if it has not yet.
        let how = match self.process.wait() {
            Ok(status) => match (status.signal(), status.code()) {
                (Some(signal), _) => format!("killed by signal {signal}"),
                (_, Some(code)) => format!("ended with code {code}"),
                _ => "ended".into(),
            },
            Err(e) => format!("ended, and nobody knows how: {e}"),
        };
        Error::Ended { disks: some(&self.names), how }
    }
}

/// Names for a message: a few of them.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 5;
    match names.len() {
        0..=SHOWN => names.join(", "),
        all => format!("{} and {} more", names[..SHOWN].join(", "), all - SHOWN),
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        // With it every request fails that is under way, so that nobody waits for one.
        let _ = self.process.kill();
        let _ = self.process.wait();
        // Those that somebody has mounted still go with [`crate::remove_devices`].
        let _ = self.noted.remove(Duration::ZERO);
    }
}

fn unexpected(answer: &Answer) -> Error {
    Error::Server(format!("it answered something else: {answer:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_a_few_disks() {
        let names: Vec<String> = (0..7).map(|n| format!("db-{n}")).collect();
        assert_eq!(some(&names[..2]), "db-0, db-1");
        assert_eq!(some(&names), "db-0, db-1, db-2, db-3, db-4 and 2 more");
    }
}
