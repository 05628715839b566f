//! The run directory: where a run's results go, and what happens to an earlier one's.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use fidelity::events::{Event, EventLog};
use scale::RealInstant;

use crate::error::{Error, Result};
use crate::timeline::Timeline;

/// A run directory being written.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    /// What happened, line by line.
    events: EventLog,
}

/// The directory of a run: `--out`, or `runs/NAME/VARIANT`. An earlier default directory moves to the first free
/// `VARIANT.N`; a non-empty `--out` is refused, for it may hold anything. So is what a live run writes to: `live` are the
/// directories of all of them, absolute.
pub fn claim(out: Option<&Path>, name: &str, variant: &str, live: &[PathBuf]) -> Result<PathBuf> {
    let place = out.map_or_else(|| Path::new("runs").join(name).join(variant), Path::to_path_buf);
    // One that does not exist has no real path, and no live run in it.
    if let Ok(real) = place.canonicalize()
        && let Some(other) = live.iter().find(|other| other.starts_with(&real))
    {
        return Err(Error::machine(
            format!("{}: a live run writes to {}", place.display(), other.display()),
            "wait for that run to end, or give another directory with --out",
        ));
    }
    if out.is_some() {
        if fs::read_dir(&place).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(Error::Input(format!(
                "--out {}: the directory is not empty; give one that is new or empty",
                place.display()
            )));
        }
    } else if fs::symlink_metadata(&place).is_ok() {
        let free = (1..)
            .map(|n| place.with_file_name(format!("{variant}.{n}")))
            .find(|p| fs::symlink_metadata(p).is_err())
            .expect("some number is free");
        fs::rename(&place, &free).map_err(|e| {
            Error::failed(format!("{}: cannot move the earlier run to {}", place.display(), free.display()), e)
        })?;
    }
    fs::create_dir_all(&place).map_err(|e| Error::failed(format!("{}: cannot create", place.display()), e))?;
    place.canonicalize().map_err(|e| Error::failed(place.display(), e))
}

impl RunDir {
    /// Starts to write the directory `path`, which exists, with a log directory for each of `nodes`.
    pub fn open<'a>(path: PathBuf, nodes: impl IntoIterator<Item = &'a str>) -> Result<RunDir> {
        let make = |dir: PathBuf| {
            fs::create_dir_all(&dir).map_err(|e| Error::failed(format!("{}: cannot create", dir.display()), e))
        };
        make(path.join("metrics"))?;
        for node in nodes {
            make(path.join("nodes").join(node))?;
        }
        let events = EventLog::open(&path)?;
        Ok(RunDir { path, events })
    }

    /// Where the directory is, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the run's result is written.
    pub fn has_result(&self) -> bool {
        self.path.join(fidelity::record::RESULT).exists()
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

    /// Writes a whole file, replacing what was there.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> Result<()> {
        let file = self.path.join(name);
        fs::write(&file, contents).map_err(|e| Error::failed(format!("{}: cannot write", file.display()), e))
    }

    /// Opens a node's log to append to, so that a node that is started again goes on where it was.
    pub fn log(&self, node: &str, stream: &str) -> Result<File> {
        let file = self.log_path(node, stream);
        File::options()
            .create(true)
            .append(true)
            .open(&file)
            .map_err(|e| Error::failed(format!("{}: cannot open", file.display()), e))
    }

    /// Where a node's log is.
    pub fn log_path(&self, node: &str, stream: &str) -> PathBuf {
        self.path.join("nodes").join(node).join(format!("{stream}.log"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_something_in_it_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(claim(Some(dir.path()), "x", "scaled", &[]).is_ok());
        fs::write(dir.path().join("mine"), "precious").unwrap();
        let error = claim(Some(dir.path()), "x", "scaled", &[]).unwrap_err();
        assert_eq!(error.code(), 2);
        assert!(error.to_string().contains("not empty"), "{error}");
    }

    #[test]
    fn the_directory_of_a_live_run_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let live = [dir.path().canonicalize().unwrap().join("1")];
        let error = claim(Some(dir.path()), "x", "scaled", &live).unwrap_err();
        assert_eq!(error.code(), 3);
        // Its neighbour, whose name begins alike, is another.
        let neighbour = dir.path().with_extension("other");
        assert!(claim(Some(&neighbour), "x", "scaled", &live).is_ok());
        fs::remove_dir(neighbour).unwrap();
    }
}
