//! Files below a directory that somebody else may change, for a process that is root.
//!
//! Such a directory is opened once, and from then on only its descriptor counts: whoever moves it, or puts another in
//! its place, changes nothing for who has it open. Below it the kernel follows no symbolic link, no `..` and no link of
//! `/proc` (`openat2` with `RESOLVE_BENEATH`, `NO_SYMLINKS`, `NO_MAGICLINKS`). What is made there is new, has a mode
//! that was chosen here, and belongs to who asked for it, also through `sudo`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Uid, fchown, fstat, mkdirat, openat, openat2, readlinkat,
    renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// How many symbolic links a path may lead through that somebody has named; the kernel's own limit.
const MOST_LINKS: usize = 40;
/// The mode of files that are made, before the umask.
const FILE: Mode = Mode::from_raw_mode(0o644);
/// The mode of directories that are made, before the umask.
const DIRECTORY: Mode = Mode::from_raw_mode(0o755);

/// A directory that is open. Copies of it are the same.
#[derive(Clone, Debug)]
pub struct Dir {
    fd: Arc<OwnedFd>,
}

/// Who has asked root to do something, through `sudo`: user and group; none if it is root itself, or nobody is root.
pub fn caller() -> Option<(Uid, Gid)> {
    let id = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let (user, group) = (id("SUDO_UID")?, id("SUDO_GID")?);
    // All ones means "leave it" to the kernel.
    let real = user != 0 && user != u32::MAX && group != u32::MAX && rustix::process::geteuid().is_root();
    real.then(|| (Uid::from_raw(user), Gid::from_raw(group)))
}

/// Opens the regular file that somebody has named, for reading. Symbolic links count as for [`Dir::open`], also the
/// last: none of another user's.
pub fn open_file(path: &Path) -> io::Result<File> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let name = path.file_name().ok_or_else(|| no_place(&path))?;
        let parent = walk(path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new(".")))?;
        // A FIFO must not block, nor a terminal become this process's own.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match openat(&parent, name, flags, Mode::empty()) {
            Ok(opened) => {
                let file = File::from(opened);
                return regular(&file).map(|()| file);
            }
            Err(Errno::LOOP) => {}
            Err(e) => return Err(e.into()),
        }
        let link = openat(&parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let target = target_of(&link, name, &path)?;
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(Errno::LOOP.into())
}

/// Writes a file that somebody has named: in the place of a regular file whole or not at all, in his name, and through
/// no link of another user's. Where only root can put anything (`/dev/stdout`, say), it is written to what is there.
pub fn write_file(path: &Path, text: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| no_place(path))?;
    let parent = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    if crate::rights::is_of_root(parent) {
        return std::fs::write(path, text);
    }
    let dir = Dir::open(parent)?;
    match statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile => {
            Err(io::Error::other("something else than a regular file is there: name another"))
        }
        _ => dir.replace(Path::new(name), text),
    }
}

