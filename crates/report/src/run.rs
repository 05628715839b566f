//! `report.html`: one run.

mod disks;
mod nodes;
mod parts;
mod pipes;
mod speed;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use fidelity::compare::Statistic;
use fidelity::wording::number;
use indexmap::IndexMap;
use record::plan::{PipeValues, PlannedNode, PlannedPipe};
use record::{Ended, Event, Plan, Run, RunDir, RunResult, Status};
use serde_json::Value;

use crate::distribution;
use crate::error::Error;
use crate::marks::Marks;
use crate::numbers::{figure, with_interval};
use crate::page::{Column, Row, Text, checks, page, reasons, section, table, verdict};
use crate::ticks;
use crate::usage::Usage;

/// Reads a run directory, writes its report into it and says where.
pub fn write_report(dir: &RunDir) -> Result<PathBuf, Error> {
    let run = Run::of(dir)?;
    let (events, plan) = (dir.events()?, dir.plan()?);
    let (marks, end_s) = (Marks::of(&events), run.result.virtual_seconds);
    let over_time = OverTime {
        nodes: nodes::section_of(&Usage::of(dir, end_s)?, &marks, end_s),
        links: pipes::rows(&dir.pipe_intervals()?, end_s, &marks),
        disks: disks::rows(&dir.disks()?, end_s, &marks),
        speed: speed::section(&dir.speed()?, &marks),
    };
    Ok(dir.write_report(&report(&run, &events, plan.as_ref(), &over_time))?)
}

/// Series over virtual time.
struct OverTime {
    /// A section on what nodes used of their machines; empty if nobody looked.
    nodes: String,
    /// The rows of what the links did.
    links: String,
    /// The rows of what the nodes' disks did.
    disks: String,
    /// A section on the speed of the nodes' core; empty if it was not measured.
    speed: String,
}

/// The page.
fn report(run: &Run, events: &[Event], plan: Option<&Plan>, over_time: &OverTime) -> String {
    let result = &run.result;
    let mut body = summary(result);
    for (name, metric) in &result.metrics {
        let s = &metric.summary;
        let _ = writeln!(body, "<h2>{} <span class=\"quiet\">({})</span></h2>", Text(name), Text(&metric.unit));
        let intervals = metric.interval.unwrap_or_default();
        let fact = |of: Statistic| with_interval(of.of(s), of.in_intervals(&intervals));
        if s.n == 1 {
            let _ = writeln!(body, "<p>One sample: <strong>{}</strong></p>", fact(Statistic::Mean));
            body += &parts::of(metric);
            continue;
        }
        let facts = std::iter::once(("n", s.n.to_string()));
        body += &fact_list(facts.chain(Statistic::ALL.map(|of| (of.as_str(), fact(of)))));
        body += &parts::of(metric);
        let curve = [(result.variant.to_string(), run.samples[name].clone())];
        body += &distribution::figure(name, &metric.unit, &curve);
    }
    let _ = writeln!(body, "<h2>Whether to trust it</h2>\n<p>{}</p>", verdict(result.fidelity.verdict));
    body += &reasons(&result.fidelity);
    body += &checks(&result.fidelity.checks);
    body += &over_time.speed;
    body += &what_happened(result, events);
    body += &nodes(result, plan.map(|plan| &plan.nodes));
    body += &over_time.nodes;
    body += &plan.map_or(String::new(), |plan| links(&plan.pipes));
    let columns = [
        Column::Words("pipe"),
        Column::Words("utilisation"),
        Column::Number("most"),
        Column::Words("longest queue"),
        Column::Number("packets"),
        Column::Number("dropped by the queue"),
        Column::Number("lost"),
        Column::Number("down"),
        Column::Number("too long"),
    ];
    body += &section("Links over virtual time", &columns, &over_time.links);
    let columns = [
        Column::Words("disk of"),
        Column::Words("requests"),
        Column::Number("most, 1/s"),
        Column::Words("queue"),
        Column::Number("most"),
        Column::Words("utilisation"),
        Column::Words("latency"),
        Column::Number("mean, virtual ms"),
        Column::Number("reads"),
        Column::Number("MB"),
        Column::Number("writes"),
        Column::Number("MB"),
        Column::Number("flushes"),
        Column::Number("late"),
    ];
    body += &section("Disks over virtual time", &columns, &over_time.disks);
    body += &plan.map_or(String::new(), |plan| versions(&plan.versions));
    page(&format!("{}, {}", result.experiment, result.variant), &body)
}

