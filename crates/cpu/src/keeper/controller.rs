//! Shares of work: how much of the core nodes get while it is slower than the reference, or while others have a part of
//! it. Pure: measurements in, the fraction of the core's burner out.
//!
//! All nodes together have `sold` of the core and the core's burner has `slack`, so they divide what is *available*
//! of the core's time (a, less than 1 by what is stolen, by interrupts and by other programs) as
//! `share / (sold + slack)` each. For a node to have `share × m` of the core, `slack` must be `a / m - sold`. What a
//! node is owed is `m = 1 + gain × (reference / speed - 1)`, linear in the time that a chunk of the yardstick takes.
//!
//! It cannot run away. Nothing that it measures depends on what it does: the speed is that of chunks that were left
//! alone, and `a` is the CPU time of all groups together, however they divide it. What it does with them is bounded.

use scale::{RealDuration, RealInstant};
use serde::{Deserialize, Serialize};

use crate::{CoreWork, Pace, Speed};

/// The time over which the speed is smoothed. In 20 ms the burner may have had one slice.
const SPEED_OVER: RealDuration = RealDuration::from_nanos(100_000_000);
/// The time over which the available fraction is: the kernel adds a slice to its counters when it is over, so that a
/// measurement is wrong by a slice at each end. What is stolen in a few milliseconds is given back within this time.
const AVAILABLE_OVER: RealDuration = RealDuration::from_nanos(400_000_000);

/// Speeds at which a core has never been seen beside its reference: outside of it the measurement is wrong.
const SANE: std::ops::RangeInclusive<f64> = 0.25..=10.0;
/// The bounds of what is owed, whatever was measured.
const OWED: std::ops::RangeInclusive<f64> = 0.5..=4.0;
/// Less than this fraction of the core left for the run cannot be made up for.
const LEAST_AVAILABLE: f64 = 0.2;
/// There is no more than all of it; but to clip its noise at 1 would be to believe too little on average.
const MOST_AVAILABLE: f64 = 1.02;
/// The burner keeps this fraction of the core if it has it, so that there is always a meter.
const FOR_THE_METER: f64 = 0.01;
/// Changes of shares by less than this are not worth a write, which interrupts the core.
const WORTH_IT: f64 = 0.002;

/// A measurement of the core, since the one before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measurement {
    /// Its end.
    pub at: RealInstant,
    /// The core's speed, if enough chunks were done.
    pub speed: Option<Speed>,
    /// CPU time that all groups had together, if it could be read.
    pub available: Option<RealDuration>,
}

/// How much of a core there is, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Room {
    /// η, as it was measured when the limits were applied.
    pub usable: f64,
    /// The sum of all nodes' shares.
    pub sold: f64,
    /// The largest fraction that the burner can be given.
    pub largest: f64,
}

/// The books of one core, and from the moment that shares of work are kept also what keeps them.
#[derive(Clone, Debug)]
pub(crate) struct Controller {
    last: RealInstant,
    books: Books,
    /// Microseconds for a round of the yardstick, smoothed; none before the first window that could be measured.
    round: Option<f64>,
    keeping: Option<Keeping>,
}

#[derive(Clone, Debug)]
struct Keeping {
    pace: Pace,
    room: Room,
    /// The fraction of the core that all groups have together, smoothed.
    available: f64,
    /// The fraction of the burner.
    slack: f64,
}

/// [`CoreWork`] as it grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Books {
    pub at: RealInstant,
    pub metered_ns: f64,
    pub units: f64,
    pub owed_ns: f64,
    pub wanted_ns: f64,
    pub capped_ns: f64,
    pub available_ns: f64,
    /// By how much the next three grow per ns until the next window.
    pub owed: f64,
    pub wanted: f64,
    pub capped: f64,
}

impl Books {
    fn open(at: RealInstant) -> Books {
        let [metered_ns, units, owed_ns, wanted_ns, capped_ns, available_ns] = [0.0; 6];
        let (owed, wanted, capped) = (1.0, 1.0, 0.0);
        Books { at, metered_ns, units, owed_ns, wanted_ns, capped_ns, available_ns, owed, wanted, capped }
    }

    /// The books at `now`, not before they were last written.
    fn on(self, now: RealInstant) -> Books {
        let ns = now.since(self.at).as_nanos() as f64;
        Books {
            at: self.at + now.since(self.at),
            owed_ns: self.owed_ns + ns * self.owed,
            wanted_ns: self.wanted_ns + ns * self.wanted,
            capped_ns: self.capped_ns + ns * self.capped,
            ..self
        }
    }

