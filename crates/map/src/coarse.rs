//! Neighbours moved as one: a smaller search, whose solution the larger one begins with.
//!
//! Heavy-edge matching (Karypis and Kumar, *A Fast and High Quality Multilevel Scheme for Partitioning Irregular
//! Graphs*, SIAM J. Sci. Comput. 20, 1998): each item is joined with the neighbour to which it has the heaviest links,
//! in relation to how large both are.

use std::collections::HashMap;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use crate::instance::{Edge, Instance, Item, NONE, near};

/// No cluster is larger than this part of the largest place.
const PART: f64 = 0.2;

/// A smaller instance, and by item of the larger one, its cluster. `None` if it would hardly be smaller.
pub(crate) fn coarsen(instance: &Instance, rng: &mut Xoshiro256PlusPlus) -> Option<(Instance, Vec<u32>)> {
    let n = instance.items.len();
    if !instance.plain {
        return None;
    }
    let most = |of: fn(&crate::instance::Room) -> f64| {
        let finite = instance.places.iter().filter(|place| !place.switch).map(of);
        PART * finite.fold(0.0, f64::max)
    };
    let (cpu, memory, slots) = (most(|r| r.cpu), most(|r| r.memory), most(|r| r.slots));
    // Where nothing is bounded, everything may be one, but the search must still have something to do.
    let size = (n / 20).max(2) as u32;
    let indifferent: Vec<bool> = (0..instance.fits.len()).map(|class| instance.is_indifferent(class)).collect();
    let joins = |a: &Item, b: &Item| {
        (a.class == b.class || indifferent[a.class] || indifferent[b.class])
            && a.fixed == NONE
            && b.fixed == NONE
            && a.hint == NONE
            && b.hint == NONE
            && a.groups.is_empty()
            && b.groups.is_empty()
            && a.cpu + b.cpu <= cpu
            && a.memory + b.memory <= memory
            && a.slots + b.slots <= slots.max(1.0)
            && a.size + b.size <= size
    };
    let mut order: Vec<u32> = (0..n as u32).collect();
    for i in (1..n).rev() {
        order.swap(i, rng.random_range(0..=i));
    }
    let mut cluster = vec![NONE; n];
    let mut clusters = 0;
    for item in order {
        if cluster[item as usize] != NONE {
            continue;
        }
        let a = &instance.items[item as usize];
        let mut weights: HashMap<u32, f64> = HashMap::new();
        for (edge, other) in &instance.near[item as usize] {
            if *other != item && cluster[*other as usize] == NONE && joins(a, &instance.items[*other as usize]) {
                *weights.entry(*other).or_default() += instance.edges[*edge as usize].weight;
            }
        }
        let rated = weights.into_iter().map(|(other, weight)| {
            let b = &instance.items[other as usize];
            (weight / (f64::from(a.size) * f64::from(b.size)), other)
        });
        // Ties by number: a map has no order of its own.
        let best = rated.max_by(|x, y| x.0.total_cmp(&y.0).then(y.1.cmp(&x.1)));
        cluster[item as usize] = clusters;
        if let Some((_, other)) = best {
            cluster[other as usize] = clusters;
        }
        clusters += 1;
    }
    if clusters as usize > n * 9 / 10 {
        return None;
    }
    let items = merged(instance, &cluster, clusters as usize, &indifferent);
    let (edges, items) = edges(instance, &cluster, items);
    let near = near(items.len(), &edges);
    Some((Instance { near, items, edges, ..instance.clone() }, cluster))
}

fn merged(instance: &Instance, cluster: &[u32], clusters: usize, indifferent: &[bool]) -> Vec<Item> {
    let mut items: Vec<Option<Item>> = vec![None; clusters];
    for (item, cluster) in instance.items.iter().zip(cluster) {
        match &mut items[*cluster as usize] {
            Some(all) => {
                if indifferent[all.class] {
                    all.class = item.class;
                }
                all.cpu += item.cpu;
                all.core = all.core.max(item.core);
                all.memory += item.memory;
                all.slots += item.slots;
                all.inside += item.inside;
                all.size += item.size;
            }
            empty => *empty = Some(item.clone()),
        }
    }
    items.into_iter().flatten().collect()
}

fn edges(instance: &Instance, cluster: &[u32], mut items: Vec<Item>) -> (Vec<Edge>, Vec<Item>) {
    let mut edges: Vec<Edge> = Vec::new();
    let mut known: HashMap<[u32; 2], usize> = HashMap::new();
    for edge in &instance.edges {
        let [a, b] = edge.ends.map(|end| cluster[end as usize]);
        if a == b {
            items[a as usize].inside += edge.load;
            continue;
        }
        let ends = [a.min(b), a.max(b)];
        match known.get(&ends) {
            Some(i) => {
                edges[*i].load += edge.load;
                edges[*i].weight += edge.weight;
            }
            None => {
                known.insert(ends, edges.len());
                edges.push(Edge { ends, ..*edge });
            }
        }
    }
    (edges, items)
}
