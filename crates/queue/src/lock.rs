//! The lock of a job: whoever has it makes the job, and nobody else does.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::{Error, Result};
use crate::job::Job;

/// A job that is this process's to make, until this value and all that inherited its file are gone.
#[derive(Debug)]
pub struct Held {
    /// The job as it was taken.
    pub job: Job,
    lock: File,
    path: PathBuf,
}

impl Held {
    pub(crate) fn new(job: Job, (lock, path): (File, PathBuf)) -> Held {
        Held { job, lock, path }
    }

    /// The file that is locked. A process that inherits it holds the job, too.
    pub fn file(&self) -> &File {
        &self.lock
    }

    /// A job that is over needs no lock.
    pub(crate) fn forget(self) {
        // If it stays, it is locked by nobody.
        let _ = fs::remove_file(&self.path);
    }
}

/// Takes the lock of a job; `None` if somebody has it. The file is new, or nobody has removed it meanwhile.
pub(crate) fn take(dir: &Path, id: i64) -> Result<Option<(File, PathBuf)>> {
    let path = dir.join(format!("{id}.lock"));
    let open = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = open.map_err(Error::file(&path, "cannot make a lock"))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some((file, path))),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(e) => Err(Error::file(&path, "cannot lock it")(e.into())),
    }
}
