//! The live runs of this machine, as other commands find them.
//!
//! Each has a directory `/run/diorama/ID/` with a file `lock` that it keeps locked while it lives. The kernel drops
//! such locks however a process ends, so a lock that can be taken means that its run is dead.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::places::{LIVE, STATE, lock_file, private_dir};

/// The file of a live run that says for how long nobody has done anything in it.
pub(crate) const IDLE: &str = "idle";

/// The file of a live run that says where it is.
pub(crate) const PROGRESS: &str = "progress.json";

/// Where a live run is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The step that is being done before t = 0 or after the end; none while its clock goes.
    #[serde(default)]
    pub step: Option<String>,
    /// Virtual seconds since t = 0.
    #[serde(default)]
    pub virtual_s: Option<f64>,
    /// The virtual second at which it will probably end; none if it is not to end by itself.
    #[serde(default)]
    pub end_s: Option<f64>,
    /// How many real seconds are left until then.
    #[serde(default)]
    pub left_real_s: Option<f64>,
    /// How many nodes run.
    #[serde(default)]
    pub running: Option<usize>,
}

/// A live run, as other commands need to know it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LiveRun {
    /// The run's identity on this machine.
    pub id: String,
    /// The experiment's name.
    pub name: String,
    /// `scaled`, `baseline` or `naive`.
    pub variant: String,
    /// The run directory, absolute.
    pub out: PathBuf,
    /// The engine's process.
    pub pid: u32,
    /// The cores that it uses; empty if a version registered it that did not say.
    #[serde(default)]
    pub cores: Vec<usize>,
    /// The images that its nodes have as their roots.
    #[serde(default)]
    pub images: Vec<String>,
}

/// The live runs, those that have published themselves.
pub fn live_runs() -> Vec<LiveRun> {
    let Ok(entries) = fs::read_dir(LIVE) else { return Vec::new() };
    entries
        .flatten()
        .filter(|e| is_locked(&e.path().join("lock")))
        .filter_map(|e| serde_json::from_slice(&fs::read(e.path().join("run.json")).ok()?).ok())
        .collect()
}

/// Whether the caller may know which runs live.
pub fn sees_live_runs() -> bool {
    !fs::read_dir(LIVE).is_err_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Does `work`, given the directories where the results of the live runs go, while no other run registers itself or
/// chooses its place.
pub fn with_live_directories<R>(work: impl FnOnce(&[PathBuf]) -> Result<R>) -> Result<R> {
    let _registry = open_registry()?;
    let live: Vec<_> = live_runs().into_iter().map(|run| run.out).collect();
    work(&live)
}

/// The socket of a live run.
pub fn control_socket_of(run: &LiveRun) -> PathBuf {
    Path::new(LIVE).join(&run.id).join("control.sock")
}

/// The socket of a live run for events.
pub fn event_socket_of(run: &LiveRun) -> PathBuf {
    Path::new(LIVE).join(&run.id).join("events.sock")
}

/// When a live run was registered.
pub fn begun(run: &LiveRun) -> Option<std::time::SystemTime> {
    fs::metadata(Path::new(LIVE).join(&run.id).join("lock")).and_then(|lock| lock.modified()).ok()
}

/// For how many virtual seconds nobody has done anything in a run; none before that is known.
pub fn idle_s(run: &LiveRun) -> Option<f64> {
    let text = fs::read_to_string(Path::new(LIVE).join(&run.id).join(IDLE)).ok()?;
    text.parse().ok().filter(|s: &f64| s.is_finite() && *s >= 0.0)
}

/// Where a run is; none before that is known.
pub fn progress(run: &LiveRun) -> Option<Progress> {
    let text = fs::read(Path::new(LIVE).join(&run.id).join(PROGRESS)).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Opens the registry's own lock, held while runs are registered or swept so that neither sees the other half done.
pub(crate) fn open_registry() -> Result<File> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::machine(
            "a run needs root: it makes namespaces, interfaces and control groups",
            "run it with sudo",
        ));
    }
    private_dir(Path::new(LIVE))?;
    private_dir(Path::new(STATE))?;
    private_dir(&Path::new(LIVE).join("cores"))?;
    let file = lock_file(&Path::new(LIVE).join("lock"))?;
    flock(&file, FlockOperation::LockExclusive).map_err(Error::io(format!("{LIVE}/lock: cannot lock")))?;
    Ok(file)
}

/// Whether whoever made a lock still lives.
pub(crate) fn is_locked(lock: &Path) -> bool {
    // Opening read-only, so that asking about a dead run does not make it a file.
    let Ok(file) = File::open(lock) else { return false };
    matches!(flock(&file, FlockOperation::NonBlockingLockShared), Err(rustix::io::Errno::WOULDBLOCK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_an_earlier_version_registered_is_understood() {
        let text = r#"{"id":"1-a","name":"web","variant":"scaled","out":"/x","pid":7}"#;
        assert!(serde_json::from_str::<LiveRun>(text).unwrap().cores.is_empty());
    }
}
