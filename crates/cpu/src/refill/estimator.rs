//! How much a node loses at the start of its turns, from what it gets done in turns of different lengths.

use std::collections::VecDeque;

use scale::RealDuration;

use super::{Curve, Guess, RECOVERY_SPREAD, Refill};

/// What a node used and did while turns had one length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// How long turns were.
    pub turn: RealDuration,
    /// The node's CPU time.
    pub cpu: RealDuration,
    /// How fast the core was meanwhile, in any unit that is the same for both of a pair; 1 where it is not known.
    pub speed: f64,
    /// What the node got done, in any unit of which a second of CPU time makes about as many all the time: bytes
    /// through its ports, or instructions.
    pub progress: f64,
}

/// Pairs that are remembered at most, and how much less one counts than the one after it: what was done 70 pairs ago
/// counts half, so that a node that begins to do something else is believed.
const MEMORY: usize = 300;
const FORGETTING: f64 = 0.99;

/// Depths that are considered: below 0, so that chance errs to both sides; above 1, as the shape is not exact.
const DEPTHS: [f64; 2] = [-1.0, 1.25];

/// Before there are enough pairs to tell how much they scatter, this is added to what they show: so many pairs, each
/// off by this part of the largest possible.
const SCATTER_PAIRS: f64 = 2.0;
const SCATTER: f64 = 0.06;

/// Both observations of a pair, each with its [`Curve::part`] still to be had: turn length, CPU work, progress.
#[derive(Clone, Copy, Debug)]
struct Pair {
    turns: [RealDuration; 2],
    /// CPU time × speed.
    work: [f64; 2],
    /// Of the progress of both, the part in the second.
    second: f64,
    /// How much it says.
    weight: f64,
}

/// Estimates one node's refill.
///
/// **Method.** In a pair of neighbouring windows with turns of lengths L₁ and L₂ and CPU work C₁ and C₂, progress is
/// expected in the ratio C₁ (1 − d g(L₁)) : C₂ (1 − d g(L₂)), where g(L) = R(L)/L at depth 1; how much it is in all
/// does not matter, so a node may work fast in one minute and slowly in the next. Only the *part* of a pair's progress
/// that is in the second window is looked at (the conditional likelihood of two Poisson rates, which needs no rates).
/// It is between 0 and 1, so no pair, however odd, counts for more than its CPU time. d is where these parts, weighted
/// by CPU time, are on average as expected: a function that falls with d everywhere, so there is one solution. Its
/// error comes from how much the pairs scatter (a *sandwich*: White, *Maximum Likelihood Estimation of Misspecified
/// Models*, Econometrica 1982), not from a model of what requests are like. The guess from before counts by its own
/// error.
#[derive(Clone, Debug)]
pub struct Estimator {
    guess: Guess,
    /// The newest last.
    pairs: VecDeque<Pair>,
    seen: u32,
    /// Progress by work, of late: a window with little of it, for its CPU time, says little.
    pace: f64,
}

impl Estimator {
    /// Knows what was guessed.
    pub fn new(guess: Guess) -> Estimator {
        Estimator { guess, pairs: VecDeque::new(), seen: 0, pace: 0.0 }
    }

    /// Two windows of a pair, in any order. Nothing is made of pairs without progress, of equal turns, or of values
    /// that cannot be.
    pub fn observe(&mut self, pair: [Observed; 2]) {
        let sane = |o: &Observed| o.progress.is_finite() && o.progress >= 0.0 && o.speed.is_finite() && o.speed > 0.0;
        let work = pair.map(|o| o.cpu.as_nanos() as f64 * o.speed);
        let progress: f64 = pair.iter().map(|o| o.progress).sum();
        let distinct = pair[0].turn != pair[1].turn && pair.iter().all(|o| o.turn > RealDuration::ZERO);
        if !(pair.iter().all(sane) && work.iter().all(|w| *w > 0.0) && progress > 0.0 && distinct) {
            return;
        }
        let total = work[0] + work[1];
        self.pace = if self.pace == 0.0 { progress / total } else { 0.9 * self.pace + 0.1 * progress / total };
        // As much as the smaller of two counts would weigh: 4 / (1/a + 1/b). Of two equal ones it is their sum.
        let balanced = 4.0 * work[0] * work[1] / total;
        let weight = balanced * (progress / total / self.pace).min(1.0);
        let pair = Pair { turns: pair.map(|o| o.turn), work, second: pair[1].progress / progress, weight };
        if self.pairs.len() == MEMORY {
            self.pairs.pop_front();
        }
        self.pairs.push_back(pair);
        self.seen = self.seen.saturating_add(1);
    }

