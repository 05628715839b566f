//! The poke: what keeps turns short, from another core, and as often as it is worth it reckons what nodes are owed.

mod method;
mod watchdog;

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::channel;

use host::cgroup::{Fraction, Group};
use host::sched::{self, Class};
use host::time::sleep_until;
use scale::{RealDuration, RealInstant};

pub(crate) use self::method::{Ender, Way};
use self::watchdog::{Guard, RAISED, Raised};
use crate::Error;
use crate::keeper::controller::{Pacer, Window};
use crate::keeper::counters::{Board, Maps, Measured, OfCore};
use crate::keeper::shared_array::SharedArray;
use crate::measure::meter;
use crate::measure::usage::{Counts, Had};
use crate::measure::yardstick::Rate;
use crate::node_clock::{BurnerWords, NodeWords, at_work, awake_of, awake_on_average, open_map, tell_rate};
use crate::share::layout::Layout;

/// How often what nodes are owed is reckoned anew.
const RECKON: RealDuration = RealDuration::from_nanos(20_000_000);

/// How often to look which nodes sleep.
const LOOK: RealDuration = RealDuration::from_nanos(250_000);

/// A group that burns what others leave of a core.
#[derive(Clone, Copy)]
pub(crate) struct Burner<'a> {
    /// The group.
    pub group: &'a Group,
    /// The place of its core among those that hold nodes.
    pub place: usize,
    /// Whether it burns what nobody has bought, too.
    pub takes_slack: bool,
}

/// The group of a node with several CPUs.
pub(crate) struct SeveralCpus {
    /// The group.
    pub group: Group,
    /// Its place among the nodes.
    pub node: usize,
    /// What it has beside its siblings while one of its CPUs is at work.
    pub fraction: f64,
}

/// Ends slices on the nodes' cores, from another core, for ever; gives back the error that ended it. Meanwhile each of
/// `burners` is given what the nodes beside it leave.
///
/// It waits by spinning, because a timer costs ten times the poke in a virtual machine, and after each poke yields to
/// all other tasks of its core. Where those keep the core, it becomes a real-time task that sleeps between pokes, for a
/// while.
pub(crate) fn poke(
    board: Board,
    layout: &Layout,
    burners: &[Burner],
    several: &[SeveralCpus],
    way: Way,
    mut ender: Ender,
) -> Error {
    let mut keepers = match Keepers::new(board, layout, burners, several, way) {
        Ok(begun) => begun,
        Err(error) => return error,
    };
    let ended = slice_by_slice(board, way, &mut ender, &mut keepers).expect_err("it ends by an error only");
    Error::io("end a slice")(ended)
}

