//! How much a node loses at the start of its turns, from what it gets done in turns of different lengths.

use std::collections::VecDeque;

use scale::RealDuration;

use super::alternation::{Alternation, LENGTHS};
use super::{Curve, Guess, Refill, SHAPES, Shape};

/// What a node used and did while turns had one length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// The node's CPU time.
    pub cpu: RealDuration,
    /// How fast the core was meanwhile, in any unit that is the same for all of a round; 1 where it is not known.
    pub speed: f64,
    /// What the node got done, in any unit of which a second of CPU time makes about as many all the time: bytes
    /// through its ports, or instructions.
    pub progress: f64,
}

/// Rounds that are remembered at most, and how much less one counts than the one after it: what was done 70 rounds ago
/// counts half, so that a node that begins to do something else is believed.
const MEMORY: usize = 300;
const FORGETTING: f64 = 0.99;

/// Depths that are considered: below 0, so that chance errs to both sides; above 1, as the shape is not exact.
const DEPTHS: [f64; 2] = [-1.0, 1.25];

/// Before there are enough rounds to tell how much they scatter, this is added to what they show: so many rounds, each
/// off by this part of the largest possible.
const SCATTER_ROUNDS: f64 = 2.0;
const SCATTER: f64 = 0.06;

/// The observations of a round: CPU work, and of the progress of all the part in each.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// CPU time × speed.
    work: [f64; LENGTHS],
    seen: [f64; LENGTHS],
    /// How much it says.
    weight: f64,
}

/// Estimates one node's refill.
///
/// **Method.** In a round of neighbouring windows with turns of lengths Lᵢ and CPU work Cᵢ, progress is expected in
/// the ratios Cᵢ (1 − d g(Lᵢ)), where g(L) = R(L)/L at depth 1; how much it is in all does not matter, so a node may
/// work fast in one minute and slowly in the next. Only the *parts* of a round's progress that are in each window are
/// looked at (the conditional likelihood of Poisson rates, which needs no rates). They are between 0 and 1, so no
/// round, however odd, counts for more than its CPU time. d is where these parts, weighted by CPU time, are on average
/// as expected: a function that falls with d everywhere, so there is one solution. Its error comes from how much the
/// rounds scatter (a *sandwich*: White, *Maximum Likelihood Estimation of Misspecified Models*, Econometrica 1982), not
/// from a model of what requests are like. The guess from before counts by its own error.
///
/// That is done for each form and each τ that are considered, and each is believed by how likely it was
/// before and by how well it fits: exp(−Q/2φ), where Q is the weighted sum of the squares that are left, and φ what it
/// is per degree of freedom for the best (the quasi-likelihood of Wedderburn, *Biometrika* 1974).
#[derive(Clone, Debug)]
pub struct Estimator {
    guess: Guess,
    turns: [RealDuration; LENGTHS],
    /// The newest last.
    rounds: VecDeque<Round>,
    seen: u32,
    /// Progress by work, of late: a window with little of it, for its CPU time, says little.
    pace: f64,
}

impl Estimator {
    /// Knows what was guessed.
    pub fn new(guess: Guess, around: &Alternation) -> Estimator {
        Estimator { guess, turns: around.turns(), rounds: VecDeque::new(), seen: 0, pace: 0.0 }
    }

    /// The windows of a round, that with the shortest turns first. Nothing is made of rounds without progress, or of
    /// values that cannot be.
    pub fn observe(&mut self, round: [Observed; LENGTHS]) {
        let sane = |o: &Observed| o.progress.is_finite() && o.progress >= 0.0 && o.speed.is_finite() && o.speed > 0.0;
        let work = round.map(|o| o.cpu.as_nanos() as f64 * o.speed);
        let progress: f64 = round.iter().map(|o| o.progress).sum();
        if !(round.iter().all(sane) && work.iter().all(|w| *w > 0.0) && progress > 0.0) {
            return;
        }
        let total: f64 = work.iter().sum();
        self.pace = if self.pace == 0.0 { progress / total } else { 0.9 * self.pace + 0.1 * progress / total };
        // As much as the smallest count would weigh; of equal ones it is their sum.
        let balanced = (LENGTHS * LENGTHS) as f64 / work.iter().map(|w| w.recip()).sum::<f64>();
        let weight = balanced * (progress / total / self.pace).min(1.0);
        let round = Round { work, seen: round.map(|o| o.progress / progress), weight };
        if self.rounds.len() == MEMORY {
            self.rounds.pop_front();
        }
        self.rounds.push_back(round);
        self.seen = self.seen.saturating_add(1);
    }

    /// What is known by now.
    pub fn refill(&self) -> Refill {
        let weight: f64 = self.aged().map(|(weight, _)| weight).sum();
        let under = |(before, curve)| {
            let (depth, error, misfit) = self.under(curve, weight);
            (Shape { curve, weight: before, depth, error }, misfit)
        };
        let found: [(Shape, f64); SHAPES] = Curve::considered().map(under);
        let least = found.iter().map(|(_, misfit)| *misfit).fold(f64::INFINITY, f64::min);
        let per_freedom = self.per_freedom(least, weight);
        let mut shapes = found.map(|(shape, misfit)| {
            let fits = if per_freedom > 0.0 { (-(misfit - least) / (2.0 * per_freedom)).exp() } else { 1.0 };
            Shape { weight: shape.weight * fits, ..shape }
        });
        let all: f64 = shapes.iter().map(|shape| shape.weight).sum();
        shapes.iter_mut().for_each(|shape| shape.weight /= all);
        Refill { shapes, rounds: self.seen }
    }

