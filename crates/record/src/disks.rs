//! The work of the nodes' disks, virtual second by virtual second: `disks.csv`.

use std::fs::File;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::csv_log::CsvLog;
use crate::dir::Made;
use crate::error::{Error, Result};

/// The columns.
const HEADER: [&str; 14] = [
    "from_s",
    "to_s",
    "node",
    "reads",
    "writes",
    "flushes",
    "trims",
    "read_bytes",
    "written_bytes",
    "utilisation",
    "queue_mean",
    "latency_ms",
    "late",
    "late_ms",
];

/// The work of the disk of one node in a virtual second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskInterval {
    /// When it began, virtual s since t = 0; the file has it to the millisecond.
    pub from_s: f64,
    /// When it ended.
    pub to_s: f64,
    /// Whose disk it is.
    pub node: String,
    /// Reads that were answered.
    pub reads: u64,
    /// Writes that were answered.
    pub writes: u64,
    /// Flushes that were answered.
    pub flushes: u64,
    /// Ranges that were trimmed.
    pub trims: u64,
    /// Bytes of the reads.
    pub read_bytes: u64,
    /// Bytes of the writes.
    pub written_bytes: u64,
    /// The part of the time, 0 to 1, in which there was a request under way.
    pub utilisation: f64,
    /// Requests under way, on average.
    pub queue_mean: f64,
    /// How long those took that were answered, on average, virtual ms; `None` if none was.
    pub latency_ms: Option<f64>,
    /// Those of them whose data was not there when the model said so.
    pub late: u64,
    /// By how much these were late, on average, virtual ms; 0 if none was.
    pub late_ms: f64,
}

/// `disks.csv`, while the run goes on.
#[derive(Debug)]
pub struct DiskLog(CsvLog);

impl DiskLog {
    pub(crate) fn begin(made: Made) -> Result<DiskLog> {
        CsvLog::begin(made, &HEADER, &[]).map(DiskLog)
    }

    /// Adds a second of one disk.
    pub fn add(&mut self, interval: &DiskInterval) -> Result<()> {
        let DiskInterval { from_s, to_s, node, reads, writes, flushes, trims, read_bytes, written_bytes, .. } =
            interval;
        let DiskInterval { utilisation, queue_mean, latency_ms, late, late_ms, .. } = interval;
        self.0.row([
            format!("{from_s:.3}"),
            format!("{to_s:.3}"),
            node.clone(),
            reads.to_string(),
            writes.to_string(),
            flushes.to_string(),
            trims.to_string(),
            read_bytes.to_string(),
            written_bytes.to_string(),
            format!("{utilisation:.4}"),
            format!("{queue_mean:.4}"),
            latency_ms.map_or(String::new(), |ms| format!("{ms:.4}")),
            late.to_string(),
            format!("{late_ms:.4}"),
        ])
    }

    /// Writes out what has been added.
    pub fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}

pub(crate) fn parse(path: &Path, file: File) -> Result<Vec<DiskInterval>> {
    let failed = |e| Error::csv(path, "read", &HEADER.join(","), e);
    bounded::table(file).into_deserialize().map(|row| row.map_err(failed)).collect()
}

#[cfg(test)]
mod tests {
    use crate::RunDir;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::prepare(temp.path(), []).unwrap();
        assert_eq!(dir.disks().unwrap(), [], "a run whose nodes have none");
        let busy = DiskInterval {
            from_s: 1.0,
            to_s: 2.0,
            node: "db".into(),
            reads: 70,
            writes: 12,
            flushes: 4,
            trims: 0,
            read_bytes: 286_720,
            written_bytes: 65_536,
            utilisation: 0.875,
            queue_mean: 1.25,
            latency_ms: Some(12.5),
            late: 1,
            late_ms: 0.25,
        };
        let stuck = DiskInterval { reads: 0, writes: 0, flushes: 0, latency_ms: None, late: 0, ..busy.clone() };
        let mut log = dir.disk_log().unwrap();
        log.add(&busy).unwrap();
        log.add(&stuck).unwrap();
        log.flush().unwrap();
        assert_eq!(dir.disks().unwrap(), [busy, stuck]);
        let file = temp.path().join("disks.csv");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("\n1.000,2.000,db,70,12,4,0,286720,65536,0.8750,1.2500,12.5000,1,0.2500\n"), "{text}");
        std::fs::write(&file, text.replace("12.5000", "long")).unwrap();
        let error = dir.disks().unwrap_err().to_string();
        assert!(error.contains("disks.csv: ") && error.contains("line: 2"), "{error}");
    }
}
