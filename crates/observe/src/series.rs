//! Counts of steps, interval by interval, from what had been counted in all at the end of each. Pure.

use std::collections::BTreeMap;

use scale::VirtualInstant;

/// The most intervals that are kept: of more, each two become one. So a record is bounded, however long the run.
const MOST: usize = 64;

/// A step of a program: its number, and those of two calls.
pub(crate) type StepKey = (u32, u16, u16);

/// Counts by interval.
#[derive(Debug, Default)]
pub(crate) struct Series {
    ends: Vec<VirtualInstant>,
    steps: BTreeMap<StepKey, Counts>,
    /// How many looks are one interval by now, and how many there have been since the last.
    looks: [u32; 2],
}

#[derive(Debug, Default)]
struct Counts {
    before: u64,
    by_interval: Vec<u64>,
}

impl Series {
    /// Adds what has been counted until `at`; the last time whatever the length of the interval.
    pub fn push(&mut self, at: VirtualInstant, counted: impl IntoIterator<Item = (StepKey, u64)>, is_last: bool) {
        let [each, since] = &mut self.looks;
        *each = (*each).max(1);
        *since += 1;
        if *since < *each && !is_last {
            return;
        }
        *since = 0;
        let place = self.ends.len();
        self.ends.push(at);
        for (key, count) in counted {
            let counts = self.steps.entry(key).or_default();
            counts.by_interval.resize(place, 0);
            counts.by_interval.push(count.saturating_sub(counts.before));
            counts.before = count;
        }
        if self.ends.len() > MOST {
            self.looks[0] *= 2;
            self.ends = halves(&self.ends, |pair| pair[pair.len() - 1]);
            for counts in self.steps.values_mut() {
                counts.by_interval = halves(&counts.by_interval, |pair| pair.iter().sum());
            }
        }
    }

    /// The ends of the intervals.
    pub fn ends(&self) -> &[VirtualInstant] {
        &self.ends
    }

    /// The steps of a program, and the counts of each for all intervals.
    pub fn of(&self, program: u32) -> impl Iterator<Item = ([u16; 2], Vec<u64>)> {
        let steps = self.steps.range((program, 0, 0)..=(program, u16::MAX, u16::MAX));
        steps.map(|((_, from, to), counts)| {
            let mut counts = counts.by_interval.clone();
            counts.resize(self.ends.len(), 0);
            ([*from, *to], counts)
        })
    }
}

fn halves<T>(all: &[T], one: impl Fn(&[T]) -> T) -> Vec<T> {
    all.chunks(2).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> VirtualInstant {
        VirtualInstant::from_nanos(s * 1_000_000_000)
    }

    #[test]
    fn an_interval_has_what_was_counted_in_it() {
        let mut series = Series::default();
        series.push(at(1), [((1, 0, 1), 5)], false);
        series.push(at(2), [((1, 0, 1), 7), ((1, 1, 0), 4), ((2, 3, 3), 1)], false);
        series.push(at(3), [((1, 0, 1), 7), ((1, 1, 0), 9)], true);
        assert_eq!(series.ends(), [1, 2, 3].map(at));
        let of_first: Vec<_> = series.of(1).collect();
        assert_eq!(of_first, [([0, 1], vec![5, 2, 0]), ([1, 0], vec![0, 4, 5])]);
        assert_eq!(series.of(2).collect::<Vec<_>>(), [([3, 3], vec![0, 1, 0])]);
    }

    #[test]
    fn a_long_series_has_longer_intervals_and_loses_nothing() {
        let mut series = Series::default();
        for s in 1..=1_000 {
            series.push(at(s), [((1, 0, 1), 3 * s)], s == 1_000);
        }
        let (ends, (_, counts)) = (series.ends(), series.of(1).next().unwrap());
        assert!(ends.len() <= MOST && ends.len() > MOST / 4, "{}", ends.len());
        assert_eq!((ends.last(), counts.iter().sum::<u64>()), (Some(&at(1_000)), 3_000));
        let mut before = 0;
        for (end, count) in ends.iter().zip(&counts) {
            let seconds = end.as_nanos() / 1_000_000_000;
            assert_eq!(*count, 3 * (seconds - before), "until {seconds} s");
            before = seconds;
        }
    }
}
