//! Nodes to far machines, by what was measured between them: a genetic algorithm.
//!
//! Paths through other people's networks cannot be shaped, so the machines are looked for whose paths are most like the
//! links that are wanted (White and others, *An Integrated Experimental Environment for Distributed Systems and
//! Networks*, OSDI 2002, §5.3: a variation of the quadratic assignment problem). Each solution is scored there by the
//! errors of delay, bandwidth and loss, squared, summed and made comparable, and the geometric mean of the three; here,
//! too, but for two things: to each 1 is added before the mean is taken, and taken away after it, so that one that is
//! met exactly does not hide the others; and an error is that of the logarithm, so that half as much is as bad as
//! twice.
use std::collections::HashMap;

use indexmap::IndexMap;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::harness::{Harness, MeasuredPath};
use crate::instance::{Instance, NONE};
use crate::request::Request;

/// How much delay, bandwidth and loss count against one another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Weight of the delay.
    pub delay: f64,
    /// Weight of the bandwidth.
    pub bandwidth: f64,
    /// Weight of the loss.
    pub loss: f64,
}

impl Default for Weights {
    fn default() -> Weights {
        Weights { delay: 1.0, bandwidth: 1.0, loss: 1.0 }
    }
}

/// The wishes for a link, and what was measured of its path, from its first end to its second and back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Delay one way, in real ms.
    pub delay_ms: [Pair; 2],
    /// Bandwidth, in real Mbit/s; null where one of the two is not known.
    pub mbit_per_s: [Option<Pair>; 2],
    /// Loss, in percent.
    pub loss_percent: [Pair; 2],
}

/// A quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// As the experiment has it.
    pub wanted: f64,
    /// As it was measured.
    pub measured: f64,
}

/// Solutions that live at a time.
const POPULATION: usize = 64;
/// The best of a generation that live on as they are.
const ELITE: usize = 4;
/// So many of a generation compete for each parent.
const TOURNAMENT: usize = 3;
/// It ends when so many generations have brought nothing better.
const PATIENCE: usize = 40;
/// Or after so many.
const GENERATIONS: usize = 400;

/// A delay is not less than this for its logarithm, in seconds; a loss not less than that.
const LEAST_DELAY_S: f64 = 1e-4;
const LEAST_LOSS: f64 = 1e-4;
/// The path that nodes on one machine are taken to have between them.
const INSIDE_BITS_PER_S: f64 = 1e10;
/// The error where nothing was measured: a factor of 20.
const UNKNOWN: f64 = 3.0;

/// Places of nodes on machines between which everything was measured.
pub(crate) struct Wide<'a> {
    request: &'a Request,
    /// By machine and machine: logarithms of delay, bandwidth and loss; none: not measured.
    paths: Vec<Option<[Option<f64>; 3]>>,
    places: usize,
    /// By link and direction, the logarithms that are wanted.
    wanted: Vec<[[Option<f64>; 3]; 2]>,
    near: Vec<Vec<u32>>,
    weights: [f64; 3],
    /// By node: the places where it may be.
    allowed: Vec<Vec<u32>>,
    /// By place: how many nodes it takes.
    slots: Vec<u32>,
    /// How many terms there are of each error.
    terms: [f64; 3],
}

/// A solution.
#[derive(Clone, Debug)]
struct Solution {
    place_of: Vec<u32>,
    errors: [f64; 3],
    score: f64,
}

