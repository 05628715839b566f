//! Processes that are not the run's, on its cores.

use super::Judgement;
use super::cpu::missing;
use crate::evidence::Pace;
use crate::observations::{Observations, Occurrence};
use crate::wording::{number, span};

/// Processes that are not the run's, on the nodes' core: how much of it they used, and who wanted it for longest.
///
/// Their average use is what nodes lacked. A busy loop beside a run gets less of the core than the odd daemon
/// that happens to be there, because the run's groups outweigh it a hundred times.
pub fn foreign_load_nodes(seen: &Observations, pace: Pace) -> Judgement {
    let unit = "% of the core";
    let Some(worst) = &seen.foreign_nodes else {
        return Judgement::unmeasured(unit, "Too short a run to measure it.".into());
    };
    let taken = seen.foreign_nodes_percent.unwrap_or(worst.value);
    let wanted = seen.wanted_nodes.as_ref().and_then(|wanted| {
        let who = wanted.whose.as_ref()?;
        Some(format!(
            " {who} had or wanted it for the longest, {} % of the time, {}.",
            number(wanted.value),
            span(wanted)
        ))
    });
    let (core, average) = match seen.nodes_cores {
        0 | 1 => ("the nodes' core", "On average it was"),
        _ => ("one of the nodes' cores", "On average it was at most"),
    };
    let says = format!("{} {average} {} %.{}", used(worst, core), number(taken), wanted.unwrap_or_default());
    Judgement::with(worst.value, unit, [missing(taken, pace)], says)
}

/// Processes that are not the run's, on the core of emulator, injector and engine. What they do there shows in late
/// frames and in nothing else.
pub fn foreign_load_harness(worst: Option<&Occurrence>) -> Judgement {
    let unit = "% of the core";
    let Some(worst) = worst else { return Judgement::unmeasured(unit, "Too short a run to measure it.".into()) };
    let says = format!("{} What that delays shows in emulator-lateness.", used(worst, "the harness core"));
    Judgement::with(worst.value, unit, [], says)
}

fn used(worst: &Occurrence, core: &str) -> String {
    let who = worst.whose.as_ref().map_or(String::new(), |who| format!(", mostly {who}"));
    format!("Processes that are not the run's used at most {} % of {core}, {}{who}.", number(worst.value), span(worst))
}
