//! How much a node loses at the start of its turns, from what it gets done in turns of different lengths.

use std::collections::VecDeque;

use scale::RealDuration;

use super::alternation::{Alternation, LENGTHS};
use super::earlier::{Earlier, LOOKS_EVERY, Learned, OF_ANOTHER, ROUNDS_OF_ANOTHER, Standing};
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

/// A window is compared with the rounds before and after it, on either side as many as have this many times its CPU
/// work together, but no more than so many.
const BESIDE: f64 = 1.5;
const ROUNDS_BESIDE: usize = 4;

/// Depths that are considered: below 0, so that chance errs to both sides; above 1, as the shape is not exact.
pub(super) const DEPTHS: [f64; 2] = [-1.0, 1.25];

/// Before there are enough rounds to tell how much they scatter, this is added to what they show: so many rounds, each
/// off by this part of the largest possible.
const SCATTER_ROUNDS: f64 = 2.0;
const SCATTER: f64 = 0.06;
/// Windows are few. What they show of their own scatter is averaged with what rounds scatter, which counts as so many
/// of them.
const SCATTER_WINDOWS: f64 = 4.0;

/// A curve that is believed less than this is not asked what it makes of an earlier run.
const MATTERS: f64 = 0.01;

/// Slopes are taken over this much of depth, either way.
const STEP: f64 = 1e-4;
/// A slope below this part of the weight is none.
const ROUNDING: f64 = 1e-9;

/// The observations of a round: CPU work, and of the progress of all the part in each.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// CPU time × speed.
    work: [f64; LENGTHS],
    seen: [f64; LENGTHS],
    /// How much it says.
    weight: f64,
}

/// A window of the longest turns, beside rounds of the others.
#[derive(Clone, Copy, Debug)]
struct Long {
    /// Of the CPU work of those rounds, the part in turns of each length.
    beside: [f64; LENGTHS],
    /// Progress by work in the window, of that and the same of the rounds together: a half if both are alike.
    seen: f64,
    /// How much it says, as of a round.
    weight: f64,
    /// Which round is next to it.
    round: u32,
}

/// What was done in some rounds.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    work: [f64; LENGTHS],
    progress: f64,
    rounds: usize,
}

/// A window that waits for the rounds after it.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    work: f64,
    progress: f64,
    before: Sum,
    after: Sum,
}

/// g = R(L)/L at depth 1, in turns of each length and in the longest.
#[derive(Clone, Copy, Debug)]
struct Parts {
    by_turn: [f64; LENGTHS],
    long: f64,
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
/// A window of the longest turns is one more comparison, of its pace with that of the rounds beside it. Parts of a sum
/// within the rounds and of the sum beside the window are independent, so nothing counts twice.
///
/// That is done for each form and each τ that are considered, and each is believed by how likely it was
/// before and by how well it fits: exp(−Q/2φ), where Q is the weighted sum of the squares that are left, and φ what it
/// is per degree of freedom for the best (the quasi-likelihood of Wedderburn, *Biometrika* 1974).
///
/// **Earlier runs.** What they have [learned](Learned) takes the place of the guess and of how likely each curve is, as
/// far as it is believed. That fades with each round as an old round does. It is forgotten when what is seen differs
/// from it by more than [`OF_ANOTHER`] standard errors of the difference, which is looked at from
/// [`ROUNDS_OF_ANOTHER`] rounds on: the node then does something else than it did.
#[derive(Clone, Debug)]
pub struct Estimator {
    guess: Guess,
    earlier: Option<Earlier>,
    standing: Standing,
    turns: [RealDuration; LENGTHS],
    /// How long turns are in a window.
    window: RealDuration,
    /// The newest last.
    rounds: VecDeque<Round>,
    longs: VecDeque<Long>,
    seen: u32,
    seen_long: u32,
    /// Progress by work, of late: a window with little of it, for its CPU time, says little.
    pace: f64,
    /// The last rounds, the newest last; those between which and now something is missing are not here.
    recent: VecDeque<Sum>,
    waiting: Option<Waiting>,
}

impl Estimator {
    /// Knows what was guessed.
    pub fn new(guess: Guess, around: &Alternation) -> Estimator {
        Estimator {
            guess,
            earlier: None,
            standing: Standing::None,
            turns: around.turns(),
            window: around.in_windows(),
            rounds: VecDeque::new(),
            longs: VecDeque::new(),
            seen: 0,
            seen_long: 0,
            pace: 0.0,
            recent: VecDeque::new(),
            waiting: None,
        }
    }

    /// Knows, too, what earlier runs have learned of the same kind of node, the last of them so long ago.
    pub fn with_earlier(self, learned: Learned, age: RealDuration) -> Estimator {
        Estimator { earlier: Some(Earlier { learned, age }), standing: Standing::Used, ..self }
    }

