//! What this machine's kernel can enforce.

use host::cores;
use host::sched::{self, Class};

use crate::cgroup::{Group, Mounts};
use crate::{Policy, SLICE};

/// The best policy that this machine offers, and if that is not [`Policy::Slots`], the reason.
pub fn best_policy() -> (Policy, Option<String>) {
    // A thread of its own: what is tried here must not stay with the caller.
    let lacking = std::thread::spawn(lacking).join().unwrap_or_else(|_| Some("the kernel could not be probed".into()));
    match lacking {
        None => (Policy::Slots, None),
        why => (Policy::Quota, why),
    }
}

fn lacking() -> Option<String> {
    let mounts = match Mounts::discover() {
        Ok(mounts) => mounts,
        Err(error) => return Some(error.to_string()),
    };
    let root = Group::at(&mounts, "/");
    if !root.writable() {
        return Some("control groups cannot be made: run as root".into());
    }
    if !root.knows_idle() {
        return Some("the kernel has no idle groups (cpu.idle, Linux 5.15)".into());
    }
    if sched::set(Class::Slices(SLICE)).is_err() || sched::slice().ok() != Some(SLICE) {
        return Some("the kernel has no per-task slices (sched_setattr sched_runtime, Linux 6.12)".into());
    }
    if cores::count() < 2 {
        return Some("slices are kept short from a second core, and there is none".into());
    }
    None
}
