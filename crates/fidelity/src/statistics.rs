//! Statistics of samples.
//!
//! Quantiles are those of Hyndman and Fan's definition 8 (*Sample Quantiles in Statistical Packages*, 1996), which
//! statrs computes: the quantile p of n sorted samples lies at rank p·(n + 1/3) + 1/3, between two samples by straight
//! line, and never outside the samples. It is median-unbiased for any distribution.

use record::{Samples, Summary};
use statrs::statistics::{Data, OrderStatistics, Statistics};

/// The quantile `p` between 0 and 1; `None` if there is no sample.
pub fn quantile(samples: &Samples, p: f64) -> Option<f64> {
    debug_assert!((0.0..=1.0).contains(&p));
    let sorted = samples.sorted();
    (!sorted.is_empty()).then(|| Data::new(sorted.to_vec()).quantile(p))
}

/// Count, mean and quantiles; `None` if there is no sample.
pub fn summary(samples: &Samples) -> Option<Summary> {
    let sorted = samples.sorted();
    if sorted.is_empty() {
        return None;
    }
    let mut data = Data::new(sorted.to_vec());
    let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|p| data.quantile(p));
    Some(Summary { n: sorted.len(), mean: sorted.iter().mean(), p50, p90, p99 })
}

/// The least and the most of some values.
pub(crate) fn extremes(values: impl IntoIterator<Item = f64>) -> [f64; 2] {
    values.into_iter().fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], value| [low.min(value), high.max(value)])
}

/// The median; `None` if there is no value, or one that is no measurement.
pub fn median(values: Vec<f64>) -> Option<f64> {
    quantile(&Samples::new(values).ok()?, 0.5)
}

/// The Kolmogorov–Smirnov distance: the largest vertical distance between the two empirical distribution functions,
/// 0 to 1. `None` if either has fewer than two samples: a single number has no distribution.
///
/// Our own: the one in statrs 0.19 also works out a p-value, which for equal samples never ends.
pub fn ks_distance(a: &Samples, b: &Samples) -> Option<f64> {
    let (a, b) = (a.sorted(), b.sorted());
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let (mut i, mut j, mut widest) = (0, 0, 0u128);
    while i < a.len() && j < b.len() {
        // Both functions step past every sample equal to the next one before they are compared.
        let x = a[i].min(b[j]);
        i += a[i..].iter().take_while(|v| **v == x).count();
        j += b[j..].iter().take_while(|v| **v == x).count();
        widest = widest.max((i as u128 * b.len() as u128).abs_diff(j as u128 * a.len() as u128));
    }
    Some(widest as f64 / (a.len() as f64 * b.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: impl IntoIterator<Item = f64>) -> Samples {
        Samples::new(values.into_iter().collect()).unwrap()
    }

    #[test]
    fn quantiles_of_a_known_distribution() {
        // 1..=100: rank p·(100 + 1/3) + 1/3 is the value itself.
        let summary = summary(&samples((1..=100).rev().map(f64::from))).unwrap();
        assert_eq!(summary.n, 100);
        assert_eq!(summary.mean, 50.5);
        assert_eq!(summary.p50, 50.5);
        assert!((summary.p90 - (0.9 * (100.0 + 1.0 / 3.0) + 1.0 / 3.0)).abs() < 1e-9, "{}", summary.p90);
        assert!((summary.p99 - (0.99 * (100.0 + 1.0 / 3.0) + 1.0 / 3.0)).abs() < 1e-9, "{}", summary.p99);
    }

    #[test]
    fn the_edges_none_one_and_two_samples() {
        assert_eq!(summary(&samples([])), None);
        assert_eq!(quantile(&samples([]), 0.5), None);
        let one = summary(&samples([7.0])).unwrap();
        assert_eq!(one, Summary { n: 1, mean: 7.0, p50: 7.0, p90: 7.0, p99: 7.0 });
        let two = samples([1.0, 3.0]);
        assert_eq!(summary(&two).unwrap().p50, 2.0);
        assert_eq!(quantile(&two, 0.99), Some(3.0), "never outside the samples");
        assert_eq!(quantile(&two, 0.0), Some(1.0));
    }

    #[test]
    fn huge_samples_and_ties_stay_finite() {
        let huge = summary(&samples([-1e300, 1e300, 1e300])).unwrap();
        assert!([huge.mean, huge.p50, huge.p90, huge.p99].iter().all(|v| v.is_finite()), "{huge:?}");
        let ties = summary(&samples(std::iter::repeat_n(5.0, 1000).chain([9.0]))).unwrap();
        assert_eq!((ties.p50, ties.p90, ties.p99), (5.0, 5.0, 5.0));
    }

    #[test]
    fn the_distance_of_known_distributions() {
        let uniform = samples((0..1000).map(f64::from));
        assert_eq!(ks_distance(&uniform, &uniform), Some(0.0));
        let thinned = ks_distance(&uniform, &samples((0..500).map(|i| 2.0 * f64::from(i)))).unwrap();
        assert!((thinned - 0.001).abs() < 1e-12, "{thinned}");
        assert_eq!(ks_distance(&uniform, &samples((0..1000).map(|i| f64::from(i) + 5000.0))), Some(1.0));
        // Shifted by a tenth of its range, a uniform distribution is a tenth away, whichever is first.
        let shifted = samples((0..1000).map(|i| f64::from(i) + 100.0));
        assert_eq!(ks_distance(&uniform, &shifted), Some(0.1));
        assert_eq!(ks_distance(&shifted, &uniform), Some(0.1));
        // Ties: {1,1,2} against {1,2,2} differ by a third at 1.
        let ties = ks_distance(&samples([1.0, 1.0, 2.0]), &samples([1.0, 2.0, 2.0])).unwrap();
        assert!((ties - 1.0 / 3.0).abs() < 1e-12, "{ties}");
        assert_eq!(ks_distance(&samples([1.0]), &uniform), None, "one sample has no distribution");
    }
}
