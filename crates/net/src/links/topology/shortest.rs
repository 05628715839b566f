//! Which way a packet goes: the shortest path by delay, from everywhere to everywhere, worked out once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::links::ids::{Edges, PipeId, Vertex};

/// For every place at which a way can part, the pipe by which each other place is reached.
///
/// Nodes and switches with one link are no such places: their own way out is that link, and the way of all others to
/// them is the way to the other end of it. Leaving them out keeps the table small: a star of a thousand nodes has one
/// place.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// By vertex: its place, or that of the other end of its only link.
    home: Vec<u32>,
    /// By vertex: whether it is a place itself.
    placed: Vec<bool>,
    places: usize,
    /// By place and by target place: which of the place's edges leads there.
    slots: Vec<u16>,
}

/// An edge between two places.
struct Hop {
    slot: u16,
    to: u32,
    /// In this direction.
    delay: u64,
    /// In the other direction.
    back: u64,
}

/// Length of a route, of which the least is wanted: first the sum of the delays, then the number of links.
type Length = (u64, u32);

const UNREACHED: Length = (u64::MAX, u32::MAX);

impl Routes {
    /// Works out the routes between all that are joined. `delay` is that of a pipe, in any unit.
    ///
    /// Among routes of equal delay that with fewer links is taken; where these are equal too, the link that stands
    /// first in the order of the links, at each place anew. Every link counts as one, so a route comes nearer to its
    /// end with every link in (delay, links), and none runs in a circle.
    pub fn shortest(edges: &Edges, delay: impl Fn(PipeId) -> u64) -> Routes {
        let single = |v: Vertex| edges[v].len() == 1;
        // Of two that have only each other, the first is a place.
        let leaf = |v: Vertex| single(v) && !(single(edges[v][0].1) && v < edges[v][0].1);
        let placed: Vec<bool> = (0..edges.len()).map(|v| !leaf(v)).collect();
        let mut number = 0..;
        let own: Vec<u32> = placed.iter().map(|p| if *p { number.next().unwrap_or(0) } else { 0 }).collect();
        let home = (0..edges.len()).map(|v| if placed[v] { own[v] } else { own[edges[v][0].1] }).collect();
        let mut hops: Vec<Vec<Hop>> = Vec::new();
        for v in (0..edges.len()).filter(|v| placed[*v]) {
            let between = edges[v].iter().enumerate().filter(|(_, (_, w))| placed[*w]);
            let hop = |(slot, &(pipe, w)): (usize, &(PipeId, Vertex))| Hop {
                slot: slot as u16,
                to: own[w],
                delay: delay(pipe),
                back: delay(pipe.reverse()),
            };
            hops.push(between.map(hop).collect());
        }
        let places = hops.len();
        let mut slots = vec![0; places * places];
        for target in 0..places {
            let lengths = lengths_to(target, &hops);
            for (place, hops) in hops.iter().enumerate() {
                let best = |h: &&Hop| over(lengths[h.to as usize], h.delay) == lengths[place];
                if let Some(hop) = hops.iter().find(best).filter(|_| place != target) {
                    slots[place * places + target] = hop.slot;
                }
            }
        }
        Routes { home, placed, places, slots }
    }

    /// Which edge of `at` leads towards `to`, by its place in the list of edges. `at` is not `to`, and not the only
    /// neighbour of a node `to` with one link; the two are in one part of the network.
    pub fn slot(&self, at: Vertex, to: Vertex) -> usize {
        match self.placed[at] {
            true => usize::from(self.slots[self.home[at] as usize * self.places + self.home[to] as usize]),
            false => 0,
        }
    }
}

/// The length of the shortest route from every place to `target`.
fn lengths_to(target: usize, hops: &[Vec<Hop>]) -> Vec<Length> {
    let mut lengths = vec![UNREACHED; hops.len()];
    lengths[target] = (0, 0);
    let mut open = BinaryHeap::from([Reverse(((0, 0), target as u32))]);
    while let Some(Reverse((length, place))) = open.pop() {
        if length > lengths[place as usize] {
            continue;
        }
        for hop in &hops[place as usize] {
            let longer = over(length, hop.back);
            if longer < lengths[hop.to as usize] {
                lengths[hop.to as usize] = longer;
                open.push(Reverse((longer, hop.to)));
            }
        }
    }
    lengths
}

fn over(length: Length, delay: u64) -> Length {
    (length.0.saturating_add(delay), length.1.saturating_add(1))
}
