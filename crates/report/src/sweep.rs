//! A sweep as a table, a page with plots, and a file for notebooks.

use std::collections::BTreeMap;
use std::fmt::Write;

use fidelity::statistics::quantile;
use record::{MetricRecord, RunResult, Samples, Status};

use crate::lines::{Line, chart};
use crate::marks::Marks;
use crate::numbers::figure;
use crate::page::{Text, page};

/// One run of a sweep.
#[derive(Clone, Debug)]
pub struct SweepRun {
    /// Parameters and values, the same parameters in all runs.
    pub settings: Vec<(String, String)>,
    /// Which of the point's repetitions it is.
    pub repetition: u32,
    /// Where it is, for whoever looks further.
    pub place: String,
    /// Result; `None`: nothing, why its log says.
    pub result: Option<RunResult>,
}

/// A sweep, as far as it has come.
#[derive(Clone, Debug)]
pub struct Swept {
    /// The experiment's name.
    pub name: String,
    /// Its runs, in any order.
    pub runs: Vec<SweepRun>,
}

/// The runs of one point.
struct Point<'a> {
    settings: &'a [(String, String)],
    runs: Vec<&'a SweepRun>,
}

impl Point<'_> {
    fn values(&self, metric: &str) -> Vec<f64> {
        self.runs.iter().filter_map(|run| Some(mean(run, metric)?.summary.mean)).collect()
    }

    /// The median over the repetitions, and how far they are from one another at most, each way; of one run, how far it
    /// may be off by its own interval.
    fn figure(&self, metric: &str) -> Option<(f64, f64)> {
        let samples = Samples::new(self.values(metric)).ok()?;
        match *samples.sorted() {
            [] => None,
            [one] => {
                let record = self.runs.iter().find_map(|run| mean(run, metric))?;
                let interval = record.interval.and_then(|i| i.mean);
                Some((one, interval.map_or(0.0, |[low, high]| (one - low).max(high - one).max(0.0))))
            }
            [first, .., last] => {
                let median = quantile(&samples, 0.5)?;
                Some((median, (median - first).max(last - median)))
            }
        }
    }

    fn verdict(&self) -> String {
        let all = self.runs.iter().map(|run| run.result.as_ref().map_or("no result".into(), verdict));
        let mut counted: BTreeMap<String, usize> = BTreeMap::new();
        all.for_each(|verdict| *counted.entry(verdict).or_default() += 1);
        let told = |(verdict, n): (&String, &usize)| if *n == 1 { verdict.clone() } else { format!("{n} {verdict}") };
        counted.iter().map(told).collect::<Vec<_>>().join(", ")
    }
}

fn verdict(result: &RunResult) -> String {
    match result.status {
        Status::Failed => "failed".into(),
        _ => result.fidelity.verdict.to_string(),
    }
}

fn mean<'a>(run: &'a SweepRun, metric: &str) -> Option<&'a MetricRecord> {
    run.result.as_ref()?.metrics.get(metric)
}

