//! Measuring a share from inside: work that notices when it is not running.
//!
//! Asking the kernel for a thread's CPU time makes it account for that thread, which makes coarse mechanisms look
//! exact; this reads only the clock, and takes every long step for time in which something else ran.

use std::sync::OnceLock;

use host::now;
use scale::{RealDuration, RealInstant};

/// The longest step of the clock that still counts as work. A step of the loop takes some 30–60 ns, an interrupt more
/// than this.
const GAP_NS: u64 = 1_500;
/// On machines that are slow to read the clock, as emulated ones are: so many usual steps.
const USUAL: u64 = 8;

/// The longest step that counts as work on this machine.
fn longest() -> u64 {
    static LONGEST: OnceLock<u64> = OnceLock::new();
    *LONGEST.get_or_init(|| {
        let mut steps = [0; 1001];
        let mut last = now();
        for step in &mut steps {
            let next = now();
            *step = next.since(last).as_nanos();
            last = next;
        }
        steps.sort_unstable();
        GAP_NS.max(USUAL * steps[steps.len() / 2])
    })
}

/// Does `amount` of CPU work and gives the time when it was done.
pub fn work(amount: RealDuration) -> RealInstant {
    let longest = longest();
    let mut done = 0;
    let mut last = now();
    while done < amount.as_nanos() {
        let next = now();
        let step = next.since(last).as_nanos();
        if step < longest {
            done += step;
        }
        last = next;
    }
    last
}
