//! The rights of who called root through `sudo`: files that he names are read as he could read them.
//!
//! A folder of his may be changed by him, and by whoever he lets, at any moment: where a file of his was when it was
//! looked at, a link to one of root's can be when it is opened. Read with his own rights, it shows him nothing new.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::beneath::caller;

/// The user and group that decide about files for this thread, until it is dropped.
#[derive(Debug)]
pub struct Rights {
    groups: Vec<libc::gid_t>,
}

impl Rights {
    /// Those of the caller, for what lies at `path`, if somebody called through `sudo` and it is not root's own: nobody
    /// else can change that. They are this thread's alone, and those of threads and processes that it starts.
    pub fn of_caller(path: &Path) -> Option<Rights> {
        let (user, group) = caller()?;
        if is_of_root(path) {
            return None;
        }
        let groups = groups()?;
        // In this order: whoever is not root cannot change groups.
        set_groups(&[group.as_raw()]).ok()?;
        set(user.as_raw(), group.as_raw());
        Some(Rights { groups })
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        set(0, 0);
        // They were this thread's own before.
        let _ = set_groups(&self.groups);
    }
}

/// Whether only root can put something else at a path: it, and all that it lies in, is root's.
fn is_of_root(path: &Path) -> bool {
    let owned = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.uid() == 0);
    path.canonicalize().is_ok_and(|real| real.ancestors().all(owned))
}

/// Decides about files by another user from now on, in this thread.
fn set(user: libc::uid_t, group: libc::gid_t) {
    // SAFETY: plain numbers; the calls change who this thread is to the file system, and nothing else.
    unsafe {
        libc::setfsgid(group);
        libc::setfsuid(user);
    }
}

/// The further groups of this thread.
fn groups() -> Option<Vec<libc::gid_t>> {
    // SAFETY: without a list, the call only counts.
    let count = unsafe { libc::getgroups(0, std::ptr::null_mut()) };
    let mut groups = vec![0; usize::try_from(count).ok()?];
    // SAFETY: the list has room for as many as the call is told.
    let read = unsafe { libc::getgroups(count, groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(read).ok()?);
    Some(groups)
}

/// Gives this thread other further groups; the C library would give them to all threads.
fn set_groups(groups: &[libc::gid_t]) -> io::Result<()> {
    // SAFETY: the list is read during the call, and is as long as it says.
    let code = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// Left out of `make check`.
    mod as_root {
        use super::*;

        #[test]
        fn what_the_caller_cannot_read_is_not_read_until_the_rights_are_given_back() {
            let place = std::env::temp_dir().join(format!("diorama-rights-{}", std::process::id()));
            fs::create_dir_all(&place).unwrap();
            let secret = place.join("secret");
            fs::write(&secret, "root's").unwrap();
            fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
            let before = groups().unwrap();
            set_groups(&[65534]).unwrap();
            set(65534, 65534);
            let rights = Rights { groups: before.clone() };
            assert_eq!(fs::read(&secret).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            drop(rights);
            assert_eq!((fs::read(&secret).unwrap().as_slice(), groups().unwrap()), (&b"root's"[..], before));
            fs::remove_dir_all(place).unwrap();
        }
    }
}
