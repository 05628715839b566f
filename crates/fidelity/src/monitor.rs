//! Cumulative counters in, the worst interval out.
//!
//! The engine takes a [`Snapshot`] at t = 0, every virtual second, and at the end. Every counter in it only grows;
//! what is judged is its growth over an interval. There are two kinds of interval, because the counters differ in how
//! finely the kernel keeps them:
//!
//! - a node's CPU is judged by *virtual second*;
//! - foreign load and steal by windows of at least [`WINDOW`] of real time: the kernel books a running task's time at
//!   its 4 ms tick, steal in ticks of 10 ms, and a task's waiting only when it gets the core, which beside a run may
//!   take a second.
//!
//! Only the worst is kept, so a long run needs no more memory than a short one. Why it is so, and what the limits are,
//! is in `docs/fidelity.md`.

use std::collections::BTreeSet;

use scale::{RealDuration, RealInstant, Tdf, VirtualInstant};

use crate::counters::{ForeignThread, Snapshot, TcpCounters};
use crate::observations::{Entitled, NodeCpu, NodeTcp, Observations, Occurrence, Parallelism, Spinning};

/// The least real time over which foreign load and steal are judged (less if the whole run is shorter).
pub const WINDOW: RealDuration = RealDuration::from_nanos(10_000_000_000);
/// Over less than this, what one thread wanted is not judged.
const LEAST_WANT: RealDuration = RealDuration::from_nanos(4_000_000_000);
/// Anything shorter than this says nothing.
const LEAST: RealDuration = RealDuration::from_nanos(500_000_000);
/// A snapshot for a virtual second may come this much early, in ns.
const EARLY: u64 = 50_000_000;
/// So many looks one after the other may be chance, in a whole run.
const LEAST_LOOKS: u64 = 100;
/// A node always wanted CPU if at most this part of its share was left unused.
const UNUSED_REST: f64 = 0.01;

/// The threads of others at one instant.
#[derive(Clone, Debug, Default)]
struct Listing {
    at: RealInstant,
    threads: Vec<ForeignThread>,
}

/// The CPU that nodes were due and got, in the virtual seconds of theirs that count.
#[derive(Clone, Debug)]
struct Account {
    /// By node, what it was due in all of them together, and what it got; ns.
    by_node: Vec<(f64, f64)>,
    /// How many there were, of all nodes.
    seconds: usize,
    /// The one in which a node was furthest from having got what it was due, in per cent.
    worst: Option<Occurrence>,
}

impl Account {
    fn new(nodes: usize) -> Account {
        Account { by_node: vec![(0.0, 0.0); nodes], seconds: 0, worst: None }
    }

    /// Adds a second of a node; whether it is the worst so far.
    fn add(&mut self, node: usize, (due, got): (f64, f64), second: Occurrence) -> bool {
        let all = &mut self.by_node[node];
        *all = (all.0 + due, all.1 + got);
        self.seconds += 1;
        let is_worst = self.worst.as_ref().is_none_or(|worst| off(&second) > off(worst));
        if is_worst {
            self.worst = Some(second);
        }
        is_worst
    }
}

/// How far what was got is from what was due, in per cent.
fn off(of: &Occurrence) -> f64 {
    (of.value - 100.0).abs()
}

/// Follows the counters of one run.
#[derive(Clone, Debug)]
pub struct Monitor {
    tdf: Tdf,
    zero: RealInstant,
    /// The virtual time at `zero`.
    from: VirtualInstant,
    nodes: Vec<Entitled>,
    /// Those that hold nodes, each once.
    nodes_cores: Vec<usize>,
    harness_cores: Vec<usize>,
    first: Option<Snapshot>,
    last: Snapshot,
    second: Snapshot,
    window: Snapshot,
    listings: [Listing; 2],
    tcp: Vec<Option<TcpCounters>>,
    /// The CPU that nodes were entitled to, in seconds in which they always wanted it.
    saturated: Account,
    /// The CPU that threads of nodes with several CPUs wanted, in seconds in which the node never slept.
    awake: Account,
    /// How many CPUs they wanted on average in the worst of these, and how many the node has.
    wanted: (f64, u32),
    observed: Observations,
}