    /// What became of that.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// What is known by now, for later runs. `None` while there are too few rounds.
    pub fn learned(&self) -> Option<Learned> {
        let before = self.earlier.as_ref().map(|earlier| earlier.counts(self.faded()));
        Learned::of(&self.refill(), before.unwrap_or_default())
    }

    /// The windows of a round, that with the shortest turns first. Nothing is made of rounds without progress, or of
    /// values that cannot be.
    pub fn observe(&mut self, round: [Observed; LENGTHS]) {
        let work = round.map(|o| o.work());
        let progress: f64 = round.iter().map(|o| o.progress).sum();
        if !(round.iter().all(Observed::is_sane) && work.iter().all(|w| *w > 0.0) && progress > 0.0) {
            return self.missed();
        }
        let total: f64 = work.iter().sum();
        self.pace = if self.pace == 0.0 { progress / total } else { 0.9 * self.pace + 0.1 * progress / total };
        // As much as the smallest count would weigh; of equal ones it is their sum.
        let balanced = (LENGTHS * LENGTHS) as f64 / work.iter().map(|w| w.recip()).sum::<f64>();
        let weight = balanced * (progress / total / self.pace).min(1.0);
        remember(&mut self.rounds, MEMORY, Round { work, seen: round.map(|o| o.progress / progress), weight });
        self.seen = self.seen.saturating_add(1);
        let sum = Sum { work, progress, rounds: 1 };
        remember(&mut self.recent, ROUNDS_BESIDE, sum);
        if let Some(mut waiting) = self.waiting.take() {
            waiting.after = waiting.after.and(sum);
            self.waiting = Some(waiting);
            self.compare(false);
        }
        if self.seen >= ROUNDS_OF_ANOTHER && self.seen.is_multiple_of(LOOKS_EVERY) && self.is_of_another() {
            (self.earlier, self.standing) = (None, Standing::Rejected);
        }
    }

    /// Whether what earlier runs have learned is of something else than what is seen. Each curve is asked as far as it
    /// is believed by them, so that what near turns cannot tell, because all lose alike, is no difference.
    fn is_of_another(&self) -> bool {
        if self.earlier.is_none() {
            return false;
        }
        let weight: f64 = self.aged().map(|(weight, _)| weight).sum();
        let squared = |begun: &Shape| {
            let parts = self.parts(begun.curve);
            let own = self.depth(parts);
            let error = self.error_at(parts, own, weight).hypot(begun.error);
            let apart = (own - begun.depth) / error;
            if apart.is_finite() { apart * apart } else { 0.0 }
        };
        let begun = self.begun();
        let mattering = || begun.iter().filter(|shape| shape.weight >= MATTERS);
        let all: f64 = mattering().map(|shape| shape.weight).sum();
        mattering().map(|shape| shape.weight * squared(shape)).sum::<f64>() > all * OF_ANOTHER * OF_ANOTHER
    }

    /// What is believed of each curve without what this run has seen.
    fn begun(&self) -> [Shape; SHAPES] {
        let told = (!self.longs.is_empty()).then_some(self.window);
        let Guess { depth, error } = self.guess;
        match &self.earlier {
            Some(earlier) => {
                let mean = self.turns.iter().map(|turn| turn.as_nanos()).sum::<u64>() / LENGTHS as u64;
                let told = told.or((earlier.learned.windows > 0).then_some(self.window));
                earlier.shapes(self.guess, self.faded(), RealDuration::from_nanos(mean), told)
            }
            None => Curve::considered(told).map(|(weight, curve)| Shape { curve, weight, depth, error }),
        }
    }

    /// How much less than at the start of the run something from before it counts.
    fn faded(&self) -> f64 {
        FORGETTING.powi(self.seen.min(i32::MAX as u32) as i32)
    }

    fn parts(&self, curve: Curve) -> Parts {
        Parts { by_turn: self.turns.map(|turn| curve.part(turn)), long: curve.part(self.window) }
    }

    /// A window of the longest turns, between the round before and the one after.
    pub fn observe_long(&mut self, window: Observed) {
        self.compare(true);
        let work = window.work();
        if !window.is_sane() || work <= 0.0 {
            return self.missed();
        }
        let before = self.recent.iter().rev().fold(Sum::default(), |sum, round| match sum.enough_beside(work) {
            true => sum,
            false => sum.and(*round),
        });
        if before.rounds > 0 {
            self.waiting = Some(Waiting { work, progress: window.progress, before, after: Sum::default() });
        }
    }

    /// Nothing is known of what was done just now, so that what comes is not beside what was.
    pub fn missed(&mut self) {
        self.compare(true);
        self.recent.clear();
    }

