//! Faults that no search can mend: a node that fits on no machine, and nodes that must be where there is no room for
//! them.

use std::collections::BTreeMap;

use scale::Tdf;

use crate::error::Error;
use crate::harness::Harness;
use crate::instance::{Instance, Item, NONE};
use crate::mapping::{bytes, short};
use crate::request::{Kind, Request};
use crate::state::ROUNDING;

/// Fails with the node and what is missing.
pub(crate) fn possible(
    request: &Request,
    harness: &Harness,
    instance: &Instance,
    tdf: Option<Tdf>,
) -> Result<(), Error> {
    fixed(request, harness, instance, tdf)?;
    let mut checked: BTreeMap<(usize, u64, u64, u64), ()> = BTreeMap::new();
    for (node, item) in instance.items.iter().enumerate() {
        let like = (item.class, item.cpu.to_bits(), item.memory.to_bits(), item.slots.to_bits());
        if checked.insert(like, ()).is_none() && !(0..harness.places.len()).any(|p| fits(instance, item, p)) {
            return Err(Error::Input(nowhere(request, harness, instance, node, tdf)));
        }
    }
    Ok(())
}

fn within(need: f64, room: f64) -> bool {
    need <= room + ROUNDING * room.clamp(1.0, 1e300)
}

/// Whether a node would be right on a machine with nothing else on it.
fn fits(instance: &Instance, item: &Item, place: usize) -> bool {
    let (fit, room) = (instance.fits[item.class][place], &instance.places[place]);
    fit.wrong == 0.0
        && within(item.core, room.core)
        && within(item.memory, room.memory)
        && within(item.slots, room.slots)
        && (fit.kind == NONE || within(item.slots, room.kinds[fit.kind as usize].0))
        && instance.uses[item.class].iter().all(|(stock, much)| within(*much, room.stock[*stock]))
}

/// The needs of a node, each with whether a machine has it.
type Needs<'a> = Vec<(String, Box<dyn Fn(usize) -> bool + 'a>)>;

fn needs<'a>(request: &'a Request, harness: &'a Harness, instance: &'a Instance, node: usize) -> Needs<'a> {
    let (wanted, item) = (&request.nodes[node], &instance.items[node]);
    let mut needs: Needs<'a> = Vec::new();
    let types: &[String] = match &wanted.kind {
        Kind::Any => &[],
        Kind::Type(kind) => std::slice::from_ref(kind),
        Kind::Class(class) => &request.classes[*class].types,
    };
    if !types.is_empty() {
        let has = move |place: usize| {
            let kinds = harness.places[place].types.iter();
            kinds.filter(|kind| types.contains(&kind.name)).any(|kind| kind.slots.is_none_or(|s| s >= wanted.slots))
        };
        let slots = if wanted.slots > 1 { format!(" with {} slots", wanted.slots) } else { String::new() };
        needs.push((format!("the type `{}`{slots}", types.join("` or `")), Box::new(has)));
    } else {
        let has = move |place: usize| !harness.places[place].switch && within(item.slots, instance.places[place].slots);
        needs.push((format!("{} free", if wanted.slots == 1 { "a slot" } else { "slots" }), Box::new(has)));
    }
    if item.core > 0.0 {
        let has = move |place: usize| within(item.core, instance.places[place].core);
        let largest = finite(instance.places.iter().map(|room| room.core));
        let says = format!("a core that gives it {} (the fastest gives {})", short(item.core), short(largest));
        needs.push((says, Box::new(has)));
    }
    if item.memory > 0.0 {
        let has = move |place: usize| within(item.memory, instance.places[place].memory);
        let largest = finite(instance.places.iter().map(|room| room.memory));
        let says = format!("{} of memory (the largest has {})", bytes(item.memory as u64), bytes(largest as u64));
        needs.push((says, Box::new(has)));
    }
    for (name, weight) in &wanted.wants {
        let used_up = harness.places.iter().flat_map(|p| &p.features).any(|f| f.used_up && f.name == *name);
        if *weight >= 1.0 || used_up {
            let has = move |place: usize| {
                let mut found = harness.places[place].features.iter().filter(|feature| feature.name == *name);
                found.any(|feature| !feature.used_up || within(*weight, feature.value))
            };
            let much = if used_up { format!("{weight} of ") } else { String::new() };
            needs.push((format!("{much}the feature `{name}`"), Box::new(has)));
        }
    }
    let spare = move |place: usize| {
        let features = harness.places[place].features.iter().filter(|f| !f.used_up && f.value >= 1.0);
        wanted.slots == 0 || features.into_iter().all(|f| wanted.wants.iter().any(|(want, _)| *want == f.name))
    };
    needs.push(("a machine that is not kept for those who want its features".into(), Box::new(spare)));
    needs
}

