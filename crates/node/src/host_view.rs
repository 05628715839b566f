//! View of a node that shares the host's root: programs and their settings, not the host's data.
//!
//! The node's root is an overlay whose second layer, made here once per run on a file system in memory,
//! hides parts of the host's root below it: a *whiteout* (character device 0:0) hides a name, an *opaque*
//! directory hides what the host has in it (kernel documentation, `overlayfs.rst`).
//!
//! Only [`SHOWN`] of the top level is visible. Below it a node sees what every user of the host may
//! read and nothing more: its root would otherwise read the host's password hashes, keys and databases.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat};

use host::mounts;

use crate::error::Error;

/// Top-level directories (or symbolic links) of the host that are shown, hidden parts apart.
const SHOWN: [&str; 11] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32", "libo32", "usr", "etc", "var", "opt"];

/// Top-level directories that every node has, empty at first, with their modes.
const OWN: [(&str, u32); 14] = [
    ("boot", 0o755),
    ("dev", 0o755),
    ("home", 0o755),
    ("media", 0o755),
    ("mnt", 0o755),
    ("out", 0o1777),
    ("proc", 0o555),
    ("root", 0o700),
    ("run", 0o755),
    ("run/lock", 0o1777),
    ("srv", 0o755),
    ("sys", 0o555),
    ("tmp", 0o1777),
    (".diorama", 0o755),
];

/// Directories below [`SHOWN`] that are empty whatever their mode.
const EMPTIED: [&str; 9] = [
    "var/backups",
    "var/crash",
    "var/lib/diorama",
    "var/lib/systemd",
    "var/mail",
    "var/run",
    "var/lock",
    "var/spool",
    "var/tmp",
];

/// Where to look for what not everybody may read.
const SEARCHED: [&str; 4] = ["etc", "var", "opt", "usr/local"];

/// How deep to look; directories that are deeper are emptied. No program needs what lies so deep, and every level takes
/// an open directory and a part of the stack.
const DEPTH: usize = 32;

/// Layers that are made once per run, at the first node that needs them.
#[derive(Debug, Default)]
pub(crate) struct Once(Mutex<Vec<(String, PathBuf)>>);

impl Once {
    /// The path that `make` gave for `key`, made now if it is the first time (its argument: how many there are).
    pub(crate) fn get(&self, key: &str, make: impl FnOnce(usize) -> Result<PathBuf, Error>) -> Result<PathBuf, Error> {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, path)) = made.iter().find(|(k, _)| k == key) {
            return Ok(path.clone());
        }
        let path = make(made.len())?;
        made.push((key.into(), path.clone()));
        Ok(path)
    }
}

/// Makes the layer at `layer` that hides the host's data, and the paths in `hide`, which are absolute.
pub(crate) fn over_host(layer: &Path, hide: &[PathBuf]) -> Result<(), Error> {
    if let Some(path) = hide.iter().find(|p| !p.is_absolute()) {
        let why = io::Error::new(io::ErrorKind::InvalidInput, "its path is not absolute");
        return Err(Error::file("hide", path, why));
    }
    let state = mounts::points_of_state()?;
    let state = state.iter().filter_map(|p| p.strip_prefix("/").ok()).map(Into::into).collect();
    let mask = Mask { host: Path::new("/"), layer, state, owner: None };
    mask.build(hide).map_err(|e| Error::file("hide the host's files below", layer, e))
}

/// Makes the layer at `layer` that hides what is below `root` and the user who owns that could not read himself, by the
/// bits of files: who names a directory of his as a node's root sees no more in it than before.
pub(crate) fn over_directory(layer: &Path, root: &Path, owner: (u32, u32)) -> Result<(), Error> {
    let mask = Mask { host: root, layer, state: HashSet::new(), owner: Some(owner) };
    let build = || -> io::Result<()> {
        fs::create_dir_all(layer)?;
        copy_owner(layer, &root.metadata()?)?;
        mask.search(Path::new(""), DEPTH)
    };
    build().map_err(|e| Error::file("hide files of others below", layer, e))
}

/// Whether `path` (relative to the root) lies below a top-level directory that is shown.
pub(crate) fn shows(path: &Path) -> bool {
    let top = path.components().next().map(|c| c.as_os_str());
    SHOWN.iter().any(|n| Some(OsStr::new(n)) == top)
}

/// Whether `path` is a directory that hides all below it.
pub(crate) fn is_opaque(path: &Path) -> bool {
    let mut value = [0u8; 1];
    matches!(rustix::fs::getxattr(path, OPAQUE, &mut value), Ok(1)) && value == *b"y"
}

/// Attribute of an opaque directory.
const OPAQUE: &str = "trusted.overlay.opaque";

struct Mask<'a> {
    host: &'a Path,
    layer: &'a Path,
    /// Where the host has file systems that are the kernel's state, such as the `/proc` of a chroot.
    state: HashSet<PathBuf>,
    /// Whose rights count, by user and group; without one, what everybody may.
    owner: Option<(u32, u32)>,
}

