//! The poke: what keeps turns short, from another core, and as often as it is worth it reckons what nodes are owed.

use host::cgroup::{Fraction, Poke};
use host::sched::{self, Class};
use host::time::sleep_until;
use scale::{RealDuration, RealInstant};

use crate::board::{Board, Measured, OfCore};
use crate::had::{Counts, Had};
use crate::layout::Layout;
use crate::pace::{Pacer, Window};
use crate::yardstick::Rate;
use crate::{Error, meter};

/// A poke later than this was not merely preempted by the emulator: another program had the core in between.
const LATE: RealDuration = RealDuration::from_nanos(1_000_000);
/// If a fifth of this window went by in such gaps, the poke goes on in real time until this much later.
const WINDOW: RealDuration = RealDuration::from_nanos(100_000_000);
const REAL_TIME: RealDuration = RealDuration::from_nanos(1_000_000_000);

/// How often what nodes are owed is reckoned anew.
const RECKON: RealDuration = RealDuration::from_nanos(20_000_000);

/// How often the kernel is made to account, and with that to reconsider, what runs on the core: just after a slice is
/// over. Twice as often would interrupt a node for nothing whenever it is due twice in a row, which nodes with a large
/// share are and scaled ones are not: they then ran 3 % apart.
fn period(slice: RealDuration) -> RealDuration {
    RealDuration::from_nanos(slice.as_nanos() + slice.as_nanos() / 10)
}

/// Makes the kernel account for the nodes' cores once a slice, from another core, for ever; gives back the error that
/// ended it.
///
/// Changing the weight of a queued group charges whatever runs beside it, and the kernel then sees that a slice is over
/// and interrupts the core. The group for that has a spinner of its own on each core, all of which one change reaches,
/// and almost no weight: poking one that competes can starve the others.
///
/// It waits by spinning, because a timer costs ten times the poke in a virtual machine, and after each poke yields to
/// all other tasks of its core. Where those want the core for long, it becomes a real-time task that sleeps between
/// pokes, until they have stopped.
pub(crate) fn poke(board: Board, layout: &Layout) -> Error {
    let begun = layout.poked().poke().map_err(Error::from).and_then(|poked| Ok((poked, Keepers::new(board, layout)?)));
    let (mut poked, mut keepers) = match begun {
        Ok(begun) => begun,
        Err(error) => return error,
    };
    let ended = turn_by_turn(board, &mut poked, &mut keepers).expect_err("it ends by an error only");
    Error::io("change a group's weight")(ended)
}

fn turn_by_turn(board: Board, poked: &mut Poke, keepers: &mut Keepers) -> std::io::Result<()> {
    let mut next = host::now() + period(board.slice());
    let (mut window, mut lost) = (next, 0);
    let mut real_time_until: Option<RealInstant> = None;
    loop {
        match real_time_until {
            Some(_) => sleep_until(next),
            None => while host::now() < next {},
        }
        poked.now()?;
        rustix::thread::sched_yield();
        let now = host::now();
        keepers.reckon(now)?;
        if let Some(until) = real_time_until {
            if now > until && sched::set(Class::Slices(RealDuration::ZERO)).is_ok() {
                (real_time_until, window, lost) = (None, now, 0);
            }
        } else {
            let gap = now.since(next);
            lost += if gap > LATE { gap.as_nanos() } else { 0 };
            if lost > WINDOW.as_nanos() / 5 && sched::set(Class::RealTime { priority: 1, inherited: true }).is_ok() {
                real_time_until = Some(now + REAL_TIME);
            }
            if now.since(window) > WINDOW {
                (window, lost) = (now, 0);
            }
        }
        next = now + period(board.slice());
    }
}

/// What reads the meters and writes the weights of what is unsold, of all cores.
struct Keepers {
    cores: Vec<Keeper>,
    groups: Had,
    at: RealInstant,
}

/// The same of one core.
struct Keeper {
    board: OfCore,
    pacer: Pacer,
    keeping: bool,
    unsold: Fraction,
    rate: Rate,
    measured: Measured,
    had: Option<Counts>,
}

impl Keepers {
    fn new(board: Board, layout: &Layout) -> Result<Keepers, Error> {
        let at = host::now();
        let cores = layout.cores().iter().zip(board.cores());
        let cores = cores.map(|(core, board)| Keeper::new(board, layout, *core, at)).collect::<Result<_, _>>()?;
        Ok(Keepers { cores, groups: Had::of(layout)?, at })
    }

    /// Does so if it is time. Where the poke itself was held up, weights stay as they were.
    fn reckon(&mut self, now: RealInstant) -> std::io::Result<()> {
        if now.since(self.at) < RECKON {
            return Ok(());
        }
        self.at = now;
        // A counter that cannot be read is a window without one.
        let had = self.groups.read().unwrap_or_default();
        let mut all = self.cores.iter_mut().enumerate();
        all.try_for_each(|(place, keeper)| keeper.reckon(now, had.get(place).copied()))
    }
}

impl Keeper {
    fn new(board: OfCore, layout: &Layout, core: usize, at: RealInstant) -> Result<Keeper, Error> {
        Ok(Keeper {
            board,
            pacer: Pacer::new(at),
            keeping: false,
            unsold: layout.unsold(core).fraction()?,
            rate: Rate::start(),
            measured: board.measured(),
            had: None,
        })
    }

    /// `had` is what all groups had of the core by now, if that could be read.
    fn reckon(&mut self, now: RealInstant, had: Option<Counts>) -> std::io::Result<()> {
        match self.board.orders() {
            Some(orders) if self.keeping => self.pacer.sell(orders.room.sold),
            Some(orders) => {
                self.pacer.keep(orders.pace, orders.room);
                self.keeping = true;
            }
            None => {}
        }
        let measured = self.board.measured();
        let Measured { chunks, cycles } = measured.since(self.measured);
        let speed = self.rate.per_us().and_then(|per_us| meter::speed(chunks, cycles, per_us));
        let available = had.zip(self.had).map(|(now, before)| now.since(before));
        let unsold = self.pacer.step(Window { at: now, speed, available });
        (self.measured, self.had) = (measured, had);
        if let Some(fraction) = unsold {
            self.unsold.set(fraction)?;
        }
        self.board.publish(self.pacer.books());
        Ok(())
    }
}
