//! The one table that the demo ends with.

use fidelity::statistics;
use record::{RunResult, Variant};
use report::{Comparison, Statistic};

use crate::failure::Failure;
use crate::reasons;

/// The median; no number, if there is no value.
fn median(values: Vec<f64>) -> f64 {
    statistics::median(values).unwrap_or(f64::NAN)
}

/// The figure told of an experiment: a metric, a statistic of it, and how its column is headed.
const FIGURES: [(&str, Statistic, &str); 3] = [
    ("requests", Statistic::Mean, "requests/s"),
    ("latency", Statistic::P50, "latency, p50"),
    ("latency", Statistic::P90, "p90"),
];

/// An experiment's name and its runs: those of one variant, and how far they are from the baselines.
pub struct Group {
    pub name: String,
    pub variants: Vec<Variants>,
}

/// All runs of one variant.
pub struct Variants {
    pub variant: Variant,
    /// At least one.
    pub runs: Vec<RunResult>,
    /// With the baselines beside which they were made; `None` for the baselines themselves.
    pub comparison: Option<Comparison>,
}

/// Markdown that is also readable as it is: one line a variant, with the medians of its runs. A baseline has its
/// interval beside it, the others how far they are from the baseline and, in brackets, where the difference lies by all
/// that the runs say of themselves.
pub fn render(groups: &[Group]) -> Result<String, Failure> {
    let heads = ["", ""].into_iter().chain(FIGURES.map(|(_, _, head)| head)).chain(["verdict"]);
    let mut rows = vec![heads.map(String::from).collect::<Vec<_>>()];
    for group in groups {
        for of in &group.variants {
            let first = if of.variant == Variant::Baseline { group.name.clone() } else { String::new() };
            let mut row = vec![first, of.variant.to_string()];
            for (metric, statistic, _) in FIGURES {
                row.push(cell(of, metric, statistic)?);
            }
            row.push(verdict(&of.runs));
            rows.push(row);
        }
    }
    Ok(align(&rows))
}

/// The figures of a run, in one line; beside a baseline, also how far it is from that.
pub fn measured(run: &RunResult, base: Option<&RunResult>) -> String {
    let figure = |(metric, statistic, head): (&str, Statistic, &str)| {
        let record = run.metrics.get(metric)?;
        let own = statistic.of(&record.summary);
        let unit = if record.unit == "1/s" { String::new() } else { format!(" {}", record.unit) };
        let before = base.and_then(|base| Some(statistic.of(&base.metrics.get(metric)?.summary)));
        let off = before.filter(|base| *base != 0.0).map(|base| percent(100.0 * (own - base) / base));
        let off = off.map_or(String::new(), |off| format!(" ({off})"));
        Some(format!("{head} {}{unit}{off}", significant(own)))
    };
    let all: Vec<String> = FIGURES.into_iter().filter_map(figure).collect();
    let verdict = reasons::of(run).map_or(String::new(), |reason| format!("; suspect: {reason}"));
    format!("{}{verdict}", all.join(", "))
}

/// The widths of a pair's row: experiment, number, and figures; the verdict ends it.
const PAIR_WIDTHS: [usize; 5] = [9, 4, 19, 25, 25];

/// The heads of the rows that [`pair`] makes.
pub fn pair_head() -> String {
    let heads = ["", "pair"].into_iter().chain(FIGURES.map(|(_, _, head)| head)).map(String::from).collect();
    in_columns(heads, "scaled run")
}

/// A pair in one line: from the baseline to the scaled run, and how far apart they are.
pub fn pair(experiment: &str, number: u32, base: &RunResult, scaled: &RunResult) -> String {
    let figure = |(metric, statistic, _): (&str, Statistic, &str)| {
        let (from, to) = (base.metrics.get(metric)?, scaled.metrics.get(metric)?);
        let unit = if to.unit == "1/s" { String::new() } else { format!(" {}", to.unit) };
        let (from, to) = (statistic.of(&from.summary), statistic.of(&to.summary));
        let off = percent(100.0 * (to - from) / from);
        Some(format!("{} → {}{unit} {off}", significant(from), significant(to)))
    };
    let figures = FIGURES.into_iter().map(|of| figure(of).unwrap_or_else(|| "–".into()));
    let row = [experiment.to_string(), number.to_string()].into_iter().chain(figures).collect();
    in_columns(row, &verdict(std::slice::from_ref(scaled)))
}

fn in_columns(row: Vec<String>, end: &str) -> String {
    let cells: Vec<String> = row.iter().zip(PAIR_WIDTHS).map(|(cell, width)| format!("{cell:<width$}")).collect();
    format!("{}  {end}", cells.join("  "))
}

