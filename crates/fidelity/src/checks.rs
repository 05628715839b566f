//! One function per promise of the design's paragraph on fidelity: what was seen goes in, a [`Check`] comes out.
//!
//! Why each limit is what it is, and what to do about a breach, is in `docs/fidelity.md`.

use hdrhistogram::Histogram;
use record::{Check, Fidelity};
use scale::{RealDuration, Tdf, VirtualDuration, VirtualInstant};

use crate::overload::{self, Load};
use crate::verdict::conclude;
use crate::watch::{NodeTcp, Seen, Worst};

/// Emulator lateness that is always good enough.
pub const LATENESS: VirtualDuration = VirtualDuration::from_nanos(100_000);
/// Emulator lateness as a part of the shortest path's delay, where that is more.
pub const LATENESS_OF_PATH: f64 = 0.01;
/// How far a node's clock may be off.
pub const CLOCK_PPM: f64 = 100.0;
/// CPU that a node must get, per cent of its entitlement.
pub const ENTITLEMENT: std::ops::RangeInclusive<f64> = 97.0..=101.0;
/// How long a turn on the nodes' core may last, real ms: three times what is asked for, and twice what quiet machines show.
pub const GRAIN: f64 = 0.3;
/// Time that the hypervisor may take, per cent.
pub const STEAL: f64 = 1.0;
/// Others' use of the nodes' core, per cent of it: what one ordinary process can get beside a run.
pub const FOREIGN_NODES: f64 = 1.0;
/// The time for which one thread of others may have or want the nodes' core, per cent.
pub const WANTED_NODES: f64 = 80.0;
/// Others' use of the harness core, per cent of it.
pub const FOREIGN_HARNESS: f64 = 20.0;
/// Loss probes, and delayed acknowledgements where it is not known whether somebody waits for them, per cent of the
/// segments that a node received.
pub const SOFT_TIMERS: f64 = 10.0;
/// So many of them are never a breach.
pub const SOFT_TIMERS_FREE: u64 = 2;
/// A sender that waits for an acknowledgement may be met so often: one wait for a round trip is everyone's.
pub const WAITING_FREE: u64 = 1;
/// What a line of memory may cost after a virtual millisecond, ns, if a node always wanted its CPU: more than it costs from the
/// third-level cache of any server.
pub const LINE_SATURATED: f64 = 30.0;
/// The same if none did: most of what it costs from main memory. Up to 40 a web server that is half busy had the right latencies; from
/// 82 on they were a fifth longer.
pub const LINE: f64 = 60.0;
/// The part of its CPU below which it makes no difference to a node what its work costs.
pub const LITTLE: f64 = 0.1;

/// Everything that a run has to say about itself at its end.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// Real over virtual time.
    pub tdf: Tdf,
    /// How late each frame was delivered, real ns.
    pub lateness: &'a Histogram<u64>,
    /// How long each frame may have waited before the emulator saw it, real ns.
    pub unseen: &'a Histogram<u64>,
    /// When lateness was worst, and the 99.9th percentile then, if the emulator can tell.
    pub latest: Option<(VirtualInstant, RealDuration)>,
    /// The least delay from one node to another.
    pub shortest_path: Option<VirtualDuration>,
    /// How fast the nodes' clocks run.
    pub clock: ClockRate,
    /// How the nodes' CPU was limited.
    pub grain: Grain,
    /// What it costs on the nodes' core to come back to data, if that was measured.
    pub caches: Option<Caches>,
    /// How busy the emulator was, interval by interval.
    pub loads: &'a [Load],
    /// Which of TCP's time-outs were scaled in every node.
    pub scaled: ScaledTimers,
    /// What the watch saw.
    pub seen: &'a Seen,
}

