//! The groups of one run: made, put under their limits, watched and removed.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use host::cgroup::{self, Group, Tree, Usage, UsageByCore, check_name};
use host::slices::{self, Slices};
use host::{Change, Held};
use host::{Lack, cores, now};
use scale::{RealDuration, RealInstant};

use crate::keeper::burners;
use crate::keeper::controller::Room;
use crate::keeper::counters::{BurnerOrders, Orders};
use crate::keeper::helper::{Helper, Word};
use crate::keeper::reschedule::Way;
use crate::measure::caches::Sampler;
use crate::measure::interrupts::Interrupts;
use crate::measure::usage::ByCore;
use crate::node_clock::NodeClocks;
use crate::share::core_plan::Part;
use crate::share::exclusive::Alone;
use crate::share::joiner::Joiner;
use crate::share::layout::Layout;
use crate::share::reservation::PLANNED_USABLE;
use crate::{Calibration, CoreWork, Error, Exclusive, NodeShare, NodeUse, Policy, Sample, Terms};

/// How long the fillers run before η is measured, and for how long it is: the scheduler's averages need the first.
const SETTLE: Duration = Duration::from_millis(150);
const CALIBRATE: Duration = Duration::from_millis(400);

/// More than this is never sold: the poked group and the error of the measurement need something.
const MAX_USABLE: f64 = 0.995;

/// A burner asks for slices that are so many times as long as nodes': a node that wakes up then need not wait for
/// the end of one.
const BURNERS_SLICES: f64 = 2.0;

/// The control groups of one run. Dropping it removes them, like [`CpuGroups::release`].
#[derive(Debug)]
pub struct CpuGroups {
    layout: Layout,
    shares: Vec<NodeShare>,
    policy: Policy,
    terms: Terms,
    emulated: ByCore,
    /// What keeps the shares, on other cores; there is none without [`Policy::Slots`].
    keepers: Option<UsageByCore>,
    everything: UsageByCore,
    nodes: Vec<NodeCounters>,
    /// The nodes' own clocks; there are none without [`Policy::Slots`].
    clocks: Option<NodeClocks>,
    /// In the layout's order of the cores.
    parts: Vec<Part>,
    alone: Alone,
    /// The slices of the whole machine, where tasks have none of their own.
    held: Option<Held>,
    slices: Slices,
    interrupts: Interrupts,
    helper: Helper,
    released: bool,
}

#[derive(Debug)]
struct NodeCounters {
    usage: Usage,
    /// When its clock began, and what its burner was last seen to have burnt for it, ns.
    since: RealInstant,
    burnt: AtomicU64,
}

impl CpuGroups {
    /// Makes the groups of a run, all with ordinary weights and without limits: [`CpuGroups::engage`] applies those.
    /// `terms` are those of [`Policy::Slots`]; other policies have none.
    ///
    /// Fails if the shares cannot be had on their cores or the terms not be kept, or if groups cannot be made on this
    /// machine.
    pub fn create(run_id: &str, shares: &[NodeShare], policy: Policy, terms: Terms) -> Result<CpuGroups, Error> {
        terms.check()?;
        shares.iter().try_for_each(|n| check_name(&n.name))?;
        let tree = Tree::of(run_id)?;
        let slices = if policy == Policy::Slots { slices::offered().0 } else { Slices::OfNobody };
        let parts = Part::all(shares, policy, tree.weights())?;
        let cores: Vec<usize> = parts.iter().map(|part| part.core).collect();
        let layout = Layout::of(run_id, &cores)?.divided(shares, &parts);
        let held = (slices == Slices::OfHost).then(|| slices::take(run_id, terms.slice)).transpose()?;
        layout.emulated().create()?;
        let mut made = CpuGroups::fill_in(layout.clone(), shares, parts, policy, terms);
        match &mut made {
            Ok(groups) => (groups.held, groups.slices) = (held, slices),
            Err(_) => drop(layout.tree().sweep()),
        }
        made
    }

