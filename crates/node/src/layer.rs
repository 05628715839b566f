//! Applying the layers of an image to a directory (OCI image specification, *Image Layer Filesystem Changeset*).
//!
//! The work is done by a thread that has the directory as its root, so that no path in a layer, absolute or through
//! symbolic links, leads out of it.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use rustix::thread::UnshareFlags;
use tar::EntryType;

use crate::remove::remove_tree;

/// What marks a name that hides the same name of the layers below.
const WHITEOUT: &[u8] = b".wh.";
/// What marks a directory that hides all that the layers below have in it.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Applies the layers, lowest first, that lie in `archive` at (start, length), to the empty directory `root`.
pub(crate) fn apply(archive: &File, layers: &[(u64, u64)], root: &Path) -> io::Result<()> {
    std::thread::scope(|scope| {
        let work = || {
            // SAFETY: only this thread gets a root and working directory of its own, and it ends here.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }?;
            rustix::process::chroot(root)?;
            std::env::set_current_dir("/")?;
            layers.iter().try_for_each(|place| one(archive, *place))
        };
        let thread = std::thread::Builder::new().name("image".into()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Applies one layer: first all that it removes from those below, then what it adds.
fn one(archive: &File, place: (u64, u64)) -> io::Result<()> {
    for entry in reader(archive, place)?.entries()? {
        let path = inside(&entry?.path()?)?;
        let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        let parent = path.parent().unwrap_or(Path::new("/"));
        if name == OPAQUE {
            for child in fs::read_dir(parent).into_iter().flatten() {
                remove(&child?.path())?;
            }
        } else if let Some(hidden) = name.strip_prefix(WHITEOUT) {
            remove(&parent.join(std::ffi::OsStr::from_bytes(hidden)))?;
        }
    }
    let mut layer = reader(archive, place)?;
    // Directories get their modes and times last: a read-only one must still be filled.
    let mut directories = Vec::new();
    for entry in layer.entries()? {
        let mut entry = entry?;
        let path = inside(&entry.path()?)?;
        let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        let kind = entry.header().entry_type();
        let ordinary = matches!(
            kind,
            EntryType::Regular | EntryType::Continuous | EntryType::Directory | EntryType::Symlink | EntryType::Link
        );
        // A device in an image could not be opened by a node anyway.
        if name.starts_with(WHITEOUT) || !ordinary {
            continue;
        }
        let old = path.symlink_metadata();
        if old.is_ok_and(|old| old.is_dir() != (kind == EntryType::Directory)) {
            remove(&path)?;
        }
        match kind {
            EntryType::Directory => {
                fs::create_dir_all(&path)?;
                directories.push(entry);
            }
            _ => drop(entry.unpack_in("/")?),
        }
    }
    directories.iter_mut().rev().try_for_each(|d| d.unpack_in("/").map(drop))
}

fn reader(mut archive: &File, (start, length): (u64, u64)) -> io::Result<tar::Archive<Box<dyn Read + '_>>> {
    archive.seek(SeekFrom::Start(start))?;
    let mut magic = [0; 4];
    let read = archive.take(length).read(&mut magic)?;
    archive.seek(SeekFrom::Start(start))?;
    let content = BufReader::new(archive.take(length));
    let content: Box<dyn Read> = match &magic[..read] {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(content)),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let why = "a layer is compressed with zstd: save the image with gzip or uncompressed";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        _ => Box::new(content),
    };
    let mut tar = tar::Archive::new(content);
    tar.set_preserve_permissions(true);
    tar.set_preserve_ownerships(true);
    tar.set_unpack_xattrs(true);
    Ok(tar)
}

/// A path of a layer below this thread's root.
fn inside(path: &Path) -> io::Result<PathBuf> {
    if path.components().any(|c| c == Component::ParentDir) {
        let why = format!("a layer has the path {}", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    // Part by part, for a slash at the end would mean what a symbolic link points to.
    Ok(Path::new("/").components().chain(path.components().filter(|c| matches!(c, Component::Normal(_)))).collect())
}

fn remove(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => remove_tree(path),
        Ok(_) => fs::remove_file(path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}
