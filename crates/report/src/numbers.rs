//! Numbers as tables and pages show them.

use fidelity::compare::Difference;

/// An error of so many per cent, signed; a dash if it is infinite or unknown.
pub(crate) fn error(percent: Option<f64>) -> String {
    percent.map_or("–".into(), |e| format!("{e:+.1} %"))
}

/// Four significant digits, or a dash for what was not measured.
pub(crate) fn measured(v: Option<f64>) -> String {
    v.map_or("–".into(), figure)
}

/// Four significant digits.
pub(crate) fn figure(v: f64) -> String {
    significant(v, 4)
}

fn significant(v: f64, digits: usize) -> String {
    if v == 0.0 {
        return "0".into();
    }
    let magnitude = v.abs().log10().floor() as i32;
    match magnitude {
        -4..=5 => format!("{v:.*}", (digits as i32 - 1 - magnitude).max(0) as usize),
        _ => format!("{v:.*e}", digits - 1),
    }
}

/// A figure with how far it may be off, if that is known: as far as the further end of its interval.
pub(crate) fn with_interval(v: f64, interval: Option<[f64; 2]>) -> String {
    match interval {
        // Of an error more digits mean nothing.
        Some([low, high]) => format!("{} ± {}", figure(v), significant((v - low).max(high - v).max(0.0), 2)),
        None => figure(v),
    }
}

/// From … to … per cent, signed.
pub(crate) fn percent_range([low, high]: [f64; 2]) -> String {
    let of = |v: f64| if v == 0.0 { "0".to_string() } else { format!("{v:+.1}") };
    format!("{} to {} %", of(low), of(high))
}

/// Words for a difference; a dash for nothing.
pub(crate) fn difference(of: Option<Difference>) -> String {
    of.map_or("–".into(), |d| format!("{} ({})", d.says, percent_range([d.low, d.high])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits() {
        let shown = [0.0, 1.0, 1234.5, 99999.0, 0.012345, -7.25, 1e9, 1e-7].map(figure);
        assert_eq!(shown, ["0", "1.000", "1234", "99999", "0.01235", "-7.250", "1.000e9", "1.000e-7"]);
    }

    #[test]
    fn an_interval_is_told_by_its_further_end() {
        assert_eq!(with_interval(34.91, Some([32.8, 35.2])), "34.91 ± 2.1");
        assert_eq!(with_interval(34.91, None), "34.91");
        assert_eq!(with_interval(5.0, Some([5.0, 5.0])), "5.000 ± 0");
        assert_eq!(percent_range([-0.44, 12.0]), "-0.4 to +12.0 %");
        let told = Difference { percent: 1.0, low: -0.5, high: 2.5, says: fidelity::compare::Says::CannotTell };
        assert_eq!((difference(Some(told)), difference(None)), ("cannot tell (-0.5 to +2.5 %)".into(), "–".into()));
    }
}
