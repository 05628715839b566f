//! Caches, which forget in real time.

use counters::Staleness;
use scale::{RealDuration, Tdf};

use super::Judgement;
use crate::effects::Effect;
use crate::evidence::Sharing;
use crate::wording::number;

/// No more of a slice is lost than this: a node that does nothing but fetch would do no work at all.
const MOST: f64 = 0.8;

/// The part of slices of this length that a program loses which fetches all that it keeps close once a slice, where a
/// line of memory costs so much more after a node's absence than it would on the target.
pub fn lost(dearer: RealDuration, slice: RealDuration) -> f64 {
    (Staleness::LINES as f64 * dearer.as_secs_f64() / slice.as_secs_f64()).min(MOST)
}

/// Not modelled: a core's caches forget in real time what a node leaves alone in virtual time. On a machine of one's
/// own they hardly do; where neighbours use them, each slice begins with fetching data that the target would still
/// have. How many lines that is depends on the program, which nothing here can count: up to as many as the probe
/// looks at.
///
/// Of several cores, that on which such a program loses most.
pub fn caches(found: &[(usize, Staleness)], sharing: &Sharing, tdf: Tdf) -> Judgement {
    let unit = "ns a line";
    if tdf == Tdf::ONE {
        return Judgement::unmeasured(
            unit,
            "The run was not dilated: caches forgot no sooner than on the target.".into(),
        );
    }
    let lost_on = |(core, found): &(usize, Staleness)| {
        let slice = sharing.slice_on(*core)?;
        Some((lost(found.late.saturating_sub(found.soon), slice), slice))
    };
    let part = |of: &(usize, Staleness)| lost_on(of).map_or(0.0, |(part, _)| part);
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
    let Some((lost, slice)) = lost_on(worst) else {
        let says = format!("{measured}; how many a node fetched anew is not known.");
        return Judgement { value: Some(late), ..Judgement::unmeasured(unit, says) };
    };
    let says = format!(
        "{measured}: a program that fetches 64 KiB again in each of its slices of {} ms lost {} % of them.",
        number(slice.as_secs_f64() * 1e3),
        number(100.0 * lost)
    );
    Judgement::with(late, unit, [Effect::Work([0.0, 100.0 * lost / (1.0 - lost)])], says)
}
