//! How much longer, or shorter, than its delay a packet travels.

use scale::RealDuration;
use scale::link::Distribution;
use statrs::distribution::{ContinuousCDF, Normal};

use crate::links::spec::Jitter;

/// Pareto's exponent.
const SHAPE: f64 = 3.0;

/// The deviation that a fraction `u`, above 0 and below 1, of all deviations is less than.
fn quantile(distribution: Distribution, u: f64) -> f64 {
    match distribution {
        Distribution::Uniform => 2.0 * u - 1.0,
        Distribution::Normal => Normal::standard().inverse_cdf(u),
        Distribution::Pareto => {
            let mean = SHAPE / (SHAPE - 1.0);
            let variance = SHAPE / ((SHAPE - 1.0).powi(2) * (SHAPE - 2.0));
            ((1.0 - u).powf(-1.0 / SHAPE) - mean) / variance.sqrt()
        }
    }
}

/// How long a packet travels on a pipe of this delay; `u`, in [0, 1), is its chance. Never less than nothing.
pub(crate) fn travel(jitter: &Jitter, delay: RealDuration, u: f64) -> RealDuration {
    // Less than any chance but 0 itself, where quantiles may be infinite.
    let u = u.max(1.0 / (1u64 << 54) as f64);
    let deviation = jitter.spread.as_nanos() as f64 * quantile(jitter.distribution, u);
    RealDuration::from_nanos((delay.as_nanos() as f64 + deviation).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::pipe::draws::{Draws, Purpose};

    const DELAY: RealDuration = RealDuration::from_nanos(100_000_000);
    const SPREAD: RealDuration = RealDuration::from_nanos(1_000_000);

    fn jitter(distribution: Distribution) -> Jitter {
        Jitter { distribution, spread: SPREAD, reorder: true }
    }

    /// Deviations in units of the spread, in ascending order.
    fn deviations(distribution: Distribution, n: u64) -> Vec<f64> {
        let draws = Draws::new(1, "a--b/ab");
        let nanos = |i| travel(&jitter(distribution), DELAY, draws.unit(Purpose::Jitter, i)).as_nanos() as f64;
        let mut all: Vec<f64> = (1..=n).map(|i| nanos(i) / 1e6 - 100.0).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// The distributions as they are defined, not as they are drawn.
    fn cdf(distribution: Distribution, x: f64) -> f64 {
        match distribution {
            Distribution::Uniform => ((x + 1.0) / 2.0).clamp(0.0, 1.0),
            Distribution::Normal => Normal::standard().cdf(x),
            // 1 − (1/y)³ of y ≥ 1, which has the mean 3/2 and the variance 3/4.
            Distribution::Pareto => {
                let y = 1.5 + x * 0.75f64.sqrt();
                if y < 1.0 { 0.0 } else { 1.0 - y.powi(-3) }
            }
        }
    }

    #[test]
    fn deviations_are_distributed_as_they_are_called() {
        for distribution in [Distribution::Uniform, Distribution::Normal, Distribution::Pareto] {
            let all = deviations(distribution, 200_000);
            let n = all.len() as f64;
            let distance = all.iter().enumerate().map(|(i, x)| {
                let p = cdf(distribution, *x);
                (p - i as f64 / n).abs().max((p - (i + 1) as f64 / n).abs())
            });
            // Kolmogorov and Smirnov: exceeded by chance once in a thousand seeds, and this one is fixed.
            let distance = distance.fold(0.0, f64::max);
            assert!(distance < 1.95 / n.sqrt(), "{distribution:?}: distance {distance}");
            let mean = all.iter().sum::<f64>() / n;
            assert!(mean.abs() < 4.0 / n.sqrt(), "{distribution:?}: mean {mean}");
        }
    }

    #[test]
    fn the_tails_are_finite_at_the_ends_of_the_chances() {
        for distribution in [Distribution::Uniform, Distribution::Normal, Distribution::Pareto] {
            let least = travel(&jitter(distribution), DELAY, 0.0);
            let most = travel(&jitter(distribution), DELAY, 1.0 - 1.0 / (1u64 << 53) as f64);
            assert!(least < DELAY && DELAY < most && most < RealDuration::from_nanos(u64::MAX / 2), "{distribution:?}");
        }
    }

    #[test]
    fn nothing_arrives_before_it_was_sent() {
        let near = RealDuration::from_nanos(10);
        assert_eq!(travel(&jitter(Distribution::Normal), near, 0.01), RealDuration::ZERO);
        assert!(travel(&jitter(Distribution::Normal), near, 0.99) > SPREAD);
    }

    #[test]
    fn a_dilated_jitter_is_the_same_jitter_longer() {
        let draws = Draws::new(1, "x");
        let ten = Jitter { spread: RealDuration::from_nanos(10_000_000), ..jitter(Distribution::Pareto) };
        for n in 1..1000 {
            let u = draws.unit(Purpose::Jitter, n);
            let target = travel(&jitter(Distribution::Pareto), DELAY, u).as_nanos();
            let harness = travel(&ten, RealDuration::from_nanos(1_000_000_000), u).as_nanos();
            assert!(harness.abs_diff(10 * target) <= 5, "packet {n}: {target} and {harness}");
        }
    }
}
