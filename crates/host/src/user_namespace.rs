//! User namespaces of nodes, in which their root is nobody of the host's.
//!
//! Each has numbers of its own, which no distribution gives to users, so that what the kernel counts per user is the
//! node's, and a file of its root is no file of the host's root.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_long, c_void};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use rustix::thread::{UnshareFlags, capabilities, set_capabilities, unshare_unsafe};

use crate::error::{Context, Error, Lack};
use crate::rights;

/// How many numbers a node has, from 0 on as it sees them.
pub const NUMBERS: u32 = 1 << 16;
/// From here to 0x7FFD_FFFF no distribution has users (systemd, "Users, Groups, UIDs and GIDs"). Numbers from 2^31 on
/// are too large for `ping_group_range`.
const FIRST: u32 = 0x7000_0000;
const RANGES: u32 = 0xFFE;
/// Numbers of namespaces begin here (`PROC_DYNAMIC_FIRST` of the kernel); the lowest that is free is given out.
const FIRST_OF_NAMESPACES: u64 = 0xF000_0000;

/// A user namespace, alive as long as this is or a process in it.
#[derive(Debug)]
pub struct UserNamespace {
    namespace: OwnedFd,
    /// Keeps its number, by which the range was chosen, from being another's.
    _chosen_by: OwnedFd,
    first: u32,
}

/// Ranges of this process's nodes.
static TAKEN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

impl UserNamespace {
    /// Makes one, and a network namespace that is its own, like those that are made in the calling thread's. The thread
    /// is another user's afterwards: it is to be one that ends then.
    pub(crate) fn make() -> io::Result<(UserNamespace, OwnedFd)> {
        // SAFETY: unsharing the names of a thread touches no memory and no descriptor.
        unsafe { unshare_unsafe(UnshareFlags::NEWUTS) }?;
        let chosen_by = read_only(Path::new("/proc/thread-self/ns/uts"))?;
        let first = take(rustix::fs::fstat(&chosen_by)?.st_ino)?;
        // The kernel counts what is used in it for who made it, too.
        become_user(first)?;
        let waits = Waiting::start()?;
        let of = |file: &str| Path::new("/proc").join(waits.pid.to_string()).join(file);
        let map = format!("0 {first} {NUMBERS}");
        fs::write(of("uid_map"), &map)?;
        fs::write(of("gid_map"), &map)?;
        let (namespace, net) = (read_only(&of("ns/user"))?, read_only(&of("ns/net"))?);
        Ok((UserNamespace { namespace, _chosen_by: chosen_by, first }, net))
    }

    /// The number on the host of the node's root. Its others follow.
    pub fn root(&self) -> u32 {
        self.first
    }

    /// Shows what is at a path once more, at `place`, whose owners are the node's: 0 is its root. On disk they are the
    /// same as without.
    ///
    /// # Errors
    /// A [`Lack`] if that file system, or this kernel, cannot do so.
    pub fn show(&self, what: BorrowedFd<'_>, place: &Path, name: &Path) -> Result<(), Error> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
        let tree = open_tree(what, "", flags).context(|| format!("cannot take hold of {}", name.display()))?;
        self.map(&tree).map_err(|e| not_mapped(name, &e))?;
        move_mount(tree, "", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
            .map_err(|e| Error::file("mount at", place, e))
    }

    /// Gives the owners of a mount that nobody sees yet the node's numbers.
    fn map(&self, tree: &OwnedFd) -> io::Result<()> {
        // `struct mount_attr` of <linux/mount.h>.
        let attributes = [libc::MOUNT_ATTR_IDMAP, 0, 0, self.namespace.as_raw_fd() as u64];
        // SAFETY: the kernel reads an empty path and the four numbers, which live across the call, by their size.
        let code = unsafe {
            let (path, flags) = (c"".as_ptr(), libc::AT_EMPTY_PATH);
            let size = size_of_val(&attributes);
            libc::syscall(libc::SYS_mount_setattr, tree.as_raw_fd(), path, flags, attributes.as_ptr(), size)
        };
        if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Does `work` as the node's root: files that it makes are the node's. The rights are those of the host's root.
    pub fn as_root<R>(&self, work: impl FnOnce() -> R) -> Result<R, Error> {
        let as_user = AsUser::begin(self.first).context(|| "cannot make files of a node's root".into())?;
        let done = work();
        drop(as_user);
        Ok(done)
    }
}

impl AsFd for UserNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }
}

