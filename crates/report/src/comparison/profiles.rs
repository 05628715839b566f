//! Profiles of compared runs, over one another: metrics over virtual time, what nodes used, and how busy links were.

use std::collections::BTreeMap;
use std::fmt::Write;

use fidelity::wording::number;
use record::Series;

use crate::error::Error;
use crate::lines::{Line, half_chart};
use crate::marks::Marks;
use crate::numbers::{self, figure};
use crate::page::{Column, Row, Text, table};
use crate::usage::{Part, Usage};

/// Points of a metric's line over time.
const POINTS: usize = 60;
/// Kinds of nodes, and links in the table, that are shown: those that did most.
const TIERS: usize = 8;
const LINKS: usize = 12;
const MIB: f64 = 1_048_576.0;

/// The drawing of a series besides its metrics: of its first run.
#[derive(Debug)]
pub(super) struct Profile {
    marks: Marks,
    usage: Usage,
    /// Average load of directions of links, Mbit/s.
    loads: BTreeMap<String, f64>,
    end_s: f64,
}

impl Profile {
    pub fn of(series: &Series) -> Result<Profile, Error> {
        let first = series.first();
        let (dir, end_s) = (&first.dir, first.result.virtual_seconds);
        let load = |bytes: u64| if end_s > 0.0 { 8e-6 * bytes as f64 / end_s } else { 0.0 };
        let loads = dir.pipe_totals()?.into_iter().map(|t| (t.pipe, load(t.counters.get("bytes").unwrap_or(0))));
        let mut marks = Marks::default();
        dir.each_event(|event| marks.add(&event))?;
        Ok(Profile { marks, usage: Usage::of(dir, end_s)?, loads: loads.collect(), end_s })
    }
}

/// A metric over virtual time: its mean, and how many samples there were a second; nothing, if its samples have no
/// time. `profiles` are those of the series.
pub(super) fn metric_over_time(
    name: &str,
    unit: &str,
    labels: &[String],
    all: &[&Series],
    profiles: &[Profile],
) -> Result<String, Error> {
    let end_s = profiles.iter().map(|p| p.end_s).fold(1e-9, f64::max);
    let part_s = end_s / POINTS as f64;
    let (mut means, mut rates) = (Vec::new(), Vec::new());
    for (label, series) in labels.iter().zip(all) {
        let mut parts = vec![(0.0, 0u32); POINTS];
        for run in series.runs.values() {
            let Some(metric) = run.result.metrics.get(name) else { continue };
            run.dir.each_sample_of(metric, |sample| {
                let Some(at) = sample.virtual_s.filter(|at| (0.0..=end_s).contains(at)) else { return };
                let part = &mut parts[((at / part_s) as usize).min(POINTS - 1)];
                *part = (part.0 + sample.value, part.1 + 1);
            })?;
        }
        let middle = |place: usize| (place as f64 + 0.5) * part_s;
        let known = parts.iter().enumerate().filter(|(_, (_, count))| *count > 0);
        let points: Vec<_> = known.clone().map(|(i, (sum, count))| (middle(i), sum / f64::from(*count))).collect();
        // From the first part with samples to the last; one between them without any had none.
        let within = known.clone().next().map(|(i, _)| i).zip(known.clone().next_back().map(|(i, _)| i));
        let runs_s = series.runs.len() as f64 * part_s;
        let rate = within.map_or(Vec::new(), |(first, last)| {
            (first..=last).map(|i| (middle(i), f64::from(parts[i].1) / runs_s)).collect()
        });
        if points.len() > 2 {
            means.push(Line { name: label.clone(), points, spread: Vec::new() });
            rates.push(Line { name: label.clone(), points: rate, spread: Vec::new() });
        }
    }
    if means.is_empty() {
        return Ok(String::new());
    }
    let marks = &profiles[0].marks;
    let title = format!("{name} over virtual time");
    Ok(format!(
        "<div class=\"pair\">\n{}{}</div>\n{}",
        half_chart(&title, "virtual s", &format!("mean, {unit}"), &means, marks),
        half_chart(&title, "virtual s", "samples a virtual second", &rates, marks),
        note(marks)
    ))
}

fn note(marks: &Marks) -> String {
    match marks.says() {
        "" => String::new(),
        says => format!("<p class=\"quiet\">{says}</p>\n"),
    }
}

