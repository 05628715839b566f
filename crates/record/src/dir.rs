//! The run directory: what its files are called, and who reads and writes them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::disks::{self, DiskInterval, DiskLog};
use crate::error::{Error, Result};
use crate::events::{self, Event, EventLog};
use crate::links::{self, PipeInterval, PipeIntervalLog, PipeTotals, PortTotals};
use crate::plan::Plan;
use crate::result::RunResult;
use crate::samples::{self, Sample};
use crate::speed::{self, SpeedInterval, SpeedLog};

const EXPERIMENT: &str = "experiment.yaml";
const PLAN: &str = "plan.json";
pub(crate) const RESULT: &str = "result.json";
const EVENTS: &str = "events.jsonl";
const PIPES: &str = "pipes.csv";
const PORTS: &str = "ports.csv";
const METRICS: &str = "metrics";
/// In [`METRICS`], so no metric may have this name.
const PIPE_INTERVALS: &str = "pipes.csv";
const SPEED: &str = "speed.csv";
const DISKS: &str = "disks.csv";
const NODES: &str = "nodes";
const CAPTURES: &str = "captures";
/// A run directory of its own.
const CONFIRMATION: &str = "confirm";

/// A run directory, by its path. Nothing is read or written before it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

/// One of the two logs of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogStream {
    /// What its programs wrote to standard output.
    Stdout,
    /// What they wrote to standard error.
    Stderr,
}

impl LogStream {
    /// Both of them.
    pub const ALL: [LogStream; 2] = [LogStream::Stdout, LogStream::Stderr];

    fn file(self) -> &'static str {
        match self {
            LogStream::Stdout => "stdout.log",
            LogStream::Stderr => "stderr.log",
        }
    }
}

impl RunDir {
    /// The page that describes the run, in its directory.
    pub const REPORT: &str = "report.html";

    /// The run directory at `path`, whether it exists or not.
    pub fn at(path: impl Into<PathBuf>) -> RunDir {
        RunDir { path: path.into() }
    }

