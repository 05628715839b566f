//! Flows of traffic: programs beside those of their nodes, what starts and stops them, and what they measure.

use std::collections::HashSet;

use scale::VirtualInstant;
use traffic::{LARGEST_PACKET, LEAST_PACKET, Pattern, Shape, Sink, Source, delays_log, received_log, sent_log};

use super::{Entry, MANY, behaviour, instant, select};
use crate::error::Problems;
use crate::experiment::{
    self, Action, BackgroundFlow, Beside, Event, Flow, FlowAction, Load, Metric, Node, OfFlow, ProgramAction, Unit,
};
use crate::file::{self, FlowChange, FlowKind, NodeAction, Transport};
use crate::glob;
use crate::names::{did_you_mean, wrong_word};
use crate::tree::{Data, Span, Value, shorten};

/// The longest name of a flow: those of its metrics are longer.
const LONGEST_NAME: usize = 40;
/// The port of the first flow that says none is the one after this.
const PORTS: u16 = 7000;
/// The default payload of a packet, in bytes.
const PACKET: u32 = 1000;
/// Bursts and pauses, in seconds, and the shape of their distribution, of which nothing is said: as in ns.
const BURST: f64 = 0.5;
const SHAPE: f64 = 1.5;
/// Shapes that have a mean, and are not as good as constant.
const SHAPES: std::ops::RangeInclusive<f64> = 1.01..=100.0;
/// The shortest time between two packets, in seconds.
const SHORTEST: f64 = 1e-6;
/// The most that a packet carries over UDP in one frame of a usual link, in bytes.
const LARGEST_FRAMED: u32 = 1472;
const TERM: i32 = 15;
/// Says to a sink that its source was stopped.
const STOPPED: i32 = 10;

/// Something that happens to a flow.
pub(super) struct Deed {
    at: VirtualInstant,
    flow: Which,
    what: What,
    place: Span,
    /// The step for whose end it waits.
    after: Option<usize>,
}

/// By its place among those that programs carry out, or among those of the emulator.
#[derive(Clone, Copy)]
enum Which {
    Programs(usize),
    Background(usize),
}

enum What {
    Start,
    Stop,
    /// It goes on otherwise.
    Change(Box<FlowChange>),
}

/// All flows of a file.
#[derive(Default)]
pub(super) struct Flows {
    /// Those that programs carry out.
    pub(super) programs: Vec<Flow>,
    /// Those that exist only in the emulator.
    pub(super) background: Vec<BackgroundFlow>,
    /// Events that start and stop them at their own times.
    pub(super) deeds: Vec<Deed>,
}

