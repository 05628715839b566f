//! The limit on the memory of a group, lowered for a while and raised again.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::files::{self, MEMORY_LIMIT, MEMORY_USED, Version};
use super::hierarchies;
use crate::error::{CONTAINER, Error, Lack};

/// How often a limit is tried that the kernel does not take because more is in use.
const TRIES: u64 = 64;

/// Bytes above what is in use that each try adds to the one before.
const STEP: u64 = 64 * 1024;

/// Lets the group at `path` (as [`super::Tree::path`] gives it) have so much memory from now on. Gives back the limit
/// that is in force then; nothing if the group is gone.
///
/// Version 2 takes what is asked for, writes back and ends programs until it holds. Version 1 writes back, ends nobody
/// and refuses a limit below what is in use even so: the limit is then just above that.
///
/// # Errors
/// [`Error::Machine`] if there is no memory controller.
pub fn limit_memory(path: &str, bytes: u64) -> Result<Option<u64>, Error> {
    let lack = || Lack::new("no memory controller of control groups is mounted", CONTAINER);
    let (mount, version) = hierarchies::memory().ok_or_else(lack)?;
    let dir = mount.join(path.trim_start_matches('/'));
    let second = version == Version::Second;
    let limit = dir.join(MEMORY_LIMIT[usize::from(second)]);
    let mut wanted = bytes;
    for again in 1..=TRIES {
        match fs::write(&limit, wanted.to_string()) {
            Ok(()) => return Ok(Some(wanted)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && again < TRIES => {
                let used = files::read(&dir.join(MEMORY_USED[0]))?.trim().parse().unwrap_or(bytes);
                wanted = bytes.max(used + again * STEP);
            }
            Err(e) => return Err(Error::file("write", &limit, e)),
        }
    }
    unreachable!("the last try returns")
}

/// The counter of a group's memory, which is read again and again without an allocation.
#[derive(Debug)]
pub struct MemoryUsed {
    path: PathBuf,
    /// None while there is no such group.
    file: Option<File>,
}

impl MemoryUsed {
    /// The memory of the group at `path` (as [`super::Tree::path`] gives it), which may be made later, and again;
    /// nothing without a memory controller.
    pub fn of(path: &str) -> Option<MemoryUsed> {
        let (mount, version) = hierarchies::memory()?;
        let name = MEMORY_USED[usize::from(version == Version::Second)];
        let path = mount.join(path.trim_start_matches('/')).join(name);
        Some(MemoryUsed { file: File::open(&path).ok(), path })
    }

    /// Bytes that are charged to the group, page cache included; nothing while it is not there.
    pub fn read(&mut self) -> Option<u64> {
        let now = self.file.as_ref().and_then(bytes_in);
        if now.is_some() {
            return now;
        }
        // Another may have been made in its place.
        self.file = File::open(&self.path).ok();
        self.file.as_ref().and_then(bytes_in)
    }
}

fn bytes_in(file: &File) -> Option<u64> {
    let mut text = [0; 32];
    let length = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..length]).ok()?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_of_the_group_that_is_there() {
        let path = std::env::temp_dir().join(format!("diorama-memory-{}", std::process::id()));
        let mut used = MemoryUsed { path: path.clone(), file: None };
        assert_eq!(used.read(), None, "no group yet");
        fs::write(&path, "52428800\n").unwrap();
        assert_eq!((used.read(), used.read()), (Some(52_428_800), Some(52_428_800)));
        fs::write(&path, "").unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(used.read(), None, "it has gone");
        fs::write(&path, "4096\n").unwrap();
        assert_eq!(used.read(), Some(4_096), "another in its place");
        fs::remove_file(&path).unwrap();
    }
}
