//! A request and a harness as the search needs them: numbers in arrays, and what fits where worked out once.

use std::collections::HashMap;
use std::sync::Arc;

use model::Speed;

use crate::error::Error;
use crate::harness::Harness;
use crate::request::{Kind, Request};
use crate::routes::Wiring;

/// The price of a plan, apart from weights that the user gives. A link of average bandwidth is 1.
pub(crate) mod price {
    /// A link over each cable between a machine and a switch, or between two machines.
    pub(crate) const CABLE: f64 = 0.5;
    /// A link over each trunk, which others need, too.
    pub(crate) const TRUNK: f64 = 4.0;
    /// A machine with at least one node.
    pub(crate) const MACHINE: f64 = 0.2;
    /// A switch that links pass.
    pub(crate) const SWITCH: f64 = 0.5;
}

/// The user's words on how a machine is divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// The part of a core that a plan may sell.
    pub usable: f64,
    /// The least part of a core that can be given to a node.
    pub least: f64,
    /// The speed of a core of this host, in units of work per µs, if known: relates speeds of one kind to the other.
    pub reference: Option<f64>,
}

/// No such place, node or type.
pub(crate) const NONE: u32 = u32::MAX;

/// How a class of nodes fits a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fit {
    /// The place's type that the nodes would have there; [`NONE`] for nodes that want none.
    pub kind: u32,
    /// The price of each of them there.
    pub soft: f64,
    /// How many things that must be are not.
    pub wrong: f64,
}

/// The capacity of a place; infinite where nothing is counted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Room {
    pub cpu: f64,
    pub core: f64,
    pub memory: f64,
    pub slots: f64,
    pub inside: f64,
    /// By type of the place: how many nodes, and whether it is always of this type.
    pub kinds: Vec<(f64, bool)>,
    /// By feature that is used up: how much there is.
    pub stock: Vec<f64>,
    pub switch: bool,
}

/// A node, or several that are moved as one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    /// Whose row of [`Instance::fits`] holds for it.
    pub class: usize,
    pub cpu: f64,
    /// The largest share of a core among them.
    pub core: f64,
    pub memory: f64,
    pub slots: f64,
    /// The rate of links among them.
    pub inside: f64,
    /// How many nodes of the request it stands for.
    pub size: u32,
    pub fixed: u32,
    /// Where a search begins with it.
    pub hint: u32,
    /// Places in [`Instance::groups`].
    pub groups: Vec<u32>,
}

/// A link between two items.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Edge {
    pub ends: [u32; 2],
    /// Its need of a cable, in bit/s.
    pub load: f64,
    /// Its price per unit of distance.
    pub weight: f64,
    pub shares: bool,
    pub inside: bool,
    /// A kind of cables; [`NONE`]: any.
    pub kind: u32,
}

/// The problem that is searched.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub items: Vec<Item>,
    pub edges: Vec<Edge>,
    /// By item: its edges, and who is at their other ends.
    pub near: Vec<Vec<(u32, u32)>>,
    pub places: Vec<Room>,
    /// Places that are alike in all that counts, each class in ascending order.
    pub classes: Vec<Vec<u32>>,
    pub class_of: Vec<u32>,
    /// By class of items, then place.
    pub fits: Vec<Vec<Fit>>,
    /// By class of items: what each node uses up, by place of [`Room::stock`]'s names.
    pub uses: Vec<Vec<(usize, f64)>>,
    /// By class of items: the class of types that should be the same, or [`NONE`].
    pub vclass: Vec<u32>,
    /// The weight of each of those.
    pub vclass_weight: Vec<f64>,
    /// By place: its types among all types there are.
    pub kind_names: Vec<Vec<u32>>,
    /// By type: how many nodes may have it.
    pub kind_limits: Vec<f64>,
    pub groups: Vec<(bool, f64)>,
    pub wiring: Arc<Wiring>,
    /// From place to place, what a link of weight 1 costs at least.
    pub distances: Option<Arc<Vec<f32>>>,
    /// By cable: what it carries, and of which kinds it is (empty: any).
    pub cables: Vec<(f64, Vec<u32>)>,
    /// Typical amounts, by which excesses are counted.
    pub unit: Units,
    /// Whether links share cables, may be inside machines, and are of no kind: then neighbours may be moved as one.
    pub plain: bool,
}

