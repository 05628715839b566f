//! When nodes have turns of the longest length.
//!
//! Three lengths near each other tell nothing of a node that loses a third of each alike. The longest turn that there
//! is, of which little is lost by anybody, tells how much of the others is; but a node that has such turns waits long
//! for them, and has others wait. So one node of each core has them for a moment, seldom, and that is a *window*.

use std::collections::BTreeMap;

use scale::RealDuration;

/// How long a window is, in cycles of the node: those that are not counted, as what is done in them was begun in turns
/// of another length, and those that are.
const WASH_OUT: f64 = 2.0;
const COUNTED: f64 = 8.0;
/// Bounds of a window: less is no time for a program to get anything done; and of a longer one, the core and the node
/// would have changed by its end.
const SHORTEST: RealDuration = RealDuration::from_nanos(100_000_000);
const LONGEST: RealDuration = RealDuration::from_nanos(2_500_000_000);
/// Nodes whose turns are longer than this part of the longest learn little from that.
const MUCH_SHORTER: f64 = 0.4;
/// A node that uses less than this part of its share does too little in a window.
const BUSY: f64 = 0.1;

/// The part of a run's time that the windows of a node take, and those of all nodes of a core.
const OF_A_NODE: f64 = 0.04;
const OF_A_CORE: f64 = 0.06;
/// The first window is worth more than later ones, and is had in advance: up to so many times that part.
const IN_ADVANCE: f64 = 1.5;
/// How many rounds of the other lengths come before it.
const ROUNDS_BEFORE: u32 = 2;

/// A node, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The core that it is on.
    pub core: usize,
    /// Its share of that.
    pub share: f64,
    /// The mean length of its turns.
    pub turn: RealDuration,
    /// How long they are in a window.
    pub window: RealDuration,
}

/// Some nodes have the longest turns, of each core one at most. All others have those of middle length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Which.
    pub nodes: Vec<usize>,
    /// The first part of its time, in which is not counted.
    pub wash_out: RealDuration,
    /// The rest of it, in which is counted.
    pub counted: RealDuration,
}

/// Says when there are windows, and whose.
///
/// The same run has the same windows, but for chance in how much CPU its nodes use: those that use most have theirs
/// first.
#[derive(Clone, Debug)]
pub struct Windows {
    nodes: Vec<Node>,
    lasts: RealDuration,
    rounds: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    core: usize,
    share: f64,
    /// How long a window of it is; `None` if it has none.
    window: Option<RealDuration>,
    /// For how long it has had windows.
    had: RealDuration,
}

/// Whether a node of this share, whose turns are so long, can have windows at all: of turns so much longer that it
/// learns from them, and no longer than a window may be.
pub(crate) fn possible(share: f64, turn: RealDuration) -> bool {
    window_of(share, turn.as_secs_f64() / MUCH_SHORTER) <= LONGEST
}

/// How long a window is in which the turns of a node of this share take so many s.
fn window_of(share: f64, turn_s: f64) -> RealDuration {
    RealDuration::from_secs_f64((WASH_OUT + COUNTED) * turn_s / f64::max(share, 1e-6)).max(SHORTEST)
}

impl Windows {
    /// For a run that lasts for at least so long; zero if nobody knows.
    pub fn new(nodes: impl IntoIterator<Item = Candidate>, lasts: RealDuration) -> Windows {
        let node = |Candidate { core, share, turn, window }| {
            let takes = window_of(share, window.as_secs_f64());
            let learns = turn.as_secs_f64() <= MUCH_SHORTER * window.as_secs_f64();
            Node {
                core,
                share,
                window: Some(takes).filter(|takes| learns && *takes <= LONGEST),
                had: RealDuration::ZERO,
            }
        };
        Windows { nodes: nodes.into_iter().map(node).collect(), lasts, rounds: 0 }
    }

