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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_few_values() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(vec![]).is_nan() && median(vec![1.0, f64::NAN]).is_nan());
        assert_eq!(deviation(&[1.0, 2.0, 3.0]), 1.0);
        assert!(deviation(&[1.0]).is_nan());
    }
}
