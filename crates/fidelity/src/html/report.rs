//! `report.html`: one run.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Text, chart, checks, page, pipes, text, verdict};
use crate::Error;
use crate::checks::number;
use crate::compare::figure;
use crate::events::{self, Event};
use crate::record::{Ended, RunResult, Status};
use crate::runs::Run;

/// The file's name inside a run directory.
pub const REPORT: &str = "report.html";

/// Reads a run directory, writes its report into it and says where.
pub fn write_report(dir: &Path) -> Result<PathBuf, Error> {
    let run = Run::open(dir)?;
    let events = events::read(dir)?;
    let plan_path = dir.join("plan.json");
    let plan = match fs::read(&plan_path) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map_err(|e| Error::input(&plan_path, format!("not a plan: {e}")))?
        }
        // A run that was made elsewhere may have come without its plan.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Value::Null,
        Err(e) => return Err(Error::io(&plan_path, "read", e)),
    };
    let path = dir.join(REPORT);
    let over_time = pipes::rows(dir, run.result.virtual_seconds)?;
    fs::write(&path, report(&run, &events, &plan, &over_time)).map_err(|e| Error::io(&path, "write", e))?;
    Ok(path)
}

/// The page. `over_time` are the rows of what the links did.
fn report(run: &Run, events: &[Event], plan: &Value, over_time: &str) -> String {
    let result = &run.result;
    let mut body = summary(result);
    for (name, metric) in &result.metrics {
        let s = &metric.summary;
        let _ = writeln!(body, "<h2>{} <span class=\"quiet\">({})</span></h2>", Text(name), Text(&metric.unit));
        if s.n == 1 {
            let _ = writeln!(body, "<p>One sample: <strong>{}</strong></p>", figure(s.mean));
            continue;
        }
        let facts = [
            ("n", s.n.to_string()),
            ("mean", figure(s.mean)),
            ("p50", figure(s.p50)),
            ("p90", figure(s.p90)),
            ("p99", figure(s.p99)),
        ];
        body += &fact_list(facts.iter().map(|(k, v)| (*k, v.clone())));
        let curve = [(result.variant.to_string(), run.samples[name].clone())];
        body += &chart::distribution(name, &metric.unit, &curve);
    }
    let _ = writeln!(body, "<h2>Whether to trust it</h2>\n<p>{}</p>", verdict(result.fidelity.verdict));
    body += &checks(&result.fidelity.checks);
    body += &what_happened(result, events);
    body += &nodes(result, &plan["nodes"]);
    body += &links(&plan["pipes"]);
    body += &section(
        "Links over virtual time",
        "<th scope=\"col\">pipe</th><th scope=\"col\">utilisation</th><th scope=\"col\" class=\"n\">most</th>\
         <th scope=\"col\">longest queue</th><th scope=\"col\" class=\"n\">packets</th><th scope=\"col\" class=\"n\">dropped by the queue</th>\
         <th scope=\"col\" class=\"n\">lost</th><th scope=\"col\" class=\"n\">down</th><th scope=\"col\" class=\"n\">too long</th>",
        over_time,
    );
    body += &versions(&plan["versions"]);
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
    for part in 0..=4 {
        let s = end * f64::from(part) / 4.0;
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"52\" text-anchor=\"middle\">{:.1} s</text>", x(s), s);
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
        let _ = writeln!(
            rows,
            "<tr><td class=\"n\">{when}</td><td class=\"n\">{:.3}</td><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>",
            event.real_s,
            Text(&event.event),
            Text(target),
            Text(&detail)
        );
    }
    svg += "</svg>\n";
    format!(
        "<h2>What happened</h2>\n{svg}<details><summary>{} events</summary>\n<div class=\"wide\"><table>\n<thead><tr>\
         <th scope=\"col\" class=\"n\">virtual s</th><th scope=\"col\" class=\"n\">real s</th><th scope=\"col\">event</th>\
         <th scope=\"col\">of</th><th scope=\"col\"></th></tr></thead>\n<tbody>\n{rows}</tbody></table></div></details>\n",
        events.len()
    )
}

