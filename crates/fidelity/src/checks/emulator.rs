//! The emulator: frames that were late or lost, and whether it had more to do than it can.

use hdrhistogram::Histogram;
use scale::{RealDuration, Tdf, VirtualDuration, VirtualInstant};

use super::Judgement;
use crate::emulator_load;
use crate::evidence::Evidence;
use crate::observations::Occurrence;
use crate::wording::{milliseconds, number, place, time};

/// Emulator lateness that is always good enough.
pub const LATENESS: VirtualDuration = VirtualDuration::from_nanos(100_000);
/// Emulator lateness as a part of the shortest path's delay, where that is more.
pub const LATENESS_OF_PATH: f64 = 0.01;

/// How late frames were, and whether it was because the emulator had more to do than it can.
pub(super) fn lateness(e: &Evidence) -> Judgement {
    let mut judged = emulator_lateness(e.lateness, e.unseen, e.latest, e.shortest_path, e.tdf);
    let (delivered, waited) = bounds_of(e.lateness, e.unseen, e.tdf);
    // When frames waited to be seen is not known.
    let latest = e.latest.filter(|_| delivered >= waited);
    let second = e.tdf.to_virtual(RealDuration::from_nanos(1_000_000_000));
    let late: Vec<_> = latest.iter().map(|(at, _)| (*at, *at + second)).collect();
    judged.add_cause(|| emulator_load::overload(e.loads, &late));
    judged
}

/// How many frames were lost, and whether it was because the emulator had more to do than it can.
pub(super) fn drops(e: &Evidence) -> Judgement {
    let seen = e.observations;
    let mut judged = ring_drops(seen.ring_drops, seen.no_memory, seen.first_ring_drop.as_ref());
    // What found no memory would have been lost by a faster emulator, too.
    if seen.ring_drops > seen.no_memory {
        let lost = [&seen.first_ring_drop, &seen.most_ring_drops].into_iter().flatten();
        let lost: Vec<_> = lost.map(|w| (w.from, w.to)).collect();
        judged.add_cause(|| emulator_load::overload(e.loads, &lost));
    }
    judged
}

/// How late 99.9 % of the frames were delivered at most, and how long 99 % waited before they were seen, in virtual ms.
fn bounds_of(lateness: &Histogram<u64>, unseen: &Histogram<u64>, tdf: Tdf) -> (f64, f64) {
    let within =
        |part, of: &Histogram<u64>| milliseconds(tdf.to_virtual(RealDuration::from_nanos(of.value_at_quantile(part))));
    (within(0.999, lateness), within(0.99, unseen))
}

/// p99.9 of how late frames were delivered, and p99 of how late they may have been seen, each at most 0.1 virtual ms or
/// 1 % of the shortest path. The second is the less strict because it is a bound: most of what is found after a gap
/// came late in it.
pub fn emulator_lateness(
    lateness: &Histogram<u64>,
    unseen: &Histogram<u64>,
    latest: Option<(VirtualInstant, RealDuration)>,
    shortest_path: Option<VirtualDuration>,
    tdf: Tdf,
) -> Judgement {
    let unit = "virtual ms";
    let of_path = shortest_path.map_or(0.0, |d| LATENESS_OF_PATH * milliseconds(d));
    let limit = milliseconds(LATENESS).max(of_path);
    if lateness.is_empty() {
        return Judgement { limit: Some(limit), ..Judgement::unmeasured(unit, "No frame passed the emulator.".into()) };
    }
    let (delivered, waited) = bounds_of(lateness, unseen, tdf);
    if waited > delivered {
        let says = format!(
            "99 % of {} frames waited at most {} virtual ms before they were seen.",
            unseen.len(),
            number(waited)
        );
        return Judgement::at_most(waited, limit, unit, says);
    }
    let when = latest.map_or(String::new(), |(at, p999)| {
        format!(
            "; the worst second began at {}, with {} virtual ms",
            time(at),
            number(milliseconds(tdf.to_virtual(p999)))
        )
    });
    let says = format!("99.9 % of {} frames were at most {} virtual ms late{when}.", lateness.len(), number(delivered));
    Judgement::at_most(delivered, limit, unit, says)
}

/// No frame may be lost between a node and the emulator: it is no loss of the modelled network. `no_memory` of them
/// were seen, and found the links full of others.
pub fn ring_drops(drops: u64, no_memory: u64, first: Option<&Occurrence>) -> Judgement {
    let mut says = match first {
        Some(first) => format!("{drops} frames were lost between nodes and the emulator, the first {}.", place(first)),
        None => "No frame was lost between a node and the emulator.".into(),
    };
    if no_memory > 0 {
        says += &format!(
            " {no_memory} of them, because all links together held as many as the emulator has memory for: \
             limit the bandwidth or the delay of the link that is flooded."
        );
    }
    Judgement::at_most(drops as f64, 0.0, "frames", says)
}
