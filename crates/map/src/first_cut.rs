//! Where a search begins: the network cut into pieces that fit a machine, and the pieces put to machines.
//!
//! The pieces are those of a tree that joins all items by their heaviest links, cut from the leaves up so that no piece
//! is larger than a machine and there are as few as can be (Kundu and Misra, *A Linear Tree Partitioning Algorithm*,
//! SIAM J. Comput. 6, 1977). Where the network is a tree itself, no other pieces have fewer links between them.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use crate::instance::{Instance, NONE, Room};
use crate::state::{ROUNDING, State};

/// How much of each resource a piece needs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Need {
    cpu: f64,
    memory: f64,
    slots: f64,
}

impl Need {
    fn plus(self, other: Need) -> Need {
        Need { cpu: self.cpu + other.cpu, memory: self.memory + other.memory, slots: self.slots + other.slots }
    }

    /// The largest part of a room that it takes.
    fn part(self, room: &Room) -> f64 {
        let part = |need: f64, room: f64| match need {
            0.0 => 0.0,
            _ => need / room,
        };
        part(self.cpu, room.cpu).max(part(self.memory, room.memory)).max(part(self.slots, room.slots))
    }
}

/// Everything somewhere, by pieces of a tree.
pub(crate) fn by_tree<'a>(instance: &'a Instance, rng: &mut Xoshiro256PlusPlus) -> State<'a> {
    let mut state = State::empty(instance);
    for (item, it) in instance.items.iter().enumerate().filter(|(_, it)| it.fixed != NONE) {
        state.enter(item as u32, it.fixed);
    }
    for (item, it) in instance.items.iter().enumerate().filter(|(_, it)| it.fixed == NONE && it.hint != NONE) {
        if state.has_room(it.hint, item as u32) {
            state.enter(item as u32, it.hint);
        }
    }
    let needs: Vec<Need> =
        instance.items.iter().map(|it| Need { cpu: it.cpu, memory: it.memory, slots: it.slots }).collect();
    let Some(model) =
        instance.places.iter().filter(|p| !p.switch).max_by(|a, b| roomier(a, b)).or_else(|| instance.places.first())
    else {
        return state;
    };
    let mut pieces = pieces(instance, &needs, model, rng);
    // Those that need most first.
    let need_of = |piece: &Vec<u32>| piece.iter().fold(Need::default(), |sum, i| sum.plus(needs[*i as usize]));
    pieces.sort_by(|a, b| need_of(b).part(model).total_cmp(&need_of(a).part(model)));
    for piece in pieces {
        let free: Vec<u32> = piece.into_iter().filter(|i| state.place_of[*i as usize] == NONE).collect();
        place_piece(&mut state, &free, &needs);
    }
    state
}

/// Everything somewhere, in the order of a walk along the links: the first to the first machine until it is full, the
/// next to the machine that is nearest to it. A ring or a line has no better division; a tree or grid mostly has.
pub(crate) fn by_walk<'a>(instance: &'a Instance, rng: &mut Xoshiro256PlusPlus) -> State<'a> {
    let mut state = State::empty(instance);
    for (item, it) in instance.items.iter().enumerate().filter(|(_, it)| it.fixed != NONE) {
        state.enter(item as u32, it.fixed);
    }
    let places = places_in_a_row(instance);
    let fits = |state: &State<'_>, item: u32, place: u32| {
        let room = state.has_room(place, item);
        room && instance.fits[instance.items[item as usize].class][place as usize].wrong == 0.0
    };
    let (mut at, mut left) = (0, Vec::new());
    for item in walk(instance, rng).into_iter().filter(|item| instance.items[*item as usize].fixed == NONE) {
        match (at..places.len()).find(|at| fits(&state, item, places[*at])) {
            Some(found) => {
                state.enter(item, places[found]);
                at = found;
            }
            None => left.push(item),
        }
    }
    let needs: Vec<Need> =
        instance.items.iter().map(|it| Need { cpu: it.cpu, memory: it.memory, slots: it.slots }).collect();
    left.iter().for_each(|item| place_piece(&mut state, std::slice::from_ref(item), &needs));
    state
}

