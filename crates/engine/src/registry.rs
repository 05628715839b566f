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

use host::Change;
use host::cgroup::Tree;
use host::cores::named;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::aside::{self, Files};
use crate::error::{Error, Result};
use crate::images;
use crate::notice::warn;

/// Where live runs are registered.
const LIVE: &str = "/run/diorama";
/// The file of a live run that says for how long nobody has done anything in it.
const IDLE: &str = "idle";
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
    /// The cores that it uses; empty if a version registered it that did not say.
    #[serde(default)]
    pub cores: Vec<usize>,
    /// The images that its nodes have as their roots.
    #[serde(default)]
    pub images: Vec<String>,
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
        match take(cores)? {
            Taken { held, locks } if held.is_empty() => Ok(CoreLocks::of(locks)),
            Taken { held, .. } => Err(in_use(&held[..1])),
        }
    }

    /// Takes those cores that `choose` chooses of those among `cores` that nobody has, as long as nobody else can take
    /// any; fails with who has the others if it chooses none. What else it gives is passed on.
    pub fn choose<T>(
        cores: &[usize],
        choose: impl FnOnce(&[usize], &[Held]) -> Result<(T, Vec<usize>)>,
    ) -> Result<(T, CoreLocks)> {
        let registry = open_registry()?;
        sweep_dead(&registry);
        let Taken { held, locks } = take(cores)?;
        let free: Vec<usize> = locks.iter().map(|(core, _)| *core).collect();
        let (chosen, wanted) = choose(&free, &held)?;
        let locks = locks.into_iter().filter(|(core, _)| wanted.contains(core)).collect();
        Ok((chosen, CoreLocks::of(locks)))
    }

    fn of(locks: Vec<(usize, File)>) -> CoreLocks {
        CoreLocks { _locks: Arc::new(locks.into_iter().map(|(_, lock)| lock).collect()) }
    }
}

/// A core that others have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its number.
    pub core: usize,
    /// Who has it.
    pub by: String,
}

/// The cores that could be had, and those that could not.
struct Taken {
    locks: Vec<(usize, File)>,
    held: Vec<Held>,
}

/// Takes what can be had of some cores; the registry is locked.
fn take(cores: &[usize]) -> Result<Taken> {
    let mut taken = Taken { locks: Vec::new(), held: Vec::new() };
    let mut live = None;
    for &core in cores {
        let path = Path::new(LIVE).join("cores").join(format!("{core}.lock"));
        let mut file = lock_file(&path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                // For who finds no run that has it.
                let note = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
                note.map_err(Error::file(&path, "write"))?;
                taken.locks.push((core, file));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let by = holder(core, live.get_or_insert_with(live_runs), fs::read_to_string(&path).ok());
                taken.held.push(Held { core, by });
            }
            Err(e) => return Err(Error::file(&path, "lock")(e)),
        }
    }
    Ok(taken)
}

/// Who has a core: a live run, or else the process whose number is in the core's file.
fn holder(core: usize, live: &[LiveRun], noted: Option<String>) -> String {
    let has = |run: &&LiveRun| run.cores.contains(&core) || run.cores.is_empty();
    let runs: Vec<_> = live.iter().filter(has).map(|r| format!("{} ({}), pid {}", r.name, r.variant, r.pid)).collect();
    match noted.filter(|pid| pid.parse::<u32>().is_ok()) {
        _ if !runs.is_empty() => runs.join(", "),
        Some(pid) => format!("another command, pid {pid}"),
        None => "another run".into(),
    }
}

/// What to tell who wants cores that others have.
pub fn in_use(held: &[Held]) -> Error {
    Error::machine(
        told(held),
        "wait for that run to end (`--wait` does), or stop it with Ctrl-C; two runs on one core would disturb each \
         other",
    )
}