impl<'a> Wide<'a> {
    pub(crate) fn new(request: &'a Request, harness: &Harness, instance: &Instance, weights: Weights) -> Wide<'a> {
        let n = harness.places.len();
        let mut paths = vec![None; n * n];
        for path in &harness.paths {
            let loss = Some(path.loss.max(LEAST_LOSS).ln());
            let known = [Some(path.delay_s.max(LEAST_DELAY_S).ln()), path.bits_per_s.map(f64::ln), loss];
            paths[path.from * n + path.to] = Some(known);
        }
        // Inside a machine there is no delay and no loss, and more bandwidth than anybody wants.
        for place in 0..n {
            paths[place * n + place] =
                Some([Some(LEAST_DELAY_S.ln()), Some(INSIDE_BITS_PER_S.ln()), Some(LEAST_LOSS.ln())]);
        }
        let wanted: Vec<[[Option<f64>; 3]; 2]> = request
            .links
            .iter()
            .map(|link| {
                link.target.map(|target| {
                    let loss = Some(target.loss.max(LEAST_LOSS).ln());
                    [Some(target.delay_s.max(LEAST_DELAY_S).ln()), target.bits_per_s.map(f64::ln), loss]
                })
            })
            .collect();
        let mut terms = [0.0; 3];
        for direction in wanted.iter().flatten() {
            for (term, wanted) in terms.iter_mut().zip(direction) {
                *term += f64::from(u8::from(wanted.is_some()));
            }
        }
        let mut near = vec![Vec::new(); request.nodes.len()];
        for (number, link) in request.links.iter().enumerate() {
            near[link.ends[0]].push(number as u32);
            near[link.ends[1]].push(number as u32);
        }
        let alone = |item: &crate::instance::Item, place: usize| {
            let room = &instance.places[place];
            instance.fits[item.class][place].wrong == 0.0 && item.core <= room.core && item.memory <= room.memory
        };
        let allowed = instance.items.iter().map(|item| match item.fixed {
            NONE => (0..n).filter(|place| alone(item, *place)).map(|place| place as u32).collect(),
            place => vec![place],
        });
        let slots = instance.places.iter().map(|room| match room.slots {
            slots if room.switch => slots.min(0.0) as u32,
            // One node each, unless the catalog says otherwise.
            slots if slots.is_infinite() => 1,
            slots => slots as u32,
        });
        Wide {
            request,
            paths,
            places: n,
            wanted,
            near,
            weights: [weights.delay, weights.bandwidth, weights.loss],
            allowed: allowed.collect(),
            slots: slots.collect(),
            terms,
        }
    }

    /// The squared errors of a link, if its ends are at these places.
    fn link_errors(&self, link: usize, from: u32, to: u32) -> [f64; 3] {
        let mut errors = [0.0; 3];
        for (direction, (a, b)) in [(from, to), (to, from)].into_iter().enumerate() {
            let path = &self.paths[a as usize * self.places + b as usize];
            for (kind, wanted) in self.wanted[link][direction].iter().enumerate() {
                let Some(wanted) = wanted else { continue };
                errors[kind] += match path.and_then(|path| path[kind]) {
                    Some(measured) => (measured - wanted).powi(2),
                    None => UNKNOWN * UNKNOWN,
                };
            }
        }
        errors
    }

    fn errors(&self, place_of: &[u32]) -> [f64; 3] {
        let mut sum = [0.0; 3];
        for (number, link) in self.request.links.iter().enumerate() {
            let [a, b] = link.ends.map(|end| place_of[end]);
            add(&mut sum, self.link_errors(number, a, b), 1.0);
        }
        sum
    }

    /// The weighted geometric mean of the three mean squared errors.
    fn score(&self, errors: [f64; 3]) -> f64 {
        let all: f64 = self.weights.iter().sum();
        let part = |kind: usize| {
            let mean = if self.terms[kind] > 0.0 { errors[kind] / self.terms[kind] } else { 0.0 };
            self.weights[kind] * mean.max(0.0).ln_1p()
        };
        if all > 0.0 { ((part(0) + part(1) + part(2)) / all).exp_m1() } else { 0.0 }
    }

    fn solution(&self, place_of: Vec<u32>) -> Solution {
        let errors = self.errors(&place_of);
        Solution { score: self.score(errors), errors, place_of }
    }

    /// The best solution that was found, and its score; `None` if there are not enough machines.
    pub(crate) fn search(&self, seed: u64) -> Option<(Vec<u32>, f64)> {
        if self.request.nodes.is_empty() {
            return Some((Vec::new(), 0.0));
        }
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut all: Vec<Solution> = Vec::new();
        for _ in 0..POPULATION {
            let mut made = self.solution(self.completed(vec![NONE; self.request.nodes.len()], &mut rng)?);
            self.climb(&mut made, 1, &mut rng);
            all.push(made);
        }
        let mut since = 0;
        for _ in 0..GENERATIONS {
            all.sort_by(|a, b| a.score.total_cmp(&b.score));
            let best = all[0].score;
            if since >= PATIENCE || best <= 1e-12 {
                break;
            }
            let mut next: Vec<Solution> = all[..ELITE].to_vec();
            while next.len() < POPULATION {
                let [a, b] = [self.parent(&all, &mut rng), self.parent(&all, &mut rng)];
                let Some(mixed) = self.completed(self.mixed(&a.place_of, &b.place_of, &mut rng), &mut rng) else {
                    break;
                };
                let mut child = self.solution(mixed);
                self.climb(&mut child, 1, &mut rng);
                next.push(child);
            }
            since = if next.iter().any(|child| child.score < best - 1e-12) { 0 } else { since + 1 };
            all = next;
        }
        all.sort_by(|a, b| a.score.total_cmp(&b.score));
        let mut best = all.swap_remove(0);
        self.climb(&mut best, 50, &mut rng);
        Some((best.place_of, best.score))
    }

    fn parent<'s>(&self, all: &'s [Solution], rng: &mut Xoshiro256PlusPlus) -> &'s Solution {
        let best = (0..TOURNAMENT)
            .map(|_| rng.random_range(0..all.len()))
            .min_by(|a, b| all[*a].score.total_cmp(&all[*b].score));
        &all[best.unwrap_or(0)]
    }

    /// Nodes around one have the places of one parent, the others those of the other; who finds his place taken has
    /// none.
    fn mixed(&self, a: &[u32], b: &[u32], rng: &mut Xoshiro256PlusPlus) -> Vec<u32> {
        let n = a.len();
        let many = rng.random_range(1..=n.max(2) - 1);
        let mut from_a = vec![false; n];
        let mut grown = vec![rng.random_range(0..n)];
        from_a[grown[0]] = true;
        let mut at = 0;
        while grown.len() < many {
            let Some(here) = grown.get(at).copied() else {
                // The part ends here: another one begins.
                let Some(other) = (0..n).find(|i| !from_a[*i]) else { break };
                from_a[other] = true;
                grown.push(other);
                continue;
            };
            at += 1;
            for link in &self.near[here] {
                let [x, y] = self.request.links[*link as usize].ends;
                let other = if x == here { y } else { x };
                if !from_a[other] && grown.len() < many {
                    from_a[other] = true;
                    grown.push(other);
                }
            }
        }
        let mut left = self.slots.clone();
        let mut place_of = vec![NONE; n];
        for (parent, own) in [(a, true), (b, false)] {
            for node in (0..n).filter(|node| from_a[*node] == own) {
                let place = parent[node];
                if left[place as usize] > 0 {
                    left[place as usize] -= 1;
                    place_of[node] = place;
                }
            }
        }
        // Now and then, somebody goes elsewhere.
        if rng.random::<f64>() < 0.3 {
            let node = rng.random_range(0..n);
            place_of[node] = NONE;
        }
        place_of
    }

    /// Everybody who is nowhere somewhere, those with the fewest possibilities first. `None` if that was not found.
    fn completed(&self, mut place_of: Vec<u32>, rng: &mut Xoshiro256PlusPlus) -> Option<Vec<u32>> {
        let mut left = self.slots.clone();
        for place in place_of.iter().filter(|place| **place != NONE) {
            left[*place as usize] = left[*place as usize].saturating_sub(1);
        }
        let mut open: Vec<usize> = (0..place_of.len()).filter(|node| place_of[*node] == NONE).collect();
        open.sort_by_key(|node| self.allowed[*node].len());
        for node in open {
            let free: Vec<u32> = self.allowed[node].iter().copied().filter(|p| left[*p as usize] > 0).collect();
            if let Some(place) = free.get(rng.random_range(0..free.len().max(1))) {
                left[*place as usize] -= 1;
                place_of[node] = *place;
                continue;
            }
            // Somebody who can be elsewhere makes room.
            let makes_room = |other: &usize| {
                let here = place_of[*other];
                here != NONE && self.allowed[node].contains(&here) && self.free_for(*other, &left).is_some()
            };
            let other = (0..place_of.len()).find(makes_room)?;
            let elsewhere = self.free_for(other, &left)?;
            left[elsewhere as usize] -= 1;
            place_of[node] = std::mem::replace(&mut place_of[other], elsewhere);
        }
        Some(place_of)
    }

    fn free_for(&self, node: usize, left: &[u32]) -> Option<u32> {
        self.allowed[node].iter().copied().find(|place| left[*place as usize] > 0)
    }

    /// Changes places as long as that makes things better, at most so many rounds over all nodes.
    fn climb(&self, solution: &mut Solution, rounds: usize, rng: &mut Xoshiro256PlusPlus) {
        let n = solution.place_of.len();
        let mut who: Vec<Vec<u32>> = vec![Vec::new(); self.places];
        for (node, place) in solution.place_of.iter().enumerate() {
            who[*place as usize].push(node as u32);
        }
        // In one round each node tries so many places.
        let tries = if rounds > 1 { usize::MAX } else { 24 };
        for _ in 0..rounds {
            let mut better = false;
            for node in 0..n {
                let allowed = &self.allowed[node];
                let begin = rng.random_range(0..allowed.len().max(1));
                for step in 0..allowed.len().min(tries) {
                    let place = allowed[(begin + step) % allowed.len()];
                    let here = solution.place_of[node];
                    if place == here {
                        continue;
                    }
                    let full = who[place as usize].len() >= self.slots[place as usize] as usize;
                    let other = full.then(|| who[place as usize][rng.random_range(0..who[place as usize].len())]);
                    if other.is_some_and(|other| !self.allowed[other as usize].contains(&here)) {
                        continue;
                    }
                    let before = (solution.errors, solution.score);
                    self.shift(solution, node, place);
                    if let Some(other) = other {
                        self.shift(solution, other as usize, here);
                    }
                    solution.score = self.score(solution.errors);
                    if solution.score < before.1 - 1e-12 {
                        better = true;
                        who[here as usize].retain(|n| *n != node as u32);
                        who[place as usize].push(node as u32);
                        if let Some(other) = other {
                            who[place as usize].retain(|n| *n != other);
                            who[here as usize].push(other);
                        }
                    } else {
                        solution.place_of[node] = here;
                        if let Some(other) = other {
                            solution.place_of[other as usize] = place;
                        }
                        (solution.errors, solution.score) = before;
                    }
                }
            }
            if !better {
                break;
            }
        }
    }

    fn shift(&self, solution: &mut Solution, node: usize, place: u32) {
        let old = solution.place_of[node];
        for link in &self.near[node] {
            let ends = self.request.links[*link as usize].ends;
            let [a, b] = ends.map(|end| solution.place_of[end]);
            add(&mut solution.errors, self.link_errors(*link as usize, a, b), -1.0);
            let moved = |end: usize, at: u32| if end == node { place } else { at };
            let (a, b) = (moved(ends[0], a), moved(ends[1], b));
            add(&mut solution.errors, self.link_errors(*link as usize, a, b), 1.0);
        }
        debug_assert_eq!(old, solution.place_of[node]);
        solution.place_of[node] = place;
    }
}

