//! Where a benchmark keeps files while it measures.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use tempfile::TempDir;

use crate::error::Error;

/// The prefix of all their names.
const NAMED: &str = "diorama-bench-";

/// A directory that goes with this value. That of a benchmark that was killed, whose lock is free, goes with the next
/// one that is made.
pub(crate) struct Scratch {
    dir: TempDir,
    _lock: File,
}

impl Scratch {
    /// On a disk, as far as the machine has one: `/tmp` may be in memory.
    pub fn new() -> Result<Scratch, Error> {
        Scratch::below(Path::new("/var/tmp")).map_err(Error::failed)
    }

    fn below(parent: &Path) -> io::Result<Scratch> {
        sweep(parent);
        loop {
            let dir = tempfile::Builder::new().prefix(NAMED).tempdir_in(parent)?;
            // Before it is locked another benchmark may take it for one of a killed one.
            if let Some(_lock) = locked(dir.path())?
                && dir.path().exists()
            {
                return Ok(Scratch { dir, _lock });
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes what killed benchmarks have left. What cannot be removed stays.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let own = entry.metadata().is_ok_and(|m| m.is_dir() && m.uid() == rustix::process::geteuid().as_raw());
        let named = entry.file_name().to_str().is_some_and(|name| name.starts_with(NAMED));
        if own && named && matches!(locked(&entry.path()), Ok(Some(_))) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The lock of a directory; `None` if somebody has it.
fn locked(dir: &Path) -> io::Result<Option<File>> {
    let dir = rustix::fs::open(dir, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(dir.into())),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_benchmark_has_left_goes_with_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join("diorama-bench-left");
        fs::create_dir_all(left.join("nvme-10")).unwrap();
        let others = parent.path().join("others");
        fs::create_dir(&others).unwrap();
        let first = Scratch::below(parent.path()).unwrap();
        assert!(!left.exists());
        let second = Scratch::below(parent.path()).unwrap();
        assert!(first.path().exists() && second.path().exists() && first.path() != second.path());
        let paths = [&first, &second].map(|scratch| scratch.path().to_path_buf());
        drop((first, second));
        assert!(paths.iter().all(|path| !path.exists()) && others.exists());
    }
}
