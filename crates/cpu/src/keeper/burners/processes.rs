//! Burners as processes that share one memory, for control groups that hold no single threads (version 2 beside memory
//! limits).
//!
//! They are made by clone(2) with CLONE_VM and nothing else: a process each, with a group of its own, and one address
//! space for all, as threads have. They have no thread-local storage of their own, so between their first instruction
//! and their last they call nothing that knows of threads: no allocation, no lock, no function of the C library that
//! reports errors.

use std::ffi::c_int;
use std::io;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::process::{Pid, Signal};
use scale::RealDuration;

use super::{Gate, Meter, burn};

/// Several times what the few calls below need.
const STACK: usize = 64 << 10;

/// The arguments of a burner; they live as long as the process.
struct Inheritance {
    gate: Gate,
    meter: Meter,
    slice: RealDuration,
    parent: Pid,
}

/// Starts a burner, which waits until `gate` is open, and then burns its core. It ends with this thread, and is to be
/// waited for like any child.
pub fn start(gate: Gate, meter: Meter, slice: RealDuration) -> io::Result<Pid> {
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address of the kernel's choice, that nothing else knows; it is never unmapped.
    let stack = unsafe { mmap_anonymous(std::ptr::null_mut(), STACK, prot, MapFlags::PRIVATE)? };
    let inheritance = Box::leak(Box::new(Inheritance { gate, meter, slice, parent: rustix::process::getpid() }));
    // SAFETY: the new process runs `enter` on a stack of its own that is aligned to a page and grows down from its
    // end, with an argument that is never freed; `enter` keeps to what the head of this file says.
    let pid = unsafe {
        let top = stack.cast::<u8>().add(STACK).cast();
        libc::clone(enter, top, libc::CLONE_VM | libc::SIGCHLD, (&raw mut *inheritance).cast())
    };
    Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(io::Error::last_os_error)
}

extern "C" fn enter(inheritance: *mut libc::c_void) -> c_int {
    // SAFETY: `start` handed over a valid one, which nobody writes to or frees.
    let Inheritance { gate, meter, slice, parent } = unsafe { &*inheritance.cast::<Inheritance>() };
    // rustix makes these calls itself: no error number of the C library is written, which belongs to the parent here.
    let follows = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    if !follows || rustix::process::getppid() != Some(*parent) {
        return 1;
    }
    gate.wait();
    burn(*meter, *slice)
}
