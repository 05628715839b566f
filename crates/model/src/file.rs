//! The types of the experiment file, as a user writes it. The JSON Schema is generated from them, and
//! `docs/experiment-file.md` describes them.

mod chaos;
mod disk;
mod flow;
mod guest;
mod link;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

pub(crate) use self::chaos::{Chaos, ChaosFault, ChaosKind, Quiet};
pub(crate) use self::disk::{Disk, DiskMap, DiskName};
pub(crate) use self::flow::{Flow, FlowChange, FlowKind, Transport};
pub(crate) use self::guest::{Arch as GuestArch, Firmware as GuestFirmware, Guest};
pub(crate) use self::link::{
    Capture, Direction, Expected, Jitter, Lan, Length, Link, LinkChange, Loss, Queue, Red, WordOr,
};
use crate::units::{Bandwidth, Drift, Factor, Lead, Off, Percent, Size, Speed, Time, Window};

/// The JSON Schema of the experiment file, for editors.
pub fn schema() -> serde_json::Value {
    schema_of::<File>()
}

/// The JSON Schema of a file of YAML, whose keys have no null values.
pub fn schema_of<T: JsonSchema>() -> serde_json::Value {
    let mut schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<T>().into();
    refuse_null(&mut schema);
    schema
}

/// An optional key may be left out, but not left without a value.
fn refuse_null(schema: &mut serde_json::Value) {
    match schema {
        serde_json::Value::Array(items) => items.iter_mut().for_each(refuse_null),
        serde_json::Value::Object(keys) => {
            if let Some(serde_json::Value::Array(types)) = keys.get_mut("type") {
                types.retain(|t| t != "null");
                if let [only] = types.as_slice() {
                    keys["type"] = only.clone();
                }
            }
            if let Some(serde_json::Value::Array(choices)) = keys.get_mut("anyOf") {
                choices.retain(|c| c.get("type").is_none_or(|t| t != "null"));
                if choices.len() == 1 {
                    let all = keys.remove("anyOf").unwrap_or_default();
                    keys.insert("allOf".into(), all);
                }
            }
            keys.values_mut().for_each(refuse_null);
        }
        _ => {}
    }
}

/// Text, also where it looks like a number or a truth.
fn text_by_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } })
}

/// A Diorama experiment
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, title = "Diorama experiment")]
#[allow(dead_code, reason = "only its schema is used: the keys of the file are read one by one to collect mistakes")]
pub(crate) struct File {
    /// The name of the experiment: lower-case letters, digits and hyphens
    name: String,
    /// Real time over virtual time in the scaled variant
    tdf: Factor,
    /// The virtual time that is measured; samples outside it are warm-up and cool-down
    measure: Option<Window>,
    /// The nodes' entitlement: as much `work` as a core usually does in their share of the time, or only the
    /// `time`; without it work
    cpu: Option<Cpu>,
    /// Does nothing any more
    refill: Option<bool>,
    /// By how much the slowest node's clock may get ahead of the run's in a timeslice, in virtual time; without it, as
    /// the plan finds right
    lead: Option<Lead>,
    /// The earlier name of `lead`
    grain: Option<Lead>,
    /// How exact the results must be for the run to be trustworthy: mean and p50, with twice that for p90 and four
    /// times that for p99; without it 5%
    accuracy: Option<Accuracy>,
    /// Classes of target hardware, by name
    machines: BTreeMap<String, Machine>,
    /// The nodes of the target, by name
    nodes: BTreeMap<String, Node>,
    /// The links between nodes and switches; together with the LANs they join all of them
    links: Option<Vec<Link>>,
    /// Whether the network may be in parts that nothing joins; without it false
    apart: Option<bool>,
    /// Shared segments, by name, whose members hear one another's broadcasts
    lans: Option<BTreeMap<String, Lan>>,
    /// Ways of packets in place of the shortest ones
    routes: Option<Vec<Route>>,
    /// The names of the switches
    switches: Option<Vec<String>>,
    /// Which machines of a harness nodes may be on, for `diorama map`
    placement: Option<Vec<Placement>>,
    /// The most nodes on one machine of a harness, for `diorama map`
    #[schemars(range(min = 1))]
    colocate: Option<u32>,
    /// The node that serves barriers, at which programs of all nodes wait for one another
    barriers: Option<String>,
    /// Hosts without a program, at which flows begin and end that exist only in the emulator, by name
    simulated: Option<BTreeMap<String, Simulated>>,
    /// Flows of packets between nodes, by name
    traffic: Option<BTreeMap<String, Flow>>,
    /// Metrics, by name
    metrics: Option<BTreeMap<String, Metric>>,
    /// How much is kept of what each node prints, its beginning and its end; without it 64MiB
    logs: Option<Size>,
    /// How fast each node prints at most, as on a console of that rate; without it as fast as it can
    log_rate: Option<Bandwidth>,
    /// Whether each node has a user namespace, in which its root is nobody of the host's; without it false
    user_namespaces: Option<bool>,
    /// Recording of the nodes' CPU, memory, disk and network during the run
    monitor: Option<Monitor>,
    /// Events during the run
    events: Option<Vec<Event>>,
    /// Faults at random
    chaos: Option<Chaos>,
    /// When the run is over
    ends: Ends,
    /// The action when nobody has done anything for a long time
    idle: Option<Idle>,
}

