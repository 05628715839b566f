//! Where every item is, what that costs, and how both change when one moves.
//!
//! The price is kept apart from violations (Emulab's `assign` does so, too): `soft` is the quality, `wrong`
//! the sum of what is too much, each excess counted in typical amounts of an item, and at least a half. A move costs as
//! much time as the item has links.

use crate::instance::{Edge, Instance, NONE, price};

/// Sums of decimal fractions are off by some units in the last place.
pub(crate) const ROUNDING: f64 = 1e-9;

/// The way of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    /// One of its ends is nowhere yet.
    Open,
    /// Inside a machine.
    Inside,
    /// Over a cable between two machines.
    Direct(u32),
    /// Over switches, from the door of one machine to that of another; a switch has no cable to itself.
    Switched { out: u32, from: u32, to: u32, into: u32 },
    /// There is none.
    Nowhere,
}

/// The use of a place.
#[derive(Clone, Debug, Default)]
struct Used {
    cpu: f64,
    memory: f64,
    slots: f64,
    inside: f64,
    /// Items on it that are larger than its cores.
    too_large: u32,
    /// Nodes of the request on it, and those that need a slot.
    nodes: u32,
    kinds: Vec<f64>,
    stock: Vec<f64>,
    items: Vec<u32>,
}

/// The load of a cable.
#[derive(Clone, Copy, Debug, Default)]
struct CableLoad {
    load: f64,
    shared: u32,
    alone: u32,
}

/// A mapping, complete or not.
#[derive(Clone, Debug)]
pub(crate) struct State<'a> {
    pub instance: &'a Instance,
    pub place_of: Vec<u32>,
    /// Where in the list of its place an item is.
    rank: Vec<u32>,
    used: Vec<Used>,
    ways: Vec<Way>,
    cables: Vec<CableLoad>,
    passing: Vec<u32>,
    kind_users: Vec<f64>,
    /// By class of types, then type: its users.
    vclass_users: Vec<Vec<f64>>,
    /// By group, then place: its members.
    members: Vec<Vec<u32>>,
    /// The price.
    pub soft: f64,
    /// The violations.
    pub wrong: f64,
    /// By item: how many of its links leave its machine; and those with any.
    outward: Vec<u32>,
    pub border: Vec<u32>,
    border_rank: Vec<u32>,
    undo: Vec<(u32, u32)>,
    /// The ways that the links of those had, one item after the other.
    undo_ways: Vec<Way>,
}

/// How much too much it is.
fn excess(used: f64, room: f64, unit: f64) -> f64 {
    let over = used - room;
    if over > ROUNDING * room.max(1.0) { 0.5 + over / unit } else { 0.0 }
}

