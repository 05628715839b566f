//! What wakes the thread that answers: a timer of the kernel's. Whoever has something answered sooner sets it anew,
//! which wakes nobody; a condition variable would wake that thread only to have it sleep again.

use std::io;
use std::os::fd::OwnedFd;

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use scale::RealInstant;

/// Later than anything.
pub(crate) const NEVER: RealInstant = RealInstant::from_nanos(u64::MAX);

/// A timer that one thread waits for.
#[derive(Debug)]
pub(crate) struct Alarm(OwnedFd);

impl Alarm {
    pub fn new() -> io::Result<Alarm> {
        Ok(Alarm(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?))
    }

    /// Goes off at an instant, at once if that is over, and at no other.
    pub fn set(&self, at: RealInstant) {
        let nanos = match at {
            NEVER => 0,
            // To the kernel, zero is no time.
            at => at.since(RealInstant::ZERO).as_nanos().max(1),
        };
        let value = Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
        let spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &spec).expect("a timer takes any such time");
    }

    /// Waits until it has gone off.
    pub fn wait(&self) {
        // A signal may end it early: the caller looks at the clock.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

#[cfg(test)]
mod tests {
    use scale::RealDuration;

    use super::*;

    #[test]
    fn it_goes_off_when_it_was_last_set_to() {
        let alarm = Alarm::new().unwrap();
        alarm.set(NEVER);
        alarm.set(host::now() + RealDuration::from_nanos(3_600_000_000_000));
        let at = host::now() + RealDuration::from_nanos(2_000_000);
        alarm.set(at);
        alarm.wait();
        assert!(host::now() >= at);
        alarm.set(RealInstant::ZERO);
        alarm.wait();
    }
}