fn cell(of: &Variants, metric: &str, statistic: Statistic) -> Result<String, Failure> {
    let records = of.runs.iter().map(|run| {
        run.metrics.get(metric).ok_or_else(|| {
            Failure::failed(format!("{} as {} measured no `{metric}`: see its logs", run.experiment, run.variant))
        })
    });
    let records = records.collect::<Result<Vec<_>, _>>()?;
    let own = median(records.iter().map(|r| statistic.of(&r.summary)).collect());
    let unit = match records[0].unit.as_str() {
        "1/s" => String::new(),
        unit => format!(" {unit}"),
    };
    let Some(comparison) = &of.comparison else {
        let ends = records.iter().map(|r| statistic.in_intervals(&r.interval?)).collect::<Option<Vec<_>>>();
        let half = ends.map(|ends| median(ends.iter().map(|[low, high]| (high - low) / 2.0).collect()));
        return Ok(match half {
            Some(half) => format!("{} ± {}{unit}", significant(own), like(half, own)),
            None => format!("{}{unit}", significant(own)),
        });
    };
    let found = comparison.metrics.iter().find(|m| m.name == metric);
    let error = found.map_or(String::new(), |m| match m.difference.get(statistic) {
        // Of naive runs nobody claims to be near.
        Some(d) if of.variant == Variant::Scaled => {
            format!(" {} ({:+.1} to {:+.1})", percent(d.percent), d.low, d.high)
        }
        _ => m.error_percent.get(statistic).map_or(String::new(), |error| format!(" {}", percent(error))),
    });
    Ok(format!("{}{unit}{error}", significant(own)))
}

/// `trustworthy`, or how many runs are not, and why.
fn verdict(runs: &[RunResult]) -> String {
    let reasons: Vec<&str> = runs.iter().filter_map(reasons::of).collect();
    let Some(first) = reasons.first() else { return "trustworthy".into() };
    let times = |reason: &&&str| reasons.iter().filter(|other| *other == *reason).count();
    let most = reasons.iter().rev().max_by_key(times).unwrap_or(first);
    match (reasons.len(), runs.len()) {
        (1, 1) => format!("suspect: {most}"),
        (suspect, all) => format!("{suspect} of {all} suspect: {most}"),
    }
}

/// `-1.4 %`.
fn percent(percent: f64) -> String {
    if percent.abs() >= 100.0 { format!("{percent:+.0} %") } else { format!("{percent:+.1} %") }
}

/// Three digits, or four for a large number.
fn significant(value: f64) -> String {
    like(value, value)
}

/// With as many decimals as another number has in three digits, and one more for a small half of an interval.
fn like(value: f64, other: f64) -> String {
    let decimals = match other.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let more = usize::from(value < 1.0 && decimals == 0);
    format!("{value:.0$}", decimals + more)
}

