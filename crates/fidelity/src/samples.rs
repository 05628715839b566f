//! The samples of a metric: their file `metrics/NAME.csv` and their statistics.
//!
//! The file has the header `virtual_s,value,node` and one line per sample that counts (those outside the experiment's
//! `measure` window are left out). `virtual_s` is when the sample was taken, and empty where a metric cannot tell.
//!
//! Quantiles are those of Hyndman and Fan's definition 8 (*Sample Quantiles in Statistical Packages*, 1996), which
//! statrs computes: the quantile p of n sorted samples lies at rank p·(n + 1/3) + 1/3, between two samples by straight
//! line, and never outside the samples. It is median-unbiased for any distribution.

use std::path::Path;

use serde::{Deserialize, Serialize};
use statrs::statistics::{Data, OrderStatistics, Statistics};

use crate::Error;

/// Samples beyond this are no measurement; below it no difference of two overflows.
const ABSURD: f64 = 1e300;

/// Count, mean and quantiles of at least one sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many samples.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// One sample of a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// When it was taken, in virtual seconds since t = 0.
    pub virtual_s: Option<f64>,
    /// In the metric's unit.
    pub value: f64,
    /// Which node it is from; empty if it is combined from several.
    pub node: String,
}

/// Sorted, finite samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Sorts `values`; the error names the first (by its position, from 1) that is not a measurement.
    pub fn new(mut values: Vec<f64>) -> Result<Samples, String> {
        if let Some(i) = values.iter().position(|v| !v.is_finite() || v.abs() > ABSURD) {
            return Err(format!("sample {} is {}, which is no measurement", i + 1, values[i]));
        }
        values.sort_unstable_by(f64::total_cmp);
        Ok(Samples(values))
    }

    /// The samples, ascending.
    pub fn sorted(&self) -> &[f64] {
        &self.0
    }

    /// The quantile `p` between 0 and 1; `None` if there is no sample.
    pub fn quantile(&self, p: f64) -> Option<f64> {
        debug_assert!((0.0..=1.0).contains(&p));
        (!self.0.is_empty()).then(|| Data::new(self.0.clone()).quantile(p))
    }

    /// Count, mean and quantiles; `None` if there is no sample.
    pub fn summary(&self) -> Option<Summary> {
        if self.0.is_empty() {
            return None;
        }
        let mut data = Data::new(self.0.clone());
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|p| data.quantile(p));
        Some(Summary { n: self.0.len(), mean: self.0.iter().mean(), p50, p90, p99 })
    }

    /// The Kolmogorov–Smirnov distance: the largest vertical distance between the two empirical distribution functions,
    /// 0 to 1. `None` if either has fewer than two samples: a single number has no distribution.
    ///
    /// Our own: the one in statrs 0.19 also works out a p-value, which for equal samples never ends.
    pub fn ks_distance(&self, other: &Samples) -> Option<f64> {
        if self.0.len() < 2 || other.0.len() < 2 {
            return None;
        }
        let (a, b) = (&self.0, &other.0);
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
}

/// The median; `None` if there is no value, or one that is no measurement.
pub fn median(values: Vec<f64>) -> Option<f64> {
    Samples::new(values).ok()?.quantile(0.5)
}

/// Writes the rows of one metric to `path`.
pub fn write(path: &Path, rows: &[Row]) -> Result<(), Error> {
    let failed = |e: csv::Error| match e.into_kind() {
        csv::ErrorKind::Io(e) => Error::io(path, "write", e),
        other => Error::input(path, format!("{other:?}")),
    };
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_path(path).map_err(failed)?;
    writer.write_record(["virtual_s", "value", "node"]).map_err(failed)?;
    for row in rows {
        writer.serialize(row).map_err(failed)?;
    }
    writer.flush().map_err(|e| Error::io(path, "write", e))
}

/// Reads the rows of one metric.
pub fn read(path: &Path) -> Result<Vec<Row>, Error> {
    let failed = |e: csv::Error| {
        let what = e.to_string();
        match e.into_kind() {
            csv::ErrorKind::Io(e) => Error::io(path, "read", e),
            _ => Error::input(path, format!("{what}; each line is virtual_s,value,node")),
        }
    };
    csv::Reader::from_path(path).map_err(failed)?.deserialize().map(|row| row.map_err(failed)).collect()
}

