//! Forced reschedules: ends timeslices that are over on the nodes' cores, from another core.

use std::io;
use std::os::fd::OwnedFd;

use host::cgroup::ForcedReschedule;
use host::cores;
use host::sched::{self, Class};
use host::time::sleep_until;
use rustix::event::{EventfdFlags, eventfd};
use scale::RealDuration;

use super::followers::Followers;
use super::protocol::{Job, Method};
use super::watchdog::{BOOSTED, Boost, Watchdog};
use crate::Error;
use crate::share::layout::GroupLayout;

/// How often to look which nodes sleep.
const LOOK: RealDuration = RealDuration::from_nanos(250_000);

/// Ends slices for ever, and has followers follow meanwhile; gives back the error that ended it.
///
/// It waits by spinning, because a timer costs ten times as much as a forced reschedule in a virtual machine, and
/// after each yields to all other tasks of its core. Where those keep the core, it becomes a real-time task that
/// sleeps in between, for a while.
pub(super) fn keep(job: &Job, rescheduler: &mut Rescheduler, followers: &mut Followers) -> Error {
    let period = period(job.method, job.slice);
    let step = period.min(LOOK);
    let begun = host::now();
    let watchdog = Watchdog::of_this_thread(begun, step);
    let (mut next, mut slice_ends) = (begun + step, begun + period);
    let (mut real_time, mut boost) = (false, Boost::never());
    loop {
        if real_time {
            sleep_until(next);
        } else {
            while host::now() < next {}
        }
        let now = host::now();
        if now >= slice_ends {
            if let Err(error) = rescheduler.end_slices() {
                return Error::io("end a timeslice")(error);
            }
            slice_ends = now + period;
        }
        rustix::thread::sched_yield();
        let now = host::now();
        if let Err(error) = followers.step(now) {
            return error;
        }
        if watchdog.as_ref().is_some_and(|watchdog| watchdog.come_by(now, step)) {
            boost.again(now);
            real_time = sched::set(BOOSTED).is_ok();
        } else if real_time && boost.is_over(now) {
            real_time = sched::set(Class::Slices(RealDuration::ZERO)).is_err();
        }
        next = now + step;
    }
}

/// How often slices are ended that are to last `slice`.
///
/// Where the kernel is made to account, just after a slice is over. Twice as often would interrupt a node for nothing
/// whenever it is due twice in a row, which nodes with a large share are and scaled ones are not: they then ran 3 %
/// apart.
fn period(method: Method, slice: RealDuration) -> RealDuration {
    match method {
        Method::Account => RealDuration::from_nanos(slice.as_nanos() + slice.as_nanos() / 10),
        Method::Interrupt => slice,
    }
}

/// Ends slices on all of the nodes' cores at once.
pub(super) enum Rescheduler {
    /// Changing the weight of a queued group charges whatever runs beside it, and the kernel then sees that a slice is
    /// over and interrupts the core. The group for that has a burner of its own on each core, all of which one change
    /// reaches, and almost no weight: changing one that competes can starve the others.
    Accounting(ForcedReschedule),
    /// By core, an event that wakes a real-time task there, which has nothing to do.
    Interrupting(Vec<OwnedFd>),
}

impl Rescheduler {
    /// Fails if the kernel grants no real-time tasks where those end slices.
    pub fn of(method: Method, layout: &GroupLayout) -> Result<Rescheduler, Error> {
        match method {
            Method::Account => Ok(Rescheduler::Accounting(layout.reschedule().forced_reschedule()?)),
            Method::Interrupt => {
                let events = layout.cores().iter().map(|core| interrupter(*core)).collect::<Result<_, _>>();
                Ok(Rescheduler::Interrupting(events?))
            }
        }
    }

    /// Ends those that are over now.
    fn end_slices(&mut self) -> io::Result<()> {
        match self {
            Rescheduler::Accounting(reschedule) => reschedule.now(),
            Rescheduler::Interrupting(events) => events.iter().try_for_each(|event| {
                rustix::io::write(event, &1u64.to_ne_bytes())?;
                Ok(())
            }),
        }
    }
}

/// Starts a real-time thread on a core that sleeps again whenever it has been woken.
fn interrupter(core: usize) -> Result<OwnedFd, Error> {
    let made = || {
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok((event.try_clone()?, event))
    };
    let (waits, event) = made().map_err(Error::io("make an event"))?;
    let settle = move || {
        let settled = cores::pin(core).and_then(|()| sched::set(Class::RealTime { priority: 1, inherited: false }));
        settled.map_err(Error::io(format!("have a real-time task on core {core}")))
    };
    // However often it came meanwhile, once.
    super::start_thread("interrupter", settle, move || while rustix::io::read(&waits, &mut [0; 8]).is_ok() {})?;
    Ok(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_ended_when_they_are_over_or_when_an_interruption_is_due() {
        let slice = RealDuration::from_nanos(200_000);
        assert_eq!(period(Method::Account, slice).as_nanos(), 220_000);
        assert_eq!(period(Method::Interrupt, slice), slice);
    }
}
