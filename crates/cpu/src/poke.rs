//! The poke: what keeps turns short, from another core, and as often as it is worth it reckons what nodes are owed.

mod guard;
mod way;

use std::io;
use std::sync::mpsc::channel;

use host::cgroup::{Fraction, Group};
use host::sched::{self, Class};
use host::time::sleep_until;
use scale::{RealDuration, RealInstant};

use self::guard::{Guard, RAISED, Raised};
pub(crate) use self::way::{Ender, Way};
use crate::board::{Board, Measured, OfCore};
use crate::had::{Counts, Had};
use crate::layout::Layout;
use crate::pace::{Pacer, Window};
use crate::yardstick::Rate;
use crate::{Error, meter};

/// How often what nodes are owed is reckoned anew.
const RECKON: RealDuration = RealDuration::from_nanos(20_000_000);

/// Ends turns on the nodes' cores, from another core, for ever; gives back the error that ended it.
///
/// It waits by spinning, because a timer costs ten times the poke in a virtual machine, and after each poke yields to
/// all other tasks of its core. Where those keep the core, it becomes a real-time task that sleeps between pokes, for a
/// while.
///
/// `unsold` are the groups of each core that burn what no node has bought of it.
pub(crate) fn poke(board: Board, layout: &Layout, unsold: &[Vec<&Group>], way: Way, mut ender: Ender) -> Error {
    let mut keepers = match Keepers::new(board, layout, unsold) {
        Ok(begun) => begun,
        Err(error) => return error,
    };
    let ended = turn_by_turn(board, way, &mut ender, &mut keepers).expect_err("it ends by an error only");
    Error::io("end a turn")(ended)
}

fn turn_by_turn(board: Board, way: Way, ender: &mut Ender, keepers: &mut Keepers) -> io::Result<()> {
    let (begun, period) = (host::now(), way.period(board.slice()));
    let guard = Guard::of_this_thread(begun, period);
    let mut next = begun + period;
    let (mut real_time, mut raised) = (false, Raised::never());
    loop {
        if real_time {
            sleep_until(next);
        } else {
            while host::now() < next {}
        }
        ender.end_turns()?;
        rustix::thread::sched_yield();
        let now = host::now();
        keepers.reckon(now)?;
        let period = way.period(board.slice());
        if guard.as_ref().is_some_and(|guard| guard.come_by(now, period)) {
            raised.again(now);
            real_time = sched::set(RAISED).is_ok();
        } else if real_time && raised.is_over(now) {
            real_time = sched::set(Class::Slices(RealDuration::ZERO)).is_err();
        }
        next = now + period;
    }
}

/// Starts a thread that does its work once it is settled: where it is to be, and how it is to be scheduled.
fn start(
    name: &str,
    settle: impl FnOnce() -> io::Result<()> + Send + 'static,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let (settled, outcome) = channel();
    let body = move || {
        let ready = settle();
        let begun = ready.is_ok();
        if settled.send(ready).is_ok() && begun {
            work();
        }
    };
    std::thread::Builder::new().name(name.into()).spawn(body)?;
    outcome.recv().map_err(io::Error::other)?
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
    unsold: Vec<Fraction>,
    rate: Rate,
    measured: Measured,
    had: Option<Counts>,
}

impl Keepers {
    fn new(board: Board, layout: &Layout, unsold: &[Vec<&Group>]) -> Result<Keepers, Error> {
        let at = host::now();
        let cores = unsold.iter().zip(board.cores());
        let cores = cores.map(|(unsold, board)| Keeper::new(board, unsold, at)).collect::<Result<_, _>>()?;
        Ok(Keepers { cores, groups: Had::of(layout)?, at })
    }

    /// Does so if it is time. Where the poke itself was held up, weights stay as they were.
    fn reckon(&mut self, now: RealInstant) -> io::Result<()> {
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
    fn new(board: OfCore, unsold: &[&Group], at: RealInstant) -> Result<Keeper, Error> {
        Ok(Keeper {
            board,
            pacer: Pacer::new(at),
            keeping: false,
            unsold: unsold.iter().map(|group| group.fraction()).collect::<Result<_, _>>()?,
            rate: Rate::start(),
            measured: board.measured(),
            had: None,
        })
    }

    /// `had` is what all groups had of the core by now, if that could be read.
    fn reckon(&mut self, now: RealInstant, had: Option<Counts>) -> io::Result<()> {
        match self.board.orders() {
            Some(orders) if !self.keeping => {
                self.pacer.keep(orders.pace, orders.room);
                self.keeping = true;
            }
            _ => {}
        }
        let measured = self.board.measured();
        let Measured { chunks, cycles } = measured.since(self.measured);
        let speed = self.rate.per_us().and_then(|per_us| meter::speed(chunks, cycles, per_us));
        let available = had.zip(self.had).map(|(now, before)| now.since(before));
        let unsold = self.pacer.step(Window { at: now, speed, available });
        (self.measured, self.had) = (measured, had);
        if let Some(fraction) = unsold {
            let each = fraction / self.unsold.len() as f64;
            self.unsold.iter_mut().try_for_each(|group| group.set(each))?;
        }
        self.board.publish(self.pacer.books());
        Ok(())
    }
}
