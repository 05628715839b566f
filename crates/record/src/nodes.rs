//! How much nodes used of their machines, interval by interval: `nodes.csv`.
//!
//! Rows are written by whoever reads the counters, at instants of virtual time, so that adding one allocates nothing.
//! The file stays within a size: whenever half of what was left of that is used, intervals become twice as long.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use csv::StringRecord;
use serde::Deserialize;

use crate::bounded;
use crate::error::{Error, Result};

/// The columns.
const HEADER: [&str; 13] = [
    "from_s",
    "to_s",
    "node",
    "cpus",
    "memory_bytes",
    "reads",
    "read_bytes",
    "writes",
    "written_bytes",
    "packets_in",
    "bytes_in",
    "packets_out",
    "bytes_out",
];

/// The most bytes of it that are kept.
pub const MOST_OF_NODES: u64 = 128 << 20;
/// Rows are written out as soon as so many bytes of them have come together.
const BUFFER: usize = 64 << 10;
/// More than a row has, in bytes: numbers of at most 20 digits, and a name of at most 63 letters.
const ROW: usize = 512;

/// Usage of a node in an interval of virtual time. One of which something cannot be told has nothing there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct NodeInterval<'a> {
    /// When it began, virtual s since t = 0; the file has it to the microsecond.
    pub from_s: f64,
    /// When it ended.
    pub to_s: f64,
    /// The node.
    pub node: &'a str,
    /// How many of its CPUs were at work, on average.
    pub cpus: Option<f64>,
    /// The memory that it had at the end, page cache included.
    pub memory_bytes: Option<u64>,
    /// Reads of its disk that have ended; `None` without a disk.
    pub reads: Option<u64>,
    /// Bytes of these.
    pub read_bytes: Option<u64>,
    /// Writes to its disk that have ended.
    pub writes: Option<u64>,
    /// Bytes of these.
    pub written_bytes: Option<u64>,
    /// Packets that reached it, over all its interfaces.
    pub packets_in: u64,
    /// Bytes of these, as links count them.
    pub bytes_in: u64,
    /// Packets that it sent.
    pub packets_out: u64,
    /// Bytes of these.
    pub bytes_out: u64,
}

/// `nodes.csv`, while the run goes on.
#[derive(Debug)]
pub struct NodeLog {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    /// Bytes so far, and the most.
    length: u64,
    limit: u64,
    /// How many times as long intervals are now, and from which length on that is doubled.
    coarser: u32,
    doubles_at: u64,
}

impl NodeLog {
    /// Begins it in a file, of which at most so many bytes are kept; `path` is what that is called in errors.
    pub fn begin(path: impl Into<PathBuf>, file: File, limit: u64) -> NodeLog {
        let mut buffer = Vec::with_capacity(BUFFER + ROW);
        buffer.extend_from_slice(HEADER.join(",").as_bytes());
        buffer.push(b'\n');
        let length = buffer.len() as u64;
        NodeLog { path: path.into(), file, buffer, length, limit, coarser: 1, doubles_at: limit / 2 }
    }

    /// Adds an interval of a node. Whether there was room for it: if not, there is none for more.
    pub fn add(&mut self, interval: &NodeInterval) -> Result<bool> {
        let NodeInterval { from_s, to_s, node, cpus, memory_bytes, reads, read_bytes, writes, written_bytes, .. } =
            *interval;
        let NodeInterval { packets_in, bytes_in, packets_out, bytes_out, .. } = *interval;
        if self.length + ROW as u64 > self.limit {
            return Ok(false);
        }
        let before = self.buffer.len();
        let row = &mut self.buffer;
        let written = write!(row, "{from_s:.6},{to_s:.6},{node},").and_then(|()| {
            cpus.map_or(Ok(()), |cpus| write!(row, "{cpus:.4}"))?;
            for cell in [memory_bytes, reads, read_bytes, writes, written_bytes] {
                match cell {
                    Some(cell) => write!(row, ",{cell}")?,
                    None => write!(row, ",")?,
                }
            }
            writeln!(row, ",{packets_in},{bytes_in},{packets_out},{bytes_out}")
        });
        written.map_err(|e| self.failed(e))?;
        self.length += (self.buffer.len() - before) as u64;
        if self.length >= self.doubles_at {
            self.coarser = self.coarser.saturating_mul(2);
            self.doubles_at += (self.limit - self.doubles_at) / 2;
        }
        if self.buffer.len() >= BUFFER { self.flush().map(|()| true) } else { Ok(true) }
    }

    /// How many times as long intervals are to be from now on as they were to be at first.
    pub fn coarser(&self) -> u32 {
        self.coarser
    }

