//! What a run has learned of a node's refill, for the runs after it.
//!
//! In a run of a minute the first half is over before anything significant is known of a node. What a program loses to
//! cold caches depends on the program, on what is done between its turns and on the processor: where all of those are
//! the same, the next run may begin with what the last one ended with. Not all is the same, though: neighbours of a
//! virtual machine change, and so does what clients ask for. So it is believed less than it was ([`BETWEEN_RUNS`]), the
//! less the older it is ([`HALF_LIFE`]), and not at all once it is found to be of something else ([`OF_ANOTHER`]).
//!
//! From run to run this is the filter of Kalman (*A New Approach to Linear Filtering and Prediction Problems*, 1960)
//! for a value that wanders: what is known at the end of a run is that of before, wandered, and what the run has seen.

use scale::RealDuration;
use serde::{Deserialize, Serialize};

use super::estimator::DEPTHS;
use super::{Curve, Form, Guess, Refill, SHAPES, Shape};

/// What an earlier run has learned is forgotten when what is seen differs from it by more than this many standard
/// errors of the difference. Chance does that once in sixteen thousand looks, if errors are normal. With a smaller
/// bound, nodes that do little were given 1.3 to 1.6 times their share for nothing: forgetting what is right costs more
/// than keeping for a while what is not, as that fades.
pub const OF_ANOTHER: f64 = 4.0;
/// Before there are so many rounds, their scatter itself is hardly known, and nothing is forgotten.
pub const ROUNDS_OF_ANOTHER: u32 = 24;
/// It is looked at each time so many rounds have been seen.
pub(super) const LOOKS_EVERY: u32 = 4;

/// What differs from run to run, one standard deviation: this part of the depth, and a depth of this much.
const BETWEEN_RUNS: f64 = 0.15;
const BETWEEN_RUNS_AT_LEAST: f64 = 0.03;
/// What is so old counts half: a host gets other neighbours within days.
const HALF_LIFE: RealDuration = RealDuration::from_nanos(86_400_000_000_000);
/// How far new knowledge of the curves is believed; for the rest each is as likely as if nothing were known, so that
/// none is ever ruled out.
const CURVES_BELIEVED: f64 = 0.8;

/// Of fewer rounds nothing is kept.
const LEAST_ROUNDS: u32 = 8;
/// A curve that is believed less than this is not kept.
const LEAST_WEIGHT: f64 = 0.005;
/// Larger errors say nothing: no program loses more than its whole pace.
const LARGEST_ERROR: f64 = 10.0;

/// What runs have learned of a kind of node in turns of a kind, as it is kept.
///
/// Of which kind, where it is kept and when it was learned is for others to say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    curves: Vec<LearnedCurve>,
    /// How many rounds of turns of all lengths it rests on, those of the run before counting less for their age.
    pub rounds: u32,
    /// And how many windows of the longest turns.
    pub windows: u32,
}

/// What the depth is if the node recovers by a curve, and how far that is believed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct LearnedCurve {
    form: Form,
    recovery_us: f64,
    /// Those of all curves sum to nearly 1.
    weight: f64,
    depth: f64,
    /// Standard error of the depth.
    error: f64,
}

/// What became of what earlier runs have learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There was nothing.
    None,
    /// It counts, less with each round.
    Used,
    /// It was found to be of something else, and is forgotten.
    Rejected,
}

impl Learned {
    /// What is known at the end of a run that began with `before`: rounds and windows of earlier runs. `None` if the
    /// run itself has seen too little.
    pub(super) fn of(refill: &Refill, before: [f64; 2]) -> Option<Learned> {
        let curve = |shape: &Shape| LearnedCurve {
            form: shape.curve.form,
            recovery_us: shape.curve.recovery_ns / 1e3,
            weight: shape.weight,
            depth: shape.depth,
            error: shape.error,
        };
        let believed = refill.shapes.iter().filter(|shape| shape.weight >= LEAST_WEIGHT);
        let count = |own: u32, before: f64| own.saturating_add(before.round() as u32);
        let learned = Learned {
            curves: believed.map(curve).collect(),
            rounds: count(refill.rounds, before[0]),
            windows: count(refill.windows, before[1]),
        };
        (refill.rounds >= LEAST_ROUNDS && learned.is_sane()).then_some(learned)
    }

