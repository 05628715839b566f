//! A watchdog: boosts the thread that forces reschedules when somebody else keeps its core.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use host::sched::{self, Class};
use host::time::{precise_sleep, sleep_until};
use rustix::thread::{Pid, gettid};
use scale::{RealDuration, RealInstant};

use crate::Error;

/// Looking costs some µs, of that thread's core.
const OFTEN: RealDuration = RealDuration::from_nanos(500_000);
/// A look later than this was held up by real-time tasks, the emulator's, which come before that thread, too.
const HELD_UP: RealDuration = RealDuration::from_nanos(100_000);
/// The length of a boost: the first one, and at most.
const SHORTEST: RealDuration = RealDuration::from_nanos(10_000_000);
const LONGEST: RealDuration = RealDuration::from_nanos(1_000_000_000);

/// Looks from a real-time thread whether a thread still comes by, and makes it a real-time one, too, if it does not.
///
/// A task that yields its core has it again when whoever got it is done, or at the next tick: in up to 4 ms (and 10,
/// where a second has 100 ticks). Nobody ends timeslices meanwhile.
pub(super) struct Watchdog(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// When the thread last came by, and how often it is to.
    at: AtomicU64,
    period: AtomicU64,
    boosted: AtomicBool,
}

impl Watchdog {
    /// Watches the calling thread, which comes by now and then every `period`. Nothing, where there may be no real-time
    /// tasks.
    pub fn of_this_thread(now: RealInstant, period: RealDuration) -> Option<Watchdog> {
        let watchdog = Watchdog(Arc::default());
        watchdog.come_by(now, period);
        let (seen, thread) = (watchdog.0.clone(), gettid());
        let settle =
            || precise_sleep().and_then(|()| sched::set(BOOSTED)).map_err(Error::io("have a real-time thread"));
        super::start_thread("watchdog", settle, move || watch(&seen, thread)).is_ok().then_some(watchdog)
    }

    /// Says that the thread has come by, and is to every `period`; whether it has been boosted since the last time.
    pub fn come_by(&self, now: RealInstant, period: RealDuration) -> bool {
        self.0.period.store(period.as_nanos(), Ordering::Relaxed);
        self.0.at.store(now.as_nanos(), Ordering::Relaxed);
        self.0.boosted.load(Ordering::Relaxed) && self.0.boosted.swap(false, Ordering::Relaxed)
    }
}

fn watch(seen: &Seen, thread: Pid) {
    let mut next = host::now();
    loop {
        let period = RealDuration::from_nanos(seen.period.load(Ordering::Relaxed));
        let often = OFTEN.max(RealDuration::from_nanos(period.as_nanos() / 2));
        next = next + often;
        sleep_until(next);
        let now = host::now();
        if now.since(next) > HELD_UP {
            next = now;
        } else if now.since(RealInstant::from_nanos(seen.at.load(Ordering::Relaxed))) > period + often
            && sched::set_other(Some(thread), BOOSTED).is_ok()
        {
            seen.boosted.store(true, Ordering::Relaxed);
        }
    }
}

/// The class of a thread that is boosted.
pub(super) const BOOSTED: Class = Class::RealTime { priority: 1, inherited: true };

/// The length of boosts: twice as long each time when the next one soon follows.
#[derive(Debug)]
pub(super) struct Boost {
    until: Option<RealInstant>,
    length: RealDuration,
}

impl Boost {
    pub fn never() -> Boost {
        Boost { until: None, length: SHORTEST }
    }

    /// Begins one.
    pub fn again(&mut self, now: RealInstant) {
        // If it is boosted still, that was late, or for another reason.
        let soon = self.until.is_some_and(|until| now.since(until) < self.length);
        let twice = RealDuration::from_nanos(2 * self.length.as_nanos()).min(LONGEST);
        self.length = if soon { twice } else { SHORTEST };
        self.until = Some(now + self.length);
    }

    /// Whether it has lasted long enough.
    pub fn is_over(&self, now: RealInstant) -> bool {
        self.until.is_none_or(|until| now > until)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn who_needs_it_again_soon_has_it_for_twice_as_long() {
        let at = |ms: u64| RealInstant::from_nanos(ms * 1_000_000);
        let mut boost = Boost::never();
        assert!(boost.is_over(at(100)));
        boost.again(at(100));
        assert!(!boost.is_over(at(109)) && boost.is_over(at(111)));
        boost.again(at(115));
        assert!(!boost.is_over(at(134)) && boost.is_over(at(136)));
        boost.again(at(200));
        assert!(boost.is_over(at(211)), "not soon");
        let mut now = 211;
        for _ in 0..20 {
            boost.again(at(now));
            now = (now..).find(|ms| boost.is_over(at(*ms))).unwrap();
        }
        boost.again(at(now));
        assert!(!boost.is_over(at(now + 999)) && boost.is_over(at(now + 1_001)));
    }

    /// Left out of `make check`.
    mod as_root {
        use super::*;

        #[test]
        fn who_does_not_come_by_becomes_a_real_time_task_and_is_told() {
            let of_a_thread = || {
                // SAFETY: a number in and a number out; 0 is the calling thread.
                let class = || unsafe { libc::sched_getscheduler(0) };
                let (period, begun) = (RealDuration::from_nanos(100_000), Instant::now());
                let watchdog = Watchdog::of_this_thread(host::now(), period).expect("a right to real-time threads");
                while class() != libc::SCHED_FIFO {
                    assert!(begun.elapsed() < Duration::from_secs(60), "nobody has noticed");
                    std::thread::yield_now();
                }
                while !watchdog.come_by(host::now(), period) {
                    assert!(begun.elapsed() < Duration::from_secs(60), "nobody has said so");
                    std::thread::yield_now();
                }
            };
            std::thread::spawn(of_a_thread).join().unwrap();
        }
    }
}
