//! Reading the logs of a run, finished or live.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host::{one_line, visible};
use record::{CUT_MARK, LogStream, RunDir};

use crate::error::{Error, Result};
use crate::live::{LiveRun, live_runs};

/// A log that is being read, and how far.
struct Tail {
    prefix: String,
    node: String,
    stream: LogStream,
    offset: u64,
    /// Which file that was: one from which something was cut out is another.
    inode: u64,
    /// Bytes after the last whole line.
    rest: Vec<u8>,
}

/// How much of a log is read at once, in bytes; a longer line comes in several.
const PIECE: u64 = 1 << 20;

/// The directory of the run that the user means: a run directory, or the name of a live run or of its experiment.
pub fn find_run(run: &str) -> Result<PathBuf> {
    if RunDir::at(run).has_logs() {
        return Path::new(run).canonicalize().map_err(Error::io(run));
    }
    find_live(run).map(|r| r.out)
}

/// The live run that the user means.
pub fn find_live(run: &str) -> Result<LiveRun> {
    let dir = Path::new(run).canonicalize().ok();
    let live = live_runs();
    let mut matches: Vec<LiveRun> = live
        .iter()
        .filter(|r| {
            Some(&r.out) == dir.as_ref() || r.id == run || r.name == run || format!("{}/{}", r.name, r.variant) == run
        })
        .cloned()
        .collect();
    match matches.len() {
        1 => Ok(matches.remove(0)),
        0 => {
            let known: Vec<_> =
                live.iter().map(|r| format!("{}/{} ({})", r.name, r.variant, r.out.display())).collect();
            let known =
                if known.is_empty() { "no run is live".to_string() } else { format!("live: {}", known.join(", ")) };
            Err(Error::Usage(format!("`{run}` is neither a run directory nor a live run; {known}")))
        }
        _ => Err(Error::Usage(format!("`{run}` names {} live runs; give the run directory", matches.len()))),
    }
}

