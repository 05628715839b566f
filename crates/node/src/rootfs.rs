//! The root file system of one node: an overlay, and files put into it or read from it.
//!
//! Paths inside a node are resolved by the kernel with the node's root as their limit
//! (`openat2(RESOLVE_IN_ROOT)`), so that neither `..` nor a symbolic link that a node made leads out.

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use host::Lack;
use host::beneath::Dir;
use host::rights::Rights;
use host::user_namespace::UserNamespace;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, unlinkat};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use crate::error::{Context, Error};

/// Where what a node writes goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writes<'a> {
    /// The directory.
    pub dir: &'a Path,
    /// Whether it is on the node's own disk, which each sync has to reach.
    pub on_disk: bool,
    /// The user namespace whose files these are, if the node has one.
    pub users: Option<&'a Arc<UserNamespace>>,
}

/// A mounted root file system.
#[derive(Debug)]
pub(crate) struct RootFs {
    dir: OwnedFd,
    /// Whose root its files are made by.
    users: Option<Arc<UserNamespace>>,
}

impl RootFs {
    /// Mounts an overlay of `lower` (topmost first) at `target`, which keeps what the node writes.
    ///
    /// To be called on the enclosure's thread.
    pub(crate) fn mount(lower: &[PathBuf], writes: Writes<'_>, target: &Path) -> Result<RootFs, Error> {
        overlay(lower, writes, target)?;
        RootFs::at(target, writes.users)
    }

    /// File system that is mounted at `target`.
    pub(crate) fn at(target: &Path, users: Option<&Arc<UserNamespace>>) -> Result<RootFs, Error> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, target, flags, Mode::empty()).map_err(|e| Error::file("open", target, e))?;
        Ok(RootFs { dir, users: users.cloned() })
    }

    /// The directory `path`, made with its parents (mode 755) where it is missing.
    pub(crate) fn directory(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut so_far = PathBuf::from(".");
        let mut dir = self.open(&so_far, OFlags::PATH | OFlags::DIRECTORY)?;
        for part in path.components() {
            let Component::Normal(name) = part else { continue };
            so_far.push(name);
            dir = match self.open(&so_far, OFlags::PATH | OFlags::DIRECTORY) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    as_node(self.users.as_deref(), || mkdirat(&dir, name, Mode::from_raw_mode(0o755)))??;
                    self.open(&so_far, OFlags::PATH | OFlags::DIRECTORY)?
                }
                other => other?,
            };
        }
        Ok(dir)
    }

    /// Whether `path` is a directory that no symbolic link leads to: by its path, others would follow that to anywhere.
    pub(crate) fn has_directory(&self, path: &Path) -> bool {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        openat2(&self.dir, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), resolve).is_ok()
    }

    /// Makes the directory `path` with `mode` if it is missing.
    pub(crate) fn ensure(&self, path: &Path, mode: u32) -> io::Result<()> {
        if self.open(path, OFlags::PATH | OFlags::DIRECTORY).is_err() {
            self.directory(path)?;
            let made = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
            as_node(self.users.as_deref(), || rustix::fs::fchmod(made, Mode::from_raw_mode(mode)))??;
        }
        Ok(())
    }

    /// Puts a file at `path`, in the place of what may be there.
    pub(crate) fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.create(path, 0o644)?.write_all(content)
    }

    /// Copies a file, or a folder with all that is in it, from the host to `path`. No symbolic link was on the way to
    /// it when the experiment was read; one that is there now is somebody else's doing.
    pub(crate) fn copy(&self, path: &Path, from: &Path) -> io::Result<()> {
        let below = from.strip_prefix("/").map_err(io::Error::other)?;
        self.copy_below(path, &Dir::open(Path::new("/"))?, below, from)
    }

    /// `named` says by whose rights it is read.
    fn copy_below(&self, path: &Path, dir: &Dir, from: &Path, named: &Path) -> io::Result<()> {
        let folder = {
            let _rights = Rights::of_caller(named);
            dir.dir(from).and_then(|folder| Ok((folder.names()?, folder)))
        };
        if let Ok((names, folder)) = folder {
            self.directory(path)?;
            for name in names {
                self.copy_below(&path.join(&name), &folder, Path::new(&name), named)?;
            }
            return Ok(());
        }
        let mut source = {
            let _rights = Rights::of_caller(named);
            dir.read(from)?
        };
        let found = source.metadata()?;
        let mut target = self.create(path, found.permissions().mode() & 0o777)?;
        io::copy(&mut source, &mut target).map(drop)
    }

    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
        let dir = self.directory(path.parent().unwrap_or(Path::new("/")))?;
        as_node(self.users.as_deref(), || RootFs::create_in(&dir, name, mode))?
    }

    fn create_in(dir: &OwnedFd, name: &OsStr, mode: u32) -> io::Result<File> {
        match unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(e.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(dir, name, flags, Mode::from_raw_mode(mode))?);
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        Ok(file)
    }

    /// Opens the regular file `path` of the node for reading.
    pub(crate) fn read(&self, path: &Path) -> io::Result<File> {
        // A FIFO that the node put there must not block us, nor a device be opened.
        let file = File::from(self.open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
    }

    fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        Ok(openat2(&self.dir, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)?)
    }
}

/// Does `work` as who owns a node's files: its own root, if it has one.
fn as_node<R>(users: Option<&UserNamespace>, work: impl FnOnce() -> R) -> io::Result<R> {
    match users {
        None => Ok(work()),
        Some(users) => users.as_root(work).map_err(io::Error::other),
    }
}

