//! Images of nodes' files that this machine keeps: `diorama image`.
//!
//! One lies in `STATE/images/NAME/`: the OCI layout (`oci`), what is known of it (`image.json`), and, once a node has
//! had it as its root, its files (`tree`), which all nodes of all runs share. The directory appears there by one
//! rename, complete, and so does `tree` in it. Who uses it holds a shared lock on its file `lock`.

mod contents;
mod origin;
mod pull;
mod reference;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use host::warn;
use model::Experiment;
use model::yaml::wrong_word;
use node::Unpacked;
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use site::{Base, KeptAbout, Origin};

pub use self::contents::ImageFile;
pub use self::origin::ImageSource;
use self::origin::Opened;
pub(crate) use self::origin::base_of;
pub use self::pull::{kept_image, pull_image};
pub use self::reference::image_reference;
use crate::damaged_state::{APART, is_apart, set_apart};
use crate::error::{Error, Result};
use crate::live::live_runs;
use crate::places::{STATE, lock_file, private_dir, unused_id};
use crate::suspended::suspended_runs;

/// Below the runs' state: where the images are.
const IMAGES: &str = "images";
/// The file that describes one.
const ABOUT: &str = "image.json";
/// Its layout.
const LAYOUT: &str = "oci";
/// Its files, and what else is known of them.
const TREE: &str = "tree";
const UNPACKED: &str = "unpacked.json";
/// The prefix of those that are being made, and of those that are being removed.
const PART: &str = ".part-";
/// How much a command that saves gives way to the run whose node it reads.
const NICE: i32 = 19;

/// An image in the list of those that are kept.
#[derive(Clone, Debug)]
pub struct ListedImage {
    /// The record of it.
    pub about: KeptAbout,
    /// How long ago it was saved.
    pub age: Duration,
    /// The live runs, and those that were suspended, whose nodes have it as their root.
    pub used_by: Vec<String>,
    /// Whether its files have been unpacked.
    pub is_unpacked: bool,
}

/// An image that nobody can remove until this is dropped.
#[derive(Debug)]
pub(crate) struct KeptImage {
    unpacked: Unpacked,
    _lock: File,
}

impl KeptImage {
    /// Takes an image, whose files are unpacked if this is the first time that somebody needs them.
    pub(crate) fn take(name: &str) -> Result<KeptImage> {
        let (dir, lock) = share(name)?;
        let unpacking = lock_file(&dir.join("unpacking"))?;
        // Of several runs that begin at once, the others wait for the one that unpacks.
        flock(&unpacking, FlockOperation::LockExclusive).map_err(Error::file(&dir, "lock"))?;
        let tree = dir.join(TREE);
        if !tree.join(UNPACKED).exists() {
            unpack(&dir).map_err(|e| match e {
                Error::Node(node::Error::Input(what)) => Error::Usage(format!("image:{name}: {what}")),
                other => other,
            })?;
        }
        let unpacked: Unpacked = match read_unpacked(&tree) {
            Ok(unpacked) => unpacked,
            // All of it can be had again.
            Err(e) if e.kind() == io::ErrorKind::InvalidData || e.kind() == io::ErrorKind::UnexpectedEof => {
                warn(format_args!("{} is damaged ({e}); it is unpacked anew", tree.join(UNPACKED).display()));
                node::remove_tree(&tree).map_err(Error::file(&tree, "remove"))?;
                unpack(&dir)?;
                read_unpacked(&tree).map_err(Error::file(&tree.join(UNPACKED), "read"))?
            }
            Err(e) => return Err(Error::file(&tree.join(UNPACKED), "read")(e)),
        };
        Ok(KeptImage { unpacked: Unpacked { root: tree.join("root"), ..unpacked }, _lock: lock })
    }

    /// Its files.
    pub(crate) fn unpacked(&self) -> &Unpacked {
        &self.unpacked
    }
}

/// The known facts of the files of an image that are unpacked.
fn read_unpacked(tree: &Path) -> io::Result<Unpacked> {
    Ok(serde_json::from_slice(&fs::read(tree.join(UNPACKED))?)?)
}