    /// Writes out what has been added.
    pub fn flush(&mut self) -> Result<()> {
        let written = self.file.write_all(&self.buffer);
        self.buffer.clear();
        written.map_err(|e| self.failed(e))
    }

    fn failed(&self, e: io::Error) -> Error {
        Error::io(&self.path, "write", e)
    }
}

/// Reads the rows one by one, for there may be a million; `take` says what is wrong with one.
pub(crate) fn each(path: &Path, file: File, mut take: impl FnMut(&NodeInterval) -> Result<(), String>) -> Result<()> {
    let failed = |e| Error::csv(path, "read", &HEADER.join(","), e);
    let mut reader = bounded::table(file);
    let head = reader.headers().map_err(failed)?.clone();
    let mut row = StringRecord::new();
    while reader.read_record(&mut row).map_err(failed)? {
        let line = row.position().map_or(0, csv::Position::line);
        let taken = take(&row.deserialize(Some(&head)).map_err(failed)?);
        taken.map_err(|what| Error::input(path, format!("line {line}: {what}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use crate::RunDir;

    use super::*;

    fn interval(from_s: f64, node: &str) -> NodeInterval<'_> {
        NodeInterval {
            from_s,
            to_s: from_s + 0.001,
            node,
            cpus: Some(0.5),
            memory_bytes: Some(50_000_000),
            packets_in: 3,
            bytes_in: 294,
            ..NodeInterval::default()
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::prepare(temp.path(), []).unwrap();
        let mut met = 0;
        dir.each_node_interval(|_| {
            met += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(met, 0, "a run of an earlier version");
        let disk = [Some(7), Some(28_672), Some(2), Some(8_192)];
        let [reads, read_bytes, writes, written_bytes] = disk;
        let busy = NodeInterval { reads, read_bytes, writes, written_bytes, ..interval(0.25, "db") };
        let unknown = NodeInterval { cpus: None, memory_bytes: None, ..interval(0.25, "web-1") };
        let mut log = dir.node_log(1 << 20).unwrap();
        assert!(log.add(&busy).unwrap() && log.add(&unknown).unwrap());
        log.flush().unwrap();
        let mut read = vec![busy, unknown].into_iter();
        dir.each_node_interval(|row| {
            assert_eq!(Some(*row), read.next());
            Ok(())
        })
        .unwrap();
        assert_eq!(read.next(), None);
        let file = temp.path().join("nodes.csv");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("\n0.250000,0.251000,db,0.5000,50000000,7,28672,2,8192,3,294,0,0\n"), "{text}");
        assert!(text.ends_with("\n0.250000,0.251000,web-1,,,,,,,3,294,0,0\n"), "{text}");
        std::fs::write(&file, text.replace("0.5000", "half")).unwrap();
        let error = dir.each_node_interval(|_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("nodes.csv: ") && error.contains("line: 2"), "{error}");
    }

    #[test]
    fn a_long_series_becomes_coarser_and_stays_within_its_size() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::prepare(temp.path(), []).unwrap();
        let (limit, mut log, mut changes) = (1 << 16, dir.node_log(1 << 16).unwrap(), Vec::new());
        let mut rows = 0;
        while log.add(&interval(0.001 * f64::from(rows), "n")).unwrap() {
            rows += 1;
            if changes.last().is_none_or(|(_, coarser)| *coarser != log.coarser()) {
                changes.push((rows, log.coarser()));
            }
        }
        log.flush().unwrap();
        let length = std::fs::metadata(temp.path().join("nodes.csv")).unwrap().len();
        assert!(length <= limit && length > limit - 2 * ROW as u64, "{length}");
        let factors: Vec<u32> = changes.iter().map(|(_, coarser)| *coarser).collect();
        assert_eq!(factors[..6], [1, 2, 4, 8, 16, 32]);
        // Each time after half of what was left.
        let [_, half, three_quarters, ..] = changes[..] else { panic!("{changes:?}") };
        let ratio = f64::from(three_quarters.0) / f64::from(half.0);
        assert!((ratio - 1.5).abs() < 0.02, "{changes:?}");
    }

    #[test]
    fn a_disk_that_is_full_is_told_and_not_tried_again_with_the_same_rows() {
        let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut log = NodeLog::begin("nodes.csv", file, 1 << 20);
        let added = (0..2_000).map(|n| log.add(&interval(f64::from(n), "n"))).find(Result::is_err);
        let error = added.unwrap().unwrap_err().to_string();
        assert!(error.contains("nodes.csv") && error.contains("No space left"), "{error}");
        assert!(log.buffer.is_empty());
    }
}
