//! Making a layer of a tree of files, such as the directory in which an overlay keeps what a node has written.
//!
//! The node may still run, and may want to be shown the host's files in an image: every name is opened from the top of
//! the tree, and neither a symbolic link nor `..` is followed. What is read is what is there at that moment.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags, ResolveFlags, openat2, readlinkat};
use rustix::io::Errno;
use tar::{Builder, EntryType};

use super::sparse::{self, Exactly};
use super::{OPAQUE, OVERLAY_OPAQUE, WHITEOUT, entry, pax};

/// Files that every node has of its own, and no image.
const OWN_FILES: [&str; 4] = [".diorama", "etc/hosts", "etc/hostname", "etc/resolv.conf"];
/// Directories whose content is the kernel's, or that of one run or boot.
const EMPTIED: [&str; 7] = ["dev", "proc", "sys", "out", "run", "tmp", "var/tmp"];
/// Emptied directories of which no tree of files has anything, whoever made it.
const OF_THE_KERNEL: [&str; 3] = ["dev", "proc", "sys"];
/// How often a name is opened that changes while the kernel looks for it.
const TRIES: usize = 100;

/// Kinds of trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tree {
    /// The upper directory of an overlay: the changes to what is below.
    Changes,
    /// All there is.
    Whole,
}

/// Names that are not in the layer as they are in the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Those that no image can hold, and why.
    pub(crate) left_out: Vec<String>,
    /// Those that changed while they were read.
    pub(crate) changed: Vec<PathBuf>,
}

/// Writes the layer of some trees, each at its place in the image, to `out`. The error has the name at which it came
/// up.
pub(crate) fn collect(
    trees: &[(OwnedFd, PathBuf)],
    tree: Tree,
    out: impl Write,
    found: &mut Found,
) -> Result<(), (PathBuf, io::Error)> {
    let mut tar = Builder::new(out);
    let mut linked = HashMap::new();
    for (top, place) in trees {
        let at = place.clone();
        let mut walk = Walk { tar: &mut tar, tree, top, place, linked: &mut linked, found, at };
        walk.directory(Path::new("")).map_err(|e| (walk.at.clone(), e))?;
    }
    tar.finish().and_then(|()| tar.get_mut().flush()).map_err(|e| (PathBuf::new(), e))
}

struct Walk<'a, W: Write> {
    tar: &'a mut Builder<W>,
    tree: Tree,
    top: &'a OwnedFd,
    place: &'a Path,
    /// Files with several names, by device and number: under which name they are in the layer.
    linked: &'a mut HashMap<(u64, u64), PathBuf>,
    found: &'a mut Found,
    /// The file that is being read.
    at: PathBuf,
}

