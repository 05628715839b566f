//! What waiting for turns adds to the times of operations.
//!
//! Times are waits and something else, and only their sums are known. By how much the waits move a percentile depends
//! on how far times are spread by themselves: where all are alike, by that percentile of the waits; where they are
//! spread much further than waits are, by the mean wait. So the waits, whose distribution is known, are taken out of
//! the times: what is found is that to which waits must be added so that the times come out. (Each step adds the waits
//! to a guess, and moves each percentile of the guess by what came out too high: van Cittert's iteration, of quantiles
//! in place of densities, which keeps every guess a distribution.)

use scale::Turns;

use crate::statistics::{at, thinned};

/// Waits for the turns of a node at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wait {
    /// How long one may be, virtual s; of those that there are any is as likely as another.
    pub most: f64,
    /// How often there is one: who comes in its own turn waits for nothing. 0 to 1.
    pub chance: f64,
}

/// The waits of an operation: for its turns at a node of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waits(pub [Wait; Turns::KINDS]);

/// What waits do to a percentile, virtual s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The percentile.
    pub of: f64,
    /// How much of it is due to the waits.
    pub by: f64,
}

/// How finely a distribution is told: values in ascending order, each as likely as another.
const VALUES: usize = 48;
/// Steps after which percentiles hardly move: what waits do to a distribution is found to a tenth, wherever it lies.
const STEPS: usize = 8;
/// With fewer times than that nobody can say how far they are spread.
const ENOUGH: usize = 20;

impl Wait {
    /// Its mean, virtual s.
    pub fn mean(&self) -> f64 {
        self.most / 2.0 * self.chance
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let rank = |i: usize| (i as f64 + 0.5) / VALUES as f64;
        (0..VALUES).map(move |i| self.most * ((rank(i) + self.chance - 1.0) / self.chance.max(f64::EPSILON)).max(0.0))
    }
}

impl Waits {
    /// The mean of all together, virtual s.
    pub fn mean(&self) -> f64 {
        self.0.iter().map(Wait::mean).sum()
    }

    /// How long all together last at most in 99 of 100 cases, virtual s.
    pub fn late(&self) -> f64 {
        at(&self.values(), 0.99)
    }

    /// All together, in ascending order, each value as likely as another.
    fn values(&self) -> Vec<f64> {
        self.0.iter().fold(vec![0.0], |sum, wait| added(&sum, &wait.values().collect::<Vec<_>>()))
    }

    /// How much of the 90th and of the 99th percentile of these times, in ascending order, is due to the waits that are
    /// in them; no less than the mean wait. `None` if there are too few of them.
    pub fn in_tail(&self, times: &[f64]) -> Option<[Shift; 2]> {
        let waits = thinned(&self.values(), VALUES);
        let without = (times.len() >= ENOUGH).then(|| taken_out(times, &waits))?;
        let shift = |p| Shift { of: at(times, p), by: (at(times, p) - at(&without, p)).max(self.mean()) };
        Some([0.9, 0.99].map(shift))
    }
}

/// Sums of one of these and one of those.
fn added(these: &[f64], those: &[f64]) -> Vec<f64> {
    let mut sums: Vec<f64> = these.iter().flat_map(|one| those.iter().map(move |other| one + other)).collect();
    sums.sort_by(f64::total_cmp);
    sums
}

/// What must be added to one of `waits` so that these times come out, about.
fn taken_out(times: &[f64], waits: &[f64]) -> Vec<f64> {
    let most = waits.last().copied().unwrap_or(0.0);
    let mut guess = times.to_vec();
    for _ in 0..STEPS {
        let sums = thinned(&added(&guess, waits), times.len());
        for ((value, sum), time) in guess.iter_mut().zip(&sums).zip(times) {
            *value = (*value + time - sum).clamp(time - most, *time);
        }
        guess.sort_by(f64::total_cmp);
    }
    guess
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Waits = Waits([Wait { most: 1.0, chance: 1.0 }, Wait { most: 0.5, chance: 0.5 }]);

    fn spread(width: f64) -> Vec<f64> {
        (0..200).map(|i| 20.0 + width * (f64::from(i) + 0.5) / 200.0).collect()
    }

    #[test]
    fn several_waits_are_seldom_at_their_longest_together() {
        assert_eq!(TWO.mean(), 0.5 + 0.125);
        // (1.5 − x)² / (2 · 0.5) · 0.5 is a hundredth.
        assert!((TWO.late() - (1.5 - 0.02f64.sqrt())).abs() < 0.02, "{}", TWO.late());
        let one = Waits([Wait { most: 2.0, chance: 0.5 }, Wait::default()]);
        assert_eq!(one.mean(), 0.5);
        assert!((one.late() - 2.0 * 0.98).abs() < 0.05, "{}", one.late());
        assert_eq!((Waits::default().mean(), Waits::default().late()), (0.0, 0.0));
    }

    #[test]
    fn waits_move_a_percentile_by_no_more_than_their_own_and_less_where_times_are_spread() {
        let shift = |width: f64| {
            let alone = spread(width);
            let with = thinned(&added(&alone, &TWO.values()), alone.len());
            let is = at(&with, 0.9) - at(&alone, 0.9);
            let [p90, p99] = TWO.in_tail(&with).unwrap().map(|shift| shift.by);
            assert!(p99 <= 1.5, "{p99}");
            assert!((p90 / is.max(TWO.mean()) - 1.0).abs() < 0.1, "{width}: {p90}, and it is {is}");
            p90
        };
        let all = [0.0, 1.0, 4.0, 20.0].map(shift);
        assert!(all.is_sorted_by(|a, b| a >= b) && all[0] > 0.95 && all[3] < 0.7, "{all:?}");
        assert_eq!(TWO.in_tail(&spread(1.0)[..10]), None);
    }
}
