//! Which cables lie between two places.

use std::collections::{HashMap, VecDeque};

use crate::error::Error;
use crate::harness::Harness;

/// The cables of a harness, by what they are for.
#[derive(Clone, Debug)]
pub(crate) struct Wiring {
    /// By place: the cables to each switch that it is joined with. A switch has one to itself, without cables.
    pub doors: Vec<Vec<Door>>,
    /// Cables between two machines, by their places in ascending order.
    pub direct: HashMap<(usize, usize), Vec<usize>>,
    /// From a switch to another, as `from * switches + to`: the cables between, and the switches passed but for the
    /// first.
    pub paths: Vec<Option<Vec<(usize, usize)>>>,
    /// How many switches there are.
    pub switches: usize,
}

/// A place's cables to one switch.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    pub switch: usize,
    pub cables: Vec<usize>,
}

impl Wiring {
    /// Fails if trunks form a circle, in which it would not be known which way packets take.
    pub(crate) fn of(harness: &Harness) -> Result<Wiring, Error> {
        let mut switch_of = vec![None; harness.places.len()];
        let mut switches = Vec::new();
        for (i, _) in harness.places.iter().enumerate().filter(|(_, place)| place.switch) {
            switch_of[i] = Some(switches.len());
            switches.push(i);
        }
        if let Some((cable, circle)) = circle(harness) {
            let names: Vec<&str> = circle.iter().map(|place| harness.places[*place].name.as_str()).collect();
            return Err(Error::Input(circle_sentence(&harness.cables[cable].name, &names)));
        }
        let mut doors: Vec<Vec<Door>> = vec![Vec::new(); harness.places.len()];
        let mut direct: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
        let mut trunks: Vec<Vec<(usize, usize)>> = vec![Vec::new(); switches.len()];
        for (i, place) in switches.iter().enumerate() {
            doors[*place].push(Door { switch: i, cables: Vec::new() });
        }
        for (c, cable) in harness.cables.iter().enumerate() {
            let [a, b] = cable.ends;
            match (switch_of[a], switch_of[b]) {
                (Some(s), Some(t)) => {
                    trunks[s].push((c, t));
                    trunks[t].push((c, s));
                }
                (None, Some(switch)) => open(&mut doors[a], switch, c),
                (Some(switch), None) => open(&mut doors[b], switch, c),
                (None, None) => direct.entry((a.min(b), a.max(b))).or_default().push(c),
            }
        }
        let n = switches.len();
        let mut paths = vec![None; n * n];
        for from in 0..n {
            paths[from * n + from] = Some(Vec::new());
            let mut next = VecDeque::from([from]);
            while let Some(here) = next.pop_front() {
                for (cable, to) in &trunks[here] {
                    if paths[from * n + to].is_none() {
                        let mut path: Vec<(usize, usize)> = paths[from * n + here].clone().unwrap_or_default();
                        path.push((*cable, *to));
                        paths[from * n + to] = Some(path);
                        next.push_back(*to);
                    }
                }
            }
        }
        Ok(Wiring { doors, direct, paths, switches: n })
    }

    /// The trunks from one switch to another; `None` if there are none.
    pub(crate) fn path(&self, from: usize, to: usize) -> Option<&[(usize, usize)]> {
        self.paths[from * self.switches + to].as_deref()
    }

    /// From each place to each other, what a link of weight 1 costs at least, row by row. `None` where there are too
    /// many places for a table.
    pub(crate) fn distances(&self, cable: f64, trunk: f64) -> Option<Vec<f32>> {
        const MOST: usize = 1500;
        let n = self.doors.len();
        if n > MOST {
            return None;
        }
        let mut all = vec![trunk as f32; n * n];
        for p in 0..n {
            for q in 0..n {
                let ways = self.doors[p].iter().flat_map(|out| self.doors[q].iter().map(move |into| (out, into)));
                let lengths = ways.filter_map(|(out, into)| {
                    let ends = usize::from(!out.cables.is_empty()) + usize::from(!into.cables.is_empty());
                    Some(ends as f64 * cable + self.path(out.switch, into.switch)?.len() as f64 * trunk)
                });
                let direct = self.direct.get(&(p.min(q), p.max(q))).map(|_| cable);
                if let Some(least) = lengths.chain(direct).min_by(f64::total_cmp) {
                    all[p * n + q] = least as f32;
                }
            }
            all[p * n + p] = 0.0;
        }
        Some(all)
    }
}

