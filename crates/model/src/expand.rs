//! From the file's tree to the experiment: every value read, every name resolved, every mistake noted with its place.

mod behaviour;
mod disk;
mod faults;
mod flows;
mod guests;
mod identity;
mod lans;
mod link;
mod network;
mod nodes;
mod patterns;
mod placement;
mod ports;
mod routes;

use std::path::Path;

use scale::{Tdf, VirtualInstant};
use serde::Deserialize;

use crate::de;
use crate::error::Problems;
use crate::experiment::{Accuracy, Cpu, Event, Experiment};
use crate::file;
use crate::glob;
use crate::names::{self, did_you_mean};
use crate::tree::{Data, Key, Span, Value, shorten};
use crate::units::{Bandwidth, Factor, Lead, Size, Window};

/// The most nodes that an experiment may have.
const NODES: usize = 10_000;
/// The most links or events that an experiment may have.
const MANY: usize = 50_000;

/// The least of what a node prints that may be kept, in bytes.
const LEAST_LOGS: u64 = 16 << 10;

/// The experiment that the tree describes; `None` if so much is wrong that there is none. Whatever is wrong is noted
/// in `problems`.
pub(crate) fn experiment(root: &Value, dir: &Path, problems: &mut Problems) -> Option<Experiment> {
    let Data::Map(entries) = &root.data else {
        problems.add(root.span, format!("this is {}: an experiment is a map that begins with `name: …`", root.kind()));
        return None;
    };
    let mut top = Top { root, problems };
    for (key, value) in entries {
        if !file::KEYS.contains(&key.text.as_str()) {
            top.problems.add(key.span, de::unknown_key(&key.text, &file::KEYS));
        } else if value.is_null() {
            let what = format!("`{}` has no value: write one, or remove the key", key.text);
            top.problems.add(key.span, what);
        }
    }
    let name: Option<String> = top.one("name", true);
    if let (Some(name), Some(value)) = (&name, root.get("name"))
        && let Some(what) = names::wrong_label(name)
    {
        top.problems.add(value.span, what);
    }
    let tdf: Option<Factor> = top.one("tdf", true);
    let measure: Option<Window> = top.one("measure", false);
    let cpu: Option<file::Cpu> = top.one("cpu", false);
    let refill: Option<bool> = top.one("refill", false);
    let lead: Option<Lead> = top.one("lead", false);
    let grain: Option<Lead> = top.one("grain", false);
    let accuracy: Option<file::Accuracy> = top.one("accuracy", false);
    let machines = top.entries("machines", true, "classes of hardware");
    let nodes = top.entries("nodes", true, "nodes");
    let links = top.items("links");
    let apart: Option<bool> = top.one("apart", false);
    let lans = top.entries("lans", false, "shared segments");
    let routes = top.items("routes");
    let switches = top.items("switches");
    let placement = top.items("placement");
    let colocate: Option<u32> = top.one("colocate", false);
    let barriers: Option<String> = top.one("barriers", false);
    let simulated = top.entries("simulated", false, "simulated hosts");
    let traffic = top.entries("traffic", false, "flows");
    let metrics = top.entries("metrics", false, "metrics");
    let logs: Option<Size> = top.one("logs", false);
    let log_rate: Option<Bandwidth> = top.one("log_rate", false);
    let user_namespaces: Option<bool> = top.one("user_namespaces", false);
    let monitor: Option<file::Monitor> = top.one("monitor", false);
    let events = top.items("events");
    let ends: Option<file::Ends> = top.one("ends", true);
    let idle: Option<file::Idle> = top.one("idle", false);

    if let (Some(Size(..LEAST_LOGS)), Some(value)) = (logs, root.get("logs")) {
        problems.add(value.span, "this would hold no message: keep at least 16KiB of what a node prints");
    }
    let accuracy = accuracy.map(|a| exactness(a, root, problems)).unwrap_or_default();
    let machines = nodes::machines(machines, problems);
    let mut nodes = nodes::nodes(nodes, &machines, dir, problems);
    let names: Vec<String> = nodes.iter().map(|n| n.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut switches = network::switches(switches, &names, problems);
    let first_simulated = switches.len();
    switches.extend(nodes::simulated(simulated, &names, &switches, problems));
    let lan_names: Vec<&str> = lans.iter().map(|l| l.name()).collect();
    let mut net = network::links(links, &names, &switches, &lan_names, problems);
    lans::lans(&lans, &names, &switches, &mut net, problems);
    let places: Vec<&str> = switches.iter().map(String::as_str).chain(lan_names).collect();
    if apart != Some(true) {
        net.check_shape(&names, &places, root, problems);
    }
    let network::Network { links, places: link_places, captures, lans, addresses, mut notes, .. } = net;
    // An option may give the one and the file the other.
    notes.extend(grain.map(|_| match lead {
        None => "`grain` is called `lead` now, and goes on being read".to_owned(),
        Some(_) => "`grain` is the earlier name of `lead`, which counts in its place".to_owned(),
    }));
    let routes = routes::routes(routes, &names, &places, &links, problems);
    let placement = placement::placement(placement, &names, &places, problems);
    if colocate == Some(0) {
        problems
            .add(root.get("colocate").unwrap_or(root).span, "a machine takes at least 1 node, or nothing is anywhere");
    }
    let barriers = barriers.and_then(|name| nodes::serving_barriers(&name, &mut nodes, root, problems));
    let simulated = switches[first_simulated..].iter().map(String::as_str).collect();
    let flows = flows::flows(traffic, &mut nodes, &switches, &simulated, !links.is_empty(), problems);
    let of_flows = flows::metrics(&flows, &metrics, problems);
    let flows::Flows { programs: flows, background, mut deeds } = flows;
    let flow_names = flows::names(&flows, &background);
    let mut patterns = patterns::Patterns::default();
    let mut metrics = behaviour::metrics(metrics, &names, &mut patterns, problems);
    metrics.extend(of_flows);
    let has_disk: Vec<bool> =
        nodes.iter().map(|n| machines.get(n.machine).is_none_or(|(m, _)| m.disk.is_some())).collect();
    let memory: Vec<_> = nodes.iter().map(|n| machines.get(n.machine).map(|(m, _)| m.memory_bytes)).collect();
    let steps = behaviour::steps(&events, problems);
    let conditions = behaviour::conditions(&events, &names, &mut patterns, problems);
    let clocks = faults::clocks(&nodes);
    let (memory, has_disk) = (&memory, &has_disk);
    let of = behaviour::Of { nodes: &names, has_disk, memory, clocks: &clocks, links: &links, flows: &flow_names };
    let (mut events, of_flows) = behaviour::events(events, &of, &steps, problems);
    deeds.extend(of_flows);
    let ends = behaviour::ends(ends?, root.get("ends")?, &names, problems);
    let idle = idle.map(|idle| behaviour::idle(idle, root.get("idle").unwrap_or(root), problems));
    let monitor = monitor.map(|read| behaviour::monitor(read, root.get("monitor").unwrap_or(root), problems));
    behaviour::check_programs(&events, problems);
    events.extend(flows::carried_out(deeds, &flows, &background, problems));
    behaviour::check_steps(&events, &steps, problems);
    guests::check(&nodes, &flows, &events, root, problems);
    behaviour::check_times(measure.map(|w| w.0), &events, &ends, root, problems);
    Some(Experiment {
        name: name?,
        dir: dir.to_owned(),
        tdf: tdf.map_or(Tdf::ONE, |t| t.0),
        measure: measure.map(|w| w.0),
        cpu: match cpu {
            Some(file::Cpu::Time) => Cpu::Time,
            Some(file::Cpu::Work) | None => Cpu::Work,
        },
        without_meaning: refill.map(|_| "refill").into_iter().collect(),
        notes,
        lead: lead.or(grain).map(|lead| lead.0),
        accuracy,
        machines: machines.into_iter().filter_map(|(m, right)| right.then_some(m)).collect(),
        nodes,
        links,
        lans,
        addresses,
        captures,
        switches,
        routes,
        placement,
        link_places,
        colocate,
        barriers,
        flows,
        background,
        metrics,
        logs: logs.map(|logs| logs.0),
        log_rate: log_rate.map(|rate| rate.0),
        user_namespaces: user_namespaces == Some(true),
        monitor: monitor.unwrap_or(behaviour::USUALLY_MONITORED),
        events: behaviour::in_order(events),
        steps,
        conditions,
        ends,
        idle,
        resolved: String::new(),
    })
}

/// An event of an experiment that is there already.
pub(crate) fn event(root: &Value, experiment: &Experiment, problems: &mut Problems) -> Vec<Event> {
    let value = de::read(root).map_err(|(at, what)| problems.add(at, what)).ok();
    let waits = |e: &file::Event| {
        e.after.is_some() || e.step.is_some() || e.lasts.is_some() || e.flap.is_some() || e.when.is_some()
    };
    if value.as_ref().is_some_and(waits) {
        let what = "what is done by hand happens at once, and nothing waits for it: leave `after`, `as`, `for`, \
                    `flap` and `when` out";
        problems.add(root.span, what);
    }
    let names: Vec<&str> = experiment.nodes.iter().map(|n| n.name.as_str()).collect();
    let has_disk: Vec<bool> = experiment.nodes.iter().map(|n| experiment.machines[n.machine].disk.is_some()).collect();
    let memory: Vec<_> = experiment.nodes.iter().map(|n| Some(experiment.machines[n.machine].memory_bytes)).collect();
    let (memory, has_disk) = (&memory, &has_disk);
    let entry = Entry { key: None, node: root, value };
    let (flows, background) = (&experiment.flows, &experiment.background);
    let names_of_flows = flows::names(flows, background);
    let (clocks, links) = (faults::clocks(&experiment.nodes), &experiment.links);
    let of = behaviour::Of { nodes: &names, has_disk, memory, clocks: &clocks, links, flows: &names_of_flows };
    let (mut events, deeds) = behaviour::events(vec![entry], &of, &[], problems);
    guests::check(&experiment.nodes, &[], &events, root, problems);
    events.extend(flows::carried_out(deeds, flows, background, problems));
    behaviour::in_order(events)
}

/// How exact results must be.
fn exactness(written: file::Accuracy, root: &Value, problems: &mut Problems) -> Accuracy {
    match written {
        file::WordOr::Word(all) => Accuracy { all: Some(all.0), ..Accuracy::default() },
        file::WordOr::Map(file::AccuracyMap { mean: None, p50: None, p90: None, p99: None }) => {
            let what = "this names no statistic: write at least one of mean, p50, p90 and p99, such as `p99: 20%`";
            problems.add(root.get("accuracy").map_or(root.span, |v| v.span), what);
            Accuracy::default()
        }
        file::WordOr::Map(map) => {
            let [mean, p50, p90, p99] = [map.mean, map.p50, map.p90, map.p99].map(|p| p.map(|p| p.0));
            Accuracy { all: None, mean, p50, p90, p99 }
        }
    }
}

/// One entry of a section, read, with its places.
pub struct Entry<'a, T> {
    /// The key; in a list, none.
    pub key: Option<&'a Key>,
    /// All of its value.
    pub node: &'a Value,
    /// `None` if it could not be read, which has been noted.
    pub value: Option<T>,
}

