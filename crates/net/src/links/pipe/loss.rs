//! Where a pipe has got to in losing packets before they reach its queue.

use scale::link::Loss;

use crate::links::pipe::draws::{Draws, Purpose};

/// Where a pipe's loss has got to.
#[derive(Clone, Debug)]
pub(crate) struct LossState {
    /// Packets offered to the pipe before this loss was set: ordinal numbers count from there.
    before: u64,
    bad: bool,
}

impl LossState {
    /// A loss that is set after `offered` packets.
    pub fn since(offered: u64) -> Self {
        LossState { before: offered, bad: false }
    }

    /// Decides the fate of the n-th packet offered to the pipe; each must be asked about, in turn.
    pub fn is_lost(&mut self, loss: &Loss, draws: &Draws, n: u64) -> bool {
        match loss {
            Loss::Random(p) => draws.happens(Purpose::Loss, n, *p),
            Loss::GilbertElliott(chain) => {
                let turn = if self.bad { chain.r } else { chain.p };
                self.bad ^= draws.happens(Purpose::Burst, n, turn);
                draws.happens(Purpose::Loss, n, if self.bad { chain.bad } else { chain.good })
            }
            Loss::Every(k) => (n - self.before).is_multiple_of(*k),
            Loss::Packets(list) => list.binary_search(&(n - self.before)).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scale::link::GilbertElliott;

    fn fates(seed: u64, pipe: &str, loss: &Loss, n: u64) -> Vec<bool> {
        let (mut state, draws) = (LossState::since(0), Draws::new(seed, pipe));
        (1..=n).map(|i| state.is_lost(loss, &draws, i)).collect()
    }

    /// Whether a count is within 4 standard deviations of what a binomial distribution expects: a chance of 6e-5 to
    /// fail, and the seeds are fixed.
    fn binomial(count: usize, n: usize, p: f64) -> bool {
        let (count, n) = (count as f64, n as f64);
        (count - n * p).abs() < 4.0 * (n * p * (1.0 - p)).sqrt()
    }

    #[test]
    fn a_higher_loss_loses_the_same_packets_and_more() {
        let (low, high) = (fates(7, "x", &Loss::Random(0.01), 10_000), fates(7, "x", &Loss::Random(0.1), 10_000));
        assert!(low.iter().zip(&high).all(|(l, h)| !l || *h));
    }

    #[test]
    fn the_rate_and_the_independence_of_neighbours_are_binomial() {
        for p in [0.008, 0.025, 0.12, 0.5] {
            let f = fates(1, "star--core/ab", &Loss::Random(p), 2_000_000);
            assert!(binomial(f.iter().filter(|l| **l).count(), f.len(), p), "loss {p}");
            assert!(binomial(f.windows(2).filter(|w| w[0] && w[1]).count(), f.len(), p * p), "pairs at loss {p}");
        }
    }

    /// The lengths of the runs of losses.
    fn bursts(fates: &[bool]) -> Vec<usize> {
        fates.chunk_by(|a, b| a == b).filter(|run| run[0]).map(<[bool]>::len).collect()
    }

    #[test]
    fn gilberts_bursts_are_as_frequent_and_as_long_as_his_chain_says() {
        let (p, r) = (0.01, 0.25);
        let chain = Loss::GilbertElliott(GilbertElliott { p, r, good: 0.0, bad: 1.0 });
        let f = fates(1, "x", &chain, 2_000_000);
        let lost = f.iter().filter(|l| **l).count();
        let bursts = bursts(&f);
        // In the bad state p / (p + r) of the time, for geometric stays of 1 / r packets.
        let share = lost as f64 / f.len() as f64;
        assert!((share / (p / (p + r)) - 1.0).abs() < 0.03, "{share} lost");
        let mean = lost as f64 / bursts.len() as f64;
        assert!((mean * r - 1.0).abs() < 0.03, "bursts of {mean}");
        for longer in [1, 2, 5, 10] {
            let count = bursts.iter().filter(|b| **b > longer).count();
            assert!(binomial(count, bursts.len(), (1.0 - r).powi(longer as i32)), "{count} longer than {longer}");
        }
    }

    #[test]
    fn elliott_loses_some_in_the_good_state_and_not_all_in_the_bad_one() {
        let (p, r, good, bad) = (0.02, 0.1, 0.005, 0.4);
        let f = fates(1, "x", &Loss::GilbertElliott(GilbertElliott { p, r, good, bad }), 2_000_000);
        let share = f.iter().filter(|l| **l).count() as f64 / f.len() as f64;
        let expected = (r * good + p * bad) / (p + r);
        assert!((share / expected - 1.0).abs() < 0.03, "{share} instead of {expected}");
        // A packet after a lost one: in the bad state with the probability that Bayes gives, less those that pass on.
        let after = f.windows(2).filter(|w| w[0] && w[1]).count() as f64 / f.windows(2).filter(|w| w[0]).count() as f64;
        let was_bad = p * bad / (r * good + p * bad);
        let is_bad = was_bad * (1.0 - r) + (1.0 - was_bad) * p;
        let expected = is_bad * bad + (1.0 - is_bad) * good;
        assert!((after / expected - 1.0).abs() < 0.03, "{after} instead of {expected}");
    }

    #[test]
    fn a_chain_that_never_leaves_its_good_state_is_a_random_loss() {
        let chain = GilbertElliott { p: 0.0, r: 1.0, good: 0.03, bad: 1.0 };
        assert_eq!(fates(5, "x", &Loss::GilbertElliott(chain), 50_000), fates(5, "x", &Loss::Random(0.03), 50_000));
    }

    #[test]
    fn ordinal_numbers_count_from_the_setting_of_the_loss() {
        let lost = |loss: Loss, offered: u64| {
            let (mut state, draws) = (LossState::since(offered), Draws::new(0, "x"));
            let lost: Vec<u64> = (1..=12).filter(|i| state.is_lost(&loss, &draws, offered + i)).collect();
            lost
        };
        for offered in [0, 17] {
            assert_eq!(lost(Loss::Every(5), offered), [5, 10]);
            assert_eq!(lost(Loss::Packets(vec![1, 3, 4, 99]), offered), [1, 3, 4]);
        }
        assert_eq!(lost(Loss::Every(1), 0).len(), 12);
        assert_eq!(lost(Loss::Packets(Vec::new()), 0), Vec::<u64>::new());
    }
}
