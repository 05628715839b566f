//! Watching a run: cumulative counters in, the worst interval out.
//!
//! The engine takes a [`Snapshot`] at t = 0, every virtual second, and at the end. Every counter in it only grows;
//! what is judged is its growth over an interval. There are two kinds of interval, because the counters differ in how
//! finely the kernel keeps them:
//!
//! - a node's CPU is judged by *virtual second*, as the design asks;
//! - foreign load and steal by windows of at least [`WINDOW`] of real time: the kernel books a running task's time at
//!   its 4 ms tick, steal in ticks of 10 ms, and a task's waiting only when it gets its turn, which beside a run may take
//!   a second.
//!
//! Only the worst is kept, so a long run needs no more memory than a short one.

use scale::{RealDuration, RealInstant, Tdf, VirtualInstant};

use crate::observe::{CoreTicks, TcpCounters};

/// The least real time over which foreign load and steal are judged (less if the whole run is shorter).
pub const WINDOW: RealDuration = RealDuration::from_nanos(10_000_000_000);
/// Over less than this, what one thread wanted is not judged.
const LEAST_WANT: RealDuration = RealDuration::from_nanos(4_000_000_000);
/// What is shorter than this says nothing.
const LEAST: RealDuration = RealDuration::from_nanos(500_000_000);
/// A snapshot for a virtual second may come this much early, in ns.
const EARLY: u64 = 50_000_000;
/// A node always wanted CPU if its filler got at most this part of its share. A filler whose node never sleeps
/// still gets 0.3 %.
const FILLER_REST: f64 = 0.01;

/// Everything that is counted, at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When.
    pub at: RealInstant,
    /// In the order of [`Watch::new`].
    pub nodes: Vec<NodeCounters>,
    /// By core number.
    pub cores: Vec<CoreCounters>,
    /// The threads that are not the run's; empty if they were not looked at this time.
    pub strangers: Vec<Stranger>,
}

/// One node, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounters {
    /// When its CPU counters were read.
    pub at: RealInstant,
    /// CPU time of its programs, ns.
    pub container_ns: u64,
    /// CPU time that its filler burnt in its place, ns.
    pub filler_ns: u64,
    /// Its namespace's TCP; `None` if it could not be read this time.
    pub tcp: Option<TcpCounters>,
    /// Frames that the emulator never saw, had no memory for or could not hand over, over all its interfaces.
    pub ring_drops: u64,
    /// Of these, those for which it had no memory.
    pub no_memory: u64,
}

impl NodeCounters {
    /// The CPU that a node with this share was entitled to since `before`, and what its programs used; ns.
    fn cpu_since(&self, before: &NodeCounters, share: f64) -> (f64, f64) {
        let entitled = share * self.at.since(before.at).as_nanos() as f64;
        (entitled, self.used_since(before) as f64)
    }

    /// What its programs used since `before`, ns.
    fn used_since(&self, before: &NodeCounters) -> u64 {
        self.container_ns.saturating_sub(before.container_ns)
    }
}

/// One core, since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreCounters {
    /// CPU time of the run itself on this core: nodes, fillers, emulator, engine; ns.
    pub run_ns: u64,
    /// CPU time of everything on this core, ns.
    pub all_ns: u64,
    /// Its line of `/proc/stat`.
    pub ticks: CoreTicks,
}

/// A thread of a process that is not the run's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stranger {
    /// Its process.
    pub pid: u32,
    /// The thread itself.
    pub tid: u32,
    /// Its name as `ps` shows it.
    pub name: String,
    /// The core it was last on.
    pub core: usize,
    /// Its CPU time, ns.
    pub ns: u64,
    /// The time for which it was ready to run and did not, ns.
    pub waited_ns: u64,
}

/// The worst interval of one quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    /// The quantity there.
    pub value: f64,
    /// Which node or process it was, if one can be named.
    pub whose: Option<String>,
    /// When the interval began.
    pub from: VirtualInstant,
    /// When it ended.
    pub to: VirtualInstant,
}

/// What the counters of one node's TCP grew by during the run.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeTcp {
    /// The node.
    pub node: String,
    /// By how much each counter grew; `waiting` is how often a waiting sender was met.
    pub grew: TcpCounters,
    /// When a waiting sender was first met.
    pub first_waiting: Option<VirtualInstant>,
    /// When a SYN was first sent again or a connection first given up.
    pub first_hard: Option<VirtualInstant>,
}

