//! Measuring a share from inside: work that notices when it is not running.
//!
//! Asking the kernel for a thread's CPU time makes it account for that thread, which makes coarse mechanisms look
//! exact; this reads only the clock, and takes every step longer than `GAP_NS` for time in which something else ran.

use host::now;
use scale::{RealDuration, RealInstant};

/// The longest step of the clock that still counts as work. A step of the loop takes some 30–60 ns, an interrupt more
/// than this.
const GAP_NS: u64 = 1_500;

/// Does `amount` of CPU work and gives the time when it was done.
pub fn work(amount: RealDuration) -> RealInstant {
    let mut done = 0;
    let mut last = now();
    while done < amount.as_nanos() {
        let next = now();
        let step = next.since(last).as_nanos();
        if step < GAP_NS {
            done += step;
        }
        last = next;
    }
    last
}