/// Typical amounts of an item.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Units {
    pub cpu: f64,
    pub memory: f64,
    pub load: f64,
}

impl Instance {
    /// Fails if names are not known, or speeds cannot be related.
    pub(crate) fn new(request: &Request, harness: &Harness, terms: &Terms) -> Result<Instance, Error> {
        let wiring = Wiring::of(harness)?;
        let mut words = Words::default();
        let stock_names: Vec<&str> = {
            let all = harness.places.iter().flat_map(|p| &p.features).filter(|f| f.used_up);
            let mut names: Vec<&str> = all.map(|f| f.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            names
        };
        let in_cores = Cores::of(request, harness, terms)?;
        let kind_names: Vec<Vec<u32>> = harness
            .places
            .iter()
            .map(|place| place.types.iter().map(|kind| words.number(&kind.name)).collect())
            .collect();
        let places: Vec<Room> = harness.places.iter().map(|place| in_cores.room(place, &stock_names, terms)).collect();

        // Nodes that fit alike.
        let mut classes: HashMap<String, usize> = HashMap::new();
        let (mut fits, mut uses, mut vclass) = (Vec::<Vec<Fit>>::new(), Vec::<Vec<(usize, f64)>>::new(), Vec::new());
        let mut items = Vec::with_capacity(request.nodes.len());
        let by_name: HashMap<&str, usize> =
            harness.places.iter().enumerate().map(|(i, place)| (place.name.as_str(), i)).collect();
        for node in &request.nodes {
            let key = format!("{:?} {:?} {}", node.kind, node.wants, node.slots > 0);
            let class = *classes.entry(key).or_insert_with(|| {
                fits.push(harness.places.iter().map(|place| fit(node, place, request)).collect());
                let used = |name: &String, much: f64| {
                    stock_names.iter().position(|stock| stock == name).map(|stock| (stock, much))
                };
                uses.push(node.wants.iter().filter_map(|(name, much)| used(name, *much)).collect());
                vclass.push(match node.kind {
                    Kind::Class(class) => class as u32,
                    _ => NONE,
                });
                fits.len() - 1
            });
            let fixed = match &node.on {
                None => NONE,
                Some(name) => match by_name.get(name.as_str()) {
                    Some(place) => *place as u32,
                    None => return Err(Error::Input(unknown_machine(&node.name, name, harness))),
                },
            };
            let hint = node.hint.as_ref().and_then(|name| by_name.get(name.as_str()));
            let cpu = in_cores.share(node);
            items.push(Item {
                class,
                cpu,
                core: cpu,
                memory: node.memory_bytes as f64,
                slots: f64::from(node.slots),
                inside: 0.0,
                size: 1,
                fixed,
                hint: hint.map_or(NONE, |place| *place as u32),
                groups: Vec::new(),
            });
        }
        for (number, group) in request.groups.iter().enumerate() {
            for node in &group.nodes {
                items[*node].groups.push(number as u32);
            }
        }
        let known: Vec<f64> = request.links.iter().filter_map(|link| link.bits_per_s).collect();
        let mean_load = if known.is_empty() { 1.0 } else { known.iter().sum::<f64>() / known.len() as f64 };
        let edges: Vec<Edge> = request
            .links
            .iter()
            .map(|link| Edge {
                ends: link.ends.map(|end| end as u32),
                load: link.bits_per_s.unwrap_or(0.0),
                weight: link.bits_per_s.map_or(1.0, |bits| bits / mean_load),
                shares: link.shares,
                inside: link.inside,
                kind: link.kind.as_ref().map_or(NONE, |kind| words.number(kind)),
            })
            .collect();
        let cables = harness
            .cables
            .iter()
            .map(|cable| (cable.bits_per_s, cable.kinds.iter().map(|kind| words.number(kind)).collect()))
            .collect();
        let kind_limits = {
            let mut limits = vec![f64::INFINITY; words.0.len()];
            for (kind, most) in &harness.type_limits {
                if let Some(number) = words.0.get(kind) {
                    limits[*number as usize] = f64::from(*most);
                }
            }
            limits
        };
        let plain = edges.iter().all(|edge| edge.shares && edge.inside && edge.kind == NONE);
        let unit = Units {
            cpu: typical(items.iter().map(|item| item.cpu)),
            memory: typical(items.iter().map(|item| item.memory)),
            load: mean_load,
        };
        let near = near(items.len(), &edges);
        let mut instance = Instance {
            items,
            edges,
            near,
            places,
            classes: Vec::new(),
            class_of: Vec::new(),
            fits,
            uses,
            vclass,
            vclass_weight: request.classes.iter().map(|class| class.weight).collect(),
            kind_names,
            kind_limits,
            groups: request.groups.iter().map(|group| (group.together, group.weight)).collect(),
            distances: wiring.distances(price::CABLE, price::TRUNK).map(Arc::new),
            wiring: Arc::new(wiring),
            cables,
            unit,
            plain,
        };
        instance.classify(harness);
        Ok(instance)
    }

    /// Groups places that are alike: with the same room, for which every node fits as well, and joined alike.
    fn classify(&mut self, harness: &Harness) {
        let mut classes: HashMap<String, usize> = HashMap::new();
        let named: Vec<bool> = {
            let mut named = vec![false; self.places.len()];
            self.items.iter().filter(|item| item.fixed != NONE).for_each(|item| named[item.fixed as usize] = true);
            // Whoever is cabled to another machine is not like the others.
            self.wiring.direct.keys().for_each(|(a, b)| (named[*a], named[*b]) = (true, true));
            named
        };
        for place in 0..self.places.len() {
            let doors = self.wiring.doors[place].iter();
            let doors: Vec<String> = doors
                .map(|door| {
                    let cables: Vec<_> = door.cables.iter().map(|cable| &self.cables[*cable]).collect();
                    format!("{} {cables:?}", door.switch)
                })
                .collect();
            let fits: Vec<Fit> = self.fits.iter().map(|row| row[place]).collect();
            let alone = (named[place] || harness.places[place].unique || self.places[place].switch).then_some(place);
            let key = format!("{alone:?} {:?} {doors:?} {fits:?} {:?}", self.places[place], self.kind_names[place]);
            let next = self.classes.len();
            let class = *classes.entry(key).or_insert(next);
            if class == next {
                self.classes.push(Vec::new());
            }
            self.classes[class].push(place as u32);
            self.class_of.push(class as u32);
        }
    }

    /// Whether a class of items may be anywhere, and as well in one place as in another.
    pub(crate) fn is_indifferent(&self, class: usize) -> bool {
        self.vclass[class] == NONE
            && self.uses[class].is_empty()
            && self.fits[class]
                .iter()
                .zip(&self.places)
                .all(|(fit, place)| place.switch || *fit == Fit { kind: NONE, soft: 0.0, wrong: 0.0 })
    }
}

/// By item: its edges, and who is at their other ends.
pub(crate) fn near(items: usize, edges: &[Edge]) -> Vec<Vec<(u32, u32)>> {
    let mut near = vec![Vec::new(); items];
    for (i, edge) in edges.iter().enumerate() {
        let [a, b] = edge.ends;
        near[a as usize].push((i as u32, b));
        if a != b {
            near[b as usize].push((i as u32, a));
        }
    }
    near
}

/// The mean of what is not zero.
fn typical(amounts: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = amounts.filter(|a| *a > 0.0).fold((0.0, 0), |(sum, count), a| (sum + a, count + 1));
    if count == 0 { 1.0 } else { sum / f64::from(count) }
}

/// Words by number.
#[derive(Debug, Default)]
struct Words(HashMap<String, u32>);

impl Words {
    fn number(&mut self, word: &str) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(word.to_owned()).or_insert(next)
    }
}