impl Monitor {
    /// For these nodes, all of the run, and a harness that has these cores.
    pub fn new(tdf: Tdf, zero: RealInstant, nodes: Vec<Entitled>, harness_cores: Vec<usize>) -> Monitor {
        let tcp = nodes.iter().map(|n| NodeTcp {
            node: n.node.clone(),
            grew: TcpCounters::default(),
            first_hard: None,
            first_waiting: None,
        });
        let nodes_cores: Vec<usize> = nodes.iter().map(|n| n.core).collect::<BTreeSet<_>>().into_iter().collect();
        let observed = Observations { tcp: tcp.collect(), nodes_cores: nodes_cores.len(), ..Observations::default() };
        Monitor {
            tdf,
            zero,
            from: VirtualInstant::ZERO,
            nodes_cores,
            harness_cores,
            first: None,
            last: Snapshot::default(),
            second: Snapshot::default(),
            window: Snapshot::default(),
            listings: Default::default(),
            tcp: vec![None; nodes.len()],
            saturated: Account::new(nodes.len()),
            awake: Account::new(nodes.len()),
            wanted: (0.0, 0),
            observed,
            nodes,
        }
    }

    /// Likewise, where `zero` is not virtual zero but this instant: the run goes on with an earlier one.
    pub fn from(self, from: VirtualInstant) -> Monitor {
        Monitor { from, ..self }
    }

    /// Takes the next snapshot. The first is the one to which growth is related.
    pub fn push(&mut self, snapshot: Snapshot) {
        if !snapshot.foreign.is_empty() {
            let listing = Listing { at: snapshot.at, threads: snapshot.foreign.clone() };
            if self.listings[0].threads.is_empty() {
                self.listings[0] = listing.clone();
            }
            self.listings[1] = listing;
        }
        if self.first.is_none() {
            self.tcp = snapshot.nodes.iter().map(|n| n.tcp).collect();
            (self.second, self.window, self.last) = (snapshot.clone(), snapshot.clone(), snapshot.clone());
            self.first = Some(snapshot);
            return;
        }
        self.count_tcp(&snapshot);
        self.count_drops(&snapshot);
        if self.at(snapshot.at).since(self.at(self.second.at)).as_nanos() + EARLY >= 1_000_000_000 {
            if snapshot.at.since(self.second.at) >= LEAST {
                self.judge_second(&snapshot);
            }
            self.second = snapshot.clone();
        }
        if snapshot.at.since(self.window.at) >= WINDOW {
            self.judge_window(&snapshot);
            self.window = snapshot.clone();
        }
        self.last = snapshot;
    }

    /// The observations. A rest at the end that is shorter than half a window is left out, unless it is all there is.
    pub fn finish(mut self) -> Observations {
        self.observed.nodes = self.cpu_of_nodes();
        self.observed.spinning = self.furthest_ahead();
        self.observed.entitled = self.furthest(&self.saturated);
        self.observed.entitled_intervals = self.saturated.seconds;
        let all = self.furthest(&self.awake);
        self.observed.parallelism = self.awake.worst.take().map(|worst| Parallelism {
            all: all.unwrap_or_else(|| worst.clone()),
            worst,
            wanted: self.wanted,
            seconds: self.awake.seconds,
        });
        self.observed.entitlement = self.saturated.worst.take();
        if let Some(first) = &self.first {
            self.observed.lasted = self.at(self.last.at).since(self.at(first.at));
            if self.last.at.since(first.at) >= LEAST {
                let most = |of: fn(&[usize], &Snapshot, &Snapshot) -> Option<f64>| {
                    let each = self.nodes_cores.iter().filter_map(|core| of(&[*core], first, &self.last));
                    each.max_by(f64::total_cmp)
                };
                self.observed.foreign_nodes_percent = most(foreign);
                self.observed.stolen_nodes_percent = most(stolen);
            }
        }
        let last = std::mem::take(&mut self.last);
        let rest = last.at.since(self.window.at);
        let enough = if self.observed.foreign_nodes.is_some() { WINDOW.as_nanos() / 2 } else { LEAST.as_nanos() };
        if self.first.is_some() && rest.as_nanos() >= enough {
            self.judge_window(&last);
        }
        self.observed
    }

