//! Networks of which a good mapping is known, for tests and for the table of `docs/map.md`.
#![allow(dead_code, reason = "the table needs more of it than the tests")]

use diorama_map::{Cable, Harness, Place, Request, Terms, Wanted, WantedLink};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// Nine tenths of each core can be sold.
pub const TERMS: Terms = Terms { usable: 0.9, least: 0.0005, reference: None };

/// So many machines of so many slots, at switches of ten machines each, which one in the middle joins.
pub fn harness(machines: usize, slots: u32) -> Harness {
    let mut harness = Harness::default();
    for i in 0..machines {
        harness.places.push(Place { slots: Some(slots), ..Place::machine(format!("pc{i}")) });
    }
    let cable =
        |name: String, a: usize, b: usize, bits_per_s: f64| Cable { name, ends: [a, b], bits_per_s, kinds: Vec::new() };
    let racks = machines.div_ceil(10);
    for rack in 0..racks {
        harness.places.push(Place::switch(format!("rack{rack}")));
    }
    for i in 0..machines {
        harness.cables.push(cable(format!("pc{i}-rack{}", i / 10), i, machines + i / 10, 1e11));
    }
    if racks > 1 {
        harness.places.push(Place::switch("middle"));
        for rack in 0..racks {
            harness.cables.push(cable(format!("rack{rack}-middle"), machines + rack, machines + racks, 1e12));
        }
    }
    harness
}

fn request(name: &str, nodes: usize, links: &[(usize, usize)]) -> Request {
    let node = |i| Wanted { name: format!("n{i}"), slots: 1, ..Wanted::default() };
    let link = |(a, b): &(usize, usize)| WantedLink {
        name: format!("n{a}--n{b}"),
        ends: [*a, *b],
        bits_per_s: Some(1e8),
        shares: true,
        inside: true,
        kind: None,
        target: Default::default(),
    };
    Request {
        name: name.into(),
        nodes: (0..nodes).map(node).collect(),
        links: links.iter().map(link).collect(),
        ..Request::default()
    }
}

/// A network, and for each node the part of a known good division that it is in.
pub struct Family {
    /// The network, its nodes in no order.
    pub request: Request,
    /// By node: its part.
    pub part: Vec<usize>,
    /// How many nodes each part has.
    pub part_size: usize,
}

/// Nodes in another order, so that nothing can be learnt from it.
fn shuffled(name: &str, part: Vec<usize>, part_size: usize, links: Vec<(usize, usize)>, seed: u64) -> Family {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let n = part.len();
    let mut order: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        order.swap(i, rng.random_range(0..=i));
    }
    let mut new_part = vec![0; n];
    part.iter().zip(&order).for_each(|(part, at)| new_part[*at] = *part);
    let links: Vec<(usize, usize)> = links.into_iter().map(|(a, b)| (order[a], order[b])).collect();
    Family { request: request(name, n, &links), part: new_part, part_size }
}

/// One circle.
pub fn ring(parts: usize, size: usize, seed: u64) -> Family {
    let n = parts * size;
    let links = (0..n).map(|i| (i, (i + 1) % n)).collect();
    shuffled("ring", (0..n).map(|i| i / size).collect(), size, links, seed)
}

/// Random trees, joined by single links at random nodes.
pub fn tree(parts: usize, size: usize, seed: u64) -> Family {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x7ee);
    let mut links = Vec::new();
    for part in 0..parts {
        for i in 1..size {
            links.push((part * size + i, part * size + rng.random_range(0..i)));
        }
        if part > 0 {
            let other = rng.random_range(0..part);
            links.push((part * size + rng.random_range(0..size), other * size + rng.random_range(0..size)));
        }
    }
    shuffled("tree", (0..parts * size).map(|i| i / size).collect(), size, links, seed)
}

/// A grid of `across` × `down` blocks, each of `side` × `height` nodes.
pub fn grid(across: usize, down: usize, side: usize, height: usize, seed: u64) -> Family {
    let (width, rows) = (across * side, down * height);
    let mut links = Vec::new();
    let mut part = Vec::new();
    for y in 0..rows {
        for x in 0..width {
            part.push(y / height * across + x / side);
            if x + 1 < width {
                links.push((y * width + x, y * width + x + 1));
            }
            if y + 1 < rows {
                links.push((y * width + x, (y + 1) * width + x));
            }
        }
    }
    shuffled("grid", part, side * height, links, seed)
}

/// Each node with eight links on average to others of its part, and one to others.
pub fn random(parts: usize, size: usize, seed: u64) -> Family {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x5eed);
    let n = parts * size;
    let mut links = Vec::new();
    for a in 0..n {
        for _ in 0..4 {
            let b = a / size * size + rng.random_range(0..size);
            if a != b {
                links.push((a, b));
            }
        }
        if rng.random::<f64>() < 0.5 {
            let b = rng.random_range(0..n);
            if a != b {
                links.push((a, b));
            }
        }
    }
    shuffled("random", (0..n).map(|i| i / size).collect(), size, links, seed)
}

/// The family's request with every node where the known division has it: as many parts to a machine as fit.
pub fn planted(family: &Family, slots: u32) -> Request {
    let each = slots as usize / family.part_size;
    let mut request = family.request.clone();
    for (node, part) in request.nodes.iter_mut().zip(&family.part) {
        node.on = Some(format!("pc{}", part / each));
    }
    request
}
