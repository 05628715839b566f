//! The CPU that nodes got, in which turns, and what the hypervisor took of it.

use scale::{RealDuration, Tdf, Turns, alike};

use super::Judgement;
use crate::effects::Effect;
use crate::evidence::{DiskUse, Grain, Pace};
use crate::observations::{NodeCpu, Observations};
use crate::waits::{Wait, Waits};
use crate::wording::{number, place, span};

/// How long a turn on the nodes' core may last where nobody can say what it does, real ms.
const GRAIN: f64 = 0.3;
/// A node takes part in operations if it used this part of its CPU.
const TAKES_PART: f64 = 0.01;
/// What shares of work do not give back of what was taken, because they notice it after up to 20 ms.
pub(super) const NOTICED_LATE: f64 = 0.2;

/// A node that always wanted CPU gets what it is entitled to: over all such virtual seconds together, what one got more
/// or less is by how much its work was shorter or longer. The value is the worst second.
pub fn cpu_entitlement(grain: &Grain, seen: &Observations) -> Judgement {
    let unit = "% of entitlement";
    match (grain, &seen.entitlement, &seen.entitled) {
        (Grain::Pool, ..) => Judgement::unmeasured(
            unit,
            "Nodes of the naive variant share the core as they can; none is entitled to a part.".into(),
        ),
        (Grain::Quota(_), ..) => {
            Judgement::unmeasured(unit, "Under CFS quota it is not known whether a node always wanted its CPU.".into())
        }
        (Grain::Slots(_), Some(worst), Some(all)) => {
            let says = format!(
                "Of {} virtual seconds in which a node always wanted CPU, the worst gave it {} % of its entitlement, \
                 {}; all of them together gave {} {} %.",
                seen.entitled_intervals,
                number(worst.value),
                place(worst),
                all.whose.as_deref().unwrap_or("a node"),
                number(all.value)
            );
            let longer = 100.0 * (100.0 / all.value.max(1.0) - 1.0);
            Judgement::with(worst.value, unit, [Effect::Work([longer.min(0.0), longer.max(0.0)])], says)
        }
        (Grain::Slots(_), ..) => Judgement::unmeasured(
            unit,
            "No node wanted all of its CPU for a whole virtual second, so none could miss any.".into(),
        ),
    }
}

/// Shares come in turns: whoever wakes up waits for its turn, which on the target it does not. An operation waits for
/// half of the others' turns on average, unless it finds its own, once at a node of each of the two kinds that wait
/// longest: a client and the server, say. (Nodes with equal shares are of one kind; where there is but one, at two of
/// them.) At a node that comes back from its disk it waits each time for what the disk has left of all of the others'
/// turns, for a filler has burnt what was left of its own; where the disk takes longer than those it comes back at any
/// time.
pub fn cpu_grain(grain: &Grain, nodes: &[NodeCpu], disks: &[DiskUse], tdf: Tdf) -> Judgement {
    let unit = "real ms";
    let turns = match grain {
        Grain::Slots(turns) if turns.is_empty() => {
            return Judgement::unmeasured(unit, "Nodes took turns, and how long one lasted was not measured.".into());
        }
        Grain::Pool => {
            return Judgement::unmeasured(unit, "Nodes of the naive variant have no share of their own.".into());
        }
        Grain::Quota(why) => {
            let says = format!(
                "CPU shares were kept by CFS quota, which lets a burst run unhindered until the next 4 ms tick: {why}."
            );
            return Judgement::at_most(4.0, GRAIN, unit, says);
        }
        Grain::Slots(turns) => turns,
    };
    let longest = turns.iter().map(|(_, turn)| *turn).max().unwrap_or_default();
    let turn_of = |node: &NodeCpu| grain.turn_on(node.core).unwrap_or(longest);
    let part: Vec<&NodeCpu> = nodes.iter().filter(|n| n.busy >= TAKES_PART && n.share > 0.0).collect();
    let own_turn = |node: &NodeCpu| Turns::stretched(turn_of(node), node.stretch).as_secs_f64();
    let wait = |node: &NodeCpu| {
        let others = own_turn(node) * (1.0 / node.share - 1.0).max(0.0);
        let most = tdf.to_virtual(RealDuration::from_secs_f64(others)).as_secs_f64();
        Wait { most, chance: (1.0 - node.share).max(0.0) }
    };
    let mut waits: Vec<(Wait, &NodeCpu)> = part.iter().map(|node| (wait(node), *node)).collect();
    waits.sort_by(|a, b| b.0.most.total_cmp(&a.0.most));
    let two_kinds = part.iter().any(|n| !alike(n.share, waits[0].1.share));
    if two_kinds {
        waits.dedup_by(|later, earlier| alike(later.1.share, earlier.1.share));
    }
    waits.truncate(Turns::KINDS);
    let met = Waits(std::array::from_fn(|i| waits.get(i).map_or_else(Wait::default, |(wait, _)| *wait)));
    let whose = if turns.len() == 1 { "their core every" } else { "their cores, on the slowest every" };
    let mut says = format!("Nodes took turns on {whose} {} ms", number(longest.as_secs_f64() * 1e3));
    if !waits.is_empty() {
        let each = waits.iter().map(|(wait, n)| format!("{} up to {} virtual ms", n.node, number(wait.most * 1e3)));
        says += &format!(": who woke up waited, {}", each.collect::<Vec<_>>().join(", "));
    }
    let turns = part.iter().map(|n| n.used.as_secs_f64() / own_turn(n)).fold(0.0, f64::max);
    let at_disk = |node: &NodeCpu, disk: &DiskUse| {
        let wait = wait(node);
        (wait.most - disk.waited().as_secs_f64()).max(wait.mean())
    };
    let disk_of = |node: &NodeCpu| disks.iter().find(|disk| disk.node == node.node && disk.waits() > 0);
    let at_disk = part.iter().filter_map(|n| Some(at_disk(n, disk_of(n)?))).fold(0.0, f64::max);
    let effect = Effect::EachOperation { waits: met, at_disk, turns };
    Judgement::with(longest.as_secs_f64() * 1e3, unit, [effect], says + ".")
}

/// The same, where nodes' slices were those of all programs: who works beside the run is to know.
pub fn of_host(mut judged: Judgement, slices: Option<[RealDuration; 2]>) -> Judgement {
    if let Some([during, before]) = slices.map(|slices| slices.map(|slice| number(slice.as_secs_f64() * 1e3))) {
        judged.says += &format!(
            " All programs of this machine had slices of {during} ms meanwhile, in place of {before} ms: its kernel \
             has none per task."
        );
    }
    judged
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

/// What a node's work takes longer where others take so many per cent of its core, and it gets back what is noticed.
pub(super) fn missing(taken_percent: f64, pace: Pace) -> Effect {
    let taken = (taken_percent / 100.0).clamp(0.0, 0.99);
    let left = if pace.gain.is_some() { NOTICED_LATE } else { 1.0 };
    Effect::Work([0.0, left * 100.0 * taken / (1.0 - taken)])
}