/// How a node fits a place.
fn fit(node: &crate::request::Wanted, place: &crate::harness::Place, request: &Request) -> Fit {
    let (mut soft, mut wrong) = (0.0, 0.0);
    let accepted: &[String] = match &node.kind {
        Kind::Any => &[],
        Kind::Type(kind) => std::slice::from_ref(kind),
        Kind::Class(class) => &request.classes[*class].types,
    };
    let kind = place.types.iter().position(|kind| accepted.contains(&kind.name));
    if node.kind != Kind::Any && kind.is_none() {
        wrong += 1.0;
    }
    // An experiment's switch is emulated by a machine, and a node that says no type does not run on a switch.
    if place.switch && kind.is_none() {
        wrong += 1.0;
    }
    for (name, weight) in &node.wants {
        let has = place.features.iter().find(|feature| feature.name == *name);
        if has.is_none_or(|feature| !feature.used_up) {
            let missing = has.is_none();
            soft += if missing { *weight } else { 0.0 };
            wrong += if missing && *weight >= 1.0 { 1.0 } else { 0.0 };
        }
    }
    if node.slots > 0 {
        let unwanted = place.features.iter().filter(|f| !f.used_up && !node.wants.iter().any(|w| w.0 == f.name));
        for feature in unwanted {
            soft += feature.value;
            wrong += if feature.value >= 1.0 { 1.0 } else { 0.0 };
        }
    }
    Fit { kind: kind.map_or(NONE, |kind| kind as u32), soft, wrong }
}

