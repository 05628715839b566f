//! Metrics, events, and the end of a run.

use std::collections::{HashMap, HashSet};

use scale::{VirtualDuration, VirtualInstant};

use super::flows::Deed;
use super::nodes::argv;
use super::patterns::Patterns;
use super::{Entry, MANY, faults, flows, instant, item_span, link, network, select};
use crate::error::Problems;
use crate::experiment::{
    Action, ClockOff, Combine, Condition, DiskChange, Ends, Event, Idle, Metric, NodeAction, ProgramAction, Source,
    Stream, Unit,
};
use crate::file;
use crate::link::{Link, LinkChange};
use crate::names::{did_you_mean, wrong_word};
use crate::paths;
use crate::tree::{Span, Value, shorten};
use crate::units::{TIME, Time};

/// How long a run lasts at most that is never to end: 1000 hours.
const NEVER: VirtualDuration = VirtualDuration::from_nanos(3_600_000_000_000_000);

/// The shortest time after which a run may be called idle.
const LEAST_IDLE: VirtualDuration = VirtualDuration::from_nanos(2_000_000_000);

/// How often it is written down what nodes use: if nobody says otherwise, at most and at least.
pub(super) const USUALLY_MONITORED: VirtualDuration = VirtualDuration::from_nanos(1_000_000_000);
const MONITORED: [VirtualDuration; 2] =
    [VirtualDuration::from_nanos(1_000_000), VirtualDuration::from_nanos(3_600_000_000_000)];

/// The most metrics that a file names.
const METRICS: usize = 1000;
/// The name of a file among those of the metrics that is not one of theirs.
const PIPES: &str = "pipes";

/// The metrics.
pub(super) fn metrics(
    entries: Vec<Entry<'_, file::Metric>>,
    nodes: &[&str],
    patterns: &mut Patterns,
    problems: &mut Problems,
) -> Vec<Metric> {
    let mut metrics = Vec::new();
    if let Some(entry) = entries.get(METRICS) {
        problems.add(entry.key_span(), format!("this is the metric after {METRICS} others, which are the most"));
        return metrics;
    }
    for entry in &entries {
        if let Some(what) = wrong_word(entry.name()) {
            problems.add(entry.key_span(), what);
        }
        if entry.name() == PIPES {
            let what = format!("`{PIPES}` is what every run says of its links: call this metric something else");
            problems.add(entry.key_span(), what);
        }
        let Some(read) = &entry.value else { continue };
        let nodes = select(&read.nodes, nodes, "node", entry.at("nodes"), problems);
        let source = source(entry, read, patterns, problems);
        let unit = unit(&read.unit, entry.at("unit"), problems);
        if let Some(source) = source {
            metrics.push(Metric { name: entry.name().to_owned(), nodes, source, unit, of_flow: false, clocked: false });
        }
    }
    metrics
}

fn source(
    entry: &Entry<'_, file::Metric>,
    read: &file::Metric,
    patterns: &mut Patterns,
    problems: &mut Problems,
) -> Option<Source> {
    let mut misplaced = |keys: &[(&str, bool)], other: &str| {
        for (key, present) in keys {
            if *present {
                problems.add(entry.at(key), format!("`{key}` belongs to a metric with `{other}`: remove it"));
            }
        }
    };
    match (&read.rows, &read.line) {
        (Some(path), None) => {
            misplaced(&[("from", read.from.is_some()), ("combine", read.combine.is_some())], "line");
            if let Some(what) = paths::wrong_inside(path) {
                problems.add(entry.at("rows"), what);
            }
            for (key, column) in [("start", read.start), ("value", read.value)] {
                if column == Some(0) {
                    problems.add(entry.at(key), "columns are counted from 1: write 1 for the first");
                }
            }
            let Some(value) = read.value else {
                let what = "the key `value` is missing here: add `value: N`, the column that holds the sample";
                problems.add(entry.at("rows"), what);
                return None;
            };
            let start = read.start.map(|c| c as usize);
            Some(Source::Rows { path: path.clone(), start, value: value as usize })
        }
        (None, Some(line)) => {
            misplaced(&[("start", read.start.is_some()), ("value", read.value.is_some())], "rows");
            let (Some(from), Some(combine)) = (read.from, read.combine) else {
                for (key, missing, such) in [
                    ("from", read.from.is_none(), "`from: stdout`"),
                    ("combine", read.combine.is_none(), "`combine: sum`"),
                ] {
                    if missing {
                        problems.add(entry.at("line"), format!("the key `{key}` is missing here: add {such}"));
                    }
                }
                return None;
            };
            let groups = patterns.groups(line, entry.at("line"), problems)?;
            if groups != 1 {
                let what = format!(
                    "this has {groups} groups: put `(…)` around the number, and `(?:…)` around everything else"
                );
                problems.add(entry.at("line"), what);
                return None;
            }
            Some(Source::Line {
                regex: line.clone(),
                from: match from {
                    file::Stream::Stdout => Stream::Stdout,
                    file::Stream::Stderr => Stream::Stderr,
                },
                combine: match combine {
                    file::Combine::Sum => Combine::Sum,
                    file::Combine::Mean => Combine::Mean,
                    file::Combine::Min => Combine::Min,
                    file::Combine::Max => Combine::Max,
                },
            })
        }
        (Some(_), Some(_)) => {
            problems.add(entry.at("line"), "a metric has either `rows` or `line`: remove one");
            None
        }
        (None, None) => {
            let what = "this metric says nowhere to look: add `rows: /FILE` with `value: COLUMN`, or `line: 'REGEX'` \
                        with `from` and `combine`";
            problems.add(entry.node.span, what);
            None
        }
    }
}

