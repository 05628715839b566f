//! What a node loses at the start of each turn, measured while it runs, and given back as a larger share.
//!
//! A machine of the target has its core to itself. A node's turn here begins with caches that others have used in
//! between, so part of it goes into fetching data again: of a turn of length L the *refill* R(L), which grows with L
//! and levels off. The node then does the work of L − R. Its share may be raised by L / (L − R), where there is room.
//!
//! R is measured without any counter of the hardware: turns [alternate](Alternation) between three lengths, and an
//! [`Estimator`] compares what the node got done per second of its CPU time in each. A node that loses the same part of
//! all three shows nothing there; so seldom, for a moment, [one](Windows) has turns that lose little. All of this is
//! arithmetic; who counts and who sets turns is elsewhere.
//!
//! A run is short for that, so it [begins](Learned) with what earlier ones have learned of the same kind of node.
//!
//! **The shape.** After a gap the node begins at 1 − d of its pace and gains what it lacks exponentially: 1 − d
//! exp(−t/τ) at time t of its turn. Then R(L) = d τ (1 − exp(−L/τ)): the turn, while it is short, and d τ for long
//! ones. Both d, the *depth*, and τ are estimated. The shorter turns are the less they tell of τ; it is then believed
//! to be about [`RECOVERY`], and what that may be wrong by is in the stated error.

mod alternation;
mod earlier;
mod estimator;
#[cfg(test)]
mod simulation;
pub(crate) mod windows;

use scale::RealDuration;
use serde::{Deserialize, Serialize};

pub use alternation::{Alternation, Dwell, LENGTHS};
pub use earlier::{Learned, OF_ANOTHER, ROUNDS_OF_ANOTHER, Standing};
pub use estimator::{Estimator, Observed};
pub use windows::{Candidate, Window, Windows};

use crate::caches::Staleness;

/// τ as it is believed to be before a node has done anything: how long it takes it to gain most of its pace in a turn.
/// From the two best known points: a server of TLS
/// handshakes lost 60 µs of turns of 100 µs and 130 µs of turns of 1.5 ms (`docs/cpu.md`).
pub const RECOVERY: RealDuration = RealDuration::from_nanos(160_000);

/// By what factor that is wrong, either way: one standard deviation of τ's logarithm.
const RECOVERY_SPREAD: f64 = 1.6;

/// How many τ are considered, half a standard deviation apart: up to two below and above the usual one, and longer ones
/// as soon as there are windows of long turns, without which nothing could tell them.
const RECOVERIES: usize = 15;
/// Up to how many times the turns of a window.
const TOLD_BY_WINDOWS: f64 = 0.6;
/// Which of them is the usual one.
const USUAL_RECOVERY: usize = 4;
/// How many forms, each with each τ.
const FORMS: usize = 3;
const SHAPES: usize = RECOVERIES * FORMS;

/// No node's share is raised by more than this in turns of the chosen length, whatever its estimate says, in the
/// shorter ones by no more than the second, and on average by no more than the third.
pub const LARGEST_FACTOR: f64 = 1.6;
const LARGEST_IN_A_TURN: f64 = 2.2;
const LARGEST_MEAN: f64 = 1.7;

/// Memory that a server fetches again in a turn, in lines: what a cache probe finds for one, times these, is the first
/// guess of the refill. 130 µs at 100 ns a line.
const LINES_OF_A_TURN: f64 = 1_300.0;

/// How what a node lacks of its pace goes away in the course of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Form {
    /// exp(−t/τ): what is needed next is by chance something that is there already.
    Even,
    /// All of it until τ, then nothing: a program that goes through its data once and has them.
    Step,
    /// Half of it in τ, half in [`Form::LATER`] times that: some data are wanted all the time, others now and then.
    Tail,
}

impl Form {
    const ALL: [(f64, Form); FORMS] = [(0.5, Form::Even), (0.25, Form::Step), (0.25, Form::Tail)];
    const LATER: f64 = 3.0;
}

/// R(L) for a node of depth 1, by the length of a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Curve {
    form: Form,
    recovery_ns: f64,
}

impl Curve {
    const USUAL: Curve = Curve { form: Form::Even, recovery_ns: RECOVERY.as_nanos() as f64 };

