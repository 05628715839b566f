//! The limit on the memory of a group, lowered for a while and raised again.

use std::fs;

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
                let used = files::read(&dir.join(MEMORY_USED))?.trim().parse().unwrap_or(bytes);
                wanted = bytes.max(used + again * STEP);
            }
            Err(e) => return Err(Error::file("write", &limit, e)),
        }
    }
    unreachable!("the last try returns")
}
