//! Turning what the nodes wrote into samples.

use model::OfFlow;
use net::{FlowCounters, FlowInterval};
use record::Sample;
use regex::bytes::Regex;
use scale::{RealDuration, VirtualInstant};

use crate::plan::carried;
use crate::timeline::Timeline;

/// Where in a line of a log the start and the value of a sample stand; columns count from 1.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// The column of the sample's start, if there is one.
    pub start: Option<usize>,
    /// The column of the value.
    pub value: usize,
    /// How many of the metric's units make a second, for the start column.
    pub per_second: f64,
}

/// The part of a run that counts, and where its t = 0 lies on the nodes' own calendar.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Samples that start before are warm-up.
    pub from: VirtualInstant,
    /// Samples that start at or after are cool-down.
    pub to: VirtualInstant,
    /// Virtual zero as a Unix time in seconds, as the nodes see it.
    pub zero_unix_s: f64,
}

impl Window {
    /// Whether a sample counts that starts so many virtual seconds after zero.
    pub fn holds(&self, s: f64) -> bool {
        s >= self.from.as_secs_f64() && s < self.to.as_secs_f64()
    }
}

/// What a flow of the emulator's did in an interval, in the units of [`OfFlow`]; none if that cannot be said.
pub fn flow_sample(interval: &FlowInterval, what: OfFlow, flow: &str, timeline: &Timeline) -> Option<Sample> {
    let (from, to) = (timeline.at(interval.from).as_secs_f64(), timeline.at(interval.to).as_secs_f64());
    let FlowCounters { sent, arrived, lost, delay } = interval.grew;
    // The last one is shorter than the others, and says as little as a second in which the flow began.
    let whole = (interval.whole && to - from > 0.999).then_some(());
    let value = match what {
        OfFlow::Sent => whole.map(|()| sent as f64 / (to - from)),
        OfFlow::Packets => whole.map(|()| arrived as f64 / (to - from)),
        OfFlow::Rate => whole.map(|()| (arrived * carried(interval.frame)) as f64 * 8.0 / (to - from)),
        OfFlow::Loss => whole.filter(|()| arrived + lost > 0).map(|()| 100.0 * lost as f64 / (arrived + lost) as f64),
        OfFlow::Delay => (arrived > 0).then(|| {
            let mean = RealDuration::from_nanos(delay / arrived);
            timeline.tdf.to_virtual(mean).as_secs_f64() * 1e3
        }),
    };
    value.map(|value| Sample { virtual_s: Some(from), value, node: flow.to_owned() })
}

