//! Faults at random: a schedule drawn from a seed, as events that a file could have said.
//!
//! The events are put into the file's tree in the place of `chaos`, so whatever reads an experiment, and the record of
//! its run, has them as if somebody had written them.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use scale::VirtualInstant;

use crate::de;
use crate::error::Problems;
use crate::expand::select;
use crate::experiment::Experiment;
use crate::file::{Chaos, ChaosFault, ChaosKind, Quiet};
use crate::tree::{Data, Key, Span, Value};

/// The key in a file.
const KEY: &str = "chaos";
/// The most events that are drawn.
const MOST: usize = 10_000;
/// The most names in all partitions that are drawn: each is that of all nodes.
const NAMES: usize = 200_000;

/// Takes `chaos` out of a file, if that has it.
pub(crate) fn take(root: &mut Value) -> Option<Value> {
    let Data::Map(entries) = &mut root.data else { return None };
    let place = entries.iter().position(|(key, value)| key.text == KEY && !value.is_null())?;
    Some(entries.remove(place).1)
}

/// Draws the events, and adds them to those of the file; `experiment` is what the rest of it says.
pub(crate) fn draw(root: &mut Value, written: &Value, experiment: &Experiment, problems: &mut Problems) {
    let read: Chaos = match de::read(written) {
        Ok(read) => read,
        Err((at, what)) => return problems.add(at, what),
    };
    let at = |key: &str| written.get(key).map_or(written.span, |value| value.span);
    if read.faults.is_empty() {
        return problems
            .add(at("faults"), "which faults are to come? Add such as `partition: { every: 20s, for: 5s }`");
    }
    if experiment.ends.never {
        return problems.add(written.span, "a run that never ends has no schedule to draw: give `ends` a limit");
    }
    let all: Vec<&str> = experiment.nodes.iter().map(|node| node.name.as_str()).collect();
    let links: Vec<&str> = experiment.links.iter().map(|link| link.name.as_str()).collect();
    let of = |pattern: &Option<String>, names: &[&str], key: &str, problems: &mut Problems| {
        let found = select(pattern.as_deref().unwrap_or("*"), names, &key[..key.len() - 1], at(key), problems);
        found.into_iter().map(|place| names[place].to_owned()).collect::<Vec<_>>()
    };
    const OF_LINKS: [ChaosKind; 2] = [ChaosKind::Down, ChaosKind::Loss];
    let of_links = read.faults.keys().any(|kind| OF_LINKS.contains(kind));
    let of_nodes = read.faults.keys().any(|kind| !OF_LINKS.contains(kind));
    let nodes = if of_nodes { of(&read.nodes, &all, "nodes", problems) } else { Vec::new() };
    let links = if of_links { of(&read.links, &links, "links", problems) } else { Vec::new() };
    let ms = |time: crate::units::Time| time.0.as_nanos() as f64 * 1e-6;
    let Quiet { begin, end } = read.quiet.unwrap_or_default();
    let limit = experiment.ends.limit.since(VirtualInstant::ZERO).as_nanos() as f64 * 1e-6;
    let (begin, end) = (begin.map_or(0.0, ms), limit - end.map_or(1.0, ms));
    if begin >= end {
        return problems.add(at("quiet"), "no time is left for faults: shorten `quiet`, or let the run last longer");
    }
    let (mut events, mut names) = (Vec::new(), 0);
    for (kind, fault) in &read.faults {
        let key = name(*kind);
        let place = written.get("faults").and_then(|faults| faults.get(key)).map_or(written.span, |value| value.span);
        if let Err(what) = check(*kind, fault, nodes.len()) {
            problems.add(place, what);
            continue;
        }
        // Each kind has numbers of its own, so that one more leaves the others as they were.
        let mut numbers = Xoshiro256PlusPlus::seed_from_u64(read.seed.wrapping_mul(64).wrapping_add(*kind as u64));
        let mut unit = || numbers.random::<f64>();
        let mut now = begin;
        loop {
            now += -ms(fault.every) * (1.0 - unit()).ln();
            let lasts = (ms(fault.lasts) * (0.5 + unit())).min(end - now.ceil()).floor().max(1.0);
            if now.ceil() + lasts > end {
                break;
            }
            names += if *kind == ChaosKind::Partition { nodes.len() } else { 0 };
            if names > NAMES {
                let what =
                    format!("this draws partitions of more than {NAMES} nodes together: let them come more seldom");
                return problems.add(place, what);
            }
            let event = event(*kind, fault, [&nodes, &links], &mut unit);
            let time = |key: &str, ms: f64| (key.to_owned(), word(&format!("{ms}ms"), place));
            let first = time("at", now.ceil());
            events.push((now.ceil(), map([vec![first], event(place), vec![time("for", lasts)]].concat(), place)));
            if events.len() > MOST {
                return problems.add(place, format!("this draws more than {MOST} events: let them come more seldom"));
            }
            now = now.ceil() + lasts;
        }
    }
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    add(root, events.into_iter().map(|(_, event)| event), written.span);
}

type Entries = Vec<(String, Value)>;

