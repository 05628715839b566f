//! The groups of one run: made, put under their limits, watched and removed.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use host::cgroup::{self, Group, Usage, UsageByCore, check_name};
use host::sched::Turns;
use host::{Lack, cores, now};
use scale::{RealDuration, RealInstant};
use serde::{Deserialize, Serialize};

use crate::board::Orders;
use crate::caches::Sampler;
use crate::division::Division;
use crate::exclusive::Alone;
use crate::helper::{Helper, Word};
use crate::joiner::Joiner;
use crate::layout::Layout;
use crate::pace::Room;
use crate::raised::Raised;
use crate::shares::{self, PLANNED_USABLE};
use crate::{CoreWork, Error, Exclusive, NodeShare, Policy, Speed, Terms, fillers};

/// How long the fillers run before η is measured, and for how long it is: the scheduler's averages need the first.
const SETTLE: Duration = Duration::from_millis(150);
const CALIBRATE: Duration = Duration::from_millis(400);

/// More than this is never sold: the poked group and the error of the measurement need something.
const MAX_USABLE: f64 = 0.995;

/// The control groups of one run on one core. Dropping it removes them, like [`CpuGroups::release`].
#[derive(Debug)]
pub struct CpuGroups {
    layout: Layout,
    core: usize,
    shares: Vec<NodeShare>,
    /// How the core is divided.
    division: Division,
    /// The same with as much to spare as there is.
    in_force: Division,
    policy: Policy,
    terms: Terms,
    emulated: UsageByCore,
    /// What keeps the shares, on other cores; there is none without [`Policy::Slots`].
    keepers: Option<UsageByCore>,
    everything: UsageByCore,
    nodes: Vec<NodeCounters>,
    /// What is left for nodes and fillers; as it was planned until it is measured.
    usable: f64,
    raised: Raised,
    alone: Alone,
    helper: Helper,
    released: bool,
}

#[derive(Debug)]
struct NodeCounters {
    all: Usage,
    filler: Option<Usage>,
}

/// What was measured when limits were applied.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// η, the fraction of the core that is left for nodes and fillers together; 1 where nothing was measured (no
    /// [`Policy::Slots`]).
    pub usable: f64,
    /// How long one group ran on the core before the next had its turn, on average: about 0.1 ms. Longer than 1 ms
    /// means that this kernel does not end slices when it is poked, and that bursts are wrong. `None` where nothing was
    /// measured.
    pub grain: Option<RealDuration>,
    /// How fast the core was meanwhile; `None` where nothing was measured.
    pub speed: Option<Speed>,
}

/// CPU time since the groups were made; differences of two samples are what counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// One per node, in the order of the shares.
    pub nodes: Vec<NodeUse>,
    /// When the counters below were read.
    pub at: RealInstant,
    /// By core: everything of this run that is in its groups (nodes, fillers, poke), in ns.
    pub run_ns: Vec<u64>,
    /// By core: everything on this machine, in ns. Less `run_ns` it is foreign (or the engine's own) load.
    pub all_ns: Vec<u64>,
    /// What the core did and what nodes were owed of it; `None` without [`Policy::Slots`], which has no meter.
    pub core: Option<CoreWork>,
}

/// One node's use of its core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeUse {
    /// When these counters were read.
    pub at: RealInstant,
    /// What the node's programs used, in ns.
    pub container_ns: u64,
    /// What its filler burnt because the node wanted less than its share, in ns. A node that always wants CPU still
    /// leaves its filler 0.3 % of its share.
    pub filler_ns: u64,
    /// What it is entitled to, in ns, beyond its share of [`CoreWork::owed_ns`]: its share was
    /// [raised](CpuGroups::raise).
    pub raised_ns: u64,
}