fn slice_by_slice(board: Board, way: Way, ender: &mut Ender, keepers: &mut Keepers) -> io::Result<()> {
    let period = way.period(board.slice());
    let step = period.min(LOOK);
    let begun = host::now();
    let guard = Guard::of_this_thread(begun, step);
    let (mut next, mut slice_ends) = (begun + step, begun + period);
    let (mut real_time, mut raised) = (false, Raised::never());
    loop {
        if real_time {
            sleep_until(next);
        } else {
            while host::now() < next {}
        }
        let now = host::now();
        if now >= slice_ends {
            ender.end_turns()?;
            slice_ends = now + period;
        }
        rustix::thread::sched_yield();
        let now = host::now();
        if keepers.at_once {
            keepers.follow(now)?;
        }
        keepers.reckon(now)?;
        if guard.as_ref().is_some_and(|guard| guard.come_by(now, step)) {
            raised.again(now);
            real_time = sched::set(RAISED).is_ok();
        } else if real_time && raised.is_over(now) {
            real_time = sched::set(Class::Slices(RealDuration::ZERO)).is_err();
        }
        next = now + step;
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

/// Changes of what a burner has by less than this, as a part of what all beside it have, are not worth a write, which
/// interrupts the core.
const WORTH_IT: f64 = 0.002;

/// The same of what a node with several CPUs has, where a change of one CPU is a change by a whole number.
const WORTH_IT_FOR_CPUS: f64 = 0.02;

/// Over how many looks the lead of a node's clock is averaged, and in how many strides it is to be made up: a stride is
/// by how much its clock goes on in a slice, so that it is ahead and behind by about one all the time.
const LEAD_OVER: f64 = 16.0;
const STRIDES: f64 = 8.0;

/// What reads the meters and writes the weights of burners and the rates of clocks, of all cores.
struct Keepers {
    board: Board,
    cores: Vec<Keeper>,
    burners: Vec<BurnerKeeper>,
    several: Vec<SeveralKeeper>,
    clocks: Option<Followed>,
    groups: Had,
    at: RealInstant,
    /// Whether burners have at once what a node leaves that goes to sleep. Before Linux 6.6 (CFS) a weight that changes
    /// often starves who runs beside it, so that burners there have what nodes left on average.
    at_once: bool,
}

/// What reckons how fast a core is.
struct Keeper {
    board: OfCore,
    pacer: Pacer,
    keeping: bool,
    rate: Rate,
    measured: Measured,
    had: Option<Counts>,
    /// What nobody has bought of the core now; `None` as it was at first.
    slack: Option<f64>,
    /// By how much the core is slower than its reference, as clocks were told.
    told: f64,
}

/// What writes the weight of one burner.
struct BurnerKeeper {
    filler: usize,
    place: usize,
    takes_slack: bool,
    weight: Fraction,
    written: f64,
    /// What its nodes had been owed when it was last given something, in the programs' units, and when that was.
    owed: (u64, RealInstant),
}

/// Keeps the weight of a node that has several CPUs: it follows how many of them are at work.
struct SeveralKeeper {
    node: usize,
    fraction: f64,
    weight: Fraction,
    written: f64,
    /// The integral of its CPUs at work when it was last given something, and when that was.
    wanted: (u64, RealInstant),
    /// How far its clock has been ahead of the run's lately, ns of real time.
    lead_ns: f64,
}

/// The maps of the kernel's programs that keep the clocks of nodes.
struct Followed {
    nodes: SharedArray<NodeWords>,
    burners: SharedArray<BurnerWords>,
    node_count: usize,
}

impl Followed {
    fn open(maps: Maps) -> Result<Followed, Error> {
        let Maps { nodes, burners, node_count, burner_count } = maps;
        Ok(Followed {
            nodes: SharedArray::map(open_map(nodes)?.as_fd(), node_count)?,
            burners: SharedArray::map(open_map(burners)?.as_fd(), burner_count)?,
            node_count,
        })
    }
}

impl Keepers {
    fn new(
        board: Board,
        layout: &Layout,
        burners: &[Burner],
        several: &[SeveralCpus],
        way: Way,
    ) -> Result<Keepers, Error> {
        let at = host::now();
        let first = layout.cores().len();
        let keeper = |(i, burner): (usize, &Burner)| {
            let Burner { group, place, takes_slack } = *burner;
            Ok(BurnerKeeper {
                filler: first + i,
                place,
                takes_slack,
                weight: group.fraction()?,
                written: -1.0,
                owed: (0, at),
            })
        };
        let burners = burners.iter().enumerate().map(keeper).collect::<Result<_, Error>>()?;
        let several = several.iter().map(|node| SeveralKeeper::new(node, at)).collect::<Result<_, Error>>()?;
        let cores = board.cores().map(|board| Keeper::new(board, at)).collect();
        Ok(Keepers {
            board,
            cores,
            burners,
            several,
            clocks: None,
            groups: Had::of(layout)?,
            at,
            at_once: way == Way::Account,
        })
    }

    /// Gives each burner what the nodes beside it leave: just now, or on average since it was last given something.
    fn follow(&mut self, now: RealInstant) -> io::Result<()> {
        let Some(clocks) = &self.clocks else { return Ok(()) };
        for (i, keeper) in self.burners.iter_mut().enumerate() {
            let mut orders = self.board.burner(keeper.filler);
            if let Some(slack) = self.cores[keeper.place].slack.filter(|_| keeper.takes_slack) {
                orders.base = slack;
            }
            // SAFETY: the mapping lives as long as `clocks`; the programs write each word as a whole.
            let awake = unsafe {
                let words = clocks.burners.at(i);
                if self.at_once { awake_of(words) } else { awake_on_average(words, now, &mut keeper.owed) }
            };
            let fraction = orders.fraction(awake);
            let beside = fraction + orders.scale * awake;
            if (fraction - keeper.written).abs() > WORTH_IT * beside {
                keeper.weight.set(fraction)?;
                keeper.written = fraction;
            }
        }
        let slice = self.board.slice();
        for keeper in &mut self.several {
            keeper.follow(clocks, now, slice, self.at_once)?;
        }
        Ok(())
    }

    /// Reckons the speed of cores if it is time. Where the poke itself was held up, weights stay as they were.
    fn reckon(&mut self, now: RealInstant) -> io::Result<()> {
        if now.since(self.at) < RECKON {
            return Ok(());
        }
        self.at = now;
        if self.clocks.is_none() {
            self.clocks = self.board.maps().map(Followed::open).transpose().map_err(io::Error::other)?;
        }
        // A counter that cannot be read is a window without one.
        let had = self.groups.read().unwrap_or_default();
        for (place, keeper) in self.cores.iter_mut().enumerate() {
            keeper.reckon(now, had.get(place).copied());
            if let Some(clocks) = &self.clocks
                && keeper.slower_by().is_some_and(|slower| (slower / keeper.told - 1.0).abs() > WORTH_IT / 2.0)
            {
                keeper.told = keeper.slower_by().unwrap_or(1.0);
                let here = |burner: usize| self.burners.get(burner).is_some_and(|b| b.place == place);
                for node in 0..clocks.node_count {
                    // SAFETY: the mapping lives as long as `clocks`, and nobody else writes these words.
                    unsafe { tell_rate(clocks.nodes.at(node), 1.0 / keeper.told, here) }
                }
            }
        }
        if !self.at_once {
            self.follow(now)?;
        }
        // Without clocks only what nobody has bought follows the core's speed.
        if self.clocks.is_none() {
            for keeper in self.burners.iter_mut().filter(|keeper| keeper.takes_slack) {
                if let Some(slack) = self.cores[keeper.place].slack.filter(|slack| *slack != keeper.written) {
                    keeper.weight.set(slack)?;
                    keeper.written = slack;
                }
            }
        }
        Ok(())
    }
}

impl SeveralKeeper {
    fn new(node: &SeveralCpus, at: RealInstant) -> Result<SeveralKeeper, Error> {
        let SeveralCpus { group, node, fraction } = node;
        let (weight, wanted) = (group.fraction()?, (0, at));
        Ok(SeveralKeeper { node: *node, fraction: *fraction, weight, written: -1.0, wanted, lead_ns: 0.0 })
    }

    /// Gives the node as much as its CPUs that are at work have bought. While nobody in it wants the core, it has what
    /// one has, for the thread that wakes up next.
    ///
    /// Which of them are at work changes within a slice, so that the sum of what it was given can be off: what its
    /// clock has got ahead, it is given less.
    fn follow(&mut self, clocks: &Followed, now: RealInstant, slice: RealDuration, at_once: bool) -> io::Result<()> {
        // SAFETY: the mapping lives as long as `clocks`.
        let node = unsafe { at_work(clocks.nodes.at(self.node), now, &mut self.wanted) };
        self.lead_ns += (node.lead_ns - self.lead_ns) / LEAD_OVER;
        let cpus = if at_once { node.at_once } else { node.on_average };
        let stride = slice.as_nanos() as f64 * node.rate;
        let less = (1.0 - self.lead_ns / (STRIDES * stride)).clamp(0.5, 1.5);
        let fraction = self.fraction * cpus.max(1.0) * less;
        if (fraction - self.written).abs() > WORTH_IT_FOR_CPUS * fraction {
            self.weight.set(fraction)?;
            self.written = fraction;
        }
        Ok(())
    }
}

impl Keeper {
    fn new(board: OfCore, at: RealInstant) -> Keeper {
        Keeper {
            board,
            pacer: Pacer::new(at),
            keeping: false,
            rate: Rate::start(),
            measured: board.measured(),
            had: None,
            slack: None,
            told: 1.0,
        }
    }

    /// By how much nodes' work takes longer than on a core of the reference's speed; `None` with shares of time.
    fn slower_by(&self) -> Option<f64> {
        self.keeping.then(|| self.pacer.books().wanted)
    }

    /// `had` is what all groups had of the core by now, if that could be read.
    fn reckon(&mut self, now: RealInstant, had: Option<Counts>) {
        if let Some(orders) = self.board.orders().filter(|_| !self.keeping) {
            self.pacer.keep(orders.pace, orders.room);
            self.keeping = true;
        }
        let measured = self.board.measured();
        let Measured { chunks, cycles } = measured.since(self.measured);
        let speed = self.rate.per_us().and_then(|per_us| meter::speed(chunks, cycles, per_us));
        let available = had.zip(self.had).map(|(now, before)| now.since(before));
        if let Some(slack) = self.pacer.step(Window { at: now, speed, available }) {
            self.slack = Some(slack);
        }
        (self.measured, self.had) = (measured, had);
        self.board.publish(self.pacer.books());
    }
}