    /// Whether it can be what a run has learned: it is read from a file that may be damaged.
    pub fn is_sane(&self) -> bool {
        let sane = |c: &LearnedCurve| {
            let weighs = c.weight > 0.0 && c.weight <= 1.0;
            let [low, high] = DEPTHS;
            weighs
                && (low..=high).contains(&c.depth)
                && c.error > 0.0
                && c.error <= LARGEST_ERROR
                && c.recovery_us > 0.0
        };
        !self.curves.is_empty() && self.curves.iter().all(sane)
    }

    /// How sure it is: the standard error of the part of a turn that is lost, by which of several nodes of a kind the
    /// surest is found.
    pub fn error_in(&self, turn: RealDuration) -> f64 {
        self.mean(|c| (c.part(turn) * c.error).powi(2)).sqrt()
    }

    fn mean(&self, of: impl Fn(&LearnedCurve) -> f64) -> f64 {
        let all: f64 = self.curves.iter().map(|c| c.weight).sum();
        self.curves.iter().map(|c| c.weight * of(c)).sum::<f64>() / all
    }
}

impl LearnedCurve {
    fn part(&self, turn: RealDuration) -> f64 {
        Curve { form: self.form, recovery_ns: self.recovery_us * 1e3 }.part(turn)
    }

    fn is(&self, curve: Curve) -> bool {
        self.form == curve.form && (self.recovery_us * 1e3 / curve.recovery_ns - 1.0).abs() < 0.01
    }
}

/// What an estimator has from earlier runs.
#[derive(Clone, Debug)]
pub(super) struct Earlier {
    pub learned: Learned,
    /// How long ago, at the start of this run.
    pub age: RealDuration,
}

impl Earlier {
    /// How much less it counts than if it were new, of which `faded` is what this run has seen since.
    fn kept(&self, faded: f64) -> f64 {
        faded * 0.5f64.powf(self.age.as_secs_f64() / HALF_LIFE.as_secs_f64())
    }

    /// Rounds and windows, each as much as it still counts.
    pub fn counts(&self, faded: f64) -> [f64; 2] {
        [self.learned.rounds, self.learned.windows].map(|count| self.kept(faded) * f64::from(count))
    }