/// The keys of [`File`], in the order in which the documentation shows them.
pub(crate) const KEYS: [&str; 29] = [
    "name",
    "tdf",
    "measure",
    "cpu",
    "refill",
    "lead",
    "grain",
    "accuracy",
    "machines",
    "nodes",
    "links",
    "apart",
    "lans",
    "routes",
    "switches",
    "placement",
    "colocate",
    "barriers",
    "simulated",
    "traffic",
    "metrics",
    "logs",
    "log_rate",
    "user_namespaces",
    "monitor",
    "events",
    "chaos",
    "ends",
    "idle",
];

/// The nodes' entitlement: work or time of the core
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cpu {
    Work,
    Time,
}

pub(crate) type Accuracy = WordOr<Percent, AccuracyMap>;

/// How exact single statistics must be; for those that are not named 5%, p90 10%, p99 20%
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccuracyMap {
    /// The arithmetic mean
    pub(crate) mean: Option<Percent>,
    /// The median
    pub(crate) p50: Option<Percent>,
    /// The 90th percentile
    pub(crate) p90: Option<Percent>,
    /// The 99th percentile
    pub(crate) p99: Option<Percent>,
}

impl Expected for AccuracyMap {
    const EXPECTED: &'static str = "a percentage such as `5%`, or a map such as { mean: 2%, p99: 20% }";
}

fn one() -> u32 {
    1
}

/// A class of target hardware
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Machine {
    /// Virtual CPUs, 1 to 256
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 256))]
    pub(crate) cpus: u32,
    /// The speed of each CPU: a fraction of one core of this host, or units of work per microsecond
    pub(crate) speed: Speed,
    /// Main memory
    pub(crate) memory: Size,
    /// The disk that holds what each node writes: one of the catalogue, or what is different about it; without it,
    /// files take the host's time
    pub(crate) disk: Option<Disk>,
}