impl<T> Entry<'_, T> {
    /// The place of the value of a key, or of the whole entry.
    pub fn at(&self, key: &str) -> Span {
        self.node.get(key).map_or(self.node.span, |v| v.span)
    }

    /// The place of an item of the list under a key.
    pub fn at_item(&self, key: &str, i: usize) -> Span {
        item_span(self.node, key, i)
    }

    /// The place of its key, or of the whole entry.
    pub fn key_span(&self) -> Span {
        self.key.map_or(self.node.span, |k| k.span)
    }

    /// Its key; empty in a list.
    pub fn name(&self) -> &str {
        self.key.map_or("", |k| k.text.as_str())
    }
}

/// The place of an item of the list under a key of a map.
pub fn item_span(node: &Value, key: &str, i: usize) -> Span {
    match node.get(key).map(|v| (&v.data, v.span)) {
        Some((Data::List(items), span)) => items.get(i).map_or(span, |item| item.span),
        Some((_, span)) => span,
        None => node.span,
    }
}

/// The place of a key of the map under a key.
pub fn key_span(node: &Value, map: &str, key: &str) -> Span {
    match node.get(map).map(|v| (&v.data, v.span)) {
        Some((Data::Map(entries), span)) => entries.iter().find(|(k, _)| k.text == key).map_or(span, |(k, _)| k.span),
        Some((_, span)) => span,
        None => node.span,
    }
}

