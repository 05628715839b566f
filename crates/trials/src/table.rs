//! The one table that the demo ends with.

use record::{RunResult, Summary, Variant};

use crate::failure::Failure;

/// The metrics that every experiment of the demo has.
const REQUESTS: &str = "requests";
const LATENCY: &str = "latency";

/// An experiment's name and its runs, the baseline first.
pub struct Group {
    pub name: String,
    pub runs: Vec<RunResult>,
}

/// Markdown that is also readable as it is: one line a run, and how far each figure is from the baseline's.
pub fn render(groups: &[Group]) -> Result<String, Failure> {
    let mut rows =
        vec![["", "", "requests/s", "latency mean", "p50", "p90", "p99", "server's CPU", "verdict"].map(String::from)];
    for group in groups {
        let base = figures(group.runs.first().expect("a group has a baseline"))?;
        for run in &group.runs {
            let mut row = vec![
                if run.variant == Variant::Baseline { group.name.clone() } else { String::new() },
                run.variant.to_string(),
            ];
            for (own, base) in figures(run)?.into_iter().zip(&base) {
                let unit = own.unit;
                let error = match run.variant {
                    Variant::Baseline => String::new(),
                    _ => format!(" ({})", error(own.value, base.value)),
                };
                row.push(format!("{}{unit}{error}", significant(own.value)));
            }
            row.push(run.fidelity.verdict.to_string());
            rows.push(row.try_into().expect("as many cells as the heading has"));
        }
    }
    Ok(align(&rows))
}

struct Figure {
    value: f64,
    unit: String,
}

/// Requests/s, then mean, p50, p90 and p99 of the latency, then how long the server, which is the busiest node, had a
/// core.
fn figures(run: &RunResult) -> Result<Vec<Figure>, Failure> {
    let metric = |name: &str| {
        run.metrics.get(name).ok_or_else(|| {
            Failure::failed(format!("{} as {} measured no `{name}`: see its logs", run.experiment, run.variant))
        })
    };
    let latency = metric(LATENCY)?;
    let Summary { mean, p50, p90, p99, .. } = latency.summary;
    let of_latency = [mean, p50, p90, p99].map(|value| Figure { value, unit: format!(" {}", latency.unit) });
    let mut all = vec![Figure { value: metric(REQUESTS)?.summary.mean, unit: String::new() }];
    all.extend(of_latency);
    let busiest = run.nodes.values().filter_map(|n| n.core_seconds).fold(0.0, f64::max);
    all.push(Figure { value: busiest, unit: " s".into() });
    Ok(all)
}

/// `-1.4 %`.
fn error(own: f64, base: f64) -> String {
    let percent = 100.0 * (own - base) / base;
    if percent.abs() >= 100.0 { format!("{percent:+.0} %") } else { format!("{percent:+.1} %") }
}

/// Three digits, or four for a large number.
fn significant(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A Markdown table whose columns line up; the first two to the left, figures to the right.
fn align<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(3);
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells = row.iter().enumerate().map(|(column, cell)| match column {
            0 | 1 => format!("{cell:<0$}", width(column)),
            _ => format!("{cell:>0$}", width(column)),
        });
        text += &format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
        if number == 0 {
            let rules = (0..N).map(|column| match column {
                0 | 1 => "-".repeat(width(column)),
                _ => "-".repeat(width(column) - 1) + ":",
            });
            text += &format!("| {} |\n", rules.collect::<Vec<_>>().join(" | "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(variant: &str, requests: f64, p50: f64) -> RunResult {
        let summary =
            |v: f64| serde_json::json!({"unit": "ms", "n": 9, "mean": v, "p50": v, "p90": v, "p99": v, "file": "x"});
        serde_json::from_value(serde_json::json!({
            "experiment": "web", "variant": variant, "tdf": 1, "scaling_factor": 1, "status": "ok", "why": null,
            "virtual_seconds": 10.0, "real_seconds": 10.0,
            "nodes": {"client": {"exit": 0, "ended": "exited", "core_seconds": 0.1},
                      "server": {"exit": 0, "ended": "stopped", "core_seconds": 4.5}},
            "metrics": {"latency": summary(p50), "requests": summary(requests)},
            "fidelity": {"verdict": "suspect", "checks": []}
        }))
        .unwrap()
    }

    #[test]
    fn each_variant_stands_beside_its_error_against_the_baseline() {
        let runs = vec![run("baseline", 180.0, 20.0), run("naive", 18.0, 300.0), run("scaled", 178.2, 20.5)];
        let text = render(&[Group { name: "web".into(), runs }]).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[2].starts_with("| web | baseline |") && !lines[2].contains('%'), "{text}");
        assert!(lines[2].contains("4.50 s") && lines[4].contains("4.50 s (+0.0 %)"), "the server's: {text}");
        assert!(lines[3].contains("18.0 (-90.0 %)") && lines[3].contains("300 ms (+1400 %)"), "{text}");
        assert!(lines[4].contains("178 (-1.0 %)") && lines[4].contains("20.5 ms (+2.5 %)"), "{text}");
        let widths: Vec<usize> = lines.iter().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|w| *w == widths[0]), "{text}");
    }

    #[test]
    fn a_run_without_the_metric_is_named() {
        let mut broken = run("naive", 1.0, 1.0);
        broken.metrics.shift_remove("requests");
        let error = render(&[Group { name: "web".into(), runs: vec![broken] }]).unwrap_err();
        assert!(error.message.contains("web as naive measured no `requests`"), "{}", error.message);
    }
}
