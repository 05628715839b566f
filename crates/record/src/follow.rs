//! Files of a run directory that grow, for who looks at a live run: each is read from where it was.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csv::StringRecord;

use crate::dir::{DISKS, EVENTS, NODE_INTERVALS, RunDir, SPEED};
use crate::disks::DiskInterval;
use crate::error::{Error, Result};
use crate::events::Event;
use crate::links::{self, PipeInterval};
use crate::nodes::NodeInterval;
use crate::speed::SpeedInterval;

/// The most that is read of a file at once, in bytes. Of more, only the end is read, for what it was before is of no
/// interest to who looks at a run; a line without end is given up at this length.
const PIECE: u64 = 1 << 20;
/// The longest line of names.
const LONGEST_HEADER: usize = 1 << 14;

/// The growing files of a run directory. Lines that are none are counted and left out; files need not be there yet.
#[derive(Debug)]
pub struct Following {
    dir: RunDir,
    events: Growing,
    nodes: Growing,
    pipes: Growing,
    disks: Growing,
    speed: Growing,
}

impl Following {
    /// Follows a run in a directory that is there. It stays open: whoever moves it changes nothing.
    pub fn of(path: impl Into<PathBuf>) -> Result<Following> {
        Ok(Following {
            dir: RunDir::opened(path)?,
            events: Growing::lines(EVENTS),
            nodes: Growing::table(NODE_INTERVALS),
            pipes: Growing::table(RunDir::pipe_interval_file()),
            disks: Growing::table(DISKS),
            speed: Growing::table(SPEED),
        })
    }

    /// The directory.
    pub fn dir(&self) -> &RunDir {
        &self.dir
    }

    /// How many lines were not what they had to be.
    pub fn bad_lines(&self) -> u64 {
        [&self.events, &self.nodes, &self.pipes, &self.disks, &self.speed].iter().map(|file| file.bad).sum()
    }

    /// Events that are new in `events.jsonl`.
    pub fn events(&mut self, mut take: impl FnMut(Event)) -> Result<()> {
        let piece = self.events.read(&self.dir)?;
        for line in piece.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(event) => take(event),
                Err(_) => self.events.bad += 1,
            }
        }
        Ok(())
    }

    /// Rows that are new in `nodes.csv`.
    pub fn nodes(&mut self, mut take: impl FnMut(&NodeInterval)) -> Result<()> {
        self.nodes.rows(&self.dir, |row, names| row.deserialize(Some(names)).map(|row| take(&row)).is_ok())
    }

    /// Rows that are new in `metrics/pipes.csv`.
    pub fn pipes(&mut self, mut take: impl FnMut(PipeInterval)) -> Result<()> {
        let mut counters: Option<Arc<[String]>> = None;
        self.pipes.rows(&self.dir, |row, names| {
            if counters.is_none() {
                counters = links::counters_of_intervals(names).ok();
            }
            let read = counters.as_ref().and_then(|names| links::pipe_interval(row, names).ok());
            read.map(&mut take).is_some()
        })
    }

    /// Rows that are new in `disks.csv`.
    pub fn disks(&mut self, mut take: impl FnMut(DiskInterval)) -> Result<()> {
        self.disks.rows(&self.dir, |row, names| row.deserialize(Some(names)).map(&mut take).is_ok())
    }

    /// Rows that are new in `speed.csv`.
    pub fn speed(&mut self, mut take: impl FnMut(SpeedInterval)) -> Result<()> {
        self.speed.rows(&self.dir, |row, names| row.deserialize(Some(names)).map(&mut take).is_ok())
    }
}

/// A file, and how far it has been read.
#[derive(Debug)]
struct Growing {
    name: PathBuf,
    has_header: bool,
    file: Option<File>,
    offset: u64,
    /// The beginning of a line whose end is yet to be written.
    begun: Vec<u8>,
    /// Whether the beginning of the line that is read next was left out.
    is_inside: bool,
    names: Option<StringRecord>,
    bad: u64,
}