    fn cpu_of_nodes(&self) -> Vec<NodeCpu> {
        let Some(first) = &self.first else { return Vec::new() };
        let nodes = self.nodes.iter().zip(&first.nodes).zip(&self.last.nodes);
        let of = nodes.map(|((Entitled { node, core, share, .. }, before), after)| {
            let pace = self.last.pace_since(first, *core);
            let (entitled, used) = after.cpu_since(before, *share * pace);
            let busy = if entitled > 0.0 { (used / entitled).min(1.0) } else { 0.0 };
            let used = RealDuration::from_nanos(after.used_since(before));
            NodeCpu { node: node.clone(), core: *core, share: *share, busy, used }
        });
        of.collect()
    }

    fn furthest_ahead(&self) -> Option<Spinning> {
        let first = self.first.as_ref()?;
        let nodes = self.nodes.iter().zip(&first.nodes).zip(&self.last.nodes);
        let spun = nodes.filter_map(|((Entitled { node, .. }, before), after)| {
            let looks = after.empty_looks.count.saturating_sub(before.empty_looks.count);
            let ahead_ns = after.empty_looks.ahead_ns.saturating_sub(before.empty_looks.ahead_ns);
            let spun = looks >= LEAST_LOOKS && ahead_ns > 0;
            let ahead = RealDuration::from_nanos(ahead_ns / looks.max(1));
            spun.then(|| Spinning { node: node.clone(), looks, ahead })
        });
        spun.max_by_key(|spinning| spinning.ahead)
    }

    /// The node that over all seconds of an account is furthest from having got what it was due, in per cent.
    fn furthest(&self, account: &Account) -> Option<Occurrence> {
        let (from, to) = (self.at(self.first.as_ref()?.at), self.at(self.last.at));
        let all = self.nodes.iter().zip(&account.by_node).filter(|(_, (due, _))| *due > 0.0);
        let all =
            all.map(|(of, (due, got))| Occurrence { value: 100.0 * got / due, whose: Some(of.node.clone()), from, to });
        all.max_by(|a, b| off(a).total_cmp(&off(b)))
    }

    fn at(&self, real: RealInstant) -> VirtualInstant {
        self.from + self.tdf.to_virtual(real.since(self.zero))
    }

    fn judge_second(&mut self, now: &Snapshot) {
        let at = |real: RealInstant| self.from + self.tdf.to_virtual(real.since(self.zero));
        let nodes = self.nodes.iter().zip(&self.second.nodes).zip(&now.nodes);
        for (n, ((Entitled { node, core, share, cpus }, before), after)) in nodes.enumerate() {
            let missed = after.uncounted.saturating_sub(before.uncounted);
            if *cpus > 1 && missed > 0 {
                let (earlier, _) = self.observed.uncounted.take().unwrap_or_default();
                self.observed.uncounted = Some((earlier + missed, node.clone()));
            }
            let (entitled, used) = after.cpu_since(before, *share * now.pace_since(&self.second, *core));
            if entitled <= 0.0 || used <= 0.0 {
                continue;
            }
            let second = |due: f64| Occurrence {
                value: 100.0 * used / due,
                whose: Some(node.clone()),
                from: at(before.at),
                to: at(after.at),
            };
            let left = after.unused_ns.saturating_sub(before.unused_ns) as f64;
            if left <= entitled * UNUSED_REST {
                self.saturated.add(n, (entitled, used), second(entitled));
            }
            let passed = after.at.since(before.at).as_nanos() as f64;
            let slept = after.slept_ns.saturating_sub(before.slept_ns) as f64;
            if *cpus > 1 && slept <= passed * UNUSED_REST {
                let wanted = 1.0 - left / (share * passed);
                let due = wanted * entitled;
                if self.awake.add(n, (due, used), second(due)) {
                    self.wanted = (wanted * f64::from(*cpus), *cpus);
                }
            }
        }
    }

