//! Counters of each pipe in each interval of a run: the series behind `metrics/pipes.csv`.
//!
//! Intervals end at computed instants, as everything in a pipe happens at one: neither the thread's lateness nor that
//! of whoever fetches the series moves them. A frame costs some nanoseconds, an interval a look at every pipe.

use scale::{RealDuration, RealInstant};
use serde::{Deserialize, Serialize};

use crate::links::counters::PipeCounters;
use crate::links::ids::PipeId;
use crate::links::pipe::gauge::Gauge;

/// One pipe in one interval. A pipe on which nothing happened has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PipeInterval {
    /// Which pipe; its name is at this place of [`Network::pipe_names`](crate::Network::pipe_names).
    pub pipe: PipeId,
    /// When the interval began.
    pub from: RealInstant,
    /// When it ended.
    pub to: RealInstant,
    /// The part of it, 0 to 1, in which the transmitter was busy; `None` for a pipe without a rate at its end.
    pub utilisation: Option<f64>,
    /// Packets that waited or were in transmission: the mean over the interval's time.
    pub queue_mean: f64,
    /// The most of them at any instant of it.
    pub queue_max: usize,
    /// By how much the pipe's counters grew.
    pub grew: PipeCounters,
}

/// The intervals of all pipes.
#[derive(Debug)]
pub(crate) struct Series {
    every: RealDuration,
    from: RealInstant,
    /// By pipe: its counters when the interval began.
    before: Vec<PipeCounters>,
    ready: Vec<PipeInterval>,
}

impl Series {
    /// Intervals of `every` from `from` on. The pipes' gauges must have been emptied then.
    pub fn new(from: RealInstant, every: RealDuration, counters: Vec<PipeCounters>) -> Self {
        let every = every.max(RealDuration::from_nanos(1));
        // Room that usually suffices until they are fetched: the real-time thread should not have to ask for it.
        let ready = Vec::with_capacity(counters.len() * 4);
        Series { every, from, before: counters, ready }
    }

    /// When the interval that is running began.
    pub fn begins(&self) -> RealInstant {
        self.from
    }

    /// When the interval that is running ends.
    pub fn ends(&self) -> RealInstant {
        self.from + self.every
    }

    /// Notes what pipe `index`, which has just been followed until `to`, did in the interval that ends there.
    pub fn note(&mut self, index: usize, to: RealInstant, pipe: (PipeCounters, &mut Gauge, usize), rated: bool) {
        let (counters, gauge, queued) = pipe;
        let (busy, queue_mean, queue_max) = gauge.take(queued, to.since(self.from));
        let grew = counters.since(&std::mem::replace(&mut self.before[index], counters));
        if grew != PipeCounters::default() || queue_max > 0 {
            let (pipe, utilisation) = (PipeId(index as u32), rated.then_some(busy));
            self.ready.push(PipeInterval { pipe, from: self.from, to, utilisation, queue_mean, queue_max, grew });
        }
    }

    /// Begins the next interval.
    pub fn turn(&mut self, at: RealInstant) {
        self.from = at;
    }

    /// Takes the intervals that have ended.
    pub fn take(&mut self) -> Vec<PipeInterval> {
        let room = Vec::with_capacity(self.ready.capacity());
        std::mem::replace(&mut self.ready, room)
    }
}