    /// The directory at `path`, which exists, made ready for a run of `nodes`.
    pub fn prepare<'a>(path: impl Into<PathBuf>, nodes: impl IntoIterator<Item = &'a str>) -> Result<RunDir> {
        let dir = RunDir::at(path);
        make(&dir.path.join(METRICS))?;
        for node in nodes {
            make(&dir.path.join(NODES).join(node))?;
        }
        Ok(dir)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the second run of `diorama run --confirm` goes: `confirm`, a run directory inside this one.
    pub fn confirmation(&self) -> RunDir {
        RunDir::at(self.path.join(CONFIRMATION))
    }

    /// Whether a run in it has come to its end: its result is the last that it writes.
    pub fn has_result(&self) -> bool {
        self.path.join(RESULT).exists()
    }

    /// `result.json`.
    pub fn result(&self) -> Result<RunResult> {
        if !self.path.is_dir() {
            let what = "there is no such directory; name a run directory such as runs/NAME/scaled";
            return Err(Error::input(&self.path, what));
        }
        if !self.has_result() {
            let what = format!("not a finished run directory: it holds no {RESULT} (a run writes it at its end)");
            return Err(Error::input(&self.path, what));
        }
        let path = self.path.join(RESULT);
        RunResult::parse(&path, &fs::read_to_string(&path).map_err(|e| Error::io(&path, "read", e))?)
    }

    /// Writes `result.json`, whole or not at all: it is renamed into place.
    pub fn write_result(&self, result: &RunResult) -> Result<()> {
        let path = self.path.join(RESULT);
        let part = self.path.join(format!(".{RESULT}.part"));
        let written = File::create(&part).and_then(|mut file| file.write_all(result.to_json().as_bytes()));
        written.and_then(|()| fs::rename(&part, &path)).map_err(|e| Error::io(&path, "write", e))
    }

    /// `plan.json`; `None` if there is none, as in a run that was made elsewhere and came without it.
    pub fn plan(&self) -> Result<Option<Plan>> {
        let path = self.path.join(PLAN);
        let Some(text) = read_if_there(&path)? else { return Ok(None) };
        serde_json::from_slice(&text).map(Some).map_err(|e| Error::input(&path, format!("not a plan: {e}")))
    }

    /// Writes `plan.json`.
    pub fn write_plan(&self, plan: &Plan) -> Result<()> {
        self.write(PLAN, plan.to_json() + "\n").map(|_| ())
    }

    /// Writes `experiment.yaml`: the experiment as it was resolved.
    pub fn write_experiment(&self, resolved: &str) -> Result<()> {
        self.write(EXPERIMENT, resolved).map(|_| ())
    }

    /// `events.jsonl`; a run directory without one has no events.
    pub fn events(&self) -> Result<Vec<Event>> {
        let path = self.path.join(EVENTS);
        read_if_there(&path)?.map_or(Ok(Vec::new()), |text| events::parse(&path, &text))
    }

    /// Starts `events.jsonl`, or goes on with it.
    pub fn event_log(&self) -> Result<EventLog> {
        EventLog::open(self.path.join(EVENTS))
    }

    /// The samples of a metric, in the order in which they were written.
    pub fn samples(&self, metric: &str) -> Result<Vec<Sample>> {
        samples::read(&self.path.join(sample_file(metric)))
    }

    /// Writes the samples of a metric, and says in which file, relative to this directory.
    pub fn write_samples(&self, metric: &str, samples: &[Sample]) -> Result<PathBuf> {
        let file = sample_file(metric);
        samples::write(&self.path.join(&file), samples)?;
        Ok(file)
    }

    /// `pipes.csv`: what each direction of each link did in all; empty if there is none.
    pub fn pipe_totals(&self) -> Result<Vec<PipeTotals>> {
        let path = self.path.join(PIPES);
        read_if_there(&path)?.map_or(Ok(Vec::new()), |text| links::parse_pipe_totals(&path, &text))
    }

    /// Writes `pipes.csv`. `names` are those of the counters.
    pub fn write_pipe_totals(&self, names: &[&str], totals: &[PipeTotals]) -> Result<()> {
        links::write_pipe_totals(&self.path.join(PIPES), names, totals)
    }

    /// `ports.csv`: what each interface of each node did in all; empty if there is none.
    pub fn port_totals(&self) -> Result<Vec<PortTotals>> {
        let path = self.path.join(PORTS);
        read_if_there(&path)?.map_or(Ok(Vec::new()), |text| links::parse_port_totals(&path, &text))
    }

    /// Writes `ports.csv`. `names` are those of the counters.
    pub fn write_port_totals(&self, names: &[&str], totals: &[PortTotals]) -> Result<()> {
        links::write_port_totals(&self.path.join(PORTS), names, totals)
    }

    /// `metrics/pipes.csv`: what each direction of each link did, virtual second by virtual second; empty if there is
    /// none.
    pub fn pipe_intervals(&self) -> Result<Vec<PipeInterval>> {
        let path = self.path.join(RunDir::pipe_interval_file());
        read_if_there(&path)?.map_or(Ok(Vec::new()), |text| links::parse_pipe_intervals(&path, &text))
    }

    /// Starts `metrics/pipes.csv`. `names` are those of the counters.
    pub fn pipe_interval_log(&self, names: &[&str]) -> Result<PipeIntervalLog> {
        PipeIntervalLog::create(self.path.join(RunDir::pipe_interval_file()), names)
    }

    /// Where the intervals are, relative to this directory: `metrics/pipes.csv`.
    pub fn pipe_interval_file() -> PathBuf {
        Path::new(METRICS).join(PIPE_INTERVALS)
    }

    /// `speed.csv`: how fast the nodes' core was, virtual second by virtual second; empty if there is none.
    pub fn speed(&self) -> Result<Vec<SpeedInterval>> {
        let path = self.path.join(SPEED);
        read_if_there(&path)?.map_or(Ok(Vec::new()), |text| speed::parse(&path, &text))
    }

    /// Starts `speed.csv`.
    pub fn speed_log(&self) -> Result<SpeedLog> {
        SpeedLog::create(self.path.join(SPEED))
    }

    /// `disks.csv`: what the nodes' disks did, virtual second by virtual second; empty if there is none.
    pub fn disks(&self) -> Result<Vec<DiskInterval>> {
        let path = self.path.join(DISKS);
        read_if_there(&path)?.map_or(Ok(Vec::new()), |text| disks::parse(&path, &text))
    }

    /// Starts `disks.csv`.
    pub fn disk_log(&self) -> Result<DiskLog> {
        DiskLog::create(self.path.join(DISKS))
    }

    /// The nodes that have logs, in the order of their names.
    pub fn logged_nodes(&self) -> Result<Vec<String>> {
        let path = self.path.join(NODES);
        let not_a_run = |e: io::Error| Error::input(&self.path, format!("not a run directory: {e}"));
        let entries = fs::read_dir(&path).map_err(not_a_run)?;
        let mut names: Vec<_> = entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// Whether nodes have logs here: of a directory that is no run's, no.
    pub fn has_logs(&self) -> bool {
        self.path.join(NODES).is_dir()
    }

    /// Where a node's log is: `nodes/NODE/stdout.log` or `stderr.log`.
    pub fn log(&self, node: &str, stream: LogStream) -> PathBuf {
        self.path.join(NODES).join(node).join(stream.file())
    }

    /// Opens a node's log to append to, so that a node that is started again goes on where it was.
    pub fn append_log(&self, node: &str, stream: LogStream) -> Result<File> {
        let path = self.log(node, stream);
        File::options().create(true).append(true).open(&path).map_err(|e| Error::io(&path, "open", e))
    }

    /// Makes the directory of the captures.
    pub fn make_captures(&self) -> Result<()> {
        make(&self.path.join(CAPTURES))
    }

    /// Where a link's capture is, relative to this directory: `captures/LINK.pcapng`. Names of nodes and switches are
    /// labels, so a link's name is fit for a file.
    pub fn capture_file(link: &str) -> PathBuf {
        Path::new(CAPTURES).join(format!("{link}.pcapng"))
    }

    /// Writes `report.html`, and says where.
    pub fn write_report(&self, html: &str) -> Result<PathBuf> {
        self.write(RunDir::REPORT, html)
    }

    fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::write(&path, contents).map_err(|e| Error::io(&path, "write", e))?;
        Ok(path)
    }
}

/// Relative to the run directory.
fn sample_file(metric: &str) -> PathBuf {
    Path::new(METRICS).join(format!("{metric}.csv"))
}

fn make(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|e| Error::io(path, "create", e))
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(path, "read", e)),
    }
}