/// Draws one fault of a kind: whom it meets and how large it is, by numbers from 0 to 1.
fn event(
    kind: ChaosKind,
    fault: &ChaosFault,
    [nodes, links]: [&Vec<String>; 2],
    unit: &mut impl FnMut() -> f64,
) -> impl Fn(Span) -> Entries {
    let of =
        |all: &Vec<String>, number: f64| all.get((number * all.len() as f64) as usize).cloned().unwrap_or_default();
    let mut all = nodes.clone();
    // Fisher and Yates: the first are as many as were drawn.
    let first = match kind {
        ChaosKind::Partition => {
            for last in (1..all.len()).rev() {
                all.swap(last, (unit() * (last + 1) as f64) as usize);
            }
            1 + (unit() * (all.len() - 1) as f64) as usize
        }
        _ => 0,
    };
    let one_way = kind == ChaosKind::Partition && unit() < 1.0 / 3.0;
    let node = of(nodes, unit());
    let link = of(links, unit());
    let most = fault.offset.map_or(0.0, |offset| offset.0 as f64 * 1e-6);
    let offset = ((2.0 * unit() - 1.0) * most).round();
    let limit = fault.limit.map_or(0, |limit| limit.0);
    let (factor, probability) = (fault.factor.unwrap_or(1.0), fault.probability.unwrap_or(0.0));
    move |place| {
        let pair = |key: &str, text: &str| (key.to_owned(), word(text, place));
        let deed = |what: &str| vec![pair("node", &node), pair("do", what)];
        match kind {
            ChaosKind::Partition => {
                let list = |names: &[String]| Value {
                    span: place,
                    data: Data::List(names.iter().map(|name| word(name, place)).collect()),
                };
                let groups = Data::List(vec![list(&all[..first]), list(&all[first..])]);
                let mut entries = vec![("partition".to_owned(), Value { span: place, data: groups })];
                entries.extend(one_way.then(|| pair("direction", "to")));
                entries
            }
            ChaosKind::Clock => [deed("clock"), vec![pair("offset", &format!("{offset}ms"))]].concat(),
            ChaosKind::SlowDisk => [deed("slow-disk"), vec![pair("factor", &factor.to_string())]].concat(),
            ChaosKind::Speed => [deed("speed"), vec![pair("factor", &factor.to_string())]].concat(),
            ChaosKind::Memory => [deed("memory"), vec![pair("limit", &format!("{limit}B"))]].concat(),
            ChaosKind::Kill | ChaosKind::Pause | ChaosKind::PowerOff => deed(name(kind)),
            ChaosKind::Down | ChaosKind::Loss => {
                let change = match kind {
                    ChaosKind::Down => pair("up", "false"),
                    _ => pair("loss", &format!("{}%", probability * 100.0)),
                };
                vec![pair("link", &link), ("set".to_owned(), map(vec![change], place))]
            }
        }
    }
}

/// The kind as it is written.
fn name(kind: ChaosKind) -> &'static str {
    match kind {
        ChaosKind::Partition => "partition",
        ChaosKind::Kill => "kill",
        ChaosKind::Pause => "pause",
        ChaosKind::Clock => "clock",
        ChaosKind::SlowDisk => "slow-disk",
        ChaosKind::PowerOff => "power-off",
        ChaosKind::Down => "down",
        ChaosKind::Loss => "loss",
        ChaosKind::Speed => "speed",
        ChaosKind::Memory => "memory",
    }
}

fn check(kind: ChaosKind, fault: &ChaosFault, nodes: usize) -> Result<(), String> {
    if fault.every.0.as_nanos() == 0 || fault.lasts.0.as_nanos() == 0 {
        return Err("faults come after some time, and last for some: write such as `{ every: 20s, for: 5s }`".into());
    }
    if kind == ChaosKind::Partition && nodes < 2 {
        return Err("a partition is between two nodes at least: let `nodes` name more".into());
    }
    let factor = if kind == ChaosKind::Speed { "0.5" } else { "10" };
    for (key, of, is_there, such) in [
        ("offset", &[ChaosKind::Clock][..], fault.offset.is_some(), "500ms"),
        ("factor", &[ChaosKind::SlowDisk, ChaosKind::Speed], fault.factor.is_some(), factor),
        ("limit", &[ChaosKind::Memory], fault.limit.is_some(), "64MiB"),
        ("probability", &[ChaosKind::Loss], fault.probability.is_some(), "0.2"),
    ] {
        let names: Vec<String> = of.iter().map(|of| format!("`{}`", name(*of))).collect();
        match (of.contains(&kind), is_there) {
            (true, false) => return Err(format!("how much? Add `{key}: {such}`")),
            (false, true) => return Err(format!("`{key}` belongs to {}: remove it", names.join(" and "))),
            _ => {}
        }
    }
    Ok(())
}

fn word(text: &str, span: Span) -> Value {
    Value { span, data: Data::Scalar { text: text.to_owned(), plain: true } }
}

fn map(entries: Entries, span: Span) -> Value {
    let key = |text| Key { span, text, plain: true };
    Value { span, data: Data::Map(entries.into_iter().map(|(text, value)| (key(text), value)).collect()) }
}

/// Adds to the events of a file.
fn add(root: &mut Value, drawn: impl Iterator<Item = Value>, span: Span) {
    let Data::Map(entries) = &mut root.data else { return };
    let place = entries.iter().position(|(key, _)| key.text == "events").unwrap_or(entries.len());
    if place == entries.len() {
        let key = Key { span, text: "events".into(), plain: true };
        entries.push((key, Value { span, data: Data::List(Vec::new()) }));
    }
    if let Data::List(events) = &mut entries[place].1.data {
        events.extend(drawn);
    }
}
