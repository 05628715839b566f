//! The catalog of a harness: `docs/map.md` describes the file, and the JSON Schema is generated from these types.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use model::Speed;
use model::yaml::{
    Bandwidth, Data, Entry, Kind, Probability, Problems, Size, Span, Time, Top, did_you_mean, key_span, open, select,
    shorten, unknown_key, wrong_word,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::Error;
use crate::harness::{Cable, Cpu, Feature, Harness, MeasuredPath, Place, TypeSlots};
use crate::way::{Kubernetes, Ways, Written};
use crate::{emulab, routes};

/// The most machines and switches that a catalog may have.
pub(crate) const PLACES: usize = 10_000;
/// The most cables, and the most measured paths.
const MANY: usize = 1_000_000;

pub(crate) const CATALOG: Kind = Kind {
    the: "the catalog",
    is: "a catalog of machines is a YAML file, or one of Emulab's, whose name ends in .ptop",
    missing: "--machines names the catalog of the machines that there are",
    longest: 8 << 20,
};

/// Likewise where each machine must have a way in.
const HARNESS: Kind = Kind {
    the: "the harness file",
    is: "a harness file is YAML: `machines`, by name, each with its way in, such as `ssh: user@host`",
    missing: "--harness names the file with the machines that there are",
    ..CATALOG
};

/// The machines of a harness, and how they are joined
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "the sections are read one by one, so that all mistakes are found")]
struct File {
    /// Machines, by name
    #[schemars(extend("minProperties" = 1))]
    machines: BTreeMap<String, Machine>,
    /// The names of the switches
    #[serde(default)]
    switches: Vec<String>,
    /// Cables, which join machines and switches
    #[serde(default)]
    cables: Vec<Cabled>,
    /// Measurements between machines that no cable of ours joins
    #[serde(default)]
    paths: Vec<Measured>,
    /// How many nodes may have a type, over all machines
    #[serde(default)]
    limits: BTreeMap<String, u32>,
}

const KEYS: [&str; 5] = ["machines", "switches", "cables", "paths", "limits"];

/// A machine, or several that are alike
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Machine {
    /// How many there are of them, called NAME-1, NAME-2, …; without it there is one, called NAME
    #[schemars(range(min = 1))]
    count: Option<u32>,
    /// How many of its cores are for nodes; without it, CPUs are not counted
    #[schemars(range(min = 1))]
    cores: Option<u32>,
    /// How fast each of them is
    speed: Option<Speed>,
    /// How much memory nodes may have; without it, memory is not counted
    memory: Option<Size>,
    /// How many nodes it takes; without it, as many as its cores and memory do
    #[schemars(range(min = 1))]
    slots: Option<u32>,
    /// Its types
    #[serde(default)]
    types: Vec<String>,
    /// Features that nodes may want of it, and what a plan pays for each node there that does not want it, from 0 to 1
    #[serde(default)]
    features: BTreeMap<String, f64>,
    /// Amounts that nodes use up, and how much there is
    #[serde(default)]
    amounts: BTreeMap<String, f64>,
    /// The bandwidth that all links inside it may carry together
    inside: Option<Bandwidth>,
    /// The way in for `--harness`: this host, or this user's account there, by ssh
    ssh: Option<String>,
    /// The way in for `--harness`: a command and its arguments, whose standard input and output `diorama site` has
    #[schemars(extend("minItems" = 1))]
    command: Option<Vec<String>>,
    /// The way in for `--harness`: a pod of a cluster. Not yet
    kubernetes: Option<Kubernetes>,
}

/// A cable from each of some machines or switches to one other
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Cabled {
    /// Machines and switches; `*` stands for any characters
    from: String,
    /// A machine or a switch
    to: String,
    /// The cable's bandwidth in each direction
    bandwidth: Bandwidth,
    /// How many lie side by side; between two switches they are used as one that carries as much as all
    #[schemars(range(min = 1))]
    count: Option<u32>,
}

/// A measurement, of both directions unless another item is about the way back
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Measured {
    /// The machine that sent
    from: String,
    /// The machine that received
    to: String,
    /// The delay one way
    delay: Time,
    /// The bandwidth, if it was measured
    bandwidth: Option<Bandwidth>,
    /// Which part of packets is lost
    loss: Option<Probability>,
}