/// CPU and memory of each kind of node over virtual time, and a table of them; nothing, if nobody looked at the nodes.
pub(super) fn of_nodes(labels: &[String], profiles: &[Profile]) -> String {
    let tiers: Vec<_> = profiles.iter().map(|profile| profile.usage.tiers()).collect();
    let computed = |parts: &[Part]| parts.iter().map(|p| p.cpu_s).sum::<f64>();
    let mut names: Vec<&String> = tiers[0].keys().collect();
    names.sort_by(|a, b| computed(&tiers[0][*b]).total_cmp(&computed(&tiers[0][*a])));
    names.truncate(TIERS);
    if names.is_empty() {
        return String::new();
    }
    let mut html =
        "<h2>Profiles of the nodes</h2>\n<p>What a node of each kind used on average, over virtual time: of \
                    the first run of each, where there are several.</p>\n"
            .to_owned();
    html += &note(&profiles[0].marks);
    let mut rows = String::new();
    for name in names {
        let mut row = Row::default().name(name);
        let (mut cpus, mut memory) = (Vec::new(), Vec::new());
        let mut base = None;
        for ((label, of), profile) in labels.iter().zip(&tiers).zip(profiles) {
            let Some(parts) = of.get(name) else {
                row = row.number("–").number("–");
                row = if base.is_some() { row.number("–").number("–") } else { row };
                continue;
            };
            let line = |of: fn(&Part) -> f64| {
                let known = parts.iter().enumerate().filter(|(_, part)| part.known_s > 0.0);
                let points = known.map(|(i, part)| ((i as f64 + 0.5) * profile.usage.part_s, of(part))).collect();
                Line { name: label.clone(), points, spread: Vec::new() }
            };
            cpus.push(line(Part::cpus));
            memory.push(line(|part| part.memory_bytes / MIB));
            let known: f64 = parts.iter().map(|p| p.known_s).sum();
            let mean = computed(parts) / known.max(1e-9);
            let most = parts.iter().map(|p| p.memory_bytes / MIB).fold(0.0, f64::max);
            row = row.number(number(mean));
            row = base.map_or(row.clone(), |(base, _)| row.number(error(mean, base)));
            row = row.number(number(most));
            row = base.map_or(row.clone(), |(_, base)| row.number(error(most, base)));
            base = base.or(Some((mean, most)));
        }
        rows += &row.end();
        let marks = &profiles[0].marks;
        let title = |what: &str| format!("{what} of {name}");
        let _ = writeln!(
            html,
            "<h3>{}</h3>\n<div class=\"pair\">\n{}{}</div>",
            Text(name),
            half_chart(&title("CPUs at work"), "virtual s", "CPUs at work", &cpus, marks),
            half_chart(&title("memory"), "virtual s", "memory, MiB", &memory, marks)
        );
    }
    let mut columns = vec![Column::Words("kind of node")];
    for (place, label) in labels.iter().enumerate() {
        let error = (place > 0).then_some(Column::Number("error"));
        columns.push(Column::Number(label));
        columns.extend(error);
        columns.push(Column::Number("MiB at most"));
        columns.extend((place > 0).then_some(Column::Number("error")));
    }
    html + "<h3>CPUs at work, on average, and memory</h3>\n" + &table(&columns, &rows)
}

/// Directions of links, sorted by what they carried in the base; nothing, if there are none.
pub(super) fn of_links(labels: &[String], profiles: &[Profile]) -> String {
    let mut names: Vec<(&String, f64)> = profiles[0].loads.iter().map(|(name, load)| (name, *load)).collect();
    names.sort_by(|a, b| b.1.total_cmp(&a.1));
    if names.is_empty() || names[0].1 <= 0.0 {
        return String::new();
    }
    let line = |(label, profile): (&String, &Profile)| {
        let load = |(rank, (name, _)): (usize, &(&String, f64))| Some((rank as f64 + 1.0, *profile.loads.get(*name)?));
        let points = names.iter().enumerate().filter_map(load).collect();
        Line { name: label.clone(), points, spread: Vec::new() }
    };
    let lines: Vec<_> = labels.iter().zip(profiles).map(line).collect();
    let mut rows = String::new();
    for (name, base) in names.iter().take(LINKS) {
        let mut row = Row::default().name(name).number(figure(*base));
        for profile in &profiles[1..] {
            let other = profile.loads.get(*name);
            row = row.number(numbers::measured(other.copied()));
            row = row.number(other.map_or("–".into(), |other| error(*other, *base)));
        }
        rows += &row.end();
    }
    if names.len() > LINKS {
        let more = names.len() - LINKS;
        let _ = writeln!(rows, "<tr><td colspan=\"{}\">… and {more} more</td></tr>", 2 * labels.len());
    }
    let mut columns = vec![Column::Words("link"), Column::Number(&labels[0])];
    columns.extend(labels[1..].iter().flat_map(|label| [Column::Number(label), Column::Number("error")]));
    let drawn = if names.len() > 2 {
        let title = "links sorted by load";
        half_chart(title, "links, sorted by what they carried", "Mbit/s", &lines, &Marks::default())
    } else {
        String::new()
    };
    let table = table(&columns, &rows);
    format!(
        "<h2>Links sorted by load <span class=\"quiet\">(Mbit/s on average)</span></h2>\n\
         <div class=\"pair\">\n{drawn}{table}</div>\n"
    )
}