fn unit(written: &str, at: Span, problems: &mut Problems) -> Unit {
    if written.is_empty() || written.len() > 20 || written.chars().any(char::is_control) {
        problems.add(at, "a unit is a short word: write one such as `ms`, `1/s` or `MB`");
    }
    match TIME.factor(written) {
        Some(seconds) => {
            // Both of these are exact or correctly rounded; seconds * 1e3 would make 1 us 0.00099… ms.
            let factor = if seconds < 1e-3 { 1.0 / (1e-3 / seconds).round() } else { seconds * 1e3 };
            Unit { written: written.to_owned(), result: "ms".into(), factor, start_seconds: seconds }
        }
        None => Unit { written: written.to_owned(), result: written.to_owned(), factor: 1.0, start_seconds: 1.0 },
    }
}

/// The forms of an event, for messages.
const EITHER: &str = "an event is either `{ at: 5s, link: A--B, set: { up: false } }` or \
                      `{ at: 5s, node: NAME, do: kill }` or `{ at: 5s, flow: NAME, do: stop }` or \
                      `{ at: 5s, node: NAME, program: NAME, run: WORDS }` or `{ at: 5s, partition: [[NAME], [NAME]] }` \
                      or `{ at: 5s, do: end }`: complete this one or split it";

/// Those of an experiment to whom something may happen.
pub(super) struct Of<'a> {
    /// The names of the nodes.
    pub nodes: &'a [&'a str],
    /// Which of them have a disk.
    pub has_disk: &'a [bool],
    /// How much memory their machines have; none of those whose machine is unknown.
    pub memory: &'a [Option<u64>],
    /// How their dates are off.
    pub clocks: &'a [Option<ClockOff>],
    /// The links.
    pub links: &'a [Link],
    /// The names of flows: those of programs, and those in the emulator.
    pub flows: &'a [Vec<String>; 2],
}