fn nodes(result: &RunResult, plan: &Value) -> String {
    let mut rows = String::new();
    for (name, outcome) in &result.nodes {
        let planned = &plan[name.as_str()];
        let ended = match (outcome.ended, outcome.exit) {
            (Ended::Exited, Some(code)) => format!("exited with {code}"),
            (Ended::Exited, None) => "exited".into(),
            (Ended::Stopped, _) => "stopped".into(),
            (Ended::Killed, _) => "killed".into(),
            (Ended::Oom, _) => "ran out of memory".into(),
        };
        let addresses = planned["addresses"].as_array().map_or(&[][..], Vec::as_slice);
        let addresses: Vec<_> = addresses.iter().filter_map(Value::as_str).collect();
        let _ = writeln!(
            rows,
            "<tr><th scope=\"row\">{}</th><td>{ended}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
            Text(name),
            planned["share"].as_f64().map_or("–".into(), |s| format!("{} %", number(100.0 * s))),
            outcome.core_seconds.map_or("–".into(), |s| format!("{} s", figure(s))),
            planned["memory_bytes"].as_f64().map_or("–".into(), |b| format!("{:.0} MiB", b / 1048576.0)),
            Text(&addresses.join(", "))
        );
    }
    section(
        "Nodes",
        "<th scope=\"col\">node</th><th scope=\"col\">ended</th><th scope=\"col\" class=\"n\">share of the core</th>\
         <th scope=\"col\" class=\"n\">had it for</th><th scope=\"col\" class=\"n\">memory</th><th scope=\"col\">addresses</th>",
        &rows,
    )
}

fn links(pipes: &Value) -> String {
    let rate = |pipe: &Value| match pipe["bits_per_s"].as_f64() {
        Some(v) if v >= 1e9 => format!("{} Gbit/s", number(v / 1e9)),
        Some(v) => format!("{} Mbit/s", number(v / 1e6)),
        None => "unlimited".into(),
    };
    let delay = |pipe: &Value| match (pipe["delay_s"].as_f64(), pipe["jitter"]["spread_s"].as_f64()) {
        (None, _) => "–".into(),
        (Some(s), None) => format!("{} ms", number(1e3 * s)),
        (Some(s), Some(spread)) => format!("{} ± {} ms", number(1e3 * s), number(1e3 * spread)),
    };
    let mut rows = String::new();
    for (name, pipe) in pipes.as_object().into_iter().flatten() {
        let (target, harness) = (&pipe["target"], &pipe["harness"]);
        let loss = target["loss"].as_f64().map_or("–".into(), |l| format!("{} %", number(100.0 * l)));
        let _ = writeln!(
            rows,
            "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{loss}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            Text(name),
            rate(target),
            delay(target),
            rate(harness),
            delay(harness)
        );
    }
    section(
        "Links",
        "<th scope=\"col\">pipe</th><th scope=\"col\" class=\"n\">bandwidth</th><th scope=\"col\" class=\"n\">delay</th>\
         <th scope=\"col\" class=\"n\">loss</th><th scope=\"col\" class=\"n\">real bandwidth</th>\
         <th scope=\"col\" class=\"n\">real delay</th>",
        &rows,
    )
}

fn versions(versions: &Value) -> String {
    let mut rows = String::new();
    for (name, version) in versions.as_object().into_iter().flatten() {
        let version = version.as_str().map_or_else(|| version.to_string(), str::to_string);
        let _ = writeln!(rows, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", Text(name), text(version));
    }
    section("Versions", "<th scope=\"col\">of</th><th scope=\"col\">version</th>", &rows)
}

/// A table under a heading, or nothing if it has no rows. `head` and `rows` are HTML.
fn section(title: &str, head: &str, rows: &str) -> String {
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<h2>{title}</h2>\n<div class=\"wide\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, HOSTILE};
    use super::*;

    #[test]
    fn a_report_holds_the_run_and_cannot_be_injected_into() {
        let dir = tempfile::tempdir().unwrap();
        let run = testing::hostile_run(&dir.path().join("scaled"), 0.0);
        let html = fs::read_to_string(write_report(&run).unwrap()).unwrap();
        testing::assert_harmless(&html);
        for shown in [">10 Mbit/s", ">100 Mbit/s", ">5 %", "256 MiB", "exited with 0", "2 events", "✓ held"] {
            assert!(html.contains(shown), "{shown} is missing");
        }
        // Title, heading, metric, chart, check, event, target, detail, node, address, pipe and version.
        assert!(html.matches(&Text(HOSTILE).to_string()).count() >= 12);
        assert_eq!(html.matches("class=\"mark\"").count(), 2);
    }

    #[test]
    fn a_failed_run_without_metrics_plan_or_events_has_a_report_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = testing::hostile_run(&dir.path().join("scaled"), 0.0);
        let mut result = RunResult::read(&path).unwrap();
        result.status = Status::Failed;
        result.why = Some("node web-1 exited with 1 <at once>".into());
        result.metrics.clear();
        result.write(&path).unwrap();
        fs::remove_file(path.join("plan.json")).unwrap();
        fs::remove_file(path.join(events::EVENTS)).unwrap();
        let html = fs::read_to_string(write_report(&path).unwrap()).unwrap();
        testing::assert_harmless(&html);
        assert!(html.contains("The run failed:</strong> node web-1 exited with 1 &lt;at once&gt;"));
    }
}
