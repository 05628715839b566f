//! The page of `diorama compare --html`.

use std::fmt::Write;

use fidelity::compare::{Comparison, Statistic, busiest};
use record::{Series, Verdict};

use super::profiles::{Profile, metric_over_time, of_links, of_nodes};
use super::table::knows_differences;
use super::{labels, network, observed_packets, programs};
use crate::distribution;
use crate::error::Error;
use crate::numbers::{difference, error, measured, with_interval};
use crate::page::{Column, Row, Text, checks, page, reasons, section, table, text, verdict};

/// `base` against `others`, each with the comparison that was made of it: distributions over one another, errors,
/// verdicts and checks.
pub(super) fn page_of(base: &Series, others: &[(&Series, &Comparison)]) -> Result<String, Error> {
    let all: Vec<&Series> = std::iter::once(base).chain(others.iter().map(|(s, _)| *s)).collect();
    let labels = labels(&all);
    let profiles = all.iter().map(|series| Profile::of(series)).collect::<Result<Vec<_>, Error>>()?;
    let experiment = &base.first().result.experiment;
    let mut body = format!(
        "<h1>{}</h1>\n<p class=\"lead\">{} compared{}.</p>\n",
        Text(experiment),
        Text(&labels.join(", ")),
        match base.runs.len() {
            1 => String::new(),
            n => format!(", {n} runs each: medians of the runs and of the paired errors, all samples in the curves"),
        }
    );
    body += "<dl class=\"facts\">\n";
    for (label, series) in labels.iter().zip(&all) {
        let _ = writeln!(
            body,
            "<div><dt>{} (TDF {})</dt><dd>{}</dd></div>",
            Text(label),
            text(series.first().result.tdf),
            verdict(series.verdict())
        );
    }
    body += "</dl>\n";
    for (label, (_, comparison)) in labels[1..].iter().zip(others) {
        for note in &comparison.notes {
            let _ = writeln!(body, "<p>{}: {}.</p>", Text(label), Text(note));
        }
    }
    for (name, metric) in &base.first().result.metrics {
        let curves: Vec<_> = labels.iter().cloned().zip(all.iter().map(|s| s.pooled(name))).collect();
        let _ = writeln!(body, "<h2>{} <span class=\"quiet\">({})</span></h2>", Text(name), Text(&metric.unit));
        body += &errors(name, &labels, others);
        // A metric of one sample per run has too few of them to show a distribution.
        if curves.iter().all(|(_, s)| s.sorted().len() > all[0].runs.len().max(1)) {
            body += &distribution::figure(name, &metric.unit, &curves);
            body += &metric_over_time(name, &metric.unit, &labels, &all, &profiles)?;
        }
    }
    body += &cpu(&labels, others);
    body += &of_nodes(&labels, &profiles);
    body += &of_links(&labels, &profiles);
    for (label, (other, comparison)) in labels[1..].iter().zip(others) {
        body += &programs::sections([&labels[0], label], &comparison.programs);
        let some = observed_packets(base) || observed_packets(other);
        body += &network::sections([&labels[0], label], comparison, some);
    }
    body += "<h2>Whether to trust it</h2>\n";
    for (label, series) in labels.iter().zip(&all) {
        for run in series.runs.values() {
            let fidelity = &run.result.fidelity;
            let open = if fidelity.verdict == Verdict::Suspect { " open" } else { "" };
            let _ = writeln!(
                body,
                "<details{open}><summary>{} <code>{}</code> {}</summary>\n{}{}</details>",
                Text(label),
                text(run.dir.path().display()),
                verdict(fidelity.verdict),
                reasons(fidelity),
                checks(&fidelity.checks)
            );
        }
    }
    Ok(page(&format!("{experiment}: {}", labels.join(", ")), &body))
}