/// The events, in the order of the file, each with its place; one for every link or node that a pattern names. And what
/// happens to flows.
pub(super) fn events(
    entries: Vec<Entry<'_, file::Event>>,
    of: &Of<'_>,
    steps: &[String],
    problems: &mut Problems,
) -> (Vec<(Event, Span)>, Vec<Deed>) {
    let Of { nodes, has_disk, memory, clocks, links, flows } = *of;
    let link_names: Vec<&str> = links.iter().map(|l| l.name.as_str()).collect();
    let numbers: HashMap<&str, usize> =
        steps.iter().enumerate().map(|(number, step)| (step.as_str(), number)).collect();
    let (mut events, mut deeds, mut conditions) = (Vec::new(), Vec::new(), steps.len()..);
    for entry in &entries {
        let Some(read) = &entry.value else { continue };
        let (at, place) = (instant(time(read)), entry.at("at"));
        let number = |name: &Option<String>| name.as_ref().and_then(|name| numbers.get(name.as_str()).copied());
        let after = number(&read.after);
        if let (Some(name), None) = (&read.after, after) {
            let near = did_you_mean(name, &steps.iter().map(String::as_str).collect::<Vec<_>>());
            let what = format!(
                "no event starts a program `as: {}`, so that nothing can wait for its end{near}",
                shorten(name)
            );
            problems.add(entry.at("after"), what);
        }
        let after = if read.when.is_some() { conditions.next() } else { after };
        check_when(entry, read, problems);
        let event = |action| (Event { at, after, step: number(&read.step), action }, place);
        let (before, lasts) = (events.len(), read.lasts.map(|lasts| lasts.0));
        if lasts.is_some_and(|lasts| lasts.as_nanos() == 0) {
            problems.add(entry.at("for"), "what lasts for no time at all is nothing: write such as `for: 10s`");
        }
        if read.limit.is_some() && !matches!(read.act, Some(file::NodeAction::Memory)) {
            problems.add(entry.at("limit"), "`limit` belongs to `do: memory`: remove it");
        }
        if read.direction.is_some() && read.partition.is_none() {
            problems.add(entry.at("direction"), "`direction` belongs to `partition`: remove it");
        }
        match (&read.link, &read.set, &read.node, read.act, &read.program) {
            _ if (read.flap.is_some() && (read.link.is_none() || read.set.is_some()))
                || (read.partition.is_some() && (read.link.is_some() || read.flow.is_some())) =>
            {
                problems.add(entry.node.span, EITHER);
            }
            (None, None, None, None, None) if read.partition.is_some() => {
                let made = faults::partition(entry, read, nodes, problems);
                events.extend(made.map(|partition| event(Action::Partition { partition, on: true })));
            }
            _ if read.partition.is_some() => problems.add(entry.node.span, EITHER),
            (None, None, None, Some(file::NodeAction::Heal), None) if read.flow.is_none() => {
                events.push(event(Action::Heal));
            }
            (Some(link), None, None, None, None) if read.flap.is_some() => {
                let Some(flap) = read.flap else { continue };
                let found = select(link, &link_names, "link", entry.at("link"), problems);
                let times = faults::flaps(entry, flap, lasts, at, problems);
                let once = |link| times.iter().map(move |(at, up)| (link, *at, faults::up(*up)));
                let all = found.into_iter().flat_map(once);
                events.extend(all.map(|(link, at, change)| {
                    let (of, place) = event(Action::Link { link, change });
                    (Event { at, ..of }, place)
                }));
            }
            (None, None, None, _, None) if read.flow.is_some() => {
                deeds.extend(flows::deeds(entry, read, flows, after, problems));
            }
            _ if read.flow.is_some() || read.change.is_some() => problems.add(entry.node.span, EITHER),
            (Some(link), Some(set), None, None, None) => {
                let found = select(link, &link_names, "link", entry.at("link"), problems);
                // It must do for all of them.
                let mtu = found.iter().map(|link| links[*link].mtu).max().unwrap_or(scale::link::DEFAULT_MTU);
                let change = Box::new(change(entry, set, mtu, problems));
                let action = |link| Action::Link { link, change: change.clone() };
                events.extend(found.into_iter().map(|link| event(action(link))));
            }
            (None, None, Some(node), None, Some(program)) => {
                let found = select(node, nodes, "node", entry.at("node"), problems);
                if let Some(what) = wrong_word(program) {
                    problems.add(entry.at("program"), what.replace("`latency`", "`sender`"));
                }
                let Some(act) = program_action(read, entry, problems) else { continue };
                if !problems.may_copy(entry.node.length(), found.len(), entry.at("node")) {
                    continue;
                }
                let action = |node| Action::Program { node, program: program.clone(), act: act.clone() };
                events.extend(found.into_iter().map(|node| event(action(node))));
            }
            (None, None, None, Some(file::NodeAction::End), None) if read.factor.is_none() => {
                events.push(event(Action::End));
            }
            (None, None, Some(_), Some(act @ (file::NodeAction::End | file::NodeAction::Heal)), None) => {
                let act = if matches!(act, file::NodeAction::End) { "end" } else { "heal" };
                let what = format!("`{act}` is for the run, and not for a node: leave the node out");
                problems.add(entry.at("node"), what);
            }
            (None, None, Some(node), Some(act), None) => {
                let found = select(node, nodes, "node", entry.at("node"), problems);
                let of_node = |act| move |node| Action::Node { node, act };
                let action: Box<dyn Fn(usize) -> Action> = match act {
                    file::NodeAction::Kill => Box::new(of_node(NodeAction::Kill)),
                    file::NodeAction::Stop => Box::new(of_node(NodeAction::Stop)),
                    file::NodeAction::Start => Box::new(of_node(NodeAction::Start)),
                    file::NodeAction::PowerOff => Box::new(of_node(NodeAction::PowerOff)),
                    file::NodeAction::PowerOn => Box::new(of_node(NodeAction::PowerOn)),
                    file::NodeAction::Pause => Box::new(of_node(NodeAction::Pause)),
                    file::NodeAction::Resume => Box::new(of_node(NodeAction::Resume)),
                    file::NodeAction::End | file::NodeAction::Heal => continue,
                    file::NodeAction::Clock => {
                        let off = ClockOff {
                            offset_ns: read.offset.map(|offset| offset.0),
                            drift: read.drift.map(|drift| drift.0),
                        };
                        if off == (ClockOff { offset_ns: None, drift: None }) {
                            let what = "how is the clock to be off? Add `offset: 250ms`, `drift: 200ppm`, or both";
                            problems.add(entry.at("do"), what);
                        }
                        Box::new(move |node| Action::Clock { node, off })
                    }
                    file::NodeAction::Speed | file::NodeAction::Memory => {
                        let all = found.iter().filter_map(|node| memory[*node]).min();
                        let Some(change) = faults::hardware(act, entry, read, all, problems) else { continue };
                        Box::new(move |node| Action::Hardware { node, change })
                    }
                    file::NodeAction::SlowDisk | file::NodeAction::FailDisk | file::NodeAction::FullDisk => {
                        let change = disk_change(act, entry, read.factor, problems);
                        Box::new(move |node| Action::Disk { node, change })
                    }
                };
                use file::NodeAction::{Clock, Kill, Memory, Pause, Resume, SlowDisk, Speed, Start, Stop};
                let needs_disk = !matches!(act, Kill | Stop | Start | Pause | Resume | Clock | Speed | Memory);
                for (key, is_there) in [("offset", read.offset.is_some()), ("drift", read.drift.is_some())] {
                    if is_there && !matches!(act, Clock) {
                        problems.add(entry.at(key), format!("`{key}` belongs to `do: clock`: remove it"));
                    }
                }
                if let Some(without) = found.iter().find(|node| needs_disk && !has_disk[**node]) {
                    let without = nodes[*without];
                    let what = format!("the machine of `{without}` has no disk: give it one, such as `disk: hdd-7200`");
                    problems.add(entry.at("node"), what);
                }
                if read.factor.is_some() && !matches!(act, SlowDisk | Speed) {
                    let what = "`factor` belongs to `do: slow-disk` and `do: speed`: remove it";
                    problems.add(entry.at("factor"), what);
                }
                events.extend(found.into_iter().map(|node| event(action(node))));
            }
            _ => problems.add(entry.node.span, EITHER),
        }
        if (read.act.is_some() || read.set.is_some()) && (read.run.is_some() || read.signal.is_some()) {
            let at = entry.at(if read.run.is_some() { "run" } else { "signal" });
            problems.add(at, "this is for a program beside the node's own: name it, as in `program: sender`");
        }
        if let Some(lasts) = lasts.filter(|_| read.flap.is_none()) {
            match faults::ends(&events[before..], lasts, links, clocks) {
                Some(ends) if read.flow.is_none() => events.extend(ends),
                _ => problems.add(entry.at("for"), faults::ENDLESS),
            }
        }
        if events.len().max(deeds.len()) > MANY {
            problems.add(entry.node.span, format!("this makes more than {MANY} events"));
            return (events, deeds);
        }
    }
    (events, deeds)
}