impl Drop for UserNamespace {
    fn drop(&mut self) {
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.first);
    }
}

/// A range that no other node of this process has, nor, as long as there are fewer namespaces than ranges, any other.
fn take(of_namespace: u64) -> io::Result<u32> {
    let begin = (of_namespace.wrapping_sub(FIRST_OF_NAMESPACES) % u64::from(RANGES)) as u32;
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let all = (0..RANGES).map(|n| FIRST + (begin + n) % RANGES * NUMBERS);
    let free = all.into_iter().find(|first| !taken.contains(first));
    let first = free.ok_or_else(|| io::Error::other(format!("{RANGES} nodes have all numbers that there are")))?;
    taken.insert(first);
    Ok(first)
}

fn read_only(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

fn not_mapped(name: &Path, why: &io::Error) -> Error {
    let what = format!(
        "nodes cannot have user namespaces here: the file system of {} does not let owners be shown as others ({why})",
        name.display()
    );
    Lack::new(what, "leave `user_namespaces` out, or use Linux 6.3 or later on ext4, xfs or btrfs").into()
}

/// Raises all capabilities that this thread may have: to become another user lowers them.
fn raise() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.effective = sets.permitted;
    Ok(set_capabilities(None, sets)?)
}

/// Makes this thread, and no other, another user, with the rights that it has.
fn become_user(number: u32) -> io::Result<()> {
    let same = c_long::from(-1i32);
    for call in [libc::SYS_setresgid, libc::SYS_setresuid] {
        // SAFETY: plain numbers; the calls change who this thread is, where the C library would change all threads.
        if unsafe { libc::syscall(call, same, number, same) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    raise()
}

/// A time in which this thread is another user to file systems, with the rights that it has.
struct AsUser;

impl AsUser {
    fn begin(number: u32) -> io::Result<AsUser> {
        rights::set(number, number);
        let as_user = AsUser;
        raise()?;
        Ok(as_user)
    }
}

impl Drop for AsUser {
    fn drop(&mut self) {
        rights::set(0, 0);
    }
}

/// A process in new user and network namespaces that does nothing, until this is dropped.
struct Waiting {
    pid: c_int,
    _stack: Vec<u128>,
}

impl Waiting {
    fn start() -> io::Result<Waiting> {
        const WORDS: usize = 1024;
        let mut stack = vec![0u128; WORDS];
        let flags = libc::CLONE_NEWUSER | libc::CLONE_NEWNET | libc::CLONE_VM | libc::CLONE_FILES;
        let masked = Masked::all();
        let parent = std::process::id() as usize as *mut c_void;
        // SAFETY: the new process runs `wait` on a stack of its own, which lives until it has ended (see the drop), and
        // grows down from its end, which is aligned to 16 bytes. Of the memory that it shares it touches nothing else.
        let pid = unsafe { libc::clone(wait, stack.as_mut_ptr().add(WORDS).cast(), flags, parent) };
        drop(masked);
        if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(Waiting { pid, _stack: stack }) }
    }
}

/// Ends with the thread that started it, and otherwise by SIGKILL alone.
extern "C" fn wait(parent: *mut c_void) -> c_int {
    // SAFETY: these calls take numbers and null pointers only. None of them is one at which the C library would look at
    // what belongs to a thread, but for `errno` where one fails: this process has none of its own, and its parent's
    // thread waits for files meanwhile, which it reads no error number of.
    unsafe {
        libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        while libc::syscall(libc::SYS_getppid) as usize == parent as usize {
            libc::syscall(libc::SYS_ppoll, 0, 0, 0, 0, 0);
        }
    }
    0
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // SAFETY: a number, that of a child of ours which nobody else waits for: it sends no signal when it ends.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            while libc::waitpid(self.pid, std::ptr::null_mut(), libc::__WALL) < 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
        }
    }
}

/// A time in which this thread, and what it starts, takes no signal.
struct Masked(libc::sigset_t);

impl Masked {
    fn all() -> Masked {
        // SAFETY: both sets are plain data, which the calls fill in.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            Masked(before)
        }
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        // SAFETY: the set is one that the kernel gave.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}
