//! DiskCounters of a node's disk.

use scale::VirtualDuration;
use serde::{Deserialize, Serialize};

/// Requests to a disk, and how they were answered, since virtual zero. All of it only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskCounters {
    /// Reads.
    pub reads: Answered,
    /// Writes.
    pub writes: Answered,
    /// Flushes.
    pub flushes: Answered,
    /// Ranges that were trimmed.
    pub trims: Answered,
    /// The requests under way, summed over time.
    pub queued: VirtualDuration,
    /// For how long there was at least one.
    pub busy: VirtualDuration,
    /// The most that a request was answered too late.
    pub latest: VirtualDuration,
    /// How many were answered by how much too late: up to 1 µs, √2 µs, 2 µs, 2√2 µs, … of virtual time, and the last
    /// beyond that.
    pub lateness: [u64; 32],
    /// Requests that could not be done.
    pub failed: u64,
}

/// How requests of one kind were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long they took by the model, together.
    pub took: VirtualDuration,
    /// Those that were not done when their model said so.
    pub late: u64,
    /// By how much these were answered too late, together.
    pub late_by: VirtualDuration,
    /// By how much all others were, together: whoever answers woke up late.
    pub behind: VirtualDuration,
}

impl Answered {
    /// How long they took, together, from their arrival to their answer.
    pub fn lasted(&self) -> VirtualDuration {
        self.took + self.late_by + self.behind
    }
}

impl DiskCounters {
    /// Each kind of requests.
    pub fn kinds(&self) -> [&Answered; 4] {
        [&self.reads, &self.writes, &self.flushes, &self.trims]
    }

    /// The sum of something over all kinds of requests.
    pub fn all(&self, of: impl Fn(&Answered) -> u64) -> u64 {
        self.kinds().into_iter().map(of).sum()
    }
}

/// How late those at most are that are counted in a place of [`DiskCounters::lateness`]; the last has no such limit.
pub fn lateness_limit(place: usize) -> VirtualDuration {
    VirtualDuration::from_secs_f64(1e-6 * 2f64.powf(place as f64 / 2.0))
}
