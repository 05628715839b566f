//! What each direction of each link did, virtual second by virtual second.

use net::{Emulator, PipeCounters, PipeInterval};
use record::{Counters, PipeIntervalLog};
use scale::VirtualDuration;

use crate::error::Result;
use crate::rundir::RunDir;
use crate::timeline::Timeline;

/// How long an interval is.
const INTERVAL: VirtualDuration = VirtualDuration::from_nanos(1_000_000_000);

/// The counters of a pipe, as the files of a run name them.
pub const PIPE_COUNTERS: [&str; 10] = [
    "packets",
    "bytes",
    "lost",
    "queue_drops",
    "down_drops",
    "too_long",
    "red_drops",
    "duplicated",
    "corrupted",
    "reordered",
];

/// Their values, in the same order.
pub fn pipe_counters(c: &PipeCounters) -> Counters {
    let dropped = [c.lost, c.queue_drops, c.down_drops, c.too_long, c.red_drops];
    let altered = [c.duplicated, c.corrupted, c.reordered];
    Counters::new(&PIPE_COUNTERS, [c.packets, c.bytes].into_iter().chain(dropped).chain(altered))
}

/// The file of the intervals, while the run goes on.
#[derive(Debug)]
pub struct PipeSeries {
    log: PipeIntervalLog,
    /// The names of the emulator's pipes.
    pipes: Vec<String>,
    line: Timeline,
}

impl PipeSeries {
    /// Has the emulator record from virtual zero on.
    pub fn begin(emulator: &Emulator, dir: &RunDir, line: Timeline) -> Result<PipeSeries> {
        let log = dir.files().pipe_interval_log(&PIPE_COUNTERS)?;
        emulator.start_series(line.zero, line.tdf.to_real(INTERVAL));
        Ok(PipeSeries { log, pipes: emulator.pipe_names().to_vec(), line })
    }

    /// Adds intervals that have ended.
    pub fn add(&mut self, intervals: &[PipeInterval]) -> Result<()> {
        for interval in intervals {
            self.log.add(&record::PipeInterval {
                from_s: self.line.at(interval.from).as_secs_f64(),
                to_s: self.line.at(interval.to).as_secs_f64(),
                pipe: self.pipes[interval.pipe.index()].clone(),
                utilisation: interval.utilisation,
                queue_mean: interval.queue_mean,
                queue_max: interval.queue_max as u64,
                counters: pipe_counters(&interval.grew),
            })?;
        }
        Ok(())
    }

    /// Adds the last intervals, that which the end cut short included, and writes all out.
    pub fn finish(&mut self, last: &[PipeInterval]) -> Result<()> {
        self.add(last)?;
        Ok(self.log.flush()?)
    }
}
