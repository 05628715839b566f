//! Suspended runs: `diorama swap`.
//!
//! The files of one lie in `STATE/swapped/ID/`: what its nodes have written (`nodes`), the files behind their disks
//! (`disks`), and `aside.json`, which says what it takes to go on. The directory appears there by one rename, complete.
//! Who goes on with it holds its file `lock`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::Experiment;
use rustix::fs::{FlockOperation, flock};
use site::Suspended;

use crate::damaged_state::{APART, files, is_apart, remove_file, set_apart};
use crate::error::{Error, Result};
use crate::places::{STATE, lock_file, private_dir};

/// The directory of suspended runs, below the runs' state.
const SWAPPED: &str = "swapped";
/// The file that says what it takes to go on with one.
const FILE: &str = "aside.json";
/// That file while it is written.
const PARTIAL: &str = "aside.json.new";
/// A mark that its files are no longer those it was suspended with: a run has gone on with them.
const RESUMED: &str = "resumed";
/// How much room is made for what is known of one, in bytes, before its nodes are ended: more than is added to it then.
const ROOM: usize = 4096;

/// The experiment of a suspended run.
///
/// # Errors
///
/// If the folder does no longer have what it names.
pub fn read_experiment(run: &Suspended) -> Result<Experiment> {
    let name = run.folder.join("experiment.yaml");
    let loaded = model::load_text(&run.experiment, &name, &run.folder, &[]);
    let experiment = loaded.map_err(|e| Error::Experiment(e.render()))?;
    match experiment.nodes.len() == run.nodes.len() {
        true => Ok(experiment),
        false => Err(Error::Usage(format!("{}: is of another experiment", run.id))),
    }
}

/// The text of the file, with room for what may yet be added.
fn text_of(run: &Suspended) -> Result<Vec<u8>> {
    let mut text = serde_json::to_vec(run).map_err(Error::io(FILE))?;
    text.resize(text.len() + ROOM, b' ');
    Ok(text)
}

/// A suspended run in the list of all.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The record of it.
    pub run: Suspended,
    /// How long ago it was suspended.
    pub age: std::time::Duration,
    /// Its state.
    pub state: State,
}

/// The state of a suspended run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Untouched,
    /// Somebody goes on with it now.
    InUse,
    /// Somebody went on with it and did not come to an end: its files are as that left them.
    CutOff,
}

/// The files of a suspended run, for who goes on with it: nobody else can, until the last copy is dropped.
#[derive(Clone, Debug)]
pub struct Files {
    dir: PathBuf,
    _lock: Arc<File>,
}

impl Files {
    /// Files of the nodes, by their names.
    pub(crate) fn nodes(&self) -> PathBuf {
        self.dir.join("nodes")
    }

    /// The files behind the nodes' disks.
    pub(crate) fn disks(&self) -> PathBuf {
        self.dir.join("disks")
    }

    /// Notes that they are about to change.
    pub(crate) fn note_resumed(&self) -> Result<()> {
        let path = self.dir.join(RESUMED);
        File::create(&path).map(drop).map_err(Error::file(&path, "write"))
    }

    /// Makes room for what will be known of it when it is suspended again, and writes down what is known so far.
    pub(crate) fn write(&self, run: &Suspended) -> Result<()> {
        write_partial(&self.dir, &text_of(run)?)
    }

    /// Puts what was written in its place: it is suspended again.
    pub(crate) fn settle(&self) -> Result<()> {
        finish_partial(&self.dir)?;
        let path = self.dir.join(RESUMED);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::file(&path, "remove")(e)),
            _ => Ok(()),
        }
    }

    /// Removes them: the run has come to its end, or nobody wants to go on with it.
    pub fn remove(self) -> Result<()> {
        device::remove_devices(&self.disks())?;
        // First, so that nothing half removed is taken for a run.
        let file = self.dir.join(FILE);
        fs::remove_file(&file).map_err(Error::file(&file, "remove"))?;
        node::remove_tree(&self.dir).map_err(Error::file(&self.dir, "remove"))?;
        // If it was the last.
        let _ = fs::remove_dir(Path::new(STATE).join(SWAPPED));
        Ok(())
    }
}