/// What is known of the clocks inside the nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum ClockRate {
    /// The run was not dilated: nodes read the host's own clock.
    Native,
    /// Measured inside a node: how far off its rate was, in parts per million, and in which node it was furthest off.
    Measured {
        /// Signed: positive is fast.
        ppm: f64,
        /// Where.
        node: String,
    },
    /// Not measured, and why.
    Unknown(String),
}

/// Which of TCP's time-outs passed as fast as they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaledTimers {
    /// The least retransmission time-out.
    pub rto_min: bool,
    /// That of a connection that has not measured a round trip.
    pub initial_rto: bool,
}

/// How the nodes' CPU was limited.
#[derive(Clone, Debug, PartialEq)]
pub enum Grain {
    /// Always-runnable groups, and how long a turn lasted when that was measured.
    Slots(Option<RealDuration>),
    /// CFS quota, and why not slots.
    Quota(String),
    /// One cap for all, on purpose: the naive variant.
    Pool,
}

/// What it costs to come back to data after some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// Mean time to fetch a line of memory that was touched 1 ms ago.
    pub soon: RealDuration,
    /// How long ago other lines were touched: a virtual millisecond, or the longest that makes a difference.
    pub away: RealDuration,
    /// Mean time to fetch one of those.
    pub late: RealDuration,
}

/// All checks, in the order in which they are recorded, and the verdict.
pub fn judge(e: &Evidence) -> Fidelity {
    let mut checks = vec![
        emulator_lateness(e.lateness, e.unseen, e.latest, e.shortest_path, e.tdf),
        ring_drops(e.seen.ring_drops, e.seen.no_memory, e.seen.first_ring_drop.as_ref()),
        clock_rate(&e.clock),
        cpu_entitlement(&e.grain, e.seen.entitlement.as_ref(), e.seen.entitled_intervals),
        cpu_grain(&e.grain),
        steal(e.seen.steal.as_ref()),
        foreign_load_nodes(e.seen.foreign_nodes.as_ref(), e.seen.wanted_nodes.as_ref()),
        foreign_load_harness(e.seen.foreign_harness.as_ref()),
        kernel_timers(&e.seen.tcp, e.tdf, e.scaled),
        caches(e.caches.as_ref(), e.seen, e.tdf),
        disk(),
    ];
    // The two by which an emulator that had too much to do shows.
    let (delivered, waited) = bounds_of(e.lateness, e.unseen, e.tdf);
    // When frames waited to be seen is not known.
    let latest = e.latest.filter(|_| delivered >= waited);
    let second = e.tdf.to_virtual(RealDuration::from_nanos(1_000_000_000));
    let late: Vec<_> = latest.iter().map(|(at, _)| (*at, *at + second)).collect();
    overload::explain(&mut checks[0], e.loads, &late);
    // What found no memory would have been lost by a faster emulator, too.
    if e.seen.ring_drops > e.seen.no_memory {
        let lost = [&e.seen.first_ring_drop, &e.seen.most_ring_drops].into_iter().flatten();
        overload::explain(&mut checks[1], e.loads, &lost.map(|w| (w.from, w.to)).collect::<Vec<_>>());
    }
    conclude(checks)
}

/// How late 99.9 % of the frames were delivered at most, and how long 99 % waited before they were seen, in virtual ms.
fn bounds_of(lateness: &Histogram<u64>, unseen: &Histogram<u64>, tdf: Tdf) -> (f64, f64) {
    let within = |part, of: &Histogram<u64>| ms(tdf.to_virtual(RealDuration::from_nanos(of.value_at_quantile(part))));
    (within(0.999, lateness), within(0.99, unseen))
}

