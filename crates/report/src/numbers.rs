//! Numbers as tables and pages show them.

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
    if v == 0.0 {
        return "0".into();
    }
    let magnitude = v.abs().log10().floor() as i32;
    match magnitude {
        -4..=5 => format!("{v:.*}", (3 - magnitude).max(0) as usize),
        _ => format!("{v:.3e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits() {
        let shown = [0.0, 1.0, 1234.5, 99999.0, 0.012345, -7.25, 1e9, 1e-7].map(figure);
        assert_eq!(shown, ["0", "1.000", "1234", "99999", "0.01235", "-7.250", "1.000e9", "1.000e-7"]);
    }
}
