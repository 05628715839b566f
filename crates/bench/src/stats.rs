//! The statistics of a row, by a library.

use statrs::statistics::{Data, Median, Statistics};

/// The median; not a number if there is no value or one that is none, so that what was not measured meets no goal.
pub(crate) fn median(values: Vec<f64>) -> f64 {
    if values.is_empty() || values.iter().any(|v| !v.is_finite()) { f64::NAN } else { Data::new(values).median() }
}

/// The standard deviation of samples; not a number for fewer than two.
pub(crate) fn deviation(values: &[f64]) -> f64 {
    values.std_dev()
}

/// A straight line through points, by least squares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub slope: f64,
    /// The standard error of the slope.
    pub slope_error: f64,
    /// Where it passes.
    centre: (f64, f64),
    /// Correlation of the points: 1 if they lie on a line.
    pub correlation: f64,
}

impl Line {
    /// Its y at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.centre.1 + self.slope * (x - self.centre.0)
    }
}

/// The line through points; `None` for fewer than three, or if all have the same x.
pub(crate) fn line(points: &[(f64, f64)]) -> Option<Line> {
    let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let degrees = points.len().checked_sub(2).filter(|n| *n > 0)? as f64;
    let (sx, sy) = ((&x).population_std_dev(), (&y).population_std_dev());
    let slope = (&x).population_covariance(&y) / (sx * sx);
    let correlation = if sy > 0.0 { slope * sx / sy } else { 0.0 };
    let slope_error = sy / sx * ((1.0 - correlation * correlation).max(0.0) / degrees).sqrt();
    slope.is_finite().then(|| Line { slope, slope_error, centre: ((&x).mean(), (&y).mean()), correlation })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_its_points() {
        let exact = line(&[(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]).unwrap();
        assert!((exact.slope - 2.0).abs() < 1e-12 && (exact.at(0.0) - 3.0).abs() < 1e-9);
        assert!((exact.correlation - 1.0).abs() < 1e-9 && exact.slope_error < 1e-6);
        let noisy = line(&[(0.0, 0.0), (1.0, 1.5), (2.0, 1.5), (3.0, 3.0)]).unwrap();
        assert!((noisy.slope - 0.9).abs() < 1e-12, "{noisy:?}");
        assert!((noisy.slope_error - 0.212_132).abs() < 1e-5, "residuals of 0.15, 0.45, 0.45, 0.15: {noisy:?}");
        assert!(line(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]).is_none());
        assert!(line(&[(1.0, 1.0), (2.0, 2.0)]).is_none());
    }

    #[test]
    fn of_few_values() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(vec![]).is_nan() && median(vec![1.0, f64::NAN]).is_nan());
        assert_eq!(deviation(&[1.0, 2.0, 3.0]), 1.0);
        assert!(deviation(&[1.0]).is_nan());
    }
}
