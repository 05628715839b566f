//! How values are spread, in bounded memory: counts by classes that are a 32nd of a power of two wide.

use counters::Spread;

/// Classes for each power of two: a value is known within a 64th.
const CLASSES: u64 = 32;
const BITS: u32 = CLASSES.trailing_zeros();

/// Counts of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    least: u64,
    most: u64,
    /// By class, in ascending order.
    counts: Vec<(u16, u32)>,
}

impl Values {
    pub fn add(&mut self, value: u64) {
        if self.counts.is_empty() {
            (self.least, self.most) = (value, value);
        }
        (self.least, self.most) = (self.least.min(value), self.most.max(value));
        let class = class(value);
        match self.counts.binary_search_by_key(&class, |(class, _)| *class) {
            Ok(at) => self.counts[at].1 = self.counts[at].1.saturating_add(1),
            Err(at) => self.counts.insert(at, (class, 1)),
        }
    }

    /// Their quantiles; `None` if there are none.
    pub fn spread(&self) -> Option<Spread> {
        let n: u64 = self.counts.iter().map(|(_, count)| u64::from(*count)).sum();
        let rank = |percent: u64| (n * percent).div_ceil(100).max(1);
        (n > 0).then(|| Spread {
            n,
            least: self.least,
            median: self.at(rank(50)),
            p99: self.at(rank(99)),
            most: self.most,
        })
    }

    /// The value number `rank`, counted from 1.
    fn at(&self, rank: u64) -> u64 {
        let mut seen = 0;
        let found = self.counts.iter().find(|(_, count)| {
            seen += u64::from(*count);
            seen >= rank
        });
        found.map_or(self.most, |(class, _)| middle(*class).clamp(self.least, self.most))
    }
}

fn class(value: u64) -> u16 {
    match value.checked_ilog2() {
        Some(power) if power >= BITS => {
            let shift = power - BITS;
            (u64::from(shift + 1) * CLASSES + (value >> shift) % CLASSES) as u16
        }
        _ => value as u16,
    }
}

/// The middle of a class.
fn middle(class: u16) -> u64 {
    let class = u64::from(class);
    match class.checked_sub(CLASSES) {
        None => class,
        Some(above) => {
            let shift = above / CLASSES;
            let low = (CLASSES + above % CLASSES) << shift;
            low + ((1 << shift) >> 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_known_within_a_64th() {
        for value in (0..200).chain((0..61).flat_map(|bit| [1u64 << bit, (1 << bit) + 1, (1 << bit) * 7 / 5])) {
            let (told, off) = (middle(class(value)), value / 64);
            assert!(told.abs_diff(value) <= off, "{value} is told as {told}");
        }
        assert_eq!(middle(class(u64::MAX)) >> 58, u64::MAX >> 58);
    }

    #[test]
    fn least_and_most_are_exact_and_the_middle_is_near() {
        let mut values = Values::default();
        assert_eq!(values.spread(), None);
        (1..=1_000u64).for_each(|n| values.add(n * 1_003));
        let spread = values.spread().unwrap();
        assert_eq!((spread.n, spread.least, spread.most), (1_000, 1_003, 1_003_000));
        assert!(spread.median.abs_diff(501_500) < 501_500 / 64 && spread.p99.abs_diff(992_970) < 992_970 / 64);
        let mut one = Values::default();
        one.add(5_000_001);
        assert_eq!(one.spread().unwrap().median, 5_000_001, "a single value is told as it is");
    }
}
