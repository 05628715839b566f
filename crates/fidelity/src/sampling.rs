//! How much of a statistic is chance: what another run of the same length would show if nothing else differed.
//!
//! Samples of a run are no independent draws: a queue that is long for one request is long for the next. So whole
//! blocks of successive samples are drawn again, with replacement (the circular block bootstrap: Politis and Romano, *A
//! Circular Block-Resampling Procedure for Stationary Data*, 1992), and the statistic's spread over many such draws is
//! taken for its spread over runs.
//!
//! A quantile's interval is that of the part of the samples below it, read off the samples themselves (Woodruff,
//! *Confidence Intervals for Medians and Other Position Measures*, 1952): so it never needs a density, and all
//! statistics are means of a series, of which a draw costs one addition a block.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use record::{Intervals, Sample, Samples};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::compare::Statistic;
use crate::statistics::quantile;

/// How many times the blocks are drawn.
const DRAWS: usize = 1000;
/// The seed of resampling: fixed, so that equal samples have equal intervals, whoever asks.
const SEED: u64 = 0x64_69_6f_72_61_6d_61;
/// A block is at least so many samples,
const SHORTEST_BLOCK: usize = 5;
/// and there are at least so many blocks.
const FEWEST_BLOCKS: usize = 8;
/// An interval is so much of all that may be.
pub const COVERAGE: f64 = 0.95;

/// From how many samples on the interval of a statistic is stated: ten beyond a quantile.
pub fn least_samples(statistic: Statistic) -> usize {
    match statistic {
        Statistic::Mean | Statistic::P50 => 10,
        Statistic::P90 => 100,
        Statistic::P99 => 1000,
    }
}

/// The values of samples in the order of virtual time; those that have none stay in the order in which they came.
pub fn in_time(samples: &[Sample]) -> Vec<f64> {
    let mut order: Vec<&Sample> = samples.iter().collect();
    let at = |s: &Sample| s.virtual_s.unwrap_or(f64::NEG_INFINITY);
    order.sort_by(|a, b| at(a).total_cmp(&at(b)));
    order.into_iter().map(|s| s.value).collect()
}

/// Between which values each statistic of a series, in the order of time, lies in 95 of 100 runs like it.
pub fn intervals(series: &[f64]) -> Intervals {
    let Ok(sorted) = Samples::new(series.to_vec()) else { return Intervals::default() };
    let of = |statistic: Statistic| {
        if series.len() < least_samples(statistic) {
            return None;
        }
        let level = match statistic {
            Statistic::Mean => return mean(series),
            Statistic::P50 => 0.5,
            Statistic::P90 => 0.9,
            Statistic::P99 => 0.99,
        };
        let value = quantile(&sorted, level)?;
        let below: Vec<f64> = series.iter().map(|v| below(*v, value)).collect();
        let [low, high] = mean(&below)?;
        // The part below a quantile is not exactly its level, where samples are few or alike.
        let part = below.iter().sum::<f64>() / below.len() as f64;
        let ends = [low, high].map(|end| (level + end - part).clamp(0.0, 1.0));
        Some([quantile(&sorted, ends[0])?, quantile(&sorted, ends[1])?])
    };
    let [mean, p50, p90, p99] = Statistic::ALL.map(of);
    Intervals { mean, p50, p90, p99 }
}

/// 1 below a quantile, 0 above it, and a half at it.
fn below(value: f64, quantile: f64) -> f64 {
    match value.total_cmp(&quantile) {
        std::cmp::Ordering::Less => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Greater => 0.0,
    }
}

/// By how many per cent a number of events that happened at `times` (s), in a run from … to … s, would be smaller or
/// larger in another run. `None`: too few to say.
pub fn of_count(times: &[f64], window: [f64; 2]) -> Option<[f64; 2]> {
    let [from, to] = since_the_first(times, window);
    let events = times.iter().filter(|at| (from..to).contains(at)).count();
    let bins = (events / 10).clamp(10, 200);
    if events < 4 * bins || to <= from {
        return None;
    }
    let mut counts = vec![0.0; bins];
    for at in times.iter().filter(|at| (from..to).contains(at)) {
        counts[(((at - from) / (to - from) * bins as f64) as usize).min(bins - 1)] += 1.0;
    }
    let middle = events as f64 / bins as f64;
    mean(&counts).map(|ends| ends.map(|end| 100.0 * (end / middle - 1.0)))
}

/// Users that begin late begin late in each run: what is before the first event is not chance.
fn since_the_first(times: &[f64], [from, to]: [f64; 2]) -> [f64; 2] {
    let first = times.iter().copied().filter(|at| *at >= from).fold(f64::INFINITY, f64::min);
    if first < to { [first, to] } else { [from, to] }
}

/// An operation: when it began, and how long it took, s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Its beginning.
    pub at: f64,
    /// Its length.
    pub took: f64,
}

