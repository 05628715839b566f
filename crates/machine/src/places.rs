//! The places where this machine keeps things of runs, and who may open them.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
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

/// A directory of root's alone, made where it is missing: what nodes have written lies in such, setuid files, too. One
/// that is there is closed to others, but for the [state's](STATE), in which anybody may see the speed of the host.
pub(crate) fn private_dir(path: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(Error::file(path, "create"))?;
    let found = path.symlink_metadata().map_err(Error::file(path, "look at"))?;
    let own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if !own || found.mode() & 0o022 != 0 {
        return Err(Error::machine(
            format!("{} can be changed by others than root", path.display()),
            "what lies there would be trusted: look at what is in it, and remove it, or `chown 0:0` and `chmod 700` it",
        ));
    }
    if found.mode() & 0o077 != 0 && path != Path::new(STATE) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(Error::file(path, "close"))?;
    }
    Ok(())
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
    fn a_private_directory_is_closed_and_nobody_elses() {
        let temp = tempfile::tempdir().unwrap();
        let at = temp.path().join("own/deep");
        let mode = || fs::metadata(&at).unwrap().permissions().mode() & 0o777;
        private_dir(&at).unwrap();
        assert_eq!(mode(), 0o700);
        fs::set_permissions(&at, fs::Permissions::from_mode(0o755)).unwrap();
        private_dir(&at).unwrap();
        assert_eq!(mode(), 0o700, "one that was open");
        let link = temp.path().join("link");
        std::os::unix::fs::symlink(&at, &link).unwrap();
        fs::set_permissions(&at, fs::Permissions::from_mode(0o777)).unwrap();
        for others in [&link, &at] {
            let error = private_dir(others).unwrap_err().to_string();
            assert!(error.contains("can be changed by others than root"), "{error}");
        }
    }

    #[test]
    fn only_our_own_names_are_swept() {
        assert!(is_id(&unused_id()));
        for other in ["cores", "lock", "..", "a-", "-b", "a-b/../c", "run"] {
            assert!(!is_id(other), "{other}");
        }
    }
}