/// One row per statistic: the base, and each other with its error.
fn errors(name: &str, labels: &[String], others: &[(&Series, &Comparison)]) -> String {
    let of: Vec<_> = others.iter().filter_map(|(_, c)| c.metrics.iter().find(|m| m.name == name)).collect();
    let Some(first) = of.first() else { return String::new() };
    let single = first.ks_d.is_none() && first.base.p99 == first.base.mean;
    let spread = first.base_spread_percent;
    let known = others.iter().any(|(_, c)| knows_differences(c));
    let mut columns = vec![Column::Words(""), Column::Number(&labels[0])];
    columns.extend(spread.map(|_| Column::Number("its spread")));
    for label in &labels[1..] {
        columns.extend([Column::Number(label), Column::Number("error")]);
        columns.extend(known.then_some(Column::Words("difference")));
    }
    let mut rows = String::new();
    for s in &Statistic::ALL[..if single { 1 } else { 4 }] {
        let name = if single { "value".to_string() } else { s.to_string() };
        let interval = first.base_interval.and_then(|i| s.in_intervals(&i));
        let mut row = Row::default().name(name).number(with_interval(s.of(&first.base), interval));
        if let Some(spread) = spread {
            row = row.number(spread.get(*s).map_or("–".into(), |v| format!("{v:.1} %")));
        }
        for metric in &of {
            let error = error(metric.error_percent.get(*s));
            let interval = metric.other_interval.and_then(|i| s.in_intervals(&i));
            row = row.number(with_interval(s.of(&metric.other), interval));
            row = match metric.outside.iter().any(|outside| outside.statistic == *s) {
                true => row.styled("n outside", format_args!("{error} ⚠ outside")),
                false => row.number(error),
            };
            if known {
                row = row.words(difference(metric.difference.get(*s)));
            }
        }
        rows += &row.end();
    }
    if !single {
        let mut row = Row::default().name("KS distance").words("");
        if spread.is_some() {
            row = row.words("");
        }
        for metric in &of {
            row = row.number(metric.ks_d.map_or("–".into(), |d| format!("{d:.3}"))).words("");
            if known {
                row = row.words("");
            }
        }
        rows += &row.end();
    }
    table(&columns, &rows)
}

/// How long the nodes that did most had the core.
fn cpu(labels: &[String], others: &[(&Series, &Comparison)]) -> String {
    let nodes = others.first().map_or(Vec::new(), |(_, c)| busiest(&c.nodes));
    if nodes.is_empty() {
        return String::new();
    }
    let mut columns = vec![Column::Words("node"), Column::Number(&labels[0])];
    columns.extend(labels[1..].iter().flat_map(|label| [Column::Number(label), Column::Number("error")]));
    let mut rows = String::new();
    for node in nodes {
        let mut row = Row::default().name(&node.name).number(measured(node.base_core_seconds));
        for other in others.iter().filter_map(|(_, c)| c.nodes.iter().find(|n| n.name == node.name)) {
            row = row.number(measured(other.other_core_seconds)).number(error(other.error_percent));
        }
        rows += &row.end();
    }
    section("CPU of the nodes <span class=\"quiet\">(seconds of a core)</span>", &columns, &rows)
}

#[cfg(test)]
mod tests {
    use fidelity::compare::compare;

    use super::*;
    use crate::testing::{self, HOSTILE};

    #[test]
    fn a_page_holds_every_variant_and_cannot_be_injected_into() {
        let dir = tempfile::tempdir().unwrap();
        let series = |name: &str, shift| Series::open(&testing::hostile_run(&dir.path().join(name), shift)).unwrap();
        let (base, near, far) = (series("a", 0.0), series("b", 1.0), series("c<b>", 50.0));
        let bound = ["5%".parse().unwrap()];
        let [one, two] = [&near, &far].map(|o| compare(&base, o, &bound).unwrap());
        let html = page_of(&base, &[(&near, &one), (&far, &two)]).unwrap();
        testing::assert_harmless(&html);
        // Three curves and their legend, of the metric and of CPU and memory of the nodes.
        assert_eq!(html.matches("class=\"line s").count(), 18, "{html}");
        assert!(html.contains("Profiles of the nodes"));
        assert!(html.contains(&Text(HOSTILE).to_string()));
        assert!(html.contains("CPU of the nodes") && html.contains("+50.0 %"), "2 core s, 3 and 52");
        assert!(
            html.contains("⚠ outside") && html.contains("KS distance") && html.contains("class=\"badge trustworthy\"")
        );
    }
}
