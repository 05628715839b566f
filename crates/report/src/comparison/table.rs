//! A comparison as a table for a terminal.

use std::fmt::Write;

use fidelity::compare::{Comparison, MetricComparison, NodeComparison, Statistic, busiest};
use record::Series;

use super::{labels, network, observed_packets, programs};
use crate::numbers::{difference, error, measured, with_interval};

/// One table of `base` against all `others`, each with the comparison that was made of it.
pub(super) fn table(base: &Series, others: &[(&Series, &Comparison)]) -> String {
    let labels = labels(&std::iter::once(base).chain(others.iter().map(|(s, _)| *s)).collect::<Vec<_>>());
    let shown = Shown { spread: base.runs.len() > 1, difference: others.iter().any(|(_, c)| knows_differences(c)) };
    let mut head = vec!["metric".into(), "unit".into(), String::new(), labels[0].clone()];
    head.extend(shown.spread.then(|| "spread".into()));
    for label in &labels[1..] {
        head.extend([label.clone(), "error".into()]);
        head.extend(shown.difference.then(|| "difference".into()));
    }
    let mut rows = vec![head];
    let metrics = others.first().map_or(&[][..], |(_, c)| &c.metrics);
    for (index, metric) in metrics.iter().enumerate() {
        let each: Vec<&MetricComparison> = others.iter().map(|(_, c)| &c.metrics[index]).collect();
        rows.extend(metric_rows(metric, &each, shown));
    }
    rows.extend(node_rows(others, shown));
    let mut text = format!("{}: {}", base.first().result.experiment, labels.join(" – "));
    if shown.spread {
        let _ = write!(text, ", {} pairs: medians; error: median of the paired errors", base.runs.len());
    }
    text.push_str("\n\n");
    text.push_str(&aligned(&rows));
    text.push('\n');
    let all = std::iter::once(base).chain(others.iter().map(|(s, _)| *s));
    for (label, series) in labels.iter().zip(all) {
        let _ = writeln!(text, "{label}: {}", series.verdict());
        for run in series.runs.values() {
            for why in run.result.fidelity.reasons() {
                let _ = writeln!(text, "  {}: {why}", run.dir.path().display());
            }
        }
    }
    for (label, (other, comparison)) in labels[1..].iter().zip(others) {
        text += &programs::text([&labels[0], label], &comparison.programs);
        text += &network::text([&labels[0], label], comparison);
        text += &network::because(label, comparison, observed_packets(base) || observed_packets(other));
        for note in &comparison.notes {
            let _ = writeln!(text, "{label}: {note}");
        }
        for outside in comparison.metrics.iter().flat_map(|m| &m.outside) {
            let _ = writeln!(text, "outside: {label}: {}", outside.says);
        }
    }
    text
}

/// Which columns there are.
#[derive(Clone, Copy)]
struct Shown {
    /// The base's spread, of several runs.
    spread: bool,
    /// Words for each difference.
    difference: bool,
}

/// Whether anything can be said of any difference.
pub(super) fn knows_differences(comparison: &Comparison) -> bool {
    comparison.metrics.iter().any(|m| Statistic::ALL.iter().any(|s| m.difference.get(*s).is_some()))
}

fn metric_rows(metric: &MetricComparison, others: &[&MetricComparison], columns: Shown) -> Vec<Vec<String>> {
    // A metric of one sample per run has no quantiles; its mean is the sample.
    let single = metric.ks_d.is_none() && metric.base.p99 == metric.base.mean;
    let statistics = if single { &Statistic::ALL[..1] } else { &Statistic::ALL[..] };
    let mut rows = Vec::new();
    for (i, s) in statistics.iter().enumerate() {
        let named = |text: &str| if i == 0 { text.to_string() } else { String::new() };
        let shown = if single { String::new() } else { s.to_string() };
        let interval = metric.base_interval.and_then(|i| s.in_intervals(&i));
        let mut row =
            vec![named(&metric.name), named(&metric.unit), shown, with_interval(s.of(&metric.base), interval)];
        if columns.spread {
            let spread = metric.base_spread_percent.and_then(|spread| spread.get(*s));
            row.push(spread.map_or("–".into(), |v| format!("{v:.1} %")));
        }
        for other in others {
            row.push(with_interval(s.of(&other.other), other.other_interval.and_then(|i| s.in_intervals(&i))));
            row.push(error(other.error_percent.get(*s)));
            row.extend(columns.difference.then(|| difference(other.difference.get(*s))));
        }
        rows.push(row);
    }
    if !single {
        let mut row = vec![String::new(), String::new(), "KS d".into(), String::new()];
        row.extend(columns.spread.then(String::new));
        for other in others {
            row.push(other.ks_d.map_or("–".into(), |d| format!("{d:.3}")));
            row.push(String::new());
            row.extend(columns.difference.then(String::new));
        }
        rows.push(row);
    }
    rows
}

