//! Reports of the reaper of a run: which container or executed command ended, and how.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use crate::init::decode;

/// The end of a process that the run's PID 1 reaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The process, as the run's PID namespace numbers it (see `Node::pid`).
    pub pid: i32,
    /// How it ended.
    pub status: ExitStatus,
}

/// All exits so far, for those who ask about one process. One entry per container or executed command.
#[derive(Debug, Default)]
pub(crate) struct Exits {
    ended: Mutex<Ended>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Ended {
    by_pid: HashMap<i32, ExitStatus>,
    over: bool,
}

impl Exits {
    /// Copies the reaper's records until the socket ends. Runs on a thread of its own.
    pub(crate) fn follow(&self, socket: OwnedFd, channel: &Sender<Exit>) {
        let mut socket = File::from(socket);
        let mut record = [0; 8];
        while let Ok(8) = socket.read(&mut record) {
            let (pid, status) = decode(&record);
            let status = ExitStatus::from_raw(status);
            self.lock().by_pid.insert(pid, status);
            self.changed.notify_all();
            // The other end of the channel may have been dropped.
            let _ = channel.send(Exit { pid, status });
        }
        self.lock().over = true;
        self.changed.notify_all();
    }

    /// Waits until `pid` has ended, at most for `limit`; none if it still runs or the enclosure is gone. An exit is
    /// returned once, because its number may come to mean another process.
    pub(crate) fn wait(&self, pid: i32, limit: Option<Duration>) -> Option<ExitStatus> {
        let end = limit.map(|l| Instant::now() + l);
        let mut ended = self.lock();
        loop {
            if let Some(status) = ended.by_pid.remove(&pid) {
                return Some(status);
            }
            if ended.over {
                return None;
            }
            ended = match end {
                None => self.changed.wait(ended).unwrap_or_else(PoisonError::into_inner),
                Some(end) => {
                    let left = end.checked_duration_since(Instant::now())?;
                    self.changed.wait_timeout(ended, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Whether no more can come, because the enclosure is gone.
    pub(crate) fn over(&self) -> bool {
        self.lock().over
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