impl Swept {
    /// In the order in which they were met first.
    fn points(&self) -> Vec<Point<'_>> {
        let mut points: Vec<Point<'_>> = Vec::new();
        for run in &self.runs {
            match points.iter_mut().find(|point| point.settings == run.settings) {
                Some(point) => point.runs.push(run),
                None => points.push(Point { settings: &run.settings, runs: vec![run] }),
            }
        }
        points
    }

    /// The metrics' names with their units.
    fn metrics(&self) -> Vec<(&str, &str)> {
        let mut found: Vec<(&str, &str)> = Vec::new();
        for (name, metric) in self.runs.iter().filter_map(|run| run.result.as_ref()).flat_map(|r| &r.metrics) {
            if !found.iter().any(|(known, _)| known == name) {
                found.push((name, &metric.unit));
            }
        }
        found
    }

    /// A line for each point: its parameters, each metric's mean (the median over repetitions) ± how far these spread
    /// or else how far it may be off, and the verdicts. In Markdown, aligned for a terminal.
    pub fn table(&self) -> String {
        let points = self.points();
        let metrics = self.metrics();
        let mut rows: Vec<Vec<String>> = Vec::new();
        let axes = points.first().map_or(&[][..], |point| point.settings).iter().map(|(path, _)| path.clone());
        let heads = metrics.iter().map(|(name, unit)| format!("{name} ({unit})"));
        rows.push(axes.chain(heads).chain(["verdict".to_owned()]).collect());
        for point in &points {
            let values = point.settings.iter().map(|(_, value)| value.clone());
            let figures = metrics.iter().map(|(name, _)| match point.figure(name) {
                Some((value, spread)) if spread > 0.0 => format!("{} ± {}", figure(value), figure(spread)),
                Some((value, _)) => figure(value),
                None => "–".into(),
            });
            rows.push(values.chain(figures).chain([point.verdict()]).collect());
        }
        aligned(&rows)
    }

    /// A line for each run, with all statistics of all metrics.
    pub fn csv(&self) -> String {
        let metrics = self.metrics();
        let axes = self.runs.first().map_or(&[][..], |run| &run.settings).iter().map(|(path, _)| path.clone());
        let own = ["repetition", "run", "status", "verdict", "virtual_seconds"].map(str::to_owned);
        let statistics = ["n", "mean", "mean.low", "mean.high", "p50", "p90", "p99"];
        let of_metrics = metrics.iter().flat_map(|(name, _)| statistics.map(|statistic| format!("{name}.{statistic}")));
        let mut lines = vec![axes.chain(own).chain(of_metrics).collect::<Vec<String>>()];
        for run in &self.runs {
            let values = run.settings.iter().map(|(_, value)| value.clone());
            let result = run.result.as_ref();
            let own = [
                run.repetition.to_string(),
                run.place.clone(),
                result.map_or("none", |r| if r.status == Status::Failed { "failed" } else { "ok" }).to_owned(),
                result.map_or(String::new(), |r| r.fidelity.verdict.to_string()),
                result.map_or(String::new(), |r| r.virtual_seconds.to_string()),
            ];
            let of_metrics = metrics.iter().flat_map(|(name, _)| match mean(run, name) {
                Some(MetricRecord { summary: s, interval, .. }) => {
                    let [low, high] = interval
                        .and_then(|i| i.mean)
                        .map_or([const { String::new() }; 2], |ends| ends.map(|end| end.to_string()));
                    let of = |v: f64| v.to_string();
                    [s.n.to_string(), of(s.mean), low, high, of(s.p50), of(s.p90), of(s.p99)]
                }
                None => [const { String::new() }; 7],
            });
            lines.push(values.chain(own).chain(of_metrics).collect());
        }
        let mut text = csv::Writer::from_writer(Vec::new());
        // Neither memory nor the lengths of the lines can fail.
        lines.iter().for_each(|line| text.write_record(line).expect("all lines are as long"));
        String::from_utf8_lossy(&text.into_inner().expect("it is memory")).into_owned()
    }

    /// The charts and the table as a page.
    pub fn page(&self) -> String {
        page(&format!("Sweep of {}", self.name), &format!("<h1>Sweep of {}</h1>\n{}", Text(&self.name), self.charts()))
    }

    /// A chart for each metric over the first parameter, with a line for each combination of the others, and the table.
    pub(crate) fn charts(&self) -> String {
        let points = self.points();
        let mut body = String::new();
        let axis = points.first().and_then(|point| point.settings.first()).map_or("", |(path, _)| path);
        for (name, unit) in self.metrics() {
            let mut lines: Vec<Line> = Vec::new();
            for point in &points {
                let Some(((x, y), spread)) = point.settings.first().and_then(|(_, first)| {
                    let (value, spread) = point.figure(name)?;
                    Some(((self.place_of(first), value), spread))
                }) else {
                    continue;
                };
                let others: Vec<String> = point.settings[1..].iter().map(|(path, v)| format!("{path} {v}")).collect();
                let of = others.join(", ");
                let line = match lines.iter_mut().find(|line| line.name == of) {
                    Some(line) => line,
                    None => {
                        lines.push(Line { name: of, points: Vec::new(), spread: Vec::new() });
                        lines.last_mut().expect("one was added")
                    }
                };
                let at = line.points.partition_point(|(before, _)| *before < x);
                line.points.insert(at, (x, y));
                line.spread.insert(at, spread);
            }
            let _ = writeln!(body, "<h2>{}</h2>", Text(name));
            body += &chart(name, axis, &format!("{name} ({unit})"), &lines, &Marks::default());
        }
        let _ = writeln!(body, "<h2>All points</h2>\n<pre>{}</pre>", Text(&self.table()));
        body
    }

    /// Where a value of the first parameter is on an axis: at its number, if all of that parameter have numbers and the
    /// same unit; else at its turn.
    fn place_of(&self, value: &str) -> f64 {
        let all: Vec<&str> =
            self.runs.iter().filter_map(|run| run.settings.first()).map(|(_, value)| value.as_str()).collect();
        let numbers: Vec<Option<(f64, &str)>> = all.iter().map(|value| number(value)).collect();
        let same = numbers.iter().all(|n| n.is_some_and(|(_, unit)| numbers[0].is_some_and(|(_, u)| u == unit)));
        match number(value) {
            Some((number, _)) if same => number,
            _ => {
                let mut known: Vec<&str> = Vec::new();
                all.into_iter().for_each(|v| {
                    if !known.contains(&v) {
                        known.push(v)
                    }
                });
                known.iter().position(|known| *known == value).map_or(0.0, |turn| turn as f64 + 1.0)
            }
        }
    }
}

