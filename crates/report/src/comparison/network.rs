//! Packets of nodes beside one another: in a few lines for a terminal, in tables for a browser.

use std::fmt::Write;

use fidelity::compare::{Comparison, Measure, NO_CHANCE, WayComparison};

use super::programs::number;
use crate::page::{Column, Row, Text, table};

/// How many ways are told: at a terminal, and on a page.
const WAYS: [usize; 2] = [6, 40];
/// How many differences of each are told at a terminal.
const DIFFERENCES: usize = 4;

/// A line for each way, and below it what differs most, if anything does.
pub(super) fn text(labels: [&str; 2], comparison: &Comparison) -> String {
    let mut text = String::new();
    let Some(network) = &comparison.network else { return text };
    if network.ways.is_empty() {
        let _ = writeln!(text, "{}: network: no packets in either", labels[1]);
    }
    for way in network.ways.iter().take(WAYS[0]) {
        let [base, other] = way.packets;
        let says = match (way.measures.is_empty(), way.differences().next()) {
            (true, _) => "",
            (false, None) => "; nothing differs by more than chance",
            (false, Some(_)) => "; it differs:",
        };
        let _ =
            writeln!(text, "{}: network: {}: {other} packets, {base} in {}{says}", labels[1], called(way), labels[0]);
        for measure in way.differences().take(DIFFERENCES) {
            let [base, other] = values(measure);
            let _ = writeln!(
                text,
                "  {} {other} {}, {base} in {}{}",
                measure.name,
                measure.unit,
                labels[0],
                by_chance(measure)
            );
        }
    }
    if let Some(more) = network.ways.len().checked_sub(WAYS[0]).filter(|more| *more > 0) {
        let _ = writeln!(text, "{}: network: and {more} others, which differ less", labels[1]);
    }
    for (label, missed) in labels.iter().zip(network.missed).filter(|(_, missed)| *missed > 0) {
        let _ = writeln!(text, "{label}: {missed} entries, arrivals and losses of packets were not seen");
    }
    text
}

/// Why nothing is told of packets, where one of the two has some.
pub(super) fn because(label: &str, comparison: &Comparison, some: bool) -> String {
    match &comparison.network_because {
        Some(because) if some => format!("{label}: network: {because}\n"),
        _ => String::new(),
    }
}

/// A section with a table for each way.
pub(super) fn sections(labels: [&str; 2], comparison: &Comparison, some: bool) -> String {
    let (base, other) = (Text(labels[0]), Text(labels[1]));
    let head = format!("<h2>Network <span class=\"quiet\">({base} and {other})</span></h2>\n");
    let Some(network) = &comparison.network else {
        let because = comparison.network_because.as_deref().unwrap_or_default();
        return if some { format!("{head}<p>{}.</p>\n", Text(because)) } else { String::new() };
    };
    let mut html = head;
    for (label, missed) in labels.iter().zip(network.missed).filter(|(_, missed)| *missed > 0) {
        let _ =
            writeln!(html, "<p>{}: {missed} entries, arrivals and losses of packets were not seen.</p>", Text(label));
    }
    for way in network.ways.iter().take(WAYS[1]) {
        let _ = writeln!(html, "<h3>{}</h3>", Text(&called(way)));
        html += &way_table(labels, way);
    }
    if let Some(more) = network.ways.len().checked_sub(WAYS[1]).filter(|more| *more > 0) {
        let _ = writeln!(html, "<p>And {more} others, which differ less.</p>");
    }
    html
}

fn way_table(labels: [&str; 2], way: &WayComparison) -> String {
    let columns = [
        Column::Words(""),
        Column::Number(labels[0]),
        Column::Number(labels[1]),
        Column::Number("error"),
        Column::Words("by chance"),
    ];
    let count = |name: &str, values: [u64; 2]| {
        let row = Row::default().name(name).number(values[0]).number(values[1]);
        row.number("").words("").end()
    };
    let mut rows = String::new();
    for measure in &way.measures {
        let [base, other] = values(measure);
        let error = measure.error_percent.map_or("–".into(), |error| format!("{error:+.1} %"));
        let row = Row::default().name(format!("{}, {}", measure.name, measure.unit)).number(base).number(other);
        let row = if measure.differs() { row.styled("n outside", error) } else { row.number(error) };
        rows += &row.words(chance(measure)).end();
    }
    rows += &count("packets", way.packets);
    rows += &count("bytes", way.bytes);
    rows += &count("flows", way.flows);
    table(&columns, &rows)
}

