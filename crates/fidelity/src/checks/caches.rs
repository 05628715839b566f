//! Caches, which forget in real time.

use record::NodeRefill;
use scale::{RealDuration, Tdf};

use super::Judgement;
use crate::effects::{Effect, SATURATED};
use crate::evidence::{Caches, DiskUse, Grain};
use crate::observations::NodeCpu;
use crate::wording::number;

/// How many lines of memory a busy server fetches anew at the beginning of each turn of [`TURN`]: where a line cost
/// 110 ns, a web server that compresses used 74 % more CPU, 60 µs of each turn (`docs/cpu.md`).
const LINES: f64 = 560.0;
/// The turns in which that was, real s.
const TURN: f64 = 140e-6;
/// A longer turn touches more: where one of 0.1 ms began with 60 µs of refilling, one of 1.5 ms began with 130.
const LONGER: f64 = 1.0 / 3.0;
/// Lines a second that a node which always computes may fetch anew all through its turns, of those that the probe's
/// lines stand for: one that compresses lost 12 to 19 % where those cost 14 to 18 ns more than on the target, and 21 %
/// where they cost 49 ns more (`docs/cpu.md`). As it loses the same part of shorter and of longer turns, a run hardly
/// measures it; and what it loses is its rate.
const THROUGHOUT: f64 = 12e6;
/// And no more than this part of a turn: then all of what it has is in memory, and no cache nearer.
const ALL_IN_MEMORY: f64 = 0.25;
/// A line that is still in the nearest caches costs about this.
const WARM: RealDuration = RealDuration::from_nanos(2);
/// More of a turn than this was not seen to be lost.
const MOST: f64 = 0.8;

/// The part of turns of this length that a program with as much data as a busy server loses, where a line of memory
/// costs so much more after a node's absence than it would on the target.
pub fn lost(dearer: RealDuration, turn: RealDuration) -> f64 {
    let turn = turn.as_secs_f64();
    let lines = LINES * (turn / TURN).powf(LONGER);
    (lines * dearer.as_secs_f64() / turn).min(MOST)
}

/// The part of its turns that a node which always computes may lose all through them, where a line costs so much more.
fn throughout(dearer: RealDuration) -> f64 {
    (THROUGHOUT * dearer.as_secs_f64()).min(ALL_IN_MEMORY)
}

/// Not modelled: a core's caches forget in real time what a node leaves alone in virtual time. On a machine of one's
/// own they hardly do; where neighbours use them, each turn begins with fetching data that the target would still have.
/// How many lines that is depends on the program, which nothing here can count: up to as many as a busy server's.
///
/// Of several cores, that on which such a server loses most.
pub fn caches(found: &[(usize, Caches)], grain: &Grain, tdf: Tdf) -> Judgement {
    let unit = "ns a line";
    if tdf == Tdf::ONE {
        return Judgement::unmeasured(
            unit,
            "The run was not dilated: caches forgot no sooner than on the target.".into(),
        );
    }
    let lost_on = |(core, found): &(usize, Caches)| {
        let turn = grain.turn_on(*core)?;
        Some((lost(found.late.saturating_sub(found.soon), turn), turn))
    };
    let part = |of: &(usize, Caches)| lost_on(of).map_or(0.0, |(part, _)| part);
    let worst = found.iter().max_by(|a, b| part(a).total_cmp(&part(b)).then(a.1.late.cmp(&b.1.late)));
    let Some(worst) = worst else {
        return Judgement::unmeasured(unit, "How long caches keep data on the nodes' core was not measured.".into());
    };
    let (core, of_core) = worst;
    let on = if found.len() > 1 { format!("On core {core} a line") } else { "A line".into() };
    let measured = format!(
        "{on} of memory untouched for {} real ms cost {} ns, after 1 ms {} ns",
        number(of_core.away.as_secs_f64() * 1e3),
        of_core.late.as_nanos(),
        of_core.soon.as_nanos()
    );
    let late = of_core.late.as_nanos() as f64;
    let Some((lost, turn)) = lost_on(worst) else {
        let says = format!("{measured}; how many a node fetched anew is not known.");
        return Judgement { value: Some(late), ..Judgement::unmeasured(unit, says) };
    };
    let says = format!(
        "{measured}: a program with as much data as a busy web server lost {} % of its turns of {} ms.",
        number(100.0 * lost),
        number(turn.as_secs_f64() * 1e3)
    );
    Judgement::with(late, unit, [Effect::Work([0.0, 100.0 * lost / (1.0 - lost)])], says)
}

