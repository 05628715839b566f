//! Reading the logs of a run, finished or live.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use record::{LogStream, RunDir};

use crate::error::{Error, Result};
use crate::registry::{LiveRun, live_runs};

/// A log that is being read, and how far.
struct Tail {
    prefix: String,
    path: PathBuf,
    offset: u64,
    /// What came after the last whole line.
    rest: Vec<u8>,
}

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
/// The lines of one node are printed as they are; those of several are prefixed by the node's name.
pub fn print(dir: &Path, node: Option<&str>, follow: bool, out: &mut impl Write) -> Result<()> {
    let mut tails = tails(dir, node)?;
    loop {
        // Asked before reading, so that what a run wrote last is still read after it ended.
        let live = follow && live_runs().iter().any(|r| r.out == dir);
        for tail in &mut tails {
            match tail.copy(out, !live) {
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                other => other.map_err(Error::io(tail.path.display()))?,
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
                path: run.log(name, stream),
                offset: 0,
                rest: Vec::new(),
            })
        })
        .collect())
}

impl Tail {
    /// Copies the whole lines that are new, and at the end (`last`) also one that was never finished.
    fn copy(&mut self, out: &mut impl Write, last: bool) -> io::Result<()> {
        let mut file = match File::open(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        file.seek(SeekFrom::Start(self.offset))?;
        self.offset += file.read_to_end(&mut self.rest)? as u64;
        let whole = self.rest.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
        for line in self.rest[..whole].split_inclusive(|b| *b == b'\n') {
            out.write_all(self.prefix.as_bytes())?;
            out.write_all(line)?;
        }
        self.rest.drain(..whole);
        if last && !self.rest.is_empty() {
            out.write_all(self.prefix.as_bytes())?;
            out.write_all(&self.rest)?;
            out.write_all(b"\n")?;
            self.rest.clear();
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_with_logs() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (node, text) in [("a", "one\ntwo\n"), ("b", "three")] {
            let run = RunDir::prepare(dir.path(), [node]).unwrap();
            run.append_log(node, LogStream::Stdout).unwrap().write_all(text.as_bytes()).unwrap();
        }
        dir
    }

    #[test]
    fn several_nodes_are_told_apart_and_one_is_printed_as_it_is() {
        let dir = run_with_logs();
        let mut out = Vec::new();
        print(dir.path(), None, false, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a | one\na | two\nb | three\n");
        let mut out = Vec::new();
        print(dir.path(), Some("a"), true, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn an_unknown_node_is_bad_input_that_names_the_others() {
        let dir = run_with_logs();
        let error = print(dir.path(), Some("../a"), false, &mut Vec::new()).unwrap_err();
        assert_eq!(error.code(), 2);
        assert!(error.to_string().contains("its nodes: a, b"), "{error}");
    }
}