/// The flows. Their receivers, and the senders that say no start, are put beside the programs of their nodes; `others`
/// are the switches and what is simulated.
pub(super) fn flows(
    entries: Vec<Entry<'_, file::Flow>>,
    nodes: &mut [Node],
    others: &[String],
    simulated: &HashSet<&str>,
    joined: bool,
    problems: &mut Problems,
) -> Flows {
    let names: Vec<String> = nodes.iter().map(|n| n.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let places: Vec<&str> = names.iter().copied().chain(others.iter().map(String::as_str)).collect();
    let mut all = Flows::default();
    for (number, entry) in entries.iter().enumerate() {
        if let Some(what) = wrong_word(entry.name()) {
            problems.add(entry.key_span(), what.replace("`latency`", "`video`"));
        } else if entry.name().len() > LONGEST_NAME {
            problems.add(entry.key_span(), format!("the name of a flow has at most {LONGEST_NAME} characters"));
        }
        if number >= MANY {
            problems.add(entry.key_span(), format!("these are more than {MANY} flows"));
            break;
        }
        let Some(read) = &entry.value else { continue };
        if !joined {
            problems.add(entry.key_span(), "no links join the nodes: add `links`, or there is no way for a flow");
        }
        let ends = [&read.from, &read.to];
        let of_simulated = || ends.iter().any(|end| simulated.iter().any(|name| glob::matches(end, name)));
        let made = match read.background == Some(true) || of_simulated() {
            true => background(entry, read, &places, problems).map(|flow| {
                all.background.push(flow);
                Which::Background(all.background.len() - 1)
            }),
            false => carried(entry, read, number, (nodes, &names), &all.programs, problems).map(|flow| {
                all.programs.push(flow);
                Which::Programs(all.programs.len() - 1)
            }),
        };
        let Some(flow) = made else { continue };
        let mut deed = |at, what, key| all.deeds.push(Deed { at, flow, what, place: entry.at(key), after: None });
        match (read.start.map(|start| start.0), flow) {
            (Some(Some(at)), _) => deed(VirtualInstant::ZERO + at, What::Start, "start"),
            (None, Which::Background(_)) => deed(VirtualInstant::ZERO, What::Start, "start"),
            (None, Which::Programs(flow)) => {
                let flow = &all.programs[flow];
                let (program, argv) = (flow.sender(), flow.source.argv());
                nodes[flow.from].beside.push(Beside { program, argv, receives: false });
            }
            (Some(None), _) => {}
        }
        if let Some(stop) = read.stop {
            if read.start.and_then(|start| start.0).is_some_and(|start| start >= stop.0) {
                problems.add(entry.at("stop"), "the flow would stop before it starts: write a later time");
            }
            deed(instant(stop), What::Stop, "stop");
        }
    }
    all
}

/// A flow that programs in nodes carry out.
fn carried(
    entry: &Entry<'_, file::Flow>,
    read: &file::Flow,
    number: usize,
    (nodes, names): (&mut [Node], &[&str]),
    others: &[Flow],
    problems: &mut Problems,
) -> Option<Flow> {
    let (from, to) = (one(&read.from, "from", entry, names, problems), one(&read.to, "to", entry, names, problems));
    let (from, to) = (from?, to?);
    if from == to {
        problems.add(entry.at("to"), "a flow leads from one node to another: name two different ones");
    }
    let flow = flow(entry, read, number, [from, to], names, problems)?;
    let taken = |f: &&Flow| f.to == to && f.sink.port == flow.sink.port && f.sink.over == flow.sink.over;
    if let Some(other) = others.iter().find(taken) {
        let what = format!("the flow `{}` is received on this port of the node, too: choose another", other.name);
        problems.add(entry.at("port"), what);
    }
    nodes[to].beside.push(Beside { program: flow.receiver(), argv: flow.sink.argv(), receives: true });
    Some(flow)
}

/// A flow that exists only in the emulator.
fn background(
    entry: &Entry<'_, file::Flow>,
    read: &file::Flow,
    places: &[&str],
    problems: &mut Problems,
) -> Option<BackgroundFlow> {
    let connected = matches!(read.kind, FlowKind::Ftp | FlowKind::Telnet) || read.over == Some(Transport::Tcp);
    if connected {
        let key = if read.over.is_some() { "over" } else { "kind" };
        let what = "TCP answers what the network does, and needs programs that speak it: let this flow be one between \
                    nodes, without `background`, or choose `cbr`, `poisson`, `exponential` or `pareto` over UDP";
        problems.add(entry.at(key), what);
    }
    if read.port.is_some() {
        problems.add(entry.at("port"), "nobody receives the packets of a flow in the background: remove the port");
    }
    let [from, to] = [("from", &read.from), ("to", &read.to)]
        .map(|(key, name)| select(name, places, "node, switch or simulated host", entry.at(key), problems));
    let ways: Vec<(usize, usize)> = match (from.as_slice(), to.as_slice()) {
        (all, [one]) => all.iter().map(|a| (*a, *one)).collect(),
        ([one], all) => all.iter().map(|b| (*one, *b)).collect(),
        ([], _) | (_, []) => return None,
        _ => {
            let what =
                "both ends of this flow are several: from many to one, or from one to many, or one flow for each";
            problems.add(entry.at("to"), what);
            return None;
        }
    };
    let to_itself = ways.len();
    let ways: Vec<_> = ways.into_iter().filter(|(a, b)| a != b).collect();
    if ways.is_empty() && to_itself > 0 {
        problems.add(entry.at("to"), "a flow leads from one place to another: name two different ones");
    }
    let written = read.packets();
    let load = load(read.kind, &written, LARGEST_FRAMED, entry.node, problems)?;
    let ways = ways.into_iter().map(|(a, b)| (places[a].to_owned(), places[b].to_owned())).collect();
    let seed = written.seed.unwrap_or_else(|| by_name(entry.name()));
    (!connected).then(|| BackgroundFlow {
        name: entry.name().to_owned(),
        ways,
        load,
        seed,
        written: (read.kind, written),
    })
}

/// The node that a key names.
fn one(name: &str, key: &str, entry: &Entry<'_, file::Flow>, nodes: &[&str], problems: &mut Problems) -> Option<usize> {
    let found = select(name, nodes, "node", entry.at(key), problems);
    if found.len() > 1 {
        problems
            .add(entry.at(key), format!("`{}` are several nodes: name one, and make one flow for each", shorten(name)));
        return None;
    }
    found.first().copied()
}

fn flow(
    entry: &Entry<'_, file::Flow>,
    read: &file::Flow,
    number: usize,
    [from, to]: [usize; 2],
    nodes: &[&str],
    problems: &mut Problems,
) -> Option<Flow> {
    let (kind, written) = (read.kind, read.packets());
    let connected = matches!(kind, FlowKind::Ftp | FlowKind::Telnet);
    let over = match read.over.unwrap_or(if connected { Transport::Tcp } else { Transport::Udp }) {
        Transport::Udp if kind == FlowKind::Ftp => {
            let what = "what is sent as fast as possible needs TCP, which says how fast that is: remove `over: udp`, \
                        or choose a kind with a `rate`";
            problems.add(entry.at("over"), what);
            return None;
        }
        Transport::Udp => traffic::Transport::Udp,
        Transport::Tcp => traffic::Transport::Tcp,
    };
    let port = read.port.unwrap_or(PORTS.saturating_add(1 + (number % 50_000) as u16));
    if port == 0 {
        problems.add(entry.at("port"), "a port is 1 to 65535");
    }
    let sink = Sink { flow: entry.name().to_owned(), port, over };
    let Load { packet, pattern } = load(kind, &written, LARGEST_PACKET, entry.node, problems)?;
    let seed = written.seed.unwrap_or_else(|| by_name(entry.name()));
    let source = Source { flow: sink.flow.clone(), to: nodes[to].to_owned(), port, over, packet, pattern, seed };
    Some(Flow { name: entry.name().to_owned(), from, to, source, sink, written: (kind, written) })
}

/// The load of a source, by what is written of its packets at `node`.
fn load(kind: FlowKind, written: &FlowChange, largest: u32, node: &Value, problems: &mut Problems) -> Option<Load> {
    let before = problems.count();
    let mut wrong = |key: &str, what: String| problems.add(node.get(key).map_or(node.span, |v| v.span), what);
    let bursts = matches!(kind, FlowKind::Exponential | FlowKind::Pareto);
    let misplaced = [
        ("on", written.on.is_some() && !bursts, "`exponential` and `pareto`"),
        ("off", written.off.is_some() && !bursts, "`exponential` and `pareto`"),
        ("shape", written.shape.is_some() && kind != FlowKind::Pareto, "`pareto`"),
        ("noise", written.noise.is_some() && kind != FlowKind::Cbr, "`cbr`"),
        ("rate", written.rate.is_some() && kind == FlowKind::Ftp, "kinds that do not send as fast as possible"),
        ("interval", written.interval.is_some() && kind == FlowKind::Ftp, "kinds that do not send as fast as possible"),
    ];
    for (key, _, of) in misplaced.iter().filter(|(_, is, _)| *is) {
        wrong(key, format!("`{key}` belongs to {of}: remove it"));
    }
    let packet = written.packet.map_or(u64::from(PACKET), |p| p.0);
    let sizes = u64::from(LEAST_PACKET)..=u64::from(largest);
    if !sizes.contains(&packet) {
        let what =
            format!("a packet carries {LEAST_PACKET}B (its number and its time) to {largest}B: write such as `1000B`");
        wrong("packet", what);
    }
    if written.packets == Some(0) {
        wrong("packets", "a flow of no packets: write at least 1, or remove the flow".into());
    }
    let interval = match (written.rate, written.interval) {
        (Some(_), Some(_)) => {
            wrong("interval", "this has a `rate` already: remove one of them".into());
            1.0
        }
        (Some(rate), None) => packet as f64 * 8.0 / rate.0.bits_per_s(),
        (None, Some(interval)) => interval.0.as_secs_f64(),
        (None, None) if matches!(kind, FlowKind::Telnet | FlowKind::Ftp) => 1.0,
        (None, None) => {
            wrong("kind", "how much does it send? Add `rate: 1Mbit/s`, or the `interval` between packets".into());
            1.0
        }
    };
    if interval < SHORTEST {
        let key = if written.rate.is_some() { "rate" } else { "interval" };
        wrong(key, "that is more than a packet in a microsecond, which no program sends: write less".into());
    }
    let length = |time: Option<crate::units::Time>| time.map_or(BURST, |t| t.0.as_secs_f64());
    let (on, off) = (length(written.on), length(written.off));
    let pareto = (kind == FlowKind::Pareto).then_some(written.shape.unwrap_or(SHAPE));
    if pareto.is_some_and(|shape| !SHAPES.contains(&shape)) {
        wrong("shape", "below 1.01 lengths have no mean, and above 100 they hardly vary: write such as 1.5".into());
    }
    let noise = written.noise.unwrap_or(false);
    let shape = match kind {
        FlowKind::Cbr => Shape::Constant { interval, noise },
        FlowKind::Poisson | FlowKind::Telnet => Shape::Poisson { interval },
        FlowKind::Exponential | FlowKind::Pareto => Shape::Bursts { interval, on, off, pareto },
        FlowKind::Ftp => Shape::Greedy,
    };
    if problems.count() != before {
        return None;
    }
    Some(Load { packet: packet as u32, pattern: Pattern { shape, packets: written.packets } })
}

/// FNV-1a: a flow more or less leaves what the others draw as it was.
fn by_name(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// Names of flows: those that programs carry out, and those of the emulator.
pub(super) fn names(programs: &[Flow], background: &[BackgroundFlow]) -> [Vec<String>; 2] {
    [programs.iter().map(|f| f.name.clone()).collect(), background.iter().map(|f| f.name.clone()).collect()]
}

/// The deeds of an event on flows: one for each that it names.
pub(super) fn deeds(
    entry: &Entry<'_, file::Event>,
    read: &file::Event,
    [programs, background]: &[Vec<String>; 2],
    after: Option<usize>,
    problems: &mut Problems,
) -> Vec<Deed> {
    let names: Vec<&str> = programs.iter().chain(background).map(String::as_str).collect();
    let pattern = read.flow.as_deref().unwrap_or_default();
    let found = match names.is_empty() {
        false => select(pattern, &names, "flow", entry.at("flow"), problems),
        true => {
            let near = did_you_mean(pattern, &names);
            problems.add(
                entry.at("flow"),
                format!("there is no flow `{}`{near}: the file has no `traffic`", shorten(pattern)),
            );
            Vec::new()
        }
    };
    let what = || match (read.act, &read.change) {
        _ if read.run.is_some() || read.signal.is_some() || read.factor.is_some() => None,
        (Some(NodeAction::Start), None) => Some(What::Start),
        (Some(NodeAction::Stop), None) => Some(What::Stop),
        (None, Some(change)) => Some(What::Change(Box::new(change.clone()))),
        _ => None,
    };
    if what().is_none() {
        let what = "a flow is started or stopped, `do: start` or `do: stop`, or changed, `change: { rate: 2Mbit/s }`: \
                    write one of them";
        problems.add(entry.at("flow"), what);
    }
    let (at, place) = (instant(behaviour::time(read)), entry.at("at"));
    let which = |n: usize| match n.checked_sub(programs.len()) {
        None => Which::Programs(n),
        Some(n) => Which::Background(n),
    };
    found.into_iter().filter_map(|n| Some(Deed { at, flow: which(n), what: what()?, place, after })).collect()
}

/// Deeds as events of programs. A change holds for all that comes later; what waits for a step comes after
/// all that has a time.
pub(super) fn carried_out(
    mut deeds: Vec<Deed>,
    programs: &[Flow],
    background: &[BackgroundFlow],
    problems: &mut Problems,
) -> Vec<(Event, Span)> {
    deeds.sort_by_key(|deed| (deed.after, deed.at));
    let mut written: [Vec<(FlowKind, FlowChange)>; 2] =
        [programs.iter().map(|f| f.written.clone()).collect(), background.iter().map(|f| f.written.clone()).collect()];
    let mut sources: Vec<Source> = programs.iter().map(|f| f.source.clone()).collect();
    let mut events = Vec::new();
    for Deed { at, flow, what, place, after } in deeds {
        let mut happens = |action| events.push((Event { at, after, step: None, action }, place));
        let (so_far, largest) = match flow {
            Which::Programs(flow) => (&mut written[0][flow], LARGEST_PACKET),
            Which::Background(flow) => (&mut written[1][flow], LARGEST_FRAMED),
        };
        let mut changed = None;
        if let What::Change(change) = &what {
            merge(&mut so_far.1, change);
            if matches!(flow, Which::Background(_)) && change.seed.is_some() {
                problems.add(place, "what a flow in the background draws from stays: remove the `seed`");
            }
            // A fault has one place, that of the event.
            let at_event = Value { span: place, data: Data::Map(Vec::new()) };
            changed = load(so_far.0, &so_far.1, largest, &at_event, problems);
            if changed.is_none() {
                continue;
            }
        }
        match flow {
            Which::Background(flow) => {
                let act = match (what, changed) {
                    (_, Some(load)) => FlowAction::Load(load),
                    (What::Stop, _) => FlowAction::Stop,
                    _ => FlowAction::Start,
                };
                happens(Action::Flow { flow, act });
            }
            Which::Programs(flow) => {
                let (of, now) = (&programs[flow], &mut sources[flow]);
                let program = |node, program, act| Action::Program { node, program, act };
                match (what, changed) {
                    (_, Some(Load { packet, pattern })) => {
                        let seed = so_far.1.seed.unwrap_or(now.seed);
                        *now = Source { packet, pattern, seed, ..now.clone() };
                        happens(program(of.from, of.sender(), ProgramAction::Again(now.argv())));
                    }
                    (What::Stop, _) => {
                        happens(program(of.from, of.sender(), ProgramAction::Signal(TERM)));
                        happens(program(of.to, of.receiver(), ProgramAction::Signal(STOPPED)));
                    }
                    _ => happens(program(of.from, of.sender(), ProgramAction::Run(now.argv()))),
                }
            }
        }
    }
    events
}

/// Puts what changes in the place of what was.
fn merge(of: &mut FlowChange, change: &FlowChange) {
    if change.rate.is_some() || change.interval.is_some() {
        (of.rate, of.interval) = (change.rate, change.interval);
    }
    of.packet = change.packet.or(of.packet);
    of.on = change.on.or(of.on);
    of.off = change.off.or(of.off);
    of.shape = change.shape.or(of.shape);
    of.noise = change.noise.or(of.noise);
    of.packets = change.packets.or(of.packets);
    of.seed = change.seed.or(of.seed);
}

/// Metrics of flows. A flow that never sent anything measures nothing.
pub(super) fn metrics(all: &Flows, entries: &[Entry<'_, file::Metric>], problems: &mut Problems) -> Vec<Metric> {
    let Flows { programs, background, .. } = all;
    let is_rate = |unit: &str| unit.ends_with("/s");
    // Rows begin with a date in seconds, whatever they measure.
    let unit = |unit: &str| Unit { written: unit.into(), result: unit.into(), factor: 1.0, start_seconds: 1.0 };
    let mut all = Vec::new();
    for (place, flow) in background.iter().enumerate() {
        for (name, what, of) in [
            ("sent", OfFlow::Sent, "1/s"),
            ("packets", OfFlow::Packets, "1/s"),
            ("rate", OfFlow::Rate, "bit/s"),
            ("loss", OfFlow::Loss, "%"),
            ("delay", OfFlow::Delay, "ms"),
        ] {
            let source = experiment::Source::Background { flow: place, what };
            let name = format!("{}-{name}", flow.name);
            let clocked = is_rate(of);
            all.push(Metric { name, nodes: Vec::new(), source, unit: unit(of), of_flow: true, clocked });
        }
    }
    for flow in programs {
        let rows = |name: &str, node, path, value, of: &str| Metric {
            name: format!("{}-{name}", flow.name),
            nodes: vec![node],
            source: experiment::Source::Rows { path, start: Some(1), value },
            unit: unit(of),
            of_flow: true,
            // TCP sends as it is answered.
            clocked: is_rate(of) && flow.sink.over == traffic::Transport::Udp,
        };
        let received = || received_log(&flow.name);
        all.push(rows("sent", flow.from, sent_log(&flow.name), 2, "1/s"));
        all.push(rows("packets", flow.to, received(), 2, "1/s"));
        all.push(rows("rate", flow.to, received(), 3, "bit/s"));
        if flow.sink.over == traffic::Transport::Udp {
            all.push(rows("loss", flow.to, received(), 4, "%"));
        }
        all.push(rows("delay", flow.to, delays_log(&flow.name), 2, "ms"));
    }
    for twice in entries.iter().filter(|m| all.iter().any(|own| own.name == m.name())) {
        let what = format!("`{}` is what a flow of `traffic` measures: call this metric something else", twice.name());
        problems.add(twice.key_span(), what);
    }
    all
}
