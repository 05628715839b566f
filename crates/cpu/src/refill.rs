//! What a node loses at the start of each turn, measured while it runs, and given back as a larger share.
//!
//! A machine of the target has its core to itself. A node's turn here begins with caches that others have used in
//! between, so part of it goes into fetching data again: of a turn of length L the *refill* R(L), which grows with L
//! and levels off. The node then does the work of L − R. Its share may be raised by L / (L − R), where there is room.
//!
//! R is measured without any counter of the hardware: turns [alternate](Alternation) between two lengths, and an
//! [`Estimator`] compares what the node got done per second of its CPU time in each. All of this is arithmetic; who
//! counts and who sets turns is elsewhere.
//!
//! **The shape.** After a gap the node begins at 1 − d of its pace and gains what it lacks exponentially: 1 − d
//! exp(−t/τ) at time t of its turn. Then R(L) = d τ (1 − exp(−L/τ)): the turn, while it is short, and d τ for long
//! ones. Only d, the *depth*, is estimated; τ is [`RECOVERY`], and what that may be wrong by is in the stated error.

mod alternation;
mod estimator;
#[cfg(test)]
mod simulation;

use scale::RealDuration;
use serde::{Deserialize, Serialize};

pub use alternation::{Alternation, Dwell};
pub use estimator::{Estimator, Observed};

use crate::caches::Staleness;

/// τ: how long it takes a node to gain most of its pace in a turn. From the two best known points: a server of TLS
/// handshakes lost 60 µs of turns of 100 µs and 130 µs of turns of 1.5 ms (`docs/cpu.md`).
pub const RECOVERY: RealDuration = RealDuration::from_nanos(160_000);

/// By what factor τ may be wrong, either way.
const RECOVERY_SPREAD: f64 = 1.6;

/// No node's share is raised by more than this in turns of the chosen length, whatever its estimate says, and in the
/// shorter ones by no more than the second.
pub const LARGEST_FACTOR: f64 = 1.6;
const LARGEST_IN_A_TURN: f64 = 2.0;

/// Memory that a server fetches again in a turn, in lines: what a cache probe finds for one, times these, is the first
/// guess of the refill. 130 µs at 100 ns a line.
const LINES_OF_A_TURN: f64 = 1_300.0;

/// R(L) for a node of depth 1, by the length of a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Curve {
    recovery_ns: f64,
}

impl Curve {
    const USUAL: Curve = Curve { recovery_ns: RECOVERY.as_nanos() as f64 };

    fn slower_by(self, factor: f64) -> Curve {
        Curve { recovery_ns: self.recovery_ns * factor }
    }

    /// R(L) / L of a node of depth 1: between 0, for endless turns, and 1.
    fn part(self, turn: RealDuration) -> f64 {
        let x = turn.as_nanos() as f64 / self.recovery_ns;
        if x < 1e-6 { 1.0 } else { -(-x).exp_m1() / x }
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refill {
    depth: f64,
    /// Standard error of `depth`, of what was counted.
    error: f64,
    /// By how much `depth`-dependent figures move if τ is larger or smaller: the estimates of depth under those.
    depth_by_recovery: [f64; 2],
    /// How many pairs of turn lengths it is from.
    pub pairs: u32,
}

/// By how much a node's share is to be raised in turns of each of two lengths, so that in both the node does the work
/// that its share is for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factors {
    /// In the shorter and in the longer turns; at least 1.
    pub by_turn: [f64; 2],
    /// Whether they would be larger if they might.
    pub capped: bool,
}

impl Factors {
    /// The share as it is.
    pub const ONE: Factors = Factors { by_turn: [1.0; 2], capped: false };

    /// The mean over the time, of which each length has half.
    pub fn mean(&self) -> f64 {
        self.by_turn.iter().sum::<f64>() / 2.0
    }
}

impl Refill {
    /// R of a turn of this length, and its standard error, which includes what is not known of the shape.
    pub fn of_turn(&self, turn: RealDuration) -> (RealDuration, RealDuration) {
        let (part, error) = self.part(turn);
        let ns = |part: f64| RealDuration::from_nanos((part * turn.as_nanos() as f64).round() as u64);
        (ns(part), ns(error))
    }

    /// The part of a turn of this length that goes into the refill, never below 0, and its standard error.
    fn part(&self, turn: RealDuration) -> (f64, f64) {
        let part = self.depth * Curve::USUAL.part(turn);
        let counted = self.error * Curve::USUAL.part(turn);
        let spread = [RECOVERY_SPREAD, 1.0 / RECOVERY_SPREAD];
        let others = [0, 1].map(|i| self.depth_by_recovery[i] * Curve::USUAL.slower_by(spread[i]).part(turn));
        let shape = others.iter().map(|other| (other - part).abs()).fold(0.0, f64::max);
        (part.max(0.0), counted.hypot(shape))
    }

