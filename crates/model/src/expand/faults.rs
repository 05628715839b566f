//! Faults that have an end: partitions, links that flap, and whatever lasts for a time.

use scale::{VirtualDuration, VirtualInstant};

use super::{Entry, MANY, item_span, select};
use crate::error::Problems;
use crate::experiment::{
    Action, ClockOff, Direction, DiskChange, Event, HardwareChange, Node, NodeAction, Partition, ProgramAction,
};
use crate::file;
use crate::link::{Link, LinkChange, PipeChange};
use crate::tree::Span;

/// SIGKILL.
const KILL: i32 = 9;

/// The partition that an event makes; none, with a note, if it is wrong.
pub(super) fn partition(
    entry: &Entry<'_, file::Event>,
    read: &file::Event,
    nodes: &[&str],
    problems: &mut Problems,
) -> Option<Partition> {
    let at = entry.at("partition");
    let before = problems.count();
    let mut group_of = vec![None; nodes.len()];
    let written = read.partition.as_deref().unwrap_or_default();
    for (number, patterns) in written.iter().enumerate() {
        for pattern in patterns {
            let place = item_span(entry.node, "partition", number);
            for node in select(pattern, nodes, "node", place, problems) {
                match group_of[node] {
                    Some(other) if other != number => {
                        let what = format!("`{}` is in two of the groups: leave it in one", nodes[node]);
                        problems.add(place, what);
                    }
                    _ => group_of[node] = Some(number),
                }
            }
        }
    }
    if !problems.may_name(nodes.len(), at) {
        return None;
    }
    let of = |group| (0..nodes.len()).filter(|node| group_of[*node] == group).collect::<Vec<_>>();
    let mut groups: Vec<Vec<usize>> = (0..written.len()).map(|number| of(Some(number))).collect();
    if groups.len() == 1 {
        groups.push(of(None));
    }
    if problems.count() == before && (groups.len() < 2 || groups.iter().any(Vec::is_empty)) {
        let what = "a partition is between groups of nodes, such as `[[a], [b, c]]`: no group is empty, and of one \
                    alone all other nodes are the second";
        problems.add(at, what);
    }
    let direction = match read.direction {
        None | Some(file::Towards::Both) => Direction::Both,
        Some(file::Towards::To) => Direction::To,
        Some(file::Towards::From) => Direction::From,
    };
    if direction != Direction::Both && groups.len() > 2 {
        problems.add(entry.at("direction"), "a direction is between two groups, and here are more");
    }
    (problems.count() == before).then_some(Partition { groups, direction })
}

/// The slowest that a CPU becomes, as a part of its machine's speed: smaller shares of the core would be rounded by
/// more than some percent.
const SLOWEST: f64 = 0.05;
/// The least memory with which a node can be asked to do, in bytes.
const LEAST_MEMORY: u64 = 4 << 20;

/// Change of the machine of a node by an event; the smallest of the nodes has so much memory. None, with a note, if it
/// is wrong.
pub(super) fn hardware(
    act: file::NodeAction,
    entry: &Entry<'_, file::Event>,
    read: &file::Event,
    memory: Option<u64>,
    problems: &mut Problems,
) -> Option<HardwareChange> {
    let before = problems.count();
    let change = match (act, read.factor, read.limit) {
        (file::NodeAction::Speed, Some(factor), _) => {
            if !(SLOWEST..=1.0).contains(&factor) {
                let what = format!(
                    "a CPU is slowed to {SLOWEST} to 1 of its machine's `speed`: for one that becomes faster, write \
                     the higher speed there, and have it be slow from the start (`at: 0s`)"
                );
                problems.add(entry.at("factor"), what);
            }
            HardwareChange::Speed(factor)
        }
        (file::NodeAction::Speed, None, _) => {
            problems
                .add(entry.at("do"), "how slow is the CPU to be? Add `factor: 0.5` for half of its machine's speed");
            return None;
        }
        (_, _, Some(limit)) => {
            if limit.0 < LEAST_MEMORY || memory.is_some_and(|memory| limit.0 > memory) {
                problems
                    .add(entry.at("limit"), "this is at least 4MiB, and at most the `memory` of the node's machine");
            }
            HardwareChange::Memory(Some(limit.0))
        }
        _ => {
            problems.add(entry.at("do"), "how much memory is left? Add such as `limit: 64MiB`");
            return None;
        }
    };
    (problems.count() == before).then_some(change)
}