fn summary(result: &RunResult) -> String {
    let mut html = format!("<h1>{}</h1>\n", Text(&result.experiment));
    if result.status == Status::Failed {
        let why = result.why.as_deref().unwrap_or("it does not say why");
        let _ = writeln!(html, "<p class=\"failed\"><strong>⚠ The run failed:</strong> {}</p>", Text(why));
    }
    html += "<dl class=\"facts\">\n";
    let _ = writeln!(html, "<div><dt>verdict</dt><dd>{}</dd></div>", verdict(result.fidelity.verdict));
    let facts = [
        ("variant", result.variant.to_string()),
        ("TDF", result.tdf.to_string()),
        ("scaling factor", number(result.scaling_factor)),
        ("virtual time", format!("{} s", figure(result.virtual_seconds))),
        ("real time", format!("{} s", figure(result.real_seconds))),
    ];
    for (name, value) in facts {
        let _ = writeln!(html, "<div><dt>{name}</dt><dd>{}</dd></div>", Text(&value));
    }
    html + "</dl>\n"
}

fn fact_list<'a>(facts: impl Iterator<Item = (&'a str, String)>) -> String {
    let items: String = facts.map(|(k, v)| format!("<div><dt>{k}</dt><dd>{}</dd></div>\n", Text(&v))).collect();
    format!("<dl class=\"facts\">\n{items}</dl>\n")
}

/// The events on a line of virtual time, and as a table.
fn what_happened(result: &RunResult, events: &[Event]) -> String {
    if events.is_empty() {
        return String::new();
    }
    const WIDTH: f64 = 800.0;
    const SIDE: f64 = 20.0;
    let end = events.iter().filter_map(|e| e.virtual_s).fold(result.virtual_seconds, f64::max).max(1e-9);
    let x = |s: f64| SIDE + (s / end).clamp(0.0, 1.0) * (WIDTH - 2.0 * SIDE);
    let mut svg = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} 64\" role=\"img\" aria-label=\"Events over {} virtual seconds\">\n",
        figure(end)
    );
    let _ = writeln!(svg, "<line class=\"axis\" x1=\"{SIDE}\" x2=\"{}\" y1=\"24\" y2=\"24\"/>", WIDTH - SIDE);
    for s in ticks::round(0.0, end, 6) {
        let label = ticks::label(s);
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"52\" text-anchor=\"middle\">{label} s</text>", x(s));
    }
    let mut rows = String::new();
    for event in events {
        let target = event.target.as_deref().unwrap_or("");
        if let Some(at) = event.virtual_s.filter(|s| *s >= 0.0) {
            let _ = writeln!(
                svg,
                "<circle class=\"mark\" cx=\"{:.1}\" cy=\"24\" r=\"6\"><title>{:.3} s: {} {}</title></circle>",
                x(at),
                at,
                Text(&event.event),
                Text(target)
            );
        }
        let when = event.virtual_s.map_or("–".to_string(), |s| format!("{s:.3}"));
        let detail = match &event.detail {
            Value::Null => String::new(),
            Value::String(s) => s.clone(),
            other => other.to_string(),
        };
        let row = Row::default().number(when).number(format_args!("{:.3}", event.real_s));
        rows += &row.name(&event.event).words(target).words(detail).end();
    }
    svg += "</svg>\n";
    let columns = [
        Column::Number("virtual s"),
        Column::Number("real s"),
        Column::Words("event"),
        Column::Words("of"),
        Column::Words(""),
    ];
    let table = table(&columns, &rows);
    let count = events.len();
    format!("<h2>What happened</h2>\n{svg}<details><summary>{count} events</summary>\n{table}</details>\n")
}