/// The suspended runs, by name.
pub fn suspended_runs() -> Vec<Listed> {
    let dir = Path::new(STATE).join(SWAPPED);
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut all: Vec<Listed> = entries.filter_map(|entry| listed(&entry.path())).collect();
    all.sort_by(|a, b| (&a.run.name, &a.run.id).cmp(&(&b.run.name, &b.run.id)));
    all
}

/// Suspended runs, and other files of this machine's state, that cannot be read any more: by name, and why. Such a run
/// is set apart, unless somebody has it.
pub fn damaged() -> Vec<(String, String)> {
    let entries = fs::read_dir(Path::new(STATE).join(SWAPPED)).into_iter().flatten().flatten();
    let runs = entries.filter_map(|entry| {
        let (mut dir, why) = (entry.path(), damage(&entry.path())?);
        if !is_apart(&name(&dir)?) && lock(&dir).is_ok() {
            dir = set_apart(&dir, &why);
        }
        Some((name(&dir)?, why))
    });
    let mut all: Vec<_> = runs.collect();
    all.extend(files().into_iter().map(|name| (name, "it was not what was written".to_owned())));
    all.sort();
    all
}

/// Removes one of them, a run with its nodes' files; whether there was one.
pub fn remove_damaged(id: &str) -> Result<bool> {
    let apart = format!("{id}{APART}");
    let Some((name, _)) = damaged().into_iter().find(|(name, _)| name == id || *name == apart) else {
        return Ok(false);
    };
    if remove_file(&name)? {
        return Ok(true);
    }
    let dir = Path::new(STATE).join(SWAPPED).join(name);
    let lock = Arc::new(lock(&dir)?);
    Files { dir, _lock: lock }.remove().map(|()| true)
}

fn name(dir: &Path) -> Option<String> {
    Some(dir.file_name()?.to_str()?.to_owned())
}

/// The damage to the file of a suspended run; none also of what is no run.
fn damage(dir: &Path) -> Option<String> {
    let file = dir.join(FILE);
    match fs::read(&file).map(|text| serde_json::from_slice::<Suspended>(&text)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Ok(Ok(_)) => None,
        Err(e) => Some(format!("its {FILE} cannot be read: {e}")),
        Ok(Err(e)) => Some(format!("its {FILE} is not what was written: {e}")),
    }
}

fn listed(dir: &Path) -> Option<Listed> {
    let file = dir.join(FILE);
    let run = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
    let age = fs::metadata(&file).ok()?.modified().ok()?.elapsed().unwrap_or_default();
    let state = match (lock(dir), dir.join(RESUMED).exists()) {
        (Err(_), _) => State::InUse,
        (Ok(_), true) => State::CutOff,
        (Ok(_), false) => State::Untouched,
    };
    Some(Listed { run, age, state })
}

/// The suspended run that the user means, by its identity or its experiment's name, to go on with.
///
/// # Errors
///
/// If there is none, or several, or somebody goes on with it already.
pub fn take_suspended(which: &str) -> Result<(Listed, Files)> {
    let all = suspended_runs();
    let mut found = all.iter().filter(|l| l.run.id == which || l.run.name == which);
    let (first, more) = (found.next().cloned(), found.next().is_some());
    let known: Vec<_> = all.iter().map(|l| format!("{} ({})", l.run.id, l.run.name)).collect();
    let known = if known.is_empty() { "there is none".to_string() } else { format!("there are {}", known.join(", ")) };
    let apart = format!("{which}{APART}");
    let is_it = |(name, _): &(String, String)| first.is_none() && (name == which || *name == apart);
    if let Some((id, why)) = damaged().into_iter().find(is_it) {
        return Err(Error::Usage(format!("nobody can go on with {id}: {why}; `diorama swap remove {id}` removes it")));
    }
    let Some(found) = first.filter(|_| !more) else {
        return Err(Error::Usage(match more {
            true => format!("`{which}` names several runs that were suspended: {known}"),
            false => format!("`{which}` is no run that was suspended: {known}"),
        }));
    };
    let dir = Path::new(STATE).join(SWAPPED).join(&found.run.id);
    let lock = lock(&dir)?;
    // As it is now that nobody else can change it.
    let found = listed_held(&dir).ok_or_else(|| Error::Usage(format!("`{which}` has come to its end meanwhile")))?;
    Ok((found, Files { dir, _lock: Arc::new(lock) }))
}