impl Growing {
    fn lines(name: impl Into<PathBuf>) -> Growing {
        Growing {
            name: name.into(),
            has_header: false,
            file: None,
            offset: 0,
            begun: Vec::new(),
            is_inside: false,
            names: None,
            bad: 0,
        }
    }

    fn table(name: impl Into<PathBuf>) -> Growing {
        Growing { has_header: true, ..Growing::lines(name) }
    }

    /// Whole lines that are new.
    fn read(&mut self, dir: &RunDir) -> Result<Vec<u8>> {
        let path = dir.path().join(&self.name);
        let failed = |e| Error::io(&path, "read", e);
        if self.file.is_none() {
            self.file = dir.read_growing(&self.name)?;
        }
        let Some(mut file) = self.file.as_ref() else { return Ok(Vec::new()) };
        let length = file.seek(SeekFrom::End(0)).map_err(failed)?;
        if length < self.offset {
            // Somebody has cut it off: it begins anew.
            (self.offset, self.is_inside) = (0, false);
            self.begun.clear();
        }
        if self.has_header && self.names.is_none() {
            let Some((names, end)) = header(file).map_err(failed)? else { return Ok(Vec::new()) };
            self.names = Some(names);
            self.offset = self.offset.max(end);
        }
        if length.saturating_sub(self.offset) > PIECE {
            self.offset = length - PIECE;
            self.begun.clear();
            self.is_inside = true;
        }
        let mut piece = vec![0; length.saturating_sub(self.offset) as usize];
        let read = read_at(file, &mut piece, self.offset).map_err(failed)?;
        piece.truncate(read);
        self.offset += read as u64;
        Ok(self.whole_lines(piece))
    }

    fn whole_lines(&mut self, piece: Vec<u8>) -> Vec<u8> {
        let mut lines = std::mem::take(&mut self.begun);
        lines.extend(piece);
        if self.is_inside {
            match lines.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    lines.drain(..=end);
                    self.is_inside = false;
                }
                None => lines.clear(),
            }
        }
        let whole = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.begun = lines.split_off(whole);
        if self.begun.len() as u64 > PIECE {
            self.begun = Vec::new();
            self.is_inside = true;
            self.bad += 1;
        }
        lines
    }

    /// Hands over rows that are new, with the names of their columns; `take` says whether one is what it must be.
    fn rows(&mut self, dir: &RunDir, mut take: impl FnMut(&StringRecord, &StringRecord) -> bool) -> Result<()> {
        let piece = self.read(dir)?;
        let Some(names) = self.names.clone() else { return Ok(()) };
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(&piece[..]);
        let mut row = StringRecord::new();
        loop {
            match reader.read_record(&mut row) {
                Ok(false) => return Ok(()),
                Ok(true) if row.len() == names.len() && take(&row, &names) => {}
                Ok(true) | Err(_) => self.bad += 1,
            }
        }
    }
}

/// The names of a table's columns, and where its first row begins; nothing before they are written.
fn header(file: &File) -> io::Result<Option<(StringRecord, u64)>> {
    let mut beginning = vec![0; LONGEST_HEADER];
    let read = read_at(file, &mut beginning, 0)?;
    let Some(end) = beginning[..read].iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(&beginning[..=end]);
    let mut names = StringRecord::new();
    let is_read = reader.read_record(&mut names).unwrap_or(false);
    Ok(is_read.then_some((names, end as u64 + 1)))
}

