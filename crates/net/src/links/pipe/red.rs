//! Random early detection: drops packets at random, more of them the longer the queue has been on average, so that
//! senders slow down before it is full.
//!
//! Floyd and Jacobson: *Random early detection gateways for congestion avoidance*, IEEE/ACM Transactions on Networking
//! 1(4), 1993; the algorithm is that of its figure 2, and names are the paper's.

use scale::link::{Limit, Red};

/// `p_b`: the probability of dropping at an average length, before the count since the last drop enters; `None`:
/// below the threshold.
fn pressure(red: &Red, average: f64) -> Option<f64> {
    let (min, max) = (red.min as f64, red.max as f64);
    if average < min {
        None
    } else if average < max {
        Some(red.max_p * (average - min) / (max - min))
    } else if red.gentle && average < 2.0 * max {
        Some(red.max_p + (1.0 - red.max_p) * (average - max) / max)
    } else {
        Some(1.0)
    }
}

/// State that a packet finds on arriving.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// This much in the queue, in the unit of the limit; at least something.
    Queued(f64),
    /// Nothing, while this many packets of the mean size could have been transmitted (the paper's `m`).
    Idle(f64),
}

/// Where a RED queue has got to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RedState {
    /// `avg`.
    average: f64,
    /// `count`: packets since the last drop, or −1 while the average is below the threshold.
    count: i64,
    /// The largest packet that can come, bytes.
    largest: usize,
}

impl RedState {
    pub const fn new(largest: usize) -> Self {
        RedState { average: 0.0, count: -1, largest }
    }

    /// The state in which it began.
    pub fn begin_again(&mut self) {
        *self = RedState::new(self.largest);
    }

    /// Whether a packet of `len` bytes is dropped on arriving; `chance`, in [0, 1), is asked for if it matters.
    pub fn drops(&mut self, red: &Red, found: Found, len: usize, chance: impl FnOnce() -> f64) -> bool {
        match found {
            Found::Queued(q) => self.average += red.weight * (q - self.average),
            Found::Idle(m) => self.average *= (1.0 - red.weight).powf(m),
        }
        let Some(mut p_b) = pressure(red, self.average) else {
            self.count = -1;
            return false;
        };
        if p_b >= 1.0 {
            self.count = 0;
            return true;
        }
        if matches!(red.limit, Limit::Bytes(_)) {
            // Section 4 of the paper: a queue in bytes drops packets in proportion to their size.
            p_b *= len as f64 / self.largest as f64;
        }
        self.count += 1;
        let spent = self.count as f64 * p_b;
        let p_a = if spent < 1.0 { p_b / (1.0 - spent) } else { 1.0 };
        let dropped = p_a > 0.0 && chance() < p_a;
        if dropped {
            self.count = 0;
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::pipe::draws::{Draws, Purpose};

    const RED: Red =
        Red { min: 5, max: 15, max_p: 0.1, weight: 0.002, limit: Limit::Packets(50), packet: 500, gentle: false };

    /// A state in which the average is this.
    fn at(average: f64) -> RedState {
        RedState { average, ..RedState::new(1514) }
    }

    fn never() -> f64 {
        panic!("no chance is needed")
    }

    #[test]
    fn the_average_follows_a_longer_queue_as_a_low_pass_filter_does() {
        // Section 6.1 of the paper: after L arrivals at which the queue grew from 1 to L, the average is
        // L + 1 + ((1 − w)^(L+1) − 1) / w.
        let mut state = RedState::new(1514);
        for l in 1..=80u32 {
            state.drops(&Red { min: 900, max: 999, ..RED }, Found::Queued(f64::from(l)), 500, never);
            let w = RED.weight;
            let expected = f64::from(l) + 1.0 + ((1.0 - w).powi(l as i32 + 1) - 1.0) / w;
            assert!((state.average - expected).abs() < 1e-9, "{l}: {} instead of {expected}", state.average);
        }
    }

    #[test]
    fn an_idle_time_counts_as_packets_that_found_nothing() {
        let (mut idle, mut small) = (at(4.0), at(4.0));
        idle.drops(&RED, Found::Idle(300.0), 500, never);
        for _ in 0..300 {
            small.drops(&RED, Found::Queued(0.0), 500, never);
        }
        assert!((idle.average - small.average).abs() < 1e-12 && idle.average < 2.2);
        idle.drops(&RED, Found::Idle(f64::INFINITY), 500, never);
        assert_eq!(idle.average, 0.0);
    }

    #[test]
    fn the_probability_grows_from_the_lower_threshold_to_the_upper_one() {
        let p = |average| pressure(&RED, average);
        assert_eq!((p(4.999), p(5.0), p(10.0)), (None, Some(0.0), Some(0.05)));
        assert!((p(14.999).unwrap() - 0.1).abs() < 1e-4);
        assert_eq!(p(15.0), Some(1.0));
        let gentle = |average| pressure(&Red { gentle: true, ..RED }, average).unwrap();
        assert_eq!((gentle(15.0), gentle(22.5), gentle(30.0)), (0.1, 0.55, 1.0));
        assert_eq!(gentle(10.0), 0.05);
    }

    #[test]
    fn above_the_upper_threshold_everything_is_dropped() {
        let mut state = at(15.5);
        assert!((0..100).all(|_| state.drops(&RED, Found::Queued(16.0), 500, never)));
        assert!(!at(1.0).drops(&RED, Found::Queued(16.0), 500, never));
    }

    /// How many packets lie between one drop and the next, while the average stays where it is.
    fn intervals(average: f64, len: usize, red: &Red, n: u64) -> Vec<u64> {
        let draws = Draws::new(1, "a--b/ab");
        let mut state = at(average);
        state.count = 0;
        let mut last = 0;
        let mut intervals = Vec::new();
        for i in 1..=n {
            if state.drops(red, Found::Queued(average), len, || draws.unit(Purpose::Red, i)) {
                intervals.push(i - last);
                last = i;
            }
        }
        intervals
    }

    #[test]
    fn drops_are_spread_evenly_and_not_in_clusters() {
        // Section 7: with p_a = p_b / (1 − count p_b) the interval is uniform; by the algorithm of figure 2, in which
        // the first packet after a drop already counts 1, on 1, 2, …, 1/p_b − 1.
        let all = intervals(10.0, 500, &RED, 1_000_000);
        let longest = 19;
        let mut counts = vec![0.0; longest + 1];
        all.iter().for_each(|i| counts[*i as usize] += 1.0);
        let expected = all.len() as f64 / longest as f64;
        let chi: f64 = counts[1..].iter().map(|c: &f64| (c - expected).powi(2) / expected).sum();
        // Chi-square with 18 degrees of freedom: above 42.3 once in a thousand seeds, and this one is fixed.
        assert!(chi < 42.3, "chi-square {chi}: {counts:?}");
        assert_eq!(counts[0], 0.0);
    }

    #[test]
    fn a_queue_in_bytes_drops_large_packets_more_often() {
        let bytes = Red { min: 5_000, max: 15_000, limit: Limit::Bytes(50_000), ..RED };
        let rate = |len| intervals(10e3, len, &bytes, 400_000).len() as f64;
        let ratio = rate(1514) / rate(757);
        assert!((1.95..2.05).contains(&ratio), "{ratio}");
    }

    #[test]
    fn falling_below_the_threshold_forgets_the_count() {
        let mut state = at(10.0);
        (0..5).for_each(|_| assert!(!state.drops(&RED, Found::Queued(10.0), 500, || 0.999)));
        assert_eq!(state.count, 4);
        state.drops(&RED, Found::Idle(1e6), 500, never);
        assert_eq!(state.count, -1);
    }
}