/// The JSON Schema of a catalog, for editors.
pub fn catalog_schema() -> serde_json::Value {
    model::yaml::schema_of::<File>()
}

/// The machines that a catalog names: of a file that ends in `.ptop` in Emulab's format, else in YAML.
///
/// # Errors
///
/// [`Error::File`]: what is wrong with it, each place with its line and a pointer into that line.
pub fn load_harness(path: &Path) -> Result<Harness, Error> {
    if path.extension().is_some_and(|end| end == "ptop") {
        return emulab::ptop(path);
    }
    read_harness(path, &CATALOG, false)
}

/// Likewise of a harness file, all of whose machines have a way in.
///
/// # Errors
///
/// [`Error::File`], as of [`load_harness`]; [`Error::Input`]: the file is one of Emulab's, in which no way can be
/// written.
pub fn load_reachable(path: &Path) -> Result<Harness, Error> {
    if path.extension().is_some_and(|end| end == "ptop") {
        return Err(Error::Input(format!(
            "{}: no way to a machine can be written in a file of Emulab's: write its machines in YAML, each with `ssh: \
             user@host` or `command: [..]`",
            path.display()
        )));
    }
    read_harness(path, &HARNESS, true)
}

fn read_harness(path: &Path, kind: &Kind, reachable: bool) -> Result<Harness, Error> {
    let (root, mut problems) = open(path, kind)?;
    let Data::Map(entries) = &root.data else {
        problems.add(root.span, format!("this is {}: a catalog is a map that begins with `machines:`", root.kind()));
        return Err(problems.into_error().into());
    };
    for (key, value) in entries {
        if !KEYS.contains(&key.text.as_str()) {
            problems.add(key.span, unknown_key(&key.text, &KEYS));
        } else if value.is_null() {
            let what = format!("`{}` has no value: write one, or remove the key", key.text);
            problems.add(key.span, what);
        }
    }
    let mut top = Top { root: &root, problems: &mut problems };
    let machines: Vec<Entry<'_, Machine>> = top.entries("machines", true, "machines");
    let switches: Vec<Entry<'_, String>> = top.items("switches");
    let cables: Vec<Entry<'_, Cabled>> = top.items("cables");
    let paths: Vec<Entry<'_, Measured>> = top.items("paths");
    let limits: BTreeMap<String, u32> = top.one("limits", false).unwrap_or_default();

    let mut harness = Harness::default();
    let (mut names, mut ways) = (Names::default(), Ways::default());
    for entry in &machines {
        add_machines(entry, &mut harness, (&mut names, &mut ways), &mut problems);
        if reachable && entry.value.as_ref().is_some_and(Machine::has_no_way) {
            let what = format!(
                "there is no way to `{}`: add `ssh: user@host`, or `command: [..]` that gives a stream to `diorama \
                 site` there",
                shorten(entry.name())
            );
            problems.add(entry.key_span(), what);
        }
    }
    for entry in &switches {
        let Some(name) = &entry.value else { continue };
        if names.take(name, entry.node.span, harness.places.len(), &mut problems) {
            harness.places.push(Place::switch(name));
        }
    }
    for (kind, most) in limits {
        if !harness.places.iter().flat_map(|place| &place.types).any(|has| has.name == kind) {
            let at = key_span(&root, "limits", &kind);
            problems.add(at, format!("no machine has the type `{}`", shorten(&kind)));
        }
        harness.type_limits.push((kind, most));
    }
    let spans = add_cables(&cables, &mut harness, &mut problems);
    add_paths(&paths, &mut harness, &mut problems);
    refuse_circles(&harness, &spans, &mut problems);
    if problems.none() { Ok(harness) } else { Err(problems.into_error().into()) }
}

/// Notes a circle of switches at the cable that closes it.
pub(crate) fn refuse_circles(harness: &Harness, spans: &[Span], problems: &mut Problems) {
    if let Some((cable, circle)) = routes::circle(harness) {
        let names: Vec<&str> = circle.iter().map(|place| harness.places[*place].name.as_str()).collect();
        let what = routes::circle_sentence(&harness.cables[cable].name, &names);
        problems.add(spans[cable], what);
    }
}

