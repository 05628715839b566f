//! How fast the nodes' cores were over virtual time.

use std::collections::BTreeSet;

use record::SpeedInterval;

use crate::lines::{Line, chart};
use crate::marks::Marks;

/// A heading and a chart; nothing, if the speed was not measured. Of several cores each has a line for its speed, and
/// what nodes were entitled to is the mean.
pub(super) fn section(speed: &[SpeedInterval], marks: &Marks) -> String {
    let cores: BTreeSet<usize> = speed.iter().map(|s| s.core).collect();
    let line =
        |name: String, points: Vec<(f64, f64)>| (points.len() > 1).then(|| Line { name, points, spread: Vec::new() });
    let of_core = |core: usize, of: fn(&SpeedInterval) -> Option<f64>| {
        speed.iter().filter(|s| s.core == core).filter_map(|s| Some((s.virtual_s, of(s)?))).collect::<Vec<_>>()
    };
    let by_core = |single: &str, several: &str, of: fn(&SpeedInterval) -> Option<f64>| {
        let named = |core: &usize| if cores.len() > 1 { format!("core {core}, {several}") } else { single.to_owned() };
        cores.iter().filter_map(|core| line(named(core), of_core(*core, of))).collect::<Vec<_>>()
    };
    let related = speed.iter().any(|s| s.percent_of_reference.is_some());
    let (unit, lines) = match related {
        true => {
            let name = "what nodes were entitled to, of their shares of time";
            let mut lines =
                by_core("the core's speed, of the reference", "of the reference", |s| s.percent_of_reference);
            lines.extend(line(name.into(), entitled(speed)));
            ("%", lines)
        }
        false => ("units/µs", by_core("the core's speed", "its speed", |s| s.units_per_us)),
    };
    if lines.is_empty() {
        return String::new();
    }
    // Rows of one second of several cores count once.
    let mut capped: Vec<f64> = speed.iter().filter(|s| s.capped > 0.0).map(|s| s.virtual_s).collect();
    capped.sort_by(f64::total_cmp);
    capped.dedup();
    let note = match capped.len() {
        0 => String::new(),
        n => format!(
            "<p>In {n} virtual seconds nodes got less than they were entitled to: too much of the core is sold.</p>\n"
        ),
    };
    let title = if cores.len() > 1 { "Speed of the nodes' cores" } else { "Speed of the nodes' core" };
    format!("<h2>{title}</h2>\n{note}{}", chart(title, "virtual s", unit, &lines, marks))
}

/// How many times its share a node was entitled to, per cent, by virtual second: the mean of all cores.
fn entitled(speed: &[SpeedInterval]) -> Vec<(f64, f64)> {
    let mut sums: Vec<(f64, f64, f64)> = Vec::new();
    for s in speed {
        match sums.last_mut() {
            // Rows of one second follow one another.
            Some((at, sum, count)) if *at == s.virtual_s => (*sum, *count) = (*sum + s.k, *count + 1.0),
            _ => sums.push((s.virtual_s, s.k, 1.0)),
        }
    }
    sums.into_iter().map(|(at, sum, count)| (at, 100.0 * sum / count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section_of(speed: &[SpeedInterval]) -> String {
        section(speed, &Marks::default())
    }

    fn second(virtual_s: f64, percent: Option<f64>) -> SpeedInterval {
        let units_per_us = Some(900.0);
        SpeedInterval { virtual_s, core: 0, units_per_us, percent_of_reference: percent, k: 1.2, capped: 0.0 }
    }

    #[test]
    fn speed_and_shares_are_lines_over_time() {
        let html = section_of(&[second(0.0, Some(80.0)), second(1.0, None), second(2.0, Some(95.0))]);
        assert_eq!(html.matches("<polyline").count(), 2, "{html}");
        assert!(html.contains("of the reference") && !html.contains("too much of the core"), "{html}");
        let capped = SpeedInterval { capped: 0.5, ..second(1.0, Some(50.0)) };
        assert!(section_of(&[second(0.0, Some(80.0)), capped]).contains("In 1 virtual seconds"));
        let unrelated = section_of(&[second(0.0, None), second(1.0, None)]);
        assert!(unrelated.matches("<polyline").count() == 1 && unrelated.contains("units/µs"), "{unrelated}");
        assert!(section_of(&[]).is_empty() && section_of(&[second(0.0, Some(80.0))]).is_empty(), "a point is no line");
    }

    #[test]
    fn each_core_has_its_line() {
        let on = |core, capped, s: SpeedInterval| SpeedInterval { core, capped, ..s };
        let mut rows = Vec::new();
        for at in [0.0, 1.0, 2.0] {
            rows.push(on(0, 0.0, second(at, Some(80.0))));
            rows.push(on(3, 0.5, SpeedInterval { k: 2.2, ..second(at, Some(50.0)) }));
            rows.push(on(4, 0.5, second(at, Some(90.0))));
        }
        let html = section_of(&rows);
        assert_eq!(html.matches("<polyline").count(), 4, "{html}");
        assert!(html.contains("core 3, of the reference") && html.contains("nodes' cores"), "{html}");
        assert!(html.contains("In 3 virtual seconds"), "{html}");
        assert!((entitled(&rows)[1].1 - 100.0 * (1.2 + 2.2 + 1.2) / 3.0).abs() < 1e-9);
    }
}
