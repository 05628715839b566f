//! Which packets a pipe loses: decided by the seed, the pipe's name and the packet's ordinal number, by nothing else.

/// The fates of the packets of one pipe.
///
/// The n-th draw is the n-th output of SplitMix64 (Steele, Lea, Flood: *Fast splittable pseudorandom number generators*,
/// OOPSLA 2014), so neither the other pipes nor the loss probability in force at the time shift the sequence.
#[derive(Clone, Debug)]
pub(crate) struct LossStream {
    state: u64,
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl LossStream {
    /// The stream of the pipe called `pipe`. It depends on the name, not on the place in the file, so that a link more
    /// or less leaves the fates on the others as they were.
    pub fn new(seed: u64, pipe: &str) -> Self {
        let state = pipe.bytes().fold(mix(seed.wrapping_add(GOLDEN)), |h, b| mix(h ^ u64::from(b)));
        LossStream { state }
    }

    /// Decides the next packet's fate; each packet offered to the pipe draws once.
    pub fn is_lost(&mut self, probability: f64) -> bool {
        self.state = self.state.wrapping_add(GOLDEN);
        // 53 bits: every double in [0, 1) that has this spacing is equally likely.
        ((mix(self.state) >> 11) as f64) * (1.0 / (1u64 << 53) as f64) < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(seed: u64, pipe: &str, p: f64, n: usize) -> Vec<bool> {
        let mut s = LossStream::new(seed, pipe);
        (0..n).map(|_| s.is_lost(p)).collect()
    }

    #[test]
    fn the_same_seed_and_pipe_give_the_same_fates_and_others_do_not() {
        let base = fates(7, "a--b/ab", 0.1, 1000);
        assert_eq!(base, fates(7, "a--b/ab", 0.1, 1000));
        assert_ne!(base, fates(8, "a--b/ab", 0.1, 1000));
        assert_ne!(base, fates(7, "a--b/ba", 0.1, 1000));
    }

    #[test]
    fn a_higher_loss_loses_the_same_packets_and_more() {
        let (low, high) = (fates(7, "x", 0.01, 10_000), fates(7, "x", 0.1, 10_000));
        assert!(low.iter().zip(&high).all(|(l, h)| !l || *h));
    }

    #[test]
    fn the_rate_and_the_independence_of_neighbours_are_binomial() {
        // 2 million draws: the standard deviation of the count is sqrt(n p (1-p)); 4 of them is a chance of 6e-5, and
        // the seed is fixed, so this never flickers.
        let n = 2_000_000;
        for p in [0.008, 0.025, 0.12, 0.5] {
            let f = fates(1, "star--core/ab", p, n);
            let within = |count: usize, p: f64| {
                let (n, p) = (n as f64, p);
                (count as f64 - n * p).abs() < 4.0 * (n * p * (1.0 - p)).sqrt()
            };
            assert!(within(f.iter().filter(|l| **l).count(), p), "loss {p}");
            assert!(within(f.windows(2).filter(|w| w[0] && w[1]).count(), p * p), "pairs at loss {p}");
        }
    }

    #[test]
    fn nought_never_loses_and_one_always_does() {
        assert!(!fates(3, "x", 0.0, 10_000).contains(&true));
        assert!(!fates(3, "x", 1.0, 10_000).contains(&false));
    }
}
