//! A timer that wakes the thread that answers. Whoever has something answered sooner sets it anew.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use scale::RealInstant;

use crate::ring::Answers;

/// Later than anything.
pub(crate) const NEVER: RealInstant = RealInstant::from_nanos(u64::MAX);

/// The events that one thread waits for.
#[derive(Debug)]
pub(crate) enum Alarm {
    /// A timer of the kernel's, of a thread that has nothing else to do. To set it wakes nobody; a condition variable
    /// would wake that thread only to have it sleep again.
    Timer(OwnedFd),
    /// The bell of a thread that waits for requests as well, and that sleeps until its time by itself.
    Bell(Arc<Answers>),
}

impl Alarm {
    pub fn timer() -> io::Result<Alarm> {
        Ok(Alarm::Timer(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?))
    }

    /// The thread itself is going to sleep until then.
    pub fn set(&self, at: RealInstant) {
        if let Alarm::Timer(timer) = self {
            set(timer, at);
        }
    }

    /// The thread is to be awake by then, sooner than it was going to be.
    pub fn set_sooner(&self, at: RealInstant) {
        match self {
            Alarm::Timer(timer) => set(timer, at),
            Alarm::Bell(answers) => answers.ring(),
        }
    }

    /// Waits until it has gone off. Nobody waits for a bell like this.
    pub fn wait(&self) {
        if let Alarm::Timer(timer) = self {
            // A signal may end it early: the caller looks at the clock.
            let _ = rustix::io::read(timer, &mut [0; 8]);
        }
    }
}

/// Has a timer go off at an instant, at once if that is over, and at no other.
fn set(timer: &OwnedFd, at: RealInstant) {
    let nanos = match at {
        NEVER => 0,
        // To the kernel, zero is no time.
        at => at.since(RealInstant::ZERO).as_nanos().max(1),
    };
    let value = Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
    let spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &spec).expect("a timer takes any such time");
}

#[cfg(test)]
mod tests {
    use scale::RealDuration;

    use super::*;

    #[test]
    fn it_goes_off_when_it_was_last_set_to() {
        let alarm = Alarm::timer().unwrap();
        alarm.set(NEVER);
        alarm.set(host::now() + RealDuration::from_nanos(3_600_000_000_000));
        let at = host::now() + RealDuration::from_nanos(2_000_000);
        alarm.set_sooner(at);
        alarm.wait();
        assert!(host::now() >= at);
        alarm.set(RealInstant::ZERO);
        alarm.wait();
    }
}