    fn fill_in(
        layout: Layout,
        shares: &[NodeShare],
        parts: Vec<Part>,
        policy: Policy,
        terms: Terms,
    ) -> Result<CpuGroups, Error> {
        for place in parts.iter().flat_map(|part| layout.places_of_spares(part)) {
            layout.filler_at(&place).create()?;
        }
        let mut nodes = Vec::new();
        for NodeShare { name, .. } in shares {
            layout.container(name).create()?;
            let usage = layout.node(name).usage()?;
            nodes.push(NodeCounters { usage, since: now(), burnt: AtomicU64::new(0) });
        }
        let clocks = (policy == Policy::Slots).then(|| clocks_of(&layout, shares, &parts, terms.slice)).transpose()?;
        if policy == Policy::Slots {
            let unsold = parts.iter().map(|part| layout.unsold(part));
            for group in [layout.poke(), layout.poked()].into_iter().chain(unsold) {
                group.create()?;
            }
            // Where the poke is scheduled as a member of the tree, the tree's weight is not for it: whoever works on
            // its core, the engine too, would hardly get a turn.
            if !layout.poke().holds_threads() {
                layout.poke().make_negligible()?;
            }
        }
        let poke = || layout.poke().usage_by_core(other_than(layout.cores()));
        Ok(CpuGroups {
            shares: shares.to_vec(),
            policy,
            terms,
            emulated: ByCore::of(&layout, &parts, policy)?,
            keepers: (policy == Policy::Slots).then(poke).transpose()?,
            everything: cgroup::usage_of_machine()?,
            parts,
            layout,
            nodes,
            clocks,
            alone: Alone::default(),
            held: None,
            slices: Slices::OfNobody,
            interrupts: Interrupts::default(),
            helper: Helper::default(),
            released: false,
        })
    }

    /// The group of a node's container.
    pub fn container(&self, node: &str) -> Group {
        self.layout.container(node)
    }

    /// The same as OCI's `cgroupsPath`. The runtime may remove and make it again.
    pub fn container_path(&self, node: &str) -> String {
        self.layout.container_path(node)
    }

    /// The cores that hold nodes, in the order in which the shares name them.
    pub fn cores(&self) -> &[usize] {
        self.layout.cores()
    }

    /// For a single thread that is to work in a node's share, to measure from inside (see [`crate::measure::probe`]).
    ///
    /// Fails if there is no such node.
    pub fn joiner(&self, node: &str) -> Result<Joiner, Error> {
        let share = self.shares.iter().find(|n| n.name == node);
        let core = share.ok_or_else(|| Error::Input(format!("there is no node `{node}`")))?.core;
        Ok(Joiner::new(self.layout.container(node).thread_joiner()?, core))
    }

    /// Takes the cores away from everybody else, if that can be; they are given back with the groups. From here on only
    /// what is in these groups can be on them.
    pub fn take_cores(&mut self) -> Exclusive {
        self.alone.take(&self.layout)
    }

    /// What the kernel says, if the cores were [taken](CpuGroups::take_cores) and are these groups' alone no more.
    pub fn lost_cores(&self) -> Option<String> {
        self.alone.lost()
    }

    /// Begins to measure how long the caches of one of the cores remember, with data left alone for `away`.
    ///
    /// Fails if what measures cannot be started.
    pub fn sampler(&self, core: usize, away: RealDuration) -> Result<Sampler, Error> {
        self.alone.sampler(&self.layout, core, away)
    }

    /// The clocks of the nodes, in the order of the shares; `None` where the policy has none.
    pub fn clocks(&self) -> Option<&NodeClocks> {
        self.clocks.as_ref()
    }

    /// The policy in force.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The process to start and to hand to [`CpuGroups::engage`]; `None` if the policy needs none. Its standard input
    /// and output are pipes and must stay so. It may be started inside another PID or mount namespace.
    pub fn helper(&self) -> Option<Command> {
        (self.policy == Policy::Slots).then(|| {
            let mut command = Command::new("/proc/self/exe");
            command.arg("__keeper");
            let burnt = self.parts.iter().flat_map(|part| {
                let places = self.layout.places_of_burners(part);
                places.into_iter().map(|place| (place, part.core, BURNERS_SLICES))
            });
            let way = Way::of(self.slices);
            let (run, several) = (self.layout.tree().id(), self.several_cpus());
            command.args(burners::arguments(run, self.cores(), self.terms.slice, way, &several, burnt));
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command
        })
    }

    /// The nodes with several CPUs, each with what it has beside its siblings while one of them is at work.
    fn several_cpus(&self) -> Vec<burners::Several> {
        let of_part = |part: &Part| {
            let told = part.fractions();
            let each = part.of_nodes(&told).filter(|(i, _)| self.shares[*i].cpus > 1);
            let one = each.map(|(i, all)| (self.shares[i].name.clone(), i, all / f64::from(self.shares[i].cpus)));
            one.collect::<Vec<_>>()
        };
        self.parts.iter().flat_map(of_part).collect()
    }

