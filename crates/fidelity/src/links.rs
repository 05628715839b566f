//! Links that decide how much nodes get done, where no CPU does.
//!
//! Operations through a link that is always busy go no faster, however fast nodes are: who is done sooner waits
//! for the link for longer. So the metrics of nodes whose traffic goes through it nearly all are not changed by
//! what nodes' work takes, as long as that fits into what is waited for the link.

use crate::effects::{Change, Effect, Times, Usage};
use crate::units::Kind;

/// From this part of the time on that it is busy, a link decides.
const DECIDES: f64 = 0.95;
/// If no node has more to do than this part of what it can, and no operation is more work than this part of it.
const FAR_BELOW: f64 = 0.5;
/// Nearly all of a node's traffic is all but this part.
const BESIDE: f64 = 0.1;

/// One direction of a link, in the time that is measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeUse {
    /// The part of the time in which it was sending.
    pub busy: f64,
    /// How long a frame waited for that on average, with those before it and its own sending, virtual s.
    pub waited_s: f64,
    /// The bytes that went through it.
    pub bytes: u64,
    /// The nodes that send to some other through it.
    pub from: Vec<usize>,
    /// The nodes that hear from some other through it.
    pub to: Vec<usize>,
}

/// The traffic of all pipes and all nodes in the time that is measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkUse {
    /// Pipes that may decide.
    pub pipes: Vec<PipeUse>,
    /// By node, the bytes that it sent, and those that it was handed.
    pub nodes: Vec<[u64; 2]>,
}

/// The link that decides how much some nodes get done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bottleneck {
    busy: f64,
    waited_s: f64,
}

impl PipeUse {
    /// Whether it is busy enough to decide anything.
    pub fn may_decide(&self) -> bool {
        self.busy >= DECIDES
    }

    /// Whether nearly all that a node sends, or nearly all that it is handed, goes through this, whoever it is that the
    /// others talk to.
    fn carries_all_of(&self, node: usize, nodes: &[[u64; 2]]) -> bool {
        let sides = [(0, &self.from), (1, &self.to)];
        sides.into_iter().any(|(side, members)| {
            let all: u64 = members.iter().filter_map(|member| nodes.get(*member)).map(|bytes| bytes[side]).sum();
            let own = nodes.get(node).map_or(0, |bytes| bytes[side]) as f64;
            // The traffic that did not go through it may all be this one's.
            members.contains(&node) && own > 0.0 && all.saturating_sub(self.bytes) as f64 <= BESIDE * own
        })
    }
}

impl LinkUse {
    /// The link that decides what all of these nodes get done, if there is one.
    pub fn deciding(&self, of: &[usize]) -> Option<Bottleneck> {
        let decides = |pipe: &&PipeUse| {
            pipe.may_decide() && !of.is_empty() && of.iter().all(|node| pipe.carries_all_of(*node, &self.nodes))
        };
        let most = self.pipes.iter().filter(decides).max_by(|a, b| a.busy.total_cmp(&b.busy))?;
        Some(Bottleneck { busy: most.busy.min(1.0), waited_s: most.waited_s })
    }
}

impl Bottleneck {
    /// Whether the operations of a metric wait for this and for no CPU: those of these `times`, of which so large a
    /// `part` is work, or whatever nodes do if they are not known.
    pub fn decides(&self, usage: &Usage, times: Option<&Times>, part: f64) -> bool {
        let waits = |times: &Times| times.mean >= self.waited_s && part <= FAR_BELOW;
        usage.busiest() <= FAR_BELOW && times.is_none_or(waits)
    }