/// Reads as much as there is at `offset`.
fn read_at(file: &File, to: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < to.len() {
        match file.read_at(&mut to[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(read)
}

impl RunDir {
    /// A file that may not be there yet.
    fn read_growing(&self, name: &Path) -> Result<Option<File>> {
        match self.read(name) {
            Ok(file) => Ok(Some(file)),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;

    fn append(dir: &Path, name: &str, text: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(dir.join(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn nodes(following: &mut Following) -> Vec<String> {
        let mut seen = Vec::new();
        following.nodes(|row| seen.push(format!("{} {}", row.node, row.to_s))).unwrap();
        seen
    }

    const NODES: &str = "from_s,to_s,node,cpus,memory_bytes,reads,read_bytes,writes,written_bytes,packets_in,bytes_in,\
                         packets_out,bytes_out\n";

    #[test]
    fn rows_come_as_they_are_written_and_bad_ones_are_counted() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path();
        let mut following = Following::of(dir).unwrap();
        assert!(nodes(&mut following).is_empty(), "there is no file yet");
        append(dir, "nodes.csv", &NODES[..30]);
        assert!(nodes(&mut following).is_empty(), "its names are half written");
        append(dir, "nodes.csv", &NODES[30..]);
        append(dir, "nodes.csv", "0,1,a,0.5,7,,,,,1,2,3,4\n0,1,b,0.5,7");
        assert_eq!(nodes(&mut following), ["a 1"]);
        append(dir, "nodes.csv", ",,,,,1,2,3,4\nnonsense\n1,x,a,,,,,,,1,2,3,4\n\u{ff}\u{1b}\n1,2,a,,,,,,,1,2,3,4\n");
        assert_eq!(nodes(&mut following), ["b 1", "a 2"]);
        assert_eq!(following.bad_lines(), 3);
        std::fs::write(dir.join("nodes.csv"), NODES).unwrap();
        assert!(nodes(&mut following).is_empty());
        append(dir, "nodes.csv", "0,1,c,,,,,,,1,2,3,4\n");
        assert_eq!(nodes(&mut following), ["c 1"], "after somebody has cut it off");
    }

    #[test]
    fn only_the_end_of_a_long_file_is_read() {
        let temp = tempfile::tempdir().unwrap();
        append(temp.path(), "nodes.csv", NODES);
        let rows: String = (0..100_000).map(|n| format!("{n},{},a,0.5000,50000000,,,,,3,294,0,0\n", n + 1)).collect();
        append(temp.path(), "nodes.csv", &rows);
        let mut following = Following::of(temp.path()).unwrap();
        let seen = nodes(&mut following);
        assert!((10_000..50_000).contains(&seen.len()) && seen.last().unwrap() == "a 100000", "{}", seen.len());
        assert_eq!(following.bad_lines(), 0);
        append(temp.path(), "events.jsonl", &"x".repeat(3 << 20));
        following.events(|event| panic!("{event:?}")).unwrap();
        append(temp.path(), "events.jsonl", "\n{\"real_s\":1,\"event\":\"a\"}\n{}\n");
        let mut events = Vec::new();
        following.events(|event| events.push(event.event)).unwrap();
        assert_eq!((events, following.bad_lines()), (vec!["a".to_string()], 1));
    }

    #[test]
    fn links_and_speeds_are_followed_by_the_names_of_their_columns() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::prepare(temp.path(), []).unwrap();
        let interval = PipeInterval {
            from_s: 1.0,
            to_s: 2.0,
            pipe: "a--b/ab".into(),
            utilisation: Some(0.5),
            queue_mean: 0.125,
            queue_max: 3,
            counters: crate::Counters::new(&["packets", "bytes"], [4, 5]),
        };
        let mut log = dir.pipe_interval_log(&["packets", "bytes"]).unwrap();
        log.add(&interval).unwrap();
        log.flush().unwrap();
        let mut following = Following::of(temp.path()).unwrap();
        for more in [1, 0] {
            let mut seen = Vec::new();
            following.pipes(|row| seen.push(row)).unwrap();
            assert_eq!(seen, vec![interval.clone(); more]);
        }
        append(temp.path(), "speed.csv", "virtual_s,core,units_per_us,percent_of_reference,k,capped\n1,3,,,1.25,0.5\n");
        let mut seen = Vec::new();
        following.speed(|row| seen.push((row.core, row.k))).unwrap();
        following.disks(|row| panic!("{row:?}")).unwrap();
        assert_eq!(seen, [(3, 1.25)]);
        assert!(Following::of(temp.path().join("absent")).is_err());
    }
}
