//! Where an axis is labelled: at round numbers.

/// The values from `low` to `high` that are multiples of 1, 2 or 5 times a power of ten: so many, or fewer.
pub(crate) fn round(low: f64, high: f64, most: u32) -> Vec<f64> {
    let rough = (high - low) / f64::from(most);
    let power = 10f64.powf(rough.log10().floor());
    let Some(step) = [1.0, 2.0, 5.0, 10.0].into_iter().map(|s| s * power).find(|s| *s >= rough && s.is_normal()) else {
        return vec![low];
    };
    let slack = (high - low) * 1e-9;
    let first = ((low - slack) / step).ceil();
    (0..=most).map(|i| (first + f64::from(i)) * step).take_while(|v| *v <= high + slack).collect()
}

/// A round value as it is written on an axis.
pub(crate) fn label(v: f64) -> String {
    let shown = |digits: &str| digits.trim_end_matches('0').trim_end_matches('.').to_owned();
    match v.abs() {
        0.0 => "0".into(),
        a if (1e-4..1e6).contains(&a) => shown(&format!("{v:.6}")),
        _ => {
            let text = format!("{v:.3e}");
            let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
            format!("{}e{power}", shown(digits))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short() {
        assert_eq!(
            [0.0, 0.1 + 0.2, 5.0, 250000.0, 1e-9, 2e7, 1.5e6].map(label),
            ["0", "0.3", "5", "250000", "1e-9", "2e7", "1.5e6"]
        );
    }

    #[test]
    fn ticks_are_round_whatever_the_highest_value() {
        let labels = |low, high| round(low, high, 6).into_iter().map(label).collect::<Vec<_>>();
        assert_eq!(labels(0.0, 125.832), ["0", "50", "100"]);
        assert_eq!(labels(0.0, 0.0062), ["0", "0.002", "0.004", "0.006"]);
        assert_eq!(labels(1.003, 13.21), ["5", "10"]);
        assert_eq!(labels(-3.0, 3.0), ["-3", "-2", "-1", "0", "1", "2", "3"]);
        assert_eq!(labels(7.0, 7.0), ["7"], "a single value");
    }
}