/// p99.9 of how late frames were delivered, and p99 of how late they may have been seen, each at most 0.1 virtual ms or 1 % of
/// the shortest path. The second is the less strict because it is a bound: most of what is found after a gap came late in it.
pub fn emulator_lateness(
    lateness: &Histogram<u64>,
    unseen: &Histogram<u64>,
    latest: Option<(VirtualInstant, RealDuration)>,
    shortest_path: Option<VirtualDuration>,
    tdf: Tdf,
) -> Check {
    let (name, unit) = ("emulator-lateness", "virtual ms");
    let of_path = shortest_path.map_or(0.0, |d| LATENESS_OF_PATH * ms(d));
    let limit = ms(LATENESS).max(of_path);
    if lateness.is_empty() {
        return Check { limit: Some(limit), ..unmeasured(name, unit, "No frame passed the emulator.".into()) };
    }
    let (delivered, waited) = bounds_of(lateness, unseen, tdf);
    if waited > delivered {
        let says = format!(
            "99 % of {} frames waited at most {} virtual ms before they were seen.",
            unseen.len(),
            number(waited)
        );
        return at_most(name, waited, limit, unit, says);
    }
    let when = latest.map_or(String::new(), |(at, p999)| {
        format!("; the worst second began at {}, with {} virtual ms", time(at), number(ms(tdf.to_virtual(p999))))
    });
    let says = format!("99.9 % of {} frames were at most {} virtual ms late{when}.", lateness.len(), number(delivered));
    at_most(name, delivered, limit, unit, says)
}

/// No frame may be lost between a node and the emulator: it is no loss of the modelled network. `no_memory` of them were seen, and
/// found the links full of others.
pub fn ring_drops(drops: u64, no_memory: u64, first: Option<&Worst>) -> Check {
    let mut says = match first {
        Some(first) => format!("{drops} frames were lost between nodes and the emulator, the first {}.", place(first)),
        None => "No frame was lost between a node and the emulator.".into(),
    };
    if no_memory > 0 {
        says += &format!(
            " {no_memory} of them, because all links together held as many as the emulator has memory for: limit the bandwidth \
             or the delay of the link that is flooded."
        );
    }
    at_most("ring-drops", drops as f64, 0.0, "frames", says)
}

/// Clocks inside the nodes at most 100 ppm off.
pub fn clock_rate(clock: &ClockRate) -> Check {
    let (name, unit) = ("clock-rate", "ppm");
    match clock {
        ClockRate::Native => {
            at_most(name, 0.0, CLOCK_PPM, unit, "The run was not dilated: its nodes read the host's clock.".into())
        }
        ClockRate::Measured { ppm, node } => {
            let way = if *ppm < 0.0 { "slow" } else { "fast" };
            let says = format!("The clock in {node} ran {} ppm too {way}.", number(ppm.abs()));
            at_most(name, ppm.abs(), CLOCK_PPM, unit, says)
        }
        ClockRate::Unknown(why) => unmeasured(name, unit, format!("The clocks in the nodes were not measured: {why}.")),
    }
}

/// In each virtual second, a node that always wanted CPU got 97–101 % of its entitlement. The recorded limit is the
/// bound on the side where the worst second lies.
pub fn cpu_entitlement(grain: &Grain, worst: Option<&Worst>, intervals: usize) -> Check {
    let (name, unit) = ("cpu-entitlement", "% of entitlement");
    match (grain, worst) {
        (Grain::Pool, _) => unmeasured(
            name,
            unit,
            "Nodes of the naive variant share the core as they can; none is entitled to a part.".into(),
        ),
        (Grain::Quota(_), _) => {
            unmeasured(name, unit, "Under CFS quota it is not known whether a node always wanted its CPU.".into())
        }
        (Grain::Slots(_), None) => unmeasured(
            name,
            unit,
            "No node wanted all of its CPU for a whole virtual second, so none could miss any.".into(),
        ),
        (Grain::Slots(_), Some(worst)) => {
            let (low, high) = (*ENTITLEMENT.start(), *ENTITLEMENT.end());
            let limit = if worst.value < 100.0 { low } else { high };
            let says = format!(
                "Of {intervals} virtual seconds in which a node always wanted CPU, the worst gave it {} % of its \
                 entitlement, {} ({low}–{high} % is right).",
                number(worst.value),
                place(worst)
            );
            let ok = Some(ENTITLEMENT.contains(&worst.value));
            Check { name: name.into(), value: Some(worst.value), limit: Some(limit), unit: unit.into(), ok, says }
        }
    }
}