/// When a link that flaps goes down and up, from `at` on.
pub(super) fn flaps(
    entry: &Entry<'_, file::Event>,
    flap: file::Flap,
    lasts: Option<VirtualDuration>,
    at: VirtualInstant,
    problems: &mut Problems,
) -> Vec<(VirtualInstant, bool)> {
    let place = entry.at("flap");
    let Some(lasts) = lasts else {
        problems.add(place, "how long does the link flap? Add such as `for: 20s`");
        return Vec::new();
    };
    let every = flap.every.0.as_nanos();
    let down = flap.down.map_or(every / 2, |down| down.0.as_nanos());
    if down == 0 || down >= every {
        problems.add(place, "a link that flaps is down for some time, and for less than from one time to the next");
        return Vec::new();
    }
    let times = lasts.as_nanos().div_ceil(every);
    if times > MANY as u64 {
        problems.add(place, format!("this makes more than {MANY} events"));
        return Vec::new();
    }
    let later = |ns: u64| at + VirtualDuration::from_nanos(ns);
    let once = |n: u64| [(later(n * every), false), (later((n * every + down).min(lasts.as_nanos())), true)];
    (0..times).flat_map(once).collect()
}

/// A link that goes down, or up.
pub(super) fn up(up: bool) -> Box<LinkChange> {
    let pipe = || PipeChange { up: Some(up), ..PipeChange::default() };
    Box::new(LinkChange { ab: pipe(), ba: pipe() })
}

/// The ends of events that last for a time.
pub(super) fn ends(
    begun: &[(Event, Span)],
    lasts: VirtualDuration,
    links: &[Link],
    clocks: &[Option<ClockOff>],
) -> Option<Vec<(Event, Span)>> {
    let end = |(event, place): &(Event, Span)| {
        let action = undone(&event.action, links, clocks)?;
        Some((Event { at: event.at + lasts, after: event.after, step: None, action }, *place))
    };
    begun.iter().map(end).collect()
}

/// Why something cannot last for a time.
pub(super) const ENDLESS: &str = "`for` is for what can end by itself: a change of a link, `flap`, `partition`, \
                                  `kill`, `stop`, `pause`, `power-off`, `slow-disk`, `clock`, `speed`, `memory`, and a \
                                  program that is started; leave it out";

/// Gives the action that ends another; none for one that has no end.
fn undone(action: &Action, links: &[Link], clocks: &[Option<ClockOff>]) -> Option<Action> {
    let of_node = |node, act| Some(Action::Node { node, act });
    match action {
        Action::Link { link, change } => {
            Some(Action::Link { link: *link, change: Box::new(change.back_to(&links[*link])) })
        }
        Action::Node { node, act: NodeAction::Kill | NodeAction::Stop } => of_node(*node, NodeAction::Start),
        Action::Node { node, act: NodeAction::PowerOff } => of_node(*node, NodeAction::PowerOn),
        Action::Node { node, act: NodeAction::Pause } => of_node(*node, NodeAction::Resume),
        Action::Clock { node, .. } => {
            let described = clocks[*node].unwrap_or(ClockOff { offset_ns: None, drift: None });
            let off = ClockOff {
                offset_ns: Some(described.offset_ns.unwrap_or(0)),
                drift: Some(described.drift.unwrap_or(0.0)),
            };
            Some(Action::Clock { node: *node, off })
        }
        Action::Hardware { node, change: HardwareChange::Speed(_) } => {
            Some(Action::Hardware { node: *node, change: HardwareChange::Speed(1.0) })
        }
        Action::Hardware { node, change: HardwareChange::Memory(_) } => {
            Some(Action::Hardware { node: *node, change: HardwareChange::Memory(None) })
        }
        Action::Disk { node, change: DiskChange::Slow(_) } => {
            Some(Action::Disk { node: *node, change: DiskChange::Slow(1.0) })
        }
        Action::Partition { partition, on: true } => {
            Some(Action::Partition { partition: partition.clone(), on: false })
        }
        Action::Program { node, program, act: ProgramAction::Run(_) } => {
            Some(Action::Program { node: *node, program: program.clone(), act: ProgramAction::Signal(KILL) })
        }
        _ => None,
    }
}

/// How the dates of nodes are off by their descriptions.
pub(super) fn clocks(nodes: &[Node]) -> Vec<Option<ClockOff>> {
    nodes.iter().map(|node| node.clock).collect()
}
