//! How turns are ended from another core.

use std::io;
use std::os::fd::OwnedFd;

use host::cgroup::ForcedReschedule;
use host::cores;
use host::sched::{self, Class};
use host::slices::Slices;
use rustix::event::{EventfdFlags, eventfd};
use scale::RealDuration;

use super::start;
use crate::Error;
use crate::share::layout::Layout;

/// What ends turns on this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The kernel does when a slice is over, as soon as it is made to account.
    Account,
    /// Whatever interrupts who runs: whoever is furthest behind goes on then.
    Interrupt,
}

impl Way {
    /// The one where turns are as long as this decides.
    pub fn of(slices: Slices) -> Way {
        match slices {
            Slices::Interrupted => Way::Interrupt,
            Slices::OfTasks | Slices::OfHost | Slices::OfNobody => Way::Account,
        }
    }

    /// As an argument of a process.
    pub fn word(self) -> &'static str {
        match self {
            Way::Account => "account",
            Way::Interrupt => "interrupt",
        }
    }

    pub fn read(word: &str) -> Option<Way> {
        [Way::Account, Way::Interrupt].into_iter().find(|way| way.word() == word)
    }

    /// How often turns are ended that are to last `slice`.
    ///
    /// Where the kernel is made to account, just after a slice is over. Twice as often would interrupt a node for
    /// nothing whenever it is due twice in a row, which nodes with a large share are and scaled ones are not: they then
    /// ran 3 % apart.
    pub fn period(self, slice: RealDuration) -> RealDuration {
        match self {
            Way::Account => RealDuration::from_nanos(slice.as_nanos() + slice.as_nanos() / 10),
            Way::Interrupt => slice,
        }
    }
}

/// Ends turns on the nodes' cores.
pub(crate) enum Ender {
    /// Changing the weight of a queued group charges whatever runs beside it, and the kernel then sees that a slice is
    /// over and interrupts the core. The group for that has a spinner of its own on each core, all of which one change
    /// reaches, and almost no weight: poking one that competes can starve the others.
    Accounting(ForcedReschedule),
    /// By core, what wakes a real-time task there that has nothing to do.
    Bells(Vec<OwnedFd>),
}

impl Ender {
    /// Fails if the kernel grants no real-time tasks where these are the way.
    pub fn of(way: Way, layout: &Layout) -> Result<Ender, Error> {
        match way {
            Way::Account => Ok(Ender::Accounting(layout.poked().forced_reschedule()?)),
            Way::Interrupt => {
                let bells = layout.cores().iter().map(|core| bell(*core)).collect::<io::Result<_>>();
                Ok(Ender::Bells(bells.map_err(Error::io("have a real-time task on each of the nodes' cores"))?))
            }
        }
    }

    /// Ends them now, on all cores.
    pub fn end_turns(&mut self) -> io::Result<()> {
        match self {
            Ender::Accounting(reschedule) => reschedule.now(),
            Ender::Bells(bells) => bells.iter().try_for_each(|bell| {
                rustix::io::write(bell, &1u64.to_ne_bytes())?;
                Ok(())
            }),
        }
    }
}

/// Starts a real-time thread on a core that sleeps again whenever it has been woken.
fn bell(core: usize) -> io::Result<OwnedFd> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC)?;
    let heard = bell.try_clone()?;
    let settle = move || {
        cores::pin(core)?;
        sched::set(Class::RealTime { priority: 1, inherited: false })
    };
    // However often it rang meanwhile, once.
    start("turns", settle, move || while rustix::io::read(&heard, &mut [0; 8]).is_ok() {})?;
    Ok(bell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_has_its_way() {
        assert_eq!(Way::of(Slices::Interrupted), Way::Interrupt);
        assert!([Slices::OfTasks, Slices::OfHost].map(Way::of) == [Way::Account; 2]);
        for way in [Way::Account, Way::Interrupt] {
            assert_eq!(Way::read(way.word()), Some(way));
        }
        assert_eq!(Way::read("hope"), None);
    }

    #[test]
    fn turns_end_when_slices_are_over_or_what_interrupts_them_comes() {
        let slice = RealDuration::from_nanos(200_000);
        assert_eq!(Way::Account.period(slice).as_nanos(), 220_000);
        assert_eq!(Way::Interrupt.period(slice), slice);
    }
}
