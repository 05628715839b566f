//! The plan file: who is where, over which cables links go, what is violated, and what all that costs.
//!
//! It is worked out anew from the request and the harness, not from what the search kept.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use scale::Tdf;
use serde::{Deserialize, Serialize};

use crate::harness::Harness;
use crate::instance::{Instance, NONE, Terms, price};
use crate::request::{Kind, Request};
use crate::state::{ROUNDING, State, Way};
use crate::wide_area::Pair;

/// A plan: which node is on which machine. What `diorama map --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mapping {
    /// The mapped experiment.
    pub experiment: String,
    /// At which TDF: CPUs and links are divided by it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tdf: Option<Tdf>,
    /// From what all chance follows.
    pub seed: u64,
    /// Whether nothing is violated.
    pub fits: bool,
    /// The violations.
    pub violations: Vec<Violation>,
    /// Its price; less is better.
    pub score: Score,
    /// By node: where it is.
    pub nodes: IndexMap<String, Placed>,
    /// By link that leaves a machine: the cables that it goes over.
    pub links: IndexMap<String, Vec<String>>,
    /// By machine with nodes: what is used of it.
    pub machines: IndexMap<String, Filled>,
    /// By cable that links go over: what they need of it.
    pub cables: IndexMap<String, Carried>,
    /// By link that goes over measured paths: what was wanted and what was measured.
    #[serde(skip_serializing_if = "IndexMap::is_empty", default)]
    pub paths: IndexMap<String, crate::wide_area::Compared>,
    /// The notes for a reader.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
}

/// Something that must be and is not, or is too much.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Its kind.
    pub what: Violated,
    /// The node, link, machine or cable that it is about.
    pub of: String,
    /// A sentence.
    pub says: String,
}

/// The kinds of violations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Violated {
    /// More of a machine's cores than can be sold, or nodes that cannot be packed on them.
    Cpu,
    /// More than a machine's memory.
    Memory,
    /// More nodes than a machine takes.
    Slots,
    /// A type that a machine does not have, more nodes of it than it takes, or two types at once.
    Type,
    /// A feature that must be there, or must not be used by others, or of which too much is used.
    Feature,
    /// Nodes that must be together and are not, or apart.
    Group,
    /// More than a cable carries, or a link that does not have a cable to itself.
    Bandwidth,
    /// More than the links inside a machine may carry.
    Inside,
    /// A link with no way, or one inside a machine that may not be.
    Link,
}

/// The price of a mapping, by what it is paid for. A link of average bandwidth over one cable costs 0.5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// All together.
    pub total: f64,
    /// Links that leave their machine.
    pub links: f64,
    /// Machines with nodes, and switches that links pass.
    pub machines: f64,
    /// The features that nodes want and do not have, and those that they do not want.
    pub wants: f64,
    /// Nodes that should be together, or apart, or of one type.
    pub groups: f64,
}

/// Where a node is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Placed {
    /// The machine.
    pub machine: String,
    /// Which of its cores for nodes, counted from 0, where cores are counted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub core: Option<usize>,
    /// The type that it has there, if it wanted one.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none", default)]
    pub kind: Option<String>,
}

/// The use of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Filled {
    /// Nodes, switches included.
    pub nodes: usize,
    /// Of its cores, in cores that are as fast as a machine of speed 1, or in units/us.
    pub cpu: f64,
    /// How much of that can be sold; null: not counted.
    pub cpu_of: Option<f64>,
    /// Its nodes' memory.
    pub memory_bytes: u64,
    /// How much it has; null: not counted.
    pub memory_of: Option<u64>,
    /// The rate of links inside it, real bit/s.
    pub inside_bits_per_s: f64,
}

/// The load of a cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Carried {
    /// Links.
    pub links: usize,
    /// Their need, real bit/s.
    pub bits_per_s: f64,
    /// Its load.
    pub of: f64,
}

