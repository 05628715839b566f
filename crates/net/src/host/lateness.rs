//! How late frames were handed to their nodes: over the whole run, and second by second so that a breach has a date.

use hdrhistogram::Histogram;
use scale::{RealDuration, RealInstant};
use serde::{Deserialize, Serialize};

/// Ten seconds: what is later than that is recorded as that.
const LONGEST: u64 = 10_000_000_000;
const SECOND: RealDuration = RealDuration::from_nanos(1_000_000_000);

/// Actual instant of delivery minus computed instant, of every frame delivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// All frames since the start, in real nanoseconds, to two significant digits.
    #[serde(with = "crate::host::histogram")]
    pub all: Histogram<u64>,
    /// For every frame that a node sent, the longest that it can have waited before it was seen: it enters the network
    /// that much late, and no computed time shows it.
    #[serde(with = "crate::host::histogram")]
    pub unseen: Histogram<u64>,
    /// Each real second in which anything happened; the last one may still be running.
    pub seconds: Vec<LatenessSecond>,
}

/// One real second of the emulator's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatenessSecond {
    /// When it began.
    pub start: RealInstant,
    /// Frames delivered in it.
    pub frames: u64,
    /// The lateness that 99.9 % of them kept within.
    pub p999: RealDuration,
    /// The lateness of the latest.
    pub max: RealDuration,
    /// The longest time for which the emulator, awake, did not look whether a node had sent something: such a frame
    /// enters the network late, and no computed time shows it.
    pub longest_inattention: RealDuration,
}

/// For times in real nanoseconds, to two significant digits.
pub(crate) fn nanoseconds() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 2).expect("the bounds are valid")
}

/// Collects the record; one histogram for all, one that is emptied every second.
#[derive(Debug)]
pub(crate) struct Recorder {
    all: Histogram<u64>,
    current: Histogram<u64>,
    unseen: Histogram<u64>,
    start: RealInstant,
    inattention: RealDuration,
    seconds: Vec<LatenessSecond>,
}

impl Recorder {
    pub fn new(now: RealInstant) -> Self {
        Recorder {
            all: nanoseconds(),
            current: nanoseconds(),
            unseen: nanoseconds(),
            start: now,
            inattention: RealDuration::ZERO,
            seconds: Vec::new(),
        }
    }

    /// A frame due at `due` is delivered at `now`.
    pub fn delivered(&mut self, now: RealInstant, due: RealInstant) {
        self.turn(now);
        let late = now.since(due).as_nanos();
        self.all.saturating_record(late);
        self.current.saturating_record(late);
    }

    /// A frame is seen that may have been there for as long as `gap`.
    pub fn seen(&mut self, gap: RealDuration) {
        self.unseen.saturating_record(gap.as_nanos());
    }

    /// At `now`, the emulator looks at the ports again after `gap`.
    pub fn looked(&mut self, now: RealInstant, gap: RealDuration) {
        self.turn(now);
        self.inattention = self.inattention.max(gap);
    }

    fn turn(&mut self, now: RealInstant) {
        let since = now.since(self.start);
        if since < SECOND {
            return;
        }
        self.seconds.extend(self.running());
        self.current.reset();
        self.inattention = RealDuration::ZERO;
        self.start = self.start + RealDuration::from_nanos(since.as_nanos() / SECOND.as_nanos() * SECOND.as_nanos());
    }

    fn running(&self) -> Option<LatenessSecond> {
        let second = LatenessSecond {
            start: self.start,
            frames: self.current.len(),
            p999: RealDuration::from_nanos(self.current.value_at_quantile(0.999)),
            max: RealDuration::from_nanos(self.current.max()),
            longest_inattention: self.inattention,
        };
        (second.frames > 0 || second.longest_inattention > RealDuration::ZERO).then_some(second)
    }

    pub fn record(&self) -> Lateness {
        Lateness {
            all: self.all.clone(),
            unseen: self.unseen.clone(),
            seconds: self.seconds.iter().copied().chain(self.running()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_own_quantiles_and_empty_ones_are_left_out() {
        let at = |ms: u64| RealInstant::from_nanos(5_000_000_000 + ms * 1_000_000);
        let mut r = Recorder::new(at(0));
        r.delivered(at(100), at(99));
        r.delivered(at(900), at(900));
        r.delivered(at(3500), at(3450));
        r.looked(at(3600), RealDuration::from_nanos(7));
        let record = r.record();
        assert_eq!(record.all.len(), 3);
        let [first, second] = record.seconds[..] else { panic!("{:?}", record.seconds) };
        assert_eq!((first.start, first.frames), (at(0), 2));
        assert!(first.max.as_nanos().abs_diff(1_000_000) <= 10_000, "{}", first.max);
        assert_eq!((second.start, second.frames, second.longest_inattention.as_nanos()), (at(3000), 1, 7));
        assert!(second.p999.as_nanos().abs_diff(50_000_000) <= 500_000, "{}", second.p999);
    }
}