    fn judge_window(&mut self, now: &Snapshot) {
        let (from, to) = (self.at(self.window.at), self.at(now.at));
        let on = |cores: &[usize]| {
            let value = foreign(cores, &self.window, now)?;
            Some(Occurrence { value, whose: self.busiest_foreign_thread(cores), from, to })
        };
        let steal = |core: usize| {
            let value = stolen(&[core], &self.window, now)?;
            Some(Occurrence { value, whose: Some(format!("core {core}")), from, to })
        };
        let on_nodes: Vec<_> = self.nodes_cores.iter().map(|core| self.of_one(on(&[*core]), *core)).collect();
        let wanted = self.nodes_cores.iter().map(|core| self.of_one(self.most_wanting(*core, from, to), *core));
        let wanted: Vec<_> = wanted.collect();
        let on_harness = on(&self.harness_cores);
        let all = self.nodes_cores.iter().chain(&self.harness_cores);
        let stolen: Vec<_> = all.map(|core| steal(*core)).collect();
        wanted.into_iter().for_each(|wanted| keep_worse(&mut self.observed.wanted_nodes, wanted));
        on_nodes.into_iter().for_each(|foreign| keep_worse(&mut self.observed.foreign_nodes, foreign));
        keep_worse(&mut self.observed.foreign_harness, on_harness);
        stolen.into_iter().for_each(|steal| keep_worse(&mut self.observed.steal, steal));
        self.listings.swap(0, 1);
        self.listings[1] = Listing::default();
    }

    /// Says of who was seen on one of several cores on which it was.
    fn of_one(&self, seen: Option<Occurrence>, core: usize) -> Option<Occurrence> {
        let placed = |who: String| if self.nodes_cores.len() > 1 { format!("{who} on core {core}") } else { who };
        seen.map(|seen| Occurrence { whose: seen.whose.map(placed), ..seen })
    }

    /// The thread on these cores that used most CPU in the window.
    fn busiest_foreign_thread(&self, cores: &[usize]) -> Option<String> {
        let all = cores.iter().flat_map(|core| self.foreign_threads_on(*core));
        let (busiest, grew, _) = all.max_by_key(|(_, grew, _)| *grew)?;
        (grew > 0).then(|| named(busiest))
    }

    /// The thread that for the largest part of the window had `core` or waited for it.
    fn most_wanting(&self, core: usize, from: VirtualInstant, to: VirtualInstant) -> Option<Occurrence> {
        let [before, after] = &self.listings;
        let real = after.at.since(before.at);
        if after.threads.is_empty() || real < LEAST_WANT {
            return None;
        }
        let most =
            self.foreign_threads_on(core).map(|(s, grew, waited)| (s, grew + waited)).max_by_key(|(_, wanted)| *wanted);
        let (whose, wanted) = most.map_or((None, 0), |(s, wanted)| (Some(named(s)), wanted));
        // A wait is booked at its end, so one that began before the window can make it look longer than it was.
        Some(Occurrence { value: (100.0 * wanted as f64 / real.as_nanos() as f64).min(100.0), whose, from, to })
    }

    /// Those that were on `core` at both ends of the window, or came during it, with their CPU and their waiting in it.
    fn foreign_threads_on(&self, core: usize) -> impl Iterator<Item = (&ForeignThread, u64, u64)> {
        let [before, after] = &self.listings;
        after.threads.iter().filter(move |s| s.core == core).filter_map(move |s| {
            let earlier = before.threads.iter().find(|b| b.tid == s.tid);
            match earlier {
                Some(b) if b.core != core => None,
                Some(b) => Some((s, s.ns.saturating_sub(b.ns), s.waited_ns.saturating_sub(b.waited_ns))),
                None => Some((s, s.ns, s.waited_ns)),
            }
        })
    }

