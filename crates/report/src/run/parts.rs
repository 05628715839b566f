//! Parts of the interval of a metric, as bars.

use fidelity::compare::Statistic;
use fidelity::effects::{furthest, is_known};
use record::{CheckName, MetricEffect, MetricRecord};

use crate::numbers::percent_range;
use crate::page::{Column, Row, table};

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 14.0;
/// Parts that are less than this, in per cent, cannot be seen.
const LEAST: f64 = 0.05;

/// A table of what makes a metric uncertain, largest first; nothing, if that is not known.
pub(super) fn of(metric: &MetricRecord) -> String {
    let Some(uncertainty) = &metric.uncertainty else { return String::new() };
    let chance = Statistic::Mean.in_intervals(&uncertainty.sampling).filter(|_| metric.summary.mean != 0.0);
    let chance = chance.map(|ends| ends.map(|end| 100.0 * (end - metric.summary.mean) / metric.summary.mean.abs()));
    let (known, unknown): (Vec<&MetricEffect>, Vec<&MetricEffect>) =
        uncertainty.effects.iter().partition(|e| is_known(e.percent));
    let effects = known.into_iter().map(|e| (e.check.to_string(), e.percent));
    let mut parts: Vec<_> = chance.map(|c| ("chance".to_string(), c)).into_iter().chain(effects).collect();
    parts.retain(|(_, range)| furthest(*range).abs() >= LEAST);
    parts.sort_by(|a, b| furthest(b.1).abs().total_cmp(&furthest(a.1).abs()));
    if parts.is_empty() && unknown.is_empty() {
        return String::new();
    }
    let most = parts.first().map_or(0.0, |(_, largest)| furthest(*largest).abs());
    let nothing = |check: &CheckName| Row::default().name(check.as_str()).html("").number("not known").end();
    let row = |(name, range): &(String, [f64; 2])| {
        Row::default().name(name).html(&bar(*range, most)).number(percent_range(*range)).end()
    };
    let unknown = unknown.into_iter().map(|effect| nothing(&effect.check));
    let rows: String = unknown.chain(parts.iter().map(row)).collect();
    let columns = [Column::Words("of the mean"), Column::Words("too small – too large"), Column::Number("")];
    format!("<details><summary>what it may be off by</summary>\n{}</details>\n", table(&columns, &rows))
}

/// A bar from one end of a range to the other, on an axis with 0 in the middle.
fn bar([low, high]: [f64; 2], most: f64) -> String {
    let x = |v: f64| WIDTH / 2.0 * (1.0 + (v / most).clamp(-1.0, 1.0));
    let (from, to) = (x(low), x(high));
    format!(
        "<svg class=\"small\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         aria-hidden=\"true\"><path class=\"grid\" d=\"M{0} 0V{HEIGHT}\"/>\
         <rect class=\"bar\" x=\"{from:.1}\" y=\"3\" width=\"{1:.1}\" height=\"8\"/></svg>",
        WIDTH / 2.0,
        (to - from).max(1.0)
    )
}

#[cfg(test)]
mod tests {
    use record::{Intervals, Summary, Uncertainty};

    use super::*;

    #[test]
    fn the_largest_part_has_the_longest_bar_and_comes_first() {
        let summary = Summary { n: 100, mean: 10.0, p50: 10.0, p90: 10.0, p99: 10.0 };
        let mut metric = MetricRecord::new("ms", summary, "metrics/m.csv");
        assert_eq!(of(&metric), "");
        let effect = |check, percent| MetricEffect { check, percent, tail_percent: None };
        metric.uncertainty = Some(Uncertainty {
            sampling: Intervals { mean: Some([9.8, 10.2]), ..Intervals::default() },
            effects: vec![
                effect(CheckName::ClockLead, [0.0, 4.0]),
                effect(CheckName::ClockRate, [-0.001, 0.001]),
                effect(CheckName::Steal, [0.0, 1.0]),
                effect(CheckName::Caches, [f64::NEG_INFINITY, f64::INFINITY]),
            ],
            cpu_sensitivity: 1.0,
        });
        let html = of(&metric);
        let places = ["caches", "not known", "clock-lead", "chance", "steal"].map(|name| html.find(name).unwrap());
        assert!(places.is_sorted() && !html.contains("clock-rate"), "{html}");
        assert!(html.contains("x=\"120.0\" y=\"3\" width=\"120.0\"") && html.contains("0 to +4.0 %"), "{html}");
        assert!(html.contains("x=\"60.0\" y=\"3\" width=\"120.0\"") && html.contains("-2.0 to +2.0 %"), "{html}");
    }
}