impl Mapping {
    /// The text of the plan file, without a last newline.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a mapping has only finite numbers and string keys")
    }

    /// The mapping for a person, with a last newline.
    pub fn to_text(&self) -> String {
        use std::fmt::Write;

        let mut text = String::new();
        let tdf = self.tdf.map_or(String::new(), |tdf| format!(" at TDF {tdf}"));
        let fits = match self.violations.len() {
            0 => "it fits".to_owned(),
            1 => "one thing is violated".to_owned(),
            n => format!("{n} things are violated"),
        };
        let Score { total, links, machines, wants, groups } = self.score;
        let score = [("links", links), ("machines", machines), ("wants", wants), ("groups", groups)];
        let parts: Vec<String> = score.iter().map(|(name, value)| format!("{name} {}", short(*value))).collect();
        let count = self.machines.len();
        // A `String` takes everything.
        let _ = writeln!(
            text,
            "{}{tdf}: {} nodes on {count} machine{}; {fits}; score {} ({})",
            self.experiment,
            self.nodes.len(),
            if count == 1 { "" } else { "s" },
            short(total),
            parts.join(", ")
        );
        for (name, used) in &self.machines {
            let cpu = used.cpu_of.map(|of| format!(", CPU {} of {}", short(used.cpu), short(of)));
            let memory = used.memory_of.map(|of| format!(", memory {} of {}", bytes(used.memory_bytes), bytes(of)));
            let inside = Some(rate(used.inside_bits_per_s)).filter(|_| used.inside_bits_per_s > 0.0);
            let inside = inside.map(|inside| format!(", {inside} inside"));
            let rest: String = [cpu, memory, inside].into_iter().flatten().collect();
            let _ = writeln!(text, "  {name}: {} node{}{rest}", used.nodes, if used.nodes == 1 { "" } else { "s" });
            let here = self.nodes.iter().filter(|(_, placed)| placed.machine == *name);
            let names: Vec<String> = here
                .map(|(node, placed)| match placed.core {
                    Some(core) => format!("{node} (core {core})"),
                    None => node.clone(),
                })
                .collect();
            let _ = writeln!(text, "      {}", names.join(", "));
        }
        for (name, used) in &self.cables {
            let links = if used.links == 1 { "link" } else { "links" };
            let _ = writeln!(
                text,
                "  cable {name}: {} {links}, {} of {}",
                used.links,
                rate(used.bits_per_s),
                rate(used.of)
            );
        }
        for (name, path) in &self.paths {
            let pair =
                |pair: &Pair, unit: &str| format!("{} {unit} (wanted {})", short(pair.measured), short(pair.wanted));
            let [ab, ba] = [0, 1].map(|way| {
                let bandwidth = path.mbit_per_s[way].as_ref().map(|rate| format!(", {}", pair(rate, "Mbit/s")));
                format!(
                    "{}{}, loss {}",
                    pair(&path.delay_ms[way], "ms"),
                    bandwidth.unwrap_or_default(),
                    pair(&path.loss_percent[way], "%")
                )
            });
            let both = if ab == ba { ab } else { format!("{ab}; back {ba}") };
            let _ = writeln!(text, "  path {name}: {both}");
        }
        for violation in &self.violations {
            let _ = writeln!(text, "violated: `{}`: {}", violation.of, violation.says);
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        text
    }
}

/// The faults of a mapping, gathered.
struct Judge<'a> {
    request: &'a Request,
    harness: &'a Harness,
    violations: Vec<Violation>,
    score: Score,
}

/// The plan that a state of the search is.
pub(crate) fn mapping(request: &Request, harness: &Harness, terms: &Terms, state: &State<'_>, seed: u64) -> Mapping {
    let instance = state.instance;
    let mut judge = Judge { request, harness, violations: Vec::new(), score: Score::default() };
    let mut on: Vec<Vec<usize>> = vec![Vec::new(); harness.places.len()];
    for (node, place) in state.place_of.iter().enumerate().filter(|(_, place)| **place != NONE) {
        on[*place as usize].push(node);
    }
    let mut nodes: IndexMap<String, Placed> = IndexMap::new();
    for (node, wanted) in request.nodes.iter().enumerate() {
        let place = state.place_of[node];
        if place == NONE {
            continue;
        }
        let kind = judge.kind_of(node, place as usize);
        let machine = harness.places[place as usize].name.clone();
        nodes.insert(wanted.name.clone(), Placed { machine, core: None, kind });
    }
    let mut machines: IndexMap<String, Filled> = IndexMap::new();
    for (place, on) in on.iter().enumerate().filter(|(_, on)| !on.is_empty()) {
        let (filled, cores) = judge.machine(instance, terms, place, on);
        for (node, core) in on.iter().zip(cores) {
            if let Some(placed) = nodes.get_mut(&request.nodes[*node].name) {
                placed.core = core;
            }
        }
        machines.insert(harness.places[place].name.clone(), filled);
    }
    judge.groups(state, &nodes);
    let (links, cables, inside) = judge.links(state);
    for (place, bits) in inside {
        let name = &harness.places[place].name;
        if let Some(filled) = machines.get_mut(name) {
            filled.inside_bits_per_s = bits;
        }
        if let Some(most) = harness.places[place].inside_bits_per_s.filter(|most| bits > most * (1.0 + ROUNDING)) {
            let says = format!("links inside it need {} of {}", rate(bits), rate(most));
            judge.note(Violated::Inside, name, says);
        }
    }
    let mut notes = [harness.notes.clone(), request.notes.clone()].concat();
    let unbounded = request.links.iter().filter(|link| link.bits_per_s.is_none()).count();
    if unbounded > 0 && !harness.cables.is_empty() {
        notes.push(format!(
            "{unbounded} of {} links have no bandwidth: they cost as much as an average one, and cables are not kept \
             free for them",
            request.links.len()
        ));
    }
    let score = &mut judge.score;
    score.total = score.links + score.machines + score.wants + score.groups;
    Mapping {
        experiment: request.name.clone(),
        tdf: None,
        seed,
        fits: judge.violations.is_empty(),
        violations: judge.violations,
        score: judge.score,
        nodes,
        links,
        machines,
        cables,
        paths: IndexMap::new(),
        notes,
    }
}