/// Names that are taken.
#[derive(Default)]
struct Names(HashMap<String, usize>);

impl Names {
    /// Whether the name can be had; a note if not.
    fn take(&mut self, name: &str, at: Span, place: usize, problems: &mut Problems) -> bool {
        if let Some(what) = wrong_word(name) {
            problems.add(at, what);
            return false;
        }
        if self.0.insert(name.to_owned(), place).is_some() {
            problems.add(at, format!("a machine or switch is called `{}` already: rename one", shorten(name)));
            return false;
        }
        true
    }
}

impl Machine {
    fn has_no_way(&self) -> bool {
        self.ssh.is_none() && self.command.is_none() && self.kubernetes.is_none()
    }
}

fn add_machines(
    entry: &Entry<'_, Machine>,
    harness: &mut Harness,
    (names, ways): (&mut Names, &mut Ways),
    problems: &mut Problems,
) {
    let Some(read) = &entry.value else {
        // Known all the same, so that cables to it are not reported as well.
        if names.take(entry.name(), entry.key_span(), harness.places.len(), problems) {
            harness.places.push(Place::machine(entry.name()));
        }
        return;
    };
    for (key, value) in [("count", read.count), ("cores", read.cores), ("slots", read.slots)] {
        if value == Some(0) {
            problems.add(entry.at(key), format!("`{key}` is at least 1"));
        }
    }
    if read.speed.is_some() && read.cores.is_none() {
        problems.add(entry.at("speed"), "a speed is that of cores: add `cores: …`, how many of them are for nodes");
    }
    let speed = read.speed.unwrap_or(Speed::OfHost(1.0));
    let (Speed::OfHost(value) | Speed::Absolute(value)) = speed;
    if !(value > 0.0 && value <= 1e6) {
        problems.add(entry.at("speed"), "a speed is above 0 and at most 1000000");
    }
    for (i, kind) in read.types.iter().enumerate() {
        if let Some(what) = wrong_word(kind) {
            problems.add(entry.at_item("types", i), what);
        }
    }
    let mut features = Vec::new();
    for (section, used_up, all) in [("features", false, &read.features), ("amounts", true, &read.amounts)] {
        for (name, value) in all {
            let at = key_span(entry.node, section, name);
            if let Some(what) = wrong_word(name) {
                problems.add(at, what);
            }
            let most = if used_up { 1e15 } else { 1.0 };
            if !(0.0..=most).contains(value) {
                problems.add(at, format!("`{value}` is out of range: write a number from 0 to {most}"));
            }
            if used_up && read.features.contains_key(name) {
                problems.add(at, format!("`{}` is a feature already: rename one", shorten(name)));
            }
            features.push(Feature { name: name.clone(), value: *value, used_up });
        }
    }
    let written =
        Written { ssh: read.ssh.as_deref(), command: read.command.as_deref(), kubernetes: read.kubernetes.is_some() };
    let way = ways.take(written, entry, problems);
    if read.count.is_some() && !read.has_no_way() {
        let what = "each machine has a way in of its own: write them one by one, without `count`";
        problems.add(entry.at("count"), what);
    }
    let place = Place {
        way,
        slots: read.slots,
        types: read.types.iter().map(|name| TypeSlots { name: name.clone(), slots: None, always: true }).collect(),
        cpu: read.cores.map(|cores| Cpu { cores, speed }),
        memory_bytes: read.memory.map(|size| size.0),
        inside_bits_per_s: read.inside.map(|rate| rate.0.bits_per_s()),
        features,
        ..Place::machine("")
    };
    let many = read.count.unwrap_or(1) as usize;
    if harness.places.len() + many > PLACES {
        let what = format!("this makes more than {PLACES} machines and switches: leave some out");
        problems.add(entry.at("count"), what);
        return;
    }
    for i in 1..=many {
        let name = if read.count.is_some() { format!("{}-{i}", entry.name()) } else { entry.name().to_owned() };
        if !names.take(&name, entry.key_span(), harness.places.len(), problems) {
            return;
        }
        harness.places.push(Place { name, ..place.clone() });
    }
}

