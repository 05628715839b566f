//! Throttle that keeps a punctual thread from taking a whole core.

use host::time::{nap, of_this_thread};
use scale::{RealDuration, RealInstant};

/// A throttle of a thread that hardly ever sleeps by itself: many short sleeps.
///
/// The kernel gives ordinary tasks 50 ms of each second on a core (fair server, or real-time throttling before Linux
/// 6.12) and takes it in one piece from a real-time thread that has left them less. This thread leaves them more than
/// that in pieces that are too short to make frames late by much.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// The token bucket's last update, the thread's CPU time then, and what of that it had only waited away.
    updated: RealInstant,
    used: RealDuration,
    spun: RealDuration,
    bucket: TokenBucket,
}

/// The shortest time between two readings of the CPU clock, which is a system call: sleeps come no more often.
const UPDATE: RealDuration = RealDuration::from_nanos(500_000);

impl Throttle {
    pub fn new(now: RealInstant) -> Self {
        Throttle { updated: now, used: of_this_thread(), spun: RealDuration::ZERO, bucket: TokenBucket::default() }
    }

    /// Sleeps if that is due; gives the time after. `spun` is how long the thread has waited, awake, since its start.
    pub fn sleep_if_due(&mut self, now: RealInstant, spun: RealDuration) -> RealInstant {
        let passed = now.since(self.updated);
        if passed < UPDATE {
            return now;
        }
        let used = of_this_thread();
        let busy = used.saturating_sub(self.used);
        let waited = spun.saturating_sub(self.spun);
        (self.updated, self.used, self.spun) = (now, used, spun);
        let Some(rest) = self.bucket.sleep_due(passed, passed.saturating_sub(busy), waited) else { return now };
        nap(rest);
        host::now()
    }
}

/// A token bucket of sleep that the thread owes to other threads. Time in which it used no CPU time counts as sleep,
/// not the number of its waits: one that returns at once leaves the core to nobody.
#[derive(Debug, Default)]
struct TokenBucket {
    /// Nanoseconds of sleep owed; negative when sleeping has paid in advance.
    owed: i64,
}

/// It sleeps one part in 15 of the time. The kernel wants 50 ms of sleep in each second; one part in 15 of the other
/// 950 ms is 63 ms, of which switching to another thread and back takes some 4 µs a sleep.
const SHARE: i64 = 15;
/// It sleeps one part in 30 more of the time that it waited awake, which costs no frame anything. Where another
/// real-time thread runs meanwhile (one wakes up the nodes' core), the kernel adds up the time of both; without
/// these longer sleeps it stopped both for 50 ms in each second.
const SHARE_OF_WAITING: i64 = 30;
/// The shortest sleep and the longest, ns: a thread that was busy for long between two looks owes much at once.
const SHORTEST: i64 = 60_000;
const LONGEST: i64 = 500_000;
/// How much sleep counts in advance, ns. No more, because the kernel may have counted it in its last second: with 20
/// ms, a thread that the kernel had stopped for 50 ms slept too little in the next second, and was stopped again and
/// again.
const ADVANCE: i64 = 2_000_000;

impl TokenBucket {
    /// How long the thread should sleep now, if it should. Of the last `passed` it did not run for `rested`, and waited
    /// awake for `waited`.
    fn sleep_due(&mut self, passed: RealDuration, rested: RealDuration, waited: RealDuration) -> Option<RealDuration> {
        let [passed, rested, waited] = [passed, rested, waited].map(|d| d.as_nanos() as i64);
        self.owed = (self.owed + passed / SHARE + waited / SHARE_OF_WAITING - rested).max(-ADVANCE);
        (self.owed >= SHORTEST).then(|| RealDuration::from_nanos(self.owed.min(LONGEST) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_never_sleeps_leaves_enough_to_others() {
        let of = RealDuration::from_nanos;
        // Some look at the clock often, some have much to do in between, and some have nothing to do at all.
        for (work, waits, least, most) in
            [(500_000, 0, 0.064, 0.069), (3_000_000, 0, 0.064, 0.069), (500_000, 1, 0.088, 0.1)]
        {
            let mut bucket = TokenBucket::default();
            let (mut rested, mut passed, mut nap) = (0, 0, 0);
            while passed < 1_000_000_000 {
                let due = bucket.sleep_due(of(nap + work), of(nap), of(waits * work));
                passed += nap + work;
                rested += nap;
                nap = due.map_or(0, RealDuration::as_nanos);
            }
            let share = rested as f64 / passed as f64;
            assert!((least..most).contains(&share), "{share}");
        }
    }

    #[test]
    fn a_thread_that_sleeps_enough_owes_none_and_sleep_counts_in_advance() {
        let mut bucket = TokenBucket::default();
        let of = RealDuration::from_nanos;
        assert!((0..1000).all(|_| bucket.sleep_due(of(500_000), of(100_000), of(0)).is_none()));
        // Two milliseconds of sleep count in advance: enough for 30 ms of work.
        let work = (0..).take_while(|_| bucket.sleep_due(of(1_000_000), of(0), of(0)).is_none()).count();
        assert!((29..=32).contains(&work), "{work}");
    }
}
