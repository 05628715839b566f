//! Caches, which forget in real time.

use scale::Tdf;

use super::Judgement;
use crate::evidence::Caches;
use crate::observations::Observations;
use crate::wording::number;

/// What a line of memory may cost after a virtual millisecond, ns, if a node always wanted its CPU: more than it costs
/// from the third-level cache of any server.
pub const LINE_SATURATED: f64 = 30.0;
/// The same if none did: most of what it costs from main memory. Up to 40 a web server that is half busy had the right
/// latencies; from 82 on they were a fifth longer.
pub const LINE: f64 = 60.0;
/// The part of its CPU below which it makes no difference to a node what its work costs.
pub const LITTLE: f64 = 0.1;

/// Not modelled: a core's caches forget in real time what a node leaves alone in virtual time. On a machine of one's
/// own they hardly do; where neighbours use them, a node does less work than its target with the CPU time that it is
/// entitled to. How much less depends on how many lines its programs need, which nothing here can count; the limits are
/// where real servers were seen to be off.
pub fn caches(found: Option<&Caches>, seen: &Observations, tdf: Tdf) -> Judgement {
    let unit = "ns a line";
    if tdf == Tdf::ONE {
        return Judgement::unmeasured(
            unit,
            "The run was not dilated: caches forgot no sooner than on the target.".into(),
        );
    }
    let Some(found) = found else {
        return Judgement::unmeasured(unit, "How long caches keep data on the nodes' core was not measured.".into());
    };
    let late = found.late.as_nanos() as f64;
    let measured = format!(
        "A line of memory untouched for {} real ms cost {} ns, after 1 ms {} ns",
        number(found.away.as_secs_f64() * 1e3),
        found.late.as_nanos(),
        found.soon.as_nanos()
    );
    let limit = if seen.entitlement.is_some() { LINE_SATURATED } else { LINE };
    match seen.most_dependent_on_cpu().filter(|(_, used)| *used >= LITTLE) {
        Some((node, used)) => {
            let says = format!("{measured}; {node} used {} % of its CPU.", number(100.0 * used));
            Judgement::at_most(late, limit, unit, says)
        }
        None => {
            let says = format!("{measured}; no node used as much as {} % of its CPU.", number(100.0 * LITTLE));
            Judgement { value: Some(late), ..Judgement::unmeasured(unit, says) }
        }
    }
}
