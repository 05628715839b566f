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

/// Short rests of a thread that never sleeps by itself.
///
/// The kernel gives ordinary tasks 50 ms of each second on a core (fair server, or real-time throttling before Linux
/// 6.12) and takes it in one piece from a real-time thread that has left them less. This thread leaves them a
/// little more than that, in pieces that are too short to make frames late by much.
#[derive(Debug)]
pub(crate) struct Breaks {
    awake_since: RealInstant,
    /// Nanoseconds of rest owed; negative when sleeping has paid in advance.
    owed: i64,
}

/// One part in 16 is 62 ms of each second.
const SHARE: i64 = 16;
const REST: i64 = 40_000;
/// Sleep counts in advance up to this much: the kernel looks at one second at a time.
const ADVANCE: i64 = 20_000_000;

impl Breaks {
    pub fn new(now: RealInstant) -> Self {
        Breaks { awake_since: now, owed: 0 }
    }

    /// The thread has slept by itself.
    pub fn slept(&mut self, from: RealInstant, to: RealInstant) {
        self.awake(from);
        self.owed = (self.owed - to.since(from).as_nanos() as i64).max(-ADVANCE);
        self.awake_since = to;
    }

    /// Rests if that is due; gives the time after.
    pub fn consider(&mut self, now: RealInstant) -> RealInstant {
        self.awake(now);
        if self.owed < REST {
            return now;
        }
        // Woken early, it owes the remainder.
        nap(RealDuration::from_nanos(REST as u64));
        let after = self::now();
        self.slept(now, after);
        after
    }

    fn awake(&mut self, now: RealInstant) {
        let busy: RealDuration = now.since(self.awake_since);
        self.owed += busy.as_nanos() as i64 / SHARE;
        self.awake_since = now;
    }
}
