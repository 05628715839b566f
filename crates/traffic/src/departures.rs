//! When the packets of a flow leave.

/// Properties of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pattern {
    /// How its packets follow one another.
    pub shape: Shape,
    /// After so many packets it ends.
    pub packets: Option<u64>,
}

impl Pattern {
    /// The pattern with other times: `of` says what each of them becomes.
    pub fn with_times(self, of: impl Fn(f64) -> f64) -> Pattern {
        let shape = match self.shape {
            Shape::Constant { interval, noise } => Shape::Constant { interval: of(interval), noise },
            Shape::Poisson { interval } => Shape::Poisson { interval: of(interval) },
            Shape::Bursts { interval, on, off, pareto } => {
                Shape::Bursts { interval: of(interval), on: of(on), off: of(off), pareto }
            }
            Shape::Greedy => Shape::Greedy,
        };
        Pattern { shape, ..self }
    }
}

/// How packets follow one another. All times are in seconds.
///
/// On–off sources are those of ns (*The ns Manual*, "Applications and transport agent API"): a burst lasts as long as
/// drawn, rounded to whole packets and at least one, a pause comes before the next one. With heavy tails, many such
/// flows together are self-similar, as real traffic is (Willinger and others, SIGCOMM '95).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// One after each interval; with `noise`, each comes up to half an interval sooner or later than that.
    Constant {
        /// Between two packets.
        interval: f64,
        /// Whether intervals vary, evenly distributed.
        noise: bool,
    },
    /// Intervals are exponentially distributed.
    Poisson {
        /// Their mean.
        interval: f64,
    },
    /// Bursts of packets at equal intervals, with pauses between them.
    Bursts {
        /// Between two packets of a burst.
        interval: f64,
        /// The mean length of a burst.
        on: f64,
        /// The mean length of a pause.
        off: f64,
        /// The shape of the Pareto distribution of both; none: they are exponentially distributed.
        pareto: Option<f64>,
    },
    /// As fast as the transport takes them.
    Greedy,
}

/// The departures of a flow in seconds since its start, packet by packet. The same pattern and seed give the same.
///
/// They are instants and not pauses: however late a packet leaves, the next one is due when it would have been, so that
/// the rate does not drift.
#[derive(Clone, Debug)]
pub struct Departures {
    pattern: Pattern,
    state: u64,
    /// How many packets have left.
    sent: u64,
    /// When the next one leaves.
    at: f64,
    /// How many are left of the burst.
    left: u64,
}

impl Departures {
    /// The departures of a new flow.
    pub fn new(pattern: Pattern, seed: u64) -> Departures {
        Departures { pattern, state: seed, sent: 0, at: 0.0, left: 0 }
    }

    /// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), evenly distributed over [0, 1). The program in nodes has nothing
    /// but the standard library, which has no generator.
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    /// By its mean, as ns has it: the least value is mean × (shape − 1) / shape.
    fn pareto(&mut self, mean: f64, shape: f64) -> f64 {
        mean * (shape - 1.0) / shape / (1.0 - self.uniform()).powf(1.0 / shape)
    }

    /// A length of the mean `mean`.
    fn length(&mut self, mean: f64, pareto: Option<f64>) -> f64 {
        match pareto {
            None => self.exponential(mean),
            Some(shape) => self.pareto(mean, shape),
        }
    }

    /// How many packets a burst has whose mean is `mean` packets.
    fn burst(&mut self, mean: f64, pareto: Option<f64>) -> u64 {
        (self.length(mean, pareto) + 0.5).max(1.0) as u64
    }

    /// The time from one packet to the next.
    fn gap(&mut self) -> f64 {
        match self.pattern.shape {
            Shape::Constant { interval, noise: false } => interval,
            Shape::Constant { interval, noise: true } => interval * (0.5 + self.uniform()),
            Shape::Poisson { interval } => self.exponential(interval),
            Shape::Bursts { interval, on, off, pareto } => {
                let mut pause = 0.0;
                if self.left == 0 {
                    pause = self.length(off, pareto);
                    self.left = self.burst(on / interval, pareto);
                }
                self.left -= 1;
                interval + pause
            }
            Shape::Greedy => 0.0,
        }
    }
}