/// Shares come in slices short enough that a burst of work takes as long, in virtual time, as on the target.
pub fn cpu_grain(grain: &Grain) -> Check {
    let (name, unit) = ("cpu-grain", "real ms");
    match grain {
        Grain::Slots(None) => {
            unmeasured(name, unit, "Nodes took turns, and how long one lasted was not measured.".into())
        }
        Grain::Slots(Some(turn)) => {
            let turn = turn.as_secs_f64() * 1e3;
            at_most(name, turn, GRAIN, unit, format!("Nodes took turns on their core every {} ms.", number(turn)))
        }
        Grain::Quota(why) => at_most(
            name,
            4.0,
            GRAIN,
            unit,
            format!(
                "CPU shares were kept by CFS quota, which lets a burst run unhindered until the next 4 ms tick: {why}."
            ),
        ),
        Grain::Pool => unmeasured(name, unit, "Nodes of the naive variant have no share of their own.".into()),
    }
}

/// Time that the hypervisor gave to someone else.
pub fn steal(worst: Option<&Worst>) -> Check {
    share_of_time("steal", worst, STEAL, "the hypervisor took", "of", "Too short a run to measure steal.")
}

/// Processes that are not the run's, on the nodes' core: how much of it they used, and for how long one of them wanted it.
///
/// A busy loop beside a run gets less of the core than the odd daemon that happens to be there, because the run's groups
/// outweigh it a hundred times. What tells it from them is that it always wants more.
pub fn foreign_load_nodes(used: Option<&Worst>, wanted: Option<&Worst>) -> Check {
    let name = "foreign-load-nodes";
    let by_use = foreign(name, used, FOREIGN_NODES, "nodes' core");
    let Some(wanted) = wanted.filter(|_| by_use.ok != Some(false)) else { return by_use };
    let who = wanted.whose.as_deref().unwrap_or("no thread");
    let used = used.map_or(String::new(), |used| format!("; all together used at most {} % of it", number(used.value)));
    let says = format!(
        "Of all that is not the run's, {who} had or wanted the nodes' core for the longest, {} % of the time, {}{used}.",
        number(wanted.value),
        span(wanted)
    );
    at_most(name, wanted.value, WANTED_NODES, "% of the time", says)
}

/// Processes that are not the run's, on the core of emulator, injector and engine.
pub fn foreign_load_harness(worst: Option<&Worst>) -> Check {
    foreign("foreign-load-harness", worst, FOREIGN_HARNESS, "harness core")
}

fn foreign(name: &str, worst: Option<&Worst>, limit: f64, core: &str) -> Check {
    let Some(worst) = worst else { return unmeasured(name, "% of the core", "Too short a run to measure it.".into()) };
    let who = worst.whose.as_ref().map_or(String::new(), |who| format!(", mostly {who}"));
    let says = format!(
        "Processes that are not the run's used at most {} % of the {core}, {}{who}.",
        number(worst.value),
        span(worst)
    );
    at_most(name, worst.value, limit, "% of the core", says)
}

fn share_of_time(name: &str, worst: Option<&Worst>, limit: f64, did: &str, of: &str, short: &str) -> Check {
    let Some(worst) = worst else { return unmeasured(name, "% of the core", short.into()) };
    let core = worst.whose.as_deref().unwrap_or("a core");
    let says = format!("At most, {did} {} % {of} {core}, {}.", number(worst.value), span(worst));
    at_most(name, worst.value, limit, "% of the core", says)
}

