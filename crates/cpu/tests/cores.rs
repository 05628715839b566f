//! Shares on several cores: each is kept by itself, by one process for all.
//!
//! All cores that this process may use hold nodes but the last, which is what keeps them: on a machine with two, one.

use std::time::Duration;

use crate::common::{alone, engage, left_behind, named, run_id, used, while_busy};
use diorama_cpu::{CpuGroups, NodeShare, Terms};

const WINDOW: Duration = Duration::from_millis(1000);
/// The shares on each core.
const SHARES: [f64; 2] = [0.4, 0.1];

/// The cores that hold nodes.
fn cores() -> Vec<usize> {
    let mut all = host::cores::usable().unwrap();
    all.pop();
    assert!(!all.is_empty(), "these tests need two cores: see `taskset -p $$`");
    all
}

/// Two nodes on each of these cores.
fn engaged(cores: &[usize]) -> (String, CpuGroups) {
    let node = |(i, core, share): (usize, usize, f64)| NodeShare::new(named(i), core, share);
    let placed = cores.iter().flat_map(|core| SHARES.map(|share| (*core, share)));
    let shares: Vec<_> = placed.enumerate().map(|(i, (core, share))| node((i, core, share))).collect();
    let id = run_id();
    let groups = engage(&id, &shares, Terms::default());
    (id, groups)
}

#[test]
fn nodes_of_every_core_get_their_shares_of_it() {
    let _alone = alone();
    let cores = cores();
    let (id, mut groups) = engaged(&cores);
    assert_eq!(groups.cores(), cores);
    let all: Vec<usize> = (0..2 * cores.len()).collect();
    let before = groups.sample().unwrap();
    let used = while_busy(&mut groups, &all, |g| used(g, WINDOW));
    let after = groups.sample().unwrap();
    for (place, core) in cores.iter().enumerate() {
        let [large, small] = [used[2 * place].0, used[2 * place + 1].0];
        // In proportion, however much else runs on the core.
        assert!((3.8..4.2).contains(&(large / small)), "core {core}: {large} and {small}");
        assert!(large > 0.3, "core {core}: {large} of it instead of 0.4");
        let [had, run] = [&after.all_ns, &after.run_ns].map(|ns| ns[*core]);
        let [had, run] = [had - before.all_ns[*core], run - before.run_ns[*core]];
        assert!(run as f64 > 0.8 * had as f64, "core {core} worked for the run: {run} of {had} ns");
        let work = after.work_of(*core).unwrap_or_else(|| panic!("no meter on core {core}"));
        assert!(work.units > 0, "{work:?}");
        let first = before.work_of(*core).expect("a meter");
        let [had, wall] = [work.available_ns - first.available_ns, work.at.since(first.at).as_nanos()];
        assert!(had as f64 > 0.8 * wall as f64, "core {core}: {had} of {wall} ns");
    }
    groups.release().unwrap();
    assert!(left_behind(&id).is_empty(), "{:?}", left_behind(&id));
}
