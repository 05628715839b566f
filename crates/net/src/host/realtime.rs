//! What makes a thread punctual, and what keeps it from taking a whole core.

use rustix::thread::Pid;
use rustix::time::{ClockId, Timespec, clock_gettime};
use scale::{RealDuration, RealInstant};

use crate::Error;

/// Above ordinary real-time threads' usual 1, below what the kernel's own time-keeping needs.
const PRIORITY: i32 = 50;

/// The harness's `CLOCK_MONOTONIC`.
pub(crate) fn now() -> RealInstant {
    RealInstant::from_nanos(nanoseconds(ClockId::Monotonic))
}

/// CPU time of the calling thread.
pub(crate) fn cpu_time() -> RealDuration {
    RealDuration::from_nanos(nanoseconds(ClockId::ThreadCPUTime))
}

fn nanoseconds(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

pub(crate) fn timespec(d: RealDuration) -> Timespec {
    let ns = d.as_nanos();
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// Sleeps for `d`, or until a signal comes.
pub(crate) fn nap(d: RealDuration) {
    drop(rustix::thread::clock_nanosleep_relative(ClockId::Monotonic, &timespec(d)));
}

/// Binds the calling thread to `core`.
pub(crate) fn bind(core: usize) -> Result<(), Error> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set).map_err(|e| Error::Machine {
        what: format!("the emulator cannot run on core {core}: {}", std::io::Error::from(e)),
        help: "choose a core that `nproc` and `taskset -p $$` show".into(),
    })
}

/// Puts a thread, or the calling one, under a scheduling policy.
pub(crate) fn schedule(thread: Option<Pid>, policy: i32, priority: i32) -> Result<(), Error> {
    let parameters = libc::sched_param { sched_priority: priority };
    let thread = thread.map_or(0, |t| t.as_raw_nonzero().get());
    // SAFETY: `parameters` is a valid sched_param; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(thread, policy, &parameters) } != 0 {
        return Err(Error::Machine {
            what: format!("the emulator may not be scheduled in real time: {}", std::io::Error::last_os_error()),
            help: "run as root; if this shell is in a cpu control group of version 1, move it to the root group".into(),
        });
    }
    Ok(())
}

/// Makes the calling thread punctual: on `core`, SCHED_FIFO, timers as exact as the machine's.
pub(crate) fn enter(core: Option<usize>) -> Result<(), Error> {
    core.map_or(Ok(()), bind)?;
    schedule(None, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, PRIORITY)?;
    let nanosecond = std::num::NonZeroU64::MIN;
    rustix::thread::set_current_timer_slack(Some(nanosecond))
        .map_err(|e| Error::system("cannot set the timer slack")(e.into()))
}

/// Short rests of a thread that hardly ever sleeps by itself.
///
/// The kernel gives ordinary tasks 50 ms of each second on a core (fair server, or real-time throttling before Linux
/// 6.12) and takes it in one piece from a real-time thread that has left them less. This thread leaves them more than that
/// in pieces that are too short to make frames late by much.
#[derive(Debug)]
pub(crate) struct Breaks {
    /// When the account was last made up, and the thread's CPU time then, and what of that it had only waited away.
    looked: RealInstant,
    used: RealDuration,
    spun: RealDuration,
    account: Account,
}

/// From one look at the CPU clock to the next, which is a system call: rests come no more often.
const LOOK: RealDuration = RealDuration::from_nanos(500_000);

impl Breaks {
    pub fn new(now: RealInstant) -> Self {
        Breaks { looked: now, used: cpu_time(), spun: RealDuration::ZERO, account: Account::default() }
    }

    /// Rests if that is due; gives the time after. `spun` is how long the thread has waited, awake, since its start.
    pub fn consider(&mut self, now: RealInstant, spun: RealDuration) -> RealInstant {
        let passed = now.since(self.looked);
        if passed < LOOK {
            return now;
        }
        let used = cpu_time();
        let busy = used.saturating_sub(self.used);
        let waited = spun.saturating_sub(self.spun);
        (self.looked, self.used, self.spun) = (now, used, spun);
        let Some(rest) = self.account.rest_due(passed, passed.saturating_sub(busy), waited) else { return now };
        nap(rest);
        self::now()
    }
}

/// What the thread owes to others, by the CPU time that it did not use: a wait that found something at once was no rest, however often
/// it is made.
#[derive(Debug, Default)]
struct Account {
    /// Nanoseconds of rest owed; negative when sleeping has paid in advance.
    owed: i64,
}

/// One part in 15 is 63 ms of the 950 in which the kernel waits for its 50; of that, switching to others and back takes some 4 µs a rest.
const SHARE: i64 = 15;
/// What the thread has only waited away it can leave to others more freely. It must, where another real-time thread uses its rests (the
/// poke of the nodes' core does): the kernel adds the two up, and stopped both for 50 ms in each second.
const SHARE_OF_WAITING: i64 = 30;
/// The shortest rest, and the longest: one who has much to do between two looks owes much at once.
const REST: i64 = 60_000;
const LONGEST_REST: i64 = 500_000;
/// Sleep counts in advance up to this much, and no more: it may have been in the kernel's last second. (With 20 ms, a thread that had been
/// stopped for 50 rested too little in the second that followed, and was stopped again and again.)
const ADVANCE: i64 = 2_000_000;

impl Account {
    /// Of the last `passed`, the thread did not run for `rested`, and waited awake for `waited`; how long should it sleep now, if it
    /// should?
    fn rest_due(&mut self, passed: RealDuration, rested: RealDuration, waited: RealDuration) -> Option<RealDuration> {
        let [passed, rested, waited] = [passed, rested, waited].map(|d| d.as_nanos() as i64);
        self.owed = (self.owed + passed / SHARE + waited / SHARE_OF_WAITING - rested).max(-ADVANCE);
        (self.owed >= REST).then(|| RealDuration::from_nanos(self.owed.min(LONGEST_REST) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_never_sleeps_leaves_enough_to_others() {
        let of = RealDuration::from_nanos;
        // Some look at the clock often, some have much to do in between, and some have nothing to do at all.
        for (work, waits, least, most) in
            [(500_000, 0, 0.064, 0.069), (3_000_000, 0, 0.064, 0.069), (500_000, 1, 0.088, 0.1)]
        {
            let mut account = Account::default();
            let (mut rested, mut passed, mut nap) = (0, 0, 0);
            while passed < 1_000_000_000 {
                let due = account.rest_due(of(nap + work), of(nap), of(waits * work));
                passed += nap + work;
                rested += nap;
                nap = due.map_or(0, RealDuration::as_nanos);
            }
            let share = rested as f64 / passed as f64;
            assert!((least..most).contains(&share), "{share}");
        }
    }

    #[test]
    fn one_who_sleeps_enough_is_left_alone_and_can_pay_in_advance() {
        let mut account = Account::default();
        let of = RealDuration::from_nanos;
        assert!((0..1000).all(|_| account.rest_due(of(500_000), of(100_000), of(0)).is_none()));
        // Two milliseconds are paid: that is 30 ms of work.
        let work = (0..).take_while(|_| account.rest_due(of(1_000_000), of(0), of(0)).is_none()).count();
        assert!((29..=32).contains(&work), "{work}");
    }
}