/// Timers of the nodes' TCP that tick in real time and fired.
///
/// *Hard* firings involve a constant that cannot be scaled and change what the program sees: none is allowed. Those
/// are connections given up (the kernel counts `tcp_retries2` in units of a constant 200 ms) and, where the initial
/// time-out of 1 s could not be scaled, SYNs sent again. Where the least time-out itself could not be scaled, every
/// retransmission time-out is hard.
///
/// *Soft* firings only advance a pure acknowledgement (delayed for 40 ms at least) or a probe (2 ticks at least). Probes
/// are bounded in relation to what the node received. A delayed acknowledgement matters where a sender waits for it, so
/// the run is looked through for such senders; two meetings, in a run in which acknowledgements were delayed, are too
/// many. Where the kernel does not list sockets, delayed acknowledgements are bounded like probes.
pub fn kernel_timers(nodes: &[NodeTcp], tdf: Tdf, scaled: ScaledTimers) -> Check {
    let name = "kernel-timers";
    if tdf == Tdf::ONE {
        let says = "The run was not dilated: every kernel timer ran as it should.".into();
        return at_most(name, 0.0, 0.0, "firings", says);
    }
    let hard = |n: &NodeTcp| {
        let syns = if scaled.initial_rto { 0 } else { n.grew.syn_retrans };
        let timeouts = if scaled.rto_min { 0 } else { n.grew.timeouts };
        syns.max(timeouts) + n.grew.aborts
    };
    let total: u64 = nodes.iter().map(hard).sum();
    if total > 0 {
        let worst = nodes.iter().max_by_key(|n| hard(n)).expect("a sum above nothing has terms");
        let when = worst.first_hard.map_or(String::new(), |at| format!(", first before {}", time(at)));
        let constant = match scaled {
            ScaledTimers { rto_min: false, .. } => "least time-out of 200 ms",
            ScaledTimers { initial_rto: false, .. } => "initial time-out of 1 s",
            _ => "limit on retransmissions, in units of 200 ms,",
        };
        let says = format!(
            "Kernel timers that cannot be scaled fired {total} times, most in {}: {} SYNs sent again, {} retransmission \
             time-outs, {} connections given up{when}; the kernel's {constant} passes {tdf} times too fast for the nodes.",
            worst.node, worst.grew.syn_retrans, worst.grew.timeouts, worst.grew.aborts
        );
        return at_most(name, total as f64, 0.0, "firings", says);
    }
    let delayed: u64 = nodes.iter().map(|n| n.grew.delayed_acks).sum();
    let waiting: u64 = nodes.iter().filter_map(|n| n.grew.waiting).sum();
    if delayed > SOFT_TIMERS_FREE && waiting > WAITING_FREE {
        let worst = nodes.iter().max_by_key(|n| n.grew.waiting).expect("a sum above nothing has terms");
        let when = worst.first_waiting.map_or(String::new(), |at| format!(", first at {}", time(at)));
        let says = format!(
            "Senders were met {waiting} times that kept a small segment back until an acknowledgement came, most in {}{when}, and \
             {delayed} acknowledgements in the run were sent by a timer of 40 ms, which passes {tdf} times too fast for the nodes.",
            worst.node
        );
        return at_most(name, waiting as f64, WAITING_FREE as f64, "waiting senders", says);
    }
    let unit = "% of segments received";
    let soft = |n: &NodeTcp| n.grew.loss_probes + if n.grew.waiting.is_none() { n.grew.delayed_acks } else { 0 };
    let percent = |n: &NodeTcp| 100.0 * soft(n) as f64 / n.grew.in_segs.max(1) as f64;
    let worst = nodes.iter().filter(|n| soft(n) > SOFT_TIMERS_FREE).max_by(|a, b| percent(a).total_cmp(&percent(b)));
    let harmless = match delayed {
        0 => String::new(),
        _ => format!(
            " {delayed} acknowledgements were sent by a timer that cannot be scaled; no sender was seen to wait for one."
        ),
    };
    let Some(worst) = worst else {
        let says = format!("No kernel timer that cannot be scaled fired to any effect.{harmless}");
        return at_most(name, 0.0, SOFT_TIMERS, unit, says);
    };
    let says = format!(
        "Timers for loss probes and delayed acknowledgements, which pass {tdf} times too fast for the nodes, fired most \
         often in {}, for {} % of the segments received ({} probes and {} acknowledgements, of {} segments).",
        worst.node,
        number(percent(worst)),
        worst.grew.loss_probes,
        worst.grew.delayed_acks,
        worst.grew.in_segs
    );
    at_most(name, percent(worst), SOFT_TIMERS, unit, says)
}