impl Mask<'_> {
    fn build(&self, hide: &[PathBuf]) -> io::Result<()> {
        fs::create_dir_all(self.layer)?;
        for (name, mode) in OWN {
            self.own(Path::new(name), mode)?;
        }
        for entry in fs::read_dir(self.host)? {
            let name = entry?.file_name();
            let known = |n: &str| OsStr::new(n) == name;
            if !SHOWN.iter().any(|n| known(n)) && !OWN.iter().any(|(n, _)| known(n)) {
                self.whiteout(Path::new(&name))?;
            }
        }
        for path in EMPTIED {
            self.empty(Path::new(path))?;
        }
        self.log_skeleton(Path::new("var/log"))?;
        for path in SEARCHED.map(Path::new) {
            if let Ok(found) = self.host.join(path).symlink_metadata() {
                self.inspect(path, &found, DEPTH)?;
            }
        }
        for inside in hide.iter().filter_map(|path| path.strip_prefix("/").ok()) {
            // Below what is emptied it is hidden already, and so is its name.
            let mut above = inside.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty());
            if shows(inside) && !above.any(|path| self.hides(path)) {
                self.empty(inside)?;
            }
        }
        Ok(())
    }

    /// Hides `path` if the host keeps it from some of its users, or else what is below it and is kept from them.
    fn inspect(&self, path: &Path, found: &Metadata, depth: usize) -> io::Result<()> {
        // The bits that count, of those for the owner, the group and others.
        let shift = match self.owner {
            Some((user, _)) if user == found.uid() => 6,
            Some((_, group)) if group == found.gid() => 3,
            _ => 0,
        };
        let everybody = |bits| (found.mode() >> shift) & bits == bits;
        match found.file_type() {
            t if t.is_symlink() || (!t.is_dir() && everybody(0o004)) => Ok(()),
            t if !t.is_dir() => self.whiteout(path),
            // No node is shown the kernel's state at such a place, so there is nothing to search.
            _ if !everybody(0o005) || depth == 0 || self.state.contains(path) => self.opaque(path, Some(found)),
            _ => self.search(path, depth),
        }
    }

    /// Hides everything below `path` that the host keeps from some of its users.
    fn search(&self, path: &Path, depth: usize) -> io::Result<()> {
        let entries = match fs::read_dir(self.host.join(path)) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            // Directories that cannot be searched are not shown.
            Err(_) => return self.empty(path),
        };
        // Most directories have no counterpart in the layer, so that one question answers for all their entries.
        let begun = self.layer.join(path).is_dir();
        for entry in entries {
            let entry = entry?;
            let inside = path.join(entry.file_name());
            if begun && self.hides(&inside) {
                continue;
            }
            match entry.metadata() {
                Ok(found) => self.inspect(&inside, &found, depth - 1)?,
                // Files that disappear while we look are not there for the node either.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                // Not even root may look at it: a file system of some user's own.
                Err(_) => self.whiteout(&inside)?,
            }
        }
        Ok(())
    }

    /// Whether the layer hides what the host has at `path`. A directory in it may be there only for what is below.
    fn hides(&self, path: &Path) -> bool {
        let own = self.layer.join(path);
        own.symlink_metadata().is_ok_and(|found| !found.is_dir() || is_opaque(&own))
    }

    /// Shows the directories below `path` but no file: programs expect the place for their logs to exist.
    fn log_skeleton(&self, path: &Path) -> io::Result<()> {
        let Ok(found) = self.host.join(path).symlink_metadata() else { return Ok(()) };
        if !found.is_dir() {
            return Ok(());
        }
        self.opaque(path, Some(&found))?;
        for entry in fs::read_dir(self.host.join(path))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                self.log_skeleton(&path.join(entry.file_name()))?;
            }
        }
        Ok(())
    }

    /// Empties a directory of the host, or hides it if it is none. Nothing happens if the host has no such path.
    fn empty(&self, path: &Path) -> io::Result<()> {
        match self.host.join(path).symlink_metadata() {
            Ok(found) if found.is_dir() => self.opaque(path, Some(&found)),
            Ok(found) if found.is_symlink() => Ok(()),
            Ok(_) => self.whiteout(path),
            Err(_) => Ok(()),
        }
    }

    /// An empty directory that looks, from outside, like the host's.
    fn opaque(&self, path: &Path, like: Option<&Metadata>) -> io::Result<()> {
        self.parents(path)?;
        let own = self.layer.join(path);
        match fs::create_dir(&own) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        if let Some(like) = like {
            copy_owner(&own, like)?;
        }
        Ok(rustix::fs::setxattr(&own, OPAQUE, b"y", XattrFlags::empty())?)
    }

    /// A directory of the node's own at `path`, whatever the host has there.
    fn own(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.opaque(path, None)?;
        fs::set_permissions(self.layer.join(path), fs::Permissions::from_mode(mode))
    }

    fn whiteout(&self, path: &Path) -> io::Result<()> {
        self.parents(path)?;
        Ok(mknodat(CWD, self.layer.join(path), FileType::CharacterDevice, Mode::empty(), 0)?)
    }

    /// The directories above `path`, which are merged with the host's and so must have the same owner and mode.
    fn parents(&self, path: &Path) -> io::Result<()> {
        let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) else { return Ok(()) };
        let own = self.layer.join(parent);
        if own.is_dir() {
            return Ok(());
        }
        self.parents(parent)?;
        fs::DirBuilder::new().mode(0o755).create(&own)?;
        copy_owner(&own, &self.host.join(parent).metadata()?)
    }
}

fn copy_owner(path: &Path, like: &Metadata) -> io::Result<()> {
    std::os::unix::fs::chown(path, Some(like.uid()), Some(like.gid()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(like.mode() & 0o7777))
}
