//! Where whole machines' nodes are exchanged: which pieces of a network are behind which switch.
//!
//! Moving nodes one by one seldom finds that two machines should change racks, for on the way there all is worse. The
//! problem here is a quadratic assignment problem of as many pieces as there are machines, which annealing solves fast.

use std::collections::HashMap;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use crate::anneal::is_better;
use crate::instance::{Instance, NONE};
use crate::state::State;

/// How many exchanges are tried for each machine, and at most for all.
const TRIES_EACH: usize = 20_000;
const TRIES_MOST: usize = 4_000_000;
/// Into how many steps of equal temperature they are divided.
const STEPS: usize = 50;

/// Exchanges all that is on some machines, if that is better.
pub(crate) fn exchange<'a>(state: State<'a>, rng: &mut Xoshiro256PlusPlus) -> State<'a> {
    let instance = state.instance;
    let Some(far) = &instance.distances else { return state };
    let n = instance.places.len();
    let alike: Vec<Vec<u32>> = alike(instance, far);
    let movable: Vec<u32> = alike.iter().flatten().copied().collect();
    if movable.is_empty() {
        return state;
    }
    let mut class = vec![NONE; n];
    for (number, places) in alike.iter().enumerate() {
        places.iter().for_each(|place| class[*place as usize] = number as u32);
    }
    // The content of a place now is a piece with the number of that place.
    let near = between(&state);
    let mut at: Vec<u32> = (0..n as u32).collect();
    let mut who: Vec<u32> = at.clone();
    let distance = |p: u32, q: u32| f64::from(far[p as usize * n + q as usize]);
    let change = |at: &[u32], one: u32, other: u32| {
        let (a, b) = (at[one as usize], at[other as usize]);
        let moved = |piece: u32, not: u32, from: u32, to: u32| {
            let ends = near[piece as usize].iter().filter(|(end, _)| *end != not);
            ends.map(|(end, weight)| weight * (distance(to, at[*end as usize]) - distance(from, at[*end as usize])))
                .sum::<f64>()
        };
        moved(one, other, a, b) + moved(other, one, b, a)
    };
    let close = close(&alike, far, n);
    let pick = |at: &[u32], who: &[u32], rng: &mut Xoshiro256PlusPlus| {
        let one = who[movable[rng.random_range(0..movable.len())] as usize];
        let here = class[at[one as usize] as usize];
        let ends = &near[one as usize];
        // Mostly to where a link leads: behind the same switch.
        if !ends.is_empty() && rng.random::<f64>() < 0.7 {
            let (end, _) = ends[rng.random_range(0..ends.len())];
            let around = &close[at[end as usize] as usize];
            if !around.is_empty() {
                let place = around[rng.random_range(0..around.len())];
                if class[place as usize] == here {
                    return (one, who[place as usize]);
                }
            }
        }
        let others = &alike[here as usize];
        (one, who[others[rng.random_range(0..others.len())] as usize])
    };
    let (mut sum, mut count) = (0.0, 0.0);
    for _ in 0..500 {
        let (one, other) = pick(&at, &who, rng);
        let worse = change(&at, one, other);
        if worse > 1e-9 {
            (sum, count) = (sum + worse, count + 1.0);
        }
    }
    if count == 0.0 {
        return state;
    }
    let begin: f64 = sum / count;
    let tries = (TRIES_EACH * movable.len()).min(TRIES_MOST) / STEPS;
    let (mut now, mut least, mut best) = (0.0, 0.0, at.clone());
    for step in 0..=STEPS {
        // The last step is without heat.
        let temperature = if step == STEPS { 0.0 } else { begin * 0.01_f64.powf(step as f64 / (STEPS - 1) as f64) };
        for _ in 0..tries {
            let (one, other) = pick(&at, &who, rng);
            if one == other {
                continue;
            }
            let worse = change(&at, one, other);
            let accepted = worse <= 0.0 || (temperature > 0.0 && rng.random::<f64>() < (-worse / temperature).exp());
            if accepted {
                now += worse;
                at.swap(one as usize, other as usize);
                who[at[one as usize] as usize] = one;
                who[at[other as usize] as usize] = other;
            }
        }
        if now < least - 1e-9 {
            (least, best) = (now, at.clone());
        }
    }
    let place_of: Vec<u32> = state.place_of.iter().map(|place| best[*place as usize]).collect();
    let exchanged = State::of(instance, &place_of);
    if is_better(&exchanged, &state) { exchanged } else { state }
}

/// By place: those of its class that are nearest to it.
fn close(alike: &[Vec<u32>], far: &[f32], n: usize) -> Vec<Vec<u32>> {
    let mut close = vec![Vec::new(); n];
    for places in alike {
        for p in places {
            let to = |q: u32| far[*p as usize * n + q as usize];
            let others = || places.iter().copied().filter(|q| q != p);
            let least = others().map(to).fold(f32::INFINITY, f32::min);
            close[*p as usize] = others().filter(|q| to(*q) <= least).collect();
        }
    }
    close
}

/// Machines that hold the same, but are joined to different switches; classes of one are left out.
fn alike(instance: &Instance, far: &[f32]) -> Vec<Vec<u32>> {
    let n = instance.places.len();
    let mut classes: HashMap<String, Vec<u32>> = HashMap::new();
    let mut order: Vec<String> = Vec::new();
    let mut fixed = vec![false; n];
    instance.items.iter().filter(|item| item.fixed != NONE).for_each(|item| fixed[item.fixed as usize] = true);
    for place in (0..n).filter(|place| !fixed[*place] && !instance.places[*place].switch) {
        let fits: Vec<_> = instance.fits.iter().map(|row| row[place]).collect();
        let key = format!("{:?} {fits:?} {:?}", instance.places[place], instance.kind_names[place]);
        let class = classes.entry(key.clone()).or_default();
        if class.is_empty() {
            order.push(key);
        }
        class.push(place as u32);
    }
    let all = order.into_iter().filter_map(|key| classes.remove(&key));
    // Where all are as far from one another, there is nothing to be had.
    let differ = |places: &Vec<u32>| {
        let mut seen = places.iter().flat_map(|p| {
            let others = places.iter().filter(move |q| *q != p);
            others.map(move |q| far[*p as usize * n + *q as usize])
        });
        let first = seen.next();
        seen.any(|distance| Some(distance) != first)
    };
    all.filter(|places| places.len() > 1 && differ(places)).collect()
}

/// By place: the other places to which links lead from there, and what these weigh together.
fn between(state: &State<'_>) -> Vec<Vec<(u32, f64)>> {
    let instance = state.instance;
    let mut sums: HashMap<(u32, u32), f64> = HashMap::new();
    for edge in &instance.edges {
        let [a, b] = edge.ends.map(|end| state.place_of[end as usize]);
        if a != b && a != NONE && b != NONE {
            *sums.entry((a.min(b), a.max(b))).or_default() += edge.weight;
        }
    }
    let mut near = vec![Vec::new(); instance.places.len()];
    for ((a, b), weight) in sums {
        near[a as usize].push((b, weight));
        near[b as usize].push((a, weight));
    }
    // A map has no order of its own, and sums depend on it.
    near.iter_mut().for_each(|ends: &mut Vec<(u32, f64)>| ends.sort_by_key(|(end, _)| *end));
    near
}