/// Layers between the host's files and what a node writes.
pub(crate) struct Below<'a> {
    /// The changes that an image has to the host's root.
    pub(crate) changes: Option<&'a Path>,
    /// A directory for mounts that are seen through others only; made when it is needed.
    pub(crate) aside: &'a Path,
    /// A directory with nothing in it; likewise.
    pub(crate) empty: &'a Path,
}

/// Mounts the overlay of a part of the host's files, whose place in the node is `inside`.
///
/// The kernel refuses (ELOOP) to have two directories in one overlay of which one is in the other, as an image is in
/// the host's root, if both are of one file system. Then an overlay of the host's files alone is mounted first, aside,
/// and the node's over that one. Where the host's root is an overlay itself, which can be stacked only once, images are
/// not in it, for neither could what nodes write be.
pub(crate) fn over(
    below: &Below<'_>,
    lower: &[PathBuf],
    inside: &Path,
    writes: Writes<'_>,
    target: &Path,
) -> Result<(), Error> {
    let changes = below.changes.map(|dir| dir.join(inside)).filter(|dir| dir.is_dir());
    let Some(changes) = changes else { return overlay(lower, writes, target) };
    let all: Vec<_> = [changes.clone()].into_iter().chain(lower.iter().cloned()).collect();
    match overlay(&all, writes, target) {
        Err(Error::System { source, .. }) if source.raw_os_error() == Some(libc::ELOOP) => {}
        done => return done,
    }
    let name = inside.to_string_lossy().replace('%', "%25").replace('/', "%2F");
    let aside = below.aside.join(format!("at-{name}"));
    // Without a writable layer it takes two.
    let empty = Some(below.empty.to_owned()).filter(|_| lower.len() < 2);
    for dir in empty.iter().chain([&aside]) {
        fs::create_dir_all(dir).map_err(|e| Error::file("make", dir, e))?;
    }
    let options = [b"lowerdir=".to_vec(), listed(&empty.into_iter().chain(lower.iter().cloned()).collect::<Vec<_>>())];
    mount_overlay(&options.concat(), &aside, writes)?;
    overlay(&[changes, aside], writes, target)
}

/// Mounts an overlay. `writes` gets two directories: `upper` (what was written) and `work` (the kernel's own).
///
/// Without a disk of the node's own it is volatile: to sync a file, or to unmount it, writes nothing to the host's
/// disk. Else each sync would take that disk's real time, and each end of a node would write out all that nobody on
/// the host has synced yet.
pub(crate) fn overlay(lower: &[PathBuf], writes: Writes<'_>, target: &Path) -> Result<(), Error> {
    // The kernel writes to the work directory as who mounts it.
    let mounted = as_node(writes.users.map(Arc::as_ref), || mount_over(lower, writes, target));
    mounted.context(|| "cannot mount as a node's root".into())?
}

fn mount_over(lower: &[PathBuf], writes: Writes<'_>, target: &Path) -> Result<(), Error> {
    let (upper, work) = (writes.dir.join("upper"), writes.dir.join("work"));
    if !writes.on_disk {
        // The kernel refuses one that has been volatile before: after a crash of the host it would not be whole.
        match fs::remove_dir_all(&work) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::file("remove", &work, e)),
            _ => {}
        }
    }
    for dir in [&upper, &work, &target.to_path_buf()] {
        fs::create_dir_all(dir).map_err(|e| Error::file("make", dir, e))?;
    }
    // A node's writes are to be all there is of it, wherever it is read: no directory that is elsewhere by another
    // name, no file without its content. That is the default of most kernels, but they may be told otherwise.
    let plain = b",redirect_dir=off,metacopy=off";
    let volatile: &[u8] = if writes.on_disk { b"" } else { b",volatile" };
    let (lower, upper, work) = (listed(lower), escaped(&upper), escaped(&work));
    let options = [b"lowerdir=", &lower[..], b",upperdir=", &upper, b",workdir=", &work, plain, volatile];
    mount_overlay(&options.concat(), target, writes)
}

/// Directories as the option of an overlay has them.
fn listed(lower: &[PathBuf]) -> Vec<u8> {
    lower.iter().map(|p| escaped(p)).collect::<Vec<_>>().join(&b':')
}

fn escaped(path: &Path) -> Vec<u8> {
    let special = |b: &u8| matches!(b, b'\\' | b':' | b',');
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    bytes.flat_map(|b| special(b).then_some(b'\\').into_iter().chain([*b])).collect()
}

fn mount_overlay(options: &[u8], target: &Path, writes: Writes<'_>) -> Result<(), Error> {
    let options = CString::new(options)
        .map_err(io::Error::from)
        .context(|| format!("cannot name {} to the kernel", target.display()))?;
    let flags = MountFlags::NODEV | MountFlags::NOSUID;
    match rustix::mount::mount("overlay", target, "overlay", flags, Some(options.as_c_str())) {
        Ok(()) => Ok(()),
        Err(Errno::NODEV) => Err(Error::Machine(Lack::new(
            "this kernel has no overlay file system",
            "load it (`modprobe overlay`), or use a kernel with CONFIG_OVERLAY_FS",
        ))),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Err(Error::Machine(Lack::new(
            format!("the file system of {} cannot carry the nodes' files (overlay refuses it)", writes.dir.display()),
            "keep the runs' state on ext4, xfs, btrfs or tmpfs (in a container by `-v \
             /var/lib/diorama:/var/lib/diorama`); `dmesg | tail` has the kernel's reason",
        ))),
        Err(e) => Err(Error::file("mount the root file system", target, e)),
    }
}