/// The top of the file: a map of sections.
pub struct Top<'a, 'p> {
    /// All of the file.
    pub root: &'a Value,
    /// Faults found so far.
    pub problems: &'p mut Problems,
}

impl<'a> Top<'a, '_> {
    /// The value of a key, or `None` with a note if it must be there.
    fn present(&mut self, key: &str, needed: bool) -> Option<&'a Value> {
        let found = self.root.get(key);
        if found.is_none() && needed {
            let at = Span { end: self.root.span.start + 1, ..self.root.span };
            self.problems.add(at, format!("the key `{key}` is missing: add `{key}: …`"));
        }
        found.filter(|v| !v.is_null())
    }

    /// The value of a key; a note if it is wrong, or needed and missing.
    pub fn one<T: Deserialize<'a>>(&mut self, key: &str, needed: bool) -> Option<T> {
        let value = self.present(key, needed)?;
        de::read(value).map_err(|(at, what)| self.problems.add(at, what)).ok()
    }

    /// The entries of a map of things by name; `what` says what they are.
    pub fn entries<T: Deserialize<'a>>(&mut self, key: &str, needed: bool, what: &str) -> Vec<Entry<'a, T>> {
        let Some(value) = self.present(key, needed) else { return Vec::new() };
        let Data::Map(entries) = &value.data else {
            let message =
                format!("this is {}: `{key}` is a map from names to {what}, such as `NAME: {{ … }}`", value.kind());
            self.problems.add(value.span, message);
            return Vec::new();
        };
        if entries.is_empty() && needed {
            self.problems.add(value.span, format!("`{key}` is empty: write at least one"));
        }
        let mut all = Vec::with_capacity(entries.len());
        for (key, node) in entries {
            let value = self.read(key.span, &key.text, node);
            all.push(Entry { key: Some(key), node, value });
        }
        all
    }

    /// The items of a list.
    pub fn items<T: Deserialize<'a>>(&mut self, key: &str) -> Vec<Entry<'a, T>> {
        let Some(value) = self.present(key, false) else { return Vec::new() };
        let Data::List(items) = &value.data else {
            self.problems
                .add(value.span, format!("this is {}: `{key}` is a list, each item after a `- `", value.kind()));
            return Vec::new();
        };
        let mut all = Vec::with_capacity(items.len());
        for node in items {
            let value = self.read(node.span, "this item", node);
            all.push(Entry { key: None, node, value });
        }
        all
    }

    fn read<T: Deserialize<'a>>(&mut self, at: Span, name: &str, node: &'a Value) -> Option<T> {
        if node.is_null() {
            self.problems.add(at, format!("`{}` has no value: write one, or remove the key", shorten(name)));
            return None;
        }
        de::read(node).map_err(|(at, what)| self.problems.add(at, what)).ok()
    }
}

/// The places of the names that match a pattern; a note if there are none.
pub fn select(pattern: &str, names: &[&str], kind: &str, at: Span, problems: &mut Problems) -> Vec<usize> {
    let found: Vec<usize> = (0..names.len()).filter(|i| glob::matches(pattern, names[*i])).collect();
    if found.is_empty() && !problems.full() {
        let shown = shorten(pattern);
        let counted = format!("{pattern}-1");
        let turned = pattern.split_once("--").map(|(a, b)| format!("{b}--{a}"));
        let near = match turned {
            _ if names.contains(&counted.as_str()) => format!(": did you mean `{pattern}-*`?"),
            Some(link) if names.contains(&link.as_str()) => format!(": did you mean `{link}`?"),
            _ => did_you_mean(pattern, names),
        };
        let what = match pattern.contains('*') {
            true => format!("`{shown}` matches no {kind}{near}"),
            false => format!("there is no {kind} `{shown}`{near}"),
        };
        problems.add(at, what);
    }
    if problems.may_name(found.len(), at) { found } else { Vec::new() }
}

/// An instant of the run, from a time since its start.
pub(crate) fn instant(time: crate::units::Time) -> VirtualInstant {
    VirtualInstant::ZERO + time.0
}