impl<W: Write> Walk<'_, W> {
    /// Entries of a directory. `path` is that in the tree.
    fn directory(&mut self, path: &Path) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOATIME;
        let mut names = Vec::new();
        for entry in Dir::read_from(self.open(path, flags)?)? {
            let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        // Sorted, so that equal files give equal layers.
        names.sort_unstable();
        names.iter().try_for_each(|name| self.entry(&path.join(name), name))
    }

    fn entry(&mut self, path: &Path, name: &OsStr) -> io::Result<()> {
        let shown = self.place.join(path);
        self.at.clone_from(&shown);
        if self.tree == Tree::Changes && OWN_FILES.iter().any(|own| shown == Path::new(own)) {
            return Ok(());
        }
        let outcome = self.kinds(path, &shown, name);
        match outcome {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.found.changed.push(shown);
                Ok(())
            }
            other => other,
        }
    }

    fn kinds(&mut self, path: &Path, shown: &Path, name: &OsStr) -> io::Result<()> {
        let handle = File::from(match self.open(path, OFlags::PATH | OFlags::NOFOLLOW) {
            // A file system that is mounted there.
            Err(e) if e.raw_os_error() == Some(libc::EXDEV) => return Ok(()),
            handle => handle?,
        });
        let found = handle.metadata()?;
        let kind = found.file_type();
        if name.as_bytes().starts_with(WHITEOUT) {
            self.left_out(shown, "images mark by such names what is deleted");
            return Ok(());
        }
        if kind.is_char_device() && found.rdev() == 0 {
            return match self.tree {
                Tree::Changes => {
                    self.mark(&shown.with_file_name(OsStr::from_bytes(&[WHITEOUT, name.as_bytes()].concat())))
                }
                Tree::Whole => Ok(()),
            };
        }
        if kind.is_socket() {
            // Nobody listens at it any more.
            return Ok(());
        }
        let own = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
        let records = pax::of(&own, &found)?;
        let several = !kind.is_dir() && found.nlink() > 1;
        if several && let Some(first) = self.linked.get(&(found.dev(), found.ino())) {
            let header = entry::header(EntryType::Link, &found);
            return entry::put(self.tar, header, shown, Some(first), &Vec::new(), io::empty());
        }
        if kind.is_dir() {
            let header = entry::header(EntryType::Directory, &found);
            entry::put(self.tar, header, shown, None, &records, io::empty())?;
            return self.inside(path, shown, &own);
        }
        if kind.is_symlink() {
            let target = readlinkat(&handle, "", Vec::new())?;
            let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
            let header = entry::header(EntryType::Symlink, &found);
            entry::put(self.tar, header, shown, Some(&target), &records, io::empty())?;
        } else if kind.is_file() {
            self.file(path, shown, &found, &records)?;
        } else {
            let of = |kind| entry::header(kind, &found);
            let mut header = match () {
                () if kind.is_fifo() => of(EntryType::Fifo),
                () if kind.is_char_device() => of(EntryType::Char),
                () => of(EntryType::Block),
            };
            header.set_device_major(rustix::fs::major(found.rdev()))?;
            header.set_device_minor(rustix::fs::minor(found.rdev()))?;
            entry::put(self.tar, header, shown, None, &records, io::empty())?;
        }
        if several {
            self.linked.insert((found.dev(), found.ino()), shown.to_owned());
        }
        Ok(())
    }

    /// Entries of a directory that is in the layer.
    fn inside(&mut self, path: &Path, shown: &Path, own: &Path) -> io::Result<()> {
        let has = |name: &str| -> io::Result<Option<u8>> {
            let mut value = [0; 1];
            match rustix::fs::getxattr(own, name, &mut value) {
                Ok(1) => Ok(Some(value[0])),
                Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
                Ok(_) | Err(Errno::RANGE) => Ok(Some(0)),
                Err(e) => Err(e.into()),
            }
        };
        if self.tree == Tree::Changes && has("trusted.overlay.redirect")?.is_some() {
            // We mount no overlay so.
            return Err(io::Error::other("it has been renamed, and what is in it is elsewhere (redirect_dir)"));
        }
        if self.tree == Tree::Changes && has(OVERLAY_OPAQUE)? == Some(b'y') {
            self.mark(&shown.join(OsStr::from_bytes(OPAQUE)))?;
        }
        let emptied = if self.tree == Tree::Changes { &EMPTIED[..] } else { &OF_THE_KERNEL[..] };
        match emptied.iter().any(|empty| shown == Path::new(empty)) {
            true => Ok(()),
            false => self.directory(path),
        }
    }

    fn file(&mut self, path: &Path, shown: &Path, found: &Metadata, records: &pax::Records) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOATIME;
        let file = File::from(self.open(path, flags)?);
        let now = file.metadata()?;
        if (now.dev(), now.ino()) != (found.dev(), found.ino()) {
            // Its successor may be anything.
            return Err(io::ErrorKind::NotFound.into());
        }
        let size = now.size();
        let mut header = entry::header(EntryType::Regular, &now);
        match sparse::stretches(&file, size)? {
            Some(stretches) => entry::put_sparse(self.tar, header, shown, records, (&file, size), &stretches)?,
            None => {
                header.set_size(size);
                entry::put(self.tar, header, shown, None, records, Exactly::new(&file, &[(0, size)]))?;
            }
        }
        let then = file.metadata()?;
        let state = |m: &Metadata| (m.size(), m.mtime(), m.mtime_nsec());
        if state(&now) != state(&then) {
            self.found.changed.push(shown.to_owned());
        }
        Ok(())
    }

    fn mark(&mut self, path: &Path) -> io::Result<()> {
        entry::put(self.tar, entry::mark(), path, None, &Vec::new(), io::empty())
    }

    fn left_out(&mut self, path: &Path, why: &str) {
        self.found.left_out.push(format!("{}: {why}", path.display()));
    }

    fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let within = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | if self.tree == Tree::Whole { ResolveFlags::NO_XDEV } else { ResolveFlags::empty() };
        for _ in 0..TRIES {
            match openat2(self.top, path, flags | OFlags::CLOEXEC, Mode::empty(), within) {
                // Something was renamed meanwhile.
                Err(Errno::AGAIN) => {}
                // A directory on the way has become a link meanwhile.
                Err(Errno::LOOP | Errno::NOTDIR) => break,
                other => return Ok(other?),
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }
}