impl CpuGroups {
    /// Makes the groups of a run, all with ordinary weights and without limits: [`CpuGroups::engage`] applies those.
    /// `terms` are those of [`Policy::Slots`]; other policies have none.
    ///
    /// Fails if the shares cannot be had on one core or the terms not be kept, or if groups cannot be made on this
    /// machine.
    pub fn create(
        run_id: &str,
        core: usize,
        shares: &[NodeShare],
        policy: Policy,
        terms: Terms,
    ) -> Result<CpuGroups, Error> {
        terms.check()?;
        shares.iter().try_for_each(|n| check_name(&n.name))?;
        match policy {
            Policy::Slots => shares::unsold(shares, 1.0)?,
            Policy::Quota | Policy::Pool { .. } => shares::sum(shares)?,
        };
        let layout = Layout::of(run_id)?;
        let division = match policy {
            Policy::Slots => Division::of(&shares::fractions(shares), layout.tree().weights()),
            Policy::Quota | Policy::Pool { .. } => Division::flat(shares.len(), layout.tree().weights()),
        };
        let layout = layout.divided(shares, &division);
        layout.emulated().create()?;
        let made = CpuGroups::fill_in(layout.clone(), core, shares, division, policy, terms);
        if made.is_err() {
            let _ = layout.tree().sweep();
        }
        made
    }

