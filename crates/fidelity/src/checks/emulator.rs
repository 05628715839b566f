//! The emulator: frames that were late or lost, and whether it had more to do than it can.

use hdrhistogram::Histogram;
use scale::{RealDuration, Tdf, VirtualDuration, VirtualInstant};

use super::Judgement;
use crate::effects::Effect;
use crate::emulator_load;
use crate::evidence::Evidence;
use crate::observations::Occurrence;
use crate::wording::{milliseconds, number, place, time};

/// Lateness of which it is worth knowing the cause: more than this,
const NOTABLE: VirtualDuration = VirtualDuration::from_nanos(100_000);
/// or than this part of the shortest path, where that is more.
const NOTABLE_OF_PATH: f64 = 0.01;
/// The cost of a lost frame to whoever waits for it: TCP's least time-out, virtual s.
const TIME_OUT: f64 = 0.2;

/// How late frames were, and whether it was because the emulator had more to do than it can.
pub(super) fn lateness(e: &Evidence) -> Judgement {
    let mut judged = emulator_lateness(e.lateness, e.unseen, e.latest, e.tdf);
    let (delivered, waited) = bounds_of(e.lateness, e.unseen, e.tdf);
    let of_path = e.shortest_path.map_or(0.0, |d| NOTABLE_OF_PATH * milliseconds(d));
    if judged.value.is_some_and(|value| value > milliseconds(NOTABLE).max(of_path)) {
        // When frames waited to be seen is not known.
        let latest = e.latest.filter(|_| delivered >= waited);
        let second = e.tdf.to_virtual(RealDuration::from_nanos(1_000_000_000));
        let late: Vec<_> = latest.iter().map(|(at, _)| (*at, *at + second)).collect();
        judged.add_cause(emulator_load::overload(e.loads, &late));
    }
    judged
}

/// How many frames were lost, and whether it was because the emulator had more to do than it can.
pub(super) fn drops(e: &Evidence) -> Judgement {
    let seen = e.observations;
    let mut judged = ring_drops(seen.ring_drops, seen.no_memory, seen.first_ring_drop.as_ref());
    // Frames that found no memory would have been lost by a faster emulator, too.
    if seen.ring_drops > seen.no_memory {
        let lost = [&seen.first_ring_drop, &seen.most_ring_drops].into_iter().flatten();
        let lost: Vec<_> = lost.map(|w| (w.from, w.to)).collect();
        judged.add_cause(emulator_load::overload(e.loads, &lost));
    }
    judged
}

/// How late 99.9 % of the frames were delivered at most, and how long 99 % waited before they were seen, in virtual ms.
fn bounds_of(lateness: &Histogram<u64>, unseen: &Histogram<u64>, tdf: Tdf) -> (f64, f64) {
    let within =
        |part, of: &Histogram<u64>| milliseconds(tdf.to_virtual(RealDuration::from_nanos(of.value_at_quantile(part))));
    (within(0.999, lateness), within(0.99, unseen))
}

/// How late frames were delivered and may have been seen: the value is the worse of p99.9 of the first and p99 of the
/// second. (That is a bound: most of what is found after a gap came late in it.) What operations notice is how late a
/// frame is on average, and their tail p99.
pub fn emulator_lateness(
    lateness: &Histogram<u64>,
    unseen: &Histogram<u64>,
    latest: Option<(VirtualInstant, RealDuration)>,
    tdf: Tdf,
) -> Judgement {
    let unit = "virtual ms";
    if lateness.is_empty() {
        return Judgement::unmeasured(unit, "No frame passed the emulator.".into());
    }
    let seconds = |real_ns: f64| tdf.to_virtual(RealDuration::from_secs_f64(real_ns / 1e9)).as_secs_f64();
    let mean = lateness.mean() + unseen.mean();
    let late = lateness.value_at_quantile(0.99).max(unseen.value_at_quantile(0.99)) as f64;
    let effect = Effect::EachFrame { mean: seconds(mean), late: seconds(late) };
    let on_average = format!("{} on average", number(1e3 * seconds(mean)));
    let (delivered, waited) = bounds_of(lateness, unseen, tdf);
    if waited > delivered {
        let says = format!(
            "99 % of {} frames waited at most {} virtual ms before they were seen, and all were {on_average} late.",
            unseen.len(),
            number(waited)
        );
        return Judgement::with(waited, unit, [effect], says);
    }
    let when = latest.map_or(String::new(), |(at, p999)| {
        format!(
            "; the worst second began at {}, with {} virtual ms",
            time(at),
            number(milliseconds(tdf.to_virtual(p999)))
        )
    });
    let says = format!(
        "99.9 % of {} frames were at most {} virtual ms late, {on_average}{when}.",
        lateness.len(),
        number(delivered)
    );
    Judgement::with(delivered, unit, [effect], says)
}

/// Frames lost between a node and the emulator, which is no loss of the modelled network: each is waited for until TCP
/// sends it again. `no_memory` of them were seen, and found the links full of others.
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
    let effect = Effect::Firings { count: drops as f64, each: [0.0, TIME_OUT] };
    Judgement::with(drops as f64, "frames", [effect], says)
}
