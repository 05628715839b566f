//! Mount namespaces of the enclosure's thread: its own, and one for each node.
//!
//! Whoever makes a container copies all mounts that it sees, and takes most of the copies away again. If all nodes'
//! roots were in one namespace, the last of many nodes would cost as much as all before it had.

use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::error::{Context, Error};

/// A mount namespace that exists for as long as this does, or a process in it.
#[derive(Debug)]
pub(crate) struct MountNamespace {
    namespace: OwnedFd,
    /// Its `/`. That of the host's own is not ours where we run in a chroot, and to enter a namespace is to leave that.
    root: OwnedFd,
}

impl MountNamespace {
    /// The one that the calling thread is in. `proc` is the `/proc` in which that thread is.
    pub(crate) fn current(proc: &OwnedFd) -> Result<MountNamespace, Error> {
        let open = |what: &str, flags| openat(proc, what, flags | OFlags::CLOEXEC, Mode::empty());
        let namespace =
            open("thread-self/ns/mnt", OFlags::RDONLY).context(|| "cannot open a mount namespace".into())?;
        let root = openat(CWD, "/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .context(|| "cannot open the root of a mount namespace".into())?;
        Ok(MountNamespace { namespace, root })
    }

    /// That of a process, by its directory in `/proc`.
    pub(crate) fn of(process: &OwnedFd) -> Result<MountNamespace, Error> {
        let open = |what: &str, flags| openat(process, what, flags | OFlags::CLOEXEC, Mode::empty());
        let namespace = open("ns/mnt", OFlags::RDONLY).context(|| "cannot open a node's mount namespace".into())?;
        let root = open("root", OFlags::PATH | OFlags::DIRECTORY).context(|| "cannot open a node's root".into())?;
        Ok(MountNamespace { namespace, root })
    }

    /// Moves the calling thread, which must share its root with no other, into a copy of the namespace that it is in.
    pub(crate) fn copy(proc: &OwnedFd) -> Result<MountNamespace, Error> {
        // SAFETY: of what threads share only the root and the working directory are unshared, and no thread of this
        // program changes those but the enclosure's, which has its own.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
            .context(|| "cannot make a node's mount namespace".into())?;
        MountNamespace::current(proc)
    }

    /// Moves the calling thread into it.
    pub(crate) fn enter(&self) -> Result<(), Error> {
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&self.namespace), Some(LinkNameSpaceType::Mount))
            .and_then(|()| rustix::process::fchdir(&self.root))
            .and_then(|()| rustix::process::chroot("."))
            .context(|| "cannot enter a mount namespace".into())
    }
}