    /// L / (L − R) for both lengths of turn, as far as R is significant: one of less than 1.7 standard errors counts as
    /// none, and a larger one is shrunk, the less the surer it is (the estimator of James and Stein, *Estimation with
    /// Quadratic Loss*, 1961, with the positive part and a larger constant: a node that needs nothing must be given
    /// nothing).
    pub fn factors(&self, around: &Alternation) -> Factors {
        let depth = significant(self.depth, self.error);
        let most = |factor: f64, turn| (1.0 - 1.0 / factor) / Curve::USUAL.part(turn);
        let deepest = most(LARGEST_FACTOR, around.mean()).min(most(LARGEST_IN_A_TURN, around.turns()[0]));
        let kept = depth.min(deepest);
        let by_turn = around.turns().map(|turn| 1.0 / (1.0 - kept * Curve::USUAL.part(turn)));
        Factors { by_turn, capped: depth > deepest }
    }
}

fn significant(value: f64, error: f64) -> f64 {
    if value <= 0.0 { 0.0 } else { (value - 3.0 * error * error / value).max(0.0) }
}

/// Fits factors into the room that there is: of shares of a core and their factors, those factors that sum to no more
/// than `room` of the core in turns of either length. What is beyond 1 shrinks alike for all; nothing goes below 1,
/// though the shares alone may be more than the room.
pub fn fit(shares: &[f64], factors: &[Factors], room: f64) -> Vec<Factors> {
    let sold: f64 = shares.iter().sum();
    let wanted = |i: usize| shares.iter().zip(factors).map(|(s, f)| s * (f.by_turn[i] - 1.0)).sum::<f64>();
    let wanted = wanted(0).max(wanted(1));
    let left = ((room - sold) / wanted).max(0.0);
    if wanted <= 0.0 || left >= 1.0 {
        return factors.to_vec();
    }
    let shrunk = |f: &Factors| Factors {
        by_turn: f.by_turn.map(|value| 1.0 + left * (value - 1.0)),
        capped: f.capped || f.mean() > 1.0,
    };
    factors.iter().map(shrunk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> RealDuration {
        RealDuration::from_nanos(us * 1_000)
    }

    fn known(depth: f64, error: f64) -> Refill {
        Refill { depth, error, depth_by_recovery: [depth; 2], pairs: 100 }
    }

    fn factors(refill: Refill, turn: RealDuration) -> Factors {
        refill.factors(&Alternation::around(turn, 0.03))
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
    fn what_is_lost_is_given_back_in_turns_of_both_lengths() {
        let tls = known(0.81, 0.0);
        let around = Alternation::around(us(400), 0.03);
        let given = tls.factors(&around);
        for (turn, factor) in around.turns().into_iter().zip(given.by_turn) {
            let lost = tls.of_turn(turn).0.as_secs_f64() / turn.as_secs_f64();
            assert!((factor * (1.0 - lost) - 1.0).abs() < 1e-4, "{factor} for {lost} of {turn}");
        }
        assert!(!given.capped && (1.5..1.6).contains(&given.mean()), "{given:?}");
        assert_eq!(factors(known(-0.3, 0.01), us(400)), Factors::ONE, "a node is never slowed down");
        assert_eq!(known(-0.3, 0.01).of_turn(us(400)).0, RealDuration::ZERO);
    }

    #[test]
    fn no_more_than_the_cap_is_given() {
        for (depth, turn) in [(0.81, 100), (1.25, 100), (1.25, 400), (1e9, 400), (1e9, 3_000)] {
            let given = factors(known(depth, 0.0), us(turn));
            assert!(given.capped && given.by_turn[0] <= LARGEST_IN_A_TURN + 1e-9, "{depth}, {turn}: {given:?}");
            assert!(given.by_turn[1] < given.by_turn[0] && given.mean() < 1.7, "{depth}, {turn}: {given:?}");
        }
    }

    #[test]
    fn what_is_not_significant_changes_nothing() {
        let mean = |depth, error| factors(known(depth, error), us(400)).mean();
        assert_eq!(mean(0.1, 0.06), 1.0);
        let hardly = mean(0.12, 0.06);
        assert!(1.0 < hardly && hardly < 1.0 + (mean(0.12, 0.0) - 1.0) / 2.0, "{hardly}");
        let well = mean(0.7, 0.03) / mean(0.7, 0.0);
        assert!((0.995..1.0).contains(&well), "{well}");
    }

    #[test]
    fn an_unknown_shape_is_an_error() {
        let sure = known(0.5, 0.0).of_turn(us(400)).1;
        let unsure = Refill { depth_by_recovery: [0.9, 0.2], ..known(0.5, 0.0) }.of_turn(us(400)).1;
        assert!(sure < unsure, "{sure}, {unsure}");
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
        let of = |short, long| Factors { by_turn: [short, long], capped: false };
        let wanted = [of(1.6, 1.4), of(1.0, 1.0), of(1.2, 1.2)];
        let shares = [0.3, 0.1, 0.2];
        assert_eq!(fit(&shares, &wanted, 0.9), wanted, "there is room for all: {}", 0.6 + 0.18 + 0.04);
        let fitted = fit(&shares, &wanted, 0.71);
        let sum: f64 = shares.iter().zip(&fitted).map(|(s, f)| s * f.by_turn[0]).sum();
        assert!((sum - 0.71).abs() < 1e-12, "{fitted:?}");
        assert!(fitted[0].capped && !fitted[1].capped && fitted[2].capped, "{fitted:?}");
        assert!(fit(&shares, &wanted, 0.5).iter().all(|f| f.by_turn == [1.0; 2]));
        assert_eq!(fit(&[], &[], 0.9), []);
    }
}
