//! How fast the nodes' core was over virtual time.

use record::SpeedInterval;

use crate::lines::{Line, chart};

/// A heading and a chart; nothing, if the speed was not measured.
pub(super) fn section(speed: &[SpeedInterval]) -> String {
    let line = |name: &str, of: fn(&SpeedInterval) -> Option<f64>| {
        let points: Vec<_> = speed.iter().filter_map(|s| Some((s.virtual_s, of(s)?))).collect();
        (points.len() > 1).then(|| Line { name: name.into(), points, spread: Vec::new() })
    };
    let related = speed.iter().any(|s| s.percent_of_reference.is_some());
    let (unit, lines) = match related {
        true => {
            let nodes = line("what nodes were entitled to, of their shares of time", |s| Some(100.0 * s.k));
            let core = line("the core's speed, of the reference", |s| s.percent_of_reference);
            ("%", [core, nodes])
        }
        false => ("units/µs", [line("the core's speed", |s| s.units_per_us), None]),
    };
    let lines: Vec<Line> = lines.into_iter().flatten().collect();
    if lines.is_empty() {
        return String::new();
    }
    let capped = speed.iter().filter(|s| s.capped > 0.0).count();
    let note = match capped {
        0 => String::new(),
        n => format!(
            "<p>In {n} virtual seconds nodes got less than they were entitled to: too much of the core is sold.</p>\n"
        ),
    };
    let title = "Speed of the nodes' core";
    format!("<h2>{title}</h2>\n{note}{}", chart(title, "virtual s", unit, &lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(virtual_s: f64, percent: Option<f64>) -> SpeedInterval {
        let units_per_us = Some(900.0);
        SpeedInterval { virtual_s, core: 0, units_per_us, percent_of_reference: percent, k: 1.2, capped: 0.0 }
    }

    #[test]
    fn speed_and_shares_are_lines_over_time() {
        let html = section(&[second(0.0, Some(80.0)), second(1.0, None), second(2.0, Some(95.0))]);
        assert_eq!(html.matches("<polyline").count(), 2, "{html}");
        assert!(html.contains("of the reference") && !html.contains("too much of the core"), "{html}");
        let capped = SpeedInterval { capped: 0.5, ..second(1.0, Some(50.0)) };
        assert!(section(&[second(0.0, Some(80.0)), capped]).contains("In 1 virtual seconds"));
        let unrelated = section(&[second(0.0, None), second(1.0, None)]);
        assert!(unrelated.matches("<polyline").count() == 1 && unrelated.contains("units/µs"), "{unrelated}");
        assert!(section(&[]).is_empty() && section(&[second(0.0, Some(80.0))]).is_empty(), "a point is no line");
    }
}