    /// What is known by now.
    pub fn refill(&self) -> Refill {
        let (depth, error) = self.under(Curve::USUAL);
        let other = |spread| self.under(Curve::USUAL.slower_by(spread)).0;
        Refill {
            depth,
            error,
            depth_by_recovery: [other(RECOVERY_SPREAD), other(1.0 / RECOVERY_SPREAD)],
            pairs: self.seen,
        }
    }

    /// Depth and its standard error if nodes recover by this curve.
    fn under(&self, curve: Curve) -> (f64, f64) {
        let guess = (self.guess.depth, self.guess.error);
        let weight: f64 = self.aged().map(|(weight, _)| weight).sum();
        if weight <= 0.0 {
            return guess;
        }
        let [mut low, mut high] = DEPTHS;
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            match self.excess(curve, middle) > 0.0 {
                true => high = middle,
                false => low = middle,
            }
        }
        let depth = (low + high) / 2.0;
        let error = self.error_at(curve, depth);
        if !error.is_finite() {
            return guess;
        }
        let [own, of_guess] = [error, guess.1].map(|e| 1.0 / (e * e));
        ((own * depth + of_guess * guess.0) / (own + of_guess), (own + of_guess).sqrt().recip())
    }

    fn aged(&self) -> impl Iterator<Item = (f64, &Pair)> {
        let mut age = 1.0 / FORGETTING;
        self.pairs.iter().rev().map(move |pair| {
            age *= FORGETTING;
            (age * pair.weight, pair)
        })
    }

    /// By how much less progress is in windows with long turns than at this depth, all pairs together.
    fn excess(&self, curve: Curve, depth: f64) -> f64 {
        self.aged().map(|(weight, pair)| weight * pair.residual(curve, depth)).sum()
    }

    fn error_at(&self, curve: Curve, depth: f64) -> f64 {
        let (mut n, mut weights, mut scatter, mut slope, mut span) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (weight, pair) in self.aged() {
            n += 1.0;
            weights += weight;
            scatter += (weight * pair.residual(curve, depth)).powi(2);
            slope += weight * pair.slope(curve, depth);
            span += weight * pair.span(curve);
        }
        let (mean, span) = (weights / n, span / weights);
        let expected = SCATTER_PAIRS * (mean * SCATTER * span).powi(2);
        // One parameter is fitted, so n pairs scatter as n − 1 would.
        let scatter = if n > 1.0 { scatter * n / (n - 1.0) } else { 0.0 };
        (scatter + expected).sqrt() / slope
    }
}

impl Pair {
    /// g of both windows.
    fn parts(&self, curve: Curve) -> [f64; 2] {
        self.turns.map(|turn| curve.part(turn))
    }

    /// The part of progress that is expected in the second window.
    fn expected(&self, [g1, g2]: [f64; 2], depth: f64) -> f64 {
        // A node does something even if the depth considered says that it does nothing.
        let [first, second] =
            [self.work[0] * (1.0 - depth * g1).max(0.02), self.work[1] * (1.0 - depth * g2).max(0.02)];
        second / (first + second)
    }

    /// Expected less seen, positive if the depth considered is too large.
    fn residual(&self, curve: Curve, depth: f64) -> f64 {
        let [g1, g2] = self.parts(curve);
        (g1 - g2) * (self.expected([g1, g2], depth) - self.second)
    }

    /// By how much the residual grows with depth.
    fn slope(&self, curve: Curve, depth: f64) -> f64 {
        const STEP: f64 = 1e-4;
        (self.residual(curve, depth + STEP) - self.residual(curve, depth - STEP)) / (2.0 * STEP)
    }

    fn span(&self, curve: Curve) -> f64 {
        let [g1, g2] = self.parts(curve);
        (g1 - g2).abs()
    }
}
