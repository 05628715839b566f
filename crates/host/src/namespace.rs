//! Network namespaces that no path on the host names, and work inside them; how many namespaces there may be.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::error::{Context, Error, Lack};
use crate::user_namespace::UserNamespace;

/// The kinds of which each node has some, by the kernel's names, with how many.
const OF_A_NODE: [(&str, u64); 6] = [("cgroup", 1), ("ipc", 1), ("mnt", 2), ("net", 1), ("pid", 1), ("uts", 1)];

/// The lack, if this machine does not allow as many namespaces as so many nodes have. Where one is not allowed,
/// the kernel says that no space is left, which would send people to their disks.
pub fn too_few_namespaces(nodes: usize) -> Option<Lack> {
    let limit = |kind: &str| fs::read_to_string(setting(kind)).ok()?.trim().parse().ok();
    too_few_of(nodes as u64, limit)
}

fn setting(kind: &str) -> String {
    format!("/proc/sys/user/max_{kind}_namespaces")
}

/// `limit` is what is allowed of a kind; nothing where the kernel does not say.
fn too_few_of(nodes: u64, limit: impl Fn(&str) -> Option<u64>) -> Option<Lack> {
    // One more of each kind is the run's own, or its probes'.
    let few = |(kind, each): &(&'static str, u64)| Some((*kind, each * nodes + 1, limit(kind)?));
    let (kind, needed, allowed) = OF_A_NODE.iter().filter_map(few).find(|(_, needed, allowed)| allowed < needed)?;
    let what = format!("nodes need {needed} namespaces ({kind}) here, and {allowed} are allowed ({})", setting(kind));
    // As many as others may have, too: others' are counted with the run's.
    Some(Lack::new(what, format!("`sysctl -w user.max_{kind}_namespaces={}`", needed.max(10_000))))
}

/// A network namespace, alive as long as a clone of this value or a process in it is.
#[derive(Clone, Debug)]
pub struct NetNamespace {
    namespace: Arc<OwnedFd>,
    /// Whose it is, if that is not the machine's root.
    users: Option<Arc<UserNamespace>>,
}

impl NetNamespace {
    /// Makes an empty namespace, with nothing but a `lo` that is down.
    pub fn create() -> Result<NetNamespace, Error> {
        on_a_thread(made_here).context(|| "cannot make a network namespace".into())
    }

    /// Makes one that is like those that are made in this one: some settings say what that is. Runs `first` in it.
    pub fn child(&self, first: impl FnOnce() + Send) -> Result<NetNamespace, Error> {
        let made = self.enter(|| made_here().inspect(|_| first()))?;
        made.context(|| "cannot make a network namespace".into())
    }

    /// Likewise, with a user namespace whose own it is, and whose root has no rights elsewhere.
    pub fn child_with_users(&self, first: impl FnOnce() + Send) -> Result<NetNamespace, Error> {
        let made = self.enter(|| {
            let (users, namespace) = UserNamespace::make()?;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            first();
            Ok(NetNamespace { namespace: Arc::new(namespace), users: Some(Arc::new(users)) })
        })?;
        made.map_err(|e: io::Error| match e.raw_os_error() {
            Some(libc::ENOSPC | libc::EUSERS) => Error::Machine(Lack::new(
                "no more user namespaces are allowed here (/proc/sys/user/max_user_namespaces)",
                "`sysctl -w user.max_user_namespaces=10000`, or leave `user_namespaces` out",
            )),
            _ => Error::system("cannot make a user namespace", e),
        })
    }

    /// The user namespace that it belongs to, if that is not the machine's own.
    pub fn users(&self) -> Option<&Arc<UserNamespace>> {
        self.users.as_ref()
    }

    /// Runs `work` on a thread that is in this namespace: see [`in_netns`].
    pub fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R, Error> {
        in_netns(self.as_fd(), work)
    }

    /// The number by which BPF programs know the namespace; it is never used again while the machine runs.
    pub fn cookie(&self) -> Result<u64, Error> {
        let read = self.enter(|| {
            let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
            let mut cookie = 0u64;
            let mut length = size_of::<u64>() as libc::socklen_t;
            // SAFETY: `cookie` has room for the eight bytes that the call may write, as `length` says.
            let code = unsafe {
                let value = (&raw mut cookie).cast();
                libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, value, &raw mut length)
            };
            if code == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
        })?;
        read.context(|| "cannot tell a network namespace's cookie".into())
    }
}

impl AsFd for NetNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }
}

/// Moves the calling thread into a new namespace, for good.
fn made_here() -> io::Result<NetNamespace> {
    // SAFETY: unsharing the network namespace of a thread touches no memory and no descriptor.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    let made = openat(CWD, "/proc/thread-self/ns/net", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(NetNamespace { namespace: Arc::new(made), users: None })
}

/// Runs `work` on a thread of its own that has entered `netns`: sockets that it makes, `/proc/thread-self/net` and
/// `/proc/sys/net` are the namespace's. The caller stays where it is.
pub fn in_netns<R: Send>(netns: BorrowedFd<'_>, work: impl FnOnce() -> R + Send) -> Result<R, Error> {
    let entered = on_a_thread(|| {
        move_into_link_name_space(netns, Some(LinkNameSpaceType::Network))?;
        Ok(work())
    });
    entered.context(|| "cannot enter a network namespace".into())
}

/// Moves the calling thread into `netns` for good: for a thread of one's own that reads many namespaces.
pub fn move_into_netns(netns: BorrowedFd<'_>) -> Result<(), Error> {
    move_into_link_name_space(netns, Some(LinkNameSpaceType::Network))
        .context(|| "cannot enter a network namespace".into())
}

/// Runs `work` on a thread of its own, whose namespaces it may change.
fn on_a_thread<R: Send>(work: impl FnOnce() -> io::Result<R> + Send) -> io::Result<R> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("netns".into()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_allowed_is_told_with_the_setting() {
        let of = |kind: &'static str, allowed| move |asked: &str| Some(if asked == kind { allowed } else { 100_000 });
        let lack = too_few_of(3, of("cgroup", 0)).unwrap();
        assert!(lack.what.contains("need 4 namespaces (cgroup)") && lack.what.contains("0 are allowed"), "{lack}");
        assert!(lack.help.contains("user.max_cgroup_namespaces=10000"), "{lack}");
        assert!(too_few_of(3, of("mnt", 6)).is_some(), "the runtime makes a second one for each node");
        assert_eq!(too_few_of(3, of("mnt", 7)), None);
        assert_eq!(too_few_of(3, |_| None), None, "a kernel that does not say");
    }
}