/// Rows of cells, the first of them heads, as a table in Markdown whose columns are as wide as their widest cell.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows[0].len();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
        if number == 0 {
            let lines: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            let _ = writeln!(text, "| {} |", lines.join(" | "));
        }
    }
    text
}

/// The number that a text begins with, and the unit behind it.
fn number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim()))
}

#[cfg(test)]
mod tests {
    use record::Variant;

    use super::*;
    use crate::testing::{self, assert_harmless};

    fn swept() -> Swept {
        let run = |speed: &str, delay: &str, repetition: u32, scale: f64| SweepRun {
            settings: vec![("links.0.bandwidth".into(), speed.into()), ("links.0.delay".into(), delay.into())],
            repetition,
            place: format!("runs/{speed}/{repetition}"),
            result: Some(testing::run("a run", Variant::Scaled, &testing::latencies(scale), &[]).result),
        };
        let nothing = SweepRun { result: None, ..run("30Mbit/s", "1ms", 1, 1.0) };
        let runs = vec![
            run("10Mbit/s", "1ms", 1, 2.0),
            run("20Mbit/s", "1ms", 1, 1.0),
            run("10Mbit/s", "1ms", 2, 2.2),
            run("10Mbit/s", "5,0ms", 1, 3.0),
            nothing,
        ];
        Swept { name: "web <half>".into(), runs }
    }

    #[test]
    fn a_point_has_a_line_with_the_spread_of_its_repetitions() {
        let table = swept().table();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("| links.0.bandwidth | links.0.delay | latency ("), "{table}");
        assert_eq!(lines.len(), 2 + 4, "{table}");
        assert!(lines[2].starts_with("| 10Mbit/s ") && lines[2].contains(" ± "), "{table}");
        assert!(lines[5].contains("–") && lines[5].contains("no result"), "{table}");
        let widths: Vec<usize> = lines.iter().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{table}");
    }

    #[test]
    fn notebooks_find_a_line_for_each_run() {
        let csv = swept().csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 1 + 5);
        assert!(lines[0].starts_with("links.0.bandwidth,links.0.delay,repetition,run,status,verdict,virtual_seconds,"));
        assert!(lines[4].starts_with("10Mbit/s,\"5,0ms\",1,"), "{}", lines[4]);
        let fields = |line: &str| line.replace("\"5,0ms\"", "").split(',').count();
        assert!(lines.iter().all(|line| fields(line) == fields(lines[0])), "{csv}");
    }

    #[test]
    fn pages_draw_what_has_numbers_by_these() {
        let page = swept().page();
        assert_harmless(&page);
        assert!(page.contains("Sweep of web &lt;half&gt;") && page.contains("links.0.delay 5,0ms"));
        assert_eq!(swept().place_of("20Mbit/s"), 20.0);
        let mut mixed = swept();
        mixed.runs[0].settings[0].1 = "1Gbit/s".into();
        assert_eq!((mixed.place_of("1Gbit/s"), mixed.place_of("20Mbit/s")), (1.0, 2.0));
    }
}