    /// Applies the limits: from here on every node has its share. Takes half a second with [`Policy::Slots`], in which
    /// η of each core is measured; the nodes' programs should not have started yet. Calibrations come in the order of
    /// [`CpuGroups::cores`].
    ///
    /// `helper` is [`CpuGroups::helper`], started. Fails if less of a core is usable than its nodes' shares sum to.
    pub fn engage(&mut self, helper: Option<Child>) -> Result<Vec<Calibration>, Error> {
        self.helper = Helper::new(helper);
        // Were the weight larger, foreign work on the core would get less of it than the verdict can measure.
        self.layout.top().outweigh_the_rest(self.cores().len())?;
        match self.policy {
            Policy::Slots => return self.engage_slots(),
            Policy::Quota => {
                for node in &self.shares {
                    self.layout.node(&node.name).cap(node.share)?;
                }
            }
            Policy::Pool { cap } => {
                cgroup::divide(&self.sold())?;
                self.layout.emulated().cap(cap)?;
            }
        }
        Ok(self.cores().iter().map(|core| Calibration::none(*core)).collect())
    }

    fn engage_slots(&mut self) -> Result<Vec<Calibration>, Error> {
        self.divide(&self.parts.iter().map(|part| PLANNED_USABLE.max(part.sold())).collect::<Vec<_>>())?;
        self.layout.poked().make_negligible()?;
        self.helper.expect("ready")?;
        self.interrupts = Interrupts::of(&self.layout, other_than(self.cores()))?;
        self.helper.tell(&Word::Go, "going")?;
        sleep(SETTLE);
        let work_before = self.helper.work()?;
        let (before, start) = (self.on_cores()?, Instant::now());
        sleep(CALIBRATE);
        let (after, wall) = (self.on_cores()?, start.elapsed());
        let used = after.iter().zip(&before).map(|(after, before)| after.saturating_sub(*before));
        let usable: Vec<f64> = used.map(|used| (used as f64 / wall.as_nanos() as f64).min(MAX_USABLE)).collect();
        let work = self.helper.work()?;
        self.divide(&usable)?;
        let mut calibrations = Vec::new();
        for (place, part) in self.parts.iter().enumerate() {
            let (core, usable) = (part.core, part.usable);
            if let Some(pace) = self.terms.pace {
                let largest = self.layout.unsold(part).largest_fraction();
                let room = Room { usable, sold: part.taken(), largest };
                self.helper.tell(&Word::Keep(place, Orders { pace, room }), "kept")?;
            }
            let speed =
                work.get(place).zip(work_before.get(place)).and_then(|(after, before)| after.speed_since(*before));
            calibrations.push(Calibration { core, usable, speed });
        }
        self.order_burners()?;
        Ok(calibrations)
    }

    /// Tells each burner what it has, and where the clocks say who sleeps.
    fn order_burners(&mut self) -> Result<(), Error> {
        let Some(clocks) = &self.clocks else { return Ok(()) };
        let mut words = Vec::new();
        for part in &self.parts {
            let groups = self.layout.places_of_burners(part);
            for (place, burner) in groups.iter().zip(part.burners()) {
                let largest = self.layout.filler_at(place).largest_fraction();
                let crate::share::core_plan::Burner { base, scale, sold } = burner;
                words.push(Word::Burn(words.len(), BurnerOrders { base, scale, sold, largest }));
            }
        }
        words.push(Word::Clocks(clocks.maps()?));
        words.iter().try_for_each(|word| self.helper.tell(word, "kept"))
    }

    /// Divides each core, of which so much is usable, between its nodes and the groups that burn what they have not
    /// bought.
    fn divide(&mut self, usable: &[f64]) -> Result<(), Error> {
        let mut all = Vec::new();
        for (part, usable) in self.parts.iter_mut().zip(usable) {
            let unsold = part.use_of(&self.shares, *usable)?;
            let told = part.fractions();
            all.extend(part.of_nodes(&told).map(|(i, f)| (self.layout.node(&self.shares[i].name), f)));
            let batches = part.division.batches();
            all.extend(batches.iter().zip(&told.batches).map(|(batch, f)| (self.layout.batch(part, batch.level), *f)));
            let spares = self.layout.places_of_spares(part).into_iter().zip(&told.spares);
            all.extend(spares.map(|(place, f)| (self.layout.filler_at(&place), *f)));
            all.push((self.layout.unsold(part), unsold));
        }
        Ok(cgroup::divide(&all)?)
    }

    fn sold(&self) -> Vec<(Group, f64)> {
        self.shares.iter().map(|n| (self.layout.node(&n.name), n.share)).collect()
    }

