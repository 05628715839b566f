//! Weights that follow who sleeps, and weights and rates of clocks that follow how fast cores are.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};

use host::cgroup::{Fraction, Group};
use scale::{RealDuration, RealInstant};

use super::burners::{Burners, Measured, Meter, Pause};
use super::controller::{Books, Controller, Measurement};
use super::protocol::{BurnerShare, Job, Maps, Method, Orders, SeveralCpus};
use super::shared_array::SharedArray;
use crate::Error;
use crate::measure::meter;
use crate::measure::usage::{RunUsage, UsageSnapshot};
use crate::measure::yardstick::CounterRate;
use crate::node_clock::{
    BurnerWords, CoreWords, MOST_CPUS, NodeWords, QueueLook, at_work, awake_of, awake_on_average, queued_asleep,
    share_now, tell_rate, who_has,
};
use crate::share::layout::{GroupLayout, is_slack};

/// How often the speed of cores is measured.
const MEASURE: RealDuration = RealDuration::from_nanos(20_000_000);

/// A change of what a burner has by less than this, as a part of what all beside it have, is not worth a write, which
/// interrupts the core.
const WORTH_IT: f64 = 0.002;

/// The least change for a node with several CPUs, where a change of one CPU is a change by a whole number.
const WORTH_IT_FOR_CPUS: f64 = 0.02;

/// Over how many looks the lead of a node's clock is averaged, and in how many strides it is to be made up: a stride is
/// by how much its clock goes on in a slice, so that it is ahead and behind by about one all the time.
const LEAD_OVER: f64 = 16.0;
const STRIDES: f64 = 8.0;

/// All that follows something, of all cores.
pub(super) struct Followers {
    orders: Receiver<Orders>,
    books: Arc<Mutex<Vec<Books>>>,
    slice: RealDuration,
    cores: Vec<CoreSpeed>,
    burners: Vec<BurnerWeight>,
    several: Vec<CpusWeight>,
    /// Nodes that sleep and are in the queue all the same, and their shares together, by burner.
    asleep: Vec<usize>,
    queued: Vec<f64>,
    /// The kernel's maps, once they were told.
    clocks: Option<Clocks>,
    usage: RunUsage,
    measured: RealInstant,
    /// Whether burners have at once what a node leaves that goes to sleep. Before Linux 6.6 (CFS) a weight that changes
    /// often starves who runs beside it, so that burners there have what nodes left on average.
    at_once: bool,
}

impl Followers {
    /// Takes up the groups of a job; there is nothing to follow before the first of `orders`.
    pub fn new(
        layout: &GroupLayout,
        job: &Job,
        burners: &Burners,
        orders: Receiver<Orders>,
        books: Arc<Mutex<Vec<Books>>>,
    ) -> Result<Followers, Error> {
        let (at, meters) = (host::now(), burners.meters());
        let of_core = |(place, number): (usize, &usize)| CoreSpeed::new(Arc::clone(&meters), place, *number, at);
        let of_burner = |((place, core), pause): (&(String, usize), &&'static Pause)| {
            BurnerWeight::new(&layout.at(place), *core, is_slack(place), pause, at)
        };
        let of_node = |node: &SeveralCpus| CpusWeight::new(&layout.at(&node.place), node, at);
        Ok(Followers {
            orders,
            books,
            slice: job.slice,
            cores: job.cores.iter().enumerate().map(of_core).collect(),
            burners: job.burners.iter().zip(burners.pauses()).map(of_burner).collect::<Result<_, _>>()?,
            several: job.several.iter().map(of_node).collect::<Result<_, _>>()?,
            asleep: Vec::new(),
            queued: vec![0.0; job.burners.len()],
            clocks: None,
            usage: RunUsage::of(layout)?,
            measured: at,
            at_once: job.method == Method::Account,
        })
    }

