//! Which length of turn is in force when.

use scale::RealDuration;

use crate::terms::SHORTEST_SLICE;

/// How much shorter than the chosen turn one of the two is, and by as much longer the other.
const SWING: f64 = 0.5;
/// Where the shorter one cannot be that short, the longer is at least this many times as long.
const LEAST_RATIO: f64 = 1.5;
/// How long a length is in force, in cycles of the node that comes round most rarely.
const CYCLES: f64 = 8.0;
/// Bounds of that: fewer turns say nothing; in more time the core and the nodes change.
const SHORTEST: RealDuration = RealDuration::from_nanos(200_000_000);
const LONGEST: RealDuration = RealDuration::from_nanos(2_000_000_000);
/// The part of that time that is not counted.
const WASH_OUT: f64 = 0.25;

/// Two lengths of turn around a chosen one, and the order in which they are in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alternation {
    turns: [RealDuration; 2],
    dwell: RealDuration,
}

/// A length of turn, and for how long it is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dwell {
    /// Which one it is: 0 for the shorter, 1 for the longer.
    pub which: usize,
    /// The length.
    pub turn: RealDuration,
    /// The first part of its time: what is done in it was begun in turns of the other length.
    pub wash_out: RealDuration,
    /// The rest of it, in which is counted.
    pub counted: RealDuration,
    /// Whether it is the second of a pair.
    pub ends_pair: bool,
}

impl Alternation {
    /// Around turns of length `turn`, for nodes of which `smallest_share` is the smallest share of the core. The mean
    /// is `turn`, but not less than 0.125 ms, as no turn is shorter than 0.1 ms.
    pub fn around(turn: RealDuration, smallest_share: f64) -> Alternation {
        let secs = turn.as_secs_f64();
        let short = (secs * (1.0 - SWING)).max(SHORTEST_SLICE.as_secs_f64());
        let long = (2.0 * secs - short).max(LEAST_RATIO * short);
        let cycle = secs / smallest_share.clamp(1e-4, 1.0);
        let dwell = RealDuration::from_secs_f64(CYCLES * cycle).clamp(SHORTEST, LONGEST);
        Alternation { turns: [short, long].map(RealDuration::from_secs_f64), dwell }
    }

    /// The two lengths, the shorter first.
    pub fn turns(&self) -> [RealDuration; 2] {
        self.turns
    }

    /// Their mean, which is that of all turns of the run: each is in force for half of the time.
    pub fn mean(&self) -> RealDuration {
        let [short, long] = self.turns.map(RealDuration::as_nanos);
        RealDuration::from_nanos((short + long) / 2)
    }

    /// The `n`-th time that a length is in force, from 0 on.
    ///
    /// The order is that of Thue and Morse, 01 10 10 01 …: each pair has both, and neither a drift nor anything
    /// periodic in the experiment goes along with it.
    pub fn dwell(&self, n: u64) -> Dwell {
        let wash_out = RealDuration::from_secs_f64(WASH_OUT * self.dwell.as_secs_f64());
        let which = (n.count_ones() % 2) as usize;
        Dwell {
            which,
            turn: self.turns[which],
            wash_out,
            counted: self.dwell.saturating_sub(wash_out),
            ends_pair: n % 2 == 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> RealDuration {
        RealDuration::from_nanos(us * 1_000)
    }

    #[test]
    fn the_mean_is_the_chosen_turn() {
        let around = Alternation::around(us(400), 0.03);
        assert_eq!((around.turns(), around.mean()), ([us(200), us(600)], us(400)));
        let shortest = Alternation::around(us(100), 0.03);
        assert_eq!((shortest.turns(), shortest.mean()), ([us(100), us(150)], us(125)));
        assert_eq!(Alternation::around(us(150), 0.03).mean(), us(150));
    }

    #[test]
    fn every_pair_has_both_for_equally_long() {
        let around = Alternation::around(us(400), 0.03);
        let dwells: Vec<_> = (0..64).map(|n| around.dwell(n)).collect();
        assert!(dwells.chunks(2).all(|pair| pair[0].which + pair[1].which == 1 && !pair[0].ends_pair));
        assert!(dwells.iter().all(|d| d.wash_out + d.counted == around.dwell && d.wash_out < d.counted));
        let firsts = dwells.chunks(2).map(|pair| pair[0].which).sum::<usize>();
        assert_eq!(firsts, 16, "each comes first in half of the pairs");
    }

    #[test]
    fn rare_turns_are_given_more_time() {
        let dwell = |turn, share| {
            let d = Alternation::around(turn, share).dwell(0);
            d.wash_out + d.counted
        };
        assert_eq!(dwell(us(100), 0.5), SHORTEST);
        assert_eq!(dwell(us(400), 0.04), SHORTEST, "80 ms would do");
        let rare = dwell(us(400), 0.004);
        assert!((790..810).contains(&(rare.as_nanos() / 1_000_000)), "{rare}");
        assert_eq!(dwell(us(3_000), 0.0), LONGEST);
    }
}