fn add(sum: &mut [f64; 3], more: [f64; 3], sign: f64) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += sign * more);
}

/// How many links lead between machines between which nothing was measured.
pub(crate) fn unmeasured(request: &Request, harness: &Harness, place_of: &[u32]) -> usize {
    request.links.len() - compared(request, harness, place_of).len()
}

/// The wishes and what was measured, by link.
pub(crate) fn compared(request: &Request, harness: &Harness, place_of: &[u32]) -> IndexMap<String, Compared> {
    let by_ends: HashMap<(usize, usize), &MeasuredPath> =
        harness.paths.iter().map(|path| ((path.from, path.to), path)).collect();
    // Inside a machine there is nothing to be measured.
    let inside = MeasuredPath { from: 0, to: 0, delay_s: 0.0, bits_per_s: None, loss: 0.0 };
    let measured = |from: u32, to: u32| match from == to {
        true => Some(&inside),
        false => by_ends.get(&(from as usize, to as usize)).copied(),
    };
    let mut all = IndexMap::new();
    for link in &request.links {
        let [a, b] = link.ends.map(|end| place_of[end]);
        let (Some(ab), Some(ba)) = (measured(a, b), measured(b, a)) else { continue };
        let of = |pick: fn(&crate::request::Target, &MeasuredPath) -> Pair| {
            [pick(&link.target[0], ab), pick(&link.target[1], ba)]
        };
        let rate = |target: &crate::request::Target, path: &MeasuredPath| {
            Some(Pair { wanted: target.bits_per_s? / 1e6, measured: path.bits_per_s? / 1e6 })
        };
        all.insert(
            link.name.clone(),
            Compared {
                delay_ms: of(|t, p| Pair { wanted: t.delay_s * 1e3, measured: p.delay_s * 1e3 }),
                mbit_per_s: [rate(&link.target[0], ab), rate(&link.target[1], ba)],
                loss_percent: of(|t, p| Pair { wanted: t.loss * 1e2, measured: p.loss * 1e2 }),
            },
        );
    }
    all
}
