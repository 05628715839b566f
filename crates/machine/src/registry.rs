//! The registry of runs: who owns which core, and a run's own directories on this machine.
//!
//! A live run keeps its file `lock` locked ([`live`](crate::live)), and one file per core it uses. The kernel drops
//! such locks however a process ends; what it cannot clean up (control groups, state files) is then
//! [swept](crate::sweep), and nothing else is ever touched.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use host::cgroup::Tree;
use host::cores::named;
use rustix::fs::{FlockOperation, flock};
use site::Suspended;

use crate::error::{Error, Result};
use crate::live::{IDLE, LiveRun, PROGRESS, Progress, live_runs, open_registry};
use crate::places::{LIVE, STATE, disks_of, lock_file, private_dir, unused_id};
use crate::suspended::{self, Files};
use crate::sweep::{remove_run, sweep_dead};

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
            TakenCores { held, locks } if held.is_empty() => Ok(CoreLocks::of(locks)),
            TakenCores { held, .. } => Err(in_use(&held[..1])),
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
        let TakenCores { held, locks } = take(cores)?;
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
struct TakenCores {
    locks: Vec<(usize, File)>,
    held: Vec<Held>,
}

/// Takes what can be had of some cores; the registry is locked.
fn take(cores: &[usize]) -> Result<TakenCores> {
    let mut taken = TakenCores { locks: Vec::new(), held: Vec::new() };
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

/// The error for who wants cores that others have.
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
    /// The files of the suspended run that this one goes on with.
    kept: Option<Files>,
    _lock: File,
    _cores: CoreLocks,
}

impl Registration {
    /// Registers a run on cores of its own.
    pub fn new(cores: CoreLocks) -> Result<Registration> {
        Registration::with(cores, None)
    }

    /// Registers a run that goes on with the files of a suspended one.
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

    /// Writes down what is known of the run, which is to be suspended.
    pub fn write_suspended(&self, run: &Suspended) -> Result<()> {
        match &self.kept {
            Some(kept) => kept.write(run),
            None => suspended::prepare(&self.state, run),
        }
    }

    /// Suspends the run, of which nothing lives any more but its files.
    pub fn suspend(&self) -> Result<()> {
        match &self.kept {
            Some(kept) => kept.settle(),
            None => suspended::keep(&self.state, &self.id),
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
        write_whole(&self.live.join("run.json"), run)
    }

    /// Where it is written where the run is.
    pub fn progress_file(&self) -> ProgressFile {
        ProgressFile { path: self.live.join(PROGRESS), written: None }
    }
}

/// The file that says where a run is.
#[derive(Debug)]
pub struct ProgressFile {
    path: PathBuf,
    written: Option<Instant>,
}

/// It is written so often at most while only numbers change.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

impl ProgressFile {
    /// Writes it, if what it says is old. What cannot be written is only missed by who watches the run.
    pub fn write(&mut self, progress: &Progress) {
        if progress.step.is_some() || self.written.is_none_or(|at| at.elapsed() >= PROGRESS_EVERY) {
            // Once its clock goes, it is told at once.
            self.written = progress.step.is_none().then(Instant::now);
            let _ = write_whole(&self.path, progress);
        }
    }
}

/// Writes a file that is whole for whoever reads it.
fn write_whole(path: &Path, what: &impl serde::Serialize) -> Result<()> {
    let partial = path.with_added_extension("new");
    let text = serde_json::to_vec_pretty(what).map_err(Error::io(path.display()))?;
    let write = || -> io::Result<()> {
        File::create(&partial)?.write_all(&text)?;
        fs::rename(&partial, path)
    };
    write().map_err(Error::file(path, "write"))
}

impl Drop for Registration {
    fn drop(&mut self) {
        remove_run(&self.id);
    }
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
}