    /// What is believed of each curve, for turns with the mean `turn`, where windows of this length, if any, have told
    /// the slow ones. As it gets older, the guess takes its place.
    pub fn shapes(
        &self,
        guess: Guess,
        faded: f64,
        turn: RealDuration,
        window: Option<RealDuration>,
    ) -> [Shape; SHAPES] {
        let kept = self.kept(faded);
        let learned = &self.learned;
        let all: f64 = learned.curves.iter().map(|c| c.weight).sum();
        let lost = learned.mean(|c| c.part(turn) * c.depth);
        let error_of_lost = learned.error_in(turn);
        let considered = Curve::considered(window);
        let likely: f64 = considered.iter().map(|(likely, _)| likely).sum();
        considered.map(|(before, curve)| {
            let [low, high] = DEPTHS;
            let (weight, depth, error) = match learned.curves.iter().find(|c| c.is(curve)) {
                Some(c) => (c.weight / all, c.depth, c.error),
                // One that was hardly believed may still be right, and then loses as much.
                None => {
                    let part = curve.part(turn);
                    (0.0, (lost / part).clamp(low, high), (error_of_lost / part).min(LARGEST_ERROR))
                }
            };
            let error = error.hypot(BETWEEN_RUNS * depth).hypot(BETWEEN_RUNS_AT_LEAST);
            let [by_it, by_guess] = [kept / (error * error), (1.0 - kept) / (guess.error * guess.error)];
            let believed = CURVES_BELIEVED * kept;
            Shape {
                curve,
                weight: believed * weight + (1.0 - believed) * before / likely,
                depth: (by_it * depth + by_guess * guess.depth) / (by_it + by_guess),
                error: (by_it + by_guess).sqrt().recip(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Alternation, Estimator};
    use super::*;

    const DAY: RealDuration = HALF_LIFE;
    const TURN: RealDuration = RealDuration::from_nanos(400_000);

    fn curve(weight: f64, depth: f64, error: f64) -> LearnedCurve {
        LearnedCurve { form: Form::Even, recovery_us: 160.0, weight, depth, error }
    }

    fn learned(curves: &[LearnedCurve]) -> Learned {
        Learned { curves: curves.to_vec(), rounds: 40, windows: 2 }
    }

    fn begun(learned: Learned, age: RealDuration) -> Estimator {
        Estimator::new(Guess::NONE, &Alternation::around(TURN, 0.01, RealDuration::ZERO)).with_earlier(learned, age)
    }

    #[test]
    fn what_is_old_counts_less() {
        let known = learned(&[curve(1.0, 0.6, 0.05)]);
        let at =
            |days: u64| begun(known.clone(), RealDuration::from_nanos(days * DAY.as_nanos())).refill().of_turn(TURN);
        let ages = [0, 1, 4, 30].map(at);
        assert!(ages.is_sorted_by(|a, b| a.0 > b.0 && a.1 < b.1), "{ages:?}");
        let fresh = 0.6 * Curve::USUAL.part(TURN) * TURN.as_nanos() as f64;
        assert!((ages[0].0.as_nanos() as f64 / fresh - 1.0).abs() < 0.05, "{ages:?}, not {fresh}");
        assert!(ages[0].1.as_nanos() as f64 > 0.15 * fresh, "runs differ by more than it was uncertain: {ages:?}");
        let guess = Estimator::new(Guess::NONE, &Alternation::around(TURN, 0.01, RealDuration::ZERO)).refill();
        let (forgotten, unsure) = ages[3];
        assert!(forgotten == RealDuration::ZERO && unsure >= guess.of_turn(TURN).1, "{ages:?}");
    }

    #[test]
    fn no_curve_is_ruled_out() {
        let shapes = begun(learned(&[curve(1.0, 0.6, 0.05)]), RealDuration::ZERO).refill().shapes;
        assert!((shapes.iter().map(|shape| shape.weight).sum::<f64>() - 1.0).abs() < 1e-9);
        let usual = shapes.iter().find(|shape| shape.curve == Curve::USUAL).unwrap();
        let [others, considered] = [
            shapes.iter().filter(|shape| shape.weight > 0.0).count(),
            Curve::considered(Some(RealDuration::from_nanos(3_000_000))).iter().filter(|(w, _)| *w > 0.0).count(),
        ];
        assert!(usual.weight > CURVES_BELIEVED && others == considered, "{usual:?}, {others} of {considered}");
        // Each loses as much of a turn.
        let lost = |shape: &&Shape| shape.depth < 1.25 && (shape.curve.part(TURN) * shape.depth - 0.2204).abs() > 0.02;
        assert_eq!(shapes.iter().find(lost), None);
    }

    #[test]
    fn what_nobody_can_have_learned_is_told() {
        assert!(learned(&[curve(0.5, -0.2, 0.3)]).is_sane());
        for bad in [
            curve(0.0, 0.5, 0.1),
            curve(1.5, 0.5, 0.1),
            curve(1.0, 7.0, 0.1),
            curve(1.0, f64::NAN, 0.1),
            curve(1.0, 0.5, 0.0),
            curve(1.0, 0.5, 1e300),
            LearnedCurve { recovery_us: -1.0, ..curve(1.0, 0.5, 0.1) },
        ] {
            assert!(!learned(&[curve(0.5, 0.5, 0.1), bad]).is_sane(), "{bad:?}");
        }
        assert!(!learned(&[]).is_sane());
    }
}
