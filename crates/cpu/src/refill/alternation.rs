//! Which length of turn is in force when.

use scale::{RealDuration, Turns};

use crate::terms::{LONGEST_SLICE, SHORTEST_SLICE};

/// Of how many lengths turns are: two tell how deep a node's refill is, and the third how soon it is over.
pub const LENGTHS: usize = 3;
/// The shortest is this part of the chosen turn.
const SHORTEST_PART: f64 = 1.0 / 3.0;
/// Where it cannot be that short, the longest is at least this many times as long.
const LEAST_RATIO: f64 = 1.5;
/// How long a length is in force at least, in cycles of the node that comes round most rarely.
const CYCLES: f64 = 8.0;
/// And so long that a run has about so many rounds of all lengths: what a node is in the middle of when a length begins
/// or ends is counted where it ends, and the fewer times there are the less that matters; but some are needed to tell
/// how much they scatter.
const ROUNDS: f64 = 32.0;
/// Bounds of that: fewer turns say nothing; in more time the core and the nodes change.
const SHORTEST: RealDuration = RealDuration::from_nanos(200_000_000);
const LONGEST: RealDuration = RealDuration::from_nanos(2_000_000_000);
/// The part of that time that is not counted.
const WASH_OUT: f64 = 0.25;

/// The orders in which the lengths of a round are in force. Each length is twice in each place, and what one order is
/// the next is backwards, so that a drift does not go along with them.
const ORDERS: [[usize; LENGTHS]; 6] = [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1], [2, 0, 1], [1, 0, 2]];

/// Three lengths of turn around a chosen one, and the order in which they are in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alternation {
    turns: [RealDuration; LENGTHS],
    window: RealDuration,
    dwell: RealDuration,
}

/// A length of turn, and for how long it is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dwell {
    /// Which one it is: 0 for the shortest.
    pub which: usize,
    /// The length.
    pub turn: RealDuration,
    /// The first part of its time: what is done in it was begun in turns of the other length.
    pub wash_out: RealDuration,
    /// The rest of it, in which is counted.
    pub counted: RealDuration,
    /// Whether it is the last of a round of all lengths.
    pub ends_round: bool,
}

impl Alternation {
    /// Around turns of length `turn`, for nodes of which `smallest_share` is the smallest share of the core, in a run
    /// that lasts for so long at least (zero if nobody knows). The mean is `turn` as far as no turn is shorter or
    /// longer than the kernel grants; the longest is as many times the middle one as that is the shortest.
    pub fn around(turn: RealDuration, smallest_share: f64, lasts: RealDuration) -> Alternation {
        let secs = turn.as_secs_f64();
        let [shortest, longest] = [SHORTEST_SLICE, LONGEST_SLICE].map(RealDuration::as_secs_f64);
        let short = (SHORTEST_PART * secs).max(shortest);
        let long = third(secs, short).max(LEAST_RATIO * short);
        let [short, long] = match long > longest {
            true => [third(secs, longest).min(longest / LEAST_RATIO), longest],
            false => [short, long],
        };
        let cycle = secs / smallest_share.clamp(1e-4, 1.0);
        let of_run = lasts.as_secs_f64() / (ROUNDS * LENGTHS as f64);
        let dwell = RealDuration::from_secs_f64(of_run.max(CYCLES * cycle)).clamp(SHORTEST, LONGEST);
        let turns = [short, (short * long).sqrt(), long].map(RealDuration::from_secs_f64);
        Alternation { turns, window: LONGEST_SLICE, dwell }
    }

    /// The same for a node whose turns are so many times as long.
    pub fn stretched(&self, stretch: f64) -> Alternation {
        Alternation { turns: self.turns.map(|turn| Turns::stretched(turn, stretch)), ..*self }
    }

    /// The same for a node whose turns last so long in its [windows](super::Windows); otherwise that is the longest
    /// slice.
    pub fn with_windows_of(self, window: RealDuration) -> Alternation {
        Alternation { window, ..self }
    }

    /// How long turns last in a window.
    pub fn in_windows(&self) -> RealDuration {
        self.window
    }

    /// The lengths, the shortest first.
    pub fn turns(&self) -> [RealDuration; LENGTHS] {
        self.turns
    }

    /// Their mean, which is that of all turns of the run: each is in force for as long.
    pub fn mean(&self) -> RealDuration {
        RealDuration::from_nanos(self.turns.map(RealDuration::as_nanos).iter().sum::<u64>() / LENGTHS as u64)
    }