/// What nodes lost at the start of their turns, where that was measured, less what they were given for it. A node
/// counts by what it used of the core. `None` where it was not measured, or nobody used anything.
///
/// A short run measures little. Up to what a busy server would have lost to the caches of the node's core as they were
/// (`probed`, if anything is known of them), any loss is possible; beyond that, what was measured is believed, but not
/// its error.
///
/// Of a node with one of these `disks`, whose progress nothing told, only a guess is known. It sleeps while its disk
/// works, and comes back to what it has left for as long: what is lost then is a part of what it does until the next
/// time, which may be much less than a turn.
pub fn refills(
    nodes: &[NodeCpu],
    found: &[NodeRefill],
    probed: &[(usize, Caches)],
    disks: &[DiskUse],
) -> Option<Judgement> {
    let of = |(node, found): (&NodeCpu, &NodeRefill)| {
        let disk = disks.iter().find(|disk| found.rounds == 0 && disk.node == node.node);
        let waits = disk.map(DiskUse::waited_for).filter(|waits| *waits > 0);
        let burst = waits.map(|waits| node.used.as_secs_f64() / waits as f64);
        let turn = burst.unwrap_or(f64::INFINITY).min(found.turn_us / 1e6);
        let [part, error] = [found.refill_us, 2.0 * found.error_us].map(|us| us / 1e6 / turn);
        let turn = RealDuration::from_secs_f64(turn);
        // On the target nobody else is in between, and all of them are warm.
        let probed = probed.iter().find(|(core, _)| *core == node.core);
        let servers = probed.map_or(MOST, |(_, caches)| lost(caches.late.saturating_sub(WARM), turn));
        let throughout = probed
            .filter(|_| node.busy >= SATURATED)
            .map_or(0.0, |(_, caches)| throughout(caches.late.saturating_sub(caches.soon)));
        // Work takes longer by what is lost, and less long by what the share was raised.
        let longer = |lost: f64| 1.0 / (node.raised * (1.0 - lost.clamp(0.0, MOST))) - 1.0;
        let most = (part + error).min(servers.max(part)).max(throughout);
        (node.used.as_secs_f64(), part, [longer(part - error), longer(most)])
    };
    let each: Vec<_> = nodes.iter().zip(found).map(of).collect();
    let used: f64 = each.iter().map(|(weight, ..)| weight).sum();
    if used <= 0.0 {
        return None;
    }
    let mean = |value: &dyn Fn(f64, [f64; 2]) -> f64| {
        100.0 * each.iter().map(|(weight, lost, longer)| weight / used * value(*lost, *longer)).sum::<f64>()
    };
    let range = [mean(&|_, longer| longer[0]), mean(&|_, longer| longer[1])];
    let most = nodes.iter().zip(found).zip(&each).max_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let ((node, most), _) = most?;
    let says = format!(
        "{} lost {:.0} ± {:.0} µs of its turns of {} ms to caches that others had used, and had {:.2} times its \
         share for that{}.{}",
        node.node,
        most.refill_us,
        most.error_us,
        number(most.turn_us / 1e3),
        node.raised,
        if most.capped { "; it was not given more" } else { "" },
        begun(found)
    );
    Some(Judgement::with(mean(&|lost, _| lost), "% of turns", [Effect::Work(range)], says))
}

/// How many nodes began with what an earlier run had learned, as a sentence; empty if none did.
fn begun(found: &[NodeRefill]) -> String {
    let earlier: Vec<_> = found.iter().filter_map(|found| found.earlier).collect();
    let Some(oldest) = earlier.iter().map(|earlier| earlier.age_s).reduce(f64::max) else { return String::new() };
    let rejected = earlier.iter().filter(|earlier| earlier.rejected).count();
    let rejected = match rejected {
        0 => String::new(),
        n => format!(", which for {n} of them was of something else and was forgotten"),
    };
    let (some, all, ago) = (earlier.len(), found.len(), lasting(oldest));
    format!(" {some} of {all} nodes began with what an earlier run had learned, up to {ago} before{rejected}.")
}

/// A time in the unit in which a person would tell it.
fn lasting(seconds: f64) -> String {
    let (of, unit) = match seconds {
        s if s < 120.0 => (1.0, "s"),
        s if s < 7200.0 => (60.0, "min"),
        s if s < 2.0 * 86_400.0 => (3600.0, "h"),
        _ => (86_400.0, "days"),
    };
    format!("{} {unit}", number(seconds / of))
}