/// Who sends what to whom.
fn called(way: &WayComparison) -> String {
    let port = way.server_port.map_or(String::new(), |port| format!(" {port}"));
    let role = if way.asks { "asks" } else { "answers" };
    format!("{}{port}, {} {role} {}", way.protocol, way.from, way.to)
}

fn values(measure: &Measure) -> [String; 2] {
    measure.values.map(|value| value.map_or("–".into(), number))
}

fn by_chance(measure: &Measure) -> String {
    match measure.chance {
        Some(chance) if chance < NO_CHANCE => "; not by chance".into(),
        _ => String::new(),
    }
}

fn chance(measure: &Measure) -> String {
    match measure.chance {
        Some(chance) if chance < NO_CHANCE => "no".into(),
        Some(chance) => format!("in {:.0} % of draws", 100.0 * chance),
        None => "not known".into(),
    }
}

#[cfg(test)]
mod tests {
    use fidelity::compare::{NetworkComparison, compare};
    use record::Variant;

    use super::*;
    use crate::testing::{HOSTILE, assert_harmless, latencies, run, series};

    fn compared(network: Option<NetworkComparison>) -> Comparison {
        let made = |name, variant| series(name, [run(name, variant, &latencies(1.0), &[])]);
        let (base, other) = (made("baseline", Variant::Baseline), made("scaled", Variant::Scaled));
        let comparison = compare(&base, &other, &[]).unwrap();
        assert!(comparison.network.is_none() && comparison.network_because.is_some());
        Comparison { network, ..comparison }
    }

    fn lossy() -> NetworkComparison {
        let measure = |name, values: [f64; 2], chance| Measure {
            name,
            unit: "% of packets",
            values: values.map(Some),
            error_percent: None,
            chance,
        };
        let way = WayComparison {
            protocol: "tcp".into(),
            from: HOSTILE.into(),
            to: "client".into(),
            server_port: Some(80),
            asks: false,
            flows: [3, 3],
            packets: [800, 840],
            bytes: [80_000, 84_000],
            measures: vec![measure("dropped", [0.0, 2.5], Some(0.0)), measure("duplicates", [1.0, 1.1], Some(0.4))],
        };
        NetworkComparison { requests: None, ways: vec![way], missed: [0, 7] }
    }

    #[test]
    fn what_differs_is_told_and_what_is_not_known_says_why() {
        let told = text(["baseline", "scaled"], &compared(Some(lossy())));
        assert!(told.contains("answers client: 840 packets, 800 in baseline; it differs:\n"), "{told}");
        assert!(told.contains("  dropped 2.50 % of packets, 0.000 in baseline; not by chance\n"), "{told}");
        assert!(told.contains("scaled: 7 entries") && !told.contains("duplicates"), "{told}");
        let nothing = compared(None);
        assert_eq!(text(["a", "b"], &nothing), "");
        assert!(because("b", &nothing, true).contains("write `observe: { packets: true }`"));
        assert_eq!(because("b", &nothing, false), "");
    }

    #[test]
    fn a_page_has_a_table_for_each_way_and_cannot_be_injected_into() {
        let html = sections(["a", HOSTILE], &compared(Some(lossy())), true);
        assert_harmless(&html);
        assert!(html.contains("<h2>Network") && html.contains("in 40 % of draws"), "{html}");
        assert_eq!(html.matches("class=\"n outside\"").count(), 1, "{html}");
        let missing = sections(["a", "b"], &compared(None), true);
        assert!(missing.contains("were not observed"), "{missing}");
        assert_eq!(sections(["a", "b"], &compared(None), false), "");
    }
}
