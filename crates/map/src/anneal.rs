//! Simulated annealing (Kirkpatrick, Gelatt and Vecchi, *Optimization by Simulated Annealing*, Science 220, 1983).
//!
//! Most moves begin at an item that has a link to another machine, and take it where that link leads, or change it with
//! an item there: what lies deep inside a machine is seldom worth moving. The others go anywhere; of machines that are
//! alike and empty only the first is tried (equivalence classes, as in Emulab's `assign`).

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use crate::instance::{Instance, NONE, price};
use crate::state::State;

/// How hot it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Heat {
    /// Nearly everything is accepted at first.
    Hot,
    /// The mapping is good, and is only rearranged at its borders.
    Warm,
}

/// Into how many steps of equal temperature a search is divided.
const STEPS: u64 = 80;
/// How many moves are looked at to find the temperature at which it begins.
const SAMPLES: usize = 300;
/// A violation weighs so many times as much at the end as before.
const STRICT: f64 = 1e3;

/// Searches with so many moves from where everything is, and gives the best that was met. It is never worse.
pub(crate) fn anneal<'a>(mut state: State<'a>, heat: Heat, moves: u64, rng: &mut Xoshiro256PlusPlus) -> State<'a> {
    let instance = state.instance;
    let movable: Vec<u32> =
        (0..instance.items.len() as u32).filter(|i| instance.items[*i as usize].fixed == NONE).collect();
    if movable.is_empty() || instance.places.len() < 2 {
        return state;
    }
    let penalty = penalty(instance);
    let mut best = state.clone();
    let mut search = Search { movable: &movable, rng };
    let hot = search.uphill(&mut state, penalty);
    // A link of average bandwidth between two machines costs this.
    let link = 2.0 * price::CABLE;
    let begin = match heat {
        Heat::Hot => hot,
        Heat::Warm => (0.8 * link).min(hot),
    };
    let end = (0.06 * link).min(begin);
    let cooled = moves * 4 / 5;
    for step in 0..STEPS {
        let temperature = begin * (end / begin).powf(step as f64 / (STEPS - 1) as f64);
        for _ in 0..cooled / STEPS {
            search.step(&mut state, temperature, penalty);
        }
        if is_better(&state, &best) {
            best = state.clone();
        }
    }
    // A mapping as good is accepted still: borders wander until they meet.
    for mut last in [state, best.clone()] {
        for _ in 0..(moves - cooled) / 2 {
            search.step(&mut last, 0.0, penalty * STRICT);
        }
        if is_better(&last, &best) {
            best = last;
        }
    }
    best
}

/// Whether less is wrong, or as much and less is paid.
pub(crate) fn is_better(a: &State<'_>, b: &State<'_>) -> bool {
    const SAME: f64 = 1e-6;
    a.wrong < b.wrong - SAME || (a.wrong < b.wrong + SAME && a.soft < b.soft)
}

/// The weight of an amount of violation, so that it is seldom worth its while and not a wall.
fn penalty(instance: &Instance) -> f64 {
    let weight: f64 = instance.edges.iter().map(|edge| edge.weight).sum();
    let degree = 2.0 * weight / instance.items.len().max(1) as f64;
    2.0 + 2.0 * degree
}

struct Search<'r> {
    movable: &'r [u32],
    rng: &'r mut Xoshiro256PlusPlus,
}