/// Why a metric cannot be had. The run has failed then, and its other results are kept.
#[derive(Debug, thiserror::Error)]
pub enum MetricError {
    /// Some nodes have nothing to read.
    #[error("{looked_for} on {}", nodes.join(", "))]
    Missing {
        /// What was looked for, and that it is not there.
        looked_for: String,
        /// On these nodes.
        nodes: Vec<String>,
    },
    /// A row is not what the experiment says.
    #[error("node {node}: {path}:{line}: {what}")]
    Row {
        /// The node.
        node: String,
        /// The file inside it.
        path: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// The experiment's pattern is too large for the library that looks for it.
    #[error("its pattern: {0}")]
    Pattern(#[from] regex::Error),
    /// A sample is no number that can be reckoned with.
    #[error("{0}")]
    NoMeasurement(String),
}

/// A line that does not hold a number where the experiment says there is one.
#[derive(Clone, Debug, PartialEq)]
pub struct BadRow {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// A start of 10^9 seconds or more is a Unix time; anything less counts from t = 0.
const UNIX_TIME_FROM_S: f64 = 1e9;

/// Reads one sample per row. Rows are split at white space, or at commas where a row has any. A last row without its
/// newline was cut off when its writer was stopped, and is left out.
pub fn rows(text: &[u8], node: &str, columns: Columns, window: Window) -> Result<Vec<Sample>, BadRow> {
    let mut samples = Vec::new();
    let whole = text.iter().rposition(|b| *b == b'\n').map_or(&[][..], |end| &text[..end]);
    for (index, line) in whole.split(|b| *b == b'\n').enumerate() {
        let line = String::from_utf8_lossy(line);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = if line.contains(',') {
            line.split(',').map(str::trim).collect()
        } else {
            line.split_whitespace().collect()
        };
        let number = |column: usize| -> Result<f64, BadRow> {
            let bad = |what: String| BadRow { line: index + 1, what };
            let field = fields
                .get(column - 1)
                .ok_or_else(|| bad(format!("there is no column {column}, the row has {}", fields.len())))?;
            match field.parse::<f64>() {
                Ok(v) if v.is_finite() => Ok(v),
                _ => Err(bad(format!("column {column} is `{field}`, not a number"))),
            }
        };
        let value = number(columns.value)?;
        let virtual_s = match columns.start {
            None => None,
            Some(column) => {
                let s = number(column)? / columns.per_second;
                Some(if s >= UNIX_TIME_FROM_S { s - window.zero_unix_s } else { s })
            }
        };
        if virtual_s.is_none_or(|s| window.holds(s)) {
            samples.push(Sample { virtual_s, value, node: node.to_string() });
        }
    }
    Ok(samples)
}

/// The number in the first group of the last line that matches: programs print progress first and the result last.
pub fn line(text: &[u8], pattern: &Regex) -> Option<f64> {
    text.split(|b| *b == b'\n').rev().find_map(|line| {
        let captures = pattern.captures(line)?;
        let group = captures.get(1).or_else(|| captures.get(0))?;
        std::str::from_utf8(group.as_bytes()).ok()?.trim().parse::<f64>().ok().filter(|v| v.is_finite())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use scale::VirtualDuration;

    const ZERO: f64 = 1_700_000_000.0;

    fn whole_run(zero_unix_s: f64) -> Window {
        Window { from: VirtualInstant::ZERO, to: VirtualInstant::ZERO + VirtualDuration::MAX, zero_unix_s }
    }

    fn window(from: f64, to: f64) -> Window {
        let instant = |s| VirtualInstant::ZERO + VirtualDuration::from_secs_f64(s);
        Window { from: instant(from), to: instant(to), zero_unix_s: ZERO }
    }

    const H2LOAD: Columns = Columns { start: Some(1), value: 3, per_second: 1e6 };

    #[test]
    fn an_h2load_log_is_cut_to_the_window() {
        let log = b"1700000000500000\t200\t900\n\
            1700000002000000\t200\t1500\n1700000011999999\t200\t1600\n1700000012000000\t200\t7\n";
        let samples = rows(log, "c", H2LOAD, window(2.0, 12.0)).unwrap();
        assert_eq!(samples.iter().map(|s| s.value).collect::<Vec<_>>(), [1500.0, 1600.0]);
        assert!((samples[0].virtual_s.unwrap() - 2.0).abs() < 1e-6);
    }

    #[test]
    fn a_start_that_is_no_unix_time_counts_from_zero() {
        let columns = Columns { start: Some(1), value: 2, per_second: 1e3 };
        let samples = rows(b"1000, 5\n3000, 6\n", "c", columns, window(2.0, 12.0)).unwrap();
        assert_eq!(samples, [Sample { virtual_s: Some(3.0), value: 6.0, node: "c".into() }]);
    }

    #[test]
    fn a_row_cut_off_in_the_middle_is_left_out() {
        let samples =
            rows(b"1 2 3\n1 2 34", "c", Columns { start: None, value: 3, per_second: 1.0 }, whole_run(ZERO)).unwrap();
        assert_eq!(samples.len(), 1);
        assert_eq!(rows(b"", "c", H2LOAD, whole_run(ZERO)).unwrap(), []);
    }

    #[test]
    fn a_bad_row_is_named() {
        let error = rows(b"1 2 3\n1 2\n", "c", H2LOAD, whole_run(ZERO)).unwrap_err();
        assert_eq!(error.line, 2);
        assert!(error.what.contains("no column 3"), "{}", error.what);
        let error = rows(b"1 2 x\n", "c", H2LOAD, whole_run(ZERO)).unwrap_err();
        assert!(error.what.contains("`x`"), "{}", error.what);
    }

    #[test]
    fn the_last_match_counts() {
        let pattern = Regex::new(r"finished in .*, ([\d.]+) req/s").unwrap();
        let text = b"progress: 10%\nfinished in 1s, 3.5 req/s\nfinished in 10.00s, 123.45 req/s, 1MB/s\n";
        assert_eq!(line(text, &pattern), Some(123.45));
        assert_eq!(line(b"nothing\n\xff\xfe", &pattern), None);
        assert_eq!(line(b"v=12\n", &Regex::new(r"v=\d+").unwrap()), None);
    }
}
