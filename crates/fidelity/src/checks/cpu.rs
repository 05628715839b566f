//! The CPU that nodes got, and what the hypervisor took of it.

use super::Judgement;
use crate::effects::Effect;
use crate::evidence::{Pace, Sharing};
use crate::observations::{Observations, Parallelism};
use crate::wording::{number, place, span};

/// The part that shares of work do not give back of what was taken, because they notice it after up to 20 ms.
pub(super) const NOTICED_LATE: f64 = 0.2;

/// A node that always wanted CPU gets what it is entitled to: over all such virtual seconds together, what one got more
/// or less is by how much its work was shorter or longer. The value is the worst second.
pub fn cpu_entitlement(sharing: &Sharing, seen: &Observations) -> Judgement {
    let unit = "% of entitlement";
    match (sharing, &seen.entitlement, &seen.entitled) {
        (Sharing::Pool, ..) => Judgement::unmeasured(
            unit,
            "Nodes of the naive variant share the core as they can; none is entitled to a part.".into(),
        ),
        (Sharing::WholeCores, ..) => {
            Judgement::unmeasured(unit, "Nodes have cores of their own, and share none.".into())
        }
        (Sharing::Quota(_), ..) => {
            Judgement::unmeasured(unit, "Under CFS quota it is not known whether a node always wanted its CPU.".into())
        }
        (Sharing::Slots(_), Some(worst), Some(all)) => {
            let says = format!(
                "Of {} virtual seconds in which a node always wanted CPU, the worst gave it {} % of its entitlement, \
                 {}; all of them together gave {} {} %.",
                seen.entitled_intervals,
                number(worst.value),
                place(worst),
                all.whose.as_deref().unwrap_or("a node"),
                number(all.value)
            );
            Judgement::with(worst.value, unit, [longer(all.value)], says)
        }
        (Sharing::Slots(_), ..) => Judgement::unmeasured(
            unit,
            "No node wanted all of its CPU for a whole virtual second, so none could miss any.".into(),
        ),
    }
}

/// As many CPUs of a node as have a thread that can run are at work: so over all virtual seconds in which a node never
/// slept, what its threads had less than they wanted is by how much their work was longer. The value is the worst
/// second.
pub fn parallelism(sharing: &Sharing, seen: &Observations) -> Judgement {
    let unit = "% of what threads wanted";
    if !matches!(sharing, Sharing::Slots(_)) {
        let says = "Without clocks of nodes nobody counts how many of a node's threads can run.";
        return Judgement::unmeasured(unit, says.into());
    }
    if let Some((times, node)) = &seen.uncounted {
        let says =
            format!("{times} times the kernel had no memory to count a thread of {node} among those that can run.");
        return Judgement::at_most(*times as f64, 0.0, "wake-ups", says);
    }
    let Some(Parallelism { worst, wanted: (wanted, cpus), seconds, all }) = &seen.parallelism else {
        let says = "No node has several CPUs and was awake for a whole virtual second.";
        return Judgement::unmeasured(unit, says.into());
    };
    let says = format!(
        "Of {seconds} virtual seconds in which a node with several CPUs never slept, the worst gave its threads, which \
         wanted {} of {cpus} CPUs, {} % of that, {}; all of them together gave those of {} {} %.",
        number(*wanted),
        number(worst.value),
        place(worst),
        all.whose.as_deref().unwrap_or("a node"),
        number(all.value)
    );
    Judgement::with(worst.value, unit, [longer(all.value)], says)
}

/// The added time of work that had so many per cent of what it was due.
fn longer(had_percent: f64) -> Effect {
    let longer = 100.0 * (100.0 / had_percent.max(1.0) - 1.0);
    Effect::Work([longer.min(0.0), longer.max(0.0)])
}

/// Time that the hypervisor gave to someone else. What it took of the harness core shows in late frames.
pub fn steal(seen: &Observations, pace: Pace) -> Judgement {
    let unit = "% of the core";
    let Some(worst) = &seen.steal else {
        return Judgement::unmeasured(unit, "Too short a run to measure steal.".into());
    };
    let core = worst.whose.as_deref().unwrap_or("a core");
    let taken = seen.stolen_nodes_percent.unwrap_or(worst.value);
    let says = format!(
        "At most, the hypervisor took {} % of {core}, {}; of {} {} % on average.",
        number(worst.value),
        span(worst),
        if seen.nodes_cores > 1 { "one of the nodes' cores at most" } else { "the nodes' core" },
        number(taken)
    );
    Judgement::with(worst.value, unit, [missing(taken, pace)], says)
}

/// The added time of a node's work where others take so many per cent of its core, and it gets back what is noticed.
pub(super) fn missing(taken_percent: f64, pace: Pace) -> Effect {
    let taken = (taken_percent / 100.0).clamp(0.0, 0.99);
    let left = if pace.gain.is_some() { NOTICED_LATE } else { 1.0 };
    Effect::Work([0.0, left * 100.0 * taken / (1.0 - taken)])
}
