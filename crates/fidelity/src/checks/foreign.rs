//! Processes that are not the run's, on its cores.

use super::Judgement;
use crate::observations::Occurrence;
use crate::wording::{number, span};

/// Others' use of the nodes' core, per cent of it: what one ordinary process can get beside a run.
pub const FOREIGN_NODES: f64 = 1.0;
/// The time for which one thread of others may have or want the nodes' core, per cent.
pub const WANTED_NODES: f64 = 80.0;
/// Others' use of the harness core, per cent of it.
pub const FOREIGN_HARNESS: f64 = 20.0;

/// Processes that are not the run's, on the nodes' core: how much of it they used, and for how long one of them wanted
/// it.
///
/// A busy loop beside a run gets less of the core than the odd daemon that happens to be there, because the run's
/// groups outweigh it a hundred times. What tells it from them is that it always wants more.
pub fn foreign_load_nodes(used: Option<&Occurrence>, wanted: Option<&Occurrence>) -> Judgement {
    let by_use = foreign(used, FOREIGN_NODES, "nodes' core");
    let Some(wanted) = wanted.filter(|_| by_use.ok != Some(false)) else { return by_use };
    let who = wanted.whose.as_deref().unwrap_or("no thread");
    let used = used.map_or(String::new(), |used| format!("; all together used at most {} % of it", number(used.value)));
    let says = format!(
        "Of all that is not the run's, {who} had or wanted the nodes' core for the longest, {} % of the time, \
         {}{used}.",
        number(wanted.value),
        span(wanted)
    );
    Judgement::at_most(wanted.value, WANTED_NODES, "% of the time", says)
}

/// Processes that are not the run's, on the core of emulator, injector and engine.
pub fn foreign_load_harness(worst: Option<&Occurrence>) -> Judgement {
    foreign(worst, FOREIGN_HARNESS, "harness core")
}

fn foreign(worst: Option<&Occurrence>, limit: f64, core: &str) -> Judgement {
    let Some(worst) = worst else {
        return Judgement::unmeasured("% of the core", "Too short a run to measure it.".into());
    };
    let who = worst.whose.as_ref().map_or(String::new(), |who| format!(", mostly {who}"));
    let says = format!(
        "Processes that are not the run's used at most {} % of the {core}, {}{who}.",
        number(worst.value),
        span(worst)
    );
    Judgement::at_most(worst.value, limit, "% of the core", says)
}