    /// Whether there is a window now, at the end of a round of the other lengths; `at` is the time since the start, and
    /// `used` the CPU time of each node in it.
    pub fn next(&mut self, at: RealDuration, used: &[RealDuration]) -> Option<Window> {
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds < ROUNDS_BEFORE {
            return None;
        }
        let mut cores: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        (0..self.nodes.len()).for_each(|node| cores.entry(self.nodes[node].core).or_default().push(node));
        let due: Vec<_> = cores.into_values().filter_map(|of_core| self.due(of_core, at, used)).collect();
        let length = due.iter().map(|(_, length)| *length).max()?;
        // Windows that are much shorter have another time.
        let alike = due.iter().filter(|(_, one)| one.as_nanos() >= length.as_nanos() / 2);
        let nodes: Vec<_> = alike.map(|(node, _)| *node).collect();
        nodes.iter().for_each(|node| self.nodes[*node].had = self.nodes[*node].had + length);
        let wash_out = RealDuration::from_secs_f64(length.as_secs_f64() * WASH_OUT / (WASH_OUT + COUNTED));
        Some(Window { nodes, wash_out, counted: length.saturating_sub(wash_out) })
    }

    /// Which of the nodes of a core is to have a window, and how long that is.
    fn due(&self, mut of_core: Vec<usize>, at: RealDuration, used: &[RealDuration]) -> Option<(usize, RealDuration)> {
        let now = at.as_secs_f64();
        let lasts = self.lasts.as_secs_f64().max(now);
        let secs = |node: usize| self.nodes[node].had.as_secs_f64();
        let had: f64 = of_core.iter().map(|node| secs(*node)).sum();
        of_core.sort_by_key(|node| std::cmp::Reverse(used.get(*node).copied()));
        let mut left = OF_A_CORE;
        for node in of_core {
            let Node { share, window: Some(window), .. } = self.nodes[node] else { continue };
            let busy = used.get(node).map_or(0.0, |used| used.as_secs_f64()) >= BUSY * share * now;
            let (part, takes) = (OF_A_NODE.min(left), window.as_secs_f64());
            left -= part;
            let may_have = (takes + part * now).min(IN_ADVANCE * part * lasts);
            if busy && secs(node) + takes <= may_have && had + takes <= OF_A_CORE * lasts {
                return Some((node, window));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::LONGEST_SLICE;

    fn secs(s: f64) -> RealDuration {
        RealDuration::from_secs_f64(s)
    }

    fn of(core: usize, share: f64, turn_us: u64) -> Candidate {
        Candidate { core, share, turn: RealDuration::from_nanos(turn_us * 1_000), window: LONGEST_SLICE }
    }

    /// The windows of a run of so many seconds, each with when it began, in rounds of `round` s; nodes use a part of
    /// their shares.
    fn windows(nodes: &[(Candidate, f64)], lasts: f64, known: bool, round: f64) -> Vec<(f64, Window)> {
        let known = if known { secs(lasts) } else { RealDuration::ZERO };
        let mut windows = Windows::new(nodes.iter().map(|(node, _)| *node), known);
        let (mut now, mut all) = (0.0, Vec::new());
        while now < lasts {
            now += round;
            let used: Vec<_> = nodes.iter().map(|(node, uses)| secs(node.share * uses * now)).collect();
            if let Some(window) = windows.next(secs(now), &used) {
                all.push((now, window.clone()));
                now += (window.wash_out + window.counted).as_secs_f64();
            }
        }
        all
    }

    fn took(windows: &[(f64, Window)], node: usize) -> f64 {
        let own = windows.iter().filter(|(_, window)| window.nodes.contains(&node));
        own.map(|(_, window)| (window.wash_out + window.counted).as_secs_f64()).sum()
    }

    #[test]
    fn a_busy_node_has_windows_of_some_of_its_cycles() {
        let all = windows(&[(of(0, 0.03, 300), 0.9), (of(0, 0.005, 190), 0.9)], 100.0, true, 0.6);
        assert!(all.iter().all(|(_, window)| window.nodes == [0]), "a window of the small one would last 6 s: {all:?}");
        assert!(all.iter().all(|(_, window)| window.counted.as_nanos().abs_diff(800_000_000) < 2), "{all:?}");
        assert!(all[0].0 < 2.0 && (4..=6).contains(&all.len()), "the first is at once: {all:?}");
        assert!(all.windows(2).skip(1).all(|two| two[1].0 - two[0].0 > 20.0), "{all:?}");
    }

    #[test]
    fn nodes_that_come_round_too_rarely_can_have_none() {
        let us = |us: u64| RealDuration::from_nanos(us * 1_000);
        assert!(possible(0.03, us(300)) && possible(0.005, us(190)));
        assert!(!possible(0.0006, us(100)) && !possible(0.01, us(1_400)) && !possible(0.0, us(100)));
    }

    #[test]
    fn windows_take_a_small_part_of_any_run() {
        for count in [1, 2, 3, 10] {
            for (lasts, share) in [(5.0, 0.3), (20.0, 0.3), (50.0, 0.03), (54.0, 0.05), (300.0, 0.03), (40.0, 0.013)] {
                let nodes = vec![(of(0, share / count as f64, 200), 1.0); count];
                for known in [true, false] {
                    let all = windows(&nodes, lasts, known, 0.6);
                    let together: f64 = (0..count).map(|node| took(&all, node)).sum();
                    assert!(together <= 0.0601 * lasts, "{together} of {lasts} s");
                    let most = (0..count).map(|node| took(&all, node)).fold(0.0, f64::max);
                    assert!(most <= 0.06 * lasts, "{most} of {lasts} s");
                }
            }
        }
        assert_eq!(windows(&[(of(0, 0.03, 300), 1.0)], 10.0, true, 0.6), [], "a second would be a tenth of it");
        assert!(windows(&[(of(0, 0.03, 300), 1.0)], 20.0, true, 0.6).len() == 1);
        let unknown = windows(&[(of(0, 0.03, 300), 1.0)], 60.0, false, 0.6);
        assert!((15.0..20.0).contains(&unknown[0].0), "{unknown:?}");
    }

    #[test]
    fn baseline_and_scaled_run_have_the_same_windows() {
        let of_run = |tdf: f64| windows(&[(of(0, 0.3 / tdf, 300), 0.9)], 5.0 * tdf, true, 0.06 * tdf);
        let virtually = |tdf: f64| of_run(tdf).into_iter().map(|(at, _)| at / tdf).collect::<Vec<_>>();
        let (baseline, scaled) = (virtually(1.0), virtually(10.0));
        assert!(baseline.len() == scaled.len() && !scaled.is_empty(), "{baseline:?}, {scaled:?}");
        assert!(baseline.iter().zip(&scaled).all(|(a, b)| (a - b).abs() < 0.1), "{baseline:?}, {scaled:?}");
    }

    #[test]
    fn those_who_use_most_are_first() {
        let nodes = [(of(0, 0.06, 200), 0.2), (of(0, 0.05, 200), 0.9), (of(0, 0.06, 200), 0.05)];
        let all = windows(&nodes, 200.0, true, 0.6);
        let [lazy, busy, idle] = [0, 1, 2].map(|node| took(&all, node));
        assert_eq!((all[0].1.nodes.as_slice(), idle), (&[1][..], 0.0));
        assert!(lazy > 0.01 * 200.0 && busy > 1.5 * lazy && busy < 0.05 * 200.0, "{busy}, {lazy}");
    }

    #[test]
    fn who_has_long_turns_already_has_no_windows() {
        assert_eq!(windows(&[(of(0, 0.3, 1_500), 1.0)], 100.0, true, 0.6), []);
        assert_eq!(windows(&[(of(0, 0.0, 100), 1.0)], 100.0, true, 0.6), []);
        assert_eq!(windows(&[], 100.0, true, 0.6), []);
    }

    #[test]
    fn nodes_of_different_cores_have_windows_at_once() {
        let nodes = [(of(0, 0.03, 200), 1.0), (of(4, 0.04, 200), 1.0), (of(5, 0.3, 200), 1.0), (of(4, 0.04, 200), 0.5)];
        let all = windows(&nodes, 100.0, true, 0.6);
        let first: Vec<_> = all.iter().take(3).map(|(_, window)| window.nodes.as_slice()).collect();
        assert_eq!(first, [&[0, 1][..], &[3], &[2]], "what is much shorter comes later");
        for (_, window) in &all {
            let mut cores: Vec<_> = window.nodes.iter().map(|node| nodes[*node].0.core).collect();
            cores.dedup();
            assert_eq!(cores.len(), window.nodes.len());
        }
        assert!((0..3).all(|node| (0.02 * 100.0..=0.06 * 100.0).contains(&took(&all, node))), "{all:?}");
    }
}
