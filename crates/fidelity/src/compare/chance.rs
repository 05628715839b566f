//! Chance: how often two are as far apart as was seen, if both are drawn from what both did.
//! (A bootstrap of blocks of time.)

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// Chances below it are told as no chance.
pub const NO_CHANCE: f64 = 0.01;
/// A chance needs so many intervals of each of the two in which something was counted.
const FEWEST_INTERVALS: usize = 4;
/// How many times intervals are drawn again.
const DRAWS: usize = 500;

/// In which part of draws `are_as_far` holds: from the intervals of both together, as many as each has are drawn with
/// replacement. `None` if one of them has too few.
pub(super) fn chance<T>(
    intervals: &[Vec<T>; 2],
    seed: u64,
    mut are_as_far: impl FnMut([&[&T]; 2]) -> bool,
) -> Option<f64> {
    if intervals.iter().any(|of| of.len() < FEWEST_INTERVALS) {
        return None;
    }
    let pooled: Vec<&T> = intervals.iter().flatten().collect();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut draw = |n: usize| (0..n).map(|_| pooled[random.random_range(0..pooled.len())]).collect::<Vec<_>>();
    let as_far = (0..DRAWS).filter(|_| {
        let [a, b] = [intervals[0].len(), intervals[1].len()].map(&mut draw);
        are_as_far([&a, &b])
    });
    Some(as_far.count() as f64 / DRAWS as f64)
}
