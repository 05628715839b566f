//! `--within 5%`, `--within p90=10%`: how far apart two runs may be.

use std::fmt;
use std::str::FromStr;

use super::{MetricComparison, Outside};
use record::{Intervals, Summary};

/// A number that summarises samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// Arithmetic mean.
    Mean,
    /// Median.
    P50,
    /// 90th percentile.
    P90,
    /// 99th percentile.
    P99,
}

impl Statistic {
    /// All of them, in the order in which they are told.
    pub const ALL: [Statistic; 4] = [Statistic::Mean, Statistic::P50, Statistic::P90, Statistic::P99];

    /// The one of a name in files and on the command line, if there is one.
    pub fn named(name: &str) -> Option<Statistic> {
        Statistic::ALL.into_iter().find(|statistic| statistic.as_str() == name)
    }

    /// Its value in a summary.
    pub fn of(self, summary: &Summary) -> f64 {
        match self {
            Statistic::Mean => summary.mean,
            Statistic::P50 => summary.p50,
            Statistic::P90 => summary.p90,
            Statistic::P99 => summary.p99,
        }
    }

    /// Its interval, if that is stated.
    pub fn in_intervals(self, intervals: &Intervals) -> Option<[f64; 2]> {
        match self {
            Statistic::Mean => intervals.mean,
            Statistic::P50 => intervals.p50,
            Statistic::P90 => intervals.p90,
            Statistic::P99 => intervals.p99,
        }
    }

    /// Its name in files and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Statistic::Mean => "mean",
            Statistic::P50 => "p50",
            Statistic::P90 => "p90",
            Statistic::P99 => "p99",
        }
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A bound on the errors of every metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// `None`: mean and median.
    pub statistic: Option<Statistic>,
    /// The largest error, either way.
    pub percent: f64,
}

impl Bound {
    /// The statistics that this bound does not hold for.
    pub(super) fn breaches(&self, metric: &MetricComparison) -> Vec<Outside> {
        let judged = match &self.statistic {
            Some(statistic) => std::slice::from_ref(statistic),
            None => &[Statistic::Mean, Statistic::P50],
        };
        let breach = |s: &Statistic| {
            let says = match metric.error_percent.get(*s) {
                Some(error) if error.abs() <= self.percent => return None,
                Some(error) => format!("{} {s} is {error:+.2} % off, more than {} %", metric.name, self.percent),
                None => format!("{} {s} is zero in the base and not in the other", metric.name),
            };
            Some(Outside { statistic: *s, says })
        };
        judged.iter().filter_map(breach).collect()
    }
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Bound, String> {
        let wrong = || {
            format!(
                "`{text}` is not a bound: write 5% for mean and p50, or mean=5%, p50=5%, p90=10%, p99=20% for one \
                 of them"
            )
        };
        let (name, percent) = match text.split_once('=') {
            Some((name, percent)) => (Some(name.trim()), percent),
            None => (None, text),
        };
        let statistic = match name {
            Some(name) => Some(Statistic::named(name).ok_or_else(wrong)?),
            None => None,
        };
        let percent: f64 = percent.trim().strip_suffix('%').and_then(|p| p.trim().parse().ok()).ok_or_else(wrong)?;
        if !percent.is_finite() || percent < 0.0 {
            return Err(wrong());
        }
        Ok(Bound { statistic, percent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_as_the_documentation_writes_them() {
        assert_eq!("5%".parse(), Ok(Bound { statistic: None, percent: 5.0 }));
        assert_eq!("p90=10%".parse(), Ok(Bound { statistic: Some(Statistic::P90), percent: 10.0 }));
        assert_eq!("mean = 2.5 %".parse(), Ok(Bound { statistic: Some(Statistic::Mean), percent: 2.5 }));
        assert_eq!("0%".parse(), Ok(Bound { statistic: None, percent: 0.0 }));
    }

    #[test]
    fn what_is_no_bound_is_told_what_is() {
        for text in ["", "5", "%", "p90", "p90=", "p95=5%", "=5%", "-1%", "NaN%", "inf%", "p90=5%%", "P90=5%"] {
            let error = text.parse::<Bound>().unwrap_err();
            assert!(error.contains("write 5%"), "{error}");
        }
    }
}