/// All machines, each followed by the one that is nearest to it of those that are left.
fn places_in_a_row(instance: &Instance) -> Vec<u32> {
    let mut left: Vec<u32> =
        (0..instance.places.len() as u32).filter(|p| !instance.places[*p as usize].switch).collect();
    let Some(far) = &instance.distances else { return left };
    let distance = |a: u32, b: u32| far[a as usize * instance.places.len() + b as usize];
    let mut row: Vec<u32> = left.drain(..left.len().min(1)).collect();
    while let Some(last) = row.last().copied() {
        let nearest = (0..left.len()).min_by(|a, b| distance(last, left[*a]).total_cmp(&distance(last, left[*b])));
        let Some(nearest) = nearest else { break };
        row.push(left.remove(nearest));
    }
    row
}

/// All items, each followed by one that is joined to it, where there is one that had no turn yet.
fn walk(instance: &Instance, rng: &mut Xoshiro256PlusPlus) -> Vec<u32> {
    let n = instance.items.len();
    let mut begins: Vec<(usize, u32, u32)> =
        (0..n).map(|item| (instance.near[item].len(), rng.random(), item as u32)).collect();
    // From the end of a line, if there is one.
    begins.sort_unstable();
    let mut seen = vec![false; n];
    let mut order = Vec::with_capacity(n);
    for (_, _, begin) in begins {
        let mut open = vec![begin];
        while let Some(item) = open.pop() {
            if std::mem::replace(&mut seen[item as usize], true) {
                continue;
            }
            order.push(item);
            let unseen = instance.near[item as usize].iter().filter(|(_, other)| !seen[*other as usize]);
            let mut next: Vec<(f64, u32)> =
                unseen.map(|(edge, other)| (instance.edges[*edge as usize].weight, *other)).collect();
            // The last is walked to first: the one that belongs most closely to this.
            next.sort_by(|a, b| a.0.total_cmp(&b.0));
            open.extend(next.into_iter().map(|(_, other)| other));
        }
    }
    order
}

fn roomier(a: &Room, b: &Room) -> std::cmp::Ordering {
    (a.slots.min(1e9)).total_cmp(&b.slots.min(1e9)).then(a.cpu.total_cmp(&b.cpu)).then(a.memory.total_cmp(&b.memory))
}

/// A tree of the heaviest links over each connected part, cut into pieces that fit the room.
fn pieces(instance: &Instance, needs: &[Need], room: &Room, rng: &mut Xoshiro256PlusPlus) -> Vec<Vec<u32>> {
    let n = instance.items.len();
    let mut order: Vec<(u32, u32)> = (0..instance.edges.len() as u32).map(|e| (e, rng.random())).collect();
    let weight = |edge: u32| instance.edges[edge as usize].weight;
    order.sort_by(|a, b| weight(b.0).total_cmp(&weight(a.0)).then(a.1.cmp(&b.1)));
    let mut parts: Vec<usize> = (0..n).collect();
    let mut tree: Vec<Vec<(u32, u32)>> = vec![Vec::new(); n];
    for (edge, _) in order {
        let [a, b] = instance.edges[edge as usize].ends;
        let (x, y) = (root(&mut parts, a as usize), root(&mut parts, b as usize));
        if x != y {
            parts[x] = y;
            tree[a as usize].push((edge, b));
            tree[b as usize].push((edge, a));
        }
    }
    // From the leaves up; what is cut off is a piece.
    let mut parent = vec![NONE; n];
    let mut seen = vec![false; n];
    let mut rest: Vec<Need> = needs.to_vec();
    let mut cut = vec![false; n];
    for begin in 0..n {
        if seen[begin] {
            continue;
        }
        let mut down = vec![begin as u32];
        seen[begin] = true;
        let mut at = 0;
        while at < down.len() {
            let here = down[at];
            at += 1;
            for (_, near) in &tree[here as usize] {
                if !seen[*near as usize] {
                    seen[*near as usize] = true;
                    parent[*near as usize] = here;
                    down.push(*near);
                }
            }
        }
        for here in down.into_iter().rev() {
            let mut children: Vec<u32> =
                tree[here as usize].iter().map(|(_, c)| *c).filter(|c| parent[*c as usize] == here).collect();
            // The largest is cut off first: then the fewest are.
            children.sort_by(|a, b| rest[*a as usize].part(room).total_cmp(&rest[*b as usize].part(room)));
            let mut sum = children.iter().fold(needs[here as usize], |sum, c| sum.plus(rest[*c as usize]));
            while sum.part(room) > 1.0 + ROUNDING {
                let Some(largest) = children.pop() else { break };
                cut[largest as usize] = true;
                sum = children.iter().fold(needs[here as usize], |sum, c| sum.plus(rest[*c as usize]));
            }
            rest[here as usize] = sum;
        }
    }
    let mut piece_of = vec![NONE; n];
    let mut pieces: Vec<Vec<u32>> = Vec::new();
    for item in 0..n {
        // Up to the root of its piece, and down again.
        let mut way = Vec::new();
        let mut here = item;
        while piece_of[here] == NONE && !cut[here] && parent[here] != NONE {
            way.push(here);
            here = parent[here] as usize;
        }
        if piece_of[here] == NONE {
            piece_of[here] = pieces.len() as u32;
            pieces.push(vec![here as u32]);
        }
        let piece = piece_of[here];
        for other in way {
            piece_of[other] = piece;
            pieces[piece as usize].push(other as u32);
        }
    }
    pieces
}