    /// Compares the window that waits with what is beside it, if that is enough, or if nothing more will come.
    fn compare(&mut self, at_last: bool) {
        let Some(Waiting { work, progress, before, after }) = self.waiting else { return };
        if !at_last && !after.enough_beside(work) {
            return;
        }
        self.waiting = None;
        let beside = before.and(after);
        let total = beside.total();
        let paces = [progress / work, beside.progress / total];
        if after.rounds == 0 {
            return;
        }
        let weight = 4.0 / (work.recip() + total.recip()) * ((paces[0] + paces[1]) / 2.0 / self.pace).min(1.0);
        let (seen, round) = (paces[0] / (paces[0] + paces[1]), self.seen - after.rounds as u32);
        let beside = beside.work.map(|work| work / total);
        remember(&mut self.longs, MEMORY, Long { beside, seen, weight, round });
        self.seen_long = self.seen_long.saturating_add(1);
    }

    /// What is known by now.
    pub fn refill(&self) -> Refill {
        let weight: f64 = self.aged().map(|(weight, _)| weight).sum();
        let under = |begun: Shape| {
            if begun.weight == 0.0 {
                return (Shape { depth: 0.0, error: 0.0, ..begun }, f64::INFINITY);
            }
            let (depth, error, misfit) = self.under(begun, weight);
            (Shape { depth, error, ..begun }, misfit)
        };
        let found: [(Shape, f64); SHAPES] = self.begun().map(under);
        let least = found.iter().map(|(_, misfit)| *misfit).fold(f64::INFINITY, f64::min);
        let per_freedom = self.per_freedom(least, weight);
        let mut shapes = found.map(|(shape, misfit)| {
            let fits = if per_freedom > 0.0 { (-(misfit - least) / (2.0 * per_freedom)).exp() } else { 1.0 };
            Shape { weight: shape.weight * fits, ..shape }
        });
        let all: f64 = shapes.iter().map(|shape| shape.weight).sum();
        shapes.iter_mut().for_each(|shape| shape.weight /= all);
        Refill { shapes, rounds: self.seen, windows: self.seen_long }
    }

    /// φ: of a sum of squares, what one degree of freedom has.
    fn per_freedom(&self, misfit: f64, weight: f64) -> f64 {
        let rounds = (1.0 - FORGETTING.powi(self.rounds.len() as i32)) / (1.0 - FORGETTING);
        if rounds == 0.0 {
            return 0.0;
        }
        let freedom = (LENGTHS - 1) as f64;
        let expected = SCATTER_ROUNDS * freedom * SCATTER * SCATTER * weight / rounds;
        let windows: f64 = self.longs.iter().map(|long| self.age_of(long)).sum();
        let free = freedom * (rounds - 1.0).max(0.0) + windows;
        (misfit + expected) / (free + freedom * SCATTER_ROUNDS)
    }

    /// Depth, its standard error, and the weighted sum of squares, if nodes recover by this curve, of which this was
    /// believed.
    fn under(&self, begun: Shape, weight: f64) -> (f64, f64, f64) {
        let Shape { curve, depth: guess, error: guess_error, .. } = begun;
        if weight <= 0.0 {
            return (guess, guess_error, 0.0);
        }
        let parts = self.parts(curve);
        let own = self.depth(parts);
        let own_error = self.error_at(parts, own, weight);
        let (mut depth, mut error) = (guess, guess_error);
        if own_error.is_finite() {
            let [by_own, by_guess] = [own_error, guess_error].map(|e| 1.0 / (e * e));
            depth = (by_own * own + by_guess * guess) / (by_own + by_guess);
            error = (by_own + by_guess).sqrt().recip();
        }
        (depth, error, self.misfit(parts, depth))
    }

