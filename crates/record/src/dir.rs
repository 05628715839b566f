//! The run directory: what its files are called, and who reads and writes them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use counters::{NodeCalls, ObservedPackets, ProgramCalls};
use host::beneath::Dir;
use scale::VirtualInstant;
use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::disks::{self, DiskInterval, DiskLog};
use crate::error::{Error, Result};
use crate::events::{Event, EventLog, EventReader};
use crate::links::{self, PipeInterval, PipeIntervalLog, PipeTotals, PortTotals};
use crate::nodes::{self, NodeInterval, NodeLog};
use crate::plan::Plan;
use crate::result::{MetricRecord, RunResult};
use crate::samples::{self, Sample};
use crate::speed::{self, SpeedInterval, SpeedLog};

const EXPERIMENT: &str = "experiment.yaml";
pub(crate) const PLAN: &str = "plan.json";
pub(crate) const RESULT: &str = "result.json";
pub(crate) const EVENTS: &str = "events.jsonl";
const PIPES: &str = "pipes.csv";
const PORTS: &str = "ports.csv";
const METRICS: &str = "metrics";
/// In [`METRICS`], so no metric may have this name.
const PIPE_INTERVALS: &str = "pipes.csv";
pub(crate) const SPEED: &str = "speed.csv";
pub(crate) const DISKS: &str = "disks.csv";
pub(crate) const NODE_INTERVALS: &str = "nodes.csv";
const NODES: &str = "nodes";
const CALLS: &str = "calls.json";
const PACKETS: &str = "packets.json";
const CAPTURES: &str = "captures";
/// A run directory of its own.
const CONFIRMATION: &str = "confirm";

/// The longest report that is read as a whole, in bytes.
const LONGEST_REPORT: u64 = 64 << 20;

/// The version of `calls.json`.
const CALLS_VERSION: u32 = 1;

/// The version of `packets.json`.
const PACKETS_VERSION: u32 = 1;

/// `packets.json`, as it is written. It is read in two steps, since what is flattened is kept in memory twice.
#[derive(Serialize)]
struct Packets {
    version: u32,
    #[serde(flatten)]
    packets: ObservedPackets,
}

/// The version of a file that has more.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// `calls.json`: a version, and [`NodeCalls`]. (Were they flattened in here, all would be in memory twice.)
#[derive(Serialize, Deserialize)]
struct Calls {
    version: u32,
    intervals_ns: Vec<VirtualInstant>,
    programs: Vec<ProgramCalls>,
    uncounted: u64,
}

/// A run directory. Nothing is read or written before it is asked for, and no symbolic link below it is followed.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
    /// Of a run that writes to it, and of who follows one: whatever becomes of the path meanwhile.
    open: Option<Dir>,
    /// Whether this run makes it, so that what is read was written by itself, however long it is.
    own: bool,
}

/// A file of a run directory that is to be written, and what it is called in errors.
pub(crate) struct Made {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
}