/// What was seen over the whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// CPU of a node that always wanted it, in per cent of its entitlement: the interval furthest from 100. `None` if
    /// no node wanted its CPU for a whole interval.
    pub entitlement: Option<Worst>,
    /// In how many virtual seconds of how many nodes CPU was always wanted.
    pub entitled_intervals: usize,
    /// CPU that a node used over the whole run, per cent of its entitlement: the most of any.
    pub busiest: Option<Worst>,
    /// CPU time that each node's programs used over the whole run, in the order of [`Watch::new`].
    pub used: Vec<RealDuration>,
    /// Others' use of the nodes' core, per cent of the core.
    pub foreign_nodes: Option<Worst>,
    /// The time for which one thread of others had the nodes' core or waited for it, per cent. `None` if the kernel does
    /// not tell or the run was too short.
    pub wanted_nodes: Option<Worst>,
    /// Others' use of the harness core, per cent of the core.
    pub foreign_harness: Option<Worst>,
    /// Time that the hypervisor took from either core, per cent.
    pub steal: Option<Worst>,
    /// Frames lost between a node and the emulator: how many in all, of which node and when first.
    pub ring_drops: u64,
    /// How many of them because the emulator had no memory left.
    pub no_memory: u64,
    /// The first of them.
    pub first_ring_drop: Option<Worst>,
    /// When most of them were lost, of all nodes together.
    pub most_ring_drops: Option<Worst>,
    /// TCP, by node.
    pub tcp: Vec<NodeTcp>,
}

impl Seen {
    /// The node that needed its CPU most, and which part of it it used: one that always wanted it, or else the busiest.
    pub fn hungriest(&self) -> Option<(&str, f64)> {
        let (node, used) = match (&self.entitlement, &self.busiest) {
            (Some(saturated), _) => (saturated, 1.0),
            (None, busiest) => busiest.as_ref().map(|b| (b, (b.value / 100.0).min(1.0)))?,
        };
        Some((node.whose.as_deref()?, used))
    }
}

/// The strangers at one instant.
#[derive(Clone, Debug, Default)]
struct Look {
    at: RealInstant,
    strangers: Vec<Stranger>,
}

/// The run's observer.
#[derive(Clone, Debug)]
pub struct Watch {
    tdf: Tdf,
    zero: RealInstant,
    nodes: Vec<(String, f64)>,
    nodes_core: usize,
    harness_core: usize,
    first: Option<Snapshot>,
    last: Snapshot,
    second: Snapshot,
    window: Snapshot,
    looks: [Look; 2],
    tcp: Vec<Option<TcpCounters>>,
    seen: Seen,
}

impl Watch {
    /// `nodes` are names and shares: the fraction of a real core each is entitled to.
    pub fn new(
        tdf: Tdf,
        zero: RealInstant,
        nodes: Vec<(String, f64)>,
        nodes_core: usize,
        harness_core: usize,
    ) -> Watch {
        let tcp = nodes.iter().map(|(node, _)| NodeTcp {
            node: node.clone(),
            grew: TcpCounters::default(),
            first_hard: None,
            first_waiting: None,
        });
        Watch {
            tdf,
            zero,
            nodes_core,
            harness_core,
            first: None,
            last: Snapshot::default(),
            second: Snapshot::default(),
            window: Snapshot::default(),
            looks: Default::default(),
            tcp: vec![None; nodes.len()],
            seen: Seen { tcp: tcp.collect(), ..Seen::default() },
            nodes,
        }
    }

