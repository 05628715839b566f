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
    /// When the account was last made up, and the thread's CPU time then.
    looked: RealInstant,
    used: RealDuration,
    account: Account,
}

/// From one look at the CPU clock to the next, which is a system call: rests come no more often.
const LOOK: RealDuration = RealDuration::from_nanos(500_000);

impl Breaks {
    pub fn new(now: RealInstant) -> Self {
        Breaks { looked: now, used: cpu_time(), account: Account::default() }
    }

    /// Rests if that is due; gives the time after.
    pub fn consider(&mut self, now: RealInstant) -> RealInstant {
        let passed = now.since(self.looked);
        if passed < LOOK {
            return now;
        }
        let used = cpu_time();
        let busy = RealDuration::from_nanos(used.as_nanos().saturating_sub(self.used.as_nanos()));
        (self.looked, self.used) = (now, used);
        if !self.account.rest_is_due(passed, busy) {
            return now;
        }
        nap(RealDuration::from_nanos(REST as u64));
        self::now()
    }
}

/// What the thread owes to others, by what it used: a wait that found something at once was no rest, however often it is made.
#[derive(Debug, Default)]
struct Account {
    /// Nanoseconds of rest owed; negative when sleeping has paid in advance.
    owed: i64,
}

/// To sleep a part in 12 of what one works is 74 ms of each second. Others get less of it than that, by what switching to them and
/// back costs: with a part in 16 the kernel took its 50 ms from one run in three.
const SHARE: i64 = 12;
const REST: i64 = 40_000;
/// Sleep counts in advance up to this much: the kernel looks at one second at a time.
const ADVANCE: i64 = 20_000_000;

impl Account {
    /// In the last `passed` the thread was running for `busy`; is it time that it slept?
    fn rest_is_due(&mut self, passed: RealDuration, busy: RealDuration) -> bool {
        let (passed, busy) = (passed.as_nanos() as i64, busy.as_nanos() as i64);
        let rested = (passed - busy).max(0);
        self.owed = (self.owed + busy / SHARE - rested).max(-ADVANCE);
        self.owed >= REST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_never_sleeps_leaves_enough_to_others() {
        let mut account = Account::default();
        let (mut rested, mut passed) = (0, 0);
        let mut nap = 0;
        while passed < 1_000_000_000 {
            // Half a millisecond of work after each nap.
            let of = |ns: i64| RealDuration::from_nanos(ns as u64);
            let due = account.rest_is_due(of(nap + 500_000), of(500_000));
            passed += nap + 500_000;
            rested += nap;
            nap = if due { REST } else { 0 };
        }
        let share = rested as f64 / passed as f64;
        assert!((0.07..0.08).contains(&share), "{share}");
    }

    #[test]
    fn one_who_sleeps_enough_is_left_alone_and_can_pay_in_advance() {
        let mut account = Account::default();
        let of = RealDuration::from_nanos;
        assert!((0..1000).all(|_| !account.rest_is_due(of(500_000), of(400_000))));
        // Twenty milliseconds are paid: that is 240 ms of work.
        let work = (0..).take_while(|_| !account.rest_is_due(of(1_000_000), of(1_000_000))).count();
        assert!((235..=245).contains(&work), "{work}");
    }
}
