//! The rights of who called root through `sudo`: files that he names are read as he could read them.
//!
//! A folder of his may be changed by him, and by whoever he lets, at any moment: where a file of his was when it was
//! looked at, a link to one of root's can be when it is opened. Read with his own rights, it shows him nothing new.

use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::beneath::caller;

/// The user and group that decide about files for this thread, until it is dropped.
#[derive(Debug)]
pub struct Rights {
    /// Who decided before.
    before: (libc::uid_t, libc::gid_t),
    groups: Vec<libc::gid_t>,
    /// They are a thread's: dropped by another, they would stay with this one.
    of_thread: PhantomData<*const ()>,
}

impl Rights {
    /// Those of the caller, for what lies at `path`, if somebody called through `sudo` and it is not root's own: nobody
    /// else can change that. They are this thread's alone, and those of threads and processes that it starts.
    pub fn of_caller(path: &Path) -> Option<Rights> {
        if caller().is_none() || is_of_root(path) { None } else { Rights::of_caller_anywhere() }
    }

    /// Likewise, whatever lies where: for paths that somebody names who may not be root in a text that is no file.
    ///
    /// Panics where root may not give up its rights (without CAP_SETUID or CAP_SETGID): who went on would read as root.
    pub fn of_caller_anywhere() -> Option<Rights> {
        let (user, group) = caller()?;
        let (before, groups) = (now(), groups().expect("a thread knows its groups"));
        set_groups(&[group.as_raw()]).expect("root may give up its groups, which takes CAP_SETGID");
        set(user.as_raw(), group.as_raw());
        assert_eq!(now(), (user.as_raw(), group.as_raw()), "root may give up its rights to files, by CAP_SETUID");
        Some(Rights { before, groups, of_thread: PhantomData })
    }
}

/// Does what only root can, in a thread that has the rights of who called: starting a program that he cannot read.
pub fn as_root<R>(work: impl FnOnce() -> R) -> R {
    let (user, group) = now();
    if user == 0 || !rustix::process::geteuid().is_root() {
        return work();
    }
    set(0, 0);
    let done = work();
    set(user, group);
    done
}

impl Drop for Rights {
    fn drop(&mut self) {
        set(self.before.0, self.before.1);
        // They were this thread's own before.
        let _ = set_groups(&self.groups);
    }
}

/// Whether only root can put something else at a path: it, or what is there of it, and all that it lies in, is root's,
/// and nobody else may write there; so is each symbolic link by which it is reached. In a directory such as `/tmp`,
/// where all may, root's directories stay what they are, but a file may be another name of one that lies elsewhere.
pub(crate) fn is_of_root(path: &Path) -> bool {
    let Ok(path) = std::path::absolute(path) else { return false };
    let mut there = path.ancestors().filter(|path| path.symlink_metadata().is_ok());
    let Some(named) = there.next() else { return false };
    named.canonicalize().is_ok_and(|real| is_all_of_root(&real)) && is_all_of_root(named)
}

/// Likewise of each part of a path, as it is written.
fn is_all_of_root(path: &Path) -> bool {
    let mut below = None;
    path.ancestors().all(|part| {
        let Ok(found) = part.symlink_metadata() else { return false };
        let holds_directory = below.replace(found.is_dir()) == Some(true);
        let others = if found.gid() == 0 { 0o002 } else { 0o022 };
        let sticky = holds_directory && found.mode() & libc::S_ISVTX != 0;
        found.uid() == 0 && (found.is_symlink() || found.mode() & others == 0 || sticky)
    })
}

/// Has a program started with root's rights to files, whatever those of the thread are that starts it.
pub fn starts_as_root(command: &mut Command) {
    if now().0 != 0 && rustix::process::geteuid().is_root() {
        let work = || {
            set(0, 0);
            Ok(())
        };
        // SAFETY: between fork and exec this makes two system calls; it takes no lock and allocates nothing.
        unsafe { command.pre_exec(work) };
    }
}

/// By whom is decided about files in this thread.
fn now() -> (libc::uid_t, libc::gid_t) {
    // SAFETY: plain numbers, which are those of nobody; both calls only tell what there is.
    unsafe { (libc::setfsuid(u32::MAX) as u32, libc::setfsgid(u32::MAX) as u32) }
}

/// Decides about files by another user from now on, in this thread.
pub(crate) fn set(user: libc::uid_t, group: libc::gid_t) {
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
            assert!(rustix::process::geteuid().is_root(), "only root has rights to give away: run the tests as root");
            let place = std::env::temp_dir().join(format!("diorama-rights-{}", std::process::id()));
            fs::create_dir_all(&place).unwrap();
            let secret = place.join("secret");
            fs::write(&secret, "root's").unwrap();
            fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
            let before = groups().unwrap();
            set_groups(&[65534]).unwrap();
            set(65534, 65534);
            let rights = Rights { before: (0, 0), groups: before.clone(), of_thread: PhantomData };
            assert_eq!(fs::read(&secret).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(as_root(|| fs::read(&secret)).unwrap(), b"root's");
            assert_eq!(fs::read(&secret).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            let mut program = Command::new("/bin/cat");
            starts_as_root(program.arg(&secret));
            assert_eq!(program.output().unwrap().stdout, b"root's");
            drop(rights);
            assert_eq!((fs::read(&secret).unwrap().as_slice(), groups().unwrap()), (&b"root's"[..], before));
            assert!(is_of_root(Path::new("/etc/passwd")) && is_of_root(Path::new("/etc/none/at/all")));
            let link = place.join("link");
            std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
            fs::create_dir(place.join("own")).unwrap();
            std::os::unix::fs::symlink("/etc", place.join("own/link")).unwrap();
            assert!(is_of_root(&place.join("own/link/passwd")), "a link of root's");
            std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
            std::os::unix::fs::lchown(place.join("own/link"), Some(65534), None).unwrap();
            assert!(!is_of_root(&link) && !is_of_root(&place.join("own/link/passwd")), "a link of another user");
            std::os::unix::fs::chown(&place, Some(65534), None).unwrap();
            assert!(!is_of_root(&secret) && !is_of_root(&place.join("none/at/all")), "it is of another user");
            fs::remove_dir_all(place).unwrap();
        }

        #[test]
        fn where_others_may_write_nothing_is_roots_alone_but_directories() {
            let place = std::env::temp_dir().join(format!("diorama-roots-{}", std::process::id()));
            fs::create_dir_all(place.join("own")).unwrap();
            fs::write(place.join("file"), "root's").unwrap();
            let with = |mode: u32| {
                fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
                ["", "file", "none", "own", "own/none"].map(|name| is_of_root(&place.join(name)))
            };
            assert_eq!(with(0o755), [true; 5]);
            assert_eq!(with(0o777), [false; 5]);
            assert_eq!(with(0o1777), [false, false, false, true, true]);
            assert_eq!(with(0o775), [true; 5], "root's group is root's");
            std::os::unix::fs::chown(&place, None, Some(65534)).unwrap();
            assert_eq!(with(0o775), [false; 5]);
            fs::remove_dir_all(place).unwrap();
        }
    }
}