/// Prints the logs of a run, of one node or of all, to `out`; with `follow`, goes on until the run has ended.
///
/// The lines of one node are printed as they are; those of several are prefixed by the node's name. Without `raw`,
/// [nothing](visible) of them is left that a terminal would obey.
pub fn print(dir: &Path, node: Option<&str>, follow: bool, raw: bool, out: &mut impl Write) -> Result<()> {
    let mut tails = tails(dir, node)?;
    let run = RunDir::at(dir);
    loop {
        // Asked before reading, so that what a run wrote last is still read after it ended.
        let live = follow && live_runs().iter().any(|r| r.out == dir);
        for tail in &mut tails {
            match tail.copy(&run, out, !live, raw) {
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                other => other.map_err(Error::io(run.log(&tail.node, tail.stream).display()))?,
            }
        }
        if !live {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn tails(dir: &Path, node: Option<&str>) -> Result<Vec<Tail>> {
    let run = RunDir::at(dir);
    let mut names = run.logged_nodes()?;
    if let Some(node) = node {
        if !names.iter().any(|n| n == node) {
            return Err(Error::Usage(format!(
                "there is no node `{node}` in {}; its nodes: {}",
                dir.display(),
                names.join(", ")
            )));
        }
        names = vec![node.to_string()];
    }
    let prefixed = names.len() > 1;
    Ok(names
        .iter()
        .flat_map(|name| {
            LogStream::ALL.map(|stream| Tail {
                prefix: if prefixed { format!("{name} | ") } else { String::new() },
                node: name.clone(),
                stream,
                offset: 0,
                inode: 0,
                rest: Vec::new(),
            })
        })
        .collect())
}

impl Tail {
    /// Copies the whole lines that are new, and at the end (`last`) also one that was never finished.
    fn copy(&mut self, run: &RunDir, out: &mut impl Write, last: bool, raw: bool) -> io::Result<()> {
        let mut file = match run.read_log(&self.node, self.stream) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        let inode = file.metadata()?.ino();
        if self.inode != inode {
            if self.inode != 0 {
                // The mark of a cut stands where that was, which is before all that is new.
                self.offset = after_cut(&mut file, self.offset)?;
            }
            self.inode = inode;
        }
        file.seek(SeekFrom::Start(self.offset))?;
        loop {
            let read = Read::by_ref(&mut file).take(PIECE).read_to_end(&mut self.rest)? as u64;
            self.offset += read;
            let whole = match self.rest.iter().rposition(|b| *b == b'\n') {
                Some(end) => end + 1,
                None if self.rest.len() as u64 >= PIECE => self.rest.len(),
                None => 0,
            };
            for line in self.rest[..whole].split_inclusive(|b| *b == b'\n') {
                line_to(out, &self.prefix, line, raw)?;
            }
            self.rest.drain(..whole);
            if read < PIECE {
                break;
            }
        }
        if last && !self.rest.is_empty() {
            line_to(out, &self.prefix, &self.rest, raw)?;
            out.write_all(b"\n")?;
            self.rest.clear();
        }
        out.flush()
    }
}

/// The place of the line that says what was cut out of a log, if there is one before `offset`; else that.
fn after_cut(file: &mut File, offset: u64) -> io::Result<u64> {
    let mut at = 0;
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    while at < offset {
        // Pieces overlap by the length of the mark.
        if Read::by_ref(file).take(PIECE).read_to_end(&mut bytes)? == 0 {
            break;
        }
        if let Some(found) = memchr::memmem::find(&bytes, CUT_MARK.as_bytes()) {
            return Ok((at + found as u64).min(offset));
        }
        let kept = bytes.len().saturating_sub(CUT_MARK.len());
        at += kept as u64;
        bytes.drain(..kept);
    }
    Ok(offset)
}

fn line_to(out: &mut impl Write, prefix: &str, line: &[u8], raw: bool) -> io::Result<()> {
    if raw {
        out.write_all(prefix.as_bytes())?;
        return out.write_all(line);
    }
    // Of a record that comes from elsewhere, names of nodes may be anything, too.
    out.write_all(one_line(&visible(prefix)).as_bytes())?;
    out.write_all(visible(&String::from_utf8_lossy(line)).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::NodeLogs;

    fn run_with_logs() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (node, text) in [("a", "one\ntwo\n"), ("b", "three\u{1b}[m")] {
            let run = RunDir::prepare(dir.path(), [node]).unwrap();
            NodeLogs::make(&run, node, 0).unwrap().write(LogStream::Stdout, text.as_bytes()).unwrap();
        }
        dir
    }

    #[test]
    fn several_nodes_are_told_apart_and_one_is_printed_as_it_is() {
        let dir = run_with_logs();
        let mut out = Vec::new();
        print(dir.path(), None, false, false, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a | one\na | two\nb | three\\x1b[m\n");
        let mut out = Vec::new();
        print(dir.path(), Some("a"), true, false, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn names_of_nodes_that_a_terminal_would_obey_are_written_out() {
        let dir = run_with_logs();
        std::fs::create_dir_all(dir.path().join("nodes/z\u{1b}[2J\nq")).unwrap();
        std::fs::write(dir.path().join("nodes/z\u{1b}[2J\nq/stdout.log"), "four\n").unwrap();
        let mut out = Vec::new();
        print(dir.path(), None, false, false, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("\nz\\x1b[2J\\nq | four\n"), "{text}");
    }

    #[test]
    fn raw_is_what_was_written() {
        let dir = run_with_logs();
        let mut out = Vec::new();
        print(dir.path(), Some("b"), false, true, &mut out).unwrap();
        assert_eq!(out, b"three\x1b[m\n");
    }

    #[test]
    fn who_follows_a_log_sees_what_was_cut_out_of_it_and_what_came_after_that() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::prepare(dir.path(), ["n"]).unwrap();
        let mut logs = NodeLogs::make(&run, "n", 0).unwrap();
        let mut tail = tails(dir.path(), None).unwrap().remove(0);
        let mut seen = Vec::new();
        logs.write(LogStream::Stdout, b"first\n").unwrap();
        tail.copy(&run, &mut seen, false, false).unwrap();
        (0..10_000).for_each(|n| logs.write(LogStream::Stdout, format!("line {n}\n").as_bytes()).unwrap());
        tail.copy(&run, &mut seen, false, false).unwrap();
        let before = seen.len();
        logs.settle().unwrap();
        tail.copy(&run, &mut seen, true, false).unwrap();
        let text = String::from_utf8(seen[before..].to_vec()).unwrap();
        assert!(text.contains(CUT_MARK) && text.ends_with("line 9999\n"), "{text}");
    }

    #[test]
    fn an_unknown_node_is_bad_input_that_names_the_others() {
        let dir = run_with_logs();
        let error = print(dir.path(), Some("../a"), false, false, &mut Vec::new()).unwrap_err();
        let error = site::Error::from(error);
        assert_eq!(error.code(), 2);
        assert!(error.to_string().contains("its nodes: a, b"), "{error}");
    }
}
