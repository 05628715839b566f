//! The CPU that nodes got, in which slices, and what the hypervisor took of it.

use super::Judgement;
use crate::evidence::Grain;
use crate::observations::Occurrence;
use crate::wording::{number, place, span};

/// CPU that a node must get, per cent of its entitlement.
pub const ENTITLEMENT: std::ops::RangeInclusive<f64> = 97.0..=101.0;
/// How long a turn on the nodes' core may last, real ms: three times what is asked for, and twice what quiet machines
/// show.
pub const GRAIN: f64 = 0.3;
/// Time that the hypervisor may take, per cent.
pub const STEAL: f64 = 1.0;

/// In each virtual second, a node that always wanted CPU got 97–101 % of its entitlement. The recorded limit is the
/// bound on the side where the worst second lies.
pub fn cpu_entitlement(grain: &Grain, worst: Option<&Occurrence>, intervals: usize) -> Judgement {
    let unit = "% of entitlement";
    match (grain, worst) {
        (Grain::Pool, _) => Judgement::unmeasured(
            unit,
            "Nodes of the naive variant share the core as they can; none is entitled to a part.".into(),
        ),
        (Grain::Quota(_), _) => {
            Judgement::unmeasured(unit, "Under CFS quota it is not known whether a node always wanted its CPU.".into())
        }
        (Grain::Slots(_), None) => Judgement::unmeasured(
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
            Judgement { value: Some(worst.value), limit: Some(limit), unit, ok, says }
        }
    }
}

/// Shares come in slices short enough that a burst of work takes as long, in virtual time, as on the target.
pub fn cpu_grain(grain: &Grain) -> Judgement {
    let unit = "real ms";
    match grain {
        Grain::Slots(None) => {
            Judgement::unmeasured(unit, "Nodes took turns, and how long one lasted was not measured.".into())
        }
        Grain::Slots(Some(turn)) => {
            let turn = turn.as_secs_f64() * 1e3;
            Judgement::at_most(turn, GRAIN, unit, format!("Nodes took turns on their core every {} ms.", number(turn)))
        }
        Grain::Quota(why) => Judgement::at_most(
            4.0,
            GRAIN,
            unit,
            format!(
                "CPU shares were kept by CFS quota, which lets a burst run unhindered until the next 4 ms tick: {why}."
            ),
        ),
        Grain::Pool => Judgement::unmeasured(unit, "Nodes of the naive variant have no share of their own.".into()),
    }
}

/// Time that the hypervisor gave to someone else.
pub fn steal(worst: Option<&Occurrence>) -> Judgement {
    let unit = "% of the core";
    let Some(worst) = worst else { return Judgement::unmeasured(unit, "Too short a run to measure steal.".into()) };
    let core = worst.whose.as_deref().unwrap_or("a core");
    let says = format!("At most, the hypervisor took {} % of {core}, {}.", number(worst.value), span(worst));
    Judgement::at_most(worst.value, STEAL, unit, says)
}