fn root(parts: &mut [usize], mut i: usize) -> usize {
    while parts[i] != i {
        parts[i] = parts[parts[i]];
        i = parts[i];
    }
    i
}

/// Puts a piece to the place where it costs least, of those that hold all of it and are alike only one; if none does,
/// its items one by one.
fn place_piece(state: &mut State<'_>, piece: &[u32], needs: &[Need]) {
    let need = piece.iter().fold(Need::default(), |sum, i| sum.plus(needs[*i as usize]));
    let instance = state.instance;
    if piece.len() > 1 && room_for(state, &need) {
        let mut best: Option<(f64, f64, u32)> = None;
        for place in candidates(state) {
            let taken = state.items_at(place).iter().fold(need, |sum, i| sum.plus(needs[*i as usize]));
            let part = taken.part(&instance.places[place as usize]);
            let fits = |i: &u32| instance.fits[instance.items[*i as usize].class][place as usize].wrong == 0.0;
            if part > 1.0 + ROUNDING || !piece.iter().all(fits) {
                continue;
            }
            let soft: f64 = piece
                .iter()
                .map(|i| {
                    let it = &instance.items[*i as usize];
                    let far = instance.near[*i as usize].iter().filter(|(_, other)| {
                        let there = state.place_of[*other as usize];
                        there != NONE && there != place
                    });
                    instance.fits[it.class][place as usize].soft
                        + far.map(|(edge, _)| instance.edges[*edge as usize].weight).sum::<f64>()
                })
                .sum();
            // The fullest that holds it.
            if best.is_none_or(|(least, fullest, _)| (soft, -part) < (least, -fullest)) {
                best = Some((soft, part, place));
            }
        }
        if let Some((_, _, place)) = best {
            piece.iter().for_each(|item| state.enter(*item, place));
            return;
        }
    }
    for item in piece {
        let row = &instance.fits[instance.items[*item as usize].class];
        let cost = |place: &u32| {
            let near = instance.near[*item as usize].iter();
            let with = near.filter(|(_, other)| state.place_of[*other as usize] == *place);
            let kept: f64 = with.map(|(edge, _)| instance.edges[*edge as usize].weight).sum();
            let crowded = if state.has_room(*place, *item) { 0.0 } else { 1.0 };
            let crowd = state.items_at(*place).len() as f64 * 1e-6;
            (row[*place as usize].wrong, crowded, row[*place as usize].soft - kept + crowd * crowded)
        };
        let all = candidates(state);
        let best = all.iter().min_by(|a, b| cost(a).partial_cmp(&cost(b)).unwrap_or(std::cmp::Ordering::Equal));
        if let Some(place) = best.copied() {
            state.enter(*item, place);
        }
    }
}

/// Whether any place is large enough for that.
fn room_for(state: &State<'_>, need: &Need) -> bool {
    state.instance.places.iter().any(|room| need.part(room) <= 1.0 + ROUNDING)
}

/// All places with something on them, and of those that are alike and empty the first.
fn candidates(state: &State<'_>) -> Vec<u32> {
    let mut all = Vec::new();
    for class in &state.instance.classes {
        let mut empty = false;
        for place in class {
            let is_empty = state.items_at(*place).is_empty();
            if !is_empty || !empty {
                all.push(*place);
            }
            empty |= is_empty;
        }
    }
    all
}