fn error(other: f64, base: f64) -> String {
    numbers::error((base != 0.0).then(|| 100.0 * (other - base) / base))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hostile_run;

    fn series(dir: &std::path::Path, name: &str) -> Series {
        let run = hostile_run(&dir.join(name), 0.0);
        Series::open(&run).unwrap()
    }

    #[test]
    fn variants_lie_over_one_another_with_the_events() {
        let temp = tempfile::tempdir().unwrap();
        let (base, other) = (series(temp.path(), "a"), series(temp.path(), "b"));
        let labels = ["base".to_owned(), "other<b>".to_owned()];
        let profiles = [&base, &other].map(|series| Profile::of(series).unwrap());
        let html = of_nodes(&labels, &profiles);
        assert_eq!(html.matches("<polyline").count(), 4, "two of CPU and two of memory: {html}");
        assert!(html.contains("CPUs at work of &lt;b&gt;") && html.contains("other&lt;b&gt;"), "{html}");
        assert!(html.contains("<td class=\"n\">0.5</td>") && html.contains("+0.0 %"), "{html}");
        let none = Profile { usage: Usage::default(), marks: Marks::default(), loads: BTreeMap::new(), end_s: 1.0 };
        assert_eq!((of_nodes(&labels[..1], &[none]), of_links(&labels, &profiles)), (String::new(), String::new()));
    }

    #[test]
    fn links_are_sorted_by_what_the_base_carried() {
        let labels = ["base".to_owned(), "other".to_owned()];
        let profile = |loads: &[(&str, f64)]| Profile {
            marks: Marks::default(),
            usage: Usage::default(),
            loads: loads.iter().map(|(name, load)| (name.to_string(), *load)).collect(),
            end_s: 10.0,
        };
        let base = profile(&[("a--b/ab", 1.0), ("c--d/ab", 8.0), ("e--f/ab", 0.0)]);
        let other = profile(&[("a--b/ab", 1.1), ("c--d/ab", 6.0)]);
        let html = of_links(&labels, &[base, other]);
        assert!(html.find("c--d/ab").unwrap() < html.find("a--b/ab").unwrap(), "{html}");
        assert!(
            html.contains("-25.0 %") && html.contains("+10.0 %") && html.matches("<polyline").count() == 2,
            "{html}"
        );
    }

    #[test]
    fn a_metric_with_instants_has_a_line_and_one_without_has_none() {
        let temp = tempfile::tempdir().unwrap();
        let with_times = |name: &str, scale: f64| {
            let path = hostile_run(&temp.path().join(name), 0.0);
            let dir = record::RunDir::at(&path);
            let mut result = dir.result().unwrap();
            let values: Vec<f64> = (0..100).map(|i| scale * f64::from(i)).collect();
            let sample = |(i, v): (usize, &f64)| {
                let virtual_s = Some(i as f64 / 10.0);
                record::Sample { virtual_s, value: *v, node: "c".into() }
            };
            let samples: Vec<_> = values.iter().enumerate().map(sample).collect();
            let file = dir.write_samples("latency", &samples).unwrap();
            let summary = fidelity::statistics::summary(&record::Samples::new(values).unwrap()).unwrap();
            result.metrics.insert("latency".into(), record::MetricRecord::new("ms", summary, file));
            dir.write_result(&result).unwrap();
            Series::open(&path).unwrap()
        };
        let (base, other) = (with_times("a", 1.0), with_times("b", 2.0));
        let labels = ["base".to_owned(), "other".to_owned()];
        let profiles = [&base, &other].map(|series| Profile::of(series).unwrap());
        let html = metric_over_time("latency", "ms", &labels, &[&base, &other], &profiles).unwrap();
        assert_eq!(html.matches("<polyline").count(), 4, "{html}");
        let untimed = base.first().result.metrics.keys().next().unwrap().clone();
        let html = metric_over_time(&untimed, "ms", &labels, &[&base, &other], &profiles).unwrap();
        assert_eq!(html, "");
    }
}
