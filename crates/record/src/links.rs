//! The traffic of links and interfaces: in all (`pipes.csv`, `ports.csv`) and interval by interval
//! (`metrics/pipes.csv`).
//!
//! Each line begins with what it is about; the counters that follow are those of the emulator, named by the header.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use csv::StringRecord;

use crate::bounded::{self, MOST_TOTALS};
use crate::counters::Counters;
use crate::csv_log::CsvLog;
use crate::dir::Made;
use crate::error::{Error, Result};

/// The columns before the counters.
const PIPE_TOTALS: [&str; 1] = ["pipe"];
const PORT_TOTALS: [&str; 2] = ["node", "interface"];
const PIPE_INTERVALS: [&str; 6] = ["from_s", "to_s", "pipe", "utilisation", "queue_mean", "queue_max"];

/// The traffic of one direction of a link during the whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipeTotals {
    /// Its name, as in `plan.json`: `A--B/ab` or `A--B/ba`.
    pub pipe: String,
    /// The fates of frames.
    pub counters: Counters,
}

/// The frames refused and missed at one interface of a node during the whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortTotals {
    /// The node.
    pub node: String,
    /// The interface, as the node sees it: `eth0`, ….
    pub interface: String,
    /// The fates of frames; the kernel's own are not known of an interface that the node has removed.
    pub counters: Counters,
}

/// The traffic of one direction of a link in one interval of a run. One in which nothing happened has no row.
#[derive(Clone, Debug, PartialEq)]
pub struct PipeInterval {
    /// When the interval began, virtual s since t = 0; the file has it to the millisecond.
    pub from_s: f64,
    /// When it ended, likewise.
    pub to_s: f64,
    /// The pipe's name, as in `plan.json`.
    pub pipe: String,
    /// The part of the interval, 0 to 1, in which the transmitter was busy; `None` for a pipe of unlimited bandwidth.
    pub utilisation: Option<f64>,
    /// Packets that waited or were in transmission: the mean over the interval's time.
    pub queue_mean: f64,
    /// The most of them at any instant of it.
    pub queue_max: u64,
    /// By how much the pipe's counters grew.
    pub counters: Counters,
}

/// `metrics/pipes.csv`, while the run goes on.
#[derive(Debug)]
pub struct PipeIntervalLog(CsvLog);

impl PipeIntervalLog {
    pub(crate) fn begin(made: Made, names: &[&str]) -> Result<PipeIntervalLog> {
        CsvLog::begin(made, &PIPE_INTERVALS, names).map(PipeIntervalLog)
    }

    /// Adds an interval.
    pub fn add(&mut self, interval: &PipeInterval) -> Result<()> {
        let PipeInterval { from_s, to_s, pipe, utilisation, queue_mean, queue_max, counters } = interval;
        let head = [
            format!("{from_s:.3}"),
            format!("{to_s:.3}"),
            pipe.clone(),
            utilisation.map_or(String::new(), |u| format!("{u:.4}")),
            format!("{queue_mean:.3}"),
            queue_max.to_string(),
        ];
        self.0.row(head.into_iter().chain(counters.cells()))
    }

    /// Writes out what has been added.
    pub fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}

pub(crate) fn write_pipe_totals(made: Made, names: &[&str], totals: &[PipeTotals]) -> Result<()> {
    write(made, &PIPE_TOTALS, names, totals.iter().map(|t| (vec![t.pipe.as_str()], &t.counters)))
}

pub(crate) fn write_port_totals(made: Made, names: &[&str], totals: &[PortTotals]) -> Result<()> {
    write(made, &PORT_TOTALS, names, totals.iter().map(|t| (vec![t.node.as_str(), t.interface.as_str()], &t.counters)))
}

pub(crate) fn parse_pipe_totals(path: &Path, text: &[u8]) -> Result<Vec<PipeTotals>> {
    parse(path, text, MOST_TOTALS, &PIPE_TOTALS, |row, counters| Ok(PipeTotals { pipe: row[0].into(), counters }))
}