type Links = (IndexMap<String, Vec<String>>, IndexMap<String, Carried>, BTreeMap<usize, f64>);

impl Judge<'_> {
    fn note(&mut self, what: Violated, of: &str, says: impl Into<String>) {
        self.violations.push(Violation { what, of: of.to_owned(), says: says.into() });
    }

    /// The type that a node has at a place.
    fn kind_of(&self, node: usize, place: usize) -> Option<String> {
        let accepted: &[String] = match &self.request.nodes[node].kind {
            Kind::Any => return None,
            Kind::Type(kind) => std::slice::from_ref(kind),
            Kind::Class(class) => &self.request.classes[*class].types,
        };
        let has = self.harness.places[place].types.iter().find(|kind| accepted.contains(&kind.name));
        has.map(|kind| kind.name.clone())
    }

    /// The use of a machine; and which core each of its nodes is on.
    fn machine(
        &mut self,
        instance: &Instance,
        terms: &Terms,
        place: usize,
        on: &[usize],
    ) -> (Filled, Vec<Option<usize>>) {
        let (request, harness) = (self.request, self.harness);
        let (machine, room) = (&harness.places[place], &instance.places[place]);
        if !machine.switch {
            self.score.machines += price::MACHINE;
        }
        let shares: Vec<f64> = on.iter().map(|node| instance.items[*node].cpu).collect();
        let cpu: f64 = shares.iter().sum();
        let memory: u64 = on.iter().map(|node| request.nodes[*node].memory_bytes).sum();
        let filled = Filled {
            nodes: on.len(),
            cpu,
            cpu_of: room.cpu.is_finite().then_some(room.cpu),
            memory_bytes: memory,
            memory_of: machine.memory_bytes,
            inside_bits_per_s: 0.0,
        };
        let mut cores = vec![None; on.len()];
        if let Some(has) = machine.cpu {
            // In cores of this machine, of each of which a part can be sold.
            let parts: Vec<f64> = shares.iter().map(|share| share / room.core * terms.usable).collect();
            match scale::pack(&parts, has.cores as usize, terms.usable) {
                Some(places) => cores = places.into_iter().map(Some).collect(),
                None => {
                    let large = on.iter().zip(&parts).find(|(_, part)| **part > terms.usable + ROUNDING);
                    let why = match large {
                        Some((node, part)) => format!(
                            "a node stays on one core, and `{}` needs {part:.2} of one, of which {} can be sold",
                            request.nodes[*node].name, terms.usable
                        ),
                        None => "they cannot be packed, for each stays on one core".to_owned(),
                    };
                    let says = format!(
                        "its {} nodes need {:.2} of {} cores, of each of which {} can be sold; {why}",
                        on.len(),
                        parts.iter().sum::<f64>(),
                        has.cores,
                        terms.usable
                    );
                    self.note(Violated::Cpu, &machine.name, says);
                }
            }
        }
        if let Some(most) = machine.memory_bytes.filter(|most| memory > *most) {
            let says = format!("its {} nodes need {} of {}", on.len(), bytes(memory), bytes(most));
            self.note(Violated::Memory, &machine.name, says);
        }
        let slots: u32 = on.iter().map(|node| request.nodes[*node].slots).sum();
        if let Some(most) = machine.slots.filter(|most| slots > *most) {
            self.note(Violated::Slots, &machine.name, format!("its nodes need {slots} of {most} slots"));
        }
        self.types(place, on);
        self.features(place, on);
        (filled, cores)
    }

    fn types(&mut self, place: usize, on: &[usize]) {
        let (request, machine) = (self.request, &self.harness.places[place]);
        let mut users: BTreeMap<String, u32> = BTreeMap::new();
        for node in on {
            let wanted = &request.nodes[*node];
            match (self.kind_of(*node, place), &wanted.kind) {
                (Some(kind), _) => *users.entry(kind).or_default() += wanted.slots,
                (None, Kind::Any) if machine.switch => {
                    self.note(Violated::Type, &wanted.name, format!("it is on `{}`, a switch", machine.name));
                }
                (None, Kind::Any) => {}
                (None, kind) => {
                    let kind = match kind {
                        Kind::Class(class) => request.classes[*class].types.join("` or `"),
                        Kind::Type(kind) => kind.clone(),
                        Kind::Any => String::new(),
                    };
                    let says = format!("it must have the type `{kind}`, and `{}` has not", machine.name);
                    self.note(Violated::Type, &wanted.name, says);
                }
            }
        }
        let mut exclusive = Vec::new();
        for kind in &machine.types {
            let Some(count) = users.get(&kind.name).copied().filter(|count| *count > 0) else { continue };
            if !kind.always {
                exclusive.push(kind.name.as_str());
            }
            if let Some(most) = kind.slots.filter(|most| count > *most) {
                let says = format!("its nodes of type `{}` need {count} of {most} slots", kind.name);
                self.note(Violated::Type, &machine.name, says);
            }
        }
        if exclusive.len() > 1 {
            let says = format!("it has nodes of the types `{}`, and can be of one only", exclusive.join("` and `"));
            self.note(Violated::Type, &machine.name, says);
        }
    }

    fn features(&mut self, place: usize, on: &[usize]) {
        let (request, machine) = (self.request, &self.harness.places[place]);
        for node in on {
            let wanted = &request.nodes[*node];
            for (name, weight) in &wanted.wants {
                if machine.features.iter().any(|feature| feature.name == *name) {
                    continue;
                }
                self.score.wants += weight;
                if *weight >= 1.0 {
                    let says = format!("it must have `{name}`, and `{}` has not", machine.name);
                    self.note(Violated::Feature, &wanted.name, says);
                }
            }
            let unwanted = |name: &str| !wanted.wants.iter().any(|(want, _)| want == name);
            for feature in machine.features.iter().filter(|f| wanted.slots > 0 && !f.used_up && unwanted(&f.name)) {
                self.score.wants += feature.value;
                if feature.value >= 1.0 {
                    let says = format!("it does not want `{}`, for which `{}` is kept", feature.name, machine.name);
                    self.note(Violated::Feature, &wanted.name, says);
                }
            }
        }
        for feature in machine.features.iter().filter(|feature| feature.used_up) {
            let wants = on.iter().flat_map(|node| &request.nodes[*node].wants);
            let used: f64 = wants.filter(|(name, _)| *name == feature.name).map(|(_, much)| much).sum();
            if used > feature.value + ROUNDING {
                let says = format!("its nodes use {used} of {} of `{}`", feature.value, feature.name);
                self.note(Violated::Feature, &machine.name, says);
            }
        }
    }

    /// Nodes that should be together, or apart, or of one type; and how many there may be of a type.
    fn groups(&mut self, state: &State<'_>, nodes: &IndexMap<String, Placed>) {
        let (request, harness) = (self.request, self.harness);
        for group in &request.groups {
            let places: Vec<u32> = group.nodes.iter().map(|node| state.place_of[*node]).collect();
            let distinct: BTreeSet<u32> = places.iter().copied().collect();
            let many = match group.together {
                true => distinct.len().saturating_sub(1),
                false => places.len() - distinct.len(),
            };
            self.score.groups += group.weight * many as f64;
            if many > 0 && group.weight >= 1.0 {
                let names: Vec<&str> = group.nodes.iter().map(|node| request.nodes[*node].name.as_str()).collect();
                let says = match group.together {
                    true => format!("they must be on one machine, and are on {}", distinct.len()),
                    false => format!("they must be each on a machine of its own, and are on {}", distinct.len()),
                };
                self.note(Violated::Group, &names.join(", "), says);
            }
        }
        let mut users: BTreeMap<&str, u32> = BTreeMap::new();
        for node in &request.nodes {
            if let Some(kind) = nodes.get(&node.name).and_then(|placed| placed.kind.as_deref()) {
                *users.entry(kind).or_default() += node.slots;
            }
        }
        for (kind, most) in &harness.type_limits {
            if let Some(count) = users.get(kind.as_str()).filter(|count| *count > most) {
                self.note(Violated::Type, kind, format!("{count} nodes have this type, and {most} may"));
            }
        }
        for (number, class) in request.classes.iter().enumerate() {
            let of = request.nodes.iter().filter(|node| node.kind == Kind::Class(number));
            let kinds: BTreeSet<&str> = of.filter_map(|node| nodes.get(&node.name)?.kind.as_deref()).collect();
            if kinds.len() > 1 {
                self.score.groups += class.weight;
                if class.weight >= 1.0 {
                    let kinds: Vec<&str> = kinds.into_iter().collect();
                    let says = format!("its nodes must be of one type, and are `{}`", kinds.join("` and `"));
                    self.note(Violated::Type, &class.name, says);
                }
            }
        }
    }

    /// By link, the cables that it goes over; by cable, what it carries; and what links carry inside machines.
    fn links(&mut self, state: &State<'_>) -> Links {
        let (request, harness) = (self.request, self.harness);
        let wiring = &state.instance.wiring;
        let switches: Vec<usize> = (0..harness.places.len()).filter(|place| harness.places[*place].switch).collect();
        let mut over: IndexMap<String, Vec<String>> = IndexMap::new();
        let mut carried: BTreeMap<usize, (Carried, usize)> = BTreeMap::new();
        let mut inside: BTreeMap<usize, f64> = BTreeMap::new();
        let mut passed: BTreeSet<usize> = BTreeSet::new();
        for (number, link) in request.links.iter().enumerate() {
            let edge = &state.instance.edges[number];
            let mut cost = 0.0;
            let cables: Vec<usize> = match state.way(number) {
                Way::Inside => {
                    *inside.entry(state.place_of[link.ends[0]] as usize).or_default() += edge.load;
                    if !link.inside {
                        self.note(Violated::Link, &link.name, "it is inside a machine, and may not be");
                    }
                    continue;
                }
                Way::Direct(cable) => vec![cable as usize],
                Way::Switched { out, from, to, into } => {
                    let path = wiring.path(from as usize, to as usize).unwrap_or_default();
                    cost += path.len() as f64 * (price::TRUNK - price::CABLE);
                    passed.insert(switches[from as usize]);
                    passed.extend(path.iter().map(|(_, switch)| switches[*switch]));
                    let ends = [out, into].map(|cable| (cable != NONE).then_some(cable as usize));
                    let middle = path.iter().map(|(cable, _)| *cable);
                    ends[0].into_iter().chain(middle).chain(ends[1]).collect()
                }
                Way::Open | Way::Nowhere => {
                    self.score.links += edge.weight * price::TRUNK;
                    let [a, b] = link.ends.map(|end| {
                        let place = state.place_of[end];
                        harness.places.get(place as usize).map_or("nowhere", |place| place.name.as_str())
                    });
                    self.note(Violated::Link, &link.name, format!("no cables lead from `{a}` to `{b}`"));
                    continue;
                }
            };
            self.score.links += edge.weight * (cost + cables.len() as f64 * price::CABLE);
            for cable in &cables {
                let (all, alone) = carried.entry(*cable).or_default();
                all.links += 1;
                all.bits_per_s += edge.load;
                all.of = harness.cables[*cable].bits_per_s;
                *alone += usize::from(!link.shares);
            }
            over.insert(link.name.clone(), cables.iter().map(|c| harness.cables[*c].name.clone()).collect());
        }
        self.score.machines += passed.len() as f64 * price::SWITCH;
        let mut cables: IndexMap<String, Carried> = IndexMap::new();
        for (cable, (all, alone)) in carried {
            let name = &harness.cables[cable].name;
            if all.bits_per_s > all.of * (1.0 + ROUNDING) {
                let says = format!("its {} links need {} of {}", all.links, rate(all.bits_per_s), rate(all.of));
                self.note(Violated::Bandwidth, name, says);
            }
            if alone > 0 && all.links > 1 {
                let says = format!("{alone} of its {} links should have it to themselves", all.links);
                self.note(Violated::Bandwidth, name, says);
            }
            cables.insert(name.clone(), all);
        }
        (over, cables, inside)
    }
}

/// A bandwidth as a person writes it.
pub(crate) fn rate(bits_per_s: f64) -> String {
    let (value, unit) = match bits_per_s {
        v if v >= 1e9 => (v / 1e9, "Gbit/s"),
        v if v >= 1e6 => (v / 1e6, "Mbit/s"),
        v if v >= 1e3 => (v / 1e3, "kbit/s"),
        v => (v, "bit/s"),
    };
    format!("{}{unit}", short(value))
}

/// An amount of memory as a person writes it.
pub(crate) fn bytes(bytes: u64) -> String {
    let (value, unit) = match bytes as f64 {
        v if v >= 1_073_741_824.0 => (v / 1_073_741_824.0, "GiB"),
        v => (v / 1_048_576.0, "MiB"),
    };
    format!("{}{unit}", short(value))
}

/// Up to two decimals.
pub(crate) fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