fn finite(values: impl Iterator<Item = f64>) -> f64 {
    values.filter(|v| v.is_finite()).fold(0.0, f64::max)
}

/// The sentence for a node that fits nowhere: what no machine has; or else, that none has all of it.
fn nowhere(request: &Request, harness: &Harness, instance: &Instance, node: usize, tdf: Option<Tdf>) -> String {
    let name = &request.nodes[node].name;
    let place = request.nodes[node].place.as_ref().map_or(String::new(), |(file, line)| format!("{file}:{line}: "));
    let at = tdf.map(|tdf| format!(" at TDF {tdf}")).unwrap_or_default();
    // A switch has room for anything, but only for nodes that ask for a type of its.
    let class = instance.items[node].class;
    let can_be = |place: &usize| !harness.places[*place].switch || instance.fits[class][*place].kind != NONE;
    let machines: Vec<usize> = (0..harness.places.len()).filter(can_be).collect();
    let needs = needs(request, harness, instance, node);
    let missing: Vec<&str> =
        needs.iter().filter(|(_, has)| !machines.iter().copied().any(has)).map(|(what, _)| what.as_str()).collect();
    if !missing.is_empty() {
        return format!(
            "{place}the node `{name}` fits on no machine{at}: none has {}; give a machine that, or ask for less",
            missing.join(", nor ")
        );
    }
    let counted: Vec<String> = needs
        .iter()
        .map(|(what, has)| (what, machines.iter().filter(|place| has(**place)).count()))
        .filter(|(_, count)| *count < machines.len())
        .map(|(what, count)| format!("{what}: {count}"))
        .collect();
    format!(
        "{place}the node `{name}` fits on no machine{at}: none has all that it needs at once (how many have {}); give \
         one all of it, or ask for less",
        counted.join("; ")
    )
}

/// Fails if a machine has not room for all nodes that must be on it.
fn fixed(request: &Request, harness: &Harness, instance: &Instance, tdf: Option<Tdf>) -> Result<(), Error> {
    let mut on: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (node, item) in instance.items.iter().enumerate().filter(|(_, item)| item.fixed != NONE) {
        on.entry(item.fixed).or_default().push(node);
    }
    for (place, nodes) in on {
        let machine = &harness.places[place as usize];
        let room = &instance.places[place as usize];
        let names: Vec<&str> = nodes.iter().map(|node| request.nodes[*node].name.as_str()).collect();
        for node in &nodes {
            if !fits(instance, &instance.items[*node], place as usize) {
                let has_not: Vec<String> = needs(request, harness, instance, *node)
                    .into_iter()
                    .filter(|(_, has)| !has(place as usize))
                    .map(|(what, _)| what)
                    .collect();
                return Err(Error::Input(format!(
                    "the node `{}` must be on `{}`, which has not {}: let it be elsewhere, or ask for less",
                    request.nodes[*node].name,
                    machine.name,
                    has_not.join(", nor ")
                )));
            }
        }
        let sum = |of: fn(&Item) -> f64| nodes.iter().map(|node| of(&instance.items[*node])).sum::<f64>();
        let (slots, memory, cpu) = (sum(|i| i.slots), sum(|i| i.memory), sum(|i| i.cpu));
        let mut kinds: BTreeMap<u32, f64> = BTreeMap::new();
        for item in nodes.iter().map(|node| &instance.items[*node]) {
            let kind = instance.fits[item.class][place as usize].kind;
            if kind != NONE {
                *kinds.entry(kind).or_default() += item.slots;
            }
        }
        let over_kind = kinds.iter().find(|(kind, slots)| !within(**slots, room.kinds[**kind as usize].0));
        let at = tdf.map(|tdf| format!(" at TDF {tdf}")).unwrap_or_default();
        let taken = if !within(slots, room.slots) {
            format!("it has {} for nodes", counted(room.slots))
        } else if let Some((kind, _)) = over_kind {
            let kind = *kind as usize;
            format!("it has {} for nodes of type `{}`", counted(room.kinds[kind].0), machine.types[kind].name)
        } else if !within(memory, room.memory) {
            format!("they need {} of its {}", bytes(memory as u64), bytes(room.memory as u64))
        } else if !within(cpu, room.cpu) {
            format!("they need {} of its cores{at}, and it gives {}", short(cpu), short(room.cpu))
        } else {
            continue;
        };
        return Err(Error::Input(format!(
            "`{}` is taken: {} must be on it, and {taken}; let one of them be elsewhere",
            machine.name,
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ")
        )));
    }
    Ok(())
}

fn counted(slots: f64) -> String {
    match slots {
        1.0 => "one slot".into(),
        n => format!("{n} slots"),
    }
}
