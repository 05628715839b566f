//! Directories in which the targets put what their readers are to read.

use std::path::Path;
use std::sync::LazyLock;

use tempfile::TempDir;

/// A directory of this process's own, in memory where the machine has such a place.
pub fn scratch() -> &'static Path {
    static SCRATCH: LazyLock<TempDir> = LazyLock::new(|| {
        let shm = Path::new("/dev/shm");
        let place = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
        tempfile::Builder::new().prefix("diorama-fuzz-").tempdir_in(place).expect("a directory can be made")
    });
    SCRATCH.path()
}
