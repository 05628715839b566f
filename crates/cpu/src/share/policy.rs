//! The policy that this machine's kernel can enforce.

use host::slices::{self, Slices};
use host::{cgroup, cores};

use crate::{NodeClocks, Policy};

/// The best policy that this machine offers, and if that is not [`Policy::Slots`], the reason.
pub fn best_policy() -> (Policy, Option<String>) {
    match lacking() {
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
    if let (Slices::OfNobody, Some(lack)) = slices::offered() {
        return Some(lack.to_string());
    }
    if cores::count() < 2 {
        return Some("slices are kept short from a second core, and there is none".into());
    }
    if let Err(why) = NodeClocks::try_here() {
        return Some(why.to_string());
    }
    None
}