impl Iterator for Departures {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        if self.pattern.packets == Some(self.sent) {
            return None;
        }
        let first = self.sent == 0;
        self.at = match self.pattern.shape {
            // By multiplication: thousands of additions would add up their roundings.
            Shape::Constant { interval, noise: false } => self.sent as f64 * interval,
            Shape::Bursts { on, interval, pareto, .. } if first => {
                self.left = self.burst(on / interval, pareto) - 1;
                0.0
            }
            _ if first => 0.0,
            _ => self.at + self.gap(),
        };
        self.sent += 1;
        Some(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departures(shape: Shape, seed: u64, count: usize) -> Vec<f64> {
        Departures::new(Pattern { shape, packets: None }, seed).take(count).collect()
    }

    fn gaps(shape: Shape, count: usize) -> Vec<f64> {
        departures(shape, 7, count + 1).windows(2).map(|w| w[1] - w[0]).collect()
    }

    fn mean(of: &[f64]) -> f64 {
        of.iter().sum::<f64>() / of.len() as f64
    }

    #[test]
    fn a_constant_rate_does_not_drift() {
        let interval = 1.0 / 300.0;
        let all = departures(Shape::Constant { interval, noise: false }, 1, 3_000_001);
        assert_eq!(all[0], 0.0);
        assert_eq!(all[3_000_000], 3_000_000.0 * interval);
        let noisy = gaps(Shape::Constant { interval, noise: true }, 100_000);
        assert!(noisy.iter().all(|g| *g > interval * 0.499 && *g < interval * 1.501));
        assert!((mean(&noisy) / interval - 1.0).abs() < 0.005, "{}", mean(&noisy));
    }

    #[test]
    fn poisson_intervals_are_as_wide_as_long() {
        let all = gaps(Shape::Poisson { interval: 0.02 }, 200_000);
        let mean = mean(&all);
        let deviation = (all.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / all.len() as f64).sqrt();
        assert!((mean / 0.02 - 1.0).abs() < 0.01, "{mean}");
        assert!((deviation / 0.02 - 1.0).abs() < 0.02, "{deviation}");
        // 1/e of them are longer than the mean.
        let longer = all.iter().filter(|g| **g > 0.02).count() as f64 / all.len() as f64;
        assert!((longer - (-1.0_f64).exp()).abs() < 0.005, "{longer}");
    }

    #[test]
    fn bursts_are_on_for_their_share_of_the_time() {
        for (pareto, slack) in [(None, 0.02), (Some(1.9), 0.15)] {
            let (interval, on, off) = (0.001, 0.5, 1.5);
            let all = gaps(Shape::Bursts { interval, on, off, pareto }, 2_000_000);
            // Packets leave for on / (on + off) of the time.
            let rate = 1.0 / mean(&all);
            let expected = on / (on + off) / interval;
            assert!((rate / expected - 1.0).abs() < slack, "{pareto:?}: {rate} for {expected}");
            assert!(all.iter().all(|g| *g > interval * 0.999), "{pareto:?}: packets of a burst are at its interval");
            let pauses: Vec<f64> = all.iter().map(|g| g - interval).filter(|p| *p > 1e-9).collect();
            let least = pauses.iter().copied().fold(f64::INFINITY, f64::min);
            match pareto {
                None => assert!(least < 0.01, "{least}"),
                Some(shape) => assert!((least / (off * (shape - 1.0) / shape) - 1.0).abs() < 0.01, "{least}"),
            }
        }
    }

    #[test]
    fn a_seed_decides_and_a_number_ends() {
        let shape = Shape::Poisson { interval: 1.0 };
        assert_eq!(departures(shape, 3, 50), departures(shape, 3, 50));
        assert_ne!(departures(shape, 3, 50), departures(shape, 4, 50));
        assert_eq!(Departures::new(Pattern { shape, packets: Some(5) }, 1).count(), 5);
        assert_eq!(
            Departures::new(Pattern { shape: Shape::Greedy, packets: Some(2) }, 1).collect::<Vec<_>>(),
            [0.0; 2]
        );
    }
}