/// The interval of operations that began from … to … s where whoever ends one begins the next at once: then the time of
/// an operation decides how many there are (Little, *A Proof for the Queuing Formula L = λW*, 1961), and users in step
/// with each other, whose operations begin and end in waves, do not make their number less certain. `None`: it is not
/// such a loop, or there are too few operations to say.
pub fn of_closed_loop(spans: &[Span], window: [f64; 2]) -> Option<[f64; 2]> {
    let [from, to] = since_the_first(&spans.iter().map(|s| s.at).collect::<Vec<_>>(), window);
    let longest = spans.iter().map(|s| s.took).fold(0.0, f64::max);
    // Operations begun before are not among them, and may still be going on; and not all users begin at once.
    let known = from + longest;
    if spans.len() < least_samples(Statistic::Mean) || to - known < (to - from) / 2.0 {
        return None;
    }
    let mut events: Vec<(f64, f64)> = spans.iter().flat_map(|s| [(s.at, 1.0), (s.at + s.took, -1.0)]).collect();
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut going_on, mut since) = (0.0, known);
    let (mut mean, mut square) = (0.0, 0.0);
    for (at, change) in events.into_iter().chain([(to, 0.0)]) {
        let lasted = (at.min(to) - since).max(0.0) / (to - known);
        (mean, square) = (mean + lasted * going_on, square + lasted * going_on * going_on);
        (going_on, since) = (going_on + change, since.max(at));
    }
    // 1 where operations come by chance (M/G/∞); in a loop, the part of the time between one and the next.
    let dispersion = (square - mean * mean) / mean;
    if dispersion.is_nan() || dispersion > MOST_BETWEEN {
        return None;
    }
    let mut in_order = spans.to_vec();
    in_order.sort_by(|a, b| a.at.total_cmp(&b.at));
    let times: Vec<f64> = in_order.iter().map(|s| s.took).collect();
    let middle = times.iter().sum::<f64>() / times.len() as f64;
    let [low, high] = self::mean(&times)?;
    (low > 0.0).then(|| [high, low].map(|time| 100.0 * (middle / time - 1.0)))
}

/// Up to this dispersion of the number of operations that go on, they are a loop's.
const MOST_BETWEEN: f64 = 0.2;

/// Between which values the mean of a series lies in 95 of 100 runs; `None` if there is nothing to draw from.
pub fn mean(series: &[f64]) -> Option<[f64; 2]> {
    let n = series.len();
    if n < 2 {
        return None;
    }
    let middle = series.iter().sum::<f64>() / n as f64;
    // Sums of deviations up to each sample, the series twice over: a block that begins at the end goes on at the start.
    let mut sums = Vec::with_capacity(2 * n + 1);
    let mut sum = 0.0;
    sums.push(sum);
    for value in series.iter().chain(series) {
        sum += value - middle;
        sums.push(sum);
    }
    let block = block_length(&sums, n);
    let blocks = n / block;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut draw = || {
        let drawn = (0..blocks).map(|_| {
            let start = random.random_range(0..n);
            sums[start + block] - sums[start]
        });
        drawn.sum::<f64>() / (blocks * block) as f64
    };
    let mut drawn: Vec<f64> = (0..DRAWS).map(|_| draw()).collect();
    drawn.sort_unstable_by(f64::total_cmp);
    let outside = (1.0 - COVERAGE) / 2.0;
    let at = |part: f64| drawn[((part * DRAWS as f64) as usize).min(DRAWS - 1)];
    let wider = few_blocks(blocks);
    Some([middle + wider * at(outside), middle + wider * at(1.0 - outside)])
}

/// How many samples a block has: about the root of all of them, as many as make it several times as long as neighbours
/// are alike, and no more than leave [`FEWEST_BLOCKS`].
///
/// How long that is, is told by how much more the sums of blocks vary than those of independent samples would: so many
/// samples are worth one.
fn block_length(sums: &[f64], n: usize) -> usize {
    let longest = (n / FEWEST_BLOCKS).max(1);
    let first = ((n as f64).sqrt().round() as usize).max(SHORTEST_BLOCK).min(longest);
    let variance = |block: usize| {
        (0..n).map(|start| (sums[start + block] - sums[start]).powi(2)).sum::<f64>() / (n * block) as f64
    };
    let alone = variance(1);
    if alone <= 0.0 {
        return first;
    }
    let worth_one = variance(first) / alone;
    ((ALIKE * worth_one) as usize).clamp(first, longest)
}

/// A block is so many times as long as the stretch of samples that is worth one.
const ALIKE: f64 = 6.0;

/// By how much few blocks vary less among themselves than runs do: Student's distribution in place of the normal one.
fn few_blocks(blocks: usize) -> f64 {
    if blocks < 2 {
        return 1.0;
    }
    let part = 1.0 - (1.0 - COVERAGE) / 2.0;
    let normal = Normal::standard().inverse_cdf(part);
    let freedom = (blocks - 1) as f64;
    let student = StudentsT::new(0.0, 1.0, freedom).map_or(normal, |t| t.inverse_cdf(part));
    student / normal * (blocks as f64 / freedom).sqrt()
}

#[cfg(test)]
#[path = "sampling_tests.rs"]
mod tests;