pub(crate) fn parse_port_totals(path: &Path, text: &[u8]) -> Result<Vec<PortTotals>> {
    parse(path, text, MOST_TOTALS, &PORT_TOTALS, |row, counters| {
        Ok(PortTotals { node: row[0].into(), interface: row[1].into(), counters })
    })
}

pub(crate) fn parse_pipe_intervals(path: &Path, file: File) -> Result<Vec<PipeInterval>> {
    parse(path, file, usize::MAX, &PIPE_INTERVALS, interval)
}

/// The names of the counters in a table of intervals with these columns.
pub(crate) fn counters_of_intervals(header: &StringRecord) -> Result<Arc<[String]>, String> {
    counters_behind(header, &PIPE_INTERVALS)
}

/// A row of a table of intervals with these counters.
pub(crate) fn pipe_interval(row: &StringRecord, names: &Arc<[String]>) -> Result<PipeInterval, String> {
    interval(row, counters_in(row, PIPE_INTERVALS.len(), names)?)
}

fn interval(row: &StringRecord, counters: Counters) -> Result<PipeInterval, String> {
    let number = |column: usize| -> Result<f64, String> {
        let value = row[column].parse().ok().filter(|v: &f64| v.is_finite());
        value.ok_or_else(|| format!("{} is `{}`, not a number", PIPE_INTERVALS[column], &row[column]))
    };
    Ok(PipeInterval {
        from_s: number(0)?,
        to_s: number(1)?,
        pipe: row[2].into(),
        utilisation: if row[3].is_empty() { None } else { Some(number(3)?) },
        queue_mean: number(4)?,
        queue_max: count(&row[5], PIPE_INTERVALS[5])?,
        counters,
    })
}

/// Writes a whole table: `head` and `names` are its header.
fn write<'a>(
    made: Made,
    head: &[&str],
    names: &[&str],
    rows: impl Iterator<Item = (Vec<&'a str>, &'a Counters)>,
) -> Result<()> {
    let Made { path, file } = made;
    let failed = |e| Error::csv(&path, "write", &head.join(","), e);
    let mut out = csv::Writer::from_writer(file);
    out.write_record(head.iter().chain(names)).map_err(failed)?;
    for (head, counters) in rows {
        let cells = head.into_iter().map(str::to_string).chain(counters.cells());
        out.write_record(cells).map_err(failed)?;
    }
    out.flush().map_err(|e| Error::io(&path, "write", e))
}

/// Reads a table of so many rows at most, whose header begins with `head`; what follows are counters.
fn parse<T>(
    path: &Path,
    text: impl Read,
    most: usize,
    head: &[&str],
    row: impl Fn(&StringRecord, Counters) -> Result<T, String>,
) -> Result<Vec<T>> {
    let failed = |e| Error::csv(path, "read", &format!("{} and counters", head.join(",")), e);
    let mut reader = bounded::table(text);
    let names = counters_behind(reader.headers().map_err(failed)?, head).map_err(|what| Error::input(path, what))?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(failed)?;
        if rows.len() == most {
            return Err(Error::input(path, format!("more than {most} rows: a run of diorama writes fewer")));
        }
        let line = record.position().map_or(0, csv::Position::line);
        let read = counters_in(&record, head.len(), &names).and_then(|counters| row(&record, counters));
        rows.push(read.map_err(|what| Error::input(path, format!("line {line}: {what}")))?);
    }
    Ok(rows)
}

/// The names of the counters in a table whose header must begin with `head`.
fn counters_behind(header: &StringRecord, head: &[&str]) -> Result<Arc<[String]>, String> {
    if !header.iter().take(head.len()).eq(head.iter().copied()) {
        let found = header.iter().collect::<Vec<_>>().join(",");
        return Err(format!("the header is `{found}`; it would have to begin with `{}`", head.join(",")));
    }
    Ok(header.iter().skip(head.len()).map(str::to_string).collect())
}

/// The counters of a row that has so many cells before them.
fn counters_in(row: &StringRecord, head: usize, names: &Arc<[String]>) -> Result<Counters, String> {
    let values = row.iter().skip(head).zip(names.iter());
    let values = values.map(|(cell, name)| if cell.is_empty() { Ok(None) } else { count(cell, name).map(Some) });
    Ok(Counters::shared(names, values.collect::<Result<_, _>>()?))
}