fn unknown_machine(node: &str, machine: &str, harness: &Harness) -> String {
    let names: Vec<&str> = harness.places.iter().map(|place| place.name.as_str()).collect();
    let near = model::yaml::did_you_mean(machine, &names);
    format!("the node `{node}` must be on `{machine}`, and the harness has no machine of that name{near}")
}

/// CPUs in one measure.
struct Cores {
    /// The size of one unit of an absolute speed, and of one of a relative speed.
    unit: f64,
    fraction: f64,
}

impl Cores {
    /// Fails if some speeds are relative to this host and others are not, and this host's is not known.
    fn of(request: &Request, harness: &Harness, terms: &Terms) -> Result<Cores, Error> {
        let speeds = request
            .nodes
            .iter()
            .filter_map(|node| node.cpu.map(|cpu| (cpu.speed, &node.name)))
            .chain(harness.places.iter().filter_map(|place| place.cpu.map(|cpu| (cpu.speed, &place.name))));
        let (mut absolute, mut relative) = (None, None);
        for (speed, name) in speeds {
            match speed {
                Speed::Absolute(_) => absolute.get_or_insert(name),
                Speed::OfHost(_) => relative.get_or_insert(name),
            };
        }
        match (absolute, relative, terms.reference) {
            (Some(a), Some(b), None) => Err(Error::Input(format!(
                "the speed of `{a}` is in units/us and that of `{b}` a fraction of a core of this host, whose speed is \
                 not known: write both alike, or run `diorama doctor` as root, which measures this host and keeps it"
            ))),
            (Some(_), Some(_), Some(reference)) => Ok(Cores { unit: 1.0 / reference, fraction: 1.0 }),
            _ => Ok(Cores { unit: 1.0, fraction: 1.0 }),
        }
    }

    fn amount(&self, speed: Speed) -> f64 {
        match speed {
            Speed::Absolute(units) => units * self.unit,
            Speed::OfHost(fraction) => fraction * self.fraction,
        }
    }

    fn share(&self, node: &crate::request::Wanted) -> f64 {
        node.cpu.map_or(0.0, |cpu| self.amount(cpu.speed) * cpu.per_speed)
    }

    fn room(&self, place: &crate::harness::Place, stock: &[&str], terms: &Terms) -> Room {
        let most = |count: Option<u32>| count.map_or(f64::INFINITY, f64::from);
        let core = place.cpu.map_or(f64::INFINITY, |cpu| self.amount(cpu.speed) * terms.usable);
        let of = |name: &&str| {
            let found = place.features.iter().find(|feature| feature.used_up && feature.name == **name);
            found.map_or(0.0, |feature| feature.value)
        };
        Room {
            cpu: place.cpu.map_or(f64::INFINITY, |cpu| f64::from(cpu.cores) * core),
            core,
            memory: place.memory_bytes.map_or(f64::INFINITY, |bytes| bytes as f64),
            slots: most(place.slots),
            inside: place.inside_bits_per_s.unwrap_or(f64::INFINITY),
            kinds: place.types.iter().map(|kind| (most(kind.slots), kind.always)).collect(),
            stock: stock.iter().map(of).collect(),
            switch: place.switch,
        }
    }
}