/// A Markdown table whose columns line up; the first two and the last to the left, figures to the right.
fn align(rows: &[Vec<String>]) -> String {
    let columns = rows[0].len();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(3);
    let left = |column: usize| column < 2 || column + 1 == columns;
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells = row.iter().enumerate().map(|(column, cell)| match left(column) {
            true => format!("{cell:<0$}", width(column)),
            false => format!("{cell:>0$}", width(column)),
        });
        text += &format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
        if number == 0 {
            let rules = (0..columns).map(|column| match left(column) {
                true => "-".repeat(width(column)),
                false => "-".repeat(width(column) - 1) + ":",
            });
            text += &format!("| {} |\n", rules.collect::<Vec<_>>().join(" | "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use fidelity::compare::{Difference, Differences, Says};
    use record::{Summary, Verdict};
    use report::{MetricComparison, Statistics};
    use serde_json::json;

    use super::*;

    fn run(variant: &str, requests: f64, p50: f64) -> RunResult {
        let metric = |v: f64| {
            let ends = json!([v * 0.98, v * 1.02]);
            let unit = if v == requests { "1/s" } else { "ms" };
            json!({"unit": unit, "n": 9, "mean": v, "p50": v, "p90": v, "p99": v, "file": "x",
                   "interval": {"mean": ends, "p50": ends, "p90": null, "p99": null}})
        };
        serde_json::from_value(json!({
            "experiment": "web", "variant": variant, "tdf": 1, "scaling_factor": 1, "status": "ok", "why": null,
            "virtual_seconds": 10.0, "real_seconds": 10.0, "nodes": {},
            "metrics": {"latency": metric(p50), "requests": metric(requests)},
            "fidelity": {"verdict": "trustworthy", "checks": []}
        }))
        .unwrap()
    }

    fn comparison(percent: f64) -> Comparison {
        let summary = Summary { n: 9, mean: 1.0, p50: 1.0, p90: 1.0, p99: 1.0 };
        let difference = Some(Difference { percent, low: percent - 1.0, high: percent + 1.5, says: Says::CannotTell });
        let error = Some(percent);
        let metric = |name: &str| MetricComparison {
            name: name.into(),
            unit: "ms".into(),
            base: summary,
            other: summary,
            error_percent: Statistics { mean: error, p50: error, p90: error, p99: error },
            ks_d: None,
            pair_error_percent: vec![],
            pair_ks_d: vec![],
            base_spread_percent: None,
            base_interval: None,
            other_interval: None,
            difference: Differences { mean: difference, p50: difference, p90: difference, p99: difference },
            outside: vec![],
        };
        Comparison {
            within: true,
            metrics: vec![metric("requests"), metric("latency")],
            nodes: vec![],
            programs: vec![],
            network: None,
            network_because: None,
            verdicts: [Verdict::Trustworthy; 2],
            pairs: 1,
            suspect: vec![],
            notes: vec![],
        }
    }

    #[test]
    fn each_variant_stands_beside_its_error_against_the_baseline() {
        let of = |variant, runs, comparison| Variants { variant, runs, comparison };
        let base = [run("baseline", 182.0, 21.0), run("baseline", 180.0, 20.0), run("baseline", 170.0, 19.0)];
        let variants = vec![
            of(Variant::Baseline, base.to_vec(), None),
            of(Variant::Scaled, vec![run("scaled", 181.0, 20.5)], Some(comparison(0.5))),
            of(Variant::Naive, vec![run("naive", 18.0, 300.0)], Some(comparison(-90.0))),
        ];
        let text = render(&[Group { name: "web".into(), variants }]).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[2].starts_with("| web | baseline |") && !lines[2].contains('%'), "{text}");
        assert!(lines[2].contains(" 180 ± 4 ") && lines[2].contains(" 20.0 ± 0.4 ms "), "{text}");
        assert!(lines[3].contains("181 +0.5 % (-0.5 to +2.0)") && lines[3].contains("trustworthy"), "{text}");
        assert!(lines[4].contains("18.0 -90.0 % ") && !lines[4].contains(" to "), "{text}");
        let widths: Vec<usize> = lines.iter().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|w| *w == widths[0]), "{text}");
    }

    #[test]
    fn a_pair_is_told_in_a_line_of_its_own() {
        let row = pair("web", 1, &run("baseline", 182.0, 21.0), &run("scaled", 181.0, 20.5));
        assert!(row.starts_with("web        1     182 → 181 -0.5 %    "), "{row}");
        assert!(row.contains("  21.0 → 20.5 ms -2.4 %  ") && row.ends_with("  trustworthy"), "{row}");
        assert_eq!(row.find("182"), pair_head().find("requests/s"), "{row}");
    }

    #[test]
    fn the_verdict_counts_suspect_runs_and_says_what_most_of_them_have() {
        let suspect = |check: &str| {
            let mut run = run("scaled", 1.0, 1.0);
            run.fidelity =
                serde_json::from_value(json!({"verdict": "suspect", "checks": [{"name": check, "value": 1.0,
                "limit": 1.0, "unit": "%", "ok": false, "says": ""}]}))
                .unwrap();
            run
        };
        let fine = || run("scaled", 1.0, 1.0);
        assert_eq!(verdict(&[fine(), fine()]), "trustworthy");
        assert_eq!(verdict(&[suspect("steal")]), "suspect: the hypervisor took CPU time");
        let mixed = [fine(), suspect("caches"), suspect("steal"), suspect("steal")];
        assert_eq!(verdict(&mixed), "3 of 4 suspect: the hypervisor took CPU time");
    }

    #[test]
    fn a_run_without_the_metric_is_named() {
        let mut broken = run("naive", 1.0, 1.0);
        broken.metrics.shift_remove("requests");
        let variants = vec![Variants { variant: Variant::Naive, runs: vec![broken], comparison: None }];
        let error = render(&[Group { name: "web".into(), variants }]).unwrap_err();
        assert!(error.message.contains("web as naive measured no `requests`"), "{}", error.message);
    }

    #[test]
    fn figures_have_three_digits_and_their_intervals_as_many_decimals() {
        assert_eq!([182.4, 18.24, 1.824].map(significant), ["182", "18.2", "1.82"]);
        assert_eq!([like(2.2, 182.0), like(0.4, 182.0), like(0.44, 18.0)], ["2", "0.4", "0.4"]);
        assert_eq!((median(vec![3.0, 1.0, 2.0]), median(vec![4.0, 2.0])), (2.0, 3.0));
    }
}
