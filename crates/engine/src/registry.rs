//! The live runs of this machine: who owns which core, and what dead runs left to be removed.
//!
//! Each run has a directory `/run/diorama/ID/` with a file `lock` that it keeps locked while it lives, and one locked
//! file per core it uses. The kernel drops such locks however a process ends, so a lock that can be taken means that
//! its run is dead; what the kernel cannot clean up (control groups, state files) is then removed here, and nothing
//! else is ever touched.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::cgroup::Tree;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::notice::warn;

/// Where live runs are registered.
const LIVE: &str = "/run/diorama";
/// Where runs keep what is too large for memory, the nodes' writable layers, and what outlives them.
pub const STATE: &str = "/var/lib/diorama";

/// What other commands need to know about a live run.
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
}

/// The right to some cores, held until the last copy is dropped: for all runs of one command, and for whatever else
/// would disturb a run on them, as `dilate --cpu` does.
#[derive(Clone, Debug)]
pub struct CoreLocks {
    _locks: Arc<Vec<File>>,
}

impl CoreLocks {
    /// Takes the cores, after removing what dead runs left behind; fails, naming the run, if a run has one of them.
    pub fn claim(cores: &[usize]) -> Result<CoreLocks> {
        let registry = open_registry()?;
        sweep_dead(&registry);
        let locks = cores.iter().map(|core| claim_core(*core)).collect::<Result<_>>()?;
        Ok(CoreLocks { _locks: Arc::new(locks) })
    }
}

/// A registered run; its locks are held until it is dropped.
#[derive(Debug)]
pub struct Registration {
    /// The run's identity: unique among live and dead runs, and safe in file names.
    pub id: String,
    live: PathBuf,
    state: PathBuf,
    _lock: File,
    _cores: CoreLocks,
}

impl Registration {
    /// Registers a run on cores of its own.
    pub fn new(cores: CoreLocks) -> Result<Registration> {
        let _registry = open_registry()?;
        let id = unused_id();
        let live = Path::new(LIVE).join(&id);
        let state = Path::new(STATE).join(&id);
        private_dir(&live)?;
        let lock = lock_file(&live.join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(Error::file(&live, "lock a new run's file"))?;
        private_dir(&state)?;
        Ok(Registration { id, live, state, _lock: lock, _cores: cores })
    }

    /// A private directory on disk for the nodes' writable layers and bundles.
    pub fn state_dir(&self) -> &Path {
        &self.state
    }

    /// The socket at which `diorama exec` finds the engine.
    pub fn control_socket(&self) -> PathBuf {
        self.live.join("control.sock")
    }

    /// The control groups of the run.
    pub fn groups(&self) -> Result<Tree> {
        Ok(Tree::of(&self.id)?)
    }

    /// Makes the run findable by its name and directory.
    pub fn publish(&self, run: &LiveRun) -> Result<()> {
        let path = self.live.join("run.json");
        let partial = self.live.join("run.json.new");
        let text = serde_json::to_vec_pretty(run).map_err(Error::io("run.json"))?;
        let write = || -> io::Result<()> {
            File::create(&partial)?.write_all(&text)?;
            fs::rename(&partial, &path)
        };
        write().map_err(Error::file(&path, "write"))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        remove_run(&self.id);
    }
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

/// Removes what dead runs left behind; does nothing without root, or where another command is about to.
pub fn sweep() {
    if rustix::process::geteuid().is_root()
        && let Ok(registry) = lock_file(&Path::new(LIVE).join("lock"))
        && flock(&registry, FlockOperation::NonBlockingLockExclusive).is_ok()
    {
        sweep_dead(&registry);
    }
}

/// Opens the registry's own lock, held while runs are registered or swept so that neither sees the other half done.
fn open_registry() -> Result<File> {
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

fn sweep_dead(_registry: &File) {
    let ids = |dir: &str| {
        fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
            .filter_map(|e| e.file_name().into_string().ok())
            .filter(|name| is_id(name))
            .collect::<Vec<_>>()
    };
    let mut all = ids(LIVE);
    all.extend(ids(STATE));
    all.sort();
    all.dedup();
    for id in all {
        if !is_locked(&Path::new(LIVE).join(&id).join("lock")) {
            if let Some(cores) = Tree::of(&id).ok().and_then(|tree| tree.held()) {
                warn(format_args!("cores {cores} still belonged to run {id}, which was killed, and go back to all"));
            }
            remove_run(&id);
        }
    }
    // Those of a killed `dilate --cpu`, which is no run.
    for dead in cpu::stale_limits().unwrap_or_default() {
        if let Err(e) = dead.sweep() {
            warn(format_args!("left behind by {}: {e}", dead.id()));
        }
    }
}

/// Removes all that a run may have left that outlives its processes. Failures are reported, not fatal: the next command
/// tries again.
fn remove_run(id: &str) {
    if let Err(e) = Tree::of(id).and_then(|tree| tree.sweep()) {
        warn(format_args!("left behind by run {id}: {e}"));
    }
    for dir in [Path::new(STATE).join(id), Path::new(LIVE).join(id)] {
        // What a node wrote may be deeper than the standard library could remove.
        if let Err(e) = node::remove_tree(&dir) {
            warn(format_args!("{}: left behind by run {id}: {e}", dir.display()));
            // The live directory goes last, and stays if the state could not be removed.
            return;
        }
    }
}

fn claim_core(core: usize) -> Result<File> {
    let path = Path::new(LIVE).join("cores").join(format!("{core}.lock"));
    let file = lock_file(&path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let owners: Vec<_> =
                live_runs().iter().map(|r| format!("{} ({}), pid {}", r.name, r.variant, r.pid)).collect();
            let by = if owners.is_empty() { "another run".to_string() } else { owners.join(", ") };
            Err(Error::machine(
                format!("core {core} is in use by {by}"),
                "wait for that run to end, or stop it with Ctrl-C; two runs on one core would disturb each other",
            ))
        }
        Err(e) => Err(Error::file(&path, "lock")(e)),
    }
}

fn is_locked(lock: &Path) -> bool {
    // Opening read-only, so that asking about a dead run does not make it a file.
    let Ok(file) = File::open(lock) else { return false };
    matches!(flock(&file, FlockOperation::NonBlockingLockShared), Err(rustix::io::Errno::WOULDBLOCK))
}

fn lock_file(path: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(Error::file(path, "open"))
}

fn private_dir(path: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(Error::file(path, "create"))
}

/// Process id and time make an identity that no other live or dead run has; hexadecimal keeps it safe everywhere.
fn unused_id() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", std::process::id(), now.as_micros())
}

fn is_id(name: &str) -> bool {
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