    /// The rest of a change of times where it [decides](Bottleneck::decides).
    ///
    /// A rate is at most as much higher on the target as the link was idle. So are times shorter, if users think no
    /// longer than they wait. What takes longer on the target is waited for the link for less.
    pub fn bounded(&self, effect: &Effect, change: Change, kind: Kind, times: Option<&Times>) -> Change {
        let most = match (effect, kind) {
            (Effect::Work(_), Kind::Rate) => 1.0 / self.busy - 1.0,
            (Effect::Work(_), Kind::Time { .. }) => 1.0 / (2.0 * self.busy - 1.0) - 1.0,
            _ => return change,
        };
        let fits = |times: &Times| -change.centre[0] / 100.0 * times.mean <= self.waited_s;
        let least = if times.is_none_or(fits) { 0.0 } else { f64::NEG_INFINITY };
        change.within([least, 100.0 * most])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server's link to a switch, through which two clients fetch from it; they ask for it in another pipe.
    fn fetching(busy: f64, beside: u64) -> LinkUse {
        let pipe = PipeUse { busy, waited_s: 0.04, bytes: 10_000_000, from: vec![0], to: vec![1, 2, 3] };
        LinkUse {
            pipes: vec![pipe],
            nodes: vec![[10_000_000, 300_000], [150_000, 4_000_000], [150_000, 6_000_000], [beside, beside]],
        }
    }

    #[test]
    fn a_link_decides_what_those_get_done_whose_traffic_goes_through_it() {
        assert!(fetching(1.0, 0).deciding(&[1, 2]).is_some() && fetching(1.0, 0).deciding(&[0]).is_some());
        assert_eq!(fetching(0.9, 0).deciding(&[1, 2]), None, "it has time left");
        assert_eq!(fetching(1.0, 0).deciding(&[1, 3]), None, "one gets nothing through it");
        // Another node hears from one of the clients as much as may be a part of what they are handed.
        assert!(fetching(1.0, 300_000).deciding(&[1, 2]).is_some());
        assert_eq!(fetching(1.0, 500_000).deciding(&[1, 2]), None);
        assert!(fetching(1.0, 500_000).deciding(&[2]).is_some());
        assert_eq!(fetching(1.0, 0).deciding(&[]), None);
        assert_eq!(fetching(1.0, 0).deciding(&[7]), None);
    }

    #[test]
    fn what_work_takes_changes_no_more_than_the_link_leaves() {
        let link = Bottleneck { busy: 0.99, waited_s: 0.04 };
        let times = Times { n: 1500.0, samples: 1500, mean: 0.05, p90: 0.06 };
        let time = Kind::Time { seconds: 1.0 };
        let of = |effect: Effect, range, kind| {
            let change = Change { centre: range, tail: range };
            link.bounded(&effect, change, kind, Some(&times)).centre
        };
        let near = |is: [f64; 2], [low, high]: [f64; 2]| (is[0] - low).abs() < 0.01 && (is[1] - high).abs() < 0.01;
        let work = Effect::Work([-50.0, 80.0]);
        assert!(near(of(work, [-50.0, 30.0], Kind::Rate), [0.0, 1.01]), "half of 50 ms are waited for the link");
        assert!(near(of(work, [-85.0, 30.0], Kind::Rate), [-85.0, 1.01]), "43 ms are not");
        assert!(near(of(work, [-50.0, 30.0], time), [0.0, 2.04]));
        assert!(near(of(work, [0.0, 0.5], time), [0.0, 0.5]), "less is less");
        for (effect, kind) in [(Effect::Everything([-3.0, 3.0]), Kind::Rate), (work, Kind::Other)] {
            assert_eq!(of(effect, [-3.0, 3.0], kind), [-3.0, 3.0], "{effect:?}");
        }
    }

    #[test]
    fn nodes_with_much_to_do_decide_themselves() {
        let link = Bottleneck { busy: 1.0, waited_s: 0.04 };
        let usage = |busy| Usage { busy: vec![busy], ..Usage::default() };
        let times = |mean| Times { n: 100.0, samples: 100, mean, p90: mean };
        assert!(link.decides(&usage(0.2), Some(&times(0.05)), 0.1) && link.decides(&usage(0.2), None, 1.0));
        assert!(!link.decides(&usage(0.7), Some(&times(0.05)), 0.1), "a busy node");
        assert!(!link.decides(&usage(0.2), Some(&times(0.05)), 0.6), "operations that are work");
        assert!(!link.decides(&usage(0.2), Some(&times(0.01)), 0.1), "operations that cannot have waited for it");
    }
}