    fn fill_in(
        layout: Layout,
        core: usize,
        shares: &[NodeShare],
        division: Division,
        policy: Policy,
        terms: Terms,
    ) -> Result<CpuGroups, Error> {
        for place in Layout::places_of_spares(&division) {
            layout.filler_at(&place).create()?;
        }
        let mut nodes = Vec::new();
        for NodeShare { name, .. } in shares {
            layout.container(name).create()?;
            let filler = (policy == Policy::Slots).then(|| layout.filler(name));
            if let Some(filler) = &filler {
                filler.create()?;
                filler.make_idle()?;
            }
            nodes
                .push(NodeCounters { all: layout.node(name).usage()?, filler: filler.map(|f| f.usage()).transpose()? });
        }
        if policy == Policy::Slots {
            for group in [layout.poke(), layout.poked(), layout.unsold()] {
                group.create()?;
            }
            // Where the poke is scheduled as a member of the tree, the tree's weight is not for it: whoever works on
            // its core, the engine too, would hardly get a turn.
            if !layout.poke().holds_threads() {
                layout.poke().make_negligible()?;
            }
        }
        Ok(CpuGroups {
            core,
            shares: shares.to_vec(),
            policy,
            terms,
            emulated: layout.emulated().usage_by_core(core)?,
            keepers: (policy == Policy::Slots).then(|| layout.poke().usage_by_core(other_than(core))).transpose()?,
            everything: cgroup::usage_of_machine()?,
            usable: PLANNED_USABLE,
            raised: Raised::new(&layout, shares, &division)?,
            in_force: division.clone(),
            division,
            layout,
            nodes,
            alone: Alone::default(),
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

    /// The core that the shares are of.
    pub fn core(&self) -> usize {
        self.core
    }

    /// For a single thread that is to work in a node's share, to measure from inside (see [`crate::probe`]).
    pub fn joiner(&self, node: &str) -> Result<Joiner, Error> {
        Ok(Joiner::new(self.layout.container(node).thread_joiner()?, self.core))
    }

    /// Takes the core away from everybody else, if that can be; it is given back with the groups. From here on only what
    /// is in these groups can be on it.
    pub fn take_core(&mut self) -> Exclusive {
        self.alone.take(&self.layout, &[self.core])
    }

    /// What the kernel says, if the core was [taken](CpuGroups::take_core) and is these groups' alone no more.
    pub fn lost_core(&self) -> Option<String> {
        self.alone.lost()
    }

    /// Begins to measure how long the core's caches remember, with data left alone for `away`.
    ///
    /// Fails if what measures cannot be started.
    pub fn sampler(&self, away: RealDuration) -> Result<Sampler, Error> {
        self.alone.sampler(&self.layout, self.core, away)
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
            command.arg("__fillers");
            let nodes = self.shares.iter().map(|n| self.layout.place(&n.name).to_owned());
            let places = nodes.chain(Layout::places_of_spares(&self.division));
            command.args(fillers::arguments(self.layout.tree().id(), self.core, self.terms.slice, places));
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command
        })
    }

    /// Applies the limits: from here on every node has its share. Takes half a second with [`Policy::Slots`], in which
    /// η is measured; the nodes' programs should not have started yet.
    ///
    /// `helper` is [`CpuGroups::helper`], started. Fails if less of the core is usable than the shares sum to.
    pub fn engage(&mut self, helper: Option<Child>) -> Result<Calibration, Error> {
        self.helper = Helper::new(helper);
        // Were the weight larger, foreign work on the core would get less of it than the verdict can measure.
        self.layout.top().outweigh_the_rest()?;
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
        Ok(Calibration { usable: 1.0, grain: None, speed: None })
    }

    fn engage_slots(&mut self) -> Result<Calibration, Error> {
        let sold = shares::sum(&self.shares)?;
        self.divide(PLANNED_USABLE.max(sold))?;
        self.layout.poked().make_negligible()?;
        self.helper.expect("ready")?;
        self.helper.tell(&Word::Go, "going")?;
        sleep(SETTLE);
        let watched = self.most_turns(sold);
        let work_before = self.helper.work()?;
        let (before, turns_before, start) = (self.on_core(&self.emulated)?, turns(&watched)?, Instant::now());
        sleep(CALIBRATE);
        let (after, turns_after, wall) = (self.on_core(&self.emulated)?, turns(&watched)?, start.elapsed());
        let usable = ((after - before) as f64 / wall.as_nanos() as f64).min(MAX_USABLE);
        let speed = self.helper.work()?.zip(work_before).and_then(|(after, before)| after.speed_since(before));
        self.divide(usable)?;
        self.usable = usable;
        if let Some(pace) = self.terms.pace {
            // What is spared is not there to be had.
            let (sold, largest) = (sold + self.in_force.spare(), self.layout.unsold().largest_fraction());
            let room = Room { usable, sold, largest };
            self.helper.tell(&Word::Keep(Orders { pace, room }), "kept")?;
        }
        let ran = turns_after.ran.saturating_sub(turns_before.ran).as_nanos();
        let turns = turns_after.turns - turns_before.turns;
        Ok(Calibration { usable, grain: Some(RealDuration::from_nanos(ran / turns.max(1))), speed })
    }

    /// The group of the filler that has the most turns on the core, for the best average; but one with more than half
    /// of the core has several slices a turn.
    fn most_turns(&self, sold: f64) -> Group {
        let fillers = self.shares.iter().map(|n| (n.share, self.layout.filler(&n.name)));
        let all = fillers.chain([(1.0 - sold - self.in_force.spare(), self.layout.unsold())]);
        let most = all.filter(|(share, _)| *share <= 0.5).max_by(|a, b| a.0.total_cmp(&b.0));
        most.map_or_else(|| self.layout.unsold(), |(_, group)| group)
    }

    /// Divides the core between the nodes and the groups that burn what they have not bought.
    fn divide(&mut self, usable: f64) -> Result<(), Error> {
        let unsold = shares::unsold(&self.shares, usable)?;
        self.in_force = self.division.within(unsold);
        let mut all = self.layout.told(&self.shares, &self.in_force);
        all.push((self.layout.unsold(), unsold - self.in_force.spare()));
        Ok(cgroup::divide(&all)?)
    }

    fn sold(&self) -> Vec<(Group, f64)> {
        self.shares.iter().map(|n| (self.layout.node(&n.name), n.share)).collect()
    }

    fn on_core(&self, usage: &UsageByCore) -> Result<u64, Error> {
        let lack = || Lack::new(format!("core {} does not exist", self.core), "name one that `nproc --all` counts");
        Ok(usage.read()?.get(self.core).copied().ok_or_else(lack)?)
    }

    /// Reads all counters: some 10 µs a node. Fails if the process that keeps the shares has ended.
    pub fn sample(&mut self) -> Result<Sample, Error> {
        if let Some(status) = self.helper.ended() {
            return Err(Error::Fillers(format!("they ended during the run ({status}), so nodes had no limits")));
        }
        let core = if self.policy == Policy::Slots { self.helper.work()? } else { None };
        if let Some(core) = core {
            self.raised.account(core.owed_ns);
        }
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for (i, counters) in self.nodes.iter().enumerate() {
            let at = now();
            let filler = counters.filler.as_ref().map_or(Ok(RealDuration::ZERO), Usage::read)?;
            // The container's own group may be gone (the node was stopped), its share of the parent's counter stays.
            let container = counters.all.read()?.saturating_sub(filler);
            let raised_ns = self.raised.extra_ns(i);
            nodes.push(NodeUse { at, container_ns: container.as_nanos(), filler_ns: filler.as_nanos(), raised_ns });
        }
        let at = now();
        let mut run_ns = self.emulated.read()?;
        if let Some(keepers) = &self.keepers {
            add_by_core(&mut run_ns, &keepers.read()?);
        }
        Ok(Sample { nodes, at, run_ns, all_ns: self.everything.read()?, core })
    }

    /// Makes turns last `slice` from now on, within the bounds of [`Terms::slice`]. Does nothing without
    /// [`Policy::Slots`].
    pub fn set_slice(&mut self, slice: RealDuration) -> Result<(), Error> {
        let terms = Terms { slice, ..self.terms };
        terms.check()?;
        if self.policy == Policy::Slots {
            self.helper.tell(&Word::Slice(slice), "changed")?;
        }
        self.terms = terms;
        Ok(())
    }

    /// From now on each node has its share times its factor, which is at least 1. Only where shares of work are kept.
    ///
    /// Fails if less of the core is usable than that sums to.
    pub fn raise(&mut self, factors: &[f64]) -> Result<(), Error> {
        let sane = factors.len() == self.shares.len() && factors.iter().all(|f| f.is_finite() && *f >= 1.0);
        if !sane || self.policy != Policy::Slots || self.terms.pace.is_none() {
            return Err(Error::Input(format!("shares cannot be raised by {factors:?} with {:?}", self.policy)));
        }
        let sold = self.raised.sold(factors);
        if sold > self.usable + 1e-9 {
            return Err(Error::Input(format!("{sold:.3} of a core of which {:.3} is usable", self.usable)));
        }
        if let Some(core) = self.helper.work()? {
            self.raised.account(core.owed_ns);
        }
        self.helper.tell(&Word::Sold(sold + self.in_force.spare()), "changed")?;
        self.raised.set(factors, &self.in_force).map_err(Error::io("raise a node's share"))
    }

    /// What is left of the core for nodes and fillers, as it was measured when limits were applied.
    pub fn usable(&self) -> f64 {
        self.usable
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
        Ok(self.layout.tree().sweep()?)
    }
}

impl Drop for CpuGroups {
    fn drop(&mut self) {
        if !self.released {
            let _ = self.let_go();
        }
    }
}

/// The first core that this process may use and that is not `core`: where what keeps the shares is.
fn other_than(core: usize) -> usize {
    cores::usable().unwrap_or_default().into_iter().find(|other| *other != core).unwrap_or(core)
}

fn add_by_core(sum: &mut Vec<u64>, more: &[u64]) {
    sum.resize(sum.len().max(more.len()), 0);
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// What the only thread of a group had of the core.
fn turns(group: &Group) -> Result<Turns, Error> {
    let threads = group.threads()?;
    let [thread] = threads[..] else { return Err(Error::Fillers("one of them is not in its group".into())) };
    Ok(host::sched::turns_of(thread)?)
}
