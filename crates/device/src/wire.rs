//! Messages of the engine to the process that serves disks, and its answers: a line of JSON each.

use std::path::PathBuf;

use counters::DiskCounters;
use host::Lack;
use scale::{RealDuration, RealInstant, Tdf};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::request_trace::Watched;
use crate::transport::Transport;

/// A disk that is to be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskSetup {
    /// Its name: fit for a file name, and no other disk's.
    pub name: String,
    /// Its model.
    pub parameters: disk::Parameters,
    /// For what it leaves to chance.
    pub seed: u64,
    /// Whether its power may be cut: what would be lost is kept in memory, as much as the drive's cache holds.
    pub may_lose_power: bool,
    /// Whether a flush is answered only when the file behind the disk is durable on the host, too.
    pub durable: bool,
    /// The number of the kernel's map that has the clock of its node, if that has one of its own.
    pub clock: Option<u32>,
}

/// Events of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Everything takes so many times as long as its model says; 1: as long as that.
    Slow(f64),
    /// It does nothing any more: every request fails.
    Fail,
    /// Its file system has no room any more, for nobody.
    Full,
    /// Its power is cut: what it has not made durable is lost, and every request fails.
    PowerOff,
    /// It has power again, and does everything at once.
    PowerOn,
    /// And takes its model's time again.
    Resume,
}

/// Losses of a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Writes that the disk had said to be complete, and that are not there, or not all of them.
    pub lost: u64,
    /// Their bytes, as far as they are not there.
    pub lost_bytes: u64,
    /// Writes that were under way.
    pub unfinished: u64,
}

/// Messages to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Make these disks, and keep what is written to them in this directory. The first order. If no transport is named,
    /// the best is taken that there is. Whoever uses them is on the core `asker`, or on one of several like it.
    Make { directory: PathBuf, disks: Vec<DiskSetup>, over: Option<Transport>, asker: Option<usize> },
    /// Let go of the devices: from now on each is there for as long as somebody else has it open or mounted. Not of
    /// those whose power may be cut, unless it is of all.
    LetGo { all: bool },
    /// Virtual time has begun, and with it the disks' own.
    Begin { zero: RealInstant, tdf: Tdf },
    /// Asks for the counters.
    Count,
    /// Something happens to a disk, by its place.
    Change { disk: usize, change: Change },
    /// From now on the disks take no time.
    Pass,
    /// Asks which requests a disk has had since this was last asked.
    Watch { disk: usize },
    /// From now on nothing is done: each request is answered as soon as it has come.
    Null,
}

/// Answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// The disks are there: their devices in order, how requests come, why not in a better way, and how long one is on
    /// its way to the process and back.
    Made { devices: Vec<PathBuf>, over: Transport, because: Option<String>, spent: RealDuration },
    /// It is done.
    Done,
    /// It is done: the power is cut.
    Cut(Cut),
    /// Counters of each disk, the CPU time that the process has used, and the first request that failed, if any.
    Counted { disks: Vec<DiskCounters>, cpu: RealDuration, failure: Option<String> },
    /// The requests.
    Watched(Vec<Watched>),
    /// It cannot be done.
    Failed(Failure),
}

/// Why not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Failure {
    Input(String),
    Machine(Lack),
    Other(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Input(what) => Failure::Input(what),
            Error::Machine(lack) => Failure::Machine(lack),
            other => Failure::Other(other.to_string()),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        match failure {
            Failure::Input(what) => Error::Input(what),
            Failure::Machine(lack) => Error::Machine(lack),
            Failure::Other(what) => Error::Server(what),
        }
    }
}
