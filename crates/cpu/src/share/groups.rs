//! The groups of one run: made, put under their limits, watched and removed.

mod meters;
mod slowing;

use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use counters::Looks;
use host::cgroup::{self, Group, Tree, Usage, UsageByCore, check_name};
use host::slices::{self, Slices};
use host::{Change, Held};
use host::{Lack, cores, now};
use scale::{RealDuration, RealInstant};

pub use self::meters::CpuMeters;
use self::slowing::Slowed;
use crate::keeper::client::KeeperProcess;
use crate::keeper::controller::Room;
use crate::keeper::protocol::{Job, Method, Orders, Request, SeveralCpus};
use crate::measure::caches::Sampler;
use crate::measure::interrupts::Interrupts;
use crate::measure::usage::UsageOfCores;
use crate::node_clock::NodeClocks;
use crate::share::core_plan::CorePlan;
use crate::share::exclusive::OwnCores;
use crate::share::joiner::NodeJoiner;
use crate::share::layout::GroupLayout;
use crate::share::reservation::PLANNED_USABLE;
use crate::{Calibration, CoreWork, Error, Exclusive, NodeShare, NodeUse, Policy, Sample, Terms};

/// The time for which burners run before η is measured, and for which it is: the scheduler's averages need the first.
const SETTLE: Duration = Duration::from_millis(150);
const CALIBRATE: Duration = Duration::from_millis(400);

/// How often η is measured, at most, while a core has less of it than its nodes have bought: others want it for a
/// moment now and then. Together it lasts for less than the 2 s within which a signal ends a run.
const CALIBRATIONS: usize = 4;

/// More than this is never sold: the group by which slices are ended and the error of the measurement need something.
const MAX_USABLE: f64 = 0.995;

/// The control groups of one run. Dropping it removes them, like [`CpuGroups::release`].
#[derive(Debug)]
pub struct CpuGroups {
    layout: GroupLayout,
    shares: Vec<NodeShare>,
    policy: Policy,
    terms: Terms,
    emulated: UsageOfCores,
    /// The usage of what keeps the shares, on other cores; there is none without [`Policy::Slots`].
    keepers: Option<UsageByCore>,
    everything: UsageByCore,
    nodes: Vec<NodeCounters>,
    /// The nodes' own clocks; there are none without [`Policy::Slots`].
    clocks: Option<NodeClocks>,
    /// In the layout's order of the cores.
    plans: Vec<CorePlan>,
    own_cores: OwnCores,
    /// The slices of the whole machine, where tasks have none of their own.
    held: Option<Held>,
    slices: Slices,
    interrupts: Interrupts,
    keeper: KeeperProcess,
    released: bool,
}