fn listed_held(dir: &Path) -> Option<Listed> {
    let file = dir.join(FILE);
    let run = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
    let state = if dir.join(RESUMED).exists() { State::CutOff } else { State::Untouched };
    Some(Listed { run, age: Default::default(), state })
}

fn lock(dir: &Path) -> Result<File> {
    let file = lock_file(&dir.join("lock"))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        let id = dir.file_name().unwrap_or_default().to_string_lossy();
        Error::machine(
            format!("somebody goes on with {id} already"),
            "see `diorama swap list`; `diorama swap out` suspends it again",
        )
    })?;
    Ok(file)
}

/// Writes down what is known of a run that is going to be suspended, and makes room for what will be: a disk that is
/// full is to be known while nothing has been lost.
pub(crate) fn prepare(state: &Path, run: &Suspended) -> Result<()> {
    private_dir(&Path::new(STATE).join(SWAPPED))?;
    let dir = state.join("aside");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(Error::file(&dir, "create"))?;
    lock_file(&dir.join("lock"))?;
    write_partial(&dir, &text_of(run)?)
}

/// Moves what is to be kept of a run, whose state is in `state`, to the suspended ones.
pub(crate) fn keep(state: &Path, id: &str) -> Result<()> {
    let dir = state.join("aside");
    for part in ["nodes", "disks"] {
        let from = state.join(part);
        if from.exists() {
            fs::rename(&from, dir.join(part)).map_err(Error::file(&from, "move"))?;
        }
    }
    // Those that are in use still are noted there, and go when somebody removes it.
    let _ = device::remove_devices(&dir.join("disks"));
    finish_partial(&dir)?;
    let place = Path::new(STATE).join(SWAPPED).join(id);
    loop {
        // Another run's files may have been the last there, until now.
        private_dir(&Path::new(STATE).join(SWAPPED))?;
        match fs::rename(&dir, &place) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && dir.exists() => {}
            done => break done.map_err(Error::file(&dir, "move"))?,
        }
    }
    sync(&Path::new(STATE).join(SWAPPED))
}

/// Removes the loop devices that were made for the disks of runs that were suspended, gone on with, and killed; and
/// what is left of others.
pub(crate) fn sweep() {
    for entry in fs::read_dir(Path::new(STATE).join(SWAPPED)).into_iter().flatten().flatten() {
        if entry.path().join(RESUMED).exists() && lock(&entry.path()).is_ok() {
            // The next command tries again.
            let _ = device::remove_devices(&entry.path().join("disks"));
        } else if !entry.path().join(FILE).exists() && lock(&entry.path()).is_ok() {
            // Its removal was cut off.
            let _ = node::remove_tree(&entry.path());
        }
    }
    // If nothing is there: a run that was going to be suspended was killed. Who needs the directory makes it.
    let _ = fs::remove_dir(Path::new(STATE).join(SWAPPED));
}

/// In place of what may be there: its room is taken already.
fn write_partial(dir: &Path, text: &[u8]) -> Result<()> {
    let path = dir.join(PARTIAL);
    let write = || -> io::Result<()> {
        let file = File::options().create(true).truncate(false).write(true).open(&path)?;
        let room = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        let mut text = text.to_vec();
        text.resize(text.len().max(room), b' ');
        file.write_all_at(&text, 0)?;
        file.sync_all()
    };
    write().map_err(Error::file(&path, "write"))
}

fn finish_partial(dir: &Path) -> Result<()> {
    // All that the nodes have written, too.
    sync(dir)?;
    let path = dir.join(PARTIAL);
    fs::rename(&path, dir.join(FILE)).map_err(Error::file(&path, "rename"))
}

/// Writes out the file system of a directory.
fn sync(dir: &Path) -> Result<()> {
    let opened = File::open(dir).map_err(Error::file(dir, "open"))?;
    rustix::fs::syncfs(opened).map_err(Error::file(dir, "write out"))
}
