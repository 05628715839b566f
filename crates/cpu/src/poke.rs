//! The poke: what keeps turns short, from another core, and as often as it is worth it reckons what nodes are owed.

use host::cgroup::{Fraction, Poke, Usage};
use host::sched::{self, Class};
use host::time::sleep_until;
use scale::{RealDuration, RealInstant};

use crate::board::{Board, Measured};
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

/// Makes the kernel account for the nodes' core once a slice, from another core, for ever; gives back the error that
/// ended it.
///
/// Changing the weight of a queued group charges whatever runs beside it, and the kernel then sees that a slice is over
/// and interrupts the core. The group for that has a spinner of its own and almost no weight: poking one that competes
/// can starve the others.
///
/// It waits by spinning, because a timer costs ten times the poke in a virtual machine, and after each poke yields to
/// all other tasks of its core. Where those want the core for long, it becomes a real-time task that sleeps between
/// pokes, until they have stopped.
pub(crate) fn poke(board: Board, layout: &Layout) -> Error {
    let begun = layout.poked().poke().map_err(Error::from).and_then(|poked| Ok((poked, Keeper::new(board, layout)?)));
    let (mut poked, mut keeper) = match begun {
        Ok(begun) => begun,
        Err(error) => return error,
    };
    let ended = turn_by_turn(board, &mut poked, &mut keeper).expect_err("it ends by an error only");
    Error::io("change a group's weight")(ended)
}

fn turn_by_turn(board: Board, poked: &mut Poke, keeper: &mut Keeper) -> std::io::Result<()> {
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
        keeper.reckon(now)?;
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

/// What reads the meters and writes the weight of `_unsold`.
struct Keeper {
    board: Board,
    pacer: Pacer,
    keeping: bool,
    unsold: Fraction,
    groups: Usage,
    rate: Rate,
    at: RealInstant,
    measured: Measured,
    had: Option<RealDuration>,
}

impl Keeper {
    fn new(board: Board, layout: &Layout) -> Result<Keeper, Error> {
        let at = host::now();
        Ok(Keeper {
            board,
            pacer: Pacer::new(at),
            keeping: false,
            unsold: layout.unsold().fraction()?,
            groups: layout.emulated().usage()?,
            rate: Rate::start(),
            at,
            measured: board.measured(),
            had: None,
        })
    }

    /// Does so if it is time. Where the poke itself was held up, the weight stays as it was.
    fn reckon(&mut self, now: RealInstant) -> std::io::Result<()> {
        if now.since(self.at) < RECKON {
            return Ok(());
        }
        match self.board.orders() {
            Some(orders) if self.keeping => self.pacer.sell(orders.room.sold),
            Some(orders) => {
                self.pacer.keep(orders.pace, orders.room);
                self.keeping = true;
            }
            None => {}
        }
        // A counter that cannot be read is a window without one.
        let (measured, had) = (self.board.measured(), self.groups.read().ok());
        let Measured { chunks, cycles } = measured.since(self.measured);
        let speed = self.rate.per_us().and_then(|per_us| meter::speed(chunks, cycles, per_us));
        let available = had.zip(self.had).map(|(now, before)| now.saturating_sub(before));
        let unsold = self.pacer.step(Window { at: now, speed, available });
        (self.at, self.measured, self.had) = (now, measured, had);
        if let Some(fraction) = unsold {
            self.unsold.set(fraction)?;
        }
        self.board.publish(self.pacer.books());
        Ok(())
    }
}