    /// The `n`-th time that a length is in force, from 0 on.
    pub fn dwell(&self, n: u64) -> Dwell {
        let wash_out = RealDuration::from_secs_f64(WASH_OUT * self.dwell.as_secs_f64());
        let (round, place) = (n / LENGTHS as u64, (n % LENGTHS as u64) as usize);
        let which = ORDERS[(round % ORDERS.len() as u64) as usize][place];
        Dwell {
            which,
            turn: self.turns[which],
            wash_out,
            counted: self.dwell.saturating_sub(wash_out),
            ends_round: place + 1 == LENGTHS,
        }
    }
}

/// Of three lengths, of which each is as many times the one before, and whose mean is `mean`, the shortest or longest
/// if the other is `one`; 0 if there are none.
fn third(mean: f64, one: f64) -> f64 {
    // With u², u √one and one: u² + u √one + one = 3 mean.
    let u = ((12.0 * mean - 3.0 * one).max(0.0).sqrt() - one.sqrt()) / 2.0;
    u.max(0.0).powi(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> RealDuration {
        RealDuration::from_nanos(us * 1_000)
    }

    #[test]
    fn the_mean_is_the_chosen_turn() {
        for chosen in [150, 160, 250, 400, 640, 1_400, 2_000] {
            let around = Alternation::around(us(chosen), 0.03, RealDuration::ZERO);
            let [short, middle, long] = around.turns().map(RealDuration::as_secs_f64);
            assert!((around.mean().as_nanos() as f64 / us(chosen).as_nanos() as f64 - 1.0).abs() < 1e-3, "{around:?}");
            assert!((middle * middle / short / long - 1.0).abs() < 1e-3 && long >= LEAST_RATIO * short, "{around:?}");
        }
    }

    #[test]
    fn a_node_with_longer_turns_has_all_of_them_longer() {
        let around = Alternation::around(RealDuration::from_nanos(400_000), 0.004, RealDuration::ZERO);
        let longer = around.stretched(2.0);
        let twice = |a: &RealDuration, b: &RealDuration| b.as_nanos().abs_diff(2 * a.as_nanos()) <= 1;
        assert!(around.turns().iter().zip(&longer.turns()).all(|(a, b)| twice(a, b)));
        assert_eq!((longer.dwell(1).counted, longer.dwell(1).which), (around.dwell(1).counted, around.dwell(1).which));
        assert_eq!(around.stretched(10.0).turns()[2], LONGEST_SLICE);
    }

    #[test]
    fn no_turn_is_shorter_or_longer_than_the_kernel_grants() {
        for chosen in [100, 110, 125, 400, 1_500, 2_000, 3_000] {
            let around = Alternation::around(us(chosen), 0.03, RealDuration::ZERO);
            let [short, _, long] = around.turns();
            assert!(SHORTEST_SLICE <= short && long <= LONGEST_SLICE, "{around:?}");
            assert!(long.as_secs_f64() >= 1.49 * short.as_secs_f64(), "{around:?}");
        }
    }

    #[test]
    fn every_round_has_all_for_equally_long() {
        let around = Alternation::around(us(400), 0.03, RealDuration::ZERO);
        let dwells: Vec<_> = (0..36).map(|n| around.dwell(n)).collect();
        for round in dwells.chunks(LENGTHS) {
            let mut which: Vec<_> = round.iter().map(|d| d.which).collect();
            which.sort_unstable();
            assert_eq!(which, [0, 1, 2]);
            assert_eq!(round.iter().map(|d| d.ends_round).collect::<Vec<_>>(), [false, false, true]);
        }
        assert!(dwells.iter().all(|d| d.wash_out + d.counted == around.dwell && d.wash_out < d.counted));
        for place in 0..LENGTHS {
            let there: usize = dwells.iter().skip(place).step_by(LENGTHS).map(|d| d.which).sum();
            assert_eq!(there, 12, "each length is as often in place {place}");
        }
    }

    #[test]
    fn rare_turns_are_given_more_time() {
        let dwell = |turn, share| {
            let d = Alternation::around(turn, share, RealDuration::ZERO).dwell(0);
            d.wash_out + d.counted
        };
        assert_eq!(dwell(us(100), 0.5), SHORTEST);
        assert_eq!(dwell(us(400), 0.04), SHORTEST, "80 ms would do");
        let rare = dwell(us(400), 0.004);
        assert!((790..810).contains(&(rare.as_nanos() / 1_000_000)), "{rare}");
        assert_eq!(dwell(us(3_000), 0.0), LONGEST);
    }
}
