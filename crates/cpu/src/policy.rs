//! What this machine's kernel can enforce.

use host::sched::{self, Class};
use host::{cgroup, cores};

use crate::{Policy, SHORTEST_SLICE};

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
    let groups = cgroup::offers();
    if let Some(lack) = groups.no_shares {
        return Some(lack.to_string());
    }
    if !groups.writable {
        return Some("control groups cannot be made: run as root".into());
    }
    if !groups.idle {
        return Some("the kernel has no idle groups (Linux 5.15)".into());
    }
    if sched::set(Class::Slices(SHORTEST_SLICE)).is_err() || sched::slice().ok() != Some(SHORTEST_SLICE) {
        return Some("the kernel has no per-task slices (sched_setattr sched_runtime, Linux 6.12)".into());
    }
    if cores::count() < 2 {
        return Some("slices are kept short from a second core, and there is none".into());
    }
    None
}
