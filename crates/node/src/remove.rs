//! Removing what nodes left on disk, however they left it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

/// Removes the directory `path` and all that is in it; nothing happens if it is not there.
///
/// No symbolic link is followed, and a tree may be deeper than any path or any limit on open files: a directory that
/// is not empty is moved up to `path` before its own turn comes. Mounted file systems are not entered (EBUSY).
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let top = match open_dir(CWD, path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    let mut moved = 0u64;
    loop {
        let subdirectories = empty(&top, &top, &mut moved)?;
        if subdirectories.is_empty() {
            break;
        }
        for name in subdirectories {
            let dir = open_dir(&top, &name)?;
            empty(&dir, &top, &mut moved)?;
            unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
        }
    }
    drop(top);
    Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

/// Removes the files and empty directories of `dir`. Moves its other directories to `top`, or, where that is `dir`
/// itself, gives their names.
fn empty(dir: &OwnedFd, top: &OwnedFd, moved: &mut u64) -> io::Result<Vec<std::ffi::CString>> {
    let at_top = std::ptr::eq(dir, top);
    let mut left = Vec::new();
    let entries: Vec<_> = Dir::read_from(dir)?.collect::<Result<_, _>>()?;
    for entry in entries {
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if entry.file_type() != FileType::Directory {
            match unlinkat(dir, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                // Not every file system tells the type of an entry.
                Err(Errno::ISDIR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        match unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) if at_top => left.push(name.to_owned()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => loop {
                *moved += 1;
                match renameat(dir, name, top, format!(".moved-{moved}")) {
                    // The name is taken by something of the node's own.
                    Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                    other => break other?,
                }
            },
            Err(e) => return Err(e.into()),
        }
    }
    Ok(left)
}

fn open_dir(at: impl AsFd, path: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, path, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn links_are_removed_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (keep, gone) = (dir.path().join("keep"), dir.path().join("gone"));
        fs::create_dir_all(gone.join("a/b/c")).unwrap();
        fs::create_dir_all(&keep).unwrap();
        fs::write(keep.join("file"), "precious").unwrap();
        std::os::unix::fs::symlink(&keep, gone.join("a/link")).unwrap();
        std::os::unix::fs::symlink("/nowhere", gone.join("a/b/c/.moved-1")).unwrap();
        fs::write(gone.join(".moved-1"), "in the way").unwrap();
        remove_tree(&gone).unwrap();
        assert!(!gone.exists());
        assert_eq!(fs::read_to_string(keep.join("file")).unwrap(), "precious");
        remove_tree(&gone).expect("what is not there need not be removed");
    }

    #[test]
    fn a_tree_deeper_than_any_path_goes_too() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        fs::create_dir(&gone).unwrap();
        let mut at = open_dir(CWD, &gone).unwrap();
        for _ in 0..5000 {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = open_dir(&at, "d").unwrap();
        }
        remove_tree(&gone).unwrap();
        assert!(!gone.exists());
    }
}