fn open(doors: &mut Vec<Door>, switch: usize, cable: usize) {
    match doors.iter_mut().find(|door| door.switch == switch) {
        Some(door) => door.cables.push(cable),
        None => doors.push(Door { switch, cables: vec![cable] }),
    }
}

/// The first trunk that closes a circle of switches, and the places in that circle.
pub(crate) fn circle(harness: &Harness) -> Option<(usize, Vec<usize>)> {
    let mut joined: HashMap<usize, Vec<usize>> = HashMap::new();
    for (c, cable) in harness.cables.iter().enumerate() {
        let [a, b] = cable.ends;
        if !(harness.places[a].switch && harness.places[b].switch) {
            continue;
        }
        if let Some(way) = way(&joined, a, b) {
            return Some((c, way));
        }
        joined.entry(a).or_default().push(b);
        joined.entry(b).or_default().push(a);
    }
    None
}

/// The places on the way from one to another, both included.
fn way(joined: &HashMap<usize, Vec<usize>>, from: usize, to: usize) -> Option<Vec<usize>> {
    let mut before: HashMap<usize, usize> = HashMap::from([(from, from)]);
    let mut next = VecDeque::from([from]);
    while let Some(here) = next.pop_front() {
        if here == to {
            let mut way = vec![to];
            while let Some(previous) = way.last().filter(|last| **last != from).map(|last| before[last]) {
                way.push(previous);
            }
            way.reverse();
            return Some(way);
        }
        for near in joined.get(&here).into_iter().flatten() {
            before.entry(*near).or_insert_with(|| {
                next.push_back(*near);
                here
            });
        }
    }
    None
}

/// The fault of a circle, and what would be right.
pub(crate) fn circle_sentence(cable: &str, places: &[&str]) -> String {
    match places {
        [only] => format!("the trunk `{cable}` joins the switch `{only}` with itself: remove it"),
        [a, b] => format!(
            "the trunk `{cable}` is the second between the switches `{a}` and `{b}`, and Ethernet would leave one \
             unused: write one trunk with `count: 2` if they are bundled, or remove one"
        ),
        _ => format!(
            "the trunk `{cable}` closes a circle of switches ({}), in which Ethernet would leave one trunk unused: \
             remove the one that is",
            places.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Cable, Place};

    fn harness(switches: usize, trunks: &[[usize; 2]]) -> Harness {
        let cable = |ends: &[usize; 2]| Cable {
            name: format!("{}-{}", ends[0], ends[1]),
            ends: *ends,
            bits_per_s: 1e9,
            kinds: Vec::new(),
        };
        Harness {
            places: (0..switches).map(|i| Place::switch(format!("s{i}"))).collect(),
            cables: trunks.iter().map(cable).collect(),
            ..Harness::default()
        }
    }

    #[test]
    fn ways_between_switches_are_those_of_the_tree() {
        let wiring = Wiring::of(&harness(5, &[[0, 1], [1, 2], [1, 3]])).unwrap();
        assert_eq!(wiring.path(0, 3), Some(&[(0, 1), (2, 3)][..]));
        assert_eq!(wiring.path(2, 2), Some(&[][..]));
        assert_eq!(wiring.path(0, 4), None, "no trunk leads there");
        let far = wiring.distances(0.5, 4.0).unwrap();
        assert_eq!(far[..5], [0.0, 4.0, 8.0, 8.0, 4.0], "from the first; where there is no way, as one trunk");
    }

    #[test]
    fn a_circle_is_refused_with_those_in_it() {
        let what = |trunks: &[[usize; 2]]| Wiring::of(&harness(4, trunks)).unwrap_err().to_string();
        let three = what(&[[0, 1], [1, 2], [2, 3], [3, 1]]);
        assert!(three.contains("`3-1` closes a circle of switches (s3, s2, s1)"), "{three}");
        assert!(what(&[[0, 1], [0, 1]]).contains("second between the switches `s0` and `s1`"));
        assert!(what(&[[2, 2]]).contains("joins the switch `s2` with itself"));
    }
}