    /// Does what is due: weights follow who sleeps at each call, or on average of some time, and the speed of cores is
    /// measured every [`MEASURE`].
    pub fn step(&mut self, now: RealInstant) -> Result<(), Error> {
        let due = now.since(self.measured) >= MEASURE;
        if due {
            self.measured = now;
            self.measure(now)?;
        }
        if self.at_once || due {
            self.follow(now).map_err(Error::io("change a weight"))?;
        }
        Ok(())
    }

    /// Gives each burner what the nodes beside it leave, and nodes with several CPUs what those at work have bought.
    ///
    /// The weights of all that is in a core's queue add up to the core: so those that always compute have what they
    /// are owed. A node that has had more than it was owed is in the queue while it sleeps, until others have had as
    /// much (from Linux 6.12 on; before that the queue's average makes up for it when it wakes up).
    fn follow(&mut self, now: RealInstant) -> io::Result<()> {
        let Some(clocks) = &self.clocks else { return Ok(()) };
        self.queued.fill(0.0);
        // Where burners have an average, this has no part in it.
        if self.at_once {
            self.asleep.clear();
            // SAFETY: the mapping lives as long as `clocks`.
            let queued_now = |node: usize| unsafe { queued_asleep(clocks.nodes.at(node)) };
            self.asleep.extend((0..clocks.told.len()).filter(|node| queued_now(*node).is_some()));
            clocks.look.at(&self.asleep)?;
            for (burner, share) in self.asleep.iter().filter_map(|node| queued_now(*node)) {
                self.queued[burner] += share;
            }
        }
        // SAFETY: as above.
        let awake = |i: usize| unsafe { awake_of(clocks.burners.at(i)) } > 0.0;
        self.cores.iter_mut().for_each(|core| core.has_nodes = false);
        self.burners.iter().enumerate().for_each(|(i, burner)| self.cores[burner.core].has_nodes |= awake(i));
        for (i, burner) in self.burners.iter_mut().enumerate() {
            let core = &self.cores[burner.core];
            // A burner that is alone on its core may keep any weight.
            if core.has_nodes || !self.at_once {
                let words = clocks.cores.at(core.number);
                burner.follow(clocks.burners.at(i), words, core.slack, self.queued[i], now, self.at_once)?;
            }
        }
        for node in &mut self.several {
            let core = clocks.cores.at(self.cores[node.core].number);
            node.follow(clocks, core, now, self.slice, self.at_once)?;
        }
        Ok(())
    }

    fn measure(&mut self, now: RealInstant) -> Result<(), Error> {
        if let Ok(orders) = self.orders.try_recv() {
            self.take(orders)?;
        }
        // A counter that cannot be read is a measurement without one.
        let usage = self.usage.read().unwrap_or_default();
        for (place, core) in self.cores.iter_mut().enumerate() {
            core.measure(now, usage.get(place).copied());
            let here = |burner: usize| self.burners.get(burner).is_some_and(|b| b.core == place);
            let (news, Some(clocks)) = (core.news(), self.clocks.as_ref()) else { continue };
            for (node, told) in clocks.told.iter().enumerate() {
                // SAFETY: the mapping lives as long as `clocks`.
                let share = unsafe { share_now(clocks.nodes.at(node)) };
                if news.is_some() || told.get() != share {
                    // SAFETY: likewise; who writes a new share just now finds it told the next time.
                    let share = unsafe { tell_rate(clocks.nodes.at(node), core.core_speed(), here) };
                    told.set(share.unwrap_or(told.get()));
                }
            }
        }
        // Whoever reads them now reads those of the last time: this must not wait.
        if let Ok(mut books) = self.books.try_lock() {
            *books = self.cores.iter().map(|core| core.controller.books()).collect();
        }
        Ok(())
    }

    fn take(&mut self, orders: Orders) -> Result<(), Error> {
        self.clocks = Some(Clocks::open(orders.maps)?);
        self.burners.iter_mut().zip(orders.burners).for_each(|(burner, share)| burner.share = Some(share));
        for (core, of_work) in self.cores.iter_mut().zip(orders.cores) {
            if let Some((pace, room)) = of_work {
                core.controller.keep(pace, room);
                core.told = Some(1.0);
            }
        }
        Ok(())
    }
}