/// By cable, where it stands in the file.
fn add_cables(entries: &[Entry<'_, Cabled>], harness: &mut Harness, problems: &mut Problems) -> Vec<Span> {
    let names: Vec<String> = harness.places.iter().map(|place| place.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut spans = Vec::new();
    for entry in entries {
        let Some(read) = &entry.value else { continue };
        let from = select(&read.from, &names, "machine or switch", entry.at("from"), problems);
        let Some(to) = names.iter().position(|name| *name == read.to) else {
            let near = did_you_mean(&read.to, &names);
            let what = format!("there is no machine or switch `{}`{near}", shorten(&read.to));
            problems.add(entry.at("to"), what);
            continue;
        };
        let count = read.count.unwrap_or(1);
        if count == 0 || count as usize > MANY {
            problems.add(entry.at("count"), "write a number of cables, 1 or more");
            continue;
        }
        let from: Vec<usize> = match from.len() {
            1 => from,
            // A pattern may match where they all lead.
            _ => from.into_iter().filter(|place| *place != to).collect(),
        };
        for place in from {
            if place == to && !harness.places[place].switch {
                problems.add(entry.node.span, format!("this joins `{}` with itself: remove it", names[place]));
                break;
            }
            if harness.cables.len() >= MANY {
                problems.add(entry.node.span, format!("this is more than {MANY} cables: leave some out"));
                return spans;
            }
            let bundled = harness.places[place].switch && harness.places[to].switch;
            let (many, each) = if bundled { (1, f64::from(count)) } else { (count, 1.0) };
            for i in 1..=many {
                let number = if many > 1 { format!("/{i}") } else { String::new() };
                harness.cables.push(Cable {
                    name: format!("{}--{}{number}", names[place], names[to]),
                    ends: [place, to],
                    bits_per_s: read.bandwidth.0.bits_per_s() * each,
                    kinds: Vec::new(),
                });
                spans.push(entry.node.span);
            }
        }
    }
    number_equals(&mut harness.cables);
    spans
}

/// Cables of one name get numbers, so that a plan can tell them apart.
pub(crate) fn number_equals(cables: &mut [Cable]) {
    let mut seen: HashMap<String, u32> = HashMap::new();
    for cable in cables {
        let count = seen.entry(cable.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            cable.name = format!("{}+{count}", cable.name);
        }
    }
}

fn add_paths(entries: &[Entry<'_, Measured>], harness: &mut Harness, problems: &mut Problems) {
    let by_name: HashMap<String, usize> =
        harness.places.iter().enumerate().map(|(i, place)| (place.name.clone(), i)).collect();
    let mut given: HashMap<(usize, usize), usize> = HashMap::new();
    let mut back: Vec<MeasuredPath> = Vec::new();
    for entry in entries {
        let Some(read) = &entry.value else { continue };
        let mut ends = [0, 0];
        let mut known = true;
        for (i, (key, name)) in [("from", &read.from), ("to", &read.to)].into_iter().enumerate() {
            match by_name.get(name) {
                Some(place) if !harness.places[*place].switch => ends[i] = *place,
                Some(_) => {
                    problems.add(entry.at(key), format!("`{name}` is a switch: paths are between machines"));
                    known = false;
                }
                None => {
                    let names: Vec<&str> = harness.places.iter().map(|place| place.name.as_str()).collect();
                    let near = did_you_mean(name, &names);
                    problems.add(entry.at(key), format!("there is no machine `{}`{near}", shorten(name)));
                    known = false;
                }
            }
        }
        if !known {
            continue;
        }
        let [from, to] = ends;
        if from == to {
            problems.add(entry.node.span, format!("this is a path from `{}` to itself: remove it", read.from));
            continue;
        }
        if given.insert((from, to), harness.paths.len()).is_some() {
            let what = format!("the path from `{}` to `{}` is there already: remove one", read.from, read.to);
            problems.add(entry.node.span, what);
            continue;
        }
        let path = MeasuredPath {
            from,
            to,
            delay_s: read.delay.0.as_secs_f64(),
            bits_per_s: read.bandwidth.map(|rate| rate.0.bits_per_s()),
            loss: read.loss.map_or(0.0, |loss| loss.0),
        };
        harness.paths.push(path);
        back.push(MeasuredPath { from: to, to: from, ..path });
    }
    harness.paths.extend(back.into_iter().filter(|path| !given.contains_key(&(path.from, path.to))));
}