/// Reads the values of one metric.
pub fn read_values(path: &Path) -> Result<Samples, Error> {
    let values = read(path)?.into_iter().map(|row| row.value).collect();
    Samples::new(values).map_err(|what| Error::input(path, what))
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
        let summary = samples((1..=100).rev().map(f64::from)).summary().unwrap();
        assert_eq!(summary.n, 100);
        assert_eq!(summary.mean, 50.5);
        assert_eq!(summary.p50, 50.5);
        assert!((summary.p90 - (0.9 * (100.0 + 1.0 / 3.0) + 1.0 / 3.0)).abs() < 1e-9, "{}", summary.p90);
        assert!((summary.p99 - (0.99 * (100.0 + 1.0 / 3.0) + 1.0 / 3.0)).abs() < 1e-9, "{}", summary.p99);
    }

    #[test]
    fn the_edges_none_one_and_two_samples() {
        assert_eq!(samples([]).summary(), None);
        assert_eq!(samples([]).quantile(0.5), None);
        let one = samples([7.0]).summary().unwrap();
        assert_eq!(one, Summary { n: 1, mean: 7.0, p50: 7.0, p90: 7.0, p99: 7.0 });
        let two = samples([1.0, 3.0]);
        assert_eq!(two.summary().unwrap().p50, 2.0);
        assert_eq!(two.quantile(0.99), Some(3.0), "never outside the samples");
        assert_eq!(two.quantile(0.0), Some(1.0));
    }

    #[test]
    fn what_is_no_measurement_is_named() {
        let error = Samples::new(vec![1.0, f64::NAN, f64::INFINITY]).unwrap_err();
        assert_eq!(error, "sample 2 is NaN, which is no measurement");
        assert!(Samples::new(vec![f64::NEG_INFINITY]).is_err());
        assert!(Samples::new(vec![f64::MAX]).is_err());
    }

    #[test]
    fn huge_samples_and_ties_stay_finite() {
        let huge = samples([-1e300, 1e300, 1e300]).summary().unwrap();
        assert!([huge.mean, huge.p50, huge.p90, huge.p99].iter().all(|v| v.is_finite()), "{huge:?}");
        let ties = samples(std::iter::repeat_n(5.0, 1000).chain([9.0])).summary().unwrap();
        assert_eq!((ties.p50, ties.p90, ties.p99), (5.0, 5.0, 5.0));
    }

    #[test]
    fn the_distance_of_known_distributions() {
        let uniform = samples((0..1000).map(f64::from));
        assert_eq!(uniform.ks_distance(&uniform), Some(0.0));
        let thinned = uniform.ks_distance(&samples((0..500).map(|i| 2.0 * f64::from(i)))).unwrap();
        assert!((thinned - 0.001).abs() < 1e-12, "{thinned}");
        assert_eq!(uniform.ks_distance(&samples((0..1000).map(|i| f64::from(i) + 5000.0))), Some(1.0));
        // Shifted by a tenth of its range, a uniform distribution is a tenth away, whichever is first.
        let shifted = samples((0..1000).map(|i| f64::from(i) + 100.0));
        assert_eq!(uniform.ks_distance(&shifted), Some(0.1));
        assert_eq!(shifted.ks_distance(&uniform), Some(0.1));
        // Ties: {1,1,2} against {1,2,2} differ by a third at 1.
        let ties = samples([1.0, 1.0, 2.0]).ks_distance(&samples([1.0, 2.0, 2.0])).unwrap();
        assert!((ties - 1.0 / 3.0).abs() < 1e-12, "{ties}");
        assert_eq!(samples([1.0]).ks_distance(&uniform), None, "one sample has no distribution");
    }

    #[test]
    fn rows_survive_their_file_and_bad_lines_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("latency.csv");
        let rows = [
            Row { virtual_s: Some(2.5), value: 0.1 + 0.2, node: "client-1".into() },
            Row { virtual_s: None, value: 1e-9, node: String::new() },
        ];
        write(&path, &rows).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().next(), Some("virtual_s,value,node"));
        assert_eq!(read(&path).unwrap(), rows);
        write(&path, &[]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "virtual_s,value,node\n", "no sample, but a header");
        assert_eq!(read(&path).unwrap(), []);

        std::fs::write(&path, "virtual_s,value,node\n1,fast,client-1\n").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("latency.csv: ") && error.contains("line: 2"), "{error}");
        std::fs::write(&path, "virtual_s,value,node\n1,NaN,client-1\n").unwrap();
        let error = read_values(&path).unwrap_err().to_string();
        assert!(error.contains("latency.csv: sample 1 is NaN"), "{error}");
        let error = read(&dir.path().join("absent.csv")).unwrap_err().to_string();
        assert!(error.contains("absent.csv: cannot read"), "{error}");
    }
}