/// Unpacks an image into its own directory: all of it, or nothing.
fn unpack(dir: &Path) -> Result<()> {
    let part = dir.join(format!("{PART}{TREE}"));
    node::remove_tree(&part).map_err(Error::file(&part, "remove"))?;
    let work = || -> Result<()> {
        let unpacked = node::unpack(&dir.join(LAYOUT), &part.join("root"))?;
        let file = part.join(UNPACKED);
        let text = serde_json::to_vec(&unpacked).map_err(Error::io(UNPACKED))?;
        fs::write(&file, text).map_err(Error::file(&file, "write"))?;
        written_out(&part)?;
        fs::rename(&part, dir.join(TREE)).map_err(Error::file(&part, "rename"))
    };
    work().inspect_err(|_| drop(node::remove_tree(&part)))
}

/// That the images are there which an experiment names. Nobody but root may look.
pub fn must_be_kept(experiment: &Experiment) -> Result<()> {
    let gone = |node: &&model::Node| match &node.root {
        model::Root::Image(name) => dir_of(name).symlink_metadata().is_err_and(|e| e.kind() == io::ErrorKind::NotFound),
        _ => false,
    };
    match experiment.nodes.iter().find(gone) {
        Some(model::Node { root: model::Root::Image(name), place, .. }) => {
            let place = place.as_ref().map_or(String::new(), |(file, line)| format!("{file}:{line}: "));
            Err(missing(name, &place))
        }
        _ => Ok(()),
    }
}

/// That there is no image of this name; `place` is where it is asked for.
pub(crate) fn missing(name: &str, place: &str) -> Error {
    let known: Vec<String> = all().into_iter().map(|about| about.name).collect();
    let near = model::nearest(name, &known).map(|near| format!("; did you mean `{near}`?"));
    let known = match known.is_empty() {
        true => "; `diorama image save` makes one".to_string(),
        false => near.unwrap_or_else(|| format!("; there are {}", known.join(", "))),
    };
    Error::Usage(format!("{place}this machine keeps no image `{name}`{known}"))
}

/// The images that are kept, by name.
pub fn images() -> Vec<ListedImage> {
    let live = live_runs();
    let suspended = suspended_runs();
    let listed = |about: KeptAbout| {
        let runs = live.iter().filter(|run| run.images.contains(&about.name));
        let runs = runs.map(|run| format!("{}/{} (pid {})", run.name, run.variant, run.pid));
        let put = suspended.iter().filter(|listed| listed.run.images.contains(&about.name));
        let put = put.map(|listed| format!("{} ({}, suspended)", listed.run.id, listed.run.name));
        let saved = UNIX_EPOCH + Duration::from_secs(about.saved_unix_s);
        ListedImage {
            age: SystemTime::now().duration_since(saved).unwrap_or_default(),
            used_by: runs.chain(put).collect(),
            is_unpacked: dir_of(&about.name).join(TREE).exists(),
            about,
        }
    };
    all().into_iter().map(listed).collect()
}

/// Saves what a node has written, with what that lies over, as an image of a new name. Of a live run, its site does it.
///
/// # Errors
///
/// If there is one of this name already, the node's files cannot be had, or there is no room; nothing is left then.
pub fn save_image(source: &ImageSource, node: &str, name: &str) -> Result<KeptAbout> {
    match source {
        ImageSource::Live(run) => origin::save_live(run, node, name),
        ImageSource::Suspended(id) => {
            let Opened { origin, base, written, _held } = origin::open_suspended(id, node)?;
            save_written(name, node, &origin, base, &written, || Ok(()))
        }
    }
}