    /// φ: of the least sum of squares, what one degree of freedom has.
    fn per_freedom(&self, least: f64, weight: f64) -> f64 {
        let rounds = (1.0 - FORGETTING.powi(self.rounds.len() as i32)) / (1.0 - FORGETTING);
        if rounds == 0.0 {
            return 0.0;
        }
        let freedom = (LENGTHS - 1) as f64;
        let expected = SCATTER_ROUNDS * freedom * SCATTER * SCATTER * weight / rounds;
        (least + expected) / (freedom * (rounds - 1.0).max(0.0) + freedom * SCATTER_ROUNDS)
    }

    /// Depth, its standard error, and the weighted sum of squares, if nodes recover by this curve.
    fn under(&self, curve: Curve, weight: f64) -> (f64, f64, f64) {
        let Guess { depth: guess, error: guess_error } = self.guess;
        if weight <= 0.0 {
            return (guess, guess_error, 0.0);
        }
        let parts = self.turns.map(|turn| curve.part(turn));
        let own = self.depth(parts);
        let own_error = self.error_at(parts, own);
        let (mut depth, mut error) = (guess, guess_error);
        if own_error.is_finite() {
            let [by_own, by_guess] = [own_error, guess_error].map(|e| 1.0 / (e * e));
            depth = (by_own * own + by_guess * guess) / (by_own + by_guess);
            error = (by_own + by_guess).sqrt().recip();
        }
        let misfit = self.aged().map(|(weight, round)| weight * round.squares(parts, depth)).sum();
        (depth, error, misfit)
    }

    /// Where progress is as expected: by regula falsi (the Illinois variant), as each look at all rounds costs.
    fn depth(&self, parts: [f64; LENGTHS]) -> f64 {
        let [mut low, mut high] = DEPTHS.map(|depth| (depth, self.excess(parts, depth)));
        if low.1 >= 0.0 || high.1 <= 0.0 {
            return if low.1 >= 0.0 { low.0 } else { high.0 };
        }
        let mut last = 0.0;
        for _ in 0..30 {
            let depth = (low.0 * high.1 - high.0 * low.1) / (high.1 - low.1);
            let excess = self.excess(parts, depth);
            let same_side = f64::signum(excess) == last;
            last = excess.signum();
            let (moved, kept) = if excess > 0.0 { (&mut high, &mut low) } else { (&mut low, &mut high) };
            let step = (moved.0 - depth).abs();
            *moved = (depth, excess);
            if same_side {
                kept.1 /= 2.0;
            }
            if step < 1e-6 || excess == 0.0 {
                return depth;
            }
        }
        (low.0 + high.0) / 2.0
    }

    fn aged(&self) -> impl Iterator<Item = (f64, &Round)> {
        let mut age = 1.0 / FORGETTING;
        self.rounds.iter().rev().map(move |round| {
            age *= FORGETTING;
            (age * round.weight, round)
        })
    }

    /// By how much less progress is in windows with long turns than at this depth, all rounds together.
    fn excess(&self, parts: [f64; LENGTHS], depth: f64) -> f64 {
        self.aged().map(|(weight, round)| weight * round.residual(parts, depth)).sum()
    }

    fn error_at(&self, parts: [f64; LENGTHS], depth: f64) -> f64 {
        let (mut n, mut weights, mut scatter, mut slope) = (0.0, 0.0, 0.0, 0.0);
        for (weight, round) in self.aged() {
            n += 1.0;
            weights += weight;
            scatter += (weight * round.residual(parts, depth)).powi(2);
            slope += weight * round.slope(parts, depth);
        }
        let middle = parts.iter().sum::<f64>() / LENGTHS as f64;
        let span = parts.iter().map(|g| (g - middle).powi(2)).sum::<f64>().sqrt();
        let expected = SCATTER_ROUNDS * (weights / n * SCATTER * span).powi(2);
        // One parameter is fitted, so n rounds scatter as n − 1 would.
        let scatter = if n > 1.0 { scatter * n / (n - 1.0) } else { 0.0 };
        (scatter + expected).sqrt() / slope
    }
}

/// What is seen of a round and what is expected; `parts` are g of its windows.
impl Round {
    /// The parts of progress that are expected.
    fn expected(&self, parts: [f64; LENGTHS], depth: f64) -> [f64; LENGTHS] {
        let mut expected = self.work;
        // A node does something even if the depth considered says that it does nothing.
        expected.iter_mut().zip(parts).for_each(|(work, g)| *work *= (1.0 - depth * g).max(0.02));
        let all: f64 = expected.iter().sum();
        expected.map(|each| each / all)
    }

    /// Seen less expected, times g: positive if the depth considered is too large.
    fn residual(&self, parts: [f64; LENGTHS], depth: f64) -> f64 {
        let expected = self.expected(parts, depth);
        parts.iter().zip(self.seen.iter().zip(expected)).map(|(g, (seen, expected))| g * (seen - expected)).sum()
    }

    fn squares(&self, parts: [f64; LENGTHS], depth: f64) -> f64 {
        let expected = self.expected(parts, depth);
        self.seen.iter().zip(expected).map(|(seen, expected)| (seen - expected).powi(2)).sum()
    }

    /// By how much the residual grows with depth.
    fn slope(&self, parts: [f64; LENGTHS], depth: f64) -> f64 {
        const STEP: f64 = 1e-4;
        (self.residual(parts, depth + STEP) - self.residual(parts, depth - STEP)) / (2.0 * STEP)
    }
}
