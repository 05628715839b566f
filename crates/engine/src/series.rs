//! `metrics/pipes.csv`: what each direction of each link did, virtual second by virtual second.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use net::{Emulator, PipeInterval};
use scale::VirtualDuration;

use crate::error::{Error, Result};
use crate::rundir::RunDir;
use crate::timeline::Timeline;

/// The file in the run directory.
const FILE: &str = "metrics/pipes.csv";
/// How long an interval is.
const INTERVAL: VirtualDuration = VirtualDuration::from_nanos(1_000_000_000);
const HEADER: &str = "from_s,to_s,pipe,utilisation,queue_mean,queue_max,packets,bytes,lost,queue_drops,down_drops,\
                      too_long,red_drops,duplicated,corrupted,reordered";

/// The file, while the run goes on.
#[derive(Debug)]
pub struct PipeSeries {
    path: PathBuf,
    out: BufWriter<File>,
    /// The names of the emulator's pipes.
    pipes: Vec<String>,
    line: Timeline,
}

impl PipeSeries {
    /// Has the emulator record from virtual zero on.
    pub fn begin(emulator: &Emulator, dir: &RunDir, line: Timeline) -> Result<PipeSeries> {
        let path = dir.path().join(FILE);
        let file = File::create(&path).map_err(|e| Error::failed(format!("{}: cannot create", path.display()), e))?;
        let mut series = PipeSeries { path, out: BufWriter::new(file), pipes: emulator.pipe_names().to_vec(), line };
        let written = writeln!(series.out, "{HEADER}");
        series.check(written)?;
        emulator.start_series(line.zero, line.tdf.to_real(INTERVAL));
        Ok(series)
    }

    /// Adds intervals that have ended.
    pub fn add(&mut self, intervals: &[PipeInterval]) -> Result<()> {
        for interval in intervals {
            let row = row(interval, &self.pipes, self.line);
            let written = writeln!(self.out, "{row}");
            self.check(written)?;
        }
        Ok(())
    }

    /// Adds the last intervals, that which the end cut short included, and writes all out.
    pub fn finish(&mut self, last: &[PipeInterval]) -> Result<()> {
        self.add(last)?;
        let written = self.out.flush();
        self.check(written)
    }

    fn check(&self, written: io::Result<()>) -> Result<()> {
        written.map_err(|e| Error::failed(format!("{}: cannot write", self.path.display()), e))
    }
}

fn row(interval: &PipeInterval, pipes: &[String], line: Timeline) -> String {
    let (from, to) = (line.at(interval.from).as_secs_f64(), line.at(interval.to).as_secs_f64());
    let name = &pipes[interval.pipe.index()];
    let utilisation = interval.utilisation.map_or(String::new(), |u| format!("{u:.4}"));
    let c = &interval.grew;
    let dropped = [c.lost, c.queue_drops, c.down_drops, c.too_long, c.red_drops];
    let changed = [c.duplicated, c.corrupted, c.reordered];
    let counts: Vec<String> =
        [c.packets, c.bytes].into_iter().chain(dropped).chain(changed).map(|n| n.to_string()).collect();
    let counts = counts.join(",");
    let (mean, max) = (interval.queue_mean, interval.queue_max);
    format!("{from:.3},{to:.3},{name},{utilisation},{mean:.3},{max},{counts}")
}