/// The maps of the kernel's programs that keep the clocks of nodes.
struct Clocks {
    nodes: SharedArray<NodeWords>,
    burners: SharedArray<BurnerWords>,
    cores: SharedArray<CoreWords>,
    look: QueueLook,
    /// By node, the share of each of its CPUs, which events change, for which it was last told a rate.
    told: Vec<Cell<u64>>,
}

fn map_of(number: u32) -> Result<OwnedFd, Error> {
    host::bpf::open_map(number).map_err(|e| Error::Clocks(format!("a map cannot be opened: {e}")))
}

impl Clocks {
    fn open(maps: Maps) -> Result<Clocks, Error> {
        let Maps { nodes, burners, cores, look, node_count, burner_count } = maps;
        let nodes = SharedArray::map(map_of(nodes)?.as_fd(), node_count)?;
        Ok(Clocks {
            // SAFETY: the mapping lives longer than this.
            told: (0..node_count).map(|node| Cell::new(unsafe { share_now(nodes.at(node)) })).collect(),
            nodes,
            burners: SharedArray::map(map_of(burners)?.as_fd(), burner_count)?,
            cores: SharedArray::map(map_of(cores)?.as_fd(), MOST_CPUS)?,
            look: QueueLook::open(look).map_err(|e| Error::Clocks(format!("a program cannot be opened: {e}")))?,
        })
    }
}

/// The speed of one core, and what follows from it.
struct CoreSpeed {
    meters: Arc<[Vec<Meter>]>,
    place: usize,
    /// Its number on the host.
    number: usize,
    controller: Controller,
    rate: CounterRate,
    measured: Measured,
    usage: Option<UsageSnapshot>,
    /// The slack of the core now; `None` as it was at first.
    slack: Option<f64>,
    /// By how much the core is slower than its reference, as clocks were told; `None` with shares of time.
    told: Option<f64>,
    /// Whether a node on it wants it now.
    has_nodes: bool,
}

impl CoreSpeed {
    fn new(meters: Arc<[Vec<Meter>]>, place: usize, number: usize, at: RealInstant) -> CoreSpeed {
        let (controller, measured) = (Controller::new(at), Measured::of(&meters[place]));
        CoreSpeed {
            meters,
            place,
            number,
            controller,
            rate: CounterRate::start(),
            measured,
            usage: None,
            slack: None,
            told: None,
            has_nodes: false,
        }
    }

    /// Measures how fast the core was since the last time; `usage` is what all groups have had of it by now, if that
    /// could be read.
    fn measure(&mut self, now: RealInstant, usage: Option<UsageSnapshot>) {
        let measured = Measured::of(&self.meters[self.place]);
        let Measured { chunks, cycles } = measured.since(self.measured);
        let speed = self.rate.per_us().and_then(|per_us| meter::speed(chunks, cycles, per_us));
        let available = usage.zip(self.usage).map(|(now, before)| now.since(before));
        if let Some(slack) = self.controller.step(Measurement { at: now, speed, available }) {
            self.slack = Some(slack);
        }
        (self.measured, self.usage) = (measured, usage);
    }

    /// How fast the core is, as clocks were told: as a part of the reference.
    fn core_speed(&self) -> f64 {
        1.0 / self.told.unwrap_or(1.0)
    }

    /// The rate of clocks, as a part of the reference's, if that is other than they were told.
    fn news(&mut self) -> Option<f64> {
        let (slower, told) = (self.controller.books().wanted, self.told?);
        ((slower / told - 1.0).abs() > WORTH_IT / 2.0).then(|| {
            self.told = Some(slower);
            1.0 / slower
        })
    }
}

/// The weight of one burner: it follows who sleeps beside it.
struct BurnerWeight {
    core: usize,
    takes_slack: bool,
    weight: Fraction,
    /// The number of its group, and the pauses in which that has another weight.
    group: u64,
    pause: &'static Pause,
    share: Option<BurnerShare>,
    written: f64,
    /// The debt to its nodes when it was last given something, in the programs' units, and when that was.
    owed: (u64, RealInstant),
}