    /// The curves that are considered, each with how likely it is before anything was seen; those that only turns of
    /// the length of a `window` can tell are not, if there are none.
    fn considered(window: Option<RealDuration>) -> [(f64, Curve); SHAPES] {
        std::array::from_fn(|i| {
            let (likely, form) = Form::ALL[i % FORMS];
            let deviations = ((i / FORMS) as f64 - USUAL_RECOVERY as f64) / 2.0;
            let beyond = (deviations - USUAL_RECOVERY as f64 / 2.0).max(0.0);
            let recovery_ns = Curve::USUAL.recovery_ns * RECOVERY_SPREAD.powf(deviations);
            let told = window.map_or(0.0, |window| TOLD_BY_WINDOWS * window.as_nanos() as f64);
            let believed = if beyond > 0.0 && recovery_ns > told { 0.0 } else { 1.0 };
            // Nothing is known of those but that they are rarer than the usual ones.
            let normal = (-(deviations - beyond).powi(2) / 2.0).exp();
            (likely * believed * normal, Curve { form, recovery_ns })
        })
    }

    /// R(L) / L of a node of depth 1: between 0, for endless turns, and 1.
    fn part(self, turn: RealDuration) -> f64 {
        let x = turn.as_nanos() as f64 / self.recovery_ns;
        let even = |x: f64| if x < 1e-6 { 1.0 } else { -(-x).exp_m1() / x };
        match self.form {
            Form::Even => even(x),
            Form::Step => x.recip().min(1.0),
            Form::Tail => (even(x) + even(x / Form::LATER)) / 2.0,
        }
    }
}

/// What is believed of a node before it has done anything.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guess {
    depth: f64,
    error: f64,
}

impl Guess {
    /// Nothing is known: no refill, give or take half of the pace.
    pub const NONE: Guess = Guess { depth: 0.0, error: 0.5 };

    /// From what it costs on this core to come back to data after the node's own gap between turns. Memory is the same
    /// for all programs and how much of it they use is not: half of what a server would lose, give or take as much.
    pub fn of(probe: Staleness) -> Guess {
        let line = probe.late.saturating_sub(probe.soon).as_nanos() as f64;
        let server = (LINES_OF_A_TURN * line / Curve::USUAL.recovery_ns).min(1.0);
        Guess { depth: server / 2.0, error: (server / 2.0).max(0.1) }
    }
}

/// What is known of a node's refill.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Refill {
    shapes: [Shape; SHAPES],
    /// How many rounds of turn lengths it is from.
    pub rounds: u32,
    /// And how many windows of the longest turns.
    pub windows: u32,
}

/// What a node's depth is if nodes recover by a curve, and how far that is believed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    curve: Curve,
    /// All sum to 1.
    weight: f64,
    depth: f64,
    /// Standard error of `depth`, of what was counted.
    error: f64,
}

/// By how much a node's share is to be raised in turns of each length, so that in all of them the node does the work
/// that its share is for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factors {
    /// In the shortest turns, and so on; at least 1.
    pub by_turn: [f64; LENGTHS],
    /// In turns of the longest length that there is.
    pub long: f64,
    /// Whether they would be larger if they might.
    pub capped: bool,
}

impl Factors {
    /// The share as it is.
    pub const ONE: Factors = Factors { by_turn: [1.0; LENGTHS], long: 1.0, capped: false };

    /// The mean over the time, of which each length has as much.
    pub fn mean(&self) -> f64 {
        self.by_turn.iter().sum::<f64>() / LENGTHS as f64
    }

    /// With so much of what is beyond 1.
    fn shrunk(&self, left: f64) -> Factors {
        let shrunk = |value: f64| 1.0 + left * (value - 1.0);
        Factors { by_turn: self.by_turn.map(shrunk), long: shrunk(self.long), capped: self.capped }
    }
}

impl Refill {
    /// R of a turn of this length, and its standard error, which includes what is not known of the shape.
    pub fn of_turn(&self, turn: RealDuration) -> (RealDuration, RealDuration) {
        let Part { part, counted, shape } = self.part(turn);
        let ns = |part: f64| RealDuration::from_nanos((part * turn.as_nanos() as f64).round() as u64);
        (ns(part.max(0.0)), ns(counted.hypot(shape)))
    }

    fn part(&self, turn: RealDuration) -> Part {
        let mean = |of: &dyn Fn(f64, &Shape) -> f64| {
            self.shapes.iter().map(|shape| shape.weight * of(shape.curve.part(turn), shape)).sum::<f64>()
        };
        let part = mean(&|g, shape| g * shape.depth);
        let counted = mean(&|g, shape| (g * shape.error).powi(2)).sqrt();
        // Chance makes depths negative, and no shape says how negative they are.
        let lost = mean(&|g, shape| g * shape.depth.max(0.0));
        let shape = mean(&|g, shape| (g * shape.depth.max(0.0) - lost).powi(2)).sqrt();
        Part { part, counted, shape }
    }

