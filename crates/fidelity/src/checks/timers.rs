//! Timers of the nodes' TCP that tick in real time.

use scale::{RealDuration, Tdf, VirtualDuration};

use super::Judgement;
use crate::effects::Effect;
use crate::evidence::ScaledTimers;
use crate::observations::NodeTcp;
use crate::wording::{number, time};

/// Loss probes, and delayed acknowledgements where it is not known whether somebody waits for them, per cent of the
/// segments that a node received.
pub const SOFT_TIMERS: f64 = 10.0;
/// So many of them are nothing.
pub const SOFT_TIMERS_FREE: u64 = 2;
/// A sender that waits for an acknowledgement may be met so often: one wait for a round trip is everyone's.
pub const WAITING_FREE: u64 = 1;

/// The kernel's constants: how long an acknowledgement is delayed at least,
const DELAYED: u64 = 40_000_000;
/// the least retransmission time-out,
const LEAST_TIME_OUT: u64 = 200_000_000;
/// and the first, of a connection that has not measured a round trip.
const FIRST_TIME_OUT: u64 = 1_000_000_000;

/// How much sooner, in virtual time, a timer of so many ns fires that passes in real time.
fn sooner(ns: u64, tdf: Tdf) -> f64 {
    VirtualDuration::from_nanos(ns).saturating_sub(tdf.to_virtual(RealDuration::from_nanos(ns))).as_secs_f64()
}

/// Timers of the nodes' TCP that tick in real time and fired: each came sooner than on the target.
///
/// *Hard* firings involve a constant that cannot be scaled and change what the program sees: SYNs sent again where the
/// initial time-out of 1 s could not be scaled, and every retransmission time-out where the least could not. Those come
/// sooner by a known time. Connections given up (the kernel counts `tcp_retries2` in units of a constant 200 ms) change
/// what a program does, and nobody can say by how much.
///
/// *Soft* firings only advance a pure acknowledgement (delayed for 40 ms at least) or a probe (2 ticks at least).
/// Probes are bounded in relation to what the node received. A delayed acknowledgement matters where a sender waits for
/// it, so the run is looked through for such senders, `looks_per_s` times in a virtual second. If two were met, in a
/// run in which acknowledgements were delayed, as many of those were waited for as make up the time in which somebody
/// waited: each takes 40 real ms at least. Where the kernel does not list sockets, delayed acknowledgements are bounded
/// like probes.
pub fn kernel_timers(nodes: &[NodeTcp], tdf: Tdf, scaled: ScaledTimers, looks_per_s: f64) -> Judgement {
    if tdf == Tdf::ONE {
        let says = "The run was not dilated: every kernel timer ran as it should.".into();
        return Judgement::with(0.0, "firings", [], says);
    }
    let syns = |n: &NodeTcp| if scaled.initial_rto { 0 } else { n.grew.syn_retrans };
    let timeouts = |n: &NodeTcp| if scaled.rto_min { 0 } else { n.grew.timeouts };
    let hard = |n: &NodeTcp| syns(n).max(timeouts(n)) + n.grew.aborts;
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
            "Kernel timers that cannot be scaled fired {total} times, most in {}: {} SYNs sent again, \
             {} retransmission time-outs, {} connections given up{when}; the kernel's {constant} passes {tdf} times \
             too fast for the nodes.",
            worst.node, worst.grew.syn_retrans, worst.grew.timeouts, worst.grew.aborts
        );
        if nodes.iter().any(|n| n.grew.aborts > 0) {
            return Judgement::at_most(total as f64, 0.0, "firings", says);
        }
        // The time-outs of a handshake count among all time-outs.
        let first: u64 = nodes.iter().map(syns).sum();
        let least: u64 = nodes.iter().map(|n| timeouts(n).saturating_sub(syns(n))).sum();
        let effects = [(first, FIRST_TIME_OUT), (least, LEAST_TIME_OUT)]
            .map(|(count, ns)| Effect::Firings { count: count as f64, each: [-sooner(ns, tdf), 0.0] });
        return Judgement::with(total as f64, "firings", effects, says);
    }
    let delayed: u64 = nodes.iter().map(|n| n.grew.delayed_acks).sum();
    let waiting: u64 = nodes.iter().filter_map(|n| n.grew.waiting).sum();
    if delayed > SOFT_TIMERS_FREE && waiting > WAITING_FREE {
        let worst = nodes.iter().max_by_key(|n| n.grew.waiting).expect("a sum above nothing has terms");
        let when = worst.first_waiting.map_or(String::new(), |at| format!(", first at {}", time(at)));
        let says = format!(
            "Senders were met {waiting} times that kept a small segment back until an acknowledgement came, \
             most in {}{when}, and {delayed} acknowledgements in the run were sent by a timer of 40 ms, which passes \
             {tdf} times too fast for the nodes.",
            worst.node
        );
        let waited_s = waiting as f64 / looks_per_s;
        let each_s = tdf.to_virtual(RealDuration::from_nanos(DELAYED)).as_secs_f64();
        let count = (waited_s / each_s).min(delayed as f64);
        let effect = Effect::Firings { count, each: [-sooner(DELAYED, tdf), 0.0] };
        return Judgement::with(waiting as f64, "waiting senders", [effect], says);
    }
    let unit = "% of segments received";
    let soft = |n: &NodeTcp| n.grew.loss_probes + if n.grew.waiting.is_none() { n.grew.delayed_acks } else { 0 };
    let percent = |n: &NodeTcp| 100.0 * soft(n) as f64 / n.grew.in_segs.max(1) as f64;
    let worst = nodes.iter().filter(|n| soft(n) > SOFT_TIMERS_FREE).max_by(|a, b| percent(a).total_cmp(&percent(b)));
    let harmless = match delayed {
        0 => String::new(),
        _ => format!(
            " {delayed} acknowledgements were sent by a timer that cannot be scaled; no sender was seen to \
             wait for one."
        ),
    };
    let Some(worst) = worst else {
        let says = format!("No kernel timer that cannot be scaled fired to any effect.{harmless}");
        return Judgement::with(0.0, unit, [], says);
    };
    let says = format!(
        "Timers for loss probes and delayed acknowledgements, which pass {tdf} times too fast for the nodes, fired \
         most often in {}, for {} % of the segments received ({} probes and {} acknowledgements, of {} segments).",
        worst.node,
        number(percent(worst)),
        worst.grew.loss_probes,
        worst.grew.delayed_acks,
        worst.grew.in_segs
    );
    Judgement::at_most(percent(worst), SOFT_TIMERS, unit, says)
}