#[derive(Debug)]
struct NodeCounters {
    usage: Usage,
    /// When its clock began, and what its burner was last seen to have burnt for it, ns.
    since: RealInstant,
    burnt: AtomicU64,
    /// For how long it was last seen to have slept, ns.
    slept: AtomicU64,
    slowed: Mutex<Slowed>,
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
        let plans = CorePlan::all(shares, policy, tree.weights())?;
        let cores: Vec<usize> = plans.iter().map(|plan| plan.core).collect();
        let layout = GroupLayout::of(run_id, &cores)?.divided(shares, &plans);
        let held = (slices == Slices::OfHost).then(|| slices::take(run_id, terms.slice)).transpose()?;
        layout.emulated().create()?;
        let mut made = CpuGroups::fill_in(layout.clone(), shares, plans, policy, terms);
        match &mut made {
            Ok(groups) => (groups.held, groups.slices) = (held, slices),
            Err(_) => drop(layout.tree().sweep()),
        }
        made
    }

    fn fill_in(
        layout: GroupLayout,
        shares: &[NodeShare],
        plans: Vec<CorePlan>,
        policy: Policy,
        terms: Terms,
    ) -> Result<CpuGroups, Error> {
        for place in plans.iter().flat_map(|plan| layout.places_of_spares(plan)) {
            layout.at(&place).create()?;
        }
        let mut nodes = Vec::new();
        for NodeShare { name, .. } in shares {
            layout.container(name).create()?;
            let usage = layout.node(name).usage()?;
            let (burnt, slept) = (AtomicU64::new(0), AtomicU64::new(0));
            nodes.push(NodeCounters { usage, since: now(), burnt, slept, slowed: Mutex::new(Slowed::default()) });
        }
        let clocks = (policy == Policy::Slots).then(|| clocks_of(&layout, shares, &plans, terms.slice)).transpose()?;
        if policy == Policy::Slots {
            let slack = plans.iter().map(|plan| layout.slack(plan));
            for group in [layout.keeper(), layout.reschedule()].into_iter().chain(slack) {
                group.create()?;
            }
            // Where the keeper is scheduled as a member of the tree, the tree's weight is not for it: whoever works on
            // its core, the engine too, would hardly get it.
            if !layout.keeper().holds_threads() {
                layout.keeper().make_negligible()?;
            }
        }
        let usage = || layout.keeper().usage_by_core(other_than(layout.cores()));
        Ok(CpuGroups {
            shares: shares.to_vec(),
            policy,
            terms,
            emulated: UsageOfCores::of(&layout, &plans, policy)?,
            keepers: (policy == Policy::Slots).then(usage).transpose()?,
            everything: cgroup::usage_of_machine()?,
            plans,
            layout,
            nodes,
            clocks,
            own_cores: OwnCores::default(),
            held: None,
            slices: Slices::OfNobody,
            interrupts: Interrupts::default(),
            keeper: KeeperProcess::default(),
            released: false,
        })
    }

    /// The group of a node's container.
    pub fn container(&self, node: &str) -> Group {
        self.layout.container(node)
    }

    /// The number by which the kernel knows a node's group in the hierarchy that divides CPU time.
    pub fn number_of(&self, node: &str) -> Result<u64, Error> {
        Ok(self.layout.node(node).number()?)
    }

    /// The container's group as OCI's `cgroupsPath`. The runtime may remove and make it again.
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
    pub fn joiner(&self, node: &str) -> Result<NodeJoiner, Error> {
        let share = self.shares.iter().find(|n| n.name == node);
        let core = share.ok_or_else(|| Error::Input(format!("there is no node `{node}`")))?.core;
        Ok(NodeJoiner::new(self.layout.container(node).thread_joiner()?, core))
    }

    /// Takes the cores away from everybody else, if that can be; they are given back with the groups. From here on only
    /// what is in these groups can be on them.
    pub fn take_cores(&mut self) -> Exclusive {
        self.own_cores.take(&self.layout)
    }

    /// The kernel's word, if the cores were [taken](CpuGroups::take_cores) and are these groups' alone no more.
    pub fn lost_cores(&self) -> Option<String> {
        self.own_cores.lost()
    }

    /// Begins to measure how long the caches of one of the cores remember, with data left alone for `away`.
    ///
    /// Fails if what measures cannot be started.
    pub fn sampler(&self, core: usize, away: RealDuration) -> Result<Sampler, Error> {
        self.own_cores.sampler(&self.layout, core, away)
    }

    /// The clocks of the nodes, in the order of the shares; `None` where the policy has none.
    pub fn clocks(&self) -> Option<&NodeClocks> {
        self.clocks.as_ref()
    }

    /// The policy in force.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The process that keeps the shares, to start and to hand to [`CpuGroups::engage`]; `None` if the policy needs
    /// none. Its standard input and output are pipes and must stay so. It may be started inside another PID or mount
    /// namespace.
    pub fn keeper(&self) -> Option<Command> {
        (self.policy == Policy::Slots).then(|| {
            let burners = self.plans.iter().enumerate().flat_map(|(core, plan)| {
                self.layout.places_of_burners(plan).into_iter().map(move |place| (place, core))
            });
            let job = Job {
                cores: self.cores().to_vec(),
                slice: self.terms.slice,
                method: Method::of(self.slices),
                burners: burners.collect(),
                several: self.several_cpus(),
            };
            let job = serde_json::to_string(&job).expect("a job has finite numbers");
            let mut command = Command::new("/proc/self/exe");
            command.args(["__keeper", self.layout.tree().id(), &job]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command
        })
    }

    fn several_cpus(&self) -> Vec<SeveralCpus> {
        let of_core = |(core, plan): (usize, &CorePlan)| {
            let told = plan.fractions();
            let several = plan.of_nodes(&told).filter(|(node, _)| self.shares[*node].cpus > 1);
            let of_node = several.map(|(node, all)| {
                let NodeShare { name, cpus, .. } = &self.shares[node];
                SeveralCpus { place: self.layout.place(name), node, core, fraction: all / f64::from(*cpus) }
            });
            of_node.collect::<Vec<_>>()
        };
        self.plans.iter().enumerate().flat_map(of_core).collect()
    }

    /// Applies the limits: from here on every node has its share. Takes half a second with [`Policy::Slots`], in which
    /// η of each core is measured; the nodes' programs should not have started yet. Calibrations come in the order of
    /// [`CpuGroups::cores`].
    ///
    /// `keeper` is [`CpuGroups::keeper`], started. Fails if less of a core is usable than its nodes' shares sum to.
    pub fn engage(&mut self, keeper: Option<Child>) -> Result<Vec<Calibration>, Error> {
        self.keeper = KeeperProcess::new(keeper);
        // Were the weight larger, foreign work on the core would get less of it than the verdict can measure.
        self.layout.top().outweigh_the_rest(self.cores().len())?;
        match self.policy {
            Policy::Slots => return self.engage_slots(),
            Policy::Quota => {
                for node in &self.shares {
                    self.layout.node(&node.name).cap(node.share)?;
                }
            }
            Policy::WholeCores => {
                for node in self.shares.iter().filter(|n| n.share < n.whole_cores.len() as f64 - 1e-9) {
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
        self.divide(&self.plans.iter().map(|plan| PLANNED_USABLE.max(plan.sold())).collect::<Vec<_>>())?;
        self.layout.reschedule().make_negligible()?;
        self.keeper.started()?;
        self.interrupts = Interrupts::of(&self.layout, other_than(self.cores()))?;
        self.keeper.tell(&Request::Begin)?;
        sleep(SETTLE);
        let mut calibrations = self.calibrate()?;
        for _ in 1..CALIBRATIONS {
            if self.plans.iter().zip(&calibrations).all(|(plan, core)| plan.sold() <= core.usable) {
                break;
            }
            calibrations = self.calibrate()?;
        }
        self.divide(&calibrations.iter().map(|core| core.usable).collect::<Vec<_>>())?;
        if let Some(orders) = self.orders()? {
            self.keeper.tell(&Request::Follow(orders))?;
        }
        Ok(calibrations)
    }

    /// Measures for a while how much of each core is usable, and how fast it is.
    fn calibrate(&mut self) -> Result<Vec<Calibration>, Error> {
        let work_before = self.keeper.work()?;
        let (before, start) = (self.on_cores()?, Instant::now());
        sleep(CALIBRATE);
        let (after, wall) = (self.on_cores()?, start.elapsed());
        let work = self.keeper.work()?;
        let used = after.iter().zip(&before).map(|(after, before)| after.saturating_sub(*before));
        let usable = used.map(|used| (used as f64 / wall.as_nanos() as f64).min(MAX_USABLE));
        let of_core = |(place, usable): (usize, f64)| {
            let (before, after) = (work_before.get(place), work.get(place));
            let speed = after.zip(before).and_then(|(after, before)| after.speed_since(*before));
            Calibration { core: self.plans[place].core, usable, speed }
        };
        Ok(usable.enumerate().map(of_core).collect())
    }

    /// How the keeper is to divide the cores from now on; `None` without clocks of nodes.
    fn orders(&self) -> Result<Option<Orders>, Error> {
        let Some(clocks) = &self.clocks else { return Ok(None) };
        let largest = self.layout.tree().weights().largest_fraction();
        let room = |plan: &CorePlan| Room { usable: plan.usable, sold: plan.taken(), largest };
        let cores = self.plans.iter().map(|plan| self.terms.pace.map(|pace| (pace, room(plan)))).collect();
        let burners = self.plans.iter().flat_map(CorePlan::burners).collect();
        Ok(Some(Orders { cores, burners, maps: clocks.maps()? }))
    }

    /// Divides each core, of which so much is usable, between its nodes and the groups that burn what they have not
    /// bought.
    fn divide(&mut self, usable: &[f64]) -> Result<(), Error> {
        let mut all = Vec::new();
        for (plan, usable) in self.plans.iter_mut().zip(usable) {
            let slack = plan.use_of(&self.shares, *usable)?;
            let told = plan.fractions();
            all.extend(plan.of_nodes(&told).map(|(i, f)| (self.layout.node(&self.shares[i].name), f)));
            let batches = plan.division.batches();
            all.extend(batches.iter().zip(&told.batches).map(|(batch, f)| (self.layout.batch(plan, batch.level), *f)));
            let spares = self.layout.places_of_spares(plan).into_iter().zip(&told.spares);
            all.extend(spares.map(|(place, f)| (self.layout.at(&place), *f)));
            all.push((self.layout.slack(plan), slack));
        }
        Ok(cgroup::divide(&all)?)
    }

    fn sold(&self) -> Vec<(Group, f64)> {
        self.shares.iter().map(|n| (self.layout.node(&n.name), n.share)).collect()
    }

    /// Reads the usage of each of the nodes' cores by all groups.
    fn on_cores(&self) -> Result<Vec<u64>, Error> {
        let by_core = self.emulated.read(&self.used()?, &self.shares)?;
        let lack = |core| Lack::new(format!("core {core} does not exist"), "name one that `nproc --all` counts");
        let of = |core: &usize| Ok(by_core.get(*core).copied().ok_or_else(|| lack(*core))?);
        self.cores().iter().map(of).collect()
    }

    /// Reads all counters: some 10 µs a node, and once a second 20 more if the cores were
    /// [taken](CpuGroups::take_cores). Fails if the process that keeps the shares has ended.
    pub fn sample(&mut self) -> Result<Sample, Error> {
        if let Some(status) = self.keeper.ended() {
            return Err(Error::Keeper(format!("it ended during the run ({status}), so nodes had no limits")));
        }
        self.own_cores.recount(self.shares.iter().map(|n| self.layout.container(&n.name)))?;
        let work = self.work()?;
        let nodes = self.used()?;
        let at = now();
        let mut run_ns = self.emulated.read(&nodes, &self.shares)?;
        if let Some(keepers) = &self.keepers {
            add_by_core(&mut run_ns, &self.interrupts.by_core(keepers.read()?)?);
        }
        Ok(Sample { nodes, at, run_ns, all_ns: self.everything.read()?, work })
    }

    /// The counters of cores; none without a meter.
    fn work(&mut self) -> Result<Vec<(usize, CoreWork)>, Error> {
        let work = if self.policy == Policy::Slots { self.keeper.work()? } else { Vec::new() };
        Ok(self.cores().iter().copied().zip(work).collect())
    }

    /// Reads the usage of each node.
    fn used(&self) -> Result<Vec<NodeUse>, Error> {
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for (i, counters) in self.nodes.iter().enumerate() {
            let at = now();
            // The container's own group may be gone (the node was stopped), its share of the parent's counter stays.
            let container_ns = counters.usage.read()?.as_nanos();
            let cpus = f64::from(self.shares[i].cpus);
            let (so_far, times) = (at.since(counters.since), self.clocks.as_ref().map(|clocks| clocks.times(i)));
            let unwanted = times.map_or(0.0, |times| so_far.as_nanos() as f64 * cpus - times.wanted.as_nanos() as f64);
            let burnt = (unwanted.max(0.0) * self.shares[i].share_of_cpu() + self.slowed(i).unused) as u64;
            // Counted to the end of its last slice, so that it may seem to have slept since.
            let unused_ns = counters.burnt.fetch_max(burnt, Ordering::Relaxed).max(burnt);
            let slept = times.map_or(RealDuration::ZERO, |times| so_far.saturating_sub(times.awake));
            let slept_ns = counters.slept.fetch_max(slept.as_nanos(), Ordering::Relaxed).max(slept.as_nanos());
            let uncounted = times.map_or(0, |times| times.uncounted);
            let empty_looks = times.map_or(Looks::default(), |times| times.looks);
            nodes.push(NodeUse { at, container_ns, unused_ns, slept_ns, uncounted, empty_looks });
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

    /// Ends the keeper and removes the groups. What still runs in them is killed.
    pub fn release(mut self) -> Result<(), Error> {
        self.let_go()
    }

    fn let_go(&mut self) -> Result<(), Error> {
        self.released = true;
        self.keeper.end();
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
fn clocks_of(
    layout: &GroupLayout,
    shares: &[NodeShare],
    plans: &[CorePlan],
    slice: RealDuration,
) -> Result<NodeClocks, Error> {
    let groups = shares.iter().map(|n| Ok(layout.node(&n.name).number()?)).collect::<Result<Vec<_>, Error>>()?;
    let mut burners = vec![0; shares.len()];
    let mut first = 0;
    for plan in plans {
        for (node, burner) in plan.burner_of_nodes() {
            burners[node] = first + burner;
        }
        first += plan.burners().len();
    }
    NodeClocks::start(shares, &groups, &burners, slice)
}