/// Use of the CPU by the nodes that used most.
fn node_rows(others: &[(&Series, &Comparison)], columns: Shown) -> Vec<Vec<String>> {
    let nodes = others.first().map_or(&[][..], |(_, c)| &c.nodes);
    let row = |node: &NodeComparison| {
        let mut row =
            vec![format!("CPU of {}", node.name), "core s".into(), String::new(), measured(node.base_core_seconds)];
        row.extend(columns.spread.then(String::new));
        // The nodes of all comparisons are the base's.
        for other in others.iter().filter_map(|(_, c)| c.nodes.iter().find(|n| n.name == node.name)) {
            row.push(measured(other.other_core_seconds));
            row.push(error(other.error_percent));
            row.extend(columns.difference.then(String::new));
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

#[cfg(test)]
mod tests {
    use fidelity::compare::compare;
    use record::{CheckName, Variant};

    use super::*;
    use crate::testing::{check, known, latencies, run, series};

    #[test]
    fn one_table_holds_several_variants() {
        let made = |name, variant, scale| series(name, [run(name, variant, &latencies(scale), &[])]);
        let base = made("baseline", Variant::Baseline, 1.0);
        let (scaled, naive) = (made("scaled", Variant::Scaled, 1.02), made("naive", Variant::Naive, 2.0));
        let comparisons = [&scaled, &naive].map(|o| compare(&base, o, &["5%".parse().unwrap()]).unwrap());
        let text = table(&base, &[(&scaled, &comparisons[0]), (&naive, &comparisons[1])]);
        let head = text.lines().find(|l| l.starts_with("metric")).unwrap();
        assert_eq!(
            head.split_whitespace().collect::<Vec<_>>(),
            ["metric", "unit", "baseline", "scaled", "error", "naive", "error"]
        );
        let mean = text.lines().find(|l| l.starts_with("latency")).unwrap();
        assert_eq!(
            mean.split_whitespace().collect::<Vec<_>>(),
            ["latency", "ms", "mean", "100.5", "102.5", "+2.0", "%", "201.0", "+100.0", "%"]
        );
        assert!(text.contains("outside: naive: latency mean is +100.00 % off, more than 5 %"), "{text}");
        assert_eq!(text.matches("\nrequests").count(), 1, "a metric of one sample has one row: {text}");
    }

    #[test]
    fn what_can_be_said_of_a_difference_has_a_column() {
        let made = |name, variant, scale| series(name, [known(run(name, variant, &latencies(scale), &[]), 1.0)]);
        let (base, other) = (made("baseline", Variant::Baseline, 1.0), made("scaled", Variant::Scaled, 1.2));
        let compared = compare(&base, &other, &[]).unwrap();
        let text = table(&base, &[(&other, &compared)]);
        let head = text.lines().find(|l| l.starts_with("metric")).unwrap();
        assert!(head.ends_with("difference"), "{head}");
        let mean = text.lines().find(|l| l.starts_with("latency")).unwrap();
        assert!(mean.contains("100.5 ± 1.0 ") && mean.contains("120.6 ± 1.2 "), "{mean}");
        assert!(mean.ends_with("different (+18.3 to +21.7 %)"), "{mean}");
    }

    #[test]
    fn only_nodes_that_did_much_have_a_row() {
        let made = |name, server| {
            let nodes = [("server", Some(server)), ("client", Some(0.1)), ("old", None)];
            series(name, [run(name, Variant::Scaled, &latencies(1.0), &nodes)])
        };
        let (base, other) = (made("a", 2.0), made("b", 2.2));
        let compared = compare(&base, &other, &[]).unwrap();
        let text = table(&base, &[(&other, &compared)]);
        let row = text.lines().find(|l| l.starts_with("CPU of ")).unwrap();
        let shown: Vec<_> = row.split_whitespace().collect();
        assert_eq!(shown, ["CPU", "of", "server", "core", "s", "2.000", "2.200", "+10.0", "%"]);
        assert!(!text.contains("CPU of client"), "it did little: {text}");
    }

    #[test]
    fn a_suspect_run_is_flagged_with_what_its_checks_say() {
        let base = series("baseline", [run("baseline", Variant::Baseline, &latencies(1.0), &[])]);
        let mut suspect = run("scaled", Variant::Scaled, &latencies(1.0), &[]);
        let stolen = check(CheckName::Steal, false, "At most, the hypervisor took 3 % of core 0.");
        suspect.result.fidelity = fidelity::conclude(vec![stolen]);
        let other = series("scaled", [suspect]);
        let compared = compare(&base, &other, &[]).unwrap();
        let text = table(&base, &[(&other, &compared)]);
        assert!(text.contains("scaled: suspect") && text.contains("steal: At most, the hypervisor took 3 %"), "{text}");
    }
}
