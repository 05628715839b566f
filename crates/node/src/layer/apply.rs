//! Applying the layers of an image to a directory.
//!
//! The work is done by a thread that has the directory as its root, so that no path in a layer, absolute or through
//! symbolic links, leads out of it.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat};
use rustix::thread::UnshareFlags;
use tar::{Entry, EntryType};

use super::bounds::{Bounds, Budget, Counted, Headers};
use super::pax::{self, Records};
use super::{OPAQUE, OVERLAY_OPAQUE, WHITEOUT};
use crate::remove::remove_tree;

/// How much memory what is known of a layer's directories, and of attributes that have to be read apart, may take until
/// its end, in bytes each.
const MEMORY: usize = 12 << 20;
/// Memory that a text or a record takes beside its own bytes.
const BESIDE: usize = 64;

/// Where a layer lies.
#[derive(Debug)]
pub(crate) struct Part {
    /// The file that holds it.
    pub(crate) file: File,
    /// Where it begins in there, in bytes.
    pub(crate) start: u64,
    /// How long it is.
    pub(crate) length: u64,
}

/// The base that the directory will be used over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Below {
    /// Nothing: what layers remove is gone once it has been removed.
    Nothing,
    /// Directories of an overlay: what layers remove may be there, too, and is marked as the overlay wants it.
    Others,
}

