//! Directories in which the targets put what their readers are to read.

use std::path::Path;
use std::sync::LazyLock;

use tempfile::TempDir;

/// A directory of this process's own, in TMPDIR. It stays when the process ends, since libFuzzer exits at once.
pub fn scratch() -> &'static Path {
    static SCRATCH: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a directory can be made"));
    SCRATCH.path()
}
