//! The run directory while its run writes to it.

use std::path::{Path, PathBuf};

use record::{Event, EventLog};
use scale::RealInstant;

use crate::error::Result;
use crate::timeline::Timeline;

/// A run directory being written.
#[derive(Debug)]
pub struct RunDir {
    files: record::RunDir,
    /// What happened, line by line.
    events: EventLog,
}

impl RunDir {
    /// Starts to write the directory `path`, which exists, with a log directory for each of `nodes`.
    pub fn open<'a>(path: PathBuf, nodes: impl IntoIterator<Item = &'a str>) -> Result<RunDir> {
        let files = record::RunDir::prepare(path, nodes)?;
        let events = files.event_log()?;
        Ok(RunDir { files, events })
    }

    /// Its files.
    pub fn files(&self) -> &record::RunDir {
        &self.files
    }

    /// Where the directory is, absolute.
    pub fn path(&self) -> &Path {
        self.files.path()
    }

    /// Records what happened at a real instant, to the node or link `target`. A line that cannot be written must not stop a run
    /// in its middle: the results, written at its end, will tell.
    pub fn record(
        &mut self,
        line: Timeline,
        real: RealInstant,
        event: &str,
        target: Option<String>,
        detail: serde_json::Value,
    ) {
        let _ = self.events.write(&Event {
            virtual_s: Some(line.at(real).as_secs_f64()),
            real_s: real.since(line.zero).as_secs_f64(),
            event: event.into(),
            target,
            detail,
        });
    }
}
