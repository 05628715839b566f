//! What gets the poke its core back when somebody else keeps that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use host::sched::{self, Class};
use host::time::{precise_sleep, sleep_until};
use rustix::thread::{Pid, gettid};
use scale::{RealDuration, RealInstant};

use super::start;

/// Looking costs some µs, of the core of the poke.
const OFTEN: RealDuration = RealDuration::from_nanos(500_000);
/// Who looks later than this was held up by real-time tasks, the emulator's, which come before the poke, too.
const HELD_UP: RealDuration = RealDuration::from_nanos(100_000);
/// For how long the poke is a real-time task after the first time, and at most.
const SHORTEST: RealDuration = RealDuration::from_nanos(10_000_000);
const LONGEST: RealDuration = RealDuration::from_nanos(1_000_000_000);

/// A task that yields its core has it again when whoever got it is done, or at the next tick: in up to 4 ms (and 10,
/// where a second has 100 ticks). Nobody ends turns meanwhile. So a real-time thread looks whether the poke still
/// comes by, and makes it a real-time task, too, if it does not.
pub(crate) struct Guard(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// When the poke last came by, and how often it is to.
    at: AtomicU64,
    period: AtomicU64,
    raised: AtomicBool,
}

impl Guard {
    /// Of the calling thread, which is the poke's and comes by now and then every `period`. Nothing, where there may be
    /// no real-time tasks.
    pub fn of_this_thread(now: RealInstant, period: RealDuration) -> Option<Guard> {
        let guard = Guard(Arc::default());
        guard.come_by(now, period);
        let (seen, poke) = (guard.0.clone(), gettid());
        let settle = || precise_sleep().and_then(|()| sched::set(RAISED));
        start("guard", settle, move || watch(&seen, poke)).is_ok().then_some(guard)
    }

    /// That the poke has come by, and is to every `period`; whether it has been made a real-time task since the last
    /// time.
    pub fn come_by(&self, now: RealInstant, period: RealDuration) -> bool {
        self.0.period.store(period.as_nanos(), Ordering::Relaxed);
        self.0.at.store(now.as_nanos(), Ordering::Relaxed);
        self.0.raised.load(Ordering::Relaxed) && self.0.raised.swap(false, Ordering::Relaxed)
    }
}

fn watch(seen: &Seen, poke: Pid) {
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
            && sched::set_other(Some(poke), RAISED).is_ok()
        {
            seen.raised.store(true, Ordering::Relaxed);
        }
    }
}

/// What the poke is while others want its core.
pub(crate) const RAISED: Class = Class::RealTime { priority: 1, inherited: true };

/// For how long the poke stays a real-time task: twice as long each time when it soon needs that again.
#[derive(Debug)]
pub(crate) struct Raised {
    until: Option<RealInstant>,
    length: RealDuration,
}

impl Raised {
    pub fn never() -> Raised {
        Raised { until: None, length: SHORTEST }
    }

    /// It has been made one.
    pub fn again(&mut self, now: RealInstant) {
        // If it is one still, that was late, or for another reason.
        let soon = self.until.is_some_and(|until| now.since(until) < self.length);
        let twice = RealDuration::from_nanos(2 * self.length.as_nanos()).min(LONGEST);
        self.length = if soon { twice } else { SHORTEST };
        self.until = Some(now + self.length);
    }

    /// Whether it has been one for long enough.
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
        let mut raised = Raised::never();
        assert!(raised.is_over(at(100)));
        raised.again(at(100));
        assert!(!raised.is_over(at(109)) && raised.is_over(at(111)));
        raised.again(at(115));
        assert!(!raised.is_over(at(134)) && raised.is_over(at(136)));
        raised.again(at(200));
        assert!(raised.is_over(at(211)), "not soon");
        let mut now = 211;
        for _ in 0..20 {
            raised.again(at(now));
            now = (now..).find(|ms| raised.is_over(at(*ms))).unwrap();
        }
        raised.again(at(now));
        assert!(!raised.is_over(at(now + 999)) && raised.is_over(at(now + 1_001)));
    }

    #[test]
    fn who_does_not_come_by_becomes_a_real_time_task_and_is_told() {
        let of_a_thread = || {
            // SAFETY: a number in and a number out; 0 is the calling thread.
            let class = || unsafe { libc::sched_getscheduler(0) };
            let (period, begun) = (RealDuration::from_nanos(100_000), Instant::now());
            let Some(guard) = Guard::of_this_thread(host::now(), period) else { return };
            while class() != libc::SCHED_FIFO {
                assert!(begun.elapsed() < Duration::from_secs(60), "nobody has noticed");
                std::thread::yield_now();
            }
            while !guard.come_by(host::now(), period) {
                assert!(begun.elapsed() < Duration::from_secs(60), "nobody has said so");
                std::thread::yield_now();
            }
        };
        std::thread::spawn(of_a_thread).join().unwrap();
    }
}