/// When an event happens: counted from the start of the run, or from what it waits for.
pub(super) fn time(read: &file::Event) -> Time {
    let when = read.when.as_ref().and_then(|when| when.after);
    read.at.or(when).unwrap_or(Time(VirtualDuration::ZERO))
}

/// Notes an event that does not say when, or says it twice.
fn check_when(entry: &Entry<'_, file::Event>, read: &file::Event, problems: &mut Problems) {
    match (&read.when, read.at) {
        (None, None) => {
            let what = "the key `at` is missing here: add `at: …`, or `when: { node: NAME, log: 'REGEX' }`";
            problems.add(entry.node.span, what);
        }
        (Some(_), Some(_)) => {
            problems.add(entry.at("at"), "`when` says when: write its `after: 2s` in the place of `at`");
        }
        (Some(_), None) if read.after.is_some() => {
            problems.add(entry.at("after"), "an event waits for one thing: for the end of a step or `when`");
        }
        _ => {}
    }
}

/// Conditions of the events that wait for a line in a log: one for each of these events, in their order.
pub(super) fn conditions(
    entries: &[Entry<'_, file::Event>],
    nodes: &[&str],
    patterns: &mut Patterns,
    problems: &mut Problems,
) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for entry in entries {
        let Some(when) = entry.value.as_ref().and_then(|read| read.when.as_ref()) else { continue };
        let place =
            |key: &str| entry.node.get("when").and_then(|when| when.get(key)).map_or(entry.node.span, |v| v.span);
        let nodes = select(&when.node, nodes, "node", place("node"), problems);
        let log = patterns.kept(&when.log, place("log"), problems);
        conditions.extend(log.map(|log| Condition { nodes, log }));
    }
    conditions
}