/// A node, or `count` like ones
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Node {
    /// The name of its class of hardware
    pub(crate) machine: String,
    /// How many there are: NAME-1, NAME-2, …; without it one, NAME
    pub(crate) count: Option<u32>,
    /// The program and its arguments: words as in a POSIX shell (no shell runs), or a list
    pub(crate) run: Option<Command>,
    /// In the place of a program, a whole machine
    pub(crate) guest: Option<Guest>,
    /// The root file system: `host`, `image:NAME` (of `diorama image`), a directory, or an OCI image archive
    pub(crate) root: Option<String>,
    /// Environment variables
    #[serde(default)]
    #[schemars(schema_with = "text_by_name")]
    pub(crate) env: BTreeMap<String, String>,
    /// The working directory, an absolute path inside the node
    pub(crate) cwd: Option<String>,
    /// As whom its program runs: `UID` or `UID:GID`; without it as root
    pub(crate) user: Option<String>,
    /// Its own host name; without it NAME
    pub(crate) hostname: Option<String>,
    /// Further names by which all nodes know it
    #[serde(default)]
    pub(crate) names: Vec<String>,
    /// The signal by which it is ended, such as `QUIT`; without it TERM
    #[serde(rename = "stop-signal")]
    pub(crate) stop_signal: Option<String>,
    /// Ports of this machine's loopback, and the TCP port of the node that each leads to while the run lives
    #[serde(default)]
    pub(crate) ports: BTreeMap<String, u16>,
    /// The congestion control of its TCP; without it CUBIC, as on any Linux
    pub(crate) congestion: Option<Congestion>,
    /// Nodes that must be ready before this one starts; `*` stands for any characters
    #[serde(default)]
    pub(crate) after: Vec<String>,
    /// When the node counts as ready; without it, once it has started
    pub(crate) ready: Option<Ready>,
    /// Absolute paths inside the node, and the files of the experiment's folder that appear there
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    /// How its date is off against the others', from virtual zero on
    pub(crate) clock: Option<Clock>,
    /// Readings of rdtsc and rdtscp in it: `native`, real time, or `dilated`, virtual time, at a cost
    pub(crate) tsc: Option<Tsc>,
    /// Counters of its programs and its packets, for `compare`
    pub(crate) observe: Option<Observe>,
}

/// Counters of a node's programs and its packets during the run
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Observe {
    /// Whether its programs' system calls are counted; without it false
    #[serde(default)]
    pub(crate) calls: bool,
    /// Whether its packets are, flow by flow; without it false
    #[serde(default)]
    pub(crate) packets: bool,
}

/// How the date of a node is off against the others'
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Clock {
    /// By how much at first; without it not at all
    pub(crate) offset: Option<Off>,
    /// By how much more with the time that passes; without it by nothing
    pub(crate) drift: Option<Drift>,
}

/// Readings of the instructions rdtsc and rdtscp
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tsc {
    Native,
    Dilated,
}

/// A congestion control
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Congestion {
    Cubic,
    Reno,
}

/// When a node counts as ready: when it listens on a port, or a command in it ends with 0
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ready {
    /// When something listens on this TCP port
    #[schemars(range(min = 1))]
    pub(crate) tcp: Option<u16>,
    /// When this command, which is run in the node again and again, ends with 0: words as in a POSIX shell (no shell
    /// runs), or a list
    pub(crate) run: Option<Command>,
    /// With `run`: how long after its end the command is run again; without it 1s
    pub(crate) every: Option<Time>,
    /// With `run`: how long it may take before it is killed, and run again; without it 30s
    pub(crate) limit: Option<Time>,
}

/// A program and its arguments.
#[derive(Debug)]
pub(crate) enum Command {
    Line(String),
    Words(Vec<String>),
}

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Command;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a command, such as `nginx -c /srv/nginx.conf`, or a list of its words")
            }

            fn visit_str<E>(self, line: &str) -> Result<Command, E> {
                Ok(Command::Line(line.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut words: A) -> Result<Command, A::Error> {
                let mut all = Vec::new();
                while let Some(word) = words.next_element()? {
                    all.push(word);
                }
                Ok(Command::Words(all))
            }
        }
        d.deserialize_any(Either)
    }
}

impl JsonSchema for Command {
    fn schema_name() -> Cow<'static, str> {
        "Command".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A command line, split like POSIX words and never seen by a shell, or a list of words",
            "oneOf": [
                { "type": "string", "minLength": 1 },
                { "type": "array", "items": { "type": ["string", "number"] }, "minItems": 1 }
            ]
        })
    }
}

/// The way of all packets from one node to another, in this direction
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Route {
    /// The nodes that send; `*` stands for any characters
    pub(crate) from: String,
    /// The nodes that the packets are for; `*` stands for any characters
    pub(crate) to: String,
    /// Every node and switch between the two, in order; where links are parallel, the link
    pub(crate) via: Vec<String>,
}