    /// Where progress is as expected: by regula falsi (the Illinois variant), as each look at all rounds costs.
    fn depth(&self, parts: Parts) -> f64 {
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

    /// How much less than a new one a window counts for its age.
    fn age_of(&self, long: &Long) -> f64 {
        FORGETTING.powi((self.seen - long.round) as i32)
    }

    fn aged_longs(&self) -> impl Iterator<Item = (f64, &Long)> {
        self.longs.iter().map(|long| (self.age_of(long) * long.weight, long))
    }

    /// By how much less progress is in windows with long turns than at this depth, all together.
    fn excess(&self, parts: Parts, depth: f64) -> f64 {
        let rounds: f64 = self.aged().map(|(weight, round)| weight * round.residual(parts.by_turn, depth)).sum();
        rounds + self.aged_longs().map(|(weight, long)| weight * long.residual(parts, depth)).sum::<f64>()
    }

    fn misfit(&self, parts: Parts, depth: f64) -> f64 {
        let rounds: f64 = self.aged().map(|(weight, round)| weight * round.squares(parts.by_turn, depth)).sum();
        rounds + self.aged_longs().map(|(weight, long)| weight * long.squares(parts, depth)).sum::<f64>()
    }

    fn error_at(&self, parts: Parts, depth: f64, all: f64) -> f64 {
        let (mut n, mut scatter, mut slope) = (0.0, 0.0, 0.0);
        for (weight, round) in self.aged() {
            n += 1.0;
            scatter += (weight * round.residual(parts.by_turn, depth)).powi(2);
            slope += weight * round.slope(parts.by_turn, depth);
        }
        let middle = parts.by_turn.iter().sum::<f64>() / LENGTHS as f64;
        let span = parts.by_turn.iter().map(|g| (g - middle).powi(2)).sum::<f64>().sqrt();
        let expected = SCATTER_ROUNDS * (all / n * SCATTER * span).powi(2);
        // One parameter is fitted, so n rounds scatter as n − 1 would.
        let scatter = if n > 1.0 { scatter * n / (n - 1.0) } else { 0.0 };
        let (windows, slope_of_windows) = self.scatter_of_windows(parts, depth, slope, all);
        let slope = slope + slope_of_windows;
        // All turns lose alike by this curve: what is left is rounding.
        if slope <= ROUNDING * all { f64::INFINITY } else { (scatter + expected + windows).sqrt() / slope }
    }

    /// The same sums of the windows, where those of rounds have this slope.
    fn scatter_of_windows(&self, parts: Parts, depth: f64, of_rounds: f64, all: f64) -> (f64, f64) {
        let per_freedom = self.per_freedom(self.misfit(parts, depth), all);
        let (mut n, mut scatter, mut usual, mut slope) = (0.0, 0.0, 0.0, 0.0);
        for (weight, long) in self.aged_longs() {
            n += 1.0;
            scatter += (weight * long.residual(parts, depth)).powi(2);
            // Of two halves, each varies by three quarters of φ over the weight, before that is aged.
            usual += weight * self.age_of(long) * long.span(parts).powi(2) * Long::VARIES * per_freedom;
            slope += weight * long.slope(parts, depth);
        }
        if n == 0.0 {
            return (0.0, 0.0);
        }
        // The part of the one parameter that is fitted to windows.
        let fitted = slope / (slope + of_rounds);
        let each = (scatter + SCATTER_WINDOWS * usual / n) / (n - fitted + SCATTER_WINDOWS);
        (n * each, slope)
    }
}

fn remember<T>(all: &mut VecDeque<T>, most: usize, one: T) {
    if all.len() == most {
        all.pop_front();
    }
    all.push_back(one);
}

impl Observed {
    fn is_sane(&self) -> bool {
        self.progress.is_finite() && self.progress >= 0.0 && self.speed.is_finite() && self.speed > 0.0
    }

    fn work(&self) -> f64 {
        self.cpu.as_nanos() as f64 * self.speed
    }
}

impl Sum {
    fn and(self, other: Sum) -> Sum {
        Sum {
            work: std::array::from_fn(|i| self.work[i] + other.work[i]),
            progress: self.progress + other.progress,
            rounds: self.rounds + other.rounds,
        }
    }

    fn total(&self) -> f64 {
        self.work.iter().sum()
    }

    /// Whether these are as many rounds as belong on one side of a window with this much work.
    fn enough_beside(&self, work: f64) -> bool {
        self.rounds >= ROUNDS_BESIDE || self.total() >= BESIDE * work
    }
}

/// What is seen of a window and what is expected.
impl Long {
    /// Var(seen) is φ times this over the weight. φ is of parts that are thirds, each of which varies by 2/9 over the
    /// number of things counted, all by 2/3 with two degrees of freedom; a half varies by 1/4.
    const VARIES: f64 = 3.0 / 4.0;

    /// g of the window and, on average, of what is beside it.
    fn parts(&self, parts: Parts) -> [f64; 2] {
        [parts.long, self.beside.iter().zip(parts.by_turn).map(|(work, g)| work * g).sum()]
    }

    fn span(&self, parts: Parts) -> f64 {
        let [long, beside] = self.parts(parts);
        long - beside
    }

    /// Seen less expected.
    fn more(&self, parts: Parts, depth: f64) -> f64 {
        let [long, beside] = self.parts(parts).map(|g| (1.0 - depth * g).max(0.02));
        self.seen - long / (long + beside)
    }

    fn residual(&self, parts: Parts, depth: f64) -> f64 {
        self.span(parts) * self.more(parts, depth)
    }

    fn squares(&self, parts: Parts, depth: f64) -> f64 {
        self.more(parts, depth).powi(2) / Long::VARIES
    }

    fn slope(&self, parts: Parts, depth: f64) -> f64 {
        (self.residual(parts, depth + STEP) - self.residual(parts, depth - STEP)) / (2.0 * STEP)
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
        (self.residual(parts, depth + STEP) - self.residual(parts, depth - STEP)) / (2.0 * STEP)
    }
}
