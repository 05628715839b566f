//! Numbers, times and places, as the sentences of the checks have them.

use scale::{VirtualDuration, VirtualInstant};

use crate::observations::Occurrence;

pub(crate) fn milliseconds(d: VirtualDuration) -> f64 {
    d.as_secs_f64() * 1e3
}

/// Three significant digits, without noise.
pub fn number(v: f64) -> String {
    let places = match v.abs() {
        a if a >= 99.95 || a == 0.0 => 0,
        a if a >= 9.995 => 1,
        a if a >= 0.9995 => 2,
        a if a >= 0.09995 => 3,
        _ => 4,
    };
    let text = format!("{v:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// So many significant digits, as a person would write them: all that stand before the point, and no power of ten.
pub fn significant(v: f64, digits: i32) -> String {
    let places = if v == 0.0 { 0 } else { (digits - 1 - v.abs().log10().floor() as i32).max(0) as usize };
    format!("{v:.places$}")
}

pub(crate) fn time(at: VirtualInstant) -> String {
    format!("{:.1} s", at.as_secs_f64())
}

/// `in web-1, from 3.0 s to 4.0 s`
pub(crate) fn place(worst: &Occurrence) -> String {
    let whose = worst.whose.as_ref().map_or(String::new(), |who| format!("in {who}, "));
    format!("{whose}{}", span(worst))
}

pub(crate) fn span(worst: &Occurrence) -> String {
    format!("from {} to {}", time(worst.from), time(worst.to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let short = [0.0, 0.00001, 0.05, 0.5, 1.0, 9.999, 12.34, 101.0, 12345.6].map(number);
        assert_eq!(short, ["0", "0", "0.05", "0.5", "1", "10", "12.3", "101", "12346"]);
    }
}
