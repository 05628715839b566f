//! Clocks, and sleeping by them. All of it is real time.

use std::num::NonZeroU64;

use rustix::thread::Timespec;
use rustix::time::{ClockId, clock_getres, clock_gettime};
use scale::{KernelTick, RealDuration, RealInstant};

/// The real time now: the host's `CLOCK_MONOTONIC`.
pub fn now() -> RealInstant {
    RealInstant::from_nanos(nanoseconds(ClockId::Monotonic))
}

/// The host's date: ns since 1970.
pub fn unix_ns() -> u64 {
    nanoseconds(ClockId::Realtime)
}

/// The identity of this machine's boot, which no other machine has; `None` if it does not tell.
pub fn boot() -> Option<String> {
    let told = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(told.trim().to_owned()).filter(|told| !told.is_empty())
}

/// CPU time of the calling thread.
pub fn of_this_thread() -> RealDuration {
    RealDuration::from_nanos(nanoseconds(ClockId::ThreadCPUTime))
}

/// CPU time of this process, all threads.
pub fn of_this_process() -> RealDuration {
    RealDuration::from_nanos(nanoseconds(ClockId::ProcessCPUTime))
}

fn nanoseconds(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// As the kernel's calls take it.
pub fn timespec(d: RealDuration) -> Timespec {
    let ns = d.as_nanos();
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// Sleeps for `d`, or until a signal comes: a caller that must sleep for all of it checks the clock.
pub fn nap(d: RealDuration) {
    drop(rustix::thread::clock_nanosleep_relative(ClockId::Monotonic, &timespec(d)));
}

/// Sleeps until `at`, as precisely as the kernel can.
pub fn sleep_until(at: RealInstant) {
    // It cannot fail for the calling thread; if it did, the sleep would be some 50 µs too long.
    let _ = precise_sleep();
    let at = timespec(at.since(RealInstant::ZERO));
    while rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &at).is_err() {}
}

/// Makes sleeps of the calling thread end when they are asked to, and not up to 50 µs later (its timer slack).
pub fn precise_sleep() -> std::io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN))?)
}

/// This kernel's tick.
pub fn tick() -> KernelTick {
    // The coarse clock moves once a tick, and says so.
    KernelTick::new(RealDuration::from_nanos(clock_getres(ClockId::MonotonicCoarse).tv_nsec as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_does_not_end_before_its_time() {
        let end = now() + RealDuration::from_nanos(2_000_000);
        sleep_until(end);
        assert!(now() >= end);
        sleep_until(RealInstant::ZERO);
        assert_eq!(timespec(RealDuration::from_nanos(1_500_000_000)).tv_nsec, 500_000_000);
    }

    #[test]
    fn own_time_is_counted() {
        let (thread, process) = (of_this_thread(), of_this_process());
        let sum: u64 = std::hint::black_box((0..2_000_000).sum());
        assert!(of_this_thread() > thread && of_this_process() > process, "{sum}");
    }
}
