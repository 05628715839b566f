//! The run directory: where a run's results go, and what happens to an earlier one's.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use fidelity::events::EventLog;

use crate::error::{Error, Result};

/// A run directory being written.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    /// What happened, line by line.
    pub events: EventLog,
}

/// The directory of a run: `--out`, or `runs/NAME/VARIANT`. An earlier default directory moves to the first free
/// `VARIANT.N`; a non-empty `--out` is refused, for it may hold anything.
pub fn claim(out: Option<&Path>, name: &str, variant: &str) -> Result<PathBuf> {
    let path = match out {
        Some(path) => {
            if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
                return Err(Error::Input(format!(
                    "--out {}: the directory is not empty; give one that is new or empty",
                    path.display()
                )));
            }
            path.to_path_buf()
        }
        None => {
            let path = Path::new("runs").join(name).join(variant);
            if fs::symlink_metadata(&path).is_ok() {
                let free = (1..)
                    .map(|n| path.with_file_name(format!("{variant}.{n}")))
                    .find(|p| fs::symlink_metadata(p).is_err())
                    .expect("some number is free");
                fs::rename(&path, &free).map_err(|e| {
                    Error::failed(format!("{}: cannot move the earlier run to {}", path.display(), free.display()), e)
                })?;
            }
            path
        }
    };
    fs::create_dir_all(&path).map_err(|e| Error::failed(format!("{}: cannot create", path.display()), e))?;
    path.canonicalize().map_err(|e| Error::failed(path.display(), e))
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
        assert!(claim(Some(dir.path()), "x", "scaled").is_ok());
        fs::write(dir.path().join("mine"), "precious").unwrap();
        let error = claim(Some(dir.path()), "x", "scaled").unwrap_err();
        assert_eq!(error.code(), 2);
        assert!(error.to_string().contains("not empty"), "{error}");
    }
}