    /// Takes the next snapshot. The first is the one to which growth is related.
    pub fn push(&mut self, snapshot: Snapshot) {
        if !snapshot.strangers.is_empty() {
            let look = Look { at: snapshot.at, strangers: snapshot.strangers.clone() };
            if self.looks[0].strangers.is_empty() {
                self.looks[0] = look.clone();
            }
            self.looks[1] = look;
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

    /// What was seen. A rest at the end that is shorter than half a window is left out, unless it is all there is.
    pub fn finish(mut self) -> Seen {
        self.seen.busiest = self.busiest();
        self.seen.used = self.used();
        let last = std::mem::take(&mut self.last);
        let rest = last.at.since(self.window.at);
        let enough = if self.seen.foreign_nodes.is_some() { WINDOW.as_nanos() / 2 } else { LEAST.as_nanos() };
        if self.first.is_some() && rest.as_nanos() >= enough {
            self.judge_window(&last);
        }
        self.seen
    }

    fn busiest(&self) -> Option<Worst> {
        let (first, last) = (self.first.as_ref()?, &self.last);
        let (from, to) = (self.at(first.at), self.at(last.at));
        let uses =
            self.nodes.iter().zip(&first.nodes).zip(&last.nodes).filter_map(|(((name, share), before), after)| {
                let (entitled, used) = after.cpu_since(before, *share);
                (entitled > 0.0).then(|| Worst { value: 100.0 * used / entitled, whose: Some(name.clone()), from, to })
            });
        uses.max_by(|a, b| a.value.total_cmp(&b.value))
    }

    fn used(&self) -> Vec<RealDuration> {
        let Some(first) = &self.first else { return Vec::new() };
        let nodes = first.nodes.iter().zip(&self.last.nodes);
        nodes.map(|(before, after)| RealDuration::from_nanos(after.used_since(before))).collect()
    }

    fn at(&self, real: RealInstant) -> VirtualInstant {
        VirtualInstant::ZERO + self.tdf.to_virtual(real.since(self.zero))
    }

    fn judge_second(&mut self, now: &Snapshot) {
        for (((name, share), before), after) in self.nodes.iter().zip(&self.second.nodes).zip(&now.nodes) {
            let (entitled, used) = after.cpu_since(before, *share);
            let left = after.filler_ns.saturating_sub(before.filler_ns) as f64;
            if entitled <= 0.0 || used <= 0.0 || left > entitled * FILLER_REST {
                continue;
            }
            self.seen.entitled_intervals += 1;
            let value = 100.0 * used / entitled;
            // The limits are 97 and 101: three per cent too little are as bad as one too much.
            let badness = |v: f64| if v < 100.0 { (100.0 - v) / 3.0 } else { v - 100.0 };
            if self.seen.entitlement.as_ref().is_none_or(|w| badness(value) > badness(w.value)) {
                let (from, to) = (self.at(before.at), self.at(after.at));
                self.seen.entitlement = Some(Worst { value, whose: Some(name.clone()), from, to });
            }
        }
    }

    fn judge_window(&mut self, now: &Snapshot) {
        let (from, to) = (self.at(self.window.at), self.at(now.at));
        let real = now.at.since(self.window.at).as_nanos() as f64;
        let foreign = |core: usize| {
            let (before, after) = (self.window.cores.get(core)?, now.cores.get(core)?);
            let all = after.all_ns.saturating_sub(before.all_ns);
            let run = after.run_ns.saturating_sub(before.run_ns);
            let value = 100.0 * all.saturating_sub(run) as f64 / real;
            Some(Worst { value, whose: self.busiest_stranger(core), from, to })
        };
        let steal = |core: usize| {
            let (before, after) = (self.window.cores.get(core)?.ticks, now.cores.get(core)?.ticks);
            let total = after.total.saturating_sub(before.total);
            let stolen = after.steal.saturating_sub(before.steal);
            (total > 0).then(|| Worst {
                value: 100.0 * stolen as f64 / total as f64,
                whose: Some(format!("core {core}")),
                from,
                to,
            })
        };
        let (on_nodes, on_harness) = (foreign(self.nodes_core), foreign(self.harness_core));
        let stolen = [steal(self.nodes_core), steal(self.harness_core)];
        let wanted = self.most_wanting(self.nodes_core, from, to);
        keep_worse(&mut self.seen.wanted_nodes, wanted);
        keep_worse(&mut self.seen.foreign_nodes, on_nodes);
        keep_worse(&mut self.seen.foreign_harness, on_harness);
        stolen.into_iter().for_each(|steal| keep_worse(&mut self.seen.steal, steal));
        self.looks.swap(0, 1);
        self.looks[1] = Look::default();
    }

    /// The thread on `core` that used most CPU in the window.
    fn busiest_stranger(&self, core: usize) -> Option<String> {
        let (busiest, grew, _) = self.strangers_of(core).max_by_key(|(_, grew, _)| *grew)?;
        (grew > 0).then(|| named(busiest))
    }

    /// The thread that for the largest part of the window had `core` or waited for it.
    fn most_wanting(&self, core: usize, from: VirtualInstant, to: VirtualInstant) -> Option<Worst> {
        let [before, after] = &self.looks;
        let real = after.at.since(before.at);
        if after.strangers.is_empty() || real < LEAST_WANT {
            return None;
        }
        let most =
            self.strangers_of(core).map(|(s, grew, waited)| (s, grew + waited)).max_by_key(|(_, wanted)| *wanted);
        let (whose, wanted) = most.map_or((None, 0), |(s, wanted)| (Some(named(s)), wanted));
        // A wait is booked at its end, so one that began before the window can make it look longer than it was.
        Some(Worst { value: (100.0 * wanted as f64 / real.as_nanos() as f64).min(100.0), whose, from, to })
    }

    /// Those that were on `core` at both ends of the window, or came during it, with their CPU and their waiting in it.
    fn strangers_of(&self, core: usize) -> impl Iterator<Item = (&Stranger, u64, u64)> {
        let [before, after] = &self.looks;
        after.strangers.iter().filter(move |s| s.core == core).filter_map(move |s| {
            let earlier = before.strangers.iter().find(|b| b.tid == s.tid);
            match earlier {
                Some(b) if b.core != core => None,
                Some(b) => Some((s, s.ns.saturating_sub(b.ns), s.waited_ns.saturating_sub(b.waited_ns))),
                None => Some((s, s.ns, s.waited_ns)),
            }
        })
    }

    fn count_tcp(&mut self, now: &Snapshot) {
        let at = self.at(now.at);
        for ((seen, before), node) in self.seen.tcp.iter_mut().zip(&mut self.tcp).zip(&now.nodes) {
            let Some(tcp) = node.tcp else { continue };
            // A namespace that could not be read at t = 0 counts from nothing: namespaces are made for the run.
            let b = before.unwrap_or_default();
            let g = &mut seen.grew;
            let hard = tcp.syn_retrans.saturating_sub(b.syn_retrans) + tcp.aborts.saturating_sub(b.aborts);
            if hard > 0 && seen.first_hard.is_none() {
                seen.first_hard = Some(at);
            }
            g.in_segs += tcp.in_segs.saturating_sub(b.in_segs);
            g.delayed_acks += tcp.delayed_acks.saturating_sub(b.delayed_acks);
            g.loss_probes += tcp.loss_probes.saturating_sub(b.loss_probes);
            g.syn_retrans += tcp.syn_retrans.saturating_sub(b.syn_retrans);
            g.timeouts += tcp.timeouts.saturating_sub(b.timeouts);
            g.aborts += tcp.aborts.saturating_sub(b.aborts);
            if let Some(waiting) = tcp.waiting {
                *g.waiting.get_or_insert(0) += waiting;
                if waiting > 0 && seen.first_waiting.is_none() {
                    seen.first_waiting = Some(at);
                }
            }
            *before = Some(tcp);
        }
    }

    fn count_drops(&mut self, now: &Snapshot) {
        let (from, to) = (self.at(self.last.at), self.at(now.at));
        let before = self.seen.ring_drops;
        for (((name, _), before), after) in self.nodes.iter().zip(&self.last.nodes).zip(&now.nodes) {
            let dropped = after.ring_drops.saturating_sub(before.ring_drops);
            self.seen.ring_drops += dropped;
            self.seen.no_memory += after.no_memory.saturating_sub(before.no_memory);
            if dropped > 0 && self.seen.first_ring_drop.is_none() {
                let whose = Some(name.clone());
                self.seen.first_ring_drop = Some(Worst { value: dropped as f64, whose, from, to });
            }
        }
        let dropped = self.seen.ring_drops - before;
        let worst = (dropped > 0).then_some(Worst { value: dropped as f64, whose: None, from, to });
        keep_worse(&mut self.seen.most_ring_drops, worst);
    }
}

fn named(s: &Stranger) -> String {
    format!("{} (process {})", s.name, s.pid)
}

fn keep_worse(worst: &mut Option<Worst>, candidate: Option<Worst>) {
    if let Some(candidate) = candidate
        && worst.as_ref().is_none_or(|w| candidate.value > w.value)
    {
        *worst = Some(candidate);
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