impl Dir {
    /// The directory that somebody has named. On the way to it symbolic links are followed that belong to root or to
    /// who has asked, and no others: what another user has put there could be any place at any moment.
    pub fn open(path: &Path) -> io::Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let found = walk(path)?;
        Ok(Dir { fd: Arc::new(openat(found, ".", flags, Mode::empty()).map_err(|e| told(e, path))?) })
    }

    /// Opens it; its last part is made where it is missing.
    pub fn open_or_make(path: &Path) -> io::Result<Dir> {
        match Dir::open(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let (Some(name), parent) = (path.file_name(), path.parent()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let parent = parent.filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Dir::open_or_make(parent)?.make(Path::new(name))
    }

    /// The directory `path` below this one.
    pub fn dir(&self, path: &Path) -> io::Result<Dir> {
        let fd = self.at(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(Dir { fd: Arc::new(fd) })
    }

    /// Opens it, made with its parents where it is missing.
    pub fn make(&self, path: &Path) -> io::Result<Dir> {
        let mut dir = self.clone();
        for part in path.components() {
            let Component::Normal(name) = part else { return Err(no_place(path)) };
            match mkdirat(&dir, name, DIRECTORY) {
                Ok(()) => {
                    let made = dir.dir(Path::new(name))?;
                    give(&made)?;
                    dir = made;
                }
                Err(Errno::EXIST) => dir = dir.dir(Path::new(name))?,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(dir)
    }

    /// Opens a regular file for reading.
    pub fn read(&self, path: &Path) -> io::Result<File> {
        // A FIFO must not block, nor a terminal become this process's own.
        let file = File::from(self.at(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?);
        regular(&file).map(|()| file)
    }

    /// Makes a file in the place of one that may be there, to be written and read.
    pub fn create(&self, path: &Path) -> io::Result<File> {
        let (dir, name) = self.parent(path)?;
        match unlinkat(&dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(e.into()),
        }
        dir.fresh(name)
    }

    /// Opens a file to write at its end, which is made where it is missing.
    pub fn append(&self, path: &Path) -> io::Result<File> {
        let (dir, name) = self.parent(path)?;
        match dir.at(Path::new(name), OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => dir.fresh(name),
            Err(e) => Err(e),
            Ok(found) => {
                let file = File::from(found);
                regular(&file)?;
                // Another name of it may be anywhere, and of anybody's.
                if fstat(&file)?.st_nlink != 1 {
                    return Err(io::Error::other("it has another name (a hard link), so it is not written to"));
                }
                Ok(file)
            }
        }
    }

    /// Writes a file whole or not at all: a reader sees the old text or the new.
    pub fn replace(&self, path: &Path, text: &[u8]) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        let mut part = OsString::from(".");
        part.push(name);
        part.push(".part");
        let part = Path::new(&part);
        let written = dir.create(part).and_then(|mut file| file.write_all(text));
        let placed = written.and_then(|()| Ok(renameat(&dir, part, &dir, name)?));
        if placed.is_err() {
            let _ = unlinkat(&dir, part, AtFlags::empty());
        }
        placed
    }

    /// Opens a file that has been [made](Dir::create) under another name in the same directory.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((dir, from), (other, to)) = (self.parent(from)?, self.parent(to)?);
        Ok(renameat(&dir, from, &other, to)?)
    }

    /// Whether there is anything at `path`, were it a link.
    pub fn has(&self, path: &Path) -> bool {
        self.parent(path).is_ok_and(|(dir, name)| statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }

    /// Whether `path` is a directory.
    pub fn has_directory(&self, path: &Path) -> bool {
        self.at(path, OFlags::PATH | OFlags::DIRECTORY).is_ok()
    }

    /// The names in it, in no order.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(self)? {
            let name = entry?.file_name().to_owned();
            if !matches!(name.to_bytes(), b"." | b"..") {
                names.push(OsStr::from_bytes(name.to_bytes()).to_owned());
            }
        }
        Ok(names)
    }

    /// Numbers that no other directory of this machine has: of its file system, and of itself there.
    pub fn identity(&self) -> io::Result<[u64; 2]> {
        let stat = rustix::fs::fstat(self)?;
        Ok([stat.st_dev, stat.st_ino])
    }

    /// When something was last made, moved or removed in it.
    pub fn modified(&self) -> io::Result<SystemTime> {
        let found = fstat(self)?;
        let seconds = u64::try_from(found.st_mtime).map_err(io::Error::other)?;
        Ok(SystemTime::UNIX_EPOCH + Duration::new(seconds, found.st_mtime_nsec as u32))
    }

    /// Opens what is at `path`.
    fn at(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        openat2(self, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve).map_err(|e| told(e, path))
    }

    /// A file that was not there.
    fn fresh(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(self, name, flags, FILE)?);
        give(&file)?;
        Ok(file)
    }

    /// The directory in which `path` is, and its name there.
    fn parent<'a>(&self, path: &'a Path) -> io::Result<(Dir, &'a OsStr)> {
        let name = path.file_name().ok_or_else(|| no_place(path))?;
        match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => Ok((self.dir(parent)?, name)),
            None => Ok((self.clone(), name)),
        }
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Leaves what was made to who asked for it.
fn give(made: impl AsFd) -> io::Result<()> {
    match caller() {
        Some((user, group)) => Ok(fchown(made, Some(user), Some(group))?),
        None => Ok(()),
    }
}

fn regular(file: &File) -> io::Result<()> {
    match file.metadata()?.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// The directory at `path`, reached step by step.
fn walk(path: &Path) -> io::Result<OwnedFd> {
    let step = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let start = |path: &Path| openat(CWD, if path.is_absolute() { "/" } else { "." }, step, Mode::empty());
    let mut at = start(path)?;
    let mut links = 0;
    // The last is the next.
    let mut left: Vec<OsString> = parts(path);
    while let Some(part) = left.pop() {
        let next = openat(&at, &part, step, Mode::empty()).map_err(|e| told(e, path))?;
        let found = fstat(&next)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
            at = next;
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        let target = target_of(&next, &part, path)?;
        if target.is_absolute() {
            at = start(&target)?;
        }
        left.extend(parts(&target));
    }
    Ok(at)
}

/// Where a symbolic link leads that is `part` of a path; refused if it is neither root's nor of who has asked.
fn target_of(link: &OwnedFd, part: &OsStr, path: &Path) -> io::Result<PathBuf> {
    let whose = Uid::from_raw(fstat(link)?.st_uid);
    let ours = whose.is_root() || whose == rustix::process::geteuid() || caller().is_some_and(|(c, _)| c == whose);
    if !ours {
        let what = format!(
            "`{}` on the way is a symbolic link of another user (number {}), which root does not follow",
            part.to_string_lossy(),
            whose.as_raw()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    let target = readlinkat(link, "", Vec::new()).map_err(|e| told(e, path))?;
    Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
}

/// The parts of a path, the first of them last.
fn parts(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    names.collect()
}

fn no_place(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("`{}` names nothing below the directory", path.display()))
}

/// An error of the kernel's in words that say which rule it is from.
fn told(e: Errno, path: &Path) -> io::Error {
    match e {
        Errno::LOOP => io::Error::other(format!("a symbolic link is in `{}`, which is not followed", path.display())),
        Errno::XDEV => io::Error::other(format!("`{}` leads out of its directory", path.display())),
        e => e.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("diorama-beneath-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("own")).unwrap();
        std::fs::write(path.join("secret"), "secret").unwrap();
        path
    }

    #[test]
    fn a_directory_that_is_exchanged_is_still_the_one_that_was_opened() {
        let place = scratch("exchanged");
        let dir = Dir::open(&place.join("own")).unwrap();
        std::fs::rename(place.join("own"), place.join("moved")).unwrap();
        std::fs::create_dir(place.join("other")).unwrap();
        symlink(place.join("other"), place.join("own")).unwrap();
        dir.make(Path::new("a/b")).unwrap();
        dir.replace(Path::new("a/b/file"), b"text").unwrap();
        assert_eq!(std::fs::read_to_string(place.join("moved/a/b/file")).unwrap(), "text");
        assert_eq!(std::fs::read_dir(place.join("other")).unwrap().count(), 0);
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn no_link_is_followed_and_none_is_written_through() {
        let place = scratch("links");
        let dir = Dir::open(&place.join("own")).unwrap();
        symlink("../secret", place.join("own/link")).unwrap();
        symlink("..", place.join("own/up")).unwrap();
        std::fs::hard_link(place.join("secret"), place.join("own/hard")).unwrap();
        for path in ["link", "up/secret", "../secret", "up"] {
            assert!(dir.read(Path::new(path)).is_err(), "{path} is read");
            assert!(dir.append(Path::new(path)).is_err(), "{path} is written to");
        }
        assert!(dir.append(Path::new("hard")).is_err(), "a file with another name is written to");
        for path in ["link", "hard"] {
            dir.create(Path::new(path)).unwrap().write_all(b"own").unwrap();
        }
        assert!(dir.make(Path::new("up/made")).is_err() && dir.create(Path::new("../made")).is_err());
        let secret = std::fs::read_to_string(place.join("secret")).unwrap();
        assert_eq!((secret.as_str(), std::fs::read_dir(&place).unwrap().count()), ("secret", 2));
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn what_is_made_is_a_plain_file_whatever_was_there() {
        let place = scratch("plain");
        let dir = Dir::open(&place.join("own")).unwrap();
        std::fs::write(place.join("own/log"), "old").unwrap();
        std::fs::set_permissions(place.join("own/log"), std::fs::Permissions::from_mode(0o4777)).unwrap();
        let mut file = dir.create(Path::new("log")).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7133, 0);
        file.write_all(b"new").unwrap();
        dir.append(Path::new("log")).unwrap().write_all(b"er").unwrap();
        let mut text = String::new();
        dir.read(Path::new("log")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "newer");
        assert!(dir.read(Path::new(".")).is_err(), "a directory is no file");
        assert_eq!(dir.names().unwrap(), ["log"]);
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_file_that_is_named_is_opened_through_links_of_ones_own_alone() {
        let place = scratch("named");
        symlink("secret", place.join("last")).unwrap();
        symlink("own/../last", place.join("chain")).unwrap();
        let read = |name: &str| {
            let mut text = String::new();
            open_file(&place.join(name))?.read_to_string(&mut text).map(|_| text)
        };
        assert_eq!(read("secret").unwrap() + &read("last").unwrap() + &read("chain").unwrap(), "secretsecretsecret");
        symlink("round", place.join("round")).unwrap();
        rustix::fs::mknodat(CWD, place.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        for name in ["round", "own", "fifo", "none"] {
            assert!(read(name).is_err(), "{name} is no regular file");
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(place.join("last"), Some(65534), None).unwrap();
            assert!(read("chain").unwrap_err().to_string().contains("of another user"));
        }
        std::fs::remove_dir_all(place).unwrap();
    }

    /// Left out of `make check`.
    mod as_root {
        use super::*;

        #[test]
        fn a_file_that_is_named_is_written_in_its_place_and_through_no_link() {
            let place = scratch("write");
            // So that somebody else may change what is there.
            std::os::unix::fs::chown(&place, Some(65534), None).unwrap();
            write_file(&place.join("own/page"), b"page").unwrap();
            assert_eq!(std::fs::read(place.join("own/page")).unwrap(), b"page");
            symlink("../secret", place.join("own/link")).unwrap();
            assert!(write_file(&place.join("own/link"), b"x").is_err());
            assert_eq!(std::fs::read(place.join("secret")).unwrap(), b"secret");
            write_file(Path::new("/dev/null"), b"x").unwrap();
            assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
            std::fs::remove_dir_all(place).unwrap();
        }
    }

    #[test]
    fn links_of_ones_own_on_the_way_to_a_directory_are_followed() {
        let place = scratch("way");
        symlink("own", place.join("mine")).unwrap();
        symlink(place.join("mine/../mine"), place.join("again")).unwrap();
        let dir = Dir::open(&place.join("again")).unwrap();
        dir.create(Path::new("file")).unwrap();
        assert!(place.join("own/file").exists());
        symlink("loop", place.join("loop")).unwrap();
        assert!(Dir::open(&place.join("loop")).is_err());
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(place.join("mine"), Some(65534), None).unwrap();
            let error = Dir::open(&place.join("mine")).unwrap_err().to_string();
            assert!(error.contains("a symbolic link of another user (number 65534)"), "{error}");
        }
        std::fs::remove_dir_all(place).unwrap();
    }
}