fn nodes(result: &RunResult, plan: Option<&IndexMap<String, PlannedNode>>) -> String {
    let mut rows = String::new();
    for (name, outcome) in &result.nodes {
        let planned = plan.and_then(|nodes| nodes.get(name));
        let ended = match (outcome.ended, outcome.exit) {
            (Ended::Exited, Some(code)) => format!("exited with {code}"),
            (Ended::Exited, None) => "exited".into(),
            (Ended::Stopped, _) => "stopped".into(),
            (Ended::Killed, _) => "killed".into(),
            (Ended::Oom, _) => "ran out of memory".into(),
        };
        let addresses = planned.map_or(&[][..], |node| &node.addresses);
        let addresses: Vec<_> = addresses.iter().map(|address| address.to_string()).collect();
        let share = planned.map_or("–".into(), |node| format!("{} %", number(100.0 * node.share)));
        let used = outcome.core_seconds.map_or("–".into(), |s| format!("{} s", figure(s)));
        let memory = planned.map_or("–".into(), |node| format!("{:.0} MiB", node.memory_bytes as f64 / 1048576.0));
        let row = Row::default().name(name).words(ended).number(share).number(used).number(memory);
        rows += &row.words(addresses.join(", ")).end();
    }
    let columns = [
        Column::Words("node"),
        Column::Words("ended"),
        Column::Number("share of the core"),
        Column::Number("had it for"),
        Column::Number("memory"),
        Column::Words("addresses"),
    ];
    section("Nodes", &columns, &rows)
}

fn links(pipes: &IndexMap<String, PlannedPipe>) -> String {
    let rate = |pipe: &PipeValues| match pipe.bits_per_s {
        Some(v) if v >= 1e9 => format!("{} Gbit/s", number(v / 1e9)),
        Some(v) => format!("{} Mbit/s", number(v / 1e6)),
        None => "unlimited".into(),
    };
    let delay = |pipe: &PipeValues| match &pipe.jitter {
        None => format!("{} ms", number(1e3 * pipe.delay_s)),
        Some(jitter) => format!("{} ± {} ms", number(1e3 * pipe.delay_s), number(1e3 * jitter.spread_s)),
    };
    let mut rows = String::new();
    for (name, PlannedPipe { target, harness, .. }) in pipes {
        let loss = format!("{} %", number(100.0 * target.loss));
        let row = Row::default().name(name).number(rate(target)).number(delay(target)).number(loss);
        rows += &row.number(rate(harness)).number(delay(harness)).end();
    }
    let columns = [
        Column::Words("pipe"),
        Column::Number("bandwidth"),
        Column::Number("delay"),
        Column::Number("loss"),
        Column::Number("real bandwidth"),
        Column::Number("real delay"),
    ];
    section("Links", &columns, &rows)
}

fn versions(versions: &BTreeMap<String, String>) -> String {
    let rows: String = versions.iter().map(|(name, version)| Row::default().name(name).words(version).end()).collect();
    section("Versions", &[Column::Words("of"), Column::Words("version")], &rows)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::{self, HOSTILE};

    #[test]
    fn a_report_holds_the_run_and_cannot_be_injected_into() {
        let dir = tempfile::tempdir().unwrap();
        let run = testing::hostile_run(&dir.path().join("scaled"), 0.0);
        let html = fs::read_to_string(write_report(&RunDir::at(run)).unwrap()).unwrap();
        testing::assert_harmless(&html);
        for shown in [
            ">10 Mbit/s",
            ">100 Mbit/s",
            ">5 %",
            "10.0.0.1",
            "256 MiB",
            "exited with 0",
            "2 events",
            "✓ held",
            " ± 1.0<",
            "0 to +0.5 %",
            "Speed of the nodes",
            "Nodes over virtual time",
        ] {
            assert!(html.contains(shown), "{shown} is missing");
        }
        // Title, heading, metric, chart, the check's unit and sentence, event, target, detail, node, pipe and version;
        // an address has a type.
        assert!(html.matches(&Text(HOSTILE).to_string()).count() >= 11);
        assert_eq!(html.matches("class=\"mark\"").count(), 2);
    }

    #[test]
    fn a_failed_run_without_metrics_plan_or_events_has_a_report_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = testing::hostile_run(&dir.path().join("scaled"), 0.0);
        let mut result = RunDir::at(&path).result().unwrap();
        result.status = Status::Failed;
        result.why = Some("node web-1 exited with 1 <at once>".into());
        result.metrics.clear();
        RunDir::at(&path).write_result(&result).unwrap();
        fs::remove_file(path.join("plan.json")).unwrap();
        fs::remove_file(path.join("events.jsonl")).unwrap();
        let html = fs::read_to_string(write_report(&RunDir::at(&path)).unwrap()).unwrap();
        testing::assert_harmless(&html);
        assert!(html.contains("The run failed:</strong> node web-1 exited with 1 &lt;at once&gt;"));
    }
}