/// Makes an image of what a node has written over `base`, unless `is_wanted` says meanwhile that it is in vain. Gives
/// way to all else that this process does.
pub(crate) fn save_written(
    name: &str,
    node: &str,
    origin: &Origin,
    base: Base,
    written: &OwnedFd,
    is_wanted: impl Fn() -> Result<()>,
) -> Result<KeptAbout> {
    if let Some(what) = wrong_word(name) {
        return Err(Error::Usage(what));
    }
    let part = begin(name)?;
    let (base, _held) = origin::base_to_read(base)?;
    // Of this thread; where that is not heeded, it only costs more.
    let _ = rustix::process::nice(NICE);
    let about =
        node::About { name: name.into(), source: format!("{node} of {}/{}", origin.experiment, origin.variant) };
    let go_on = || is_wanted().map_err(|e| io::Error::other(e.to_string()));
    let saved = node::save(&part.dir.join(LAYOUT), &base, written, &about, &go_on);
    is_wanted()?;
    let saved = saved?;
    let about = KeptAbout {
        name: name.into(),
        versions: origin.versions.clone(),
        experiment: origin.experiment.clone(),
        variant: origin.variant.clone(),
        run: origin.run.clone(),
        node: node.into(),
        reference: None,
        saved_unix_s: unix_s(),
        digest: saved.digest,
        bytes: saved.bytes,
        over: saved.over.map(|host| host.name().to_string()),
        left_out: saved.left_out,
        changed: saved.changed,
    };
    keep(&part, &about)?;
    Ok(about)
}

/// Begins an image of a new name.
fn begin(name: &str) -> Result<Part> {
    let _all = lock_all()?;
    if dir_of(name).exists() {
        return Err(is_taken(name));
    }
    Part::begin()
}

/// Gives an image that is complete its name.
fn keep(part: &Part, about: &KeptAbout) -> Result<()> {
    let file = part.dir.join(ABOUT);
    let text = serde_json::to_vec_pretty(about).map_err(Error::io(ABOUT))?;
    let write = || File::create(&file).and_then(|mut f| f.write_all(&text).and_then(|()| f.sync_all()));
    write().map_err(Error::file(&file, "write"))?;
    let _all = lock_all()?;
    renameat_with(CWD, &part.dir, CWD, dir_of(&about.name), RenameFlags::NOREPLACE).map_err(|e| match e {
        rustix::io::Errno::EXIST => is_taken(&about.name),
        e => Error::file(&part.dir, "rename")(e),
    })?;
    written_out(&home())
}

fn is_taken(name: &str) -> Error {
    let what = format!("there is an image `{name}` already: choose another name, or `diorama image remove {name}`");
    Error::Usage(what)
}

/// The host's clock, in seconds since 1970.
fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Removes an image.
///
/// # Errors
///
/// If there is none of this name, or a run needs it.
pub fn remove_image(name: &str) -> Result<()> {
    let plain = if is_apart(name) { name.rsplit_once('.').map_or(name, |(plain, _)| plain) } else { name };
    if let Some(what) = wrong_word(plain) {
        return Err(Error::Usage(what));
    }
    let all = lock_all()?;
    // One that is damaged, and set apart, is still called by its name as long as nothing else has that.
    let apart = format!("{name}{APART}");
    let name = if !dir_of(name).exists() && dir_of(&apart).exists() { &apart } else { name };
    let dir = dir_of(name);
    if !dir.exists() {
        return Err(missing(name, ""));
    }
    let users: Vec<String> =
        images().into_iter().filter(|i| i.about.name == name).flat_map(|listed| listed.used_by).collect();
    let lock = lock_file(&dir.join("lock"))?;
    let is_free = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
    if !is_free || !users.is_empty() {
        let users = if users.is_empty() { "a run".into() } else { users.join(", ") };
        return Err(Error::machine(
            format!("the image `{name}` is in use by {users}"),
            "end that run first, or `diorama swap remove` it if it was suspended",
        ));
    }
    let gone = home().join(format!("{PART}{}", unused_id()));
    fs::rename(&dir, &gone).map_err(Error::file(&dir, "rename"))?;
    drop(all);
    node::remove_tree(&gone).map_err(Error::file(&gone, "remove"))
}