    /// L / (L − R) for each length of turn, as far as R is significant: one of less than its standard error counts as
    /// none, and a larger one is shrunk, the less the surer it is (the estimator of James and Stein, *Estimation with
    /// Quadratic Loss*, 1961, with the positive part). What is not given back is an error as much as what is given to
    /// a node that has lost nothing; with a larger constant, of which a node hardly ever gets what it does not need,
    /// a server that lost a third was given an eighth of that in a run of 50 s, and with this one a third.
    pub fn factors(&self, around: &Alternation) -> Factors {
        let Part { part, counted, .. } = self.part(around.mean());
        let significant = if part > 0.0 { significant(part, counted) / part } else { 0.0 };
        let parts = around.turns().map(|turn| significant * self.part(turn).part.max(0.0));
        let most = |factor: f64, part: f64| (1.0 - 1.0 / factor) / part;
        let within = most(LARGEST_FACTOR, significant * part.max(0.0)).min(most(LARGEST_IN_A_TURN, parts[0])).min(1.0);
        let raised = |part: f64| 1.0 / (1.0 - within * part);
        // Never more than in shorter turns, in which room was found for it.
        let long = (significant * self.part(around.in_windows()).part.max(0.0)).min(parts[LENGTHS - 1]);
        let all = Factors { by_turn: parts.map(raised), long: raised(long), capped: within < 1.0 };
        match all.mean() > LARGEST_MEAN {
            true => Factors { capped: true, ..all.shrunk((LARGEST_MEAN - 1.0) / (all.mean() - 1.0)) },
            false => all,
        }
    }
}

/// The part of a turn that goes into the refill, with its two standard errors.
struct Part {
    part: f64,
    /// Of what was counted.
    counted: f64,
    /// Of what is not known of the shape.
    shape: f64,
}

fn significant(value: f64, error: f64) -> f64 {
    if value <= 0.0 { 0.0 } else { (value - error * error / value).max(0.0) }
}