/// `cores 0,2 are in use by web (scaled), pid 7; core 5 is in use by …`
pub fn told(held: &[Held]) -> String {
    let mut by: Vec<(&str, Vec<usize>)> = Vec::new();
    for Held { core, by: who } in held {
        match by.iter_mut().find(|(other, _)| other == who) {
            Some((_, cores)) => cores.push(*core),
            None => by.push((who, vec![*core])),
        }
    }
    let one = |(who, cores): &(&str, Vec<usize>)| {
        format!("{} {} in use by {who}", named(cores), if cores.len() == 1 { "is" } else { "are" })
    };
    by.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// A registered run; its locks are held until it is dropped.
#[derive(Debug)]
pub struct Registration {
    /// The run's identity: unique among live and dead runs, and safe in file names.
    pub id: String,
    live: PathBuf,
    state: PathBuf,
    /// What the run goes on with.
    kept: Option<Files>,
    _lock: File,
    _cores: CoreLocks,
}

impl Registration {
    /// Registers a run on cores of its own.
    pub fn new(cores: CoreLocks) -> Result<Registration> {
        Registration::with(cores, None)
    }

    /// The same for one that goes on with the files of a run that was put aside.
    pub fn with(cores: CoreLocks, kept: Option<Files>) -> Result<Registration> {
        let _registry = open_registry()?;
        let id = unused_id();
        let live = Path::new(LIVE).join(&id);
        let state = Path::new(STATE).join(&id);
        private_dir(&live)?;
        let lock = lock_file(&live.join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(Error::file(&live, "lock a new run's file"))?;
        private_dir(&state)?;
        Ok(Registration { id, live, state, kept, _lock: lock, _cores: cores })
    }

    /// A private directory on disk for the nodes' writable layers and bundles.
    pub fn state_dir(&self) -> &Path {
        &self.state
    }

    /// A directory for the files behind the nodes' disks.
    pub fn disks_dir(&self) -> PathBuf {
        self.kept.as_ref().map_or_else(|| disks_of(&self.state), Files::disks)
    }

    /// Where the nodes of the run that this one goes on with have left what they wrote.
    pub fn kept_nodes(&self) -> Option<PathBuf> {
        self.kept.as_ref().map(Files::nodes)
    }

    /// The run begins to change what it goes on with.
    pub fn note_begin(&self) -> Result<()> {
        self.kept.as_ref().map_or(Ok(()), Files::note_resumed)
    }

    /// Writes down what is known of the run, which is to be put aside.
    pub fn write_aside(&self, text: &[u8]) -> Result<()> {
        match &self.kept {
            Some(kept) => kept.write(text),
            None => aside::prepare(&self.state, text),
        }
    }

    /// Puts the run aside, of which nothing lives any more but its files.
    pub fn put_aside(&self) -> Result<()> {
        match &self.kept {
            Some(kept) => kept.settle(),
            None => aside::keep(&self.state, &self.id),
        }
    }

    /// The socket at which `diorama exec` finds the engine.
    pub fn control_socket(&self) -> PathBuf {
        self.live.join("control.sock")
    }

    /// The socket at which `diorama event` finds the run.
    pub fn event_socket(&self) -> PathBuf {
        self.live.join("events.sock")
    }

    /// The control groups of the run.
    pub fn groups(&self) -> Result<Tree> {
        Ok(Tree::of(&self.id)?)
    }

    /// Where it is written for how long nobody has done anything in the run: virtual seconds, as text.
    pub fn idle_file(&self) -> PathBuf {
        self.live.join(IDLE)
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

/// The socket of a live run for events.
pub fn event_socket_of(run: &LiveRun) -> PathBuf {
    Path::new(LIVE).join(&run.id).join("events.sock")
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

/// Makes the directory of what is kept from run to run, if it is not there.
pub fn make_state_directory() -> Result<()> {
    private_dir(Path::new(STATE))
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
    aside::sweep();
    images::sweep();
    let slices = host::slices::sweep().map(Vec::from_iter);
    let idle_memory = host::reclaim::sweep();
    for (whose, restored) in
        [("the scheduler's ", slices), ("vm.", host::writeback::sweep()), ("DAMON's ", idle_memory)]
    {
        match restored {
            Ok(all) => all.iter().for_each(|Change { setting, before, during }| {
                let still = format!("{whose}{setting} was still {during}");
                warn(format_args!("{still}, by a run that was killed: it is {before} again"));
            }),
            Err(e) => warn(format_args!("left behind by a run that was killed: {e}")),
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
    if let Err(e) = device::remove_devices(&disks_of(&Path::new(STATE).join(id))) {
        warn(format_args!("left behind by run {id}: {e}"));
        // Its state goes when they have: they are noted there.
        return;
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

/// Where a run has the files behind its nodes' disks, below its private directory.
fn disks_of(state: &Path) -> PathBuf {
    state.join("disks")
}

fn is_locked(lock: &Path) -> bool {
    // Opening read-only, so that asking about a dead run does not make it a file.
    let Ok(file) = File::open(lock) else { return false };
    matches!(flock(&file, FlockOperation::NonBlockingLockShared), Err(rustix::io::Errno::WOULDBLOCK))
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

fn is_id(name: &str) -> bool {
    name.split_once('-').is_some_and(|(pid, time)| {
        [pid, time].iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(name: &str, cores: &[usize]) -> LiveRun {
        let (id, variant) = ("1-a".into(), "scaled".into());
        LiveRun {
            id,
            name: name.into(),
            variant,
            out: PathBuf::new(),
            pid: 7,
            cores: cores.to_vec(),
            images: Vec::new(),
        }
    }

    #[test]
    fn who_has_a_core_is_named() {
        let runs = [live("web", &[0, 1]), live("tls", &[2, 3])];
        assert_eq!(holder(1, &runs, Some("9".into())), "web (scaled), pid 7");
        assert_eq!(holder(4, &runs, Some("9".into())), "another command, pid 9");
        assert_eq!(holder(4, &runs, Some("9x".into())), "another run");
        assert_eq!(
            (holder(4, &[], None), holder(4, &[live("old", &[])], None)),
            ("another run".into(), "old (scaled), pid 7".into())
        );
        let held = |core: usize, by: &str| Held { core, by: by.into() };
        let all = [held(0, "web, pid 7"), held(2, "tls, pid 8"), held(1, "web, pid 7")];
        assert_eq!(told(&all), "cores 0,1 are in use by web, pid 7; core 2 is in use by tls, pid 8");
        let error = in_use(&all[..1]).to_string();
        assert!(error.starts_with("core 0 is in use by web, pid 7") && error.contains("`--wait`"), "{error}");
    }

    #[test]
    fn a_run_that_an_earlier_version_registered_is_understood() {
        let text = r#"{"id":"1-a","name":"web","variant":"scaled","out":"/x","pid":7}"#;
        assert!(serde_json::from_str::<LiveRun>(text).unwrap().cores.is_empty());
    }

    #[test]
    fn only_our_own_names_are_swept() {
        assert!(is_id(&unused_id()));
        for other in ["cores", "lock", "..", "a-", "-b", "a-b/../c", "run"] {
            assert!(!is_id(other), "{other}");
        }
    }
}