/// Not modelled: a core's caches forget in real time what a node leaves alone in virtual time. On a machine of one's own they hardly
/// do; where neighbours use them, a node does less work than its target with the CPU time that it is entitled to. How much less
/// depends on how many lines its programs need, which nothing here can count; the limits are where real servers were seen to be off.
pub fn caches(found: Option<&Caches>, seen: &Seen, tdf: Tdf) -> Check {
    let (name, unit) = ("caches", "ns a line");
    if tdf == Tdf::ONE {
        return unmeasured(name, unit, "The run was not dilated: caches forgot no sooner than on the target.".into());
    }
    let Some(found) = found else {
        return unmeasured(name, unit, "How long caches keep data on the nodes' core was not measured.".into());
    };
    let late = found.late.as_nanos() as f64;
    let measured = format!(
        "A line of memory untouched for {} real ms cost {} ns, after 1 ms {} ns",
        number(found.away.as_secs_f64() * 1e3),
        found.late.as_nanos(),
        found.soon.as_nanos()
    );
    let limit = if seen.entitlement.is_some() { LINE_SATURATED } else { LINE };
    match seen.hungriest().filter(|(_, used)| *used >= LITTLE) {
        Some((node, used)) => {
            let says = format!("{measured}; {node} used {} % of its CPU.", number(100.0 * used));
            at_most(name, late, limit, unit, says)
        }
        None => {
            let says = format!("{measured}; no node used as much as {} % of its CPU.", number(100.0 * LITTLE));
            Check { value: Some(late), ..unmeasured(name, unit, says) }
        }
    }
}

/// Not modelled yet.
pub fn disk() -> Check {
    unmeasured("disk", "virtual ms", "Disks are not modelled: reads and writes take real time, undilated.".into())
}

fn at_most(name: &str, value: f64, limit: f64, unit: &str, says: String) -> Check {
    // A value that is not a number is no proof of anything: it fails, and is recorded as none.
    let ok = Some(value <= limit);
    let value = value.is_finite().then_some(value);
    Check { name: name.into(), value, limit: Some(limit), unit: unit.into(), ok, says }
}

fn unmeasured(name: &str, unit: &str, says: String) -> Check {
    Check { name: name.into(), value: None, limit: None, unit: unit.into(), ok: None, says }
}

fn ms(d: VirtualDuration) -> f64 {
    d.as_secs_f64() * 1e3
}

/// Three significant digits, without noise.
pub(crate) fn number(v: f64) -> String {
    let places = match v.abs() {
        a if a >= 99.95 || a == 0.0 => 0,
        a if a >= 9.995 => 1,
        a if a >= 0.9995 => 2,
        a if a >= 0.09995 => 3,
        _ => 4,
    };
    let text = format!("{v:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

fn time(at: VirtualInstant) -> String {
    format!("{:.1} s", at.as_secs_f64())
}

/// `in web-1, from 3.0 s to 4.0 s`
fn place(worst: &Worst) -> String {
    let whose = worst.whose.as_ref().map_or(String::new(), |who| format!("in {who}, "));
    format!("{whose}{}", span(worst))
}

fn span(worst: &Worst) -> String {
    format!("from {} to {}", time(worst.from), time(worst.to))
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