/// Which machines of a harness some nodes may be on. Weights are from 0 to 1, and with 1 it must be so
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Placement {
    /// The nodes and switches that this is about; `*` stands for any characters
    #[schemars(length(min = 1))]
    pub(crate) nodes: Vec<String>,
    /// The type that their machine must have in the catalog
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    /// Features that their machine should have in the catalog, and with which weight
    #[serde(default)]
    pub(crate) wants: BTreeMap<String, f64>,
    /// The machine that they must be on
    pub(crate) on: Option<String>,
    /// The weight of being all on one machine
    #[schemars(range(min = 0, max = 1))]
    pub(crate) together: Option<f64>,
    /// The weight of being each on a machine of its own
    #[schemars(range(min = 0, max = 1))]
    pub(crate) apart: Option<f64>,
}

/// A metric: either `rows` of a file (with `value` and, for the time, `start`), or a `line` of output (with
/// `from` and `combine`)
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metric {
    /// The nodes that supply samples; `*` stands for any characters
    pub(crate) nodes: String,
    /// A file in the node, an absolute path; each of its rows is a sample
    pub(crate) rows: Option<String>,
    /// The column that says when the sample began, counted from 1
    #[schemars(range(min = 1))]
    pub(crate) start: Option<u32>,
    /// The column that holds the sample, counted from 1
    #[schemars(range(min = 1))]
    pub(crate) value: Option<u32>,
    /// A regular expression with one group, the number; one sample per run
    pub(crate) line: Option<String>,
    /// The output that `line` is looked for in
    pub(crate) from: Option<Stream>,
    /// How the numbers of several lines and nodes become one
    pub(crate) combine: Option<Combine>,
    /// The unit of the sample; times (ns, us, ms, s, min, h) appear in results in ms
    pub(crate) unit: String,
}

/// An output of a program
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// How several numbers become one
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Combine {
    Sum,
    Mean,
    Min,
    Max,
}

/// Hosts that exist only in the emulator
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Simulated {
    /// How many of them, called NAME-1, NAME-2, …; without it one, called NAME
    #[schemars(range(min = 1))]
    pub(crate) count: Option<u32>,
}

/// Something that happens: to a `link` (with `set` or `flap`), to a `node` (with `do`), between groups of nodes
/// (`partition`), to a `flow` (with `do: start`, `do: stop` or `change`), or to a `program` of a node (with `run` or
/// `signal`)
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Event {
    /// The virtual time of it, counted from the start of the run, or from the end of the step that it waits for
    pub(crate) at: Option<Time>,
    /// A line that a node prints, in the place of a time
    pub(crate) when: Option<When>,
    /// The step for whose end it waits: that of the programs which events of this name (`as`) start
    pub(crate) after: Option<String>,
    /// The link, `A--B`; `*` stands for any characters
    pub(crate) link: Option<String>,
    /// The link's change
    pub(crate) set: Option<LinkChange>,
    /// How the link goes down and up again, for as long as `for` says
    pub(crate) flap: Option<Flap>,
    /// Groups of nodes that cannot reach one another from then on, each a list of nodes, in which `*` stands for any
    /// characters; of one group alone all other nodes are the second
    pub(crate) partition: Option<Vec<Vec<String>>>,
    /// With `partition`: whose packets are lost between two groups; without it all
    pub(crate) direction: Option<Towards>,
    /// How long it lasts; then what it has changed is again as the file describes it, and who was ended starts again
    #[serde(rename = "for")]
    pub(crate) lasts: Option<Time>,
    /// The flow of `traffic`; `*` stands for any characters
    pub(crate) flow: Option<String>,
    /// The flow's change, which goes on with that, or starts so when it is started
    pub(crate) change: Option<FlowChange>,
    /// The node; `*` stands for any characters
    pub(crate) node: Option<String>,
    /// The action on it, or on the flow
    #[serde(rename = "do")]
    pub(crate) act: Option<NodeAction>,
    /// With `slow-disk`: how many times as long everything takes from then on; less than 1 makes it faster. With
    /// `speed`: which part of its machine's speed each CPU has, from 0.05 to 1
    #[schemars(range(min = 0.001, max = 1000))]
    pub(crate) factor: Option<f64>,
    /// With `memory`: how much the node has from then on, at most what its machine has
    pub(crate) limit: Option<Size>,
    /// With `clock`: by how much the node's date is off against the others' from then on; without it by what it is then
    pub(crate) offset: Option<Off>,
    /// With `clock`: by how much more with the time that passes; without it as before
    pub(crate) drift: Option<Drift>,
    /// The name of a program beside the node's own
    pub(crate) program: Option<String>,
    /// That program and its arguments, which is started: words as in a POSIX shell (no shell runs), or a list
    pub(crate) run: Option<Command>,
    /// The signal that it is sent
    pub(crate) signal: Option<Signal>,
    /// With `run`: the name of the step that is over when the program has ended, for events that wait for it
    #[serde(rename = "as")]
    pub(crate) step: Option<String>,
}

