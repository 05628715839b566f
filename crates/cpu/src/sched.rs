//! The scheduling system calls that this room needs, each on the calling thread.

use std::io;

/// The slice asked for by every filler, and with it the grain of the whole core: the shortest that
/// the kernel grants.
pub const SLICE_NS: u64 = 100_000;

/// `struct sched_attr` of sched_setattr(2), its first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SIZE: u32 = size_of::<SchedAttr>() as u32;

/// Ordinary scheduling (SCHED_OTHER) in slices of `ns`, 0 for the kernel's own choice.
pub fn set_slice(ns: u64) -> io::Result<()> {
    set(&SchedAttr { size: SIZE, runtime: ns, ..SchedAttr::default() })
}

/// The slice in force; 0 where the kernel has none per task (before 6.12).
pub fn slice() -> io::Result<u64> {
    let mut attr = SchedAttr { size: SIZE, ..SchedAttr::default() };
    // SAFETY: the kernel writes at most SIZE bytes into `attr`, which is that large and lives across the call.
    let rc = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, SIZE, 0) };
    if rc == 0 { Ok(attr.runtime) } else { Err(io::Error::last_os_error()) }
}

/// First-in-first-out real-time scheduling at the lowest priority.
pub fn set_fifo() -> io::Result<()> {
    set(&SchedAttr { size: SIZE, policy: libc::SCHED_FIFO as u32, priority: 1, ..SchedAttr::default() })
}

fn set(attr: &SchedAttr) -> io::Result<()> {
    // SAFETY: `attr` is a valid sched_attr of the size that it states, only read by the kernel.
    let rc = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, attr, 0) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Runs the calling thread, and what it forks, on one core only.
pub fn pin(core: usize) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Runs the calling thread on any core but `core`: one of those that it may use now, or else any.
pub fn avoid(core: usize) -> io::Result<()> {
    let mut set = rustix::thread::sched_getaffinity(None)?;
    set.unset(core);
    if set.count() == 0 {
        (0..cores()).filter(|other| *other != core).for_each(|other| set.set(other));
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// How many cores this machine has, whichever of them the caller may use.
pub fn cores() -> usize {
    // SAFETY: sysconf takes a number and touches no memory of ours.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}