/// The names of steps, for whose end events may wait.
pub(super) fn steps(entries: &[Entry<'_, file::Event>], problems: &mut Problems) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut known = HashSet::new();
    for entry in entries {
        let Some((name, read)) = entry.value.as_ref().and_then(|read| Some((read.step.as_ref()?, read))) else {
            continue;
        };
        if let Some(what) = wrong_word(name) {
            problems.add(entry.at("as"), what.replace("`latency`", "`fetched`"));
        }
        if read.run.is_none() {
            problems
                .add(entry.at("as"), "only a program that is started, `run: …`, has an end to wait for: leave it out");
        }
        if known.insert(name) {
            all.push(name.clone());
        }
    }
    all
}

/// Notes what waits for its own end.
pub(super) fn check_steps(events: &[(Event, Span)], steps: &[String], problems: &mut Problems) {
    // By step, for how many ends its events wait, and which steps have events that wait for its own.
    let (mut waits, mut waiting) = (vec![0usize; steps.len()], vec![Vec::new(); steps.len()]);
    // Conditions, which are numbered behind the steps, wait for none of them.
    let other = |event: &Event| event.after.filter(|other| *other < steps.len());
    for (event, _) in events {
        if let Some((step, other)) = event.step.zip(other(event)) {
            waits[step] += 1;
            waiting[other].push(step);
        }
    }
    let mut comes = vec![false; steps.len()];
    let mut next: Vec<usize> = (0..steps.len()).filter(|step| waits[*step] == 0).collect();
    while let Some(step) = next.pop() {
        comes[step] = true;
        for later in std::mem::take(&mut waiting[step]) {
            waits[later] -= 1;
            next.extend((waits[later] == 0).then_some(later));
        }
    }
    let stays = |event: &Event| other(event).is_some_and(|other| !comes[other]);
    if let Some(step) = comes.iter().position(|comes| !comes)
        && let Some((_, place)) = events.iter().find(|(event, _)| event.step == Some(step) && stays(event))
    {
        problems.add(
            *place,
            format!("`{}` waits for its own end, and will never come: let it begin at a time", steps[step]),
        );
    }
}

/// The action on a program; none, with a note, if it is wrong.
fn program_action(
    read: &file::Event,
    entry: &Entry<'_, file::Event>,
    problems: &mut Problems,
) -> Option<ProgramAction> {
    if read.factor.is_some() {
        problems.add(entry.at("factor"), "`factor` belongs to `do: slow-disk`: remove it");
    }
    match (&read.run, read.signal) {
        (Some(run), None) => match argv(run) {
            Ok(argv) => Some(ProgramAction::Run(argv)),
            Err(what) => {
                problems.add(entry.at("run"), what);
                None
            }
        },
        (None, Some(signal)) => Some(ProgramAction::Signal(signal.number())),
        _ => {
            let what = "a program is either started, `run: [iperf3, -s]`, or sent a signal, `signal: TERM`: write one \
                        of them";
            problems.add(entry.at("program"), what);
            None
        }
    }
}

fn disk_change(
    act: file::NodeAction,
    entry: &Entry<'_, file::Event>,
    factor: Option<f64>,
    problems: &mut Problems,
) -> DiskChange {
    const FACTORS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;
    match (act, factor) {
        (file::NodeAction::FailDisk, _) => DiskChange::Fail,
        (file::NodeAction::FullDisk, _) => DiskChange::Full,
        (_, Some(factor)) if FACTORS.contains(&factor) => DiskChange::Slow(factor),
        (_, Some(_)) => {
            let what = "a disk becomes 0.001 to 1000 times as slow as its model: write `factor: 10`, `factor: 0.1` for \
                        a faster one, or `factor: 1` to end that";
            problems.add(entry.at("factor"), what);
            DiskChange::Slow(1.0)
        }
        (_, None) => {
            problems.add(entry.at("do"), "how slow is the disk to be? Add how many times as slow, `factor: 10`");
            DiskChange::Slow(1.0)
        }
    }
}

fn change(entry: &Entry<'_, file::Event>, set: &file::LinkChange, mtu: u16, problems: &mut Problems) -> LinkChange {
    let at = entry.node.get("set").unwrap_or(entry.node);
    let before = problems.count();
    let both = link::change(&set.both(), at, mtu, problems);
    let change = network::directions(&both, [&set.ab, &set.ba], at, mtu, problems);
    if change == LinkChange::default() && problems.count() == before {
        problems.add(at.span, "this changes nothing: write what changes, such as `set: { up: false }`");
    }
    change
}

/// When a run is idle, and what then.
pub(super) fn idle(read: file::Idle, node: &Value, problems: &mut Problems) -> Idle {
    if read.after.0 < LEAST_IDLE {
        let at = node.get("after").map_or(node.span, |after| after.span);
        problems.add(at, "a run is looked at once in a virtual second: write a time of at least 2s, such as `10min`");
    }
    Idle { after: read.after.0, swap_out: matches!(read.then, file::IdleThen::SwapOut) }
}

/// How often it is written down what nodes use.
pub(super) fn monitor(read: file::Monitor, node: &Value, problems: &mut Problems) -> VirtualDuration {
    let [least, most] = MONITORED;
    if !(least..=most).contains(&read.every.0) {
        let at = node.get("every").map_or(node.span, |every| every.span);
        problems.add(at, "nodes are looked at every 1ms to 1h: write such a time, as `100ms`");
    }
    read.every.0
}

/// When the run ends.
pub(super) fn ends(read: file::Ends, node: &Value, nodes: &[&str], problems: &mut Problems) -> Ends {
    let read = match read {
        file::WordOr::Map(map) => map,
        file::WordOr::Word(file::Never::Never) => {
            return Ends { exited: Vec::new(), limit: VirtualInstant::ZERO + NEVER, never: true };
        }
    };
    let mut exited = Vec::new();
    for (i, pattern) in read.exited.iter().enumerate() {
        exited.extend(select(pattern, nodes, "node", item_span(node, "exited", i), problems));
    }
    exited.sort_unstable();
    exited.dedup();
    if read.limit.0.as_nanos() == 0 {
        let at = node.get("limit").map_or(node.span, |l| l.span);
        problems.add(at, "a run lasts longer than no time at all: write a limit such as `60s`");
    }
    Ends { exited, limit: instant(read.limit), never: false }
}

/// Notes what would come after the end.
pub(super) fn check_times(
    measure: Option<(VirtualInstant, Option<VirtualInstant>)>,
    events: &[(Event, Span)],
    ends: &Ends,
    root: &Value,
    problems: &mut Problems,
) {
    let limit = ends.limit.since(VirtualInstant::ZERO);
    if let (Some((_, Some(to))), Some(value)) = (measure, root.get("measure"))
        && to > ends.limit
    {
        problems.add(value.span, format!("the window ends after the run, whose limit is {limit}: shorten it"));
    }
    for (event, place) in events {
        if event.at >= ends.limit {
            problems.add(*place, format!("this would happen after the run, whose limit is {limit}"));
        }
    }
}

/// Notes signals for programs that nothing ever starts.
pub(super) fn check_programs(events: &[(Event, Span)], problems: &mut Problems) {
    let mut started = HashSet::new();
    for (event, _) in events {
        if let Action::Program { node, program, act: ProgramAction::Run(_) } = &event.action {
            started.insert((*node, program.as_str()));
        }
    }
    for (event, place) in events {
        if let Action::Program { node, program, act: ProgramAction::Signal(_) } = &event.action
            && !started.contains(&(*node, program.as_str()))
        {
            let what = format!("no event starts a program `{program}` there: add one with `run`");
            problems.add(*place, what);
        }
    }
}

/// The events in order of time; then those that wait for steps.
pub(super) fn in_order(mut events: Vec<(Event, Span)>) -> Vec<Event> {
    events.sort_by_key(|(event, _)| (event.after, event.at));
    events.into_iter().map(|(event, _)| event).collect()
}