fn count(cell: &str, name: &str) -> Result<u64, String> {
    cell.parse().map_err(|_| format!("{name} is `{cell}`, not a count"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::RunDir;

    const NAMES: [&str; 3] = ["packets", "bytes", "lost"];

    #[test]
    fn tables_are_read_as_they_were_written() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::prepare(temp.path(), []).unwrap();
        let text = |name: &str| fs::read_to_string(temp.path().join(name)).unwrap();

        let pipe = |name: &str, n| PipeTotals { pipe: name.into(), counters: Counters::new(&NAMES, [n, 1500 * n, 0]) };
        let pipes = [pipe("a--b/ab", 2), pipe("a--b/ba", 1)];
        dir.write_pipe_totals(&NAMES, &pipes).unwrap();
        assert_eq!(text("pipes.csv"), "pipe,packets,bytes,lost\na--b/ab,2,3000,0\na--b/ba,1,1500,0\n");
        assert_eq!(dir.pipe_totals().unwrap(), pipes);

        let names = ["malformed", "ring_drops"];
        let port = |drops: Option<u64>| PortTotals {
            node: "a".into(),
            interface: "eth0".into(),
            counters: Counters::new(&names, [Some(2), drops]),
        };
        dir.write_port_totals(&names, &[port(Some(7)), port(None)]).unwrap();
        assert_eq!(text("ports.csv"), "node,interface,malformed,ring_drops\na,eth0,2,7\na,eth0,2,\n");
        assert_eq!(dir.port_totals().unwrap(), [port(Some(7)), port(None)]);

        let interval = PipeInterval {
            from_s: 1.0,
            to_s: 1.25,
            pipe: "a--b/ab".into(),
            utilisation: Some(0.5),
            queue_mean: 0.125,
            queue_max: 3,
            counters: Counters::new(&NAMES, [4, 5, 6]),
        };
        let intervals = [interval.clone(), PipeInterval { utilisation: None, ..interval }];
        let mut log = dir.pipe_interval_log(&NAMES).unwrap();
        intervals.iter().for_each(|i| log.add(i).unwrap());
        log.flush().unwrap();
        let rows = "1.000,1.250,a--b/ab,0.5000,0.125,3,4,5,6\n1.000,1.250,a--b/ab,,0.125,3,4,5,6\n";
        let header = "from_s,to_s,pipe,utilisation,queue_mean,queue_max,packets,bytes,lost\n";
        assert_eq!(text("metrics/pipes.csv"), format!("{header}{rows}"));
        assert_eq!(dir.pipe_intervals().unwrap(), intervals);
    }

    #[test]
    fn counters_are_found_by_their_names() {
        let counters = Counters::new(&NAMES, [Some(1), Some(2), None]);
        assert_eq!((counters.get("bytes"), counters.get("lost"), counters.get("drops")), (Some(2), None, None));
        assert_eq!(counters.iter().last(), Some(("lost", None)));
    }

    #[test]
    fn a_run_without_a_table_has_no_rows_and_a_bad_one_is_named() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::prepare(temp.path(), []).unwrap();
        assert_eq!((dir.pipe_totals().unwrap(), dir.port_totals().unwrap()), (vec![], vec![]));
        assert_eq!(dir.pipe_intervals().unwrap(), []);
        let wrong = |text: &str| {
            fs::write(temp.path().join("pipes.csv"), text).unwrap();
            dir.pipe_totals().unwrap_err().to_string()
        };
        let error = wrong("pipe,packets\na,1\nb,many\n");
        assert!(error.contains("pipes.csv: line 3: packets is `many`, not a count"), "{error}");
        let error = wrong("name,packets\na,1\n");
        assert!(error.contains("would have to begin with `pipe`"), "{error}");
        let error = wrong("pipe,packets\na\n");
        assert!(error.contains("each line is pipe and counters"), "{error}");
    }
}