/// A line that a node prints, waited for the first time, and how long after that
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct When {
    /// The nodes of which one prints it; `*` stands for any characters
    pub(crate) node: String,
    /// A regular expression for a line of its output, standard output or error
    pub(crate) log: String,
    /// How long after that; without it at once
    pub(crate) after: Option<Time>,
}

/// A link that goes down and up, again and again
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Flap {
    /// The time from one going down to the next
    pub(crate) every: Time,
    /// How long it is down each time; without it half of that
    pub(crate) down: Option<Time>,
}

/// Whose packets are lost: all between the groups, those from the first to the second, or those from the second to the
/// first
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Towards {
    Both,
    To,
    From,
}

/// The signal that a program is sent
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Signal {
    Hup,
    Int,
    Quit,
    Kill,
    Usr1,
    Usr2,
    Term,
    Cont,
    Stop,
}

impl Signal {
    /// Its number, the same on all that Linux runs on that Diorama does.
    pub(crate) fn number(self) -> i32 {
        match self {
            Signal::Hup => 1,
            Signal::Int => 2,
            Signal::Quit => 3,
            Signal::Kill => 9,
            Signal::Usr1 => 10,
            Signal::Usr2 => 12,
            Signal::Term => 15,
            Signal::Cont => 18,
            Signal::Stop => 19,
        }
    }
}

/// An action on a node, or on the run: `end`, and `heal`, which ends all partitions
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum NodeAction {
    Kill,
    Stop,
    Start,
    SlowDisk,
    FailDisk,
    FullDisk,
    PowerOff,
    PowerOn,
    Pause,
    Resume,
    Clock,
    Speed,
    Memory,
    Heal,
    End,
}

/// Recording of the nodes' CPU, memory, disk and network during the run
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Monitor {
    /// How often, in virtual time, from 1ms to 1h; without it 1s
    pub(crate) every: Time,
}

/// The action when no node has sent a packet or used its CPU, and no command of `diorama exec` ran, for some time
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Idle {
    /// How long, in virtual time
    pub(crate) after: Time,
    /// The action then
    pub(crate) then: IdleThen,
}

/// The action on a run in which nobody does anything
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum IdleThen {
    Say,
    SwapOut,
}

pub(crate) type Ends = WordOr<Never, EndsMap>;

/// The run goes on until somebody ends it
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Never {
    Never,
}

/// When the run is over
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndsMap {
    /// When all these nodes have exited; `*` stands for any characters. Without it, at the limit
    #[serde(default)]
    pub(crate) exited: Vec<String>,
    /// At the latest; if nodes of `exited` still run then, the run has failed
    pub(crate) limit: Time,
}

impl Expected for EndsMap {
    const EXPECTED: &'static str = "`never`, or a map with `limit` and perhaps `exited`, such as `{ limit: 60s }`";
}