    /// The counters at `now`. What is owed does not wait for the next window, since the weights hold until then.
    pub fn work(self, now: RealInstant) -> CoreWork {
        let books = self.on(now);
        CoreWork {
            at: books.at,
            metered_ns: books.metered_ns as u64,
            units: books.units as u64,
            owed_ns: books.owed_ns as u64,
            wanted_ns: books.wanted_ns as u64,
            capped_ns: books.capped_ns as u64,
            available_ns: books.available_ns as u64,
        }
    }
}

impl Controller {
    /// Opens the books, with shares of time.
    pub fn new(at: RealInstant) -> Controller {
        Controller { last: at, books: Books::open(at), round: None, keeping: None }
    }

    /// Switches to shares of work, with the slack at what is usable and not sold.
    pub fn keep(&mut self, pace: Pace, room: Room) {
        let slack = room.usable - room.sold;
        let keeping = Keeping { pace, room, available: room.usable, slack };
        self.round = self.round.filter(|round| keeping.believes(*round));
        self.keeping = Some(keeping);
    }

    /// Gives the books.
    pub fn books(&self) -> Books {
        self.books
    }

    /// Takes in a measurement; gives the fraction of the core that the burner is to have now, if that is to be changed.
    pub fn step(&mut self, window: Measurement) -> Option<f64> {
        let length = window.at.since(self.last);
        if length == RealDuration::ZERO {
            return None;
        }
        self.last = window.at;
        let books = &mut self.books;
        *books = books.on(window.at);
        let ns = length.as_nanos() as f64;
        if let Some(speed) = window.speed {
            books.metered_ns += ns;
            books.units += speed.units_per_us() * ns / 1e3;
        }
        // More than the time that went by is a slice of the time before.
        let available = window.available.map(|had| had.as_nanos() as f64);
        books.available_ns += available.unwrap_or(0.0);
        let round = window.speed.map(|speed| 1.0 / speed.units_per_us());
        if let Some(round) = round.filter(|round| self.keeping.as_ref().is_none_or(|k| k.believes(*round))) {
            self.round = Some(smoothed(self.round.unwrap_or(round), round, length, SPEED_OVER));
        }
        let keeping = self.keeping.as_mut()?;
        keeping.take_in(length, available.map(|had| had / ns));
        let wanted = keeping.wanted(self.round);
        let slack = keeping.slack_for(wanted);
        let given = keeping.available() / (keeping.room.sold + slack);
        // Rounding is no cap.
        let capped = given < wanted * (1.0 - 1e-9);
        (books.owed, books.wanted) = if capped { (given, wanted) } else { (wanted, wanted) };
        books.capped = f64::from(u8::from(capped));
        let sold = keeping.room.sold;
        let change = ((sold + slack) / (sold + keeping.slack) - 1.0).abs();
        (change > WORTH_IT).then(|| {
            keeping.slack = slack;
            slack
        })
    }
}

impl Keeping {
    /// How much slower than the reference a core is on which a round takes so many microseconds.
    fn slowness(&self, round: f64) -> f64 {
        round * self.pace.reference.units_per_us()
    }

    fn believes(&self, round: f64) -> bool {
        SANE.contains(&self.slowness(round))
    }

    fn take_in(&mut self, length: RealDuration, available: Option<f64>) {
        if let Some(now) = available.filter(|a| a.is_finite()) {
            // A slice too many in one measurement is one too few in the next: clipping it here would be a bias.
            self.available = smoothed(self.available, now.clamp(0.0, 2.0), length, AVAILABLE_OVER);
        }
    }

    fn available(&self) -> f64 {
        self.available.clamp(LEAST_AVAILABLE, MOST_AVAILABLE)
    }

    /// The time that nodes are owed, per share of time.
    fn wanted(&self, round: Option<f64>) -> f64 {
        let slowness = round.map_or(1.0, |round| self.slowness(round));
        (1.0 + self.pace.gain * (slowness - 1.0)).clamp(*OWED.start(), *OWED.end())
    }

    fn slack_for(&self, owed: f64) -> f64 {
        let least = FOR_THE_METER.min((self.room.usable - self.room.sold).max(0.0));
        (self.available() / owed - self.room.sold).clamp(least, self.room.largest)
    }
}

/// An exponential average over `over` of what was `before` and is `now`, `length` later.
fn smoothed(before: f64, now: f64, length: RealDuration, over: RealDuration) -> f64 {
    let weight = 1.0 - (-length.as_secs_f64() / over.as_secs_f64()).exp();
    before + weight * (now - before)
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;
