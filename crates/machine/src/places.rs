//! The places where this machine keeps things of runs, and who may open them.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Where live runs are registered.
pub(crate) const LIVE: &str = "/run/diorama";
/// Where runs keep what is too large for memory, the nodes' writable layers, and what outlives them.
pub const STATE: &str = "/var/lib/diorama";

/// Makes the directory of what is kept from run to run, if it is not there.
pub fn make_state_directory() -> Result<()> {
    private_dir(Path::new(STATE))
}

/// Where a run has the files behind its nodes' disks, below its private directory.
pub(crate) fn disks_of(state: &Path) -> PathBuf {
    state.join("disks")
}

pub(crate) fn lock_file(path: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(Error::file(path, "open"))
}

pub(crate) fn private_dir(path: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(Error::file(path, "create"))
}

/// Process id and time make an identity that no other live or dead run has; hexadecimal keeps it safe everywhere.
pub(crate) fn unused_id() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", std::process::id(), now.as_micros())
}

/// Whether a name is the identity of a run.
pub(crate) fn is_id(name: &str) -> bool {
    name.split_once('-').is_some_and(|(pid, time)| {
        [pid, time].iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_swept() {
        assert!(is_id(&unused_id()));
        for other in ["cores", "lock", "..", "a-", "-b", "a-b/../c", "run"] {
            assert!(!is_id(other), "{other}");
        }
    }
}
