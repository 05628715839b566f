//! Which packets are lost before they reach a queue.

use serde::{Deserialize, Serialize};

/// How a pipe loses packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Each packet with this probability, from 0 to 1, whatever becomes of the others.
    Random(f64),
    /// In bursts: a chain with a good and a bad state (Gilbert: *Capacity of a burst-noise channel*, Bell System
    /// Technical Journal 39, 1960; with losses in the good state, too, Elliott, ibid. 42, 1963).
    GilbertElliott(GilbertElliott),
    /// Every packet whose ordinal number is a multiple of this, at least 1.
    Every(u64),
    /// The packets with these ordinal numbers, from 1, in ascending order.
    Packets(Vec<u64>),
}

/// A chain with two states. Before each packet it may pass to the other state; then the state in force decides. It
/// begins good.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GilbertElliott {
    /// The probability of passing from the good state to the bad one (Gilbert's P).
    pub p: f64,
    /// The probability of passing from the bad state to the good one (Gilbert's p); a stay in the bad state lasts 1/r
    /// packets on average.
    pub r: f64,
    /// The probability that a packet is lost in the good state (Elliott's 1 − k).
    pub good: f64,
    /// The probability that a packet is lost in the bad state (Gilbert's 1 − h).
    pub bad: f64,
}

impl Loss {
    /// No loss.
    pub const NONE: Loss = Loss::Random(0.0);

    /// A complaint about a number; none if all are in their range.
    pub fn wrong(&self) -> Option<String> {
        let chance = |name: &str, p: f64| {
            (!(0.0..=1.0).contains(&p)).then(|| format!("a loss whose {name} is {p}; it must be from 0 to 1"))
        };
        match self {
            Loss::Random(p) => chance("probability", *p),
            Loss::GilbertElliott(g) => [("p", g.p), ("r", g.r), ("good", g.good), ("bad", g.bad)]
                .into_iter()
                .find_map(|(name, p)| chance(name, p)),
            Loss::Every(0) => Some("a loss of every 0th packet; it must be at least every 1st".into()),
            Loss::Every(_) => None,
            Loss::Packets(list) => (list.first() == Some(&0) || !list.is_sorted())
                .then(|| "a loss of packets that are not numbers from 1 upwards, in order".into()),
        }
    }

    /// The part of all packets that is lost in the long run, 0 to 1.
    pub fn mean(&self) -> f64 {
        match self {
            Loss::Random(p) => *p,
            // It begins in the good state; one that it never leaves is all that counts.
            Loss::GilbertElliott(GilbertElliott { p, good, .. }) if *p == 0.0 => *good,
            Loss::GilbertElliott(GilbertElliott { p, r, good, bad }) => (r * good + p * bad) / (p + r),
            Loss::Every(k) => 1.0 / *k as f64,
            Loss::Packets(_) => 0.0,
        }
    }
}

impl Default for Loss {
    fn default() -> Self {
        Loss::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_loss_is_that_of_the_long_run() {
        let chain = |p, r, good, bad| Loss::GilbertElliott(GilbertElliott { p, r, good, bad }).mean();
        assert_eq!(Loss::Random(0.25).mean(), 0.25);
        assert_eq!(Loss::Every(4).mean(), 0.25);
        assert_eq!(Loss::Packets(vec![1, 2]).mean(), 0.0);
        assert!((chain(0.01, 0.03, 0.0, 1.0) - 0.25).abs() < 1e-12);
        assert!((chain(0.01, 0.03, 0.1, 0.5) - 0.2).abs() < 1e-12);
        assert_eq!((chain(0.0, 0.0, 0.1, 1.0), chain(0.1, 0.0, 0.1, 1.0)), (0.1, 1.0));
    }
}