/// Applies the layers, lowest first, to the empty directory `root`.
pub(crate) fn apply(layers: &[Part], root: &Path, below: Below) -> io::Result<()> {
    std::thread::scope(|scope| {
        let work = || {
            // SAFETY: only this thread gets a root and working directory of its own, and it ends here.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }?;
            rustix::process::chroot(root)?;
            std::env::set_current_dir("/")?;
            let mut budget = Budget::default();
            layers.iter().try_for_each(|layer| one(layer, below, &mut budget))
        };
        let thread = std::thread::Builder::new().name("image".into()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Applies one layer: first all that it removes from those below, then what it adds.
fn one(layer: &Part, below: Below, budget: &mut Budget) -> io::Result<()> {
    let headers = Headers::default();
    // Bytes counted here are counted again when it is unpacked.
    let mut counted = Budget::default();
    let mut bounds = Bounds::of(&mut counted, layer.length, &headers);
    for entry in reader(layer, &headers)?.entries()? {
        let entry = entry?;
        bounds.begin(&entry)?;
        let path = inside(&entry.path()?)?;
        bounds.pass(&entry)?;
        let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        let parent = path.parent().unwrap_or(Path::new("/"));
        if name == OPAQUE {
            for child in fs::read_dir(parent).into_iter().flatten() {
                remove(&child?.path())?;
            }
            if below == Below::Others {
                fs::create_dir_all(parent)?;
                make_opaque(parent)?;
            }
        } else if let Some(hidden) = name.strip_prefix(WHITEOUT).filter(|hidden| is_name(hidden)) {
            let hidden = parent.join(std::ffi::OsStr::from_bytes(hidden));
            remove(&hidden)?;
            if below == Below::Others {
                fs::create_dir_all(parent)?;
                mknodat(CWD, &hidden, FileType::CharacterDevice, Mode::empty(), 0)?;
            }
        }
    }
    let headers = Headers::default();
    let mut bounds = Bounds::of(budget, layer.length, &headers);
    let mut archive = reader(layer, &headers)?;
    let mut records = OfEntries::new(layer);
    // Directories get their modes and times last: a read-only one must still be filled.
    let mut directories = Directories::default();
    for entry in archive.entries()? {
        let mut entry = entry?;
        bounds.begin(&entry)?;
        bounds.check_room(&entry)?;
        let more = records.of(&mut entry)?;
        let path = inside(&entry.path()?)?;
        let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        let kind = entry.header().entry_type();
        // A device in an image could not be opened by a node anyway, and one of number 0 would hide what is below.
        let ordinary = matches!(
            kind,
            EntryType::Regular
                | EntryType::Continuous
                | EntryType::GNUSparse
                | EntryType::Directory
                | EntryType::Symlink
                | EntryType::Link
                | EntryType::Fifo
        );
        if name.starts_with(WHITEOUT) || !ordinary {
            bounds.pass(&entry)?;
            continue;
        }
        let old = path.symlink_metadata();
        let hid = old.as_ref().is_ok_and(|old| old.file_type().is_char_device() && old.rdev() == 0);
        let replaces = matches!(kind, EntryType::Link | EntryType::Fifo);
        if old.is_ok_and(|old| replaces || old.is_dir() != (kind == EntryType::Directory)) {
            remove(&path)?;
        }
        match kind {
            EntryType::Directory => {
                fs::create_dir_all(&path)?;
                if hid {
                    make_opaque(&path)?;
                }
                directories.add(&entry, more, path)?;
                bounds.pass(&entry)?;
                continue;
            }
            EntryType::Fifo => fifo(&entry, &path)?,
            _ => drop(entry.unpack_in("/")?),
        }
        // A file with several names has been given it already.
        if kind != EntryType::Link {
            pax::give(&path, &more, entry.header().mtime()?)?;
        }
        // Nothing is read of what is no file.
        if matches!(kind, EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse) {
            bounds.end();
        } else {
            bounds.pass(&entry)?;
        }
    }
    directories.0.iter().rev().try_for_each(Directory::finish)
}

/// A directory of a layer, as it is to be in the end.
struct Directory {
    path: PathBuf,
    owner: (u32, u32),
    mode: u32,
    mtime_s: u64,
    records: Records,
}

/// Those of a layer, and how much memory they take.
#[derive(Default)]
struct Directories(Vec<Directory>, usize);

impl Directories {
    fn add(&mut self, entry: &Entry<'_, impl Read>, records: Records, path: PathBuf) -> io::Result<()> {
        let texts: usize = records.iter().map(|(key, value)| key.len() + value.len() + 2 * BESIDE).sum();
        self.1 += size_of::<Directory>() + path.as_os_str().len() + BESIDE + texts;
        if self.1 > MEMORY {
            let why = "the names and attributes of a layer's directories are longer than 12 MiB";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let header = entry.header();
        let owner = (id(header.uid()?)?, id(header.gid()?)?);
        self.0.push(Directory { path, owner, mode: header.mode()? & 0o7777, mtime_s: header.mtime()?, records });
        Ok(())
    }
}

impl Directory {
    fn finish(&self) -> io::Result<()> {
        match self.path.symlink_metadata() {
            Ok(found) if found.is_dir() => {}
            // A later file of the layer has taken its place.
            _ => return Ok(()),
        }
        std::os::unix::fs::lchown(&self.path, Some(self.owner.0), Some(self.owner.1))?;
        fs::set_permissions(&self.path, std::os::unix::fs::PermissionsExt::from_mode(self.mode))?;
        pax::give(&self.path, &self.records, self.mtime_s)
    }
}

/// A number of a user or a group.
fn id(number: u64) -> io::Result<u32> {
    u32::try_from(number).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// The records of the entries of a layer, asked for in their order.
struct OfEntries<'a> {
    layer: &'a Part,
    /// How many entries that have some have been asked about.
    asked: usize,
    /// The records of all of them, if they had to be read apart.
    apart: Option<Vec<Vec<u8>>>,
}

impl OfEntries<'_> {
    fn new(layer: &Part) -> OfEntries<'_> {
        OfEntries { layer, asked: 0, apart: None }
    }

    fn of(&mut self, entry: &mut Entry<'_, impl Read>) -> io::Result<Records> {
        let Some(found) = entry.pax_extensions()? else { return Ok(Records::new()) };
        let number = self.asked;
        self.asked += 1;
        let whole: io::Result<Records> =
            found.map(|record| record.map(|r| (r.key_bytes().to_vec(), r.value_bytes().to_vec()))).collect();
        if let Ok(records) = whole {
            return Ok(records);
        }
        // The library takes each line for a record, and a value may have several lines.
        if self.apart.is_none() {
            let (mut all, mut long) = (Vec::new(), 0);
            let headers = Headers::new(u64::MAX.into());
            for entry in reader(self.layer, &headers)?.entries()?.raw(true) {
                let mut entry = entry?;
                if entry.header().entry_type() == EntryType::XHeader {
                    long += entry.size() + BESIDE as u64;
                    if long > MEMORY as u64 {
                        let why = "the attributes of a layer's files are longer than 12 MiB";
                        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                    }
                    let mut text = Vec::new();
                    entry.read_to_end(&mut text)?;
                    all.push(text);
                }
            }
            self.apart = Some(all);
        }
        pax::parse(self.apart.iter().flatten().nth(number).map_or(&[][..], Vec::as_slice))
    }
}

/// The entries of a layer, compressed or not; between two of them `headers` says how much may be read.
pub(crate) fn reader<'a>(layer: &'a Part, headers: &Headers) -> io::Result<tar::Archive<Box<dyn Read + 'a>>> {
    let mut file = &layer.file;
    file.seek(SeekFrom::Start(layer.start))?;
    let mut magic = [0; 4];
    let read = file.take(layer.length).read(&mut magic)?;
    // Each reader goes on from a place of its own, for two of one layer may be read in turns.
    let content = BufReader::with_capacity(1 << 16, At { layer, at: 0 });
    let content: Box<dyn Read> = match &magic[..read] {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(content)),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let why = "a layer is compressed with zstd: save the image with gzip or uncompressed";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        _ => Box::new(content),
    };
    let counted: Box<dyn Read> = Box::new(Counted { from: content, left: headers.clone() });
    let mut tar = tar::Archive::new(counted);
    tar.set_preserve_permissions(true);
    tar.set_preserve_ownerships(true);
    // We give them ourselves, but for those that mean something to the overlay.
    tar.set_unpack_xattrs(false);
    Ok(tar)
}

/// A reader of a layer.
struct At<'a> {
    layer: &'a Part,
    at: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.layer.length - self.at).unwrap_or(usize::MAX);
        let wanted = left.min(buffer.len());
        let read =
            std::os::unix::fs::FileExt::read_at(&self.layer.file, &mut buffer[..wanted], self.layer.start + self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

fn fifo(entry: &Entry<'_, impl Read>, path: &Path) -> io::Result<()> {
    let header = entry.header();
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    mknodat(CWD, path, FileType::Fifo, Mode::empty(), 0)?;
    std::os::unix::fs::lchown(path, Some(id(header.uid()?)?), Some(id(header.gid()?)?))?;
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(header.mode()? & 0o7777))
}

fn make_opaque(directory: &Path) -> io::Result<()> {
    Ok(rustix::fs::setxattr(directory, OVERLAY_OPAQUE, b"y", XattrFlags::empty())?)
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

/// Whether a name could be that of a file: `.wh...` would remove what is above.
fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..")
}

fn remove(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => remove_tree(path),
        Ok(_) => fs::remove_file(path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}
