//! Measuring a share from inside: work that notices when it is not running.
//!
//! Asking the kernel for a thread's CPU time makes it account for that thread, which makes coarse mechanisms look exact; this
//! reads only the clock, and takes every step longer than `GAP_NS` for time in which something else ran.

use scale::{RealDuration, RealInstant};

/// The longest step of the clock that still counts as work. A step of the loop takes some 30–60 ns, an interrupt more
/// than this.
const GAP_NS: u64 = 1_500;

/// The real time now.
pub fn now() -> RealInstant {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    RealInstant::from_nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

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

/// Sleeps until `at`, as precisely as the kernel can.
pub fn sleep_until(at: RealInstant) {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let ns = at.as_nanos();
    let at = rustix::thread::Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ };
    while rustix::thread::clock_nanosleep_absolute(rustix::thread::ClockId::Monotonic, &at).is_err() {}
}