/// Removes what killed commands have left half done.
pub(crate) fn sweep() {
    let Ok(all) = File::open(home().join("lock")) else { return };
    // Somebody makes or removes one just now.
    if flock(&all, FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    for entry in fs::read_dir(home()).into_iter().flatten().flatten() {
        let (dir, half) = (entry.path(), entry.file_name().to_string_lossy().starts_with(PART));
        let (part, guard) = match half {
            true => (dir.clone(), dir.join("lock")),
            false => (dir.join(format!("{PART}{TREE}")), dir.join("unpacking")),
        };
        let is_held = |file: &File| flock(file, FlockOperation::NonBlockingLockExclusive).is_err();
        if part.is_dir()
            && !File::open(&guard).is_ok_and(|file| is_held(&file))
            && let Err(e) = node::remove_tree(&part)
        {
            warn(format_args!("{}: left behind by a command that was killed: {e}", part.display()));
        }
    }
}

/// An image that is being made. If it is dropped before it has its name, nothing is left of it.
struct Part {
    dir: PathBuf,
    _lock: File,
}

impl Part {
    fn begin() -> Result<Part> {
        let dir = home().join(format!("{PART}{}", unused_id()));
        private_dir(&dir)?;
        let lock = lock_file(&dir.join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(Error::file(&dir, "lock"))?;
        Ok(Part { dir, _lock: lock })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = node::remove_tree(&self.dir);
    }
}

/// Takes a share in an image, by which nobody can remove it, and gives its directory.
fn share(name: &str) -> Result<(PathBuf, File)> {
    let dir = dir_of(name);
    let _all = lock_all()?;
    if !dir.exists() {
        return Err(missing(name, ""));
    }
    let lock = lock_file(&dir.join("lock"))?;
    if let Some(why) = damage(&dir) {
        let what = format!("the image `{name}` is damaged: {why}; `diorama image list` sets it apart");
        return Err(Error::Usage(what));
    }
    // A command that has saved it, and that ends just now, may have all of it for another moment.
    flock(&lock, FlockOperation::LockShared).map_err(Error::file(&dir, "lock"))?;
    Ok((dir, lock))
}

fn home() -> PathBuf {
    Path::new(STATE).join(IMAGES)
}

fn dir_of(name: &str) -> PathBuf {
    home().join(name)
}

/// The fault of the description of an image; none if it can be used.
fn damage(dir: &Path) -> Option<String> {
    match fs::read(dir.join(ABOUT)).map(|text| serde_json::from_slice::<KeptAbout>(&text)) {
        Ok(Ok(about)) if dir.file_name().is_some_and(|name| *name == *about.name) => None,
        Ok(Ok(about)) => Some(format!("it says that it is `{}`", about.name)),
        Ok(Err(e)) => Some(format!("its {ABOUT} is not what was written: {e}")),
        Err(e) => Some(format!("its {ABOUT} cannot be read: {e}")),
    }
}

/// Images that cannot be read any more: by name, and why. One that nobody has is set apart, and its name is free.
pub fn damaged_images() -> Vec<(String, String)> {
    let Ok(_all) = lock_all() else { return Vec::new() };
    let entries = fs::read_dir(home()).into_iter().flatten().flatten();
    let damaged = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).filter_map(|entry| {
        let name = entry.file_name().into_string().ok().filter(|name| !name.starts_with(PART))?;
        let why = damage(&entry.path())?;
        if is_apart(&name) {
            return Some((name, why));
        }
        let lock = lock_file(&entry.path().join("lock")).ok()?;
        let dir = match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => set_apart(&entry.path(), &why),
            Err(_) => entry.path(),
        };
        Some((dir.file_name()?.to_str()?.to_owned(), why))
    });
    let mut damaged: Vec<_> = damaged.collect();
    damaged.sort();
    damaged
}

fn all() -> Vec<KeptAbout> {
    let about = |dir: PathBuf| serde_json::from_slice(&fs::read(dir.join(ABOUT)).ok()?).ok();
    let kept = |e: &fs::DirEntry| !e.file_name().to_string_lossy().starts_with(PART);
    let entries = fs::read_dir(home()).into_iter().flatten().flatten().filter(kept);
    let mut all: Vec<KeptAbout> = entries.filter_map(|e| about(e.path())).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// Keeps others from making, taking and removing images, until it is dropped.
fn lock_all() -> Result<File> {
    private_dir(&home())?;
    let file = lock_file(&home().join("lock"))?;
    flock(&file, FlockOperation::LockExclusive).map_err(Error::file(&home(), "lock"))?;
    Ok(file)
}

/// Writes out the file system of a directory.
fn written_out(dir: &Path) -> Result<()> {
    let opened = File::open(dir).map_err(Error::file(dir, "open"))?;
    rustix::fs::syncfs(opened).map_err(Error::file(dir, "write out"))
}
