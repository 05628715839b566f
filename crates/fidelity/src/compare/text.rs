//! The comparison as a table for a terminal.

use std::fmt::Write;

use super::{Comparison, MetricComparison, NodeComparison, Statistic, busiest};
use record::Series;

/// One table of `base` against all `others`, each with the comparison that was made of it.
pub fn table(base: &Series, others: &[(&Series, &Comparison)]) -> String {
    let labels = labels(&std::iter::once(base).chain(others.iter().map(|(s, _)| *s)).collect::<Vec<_>>());
    let repeated = base.runs.len() > 1;
    let mut head = vec!["metric".into(), "unit".into(), String::new(), labels[0].clone()];
    if repeated {
        head.push("spread".into());
    }
    for label in &labels[1..] {
        head.extend([label.clone(), "error".into()]);
    }
    let mut rows = vec![head];
    let metrics = others.first().map_or(&[][..], |(_, c)| &c.metrics);
    for (index, metric) in metrics.iter().enumerate() {
        let each: Vec<&MetricComparison> = others.iter().map(|(_, c)| &c.metrics[index]).collect();
        rows.extend(metric_rows(metric, &each, repeated));
    }
    rows.extend(node_rows(others, repeated));
    let mut text = format!("{}: {}", base.first().result.experiment, labels.join(" – "));
    if repeated {
        let _ = write!(text, ", {} pairs: medians; error: median of the paired errors", base.runs.len());
    }
    text.push_str("\n\n");
    text.push_str(&aligned(&rows));
    text.push('\n');
    let all = std::iter::once(base).chain(others.iter().map(|(s, _)| *s));
    for (label, series) in labels.iter().zip(all) {
        let _ = writeln!(text, "{label}: {}", series.verdict());
        for run in series.runs.values() {
            for check in run.result.fidelity.breaches() {
                let _ = writeln!(text, "  {}: {}: {}", run.dir.display(), check.name, check.says);
            }
        }
    }
    for (label, (_, comparison)) in labels[1..].iter().zip(others) {
        for outside in comparison.metrics.iter().flat_map(|m| &m.outside) {
            let _ = writeln!(text, "outside: {label}: {outside}");
        }
    }
    text
}

/// A short name for each series: its variant, or its path where two have the same.
pub fn labels(series: &[&Series]) -> Vec<String> {
    let variant = |s: &Series| s.first().result.variant;
    let label = |s: &&Series| {
        let alike = series.iter().filter(|o| variant(o) == variant(s)).count();
        if alike > 1 { s.path.display().to_string() } else { variant(s).to_string() }
    };
    series.iter().map(label).collect()
}

fn metric_rows(metric: &MetricComparison, others: &[&MetricComparison], repeated: bool) -> Vec<Vec<String>> {
    // A metric of one sample per run has no quantiles; its mean is the sample.
    let single = metric.ks_d.is_none() && metric.base.p99 == metric.base.mean;
    let statistics = if single { &Statistic::ALL[..1] } else { &Statistic::ALL[..] };
    let mut rows = Vec::new();
    for (i, s) in statistics.iter().enumerate() {
        let named = |text: &str| if i == 0 { text.to_string() } else { String::new() };
        let shown = if single { String::new() } else { s.to_string() };
        let mut row = vec![named(&metric.name), named(&metric.unit), shown, figure(s.of(&metric.base))];
        if repeated {
            let spread = metric.base_spread_percent.and_then(|spread| spread.get(*s));
            row.push(spread.map_or("–".into(), |v| format!("{v:.1} %")));
        }
        for other in others {
            row.push(figure(s.of(&other.other)));
            row.push(error(other.error_percent.get(*s)));
        }
        rows.push(row);
    }
    if !single {
        let mut row = vec![String::new(), String::new(), "KS d".into(), String::new()];
        row.extend(repeated.then(String::new));
        for other in others {
            row.push(other.ks_d.map_or("–".into(), |d| format!("{d:.3}")));
            row.push(String::new());
        }
        rows.push(row);
    }
    rows
}

/// What the nodes that did most used of their CPU.
fn node_rows(others: &[(&Series, &Comparison)], repeated: bool) -> Vec<Vec<String>> {
    let nodes = others.first().map_or(&[][..], |(_, c)| &c.nodes);
    let row = |node: &NodeComparison| {
        let mut row =
            vec![format!("CPU of {}", node.name), "core s".into(), String::new(), measured(node.base_core_seconds)];
        row.extend(repeated.then(String::new));
        // The nodes of all comparisons are the base's.
        for other in others.iter().filter_map(|(_, c)| c.nodes.iter().find(|n| n.name == node.name)) {
            row.push(measured(other.other_core_seconds));
            row.push(error(other.error_percent));
        }
        row
    };
    busiest(nodes).into_iter().map(row).collect()
}

/// Columns of text to the left for the first three, numbers to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(c, (cell, width))| if c < 3 { format!("{cell:<width$}") } else { format!("{cell:>width$}") });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// An error of so many per cent, signed; a dash if it is infinite or unknown.
pub fn error(percent: Option<f64>) -> String {
    percent.map_or("–".into(), |e| format!("{e:+.1} %"))
}

/// Four significant digits, or a dash for what was not measured.
pub fn measured(v: Option<f64>) -> String {
    v.map_or("–".into(), figure)
}

/// Four significant digits.
pub fn figure(v: f64) -> String {
    if v == 0.0 {
        return "0".into();
    }
    let magnitude = v.abs().log10().floor() as i32;
    match magnitude {
        -4..=5 => format!("{v:.*}", (3 - magnitude).max(0) as usize),
        _ => format!("{v:.3e}"),
    }
}