impl Search<'_> {
    /// How much worse a move makes things on average, of those that do.
    fn uphill(&mut self, state: &mut State<'_>, penalty: f64) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        for _ in 0..SAMPLES {
            let before = state.cost(penalty);
            let Some(()) = self.propose(state, f64::INFINITY) else { continue };
            let change = state.cost(penalty) - before;
            state.undo();
            state.undo();
            if change > 1e-12 {
                sum += change;
                count += 1.0;
            }
        }
        if count == 0.0 { price::CABLE } else { sum / count }
    }

    fn step(&mut self, state: &mut State<'_>, temperature: f64, penalty: f64) {
        // So much worse it may become.
        let most = match temperature > 0.0 {
            true => -temperature * self.rng.random::<f64>().max(1e-300).ln(),
            false => 0.0,
        } + 1e-9;
        let before = state.cost(penalty);
        let Some(()) = self.propose(state, most) else { return };
        if state.cost(penalty) - before <= most {
            state.keep();
        } else {
            state.undo();
            state.undo();
        }
    }

    /// Moves an item, or changes two; undoing twice takes back either. Not if it is plain to see that it would make
    /// things worse by more than `most`: that is so with nearly all moves in the end.
    fn propose(&mut self, state: &mut State<'_>, most: f64) -> Option<()> {
        let instance = state.instance;
        let at_border = !state.border.is_empty() && self.rng.random::<f64>() < 0.8;
        let item = match at_border {
            true => state.border[self.rng.random_range(0..state.border.len())],
            false => self.movable[self.rng.random_range(0..self.movable.len())],
        };
        let it = &instance.items[item as usize];
        if it.fixed != NONE {
            return None;
        }
        let here = state.place_of[item as usize];
        let there = if at_border { self.neighbour(state, item, here)? } else { self.anywhere(state) };
        let fits = |item: u32, place: u32| {
            let row = &instance.fits[instance.items[item as usize].class];
            row[place as usize].wrong <= row[state.place_of[item as usize] as usize].wrong
        };
        if there == here || !fits(item, there) {
            return None;
        }
        let crowded = !state.has_room(there, item);
        let other = match crowded && self.rng.random::<f64>() < 0.8 {
            true => self.partner(state, item, there),
            false => None,
        };
        if state.wrong < 1e-9 && most.is_finite() {
            let one = state.at_least(item, there);
            let least = match other {
                None => one,
                // Links that the two have in common are counted twice.
                Some(other) => one.zip(state.at_least(other, here)).map(|(a, b)| a + b),
            };
            let joined = || instance.near[item as usize].iter().any(|(_, end)| Some(*end) == other);
            if least.is_some_and(|least| least > most) && !(other.is_some() && joined()) {
                return None;
            }
        }
        match other {
            Some(other) if instance.items[other as usize].fixed == NONE && fits(other, here) => {
                state.shift(item, there);
                state.shift(other, here);
            }
            Some(_) => return None,
            None => state.shift(item, there),
        }
        Some(())
    }

    /// Where a link of an item leads that leaves its machine.
    fn neighbour(&mut self, state: &State<'_>, item: u32, here: u32) -> Option<u32> {
        let near = &state.instance.near[item as usize];
        (0..4).find_map(|_| {
            let (_, other) = near[self.rng.random_range(0..near.len())];
            let there = state.place_of[other as usize];
            (there != here && there != NONE).then_some(there)
        })
    }

    fn anywhere(&mut self, state: &State<'_>) -> u32 {
        let instance = state.instance;
        let place = self.rng.random_range(0..instance.places.len()) as u32;
        if !state.items_at(place).is_empty() {
            return place;
        }
        let class = &instance.classes[instance.class_of[place as usize] as usize];
        class.iter().copied().find(|like| state.items_at(*like).is_empty()).unwrap_or(place)
    }

    /// An item at a place to change with: one that has links to other machines, if one is soon found.
    fn partner(&mut self, state: &State<'_>, item: u32, there: u32) -> Option<u32> {
        let items = state.items_at(there);
        if items.is_empty() {
            return None;
        }
        let here = state.place_of[item as usize];
        let mut found = None;
        for _ in 0..6 {
            let other = items[self.rng.random_range(0..items.len())];
            found.get_or_insert(other);
            let near = &state.instance.near[other as usize];
            if near.iter().any(|(_, end)| state.place_of[*end as usize] == here && *end != item) {
                return Some(other);
            }
        }
        found
    }
}