impl<'a> State<'a> {
    /// With nothing anywhere.
    pub(crate) fn empty(instance: &'a Instance) -> State<'a> {
        let used = instance.places.iter().map(|room| Used {
            kinds: vec![0.0; room.kinds.len()],
            stock: vec![0.0; room.stock.len()],
            ..Used::default()
        });
        let kinds = instance.kind_limits.len();
        State {
            instance,
            place_of: vec![NONE; instance.items.len()],
            rank: vec![0; instance.items.len()],
            used: used.collect(),
            ways: vec![Way::Open; instance.edges.len()],
            cables: vec![CableLoad::default(); instance.cables.len()],
            passing: vec![0; instance.wiring.switches],
            kind_users: vec![0.0; kinds],
            vclass_users: vec![vec![0.0; kinds]; instance.vclass_weight.len()],
            members: vec![vec![0; instance.places.len()]; instance.groups.len()],
            soft: 0.0,
            wrong: 0.0,
            outward: vec![0; instance.items.len()],
            border: Vec::new(),
            border_rank: vec![0; instance.items.len()],
            undo: Vec::new(),
            undo_ways: Vec::new(),
        }
    }

    /// With every item where it is said to be.
    pub(crate) fn of(instance: &'a Instance, place_of: &[u32]) -> State<'a> {
        let mut state = State::empty(instance);
        for (item, place) in place_of.iter().enumerate().filter(|(_, place)| **place != NONE) {
            state.enter(item as u32, *place);
        }
        state
    }

    /// The way of a link.
    pub(crate) fn way(&self, edge: usize) -> Way {
        self.ways[edge]
    }

    /// Who is at a place.
    pub(crate) fn items_at(&self, place: u32) -> &[u32] {
        &self.used[place as usize].items
    }

    /// The weight of one amount of violation, against the price.
    pub(crate) fn cost(&self, penalty: f64) -> f64 {
        self.soft + penalty * self.wrong
    }

    /// How much more is paid at least if an item moves, where nothing is wrong: for its links, for what it wants, and
    /// for its machine. `None` where that is not told quickly.
    pub(crate) fn at_least(&self, item: u32, place: u32) -> Option<f64> {
        let instance = self.instance;
        let it = &instance.items[item as usize];
        let distances = instance.distances.as_ref()?;
        if !it.groups.is_empty() || instance.vclass[it.class] != NONE {
            return None;
        }
        let n = instance.places.len();
        let here = self.place_of[item as usize];
        let (old, new) = (&distances[here as usize * n..][..n], &distances[place as usize * n..][..n]);
        let mut links = 0.0;
        for (edge, other) in &instance.near[item as usize] {
            let there = self.place_of[*other as usize] as usize;
            links += instance.edges[*edge as usize].weight * f64::from(new[there] - old[there]);
        }
        let row = &instance.fits[it.class];
        let wants = (row[place as usize].soft - row[here as usize].soft) * f64::from(it.size);
        let emptied = if self.used[here as usize].items.len() == 1 { price::MACHINE } else { 0.0 };
        Some(links + wants - emptied)
    }

    /// Whether a place would hold an item besides what it has, as far as its own room goes.
    pub(crate) fn has_room(&self, place: u32, item: u32) -> bool {
        let (room, used) = (&self.instance.places[place as usize], &self.used[place as usize]);
        let it = &self.instance.items[item as usize];
        let fit = self.instance.fits[it.class][place as usize];
        let enough = |used: f64, more: f64, room: f64| used + more <= room + ROUNDING * room.max(1.0);
        fit.wrong == 0.0
            && it.core <= room.core + ROUNDING
            && enough(used.cpu, it.cpu, room.cpu)
            && enough(used.memory, it.memory, room.memory)
            && enough(used.slots, it.slots, room.slots)
            && (fit.kind == NONE || enough(used.kinds[fit.kind as usize], it.slots, room.kinds[fit.kind as usize].0))
    }

    /// Moves an item; [`State::undo`] takes it back, the last move first.
    pub(crate) fn shift(&mut self, item: u32, place: u32) {
        let near = &self.instance.near[item as usize];
        self.undo_ways.extend(near.iter().map(|(edge, _)| self.ways[*edge as usize]));
        self.undo.push((item, self.place_of[item as usize]));
        self.leave(item);
        self.enter(item, place);
    }

    /// Takes the last move that is not taken back yet, back.
    pub(crate) fn undo(&mut self) {
        let Some((item, place)) = self.undo.pop() else { return };
        self.leave(item);
        self.stand(item, place);
        for (edge, _) in self.instance.near[item as usize].iter().rev() {
            let way = self.undo_ways.pop().unwrap_or(Way::Open);
            self.lay(*edge as usize, way);
        }
    }

    /// The moved ones stay.
    pub(crate) fn keep(&mut self) {
        self.undo.clear();
        self.undo_ways.clear();
    }

    /// Puts an item that is nowhere to a place, and lays its links.
    pub(crate) fn enter(&mut self, item: u32, place: u32) {
        self.stand(item, place);
        for (edge, other) in &self.instance.near[item as usize] {
            if self.place_of[*other as usize] != NONE {
                let way = self.choose(&self.instance.edges[*edge as usize]);
                self.lay(*edge as usize, way);
            }
        }
    }

    fn leave(&mut self, item: u32) {
        for (edge, _) in &self.instance.near[item as usize] {
            self.lay(*edge as usize, Way::Open);
        }
        let place = self.place_of[item as usize] as usize;
        self.count(item, place, -1.0);
        let rank = self.rank[item as usize] as usize;
        let items = &mut self.used[place].items;
        items.swap_remove(rank);
        if let Some(moved) = items.get(rank) {
            self.rank[*moved as usize] = rank as u32;
        }
        self.place_of[item as usize] = NONE;
    }

    fn stand(&mut self, item: u32, place: u32) {
        self.count(item, place as usize, 1.0);
        self.place_of[item as usize] = place;
        let items = &mut self.used[place as usize].items;
        self.rank[item as usize] = items.len() as u32;
        items.push(item);
    }

    /// The price of a place, and what is too much there.
    fn place_cost(&self, place: usize) -> (f64, f64) {
        let (room, used, unit) = (&self.instance.places[place], &self.used[place], &self.instance.unit);
        let soft = if used.nodes > 0 && !room.switch { price::MACHINE } else { 0.0 };
        let mut wrong = excess(used.cpu, room.cpu, unit.cpu)
            + excess(used.memory, room.memory, unit.memory)
            + excess(used.slots, room.slots, 1.0)
            + excess(used.inside, room.inside, unit.load)
            + f64::from(used.too_large);
        let mut kinds = 0.0;
        for ((most, always), count) in room.kinds.iter().zip(&used.kinds) {
            wrong += excess(*count, *most, 1.0);
            kinds += if *count > 0.0 && !always { 1.0 } else { 0.0 };
        }
        if kinds > 1.0 {
            wrong += kinds - 1.0;
        }
        for (stock, taken) in room.stock.iter().zip(&used.stock) {
            wrong += excess(*taken, *stock, stock.max(1.0));
        }
        (soft, wrong)
    }

    fn group_cost(&self, group: usize) -> f64 {
        let members = &self.members[group];
        if self.instance.groups[group].0 {
            members.iter().filter(|m| **m > 0).count().saturating_sub(1) as f64
        } else {
            members.iter().map(|m| f64::from(m.saturating_sub(1))).sum()
        }
    }

    fn count(&mut self, item: u32, place: usize, sign: f64) {
        let instance = self.instance;
        let it = &instance.items[item as usize];
        let fit = instance.fits[it.class][place];
        let size = f64::from(it.size);
        let before = self.place_cost(place);
        let room = &instance.places[place];
        let used = &mut self.used[place];
        used.cpu += sign * it.cpu;
        used.memory += sign * it.memory;
        used.slots += sign * it.slots;
        used.inside += sign * it.inside;
        let step = |count: &mut u32, by: u32| *count = if sign > 0.0 { *count + by } else { *count - by };
        step(&mut used.nodes, it.size);
        if it.core > room.core + ROUNDING {
            step(&mut used.too_large, 1);
        }
        if fit.kind != NONE {
            used.kinds[fit.kind as usize] += sign * it.slots;
        }
        for (stock, much) in &instance.uses[it.class] {
            used.stock[*stock] += sign * much * size;
        }
        if used.nodes == 0 {
            // The rest is rounding.
            (used.cpu, used.memory, used.inside) = (0.0, 0.0, 0.0);
            used.stock.iter_mut().for_each(|s| *s = 0.0);
        }
        let after = self.place_cost(place);
        self.soft += after.0 - before.0 + sign * fit.soft * size;
        self.wrong += after.1 - before.1 + sign * fit.wrong * size;

        if fit.kind != NONE {
            let kind = instance.kind_names[place][fit.kind as usize] as usize;
            let most = instance.kind_limits[kind];
            let users = self.kind_users[kind];
            self.kind_users[kind] += sign * it.slots;
            self.wrong += excess(users + sign * it.slots, most, 1.0) - excess(users, most, 1.0);
            let vclass = instance.vclass[it.class];
            if vclass != NONE {
                let users = &mut self.vclass_users[vclass as usize];
                let mixed = |users: &[f64]| users.iter().filter(|u| **u > 0.0).count().saturating_sub(1).min(1) as f64;
                let before = mixed(users);
                users[kind] += sign * size;
                let change = mixed(users) - before;
                let weight = instance.vclass_weight[vclass as usize];
                self.soft += change * weight;
                self.wrong += if weight >= 1.0 { change } else { 0.0 };
            }
        }
        for group in &it.groups {
            let group = *group as usize;
            let before = self.group_cost(group);
            step(&mut self.members[group][place], it.size);
            let change = self.group_cost(group) - before;
            let weight = instance.groups[group].1;
            self.soft += change * weight;
            self.wrong += if weight >= 1.0 { change } else { 0.0 };
        }
    }

    fn cable_cost(&self, cable: usize) -> f64 {
        let carried = &self.cables[cable];
        let crowd = carried.alone.saturating_sub(1) + if carried.alone > 0 { carried.shared } else { 0 };
        excess(carried.load, self.instance.cables[cable].0, self.instance.unit.load) + f64::from(crowd)
    }

    fn carry(&mut self, cable: usize, edge: &Edge, sign: f64) {
        let before = self.cable_cost(cable);
        let carried = &mut self.cables[cable];
        carried.load += sign * edge.load;
        let count = if edge.shares { &mut carried.shared } else { &mut carried.alone };
        *count = if sign > 0.0 { *count + 1 } else { *count - 1 };
        if carried.shared + carried.alone == 0 {
            carried.load = 0.0;
        }
        self.wrong += self.cable_cost(cable) - before;
    }

    /// Gives a link its way, in place of the one that it had.
    fn lay(&mut self, edge: usize, way: Way) {
        let old = std::mem::replace(&mut self.ways[edge], way);
        let ends = self.instance.edges[edge].ends;
        for (way, sign) in [(old, -1.0), (way, 1.0)] {
            self.pay(edge, way, sign);
        }
        let leaves = |way: Way| !matches!(way, Way::Open | Way::Inside);
        match (leaves(old), leaves(way)) {
            (false, true) => ends.iter().for_each(|end| self.turn_out(*end)),
            (true, false) => ends.iter().for_each(|end| self.turn_in(*end)),
            _ => {}
        }
    }

    fn turn_out(&mut self, item: u32) {
        self.outward[item as usize] += 1;
        if self.outward[item as usize] == 1 {
            self.border_rank[item as usize] = self.border.len() as u32;
            self.border.push(item);
        }
    }

    fn turn_in(&mut self, item: u32) {
        self.outward[item as usize] -= 1;
        if self.outward[item as usize] == 0 {
            let rank = self.border_rank[item as usize] as usize;
            self.border.swap_remove(rank);
            if let Some(moved) = self.border.get(rank) {
                self.border_rank[*moved as usize] = rank as u32;
            }
        }
    }

    fn pay(&mut self, edge: usize, way: Way, sign: f64) {
        let instance = self.instance;
        let it = &instance.edges[edge];
        match way {
            Way::Open => {}
            Way::Inside => {
                // Both ends are at the same place, or the one that leaves is still counted there.
                let place = it.ends.iter().map(|end| self.place_of[*end as usize]).find(|place| *place != NONE);
                if let Some(place) = place {
                    let room = instance.places[place as usize].inside;
                    let used = &mut self.used[place as usize].inside;
                    let before = excess(*used, room, instance.unit.load);
                    *used += sign * it.load;
                    self.wrong += excess(*used, room, instance.unit.load) - before;
                }
                self.wrong += if it.inside { 0.0 } else { sign };
            }
            Way::Direct(cable) => {
                self.soft += sign * it.weight * price::CABLE;
                self.carry(cable as usize, it, sign);
            }
            Way::Switched { out, from, to, into } => {
                let mut cost = 0.0;
                for cable in [out, into].into_iter().filter(|cable| *cable != NONE) {
                    cost += price::CABLE;
                    self.carry(cable as usize, it, sign);
                }
                self.pass(from as usize, sign);
                for (cable, switch) in instance.wiring.path(from as usize, to as usize).unwrap_or_default() {
                    cost += price::TRUNK;
                    self.carry(*cable, it, sign);
                    self.pass(*switch, sign);
                }
                self.soft += sign * it.weight * cost;
            }
            Way::Nowhere => {
                self.soft += sign * it.weight * price::TRUNK;
                self.wrong += sign;
            }
        }
    }

    fn pass(&mut self, switch: usize, sign: f64) {
        let passing = &mut self.passing[switch];
        if sign > 0.0 {
            *passing += 1;
            self.soft += if *passing == 1 { price::SWITCH } else { 0.0 };
        } else {
            *passing -= 1;
            self.soft -= if *passing == 0 { price::SWITCH } else { 0.0 };
        }
    }

    /// The way of a link whose ends are both somewhere: over the fewest trunks, by the cables with most left.
    fn choose(&self, edge: &Edge) -> Way {
        let [p, q] = edge.ends.map(|end| self.place_of[end as usize] as usize);
        if p == q {
            return Way::Inside;
        }
        let wiring = &self.instance.wiring;
        if let Some(cables) = wiring.direct.get(&(p.min(q), p.max(q)))
            && let Some((cable, 0.0)) = self.emptiest(cables, edge)
        {
            return Way::Direct(cable);
        }
        let mut best: Option<(usize, f64, Way)> = None;
        for out in &wiring.doors[p] {
            for into in &wiring.doors[q] {
                let Some(path) = wiring.path(out.switch, into.switch) else { continue };
                let Some((first, over)) = self.emptiest(&out.cables, edge) else { continue };
                let Some((last, more)) = self.emptiest(&into.cables, edge) else { continue };
                let kind = |(cable, _): &(usize, usize)| self.is_of_kind(*cable, edge);
                if !path.iter().all(kind) {
                    continue;
                }
                let over = over + more;
                let better = best.is_none_or(|(length, least, _)| (over, path.len()) < (least, length));
                if better {
                    let (from, to) = (out.switch as u32, into.switch as u32);
                    best = Some((path.len(), over, Way::Switched { out: first, from, to, into: last }));
                }
            }
        }
        let direct = || {
            let cables = wiring.direct.get(&(p.min(q), p.max(q)))?;
            self.emptiest(cables, edge).map(|(cable, _)| Way::Direct(cable))
        };
        best.map(|(_, _, way)| way).or_else(direct).unwrap_or(Way::Nowhere)
    }

    fn is_of_kind(&self, cable: usize, edge: &Edge) -> bool {
        let kinds = &self.instance.cables[cable].1;
        edge.kind == NONE || kinds.is_empty() || kinds.contains(&edge.kind)
    }

    /// The cable with most left for a link, and by how much it would be too little; none if no cable is of its kind. A
    /// switch needs no cable to itself.
    fn emptiest(&self, cables: &[usize], edge: &Edge) -> Option<(u32, f64)> {
        if cables.is_empty() {
            return Some((NONE, 0.0));
        }
        let mut best: Option<(u32, f64, f64)> = None;
        for cable in cables.iter().filter(|cable| self.is_of_kind(**cable, edge)) {
            let carried = &self.cables[*cable];
            let left = self.instance.cables[*cable].0 - carried.load - edge.load;
            let crowded = if edge.shares { carried.alone } else { carried.alone + carried.shared };
            let over = excess(-left, 0.0, self.instance.unit.load) + f64::from(crowded);
            if best.is_none_or(|(_, least, most)| over < least || (over == least && left > most)) {
                best = Some((*cable as u32, over, left));
            }
        }
        best.map(|(cable, over, _)| (cable, over))
    }
}
