//! How much of the harness's CPU a node of the target gets.

use crate::Tdf;

/// The CPU of a node of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetCpu {
    /// Virtual CPUs.
    pub cpus: u32,
    /// The speed of each, as a fraction of one core of the harness.
    pub speed: f64,
}

impl TargetCpu {
    /// The fraction of one core of the harness, in real time, that makes all CPUs of the node appear to be as fast as
    /// the target's when seen through the TDF.
    ///
    /// DieCast, NSDI 2008, §2.5: with a scaling factor of 10 and a TDF of 20, a node whose target has a whole machine
    /// gets 5 % of one. The scaling factor (how many nodes there are) does not enter, for the TDF alone says how slow a
    /// node may be; together they say how much of the machine is sold ([`sold`]).
    pub fn share(self, tdf: Tdf) -> f64 {
        f64::from(self.cpus) * self.speed / tdf.as_f64()
    }

    /// The divisor of CPU time that the host's kernel accounts, to be the target's CPU time: TDF ×
    /// share / cpus, which is the speed whatever the TDF. A CPU of half the speed works twice as long.
    pub fn clock_divisor(self) -> f64 {
        self.speed
    }
}

/// The sum of the shares of nodes: how much of a core is sold.
pub fn sold(nodes: &[TargetCpu], tdf: Tdf) -> f64 {
    nodes.iter().map(|n| n.share(tdf)).sum()
}

/// The smallest TDF, in tenths, at which the nodes' shares fit into `usable` of a core; `None` if there is none.
pub fn tdf_that_fits(nodes: &[TargetCpu], usable: f64) -> Option<Tdf> {
    Tdf::at_least(sold(nodes, Tdf::ONE) / usable)
}

/// The largest TDF, in tenths, at which none of the nodes' shares is below `least`; `None` if there is none.
pub fn tdf_that_leaves(nodes: &[TargetCpu], least: f64) -> Option<Tdf> {
    nodes.iter().map(|n| n.share(Tdf::ONE)).min_by(f64::total_cmp).and_then(|share| Tdf::at_most(share / least))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tdf(s: &str) -> Tdf {
        s.parse().unwrap()
    }

    #[test]
    fn diecasts_example_of_a_scaling_factor_that_is_not_the_tdf() {
        let whole = TargetCpu { cpus: 1, speed: 1.0 };
        assert_eq!(whole.share(tdf("20")), 0.05);
        // "meaning that 50% of CPU resources will go idle"
        assert!((sold(&[whole; 10], tdf("20")) - 0.5).abs() < 1e-12);
        assert!((sold(&[whole; 10], tdf("10")) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn shares_of_fractions() {
        let half = TargetCpu { cpus: 1, speed: 0.5 };
        assert_eq!(half.share(Tdf::ONE), 0.5);
        assert!((half.share(tdf("1.5")) - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(half.share(tdf("1000")), 0.0005);
        assert_eq!(TargetCpu { cpus: 4, speed: 0.5 }.share(tdf("10")), 0.2);
        assert_eq!(half.clock_divisor(), 0.5);
    }

    #[test]
    fn the_tdf_that_fits_does_fit_and_a_tenth_less_does_not() {
        for speeds in [vec![1.0; 10], vec![0.5, 0.08, 0.08, 0.08, 0.08], vec![3.7, 1.1]] {
            let nodes: Vec<_> = speeds.iter().map(|s| TargetCpu { cpus: 1, speed: *s }).collect();
            let fits = tdf_that_fits(&nodes, 0.9).unwrap();
            assert!(sold(&nodes, fits) <= 0.9 + 1e-12, "{fits}");
            if fits > Tdf::ONE {
                let less = Tdf::try_from(((fits.as_f64() - 0.1) * 10.0).round() / 10.0).unwrap();
                assert!(sold(&nodes, less) > 0.9, "{less}");
            }
        }
        assert_eq!(tdf_that_fits(&[TargetCpu { cpus: 1, speed: 1e9 }], 0.9), None);
        let slow = TargetCpu { cpus: 1, speed: 0.08 };
        assert_eq!(tdf_that_leaves(&[slow], 0.001), Some(tdf("80")));
    }
}