    fn count_tcp(&mut self, now: &Snapshot) {
        let at = self.at(now.at);
        self.observed.looks += now.looks;
        for ((observed, before), node) in self.observed.tcp.iter_mut().zip(&mut self.tcp).zip(&now.nodes) {
            let Some(tcp) = node.tcp else { continue };
            // A namespace that could not be read at t = 0 counts from nothing: namespaces are made for the run.
            let b = before.unwrap_or_default();
            let g = &mut observed.grew;
            let hard = tcp.syn_retrans.saturating_sub(b.syn_retrans) + tcp.aborts.saturating_sub(b.aborts);
            if hard > 0 && observed.first_hard.is_none() {
                observed.first_hard = Some(at);
            }
            g.in_segs += tcp.in_segs.saturating_sub(b.in_segs);
            g.delayed_acks += tcp.delayed_acks.saturating_sub(b.delayed_acks);
            g.loss_probes += tcp.loss_probes.saturating_sub(b.loss_probes);
            g.syn_retrans += tcp.syn_retrans.saturating_sub(b.syn_retrans);
            g.timeouts += tcp.timeouts.saturating_sub(b.timeouts);
            g.aborts += tcp.aborts.saturating_sub(b.aborts);
            if let Some(waiting) = tcp.waiting {
                *g.waiting.get_or_insert(0) += waiting;
                if waiting > 0 && observed.first_waiting.is_none() {
                    observed.first_waiting = Some(at);
                }
            }
            *before = Some(tcp);
        }
    }

    fn count_drops(&mut self, now: &Snapshot) {
        let (from, to) = (self.at(self.last.at), self.at(now.at));
        let before = self.observed.ring_drops;
        for ((Entitled { node: name, .. }, before), after) in self.nodes.iter().zip(&self.last.nodes).zip(&now.nodes) {
            let dropped = after.ring_drops.saturating_sub(before.ring_drops);
            self.observed.ring_drops += dropped;
            self.observed.no_memory += after.no_memory.saturating_sub(before.no_memory);
            if dropped > 0 && self.observed.first_ring_drop.is_none() {
                let whose = Some(name.clone());
                self.observed.first_ring_drop = Some(Occurrence { value: dropped as f64, whose, from, to });
            }
        }
        let dropped = self.observed.ring_drops - before;
        let worst = (dropped > 0).then_some(Occurrence { value: dropped as f64, whose: None, from, to });
        keep_worse(&mut self.observed.most_ring_drops, worst);
    }
}

/// The use of cores by others between two snapshots, per cent of them. Together, since what the run's own process used
/// is known of all of them together only.
fn foreign(cores: &[usize], before: &Snapshot, after: &Snapshot) -> Option<f64> {
    let real = after.at.since(before.at).as_nanos() as f64 * cores.len() as f64;
    let (mut all, mut run) = (0, 0);
    for core in cores {
        let (before, after) = (before.cores.get(*core)?, after.cores.get(*core)?);
        all += after.all_ns.saturating_sub(before.all_ns);
        run += after.run_ns.saturating_sub(before.run_ns);
    }
    (real > 0.0).then(|| 100.0 * all.saturating_sub(run) as f64 / real)
}

/// The use of cores by the hypervisor between two snapshots, per cent of them.
fn stolen(cores: &[usize], before: &Snapshot, after: &Snapshot) -> Option<f64> {
    let (mut total, mut steal) = (0, 0);
    for core in cores {
        let (before, after) = (before.cores.get(*core)?.ticks, after.cores.get(*core)?.ticks);
        total += after.total.saturating_sub(before.total);
        steal += after.steal.saturating_sub(before.steal);
    }
    (total > 0).then(|| 100.0 * steal as f64 / total as f64)
}

fn named(s: &ForeignThread) -> String {
    format!("{} (process {})", s.name, s.pid)
}

fn keep_worse(worst: &mut Option<Occurrence>, candidate: Option<Occurrence>) {
    if let Some(candidate) = candidate
        && worst.as_ref().is_none_or(|w| candidate.value > w.value)
    {
        *worst = Some(candidate);
    }
}

#[cfg(test)]
#[path = "monitor_tests.rs"]
mod tests;