/// One of the two logs of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogStream {
    /// The standard output of its programs.
    Stdout,
    /// Their standard error.
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
        RunDir { path: path.into(), open: None, own: false }
    }

    /// The run directory at `path`, which must be there. It stays open: whoever moves it meanwhile changes nothing.
    pub(crate) fn opened(path: impl Into<PathBuf>) -> Result<RunDir> {
        let path = path.into();
        let open = Dir::open(&path).map_err(|e| Error::io(&path, "open", e))?;
        Ok(RunDir::of(path, open))
    }

    /// The run directory that is open, which is told of as the one at `path`.
    pub(crate) fn of(path: PathBuf, open: Dir) -> RunDir {
        RunDir { path, open: Some(open), own: false }
    }

    /// The directories in it that are named by a number and nothing else, each open if this one is: then no link leads
    /// there.
    pub(crate) fn numbered(&self) -> Result<BTreeMap<u32, RunDir>> {
        let folder = self.open()?;
        let names = folder.names().map_err(|e| Error::io(&self.path, "list", e))?;
        let mut all = BTreeMap::new();
        for name in names {
            let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            let path = self.path.join(&name);
            let found = match self.open {
                Some(_) => folder.dir(Path::new(&name)).map(|dir| RunDir::of(path.clone(), dir)),
                None => Dir::open(&path).map(|_| RunDir::at(&path)),
            };
            let dir = match found {
                Ok(dir) => dir,
                Err(e) if e.kind() == io::ErrorKind::NotADirectory => continue,
                Err(e) if self.open.is_some() => return Err(Error::io(&path, "open", e)),
                // Reading it has an error of its own.
                Err(_) => RunDir::at(&path),
            };
            all.insert(number, dir);
        }
        Ok(all)
    }

    /// The directory at `path`, made ready for a run of `nodes`. It stays open.
    pub fn prepare<'a>(path: impl Into<PathBuf>, nodes: impl IntoIterator<Item = &'a str>) -> Result<RunDir> {
        let dir = RunDir::at(path);
        let open = Dir::open_or_make(&dir.path).map_err(|e| Error::io(&dir.path, "open", e))?;
        let dir = RunDir { open: Some(open), own: true, ..dir };
        dir.make(Path::new(METRICS))?;
        for node in nodes {
            dir.make(&Path::new(NODES).join(node))?;
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

    /// Whether there is a directory.
    pub(crate) fn is_there(&self) -> bool {
        self.open().is_ok()
    }

    /// Whether a run in it has come to its end: its result is the last that it writes.
    pub fn has_result(&self) -> bool {
        self.open().is_ok_and(|dir| dir.has(Path::new(RESULT)))
    }

    /// `result.json`.
    pub fn result(&self) -> Result<RunResult> {
        if self.open.is_none() && !self.path.is_dir() {
            let what = "there is no such directory; name a run directory such as runs/NAME/scaled";
            return Err(Error::input(&self.path, what));
        }
        let dir = self.open()?;
        if !dir.has(Path::new(RESULT)) {
            let what = format!("not a finished run directory: it holds no {RESULT} (a run writes it at its end)");
            return Err(Error::input(&self.path, what));
        }
        let path = self.path.join(RESULT);
        let file = dir.read(Path::new(RESULT)).map_err(|e| Error::io(&path, "read", e))?;
        RunResult::parse(&path, &bounded::whole(&path, file, self.most(bounded::RESULT))?)
    }

    /// Writes `result.json`, whole or not at all: it is renamed into place.
    pub fn write_result(&self, result: &RunResult) -> Result<()> {
        let written = self.open()?.replace(Path::new(RESULT), result.to_json().as_bytes());
        written.map_err(|e| Error::io(&self.path.join(RESULT), "write", e))
    }

    /// `plan.json`; `None` if there is none, as in a run that was made elsewhere and came without it.
    pub fn plan(&self) -> Result<Option<Plan>> {
        let path = self.path.join(PLAN);
        let Some(file) = self.open_if_there(&path)? else { return Ok(None) };
        let text = bounded::whole(&path, file, self.most(bounded::PLAN))?;
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
        let mut all = Vec::new();
        self.each_event(|event| all.push(event))?;
        Ok(all)
    }

    /// Hands over the events one by one, for there may be a million.
    pub fn each_event(&self, mut take: impl FnMut(Event)) -> Result<()> {
        let Some(mut reader) = self.event_reader()? else { return Ok(()) };
        while let Some(event) = reader.read_next(true)? {
            take(event);
        }
        Ok(())
    }

    /// A reader of `events.jsonl` from its beginning; none of a run directory without one.
    pub fn event_reader(&self) -> Result<Option<EventReader>> {
        let path = self.path.join(EVENTS);
        Ok(self.open_if_there(&path)?.map(|file| EventReader::new(path, file)))
    }

    /// Starts `events.jsonl`, or goes on with it.
    pub fn event_log(&self) -> Result<EventLog> {
        let path = self.path.join(EVENTS);
        let file = self.open()?.append(Path::new(EVENTS)).map_err(|e| Error::io(&path, "write", e))?;
        Ok(EventLog::of(Made { path, file }))
    }

    /// The samples of a metric, in the order in which they were written.
    pub fn samples(&self, metric: &str) -> Result<Vec<Sample>> {
        let file = sample_file(metric);
        samples::each(&self.path.join(&file), self.read(&file)?).collect()
    }

    /// Hands over the samples in the file that a metric of the result names, one by one.
    pub fn each_sample_of(&self, metric: &MetricRecord, mut take: impl FnMut(&Sample)) -> Result<()> {
        let path = self.path.join(&metric.file);
        samples::each(&path, self.read(&metric.file)?).take(bounded::SAMPLES as usize).try_for_each(|sample| {
            take(&sample?);
            Ok(())
        })
    }

    /// Writes the samples of a metric, and says in which file, relative to this directory.
    pub fn write_samples(&self, metric: &str, samples: &[Sample]) -> Result<PathBuf> {
        let file = sample_file(metric);
        samples::write(self.create(&file)?, samples)?;
        Ok(file)
    }

    /// `pipes.csv`: what each direction of each link did in all; empty if there is none.
    pub fn pipe_totals(&self) -> Result<Vec<PipeTotals>> {
        let path = self.path.join(PIPES);
        self.totals(&path)?.map_or(Ok(Vec::new()), |text| links::parse_pipe_totals(&path, &text))
    }

    /// Writes `pipes.csv`. `names` are those of the counters.
    pub fn write_pipe_totals(&self, names: &[&str], totals: &[PipeTotals]) -> Result<()> {
        links::write_pipe_totals(self.create(Path::new(PIPES))?, names, totals)
    }

    /// `ports.csv`: what each interface of each node did in all; empty if there is none.
    pub fn port_totals(&self) -> Result<Vec<PortTotals>> {
        let path = self.path.join(PORTS);
        self.totals(&path)?.map_or(Ok(Vec::new()), |text| links::parse_port_totals(&path, &text))
    }

    /// Writes `ports.csv`. `names` are those of the counters.
    pub fn write_port_totals(&self, names: &[&str], totals: &[PortTotals]) -> Result<()> {
        links::write_port_totals(self.create(Path::new(PORTS))?, names, totals)
    }

    /// `metrics/pipes.csv`: what each direction of each link did, virtual second by virtual second; empty if there is
    /// none.
    pub fn pipe_intervals(&self) -> Result<Vec<PipeInterval>> {
        let path = self.path.join(RunDir::pipe_interval_file());
        self.open_if_there(&path)?.map_or(Ok(Vec::new()), |file| links::parse_pipe_intervals(&path, file))
    }

    /// Starts `metrics/pipes.csv`. `names` are those of the counters.
    pub fn pipe_interval_log(&self, names: &[&str]) -> Result<PipeIntervalLog> {
        PipeIntervalLog::begin(self.create(&RunDir::pipe_interval_file())?, names)
    }

    /// Where the intervals are, relative to this directory: `metrics/pipes.csv`.
    pub fn pipe_interval_file() -> PathBuf {
        Path::new(METRICS).join(PIPE_INTERVALS)
    }

    /// `speed.csv`: how fast the nodes' core was, virtual second by virtual second; empty if there is none.
    pub fn speed(&self) -> Result<Vec<SpeedInterval>> {
        let path = self.path.join(SPEED);
        self.open_if_there(&path)?.map_or(Ok(Vec::new()), |file| speed::parse(&path, file))
    }

    /// Starts `speed.csv`.
    pub fn speed_log(&self) -> Result<SpeedLog> {
        SpeedLog::begin(self.create(Path::new(SPEED))?)
    }

    /// `disks.csv`: what the nodes' disks did, virtual second by virtual second; empty if there is none.
    pub fn disks(&self) -> Result<Vec<DiskInterval>> {
        let path = self.path.join(DISKS);
        self.open_if_there(&path)?.map_or(Ok(Vec::new()), |file| disks::parse(&path, file))
    }

    /// Starts `disks.csv`.
    pub fn disk_log(&self) -> Result<DiskLog> {
        DiskLog::begin(self.create(Path::new(DISKS))?)
    }

    /// `nodes.csv`: what the nodes used of their machines, interval by interval, in the order of time; nothing, if
    /// there is none.
    pub fn each_node_interval(&self, take: impl FnMut(&NodeInterval) -> Result<(), String>) -> Result<()> {
        let path = self.path.join(NODE_INTERVALS);
        self.open_if_there(&path)?.map_or(Ok(()), |file| nodes::each(&path, file, take))
    }

    /// Starts `nodes.csv`, of which at most so many bytes are kept.
    pub fn node_log(&self, limit: u64) -> Result<NodeLog> {
        let Made { path, file } = self.create(Path::new(NODE_INTERVALS))?;
        Ok(NodeLog::begin(path, file, limit))
    }

    /// The system calls of a node's programs, `nodes/NODE/calls.json`; `None` if they were not counted.
    pub fn calls(&self, node: &str) -> Result<Option<NodeCalls>> {
        Ok(self.calls_within(node, bounded::CALLS)?.map(|(calls, _)| calls))
    }

    /// Likewise, of a file of at most so many bytes, and how many it has.
    pub(crate) fn calls_within(&self, node: &str, most: u64) -> Result<Option<(NodeCalls, u64)>> {
        let path = self.path.join(calls_file(node));
        let Some(file) = self.open_if_there(&path)? else { return Ok(None) };
        let text = bounded::up_to(&path, file, most)?.ok_or_else(|| {
            let most = bounded::CALLS >> 20;
            Error::input(
                &path,
                format!("with these, the run's system calls are longer than {most} MiB: count those of fewer nodes"),
            )
        })?;
        let Calls { version, intervals_ns, programs, uncounted } = serde_json::from_slice(&text).map_err(|e| {
            Error::input(&path, format!("system calls cannot be read: {e}: a run of diorama writes them"))
        })?;
        match version {
            CALLS_VERSION => Ok(Some((NodeCalls { intervals_ns, programs, uncounted }, text.len() as u64))),
            other => {
                let what = format!("calls of version {other}, and this diorama reads {CALLS_VERSION}: run it again");
                Err(Error::input(&path, what))
            }
        }
    }

    /// Writes them.
    pub fn write_calls(&self, node: &str, calls: NodeCalls) -> Result<()> {
        let NodeCalls { intervals_ns, programs, uncounted } = calls;
        let calls = Calls { version: CALLS_VERSION, intervals_ns, programs, uncounted };
        let text = serde_json::to_string(&calls).expect("maps with text for keys, and numbers");
        self.write(&calls_file(node).to_string_lossy(), text + "\n").map(|_| ())
    }

    /// The packets of nodes, flow by flow, `packets.json`; `None` if they were not counted.
    pub fn packets(&self) -> Result<Option<ObservedPackets>> {
        let path = self.path.join(PACKETS);
        let Some(file) = self.open_if_there(&path)? else { return Ok(None) };
        let text = bounded::whole(&path, file, bounded::PACKETS)?;
        let wrong = |e| Error::input(&path, format!("packets cannot be read: {e}: a run of diorama writes them"));
        match serde_json::from_slice::<Version>(&text).map_err(wrong)?.version {
            PACKETS_VERSION => Ok(Some(serde_json::from_slice(&text).map_err(wrong)?)),
            other => {
                let what =
                    format!("packets of version {other}, and this diorama reads {PACKETS_VERSION}: run it again");
                Err(Error::input(&path, what))
            }
        }
    }

    /// Writes them.
    pub fn write_packets(&self, packets: ObservedPackets) -> Result<()> {
        let packets = Packets { version: PACKETS_VERSION, packets };
        let text = serde_json::to_string(&packets).expect("maps with text for keys, and numbers");
        self.write(PACKETS, text + "\n").map(|_| ())
    }

    /// The nodes that have logs, in the order of their names.
    pub fn logged_nodes(&self) -> Result<Vec<String>> {
        let not_a_run = |e: io::Error| Error::input(&self.path, format!("not a run directory: {e}"));
        let entries = self.open()?.dir(Path::new(NODES)).and_then(|dir| dir.names()).map_err(not_a_run)?;
        let mut names: Vec<_> = entries.into_iter().filter_map(|name| name.into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// Whether nodes have logs here: of a directory that is no run's, no.
    pub fn has_logs(&self) -> bool {
        self.open().is_ok_and(|dir| dir.has_directory(Path::new(NODES)))
    }

    /// Where a node's log is: `nodes/NODE/stdout.log` or `stderr.log`.
    pub fn log(&self, node: &str, stream: LogStream) -> PathBuf {
        self.path.join(log_file(node, stream))
    }

    /// Opens a node's log, to read it.
    pub fn read_log(&self, node: &str, stream: LogStream) -> io::Result<File> {
        self.open().map_err(io::Error::other)?.read(&log_file(node, stream))
    }

    /// Makes a node's log, to be written and read.
    pub(crate) fn make_log(&self, node: &str, stream: LogStream) -> Result<File> {
        Ok(self.create(&log_file(node, stream))?.file)
    }

    /// Makes a file that is to take the place of a node's log.
    pub(crate) fn part_of_log(&self, node: &str, stream: LogStream) -> io::Result<File> {
        self.open().map_err(io::Error::other)?.create(&part_of(&log_file(node, stream)))
    }

    /// Puts it there.
    pub(crate) fn place_log(&self, node: &str, stream: LogStream) -> io::Result<()> {
        let log = log_file(node, stream);
        self.open().map_err(io::Error::other)?.rename(&part_of(&log), &log)
    }

    /// Makes the directory of the captures.
    pub fn make_captures(&self) -> Result<()> {
        self.make(Path::new(CAPTURES))
    }

    /// Makes the file of a link's capture, in [its place](RunDir::capture_file).
    pub fn make_capture(&self, link: &str) -> Result<File> {
        Ok(self.create(&RunDir::capture_file(link))?.file)
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

    /// `report.html`, if it is no longer than a browser would like.
    pub fn report(&self) -> Result<Vec<u8>> {
        let path = self.path.join(RunDir::REPORT);
        let mut page = Vec::new();
        let file = self.read(Path::new(RunDir::REPORT))?;
        let read = file.take(LONGEST_REPORT + 1).read_to_end(&mut page);
        match read.map_err(|e| Error::io(&path, "read", e))? as u64 {
            0..=LONGEST_REPORT => Ok(page),
            _ => Err(Error::input(&path, format!("longer than {} MiB: open the file itself", LONGEST_REPORT >> 20))),
        }
    }

    fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> Result<PathBuf> {
        let Made { path, mut file } = self.create(Path::new(name))?;
        file.write_all(contents.as_ref()).map_err(|e| Error::io(&path, "write", e))?;
        Ok(path)
    }

    /// Opens a file of it for reading, by its path relative to it.
    pub(crate) fn read(&self, name: &Path) -> Result<File> {
        self.open()?.read(name).map_err(|e| Error::io(&self.path.join(name), "read", e))
    }

    /// Makes a file in the place of an earlier one.
    fn create(&self, name: &Path) -> Result<Made> {
        let path = self.path.join(name);
        let file = self.open()?.create(name).map_err(|e| Error::io(&path, "create", e))?;
        Ok(Made { path, file })
    }

    fn make(&self, name: &Path) -> Result<()> {
        let made = self.open()?.make(name);
        made.map(drop).map_err(|e| Error::io(&self.path.join(name), "create", e))
    }

    fn open(&self) -> Result<Dir> {
        match &self.open {
            Some(dir) => Ok(dir.clone()),
            None => Dir::open(&self.path).map_err(|e| Error::io(&self.path, "open", e)),
        }
    }

    /// The content of a table of what links or interfaces did in all.
    fn totals(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        self.open_if_there(path)?.map(|file| bounded::whole(path, file, bounded::TOTALS)).transpose()
    }

    /// A bound on what others wrote; none of what this run writes itself.
    pub(crate) fn most(&self, bound: u64) -> u64 {
        if self.own { u64::MAX - 1 } else { bound }
    }

    /// Opens the file `path`, which is below this directory, to read it.
    fn open_if_there(&self, path: &Path) -> Result<Option<File>> {
        let failed = |e| Error::io(path, "read", e);
        let name = path.strip_prefix(&self.path).map_err(|e| failed(io::Error::other(e)))?;
        match self.open()?.read(name) {
            Ok(file) => Ok(Some(file)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed(e)),
        }
    }
}

/// Relative to the run directory.
fn sample_file(metric: &str) -> PathBuf {
    Path::new(METRICS).join(format!("{metric}.csv"))
}

/// Likewise.
fn log_file(node: &str, stream: LogStream) -> PathBuf {
    Path::new(NODES).join(node).join(stream.file())
}

fn calls_file(node: &str) -> PathBuf {
    Path::new(NODES).join(node).join(CALLS)
}

/// Where a file is while it is made.
fn part_of(file: &Path) -> PathBuf {
    file.with_extension("part")
}