impl BurnerWeight {
    fn new(
        group: &Group,
        core: usize,
        takes_slack: bool,
        pause: &'static Pause,
        at: RealInstant,
    ) -> Result<BurnerWeight, Error> {
        let (weight, number) = (group.fraction()?, group.number()?);
        Ok(BurnerWeight { core, takes_slack, weight, group: number, pause, share: None, written: -1.0, owed: (0, at) })
    }

    fn follow(
        &mut self,
        words: *const BurnerWords,
        core: *const CoreWords,
        slack: Option<f64>,
        queued: f64,
        now: RealInstant,
        at_once: bool,
    ) -> io::Result<()> {
        let Some(mut share) = self.share else { return Ok(()) };
        if let Some(slack) = slack.filter(|_| self.takes_slack) {
            share.base = slack;
        }
        // SAFETY: the mapping lives as long as its owner, who calls this; the programs write each word as a whole.
        let awake =
            unsafe { if at_once { awake_of(words) + queued } else { awake_on_average(words, now, &mut self.owed) } };
        let fraction = share.fraction(awake);
        let beside = fraction + share.scale * awake;
        if (fraction - self.written).abs() > WORTH_IT * beside {
            // SAFETY: as above.
            let has_core = || at_once && unsafe { who_has(core) }.0 == self.group;
            if let Some(set) = self.pause.during(has_core, || self.weight.set(fraction)) {
                set?;
                self.written = fraction;
            }
        }
        Ok(())
    }
}

/// The weight of a node with several CPUs: it follows how many of them are at work.
struct CpusWeight {
    node: usize,
    /// The place of its core.
    core: usize,
    fraction: f64,
    /// The share of one of its CPUs at first.
    bought: Option<f64>,
    weight: Fraction,
    written: f64,
    /// The integral of its CPUs at work when it was last given something, and when that was.
    wanted: (u64, RealInstant),
    /// How far its clock has been ahead of the run's lately, ns of real time.
    lead_ns: f64,
}

impl CpusWeight {
    fn new(group: &Group, of: &SeveralCpus, at: RealInstant) -> Result<CpusWeight, Error> {
        let (weight, &SeveralCpus { node, core, fraction, .. }) = (group.fraction()?, of);
        let (wanted, lead_ns) = ((0, at), 0.0);
        Ok(CpusWeight { node, core, fraction, bought: None, weight, written: -1.0, wanted, lead_ns })
    }

    /// Gives the node as much as its CPUs that are at work have bought. While nobody in it wants the core, it has what
    /// one has, for the thread that wakes up next.
    ///
    /// Which of them are at work changes within a slice, so that the sum of what it was given can be off: what its
    /// clock has got ahead, it is given less.
    ///
    /// A group that has the core keeps its weight until it leaves it (see [`Pause`]).
    fn follow(
        &mut self,
        clocks: &Clocks,
        core: *const CoreWords,
        now: RealInstant,
        slice: RealDuration,
        at_once: bool,
    ) -> io::Result<()> {
        // SAFETY: the mapping lives as long as `clocks`.
        let node = unsafe { at_work(clocks.nodes.at(self.node), now, &mut self.wanted) };
        self.lead_ns += (node.lead_ns - self.lead_ns) / LEAD_OVER;
        let cpus = if at_once { node.at_once } else { node.on_average };
        let stride = slice.as_nanos() as f64 * node.rate;
        let less = (1.0 - self.lead_ns / (STRIDES * stride)).clamp(0.5, 1.5);
        let bought = *self.bought.get_or_insert(node.share_of_cpu);
        let fraction = self.fraction * (node.share_of_cpu / bought) * cpus.max(1.0) * less;
        // SAFETY: as above.
        let has_core = || at_once && unsafe { who_has(core) }.1 == Some(self.node);
        if (fraction - self.written).abs() > WORTH_IT_FOR_CPUS * fraction && !has_core() {
            self.weight.set(fraction)?;
            self.written = fraction;
        }
        Ok(())
    }
}