    /// What all groups have used of each of the nodes' cores.
    fn on_cores(&self) -> Result<Vec<u64>, Error> {
        let by_core = self.emulated.read(&self.used()?, &self.shares)?;
        let lack = |core| Lack::new(format!("core {core} does not exist"), "name one that `nproc --all` counts");
        let of = |core: &usize| Ok(by_core.get(*core).copied().ok_or_else(|| lack(*core))?);
        self.cores().iter().map(of).collect()
    }

    /// Reads all counters: some 10 µs a node, and once a second 20 more if the cores were
    /// [taken](CpuGroups::take_cores). Fails if the process that keeps the shares has ended.
    pub fn sample(&mut self) -> Result<Sample, Error> {
        if let Some(status) = self.helper.ended() {
            return Err(Error::Fillers(format!("they ended during the run ({status}), so nodes had no limits")));
        }
        self.alone.recount(self.shares.iter().map(|n| self.layout.container(&n.name)))?;
        let work = self.work()?;
        let nodes = self.used()?;
        let at = now();
        let mut run_ns = self.emulated.read(&nodes, &self.shares)?;
        if let Some(keepers) = &self.keepers {
            add_by_core(&mut run_ns, &self.interrupts.by_core(keepers.read()?)?);
        }
        Ok(Sample { nodes, at, run_ns, all_ns: self.everything.read()?, work })
    }

    /// What is in the books, by core; nothing without a meter.
    fn work(&mut self) -> Result<Vec<(usize, CoreWork)>, Error> {
        let work = if self.policy == Policy::Slots { self.helper.work()? } else { Vec::new() };
        Ok(self.cores().iter().copied().zip(work).collect())
    }

    /// What each node has used.
    fn used(&self) -> Result<Vec<NodeUse>, Error> {
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for (i, counters) in self.nodes.iter().enumerate() {
            let at = now();
            // The container's own group may be gone (the node was stopped), its share of the parent's counter stays.
            let container_ns = counters.usage.read()?.as_nanos();
            let cpus = f64::from(self.shares[i].cpus);
            let unwanted = self.clocks.as_ref().map_or(0.0, |clocks| {
                at.since(counters.since).as_nanos() as f64 * cpus - clocks.times(i).wanted.as_nanos() as f64
            });
            let burnt = (unwanted.max(0.0) * self.shares[i].share_of_cpu()) as u64;
            // Counted to the end of its last slice, so that it may seem to have slept since.
            let unused_ns = counters.burnt.fetch_max(burnt, Ordering::Relaxed).max(burnt);
            nodes.push(NodeUse { at, container_ns, unused_ns });
        }
        Ok(nodes)
    }

    /// A setting of the whole machine that is different for as long as there are these groups.
    pub fn host_setting(&self) -> Option<&Change> {
        self.held.as_ref().map(Held::change)
    }

    /// The terms in force.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// Ends the fillers and removes the groups. What still runs in them is killed.
    pub fn release(mut self) -> Result<(), Error> {
        self.let_go()
    }

    fn let_go(&mut self) -> Result<(), Error> {
        self.released = true;
        self.helper.end();
        let swept = self.layout.tree().sweep();
        self.held.take().map_or(Ok(()), Held::release)?;
        Ok(swept?)
    }
}

impl Drop for CpuGroups {
    fn drop(&mut self) {
        if !self.released {
            let _ = self.let_go();
        }
    }
}

/// The first core that this process may use and that is none of `cores`: where what keeps the shares is.
fn other_than(cores: &[usize]) -> usize {
    let other = cores::usable().unwrap_or_default().into_iter().find(|other| !cores.contains(other));
    other.or(cores.first().copied()).unwrap_or(0)
}

fn add_by_core(sum: &mut Vec<u64>, more: &[u64]) {
    sum.resize(sum.len().max(more.len()), 0);
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// The clocks of nodes whose groups there are already, each with the burner that has its share while it sleeps.
fn clocks_of(layout: &Layout, shares: &[NodeShare], parts: &[Part], slice: RealDuration) -> Result<NodeClocks, Error> {
    let groups = shares.iter().map(|n| Ok(layout.node(&n.name).number()?)).collect::<Result<Vec<_>, Error>>()?;
    let mut burners = vec![0; shares.len()];
    let mut first = 0;
    for part in parts {
        for (node, burner) in part.burner_of_nodes() {
            burners[node] = first + burner;
        }
        first += part.burners().len();
    }
    NodeClocks::start(shares, &groups, &burners, slice)
}