/// Fits factors into the room that there is: of shares of a core and their factors, those factors that sum to no more
/// than `room` of the core in turns of any length. What is beyond 1 shrinks alike for all; nothing goes below 1,
/// though the shares alone may be more than the room.
pub fn fit(shares: &[f64], factors: &[Factors], room: f64) -> Vec<Factors> {
    let sold: f64 = shares.iter().sum();
    let wanted = |i: usize| shares.iter().zip(factors).map(|(s, f)| s * (f.by_turn[i] - 1.0)).sum::<f64>();
    let wanted = (0..LENGTHS).map(wanted).fold(0.0, f64::max);
    let left = ((room - sold) / wanted).max(0.0);
    if wanted <= 0.0 || left >= 1.0 {
        return factors.to_vec();
    }
    let fitted = |f: &Factors| Factors { capped: f.capped || f.mean() > 1.0, ..f.shrunk(left) };
    factors.iter().map(fitted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> RealDuration {
        RealDuration::from_nanos(us * 1_000)
    }

    fn known(depth: f64, error: f64) -> Refill {
        of_shapes(|_| depth, error)
    }

    fn of_shapes(depth: impl Fn(Curve) -> f64, error: f64) -> Refill {
        let only = |(_, curve)| Shape { curve, weight: f64::from(curve == Curve::USUAL), depth: depth(curve), error };
        Refill {
            shapes: Curve::considered(Some(RealDuration::from_nanos(u64::MAX))).map(only),
            rounds: 100,
            windows: 0,
        }
    }

    fn factors(refill: Refill, turn: RealDuration) -> Factors {
        refill.factors(&Alternation::around(turn, 0.03, RealDuration::ZERO))
    }

    #[test]
    fn the_shape_goes_through_what_was_measured_of_tls() {
        // 60 µs of 100 µs and 130 µs of 1.5 ms: one depth for both.
        let tls = known(0.81, 0.0);
        let (short, long) = (tls.of_turn(us(100)).0, tls.of_turn(us(1_500)).0);
        assert!((58_000..62_000).contains(&short.as_nanos()), "{short}");
        assert!((128_000..132_000).contains(&long.as_nanos()), "{long}");
        assert!(Curve::USUAL.part(RealDuration::ZERO) == 1.0 && Curve::USUAL.part(us(1_000_000)) < 1e-3);
    }

    #[test]
    fn what_is_lost_is_given_back_in_turns_of_each_length() {
        let tls = known(0.81, 0.0);
        let around = Alternation::around(us(480), 0.03, RealDuration::ZERO);
        let given = tls.factors(&around);
        for (turn, factor) in around.turns().into_iter().zip(given.by_turn) {
            let lost = tls.of_turn(turn).0.as_secs_f64() / turn.as_secs_f64();
            assert!((factor * (1.0 - lost) - 1.0).abs() < 1e-4, "{factor} for {lost} of {turn}");
        }
        assert!(!given.capped && (1.45..1.6).contains(&given.mean()), "{given:?}");
        assert_eq!(factors(known(-0.3, 0.01), us(400)), Factors::ONE, "a node is never slowed down");
        assert_eq!(known(-0.3, 0.01).of_turn(us(400)).0, RealDuration::ZERO);
    }

    #[test]
    fn no_more_than_the_cap_is_given() {
        for (depth, turn) in [(0.81, 100), (1.25, 100), (1.25, 400), (1e9, 400), (1e9, 3_000)] {
            let given = factors(known(depth, 0.0), us(turn));
            assert!(given.capped && given.by_turn[0] <= LARGEST_IN_A_TURN + 1e-9, "{depth}, {turn}: {given:?}");
            assert!(given.by_turn.is_sorted_by(|a, b| a > b) && given.mean() < 1.7, "{depth}, {turn}: {given:?}");
        }
    }

    #[test]
    fn what_is_not_significant_changes_nothing() {
        let mean = |depth, error| factors(known(depth, error), us(400)).mean();
        assert_eq!(mean(0.059, 0.06), 1.0);
        let hardly = mean(0.07, 0.06);
        assert!(1.0 < hardly && hardly < 1.0 + (mean(0.07, 0.0) - 1.0) / 2.0, "{hardly}");
        let well = mean(0.6, 0.02) / mean(0.6, 0.0);
        assert!((0.995..1.0).contains(&well), "{well}");
    }

    #[test]
    fn an_unknown_shape_is_an_error() {
        let sure = known(0.5, 0.0).of_turn(us(400)).1;
        let mut unsure = known(0.5, 0.0);
        let weights = Curve::considered(None).map(|(before, _)| before);
        unsure.shapes.iter_mut().zip(weights).for_each(|(shape, weight)| shape.weight = weight / 5.0);
        let wrong = unsure.of_turn(us(400)).1;
        assert!(sure == RealDuration::ZERO && wrong > us(10), "{sure}, {wrong}");
        unsure.shapes.iter_mut().for_each(|shape| shape.depth = -0.3);
        assert_eq!(
            unsure.of_turn(us(400)),
            (RealDuration::ZERO, RealDuration::ZERO),
            "no form loses less than nothing"
        );
    }

    #[test]
    fn the_first_guess_is_of_the_cores_caches() {
        let probe = |late| Staleness {
            soon: RealDuration::from_nanos(4),
            away: us(10_000),
            late: RealDuration::from_nanos(late),
        };
        let [warm, cold, awful] = [4, 60, 5_000].map(|late| Guess::of(probe(late)));
        assert_eq!(warm.depth, 0.0);
        assert!((0.2..0.3).contains(&cold.depth) && cold.error >= cold.depth, "{cold:?}");
        assert!(awful.depth <= 0.5, "{awful:?}");
    }

    #[test]
    fn factors_fit_into_the_room_that_there_is() {
        let of = |short, middle, long| Factors { by_turn: [short, middle, long], long: 1.0, capped: false };
        let wanted = [of(1.6, 1.5, 1.4), of(1.0, 1.0, 1.0), of(1.2, 1.2, 1.2)];
        let shares = [0.3, 0.1, 0.2];
        assert_eq!(fit(&shares, &wanted, 0.9), wanted, "there is room for all: {}", 0.6 + 0.18 + 0.04);
        let fitted = fit(&shares, &wanted, 0.71);
        let sum: f64 = shares.iter().zip(&fitted).map(|(s, f)| s * f.by_turn[0]).sum();
        assert!((sum - 0.71).abs() < 1e-12, "{fitted:?}");
        assert!(fitted[0].capped && !fitted[1].capped && fitted[2].capped, "{fitted:?}");
        assert!(fit(&shares, &wanted, 0.5).iter().all(|f| f.by_turn == [1.0; LENGTHS]));
        assert_eq!(fit(&[], &[], 0.9), []);
    }
}
