//! The schedule of a run: the order in which nodes start, the experiment's events, and its end.
//!
//! This is the pure half of the engine: it is told what became of the nodes and what the virtual time is, and answers
//! with what is to be done. It reads no clock and touches no process, so every order of events can be tested.

use std::collections::{BTreeMap, VecDeque};

use scale::{VirtualDuration, VirtualInstant};
use site::{Ended, Exit, NodeIndex, SuspendedNode};

/// How long a node may take to heed a `stop` before it is killed: what init systems on real machines commonly grant.
pub const GRACE: VirtualDuration = VirtualDuration::from_nanos(10_000_000_000);

/// The rules for a node.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Nodes that must be ready before this one starts.
    pub after: Vec<NodeIndex>,
    /// Whether the run ends when this node, and all others so marked, have exited.
    pub awaited: bool,
    /// Whether being ready is more than having started.
    pub has_ready: bool,
}

/// An event of the experiment.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Change a link, given by its place in the list of link events of the experiment.
    Link(usize),
    /// Set the clock of a node off, likewise.
    Clock(usize),
    /// Change what the machine of a node has, likewise.
    Hardware(usize),
    /// Change the disk of a node, likewise.
    Disk(usize),
    /// Change a flow of the emulator's, likewise.
    Flow(usize),
    /// Start a program beside a node's own, or send one a signal, likewise.
    Program(usize),
    /// SIGKILL a node.
    Kill(NodeIndex),
    /// SIGTERM a node, and SIGKILL after [`GRACE`].
    Stop(NodeIndex),
    /// Start a node that is not running, or that has been told to end: then as soon as it has.
    Start(NodeIndex),
    /// Cut the power of a node.
    PowerOff(NodeIndex),
    /// Boot a node without power, as soon as its processes have ended.
    PowerOn(NodeIndex),
    /// Stop the processes of a node where they are.
    Pause(NodeIndex),
    /// Let them go on.
    Resume(NodeIndex),
    /// Cut nodes off from one another, or end that, given as a link event is.
    Partition(usize),
    /// End all partitions.
    Heal,
    /// End the run.
    End,
}

/// Something that is to be done now.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Start a node's program for the first time.
    Start(NodeIndex),
    /// Start a node's program again.
    Restart(NodeIndex),
    /// Boot a node that has had no power, and start its program again.
    Boot(NodeIndex),
    /// Ask a node to end.
    Terminate(NodeIndex),
    /// End a node at once.
    Kill(NodeIndex),
    /// End a node at once, and have its disk lose what it would.
    CutPower(NodeIndex),
    /// Apply a link event.
    Link(usize),
    /// Stop the processes of a node, or let them go on.
    Pause(NodeIndex, bool),
    /// Apply an event of a partition.
    Partition(usize),
    /// End all partitions.
    Heal,
    /// Apply an event of a node's clock.
    Clock(usize),
    /// Apply an event of a node's machine.
    Hardware(usize),
    /// Apply an event of a disk.
    Disk(usize),
    /// Apply an event of a flow.
    Flow(usize),
    /// Apply an event of a program.
    Program(usize),
    /// An event (`kill`, `stop`, `start`, `pause`, `resume`, `power-off`, `power-on`) found a node as it should become:
    /// nothing is to be done but to say so.
    Nothing(NodeIndex, &'static str),
    /// The run is over.
    End(Ending),
}

impl Action {
    /// The node whose running processes are ended, stopped or let go on; none if nobody's are.
    pub fn running_node(&self) -> Option<NodeIndex> {
        match *self {
            Action::Terminate(node) | Action::Kill(node) | Action::CutPower(node) | Action::Pause(node, _) => {
                Some(node)
            }
            _ => None,
        }
    }
}

/// Why a run is over.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// Every awaited node has exited.
    Exited,
    /// The limit was reached, and nothing was awaited; or an event ended the run, or the user one that does not end by
    /// itself.
    Limit,
    /// The limit was reached too early.
    Late(Late),
    /// A node failed.
    Failed(NodeIndex),
    /// The harness failed.
    Broken(String),
    /// The user wished it so.
    Interrupted,
    /// The user wants to go on with it some day.
    Suspended,
}

/// Everything that had still to happen when the limit was reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Late {
    /// Awaited nodes that had still to exit.
    pub running: Vec<NodeIndex>,
    /// Nodes that have never become ready.
    pub unready: Vec<NodeIndex>,
    /// Nodes that were never started, because of such.
    pub unstarted: Vec<NodeIndex>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Starting,
    Ready,
    Ended,
}

#[derive(Clone, Debug)]
struct NodeState {
    rules: Rules,
    state: State,
    /// The experiment itself ended it, so that its exit is no failure.
    dismissed: Option<Ended>,
    /// Its program was started at least once.
    started: bool,
    /// It is to be started as soon as it has ended.
    again: bool,
    /// It has no power, or has to boot.
    off: bool,
    /// Its processes have been stopped.
    paused: bool,
    /// It was ready at least once.
    was_ready: bool,
    /// An event ended it at least once, or kept it from starting.
    cut_short: bool,
    outcome: Option<(Ended, Exit)>,
}

/// The schedule of a run.
#[derive(Clone, Debug)]
pub struct Schedule {
    nodes: Vec<NodeState>,
    events: VecDeque<(VirtualInstant, Event)>,
    /// Nodes that were asked to stop, by when they will be killed.
    graces: BTreeMap<(VirtualInstant, NodeIndex), ()>,
    /// Events that wait for the end of a step, and how long after that they happen.
    waiting: Vec<(usize, VirtualDuration, Event)>,
    /// When it begins.
    from: VirtualInstant,
    limit: VirtualInstant,
    /// An event has ended the run.
    ended: bool,
    over: bool,
}

impl Schedule {
    /// A schedule for these nodes and events; `limit` is the latest end.
    pub fn new(nodes: Vec<Rules>, mut events: Vec<(VirtualInstant, Event)>, limit: VirtualInstant) -> Schedule {
        // A stable sort: events of the same instant happen in the order in which they were written.
        events.sort_by_key(|(at, _)| *at);
        let nodes = nodes
            .into_iter()
            .map(|rules| NodeState {
                rules,
                state: State::Waiting,
                dismissed: None,
                started: false,
                again: false,
                off: false,
                paused: false,
                was_ready: false,
                cut_short: false,
                outcome: None,
            })
            .collect();
        let (graces, waiting) = (BTreeMap::new(), Vec::new());
        let from = VirtualInstant::ZERO;
        Schedule { nodes, events: events.into(), graces, waiting, from, limit, ended: false, over: false }
    }

    /// Adds events that wait for steps: which one, and how long after its end they happen.
    pub fn waiting(mut self, events: Vec<(usize, VirtualDuration, Event)>) -> Schedule {
        self.waiting = events;
        self
    }

    /// A step is over.
    pub fn step_over(&mut self, step: usize, now: VirtualInstant) {
        let all = std::mem::take(&mut self.waiting).into_iter();
        let (due, rest): (Vec<_>, Vec<_>) = all.partition(|(of, ..)| *of == step);
        self.waiting = rest;
        due.into_iter().for_each(|(_, later, event)| self.add(now + later, event));
    }

    /// The schedule of a run that goes on with an earlier one, in which all has happened until `at`: nodes that ran
    /// then are started again, in their order. Nodes without power are to lose it before anything else happens.
    pub fn go_on(mut self, at: VirtualInstant, kept: &[SuspendedNode]) -> Schedule {
        self.from = at;
        self.events.retain(|(when, _)| *when > at);
        for (node, kept) in self.nodes.iter_mut().zip(kept) {
            node.cut_short = kept.cut_short;
            (node.off, node.outcome) = (kept.off, kept.outcome);
            if kept.ended || kept.off {
                node.state = State::Ended;
                // It has been dealt with, whatever it was.
                node.dismissed = Some(kept.outcome.map_or(Ended::Stopped, |(ended, _)| ended));
            }
        }
        self
    }

    /// The nodes as a run has to know them that goes on with this one.
    pub fn suspended(&self) -> Vec<SuspendedNode> {
        let of = |node: &NodeState| {
            let ended = node.state == State::Ended || node.dismissed.is_some();
            let (off, cut_short) = (node.off && !node.again, node.cut_short);
            SuspendedNode { ended: ended && !node.again, off, cut_short, outcome: node.outcome }
        };
        self.nodes.iter().map(of).collect()
    }

    /// When something will have to be done even if nothing happens until then.
    pub fn next_deadline(&self) -> VirtualInstant {
        let event = self.events.front().map(|(at, _)| *at);
        let grace = self.graces.keys().next().map(|(at, _)| *at);
        [event, grace].into_iter().flatten().fold(self.limit, Ord::min)
    }

    /// The nodes that have started and have still to become ready.
    pub fn awaiting_readiness(&self) -> Vec<NodeIndex> {
        (0..self.nodes.len()).filter(|n| self.nodes[*n].state == State::Starting).collect()
    }

    /// Whether every node is ready, or was and has ended.
    pub fn all_ready(&self) -> bool {
        self.nodes.iter().all(|a| matches!(a.state, State::Ready | State::Ended))
    }

    /// The end of a node, if it ran and has ended.
    pub fn outcome(&self, node: NodeIndex) -> Option<(Ended, Exit)> {
        self.nodes[node].outcome
    }

    /// Whether the experiment itself ended the node's program before the run was over, so that it may not have written
    /// all that it would have.
    pub fn was_cut_short(&self, node: NodeIndex) -> bool {
        self.nodes[node].cut_short
    }

    /// Whether a node is running.
    pub fn is_running(&self, node: NodeIndex) -> bool {
        matches!(self.nodes[node].state, State::Starting | State::Ready)
    }

    /// Whether a node runs and its processes have been stopped.
    pub fn is_paused(&self, node: NodeIndex) -> bool {
        self.is_running(node) && self.nodes[node].paused
    }

    /// Has something happen that the experiment does not say: after what it says for that instant.
    pub fn add(&mut self, at: VirtualInstant, event: Event) {
        let place = self.events.partition_point(|(other, _)| *other <= at);
        self.events.insert(place, (at, event));
    }

    /// Actions that are due at `now`, in their order. To be called at the start, at every deadline and after every
    /// report.
    ///
    /// However late that is: nodes that start with the run do so before what happens later, so that a `stop` a moment
    /// after the start ends a node and does not keep it from starting.
    pub fn advance(&mut self, now: VirtualInstant) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.over {
            return actions;
        }
        while let Some((at, _)) = self.events.front()
            && *at <= now
        {
            let (at, event) = self.events.pop_front().expect("just seen");
            if at > self.from {
                self.start_what_can(&mut actions);
            }
            self.happen(event, now, &mut actions);
        }
        while let Some((&(at, node), ())) = self.graces.first_key_value()
            && at <= now
        {
            self.graces.pop_first();
            if self.is_running(node) {
                actions.push(Action::Kill(node));
            }
        }
        for node in 0..self.nodes.len() {
            if self.nodes[node].state == State::Ended && self.nodes[node].again {
                let off = self.nodes[node].off;
                self.enter(node);
                actions.push(if off { Action::Boot(node) } else { Action::Restart(node) });
            }
        }
        self.start_what_can(&mut actions);
        if let Some(ending) = self.ending(now) {
            self.over = true;
            actions.push(Action::End(ending));
        }
        actions
    }

    /// A node's program has become ready.
    pub fn ready(&mut self, node: NodeIndex) {
        if self.nodes[node].state == State::Starting {
            self.nodes[node].state = State::Ready;
            self.nodes[node].was_ready = true;
        }
    }

    /// A node's program has ended.
    pub fn exited(&mut self, node: NodeIndex, exit: Exit) {
        let node_state = &mut self.nodes[node];
        // A container waits whose node had ended in an earlier run.
        if node_state.state == State::Ended {
            return;
        }
        (node_state.state, node_state.paused) = (State::Ended, false);
        let ended = node_state.dismissed.unwrap_or(match exit {
            Exit::Code(_) => Ended::Exited,
            Exit::Signal(_) => Ended::Killed,
        });
        node_state.outcome = Some((ended, exit));
        self.graces.retain(|(_, n), ()| *n != node);
    }

    /// A node was asked to end because the run has; `None` if it had to be killed.
    pub fn stopped(&mut self, node: NodeIndex, exit: Option<Exit>) {
        self.nodes[node].dismissed = Some(Ended::Stopped);
        self.exited(node, exit.unwrap_or(Exit::Signal(9)));
    }

    fn happen(&mut self, event: Event, now: VirtualInstant, actions: &mut Vec<Action>) {
        match event {
            Event::Link(event) => actions.push(Action::Link(event)),
            Event::Clock(event) => actions.push(Action::Clock(event)),
            Event::Hardware(event) => actions.push(Action::Hardware(event)),
            Event::Partition(event) => actions.push(Action::Partition(event)),
            Event::Heal => actions.push(Action::Heal),
            Event::Pause(node) if self.is_running(node) && !self.nodes[node].paused => {
                self.nodes[node].paused = true;
                actions.push(Action::Pause(node, true));
            }
            Event::Resume(node) if self.is_paused(node) => {
                self.nodes[node].paused = false;
                actions.push(Action::Pause(node, false));
            }
            Event::Pause(node) => actions.push(Action::Nothing(node, "pause")),
            Event::Resume(node) => actions.push(Action::Nothing(node, "resume")),
            Event::Disk(event) => actions.push(Action::Disk(event)),
            Event::Flow(event) => actions.push(Action::Flow(event)),
            Event::Program(event) => actions.push(Action::Program(event)),
            Event::End => self.ended = true,
            Event::Kill(node) if self.is_running(node) => {
                self.dismiss(node, Ended::Killed);
                actions.push(Action::Kill(node));
            }
            Event::Stop(node) if self.is_running(node) => {
                self.dismiss(node, Ended::Stopped);
                self.graces.insert((now + GRACE, node), ());
                actions.push(Action::Terminate(node));
            }
            Event::PowerOff(node) if self.nodes[node].off => actions.push(Action::Nothing(node, "power-off")),
            Event::PowerOff(node) => {
                // A program that has ended keeps its end. One that has yet to start is in its container, which ends.
                if self.nodes[node].state != State::Ended {
                    self.dismiss(node, Ended::Killed);
                    self.nodes[node].state = State::Ready;
                }
                (self.nodes[node].off, self.nodes[node].cut_short) = (true, true);
                actions.push(Action::CutPower(node));
            }
            Event::PowerOn(node) if !self.nodes[node].off || self.nodes[node].again => {
                actions.push(Action::Nothing(node, "power-on"));
            }
            Event::PowerOn(node) => self.nodes[node].again = true,
            Event::Start(node) if self.nodes[node].off => actions.push(Action::Nothing(node, "start")),
            Event::Start(node) if !self.is_running(node) => {
                // One may have been kept from starting until now.
                let first = !self.nodes[node].started;
                self.enter(node);
                actions.push(if first { Action::Start(node) } else { Action::Restart(node) });
            }
            // It has been told to end, and will.
            Event::Start(node) if self.nodes[node].dismissed.is_some() => self.nodes[node].again = true,
            // One that has yet to start never will, unless it is told to.
            Event::Kill(node) | Event::Stop(node) if self.nodes[node].state == State::Waiting => {
                self.nodes[node].state = State::Ended;
                self.nodes[node].cut_short = true;
            }
            Event::Kill(node) => actions.push(Action::Nothing(node, "kill")),
            Event::Stop(node) => actions.push(Action::Nothing(node, "stop")),
            Event::Start(node) => actions.push(Action::Nothing(node, "start")),
        }
    }

    fn dismiss(&mut self, node: NodeIndex, how: Ended) {
        let node_state = &mut self.nodes[node];
        node_state.dismissed = Some(how);
        node_state.again = false;
        node_state.cut_short = true;
    }

    fn enter(&mut self, node: NodeIndex) {
        let node_state = &mut self.nodes[node];
        node_state.state = if node_state.rules.has_ready { State::Starting } else { State::Ready };
        node_state.was_ready |= !node_state.rules.has_ready;
        node_state.dismissed = None;
        node_state.started = true;
        (node_state.again, node_state.off) = (false, false);
        node_state.outcome = None;
    }

    fn start_what_can(&mut self, actions: &mut Vec<Action>) {
        // Starting a node without a readiness condition makes it ready, which may let others start.
        loop {
            let can: Vec<_> = (0..self.nodes.len())
                .filter(|n| self.nodes[*n].state == State::Waiting)
                .filter(|n| {
                    self.nodes[*n]
                        .rules
                        .after
                        .iter()
                        .all(|a| matches!(self.nodes[*a].state, State::Ready | State::Ended))
                })
                .collect();
            if can.is_empty() {
                return;
            }
            for node in can {
                self.enter(node);
                actions.push(Action::Start(node));
            }
        }
    }

    fn ending(&self, now: VirtualInstant) -> Option<Ending> {
        let failed = self
            .nodes
            .iter()
            .position(|a| a.dismissed.is_none() && a.outcome.is_some_and(|(_, exit)| exit != Exit::Code(0)));
        if let Some(node) = failed {
            return Some(Ending::Failed(node));
        }
        let finished = |n: NodeIndex| self.nodes[n].state == State::Ended && !self.will_start(n);
        let mut awaited = (0..self.nodes.len()).filter(|n| self.nodes[*n].rules.awaited).peekable();
        let awaits = awaited.peek().is_some();
        if awaits && awaited.all(finished) {
            return Some(Ending::Exited);
        }
        if self.ended {
            return Some(Ending::Limit);
        }
        if now < self.limit {
            return None;
        }
        let nodes = |which: &dyn Fn(&NodeState) -> bool| -> Vec<_> {
            (0..self.nodes.len()).filter(|n| which(&self.nodes[*n])).collect()
        };
        let late = Late {
            running: nodes(&|a| a.rules.awaited && !matches!(a.state, State::Ended | State::Waiting)),
            unready: nodes(&|a| a.state == State::Starting && !a.was_ready),
            unstarted: nodes(&|a| a.state == State::Waiting),
        };
        Some(if late == Late::default() { Ending::Limit } else { Ending::Late(late) })
    }

    /// Whether an event that has still to come starts this node.
    fn will_start(&self, node: NodeIndex) -> bool {
        let events = self.events.iter().map(|(_, event)| event).chain(self.waiting.iter().map(|(.., event)| event));
        events.into_iter().any(|event| matches!(event, Event::Start(n) | Event::PowerOn(n) if *n == node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> VirtualInstant {
        VirtualInstant::from_nanos(s * 1_000_000_000)
    }

    fn server_and_clients(events: Vec<(VirtualInstant, Event)>) -> Schedule {
        let server = Rules { has_ready: true, ..Rules::default() };
        let client = Rules { after: vec![0], awaited: true, has_ready: false };
        Schedule::new(vec![server, client.clone(), client], events, at(60))
    }

    #[test]
    fn clients_wait_until_the_server_is_ready_and_end_the_run() {
        let mut schedule = server_and_clients(vec![]);
        assert_eq!(schedule.advance(at(0)), [Action::Start(0)]);
        assert_eq!(schedule.awaiting_readiness(), [0]);
        assert_eq!(schedule.advance(at(1)), []);
        schedule.ready(0);
        assert_eq!(schedule.advance(at(1)), [Action::Start(1), Action::Start(2)]);
        assert!(schedule.all_ready());
        schedule.exited(1, Exit::Code(0));
        assert_eq!(schedule.advance(at(2)), []);
        schedule.exited(2, Exit::Code(0));
        assert_eq!(schedule.advance(at(3)), [Action::End(Ending::Exited)]);
        assert_eq!(schedule.outcome(1), Some((Ended::Exited, Exit::Code(0))));
        assert_eq!(schedule.outcome(0), None);
        // Once over, nothing more happens.
        assert_eq!(schedule.advance(at(99)), []);
    }

    #[test]
    fn nodes_start_before_what_happens_later_however_late_that_is_looked_at() {
        let stop = |s| vec![(at(s), Event::Stop(0)), (at(s), Event::Kill(1))];
        let mut late = server_and_clients(stop(1));
        // The client waits for the server, which has still to become ready, and so is kept from starting.
        assert_eq!(late.advance(at(2)), [Action::Start(0), Action::Terminate(0)]);
        assert_eq!(late.advance(at(3)), []);
        // At the start itself both are kept from it.
        let mut at_once = server_and_clients(stop(0));
        assert_eq!(at_once.advance(at(2)), [Action::Start(2)]);
    }

    #[test]
    fn a_node_that_fails_ends_the_run_but_one_that_was_killed_does_not() {
        let mut schedule = server_and_clients(vec![(at(2), Event::Kill(1))]);
        schedule.advance(at(0));
        schedule.ready(0);
        schedule.advance(at(1));
        assert_eq!(schedule.next_deadline(), at(2));
        assert_eq!(schedule.advance(at(2)), [Action::Kill(1)]);
        schedule.exited(1, Exit::Signal(9));
        assert_eq!(schedule.advance(at(2)), []);
        assert_eq!(schedule.outcome(1), Some((Ended::Killed, Exit::Signal(9))));
        schedule.exited(0, Exit::Code(1));
        assert_eq!(schedule.advance(at(3)), [Action::End(Ending::Failed(0))]);
    }

    #[test]
    fn a_crash_is_a_failure() {
        let mut schedule = server_and_clients(vec![]);
        schedule.advance(at(0));
        schedule.exited(0, Exit::Signal(11));
        let actions = schedule.advance(at(0));
        assert_eq!(actions.last(), Some(&Action::End(Ending::Failed(0))));
    }

    #[test]
    fn a_stop_is_followed_by_a_kill_unless_it_is_heeded() {
        let mut schedule = server_and_clients(vec![(at(5), Event::Stop(0)), (at(5), Event::Stop(1))]);
        schedule.advance(at(0));
        schedule.ready(0);
        schedule.advance(at(0));
        assert_eq!(schedule.advance(at(5)), [Action::Terminate(0), Action::Terminate(1)]);
        schedule.exited(1, Exit::Code(143));
        assert_eq!(schedule.advance(at(6)), []);
        assert_eq!(schedule.next_deadline(), at(15));
        assert_eq!(schedule.advance(at(15)), [Action::Kill(0)]);
        schedule.exited(0, Exit::Signal(9));
        assert_eq!(schedule.outcome(0), Some((Ended::Stopped, Exit::Signal(9))));
        assert_eq!(schedule.advance(at(16)), []);
    }

    #[test]
    fn a_run_goes_on_where_it_was_put_aside() {
        let events = || vec![(at(2), Event::Link(0)), (at(3), Event::Kill(1)), (at(9), Event::Start(1))];
        let mut schedule = server_and_clients(events());
        schedule.advance(at(0));
        schedule.ready(0);
        schedule.advance(at(3));
        schedule.exited(1, Exit::Signal(9));
        let kept = schedule.suspended();
        assert_eq!(kept.iter().map(|k| k.ended).collect::<Vec<_>>(), [false, true, false]);
        let mut later = server_and_clients(events()).go_on(at(4), &kept);
        // Past events do not happen again, and who has ended stays so; the others boot in their order.
        assert_eq!(later.advance(at(5)), [Action::Start(0)]);
        later.ready(0);
        assert_eq!(later.advance(at(6)), [Action::Start(2)]);
        assert_eq!(later.next_deadline(), at(9));
        assert_eq!(later.advance(at(9)), [Action::Start(1)]);
        later.exited(1, Exit::Code(0));
        later.exited(2, Exit::Code(0));
        assert_eq!(later.advance(at(10)), [Action::End(Ending::Exited)]);
    }

    #[test]
    fn what_waits_for_a_step_comes_so_long_after_its_end_in_the_order_of_the_file() {
        let waiting = vec![
            (0, VirtualDuration::from_nanos(2_000_000_000), Event::End),
            (0, VirtualDuration::ZERO, Event::Link(1)),
            (1, VirtualDuration::ZERO, Event::Link(2)),
            (0, VirtualDuration::ZERO, Event::Start(0)),
        ];
        let awaited = Rules { awaited: true, ..Rules::default() };
        let mut schedule = Schedule::new(vec![awaited], vec![(at(1), Event::Program(0))], at(60)).waiting(waiting);
        assert_eq!(schedule.advance(at(0)), [Action::Start(0)]);
        schedule.exited(0, Exit::Code(0));
        assert_eq!(schedule.advance(at(1)), [Action::Program(0)], "the node will start again");
        schedule.step_over(0, at(5));
        assert_eq!(schedule.advance(at(5)), [Action::Link(1), Action::Restart(0)]);
        assert_eq!(schedule.next_deadline(), at(7));
        // The run ends, though a node is awaited that runs, and something waits for a step that never came.
        assert_eq!(schedule.advance(at(7)), [Action::End(Ending::Limit)]);
    }

    #[test]
    fn a_node_that_had_no_power_has_none_when_the_run_goes_on() {
        let rules = || vec![Rules::default(), Rules::default()];
        let mut schedule = Schedule::new(rules(), vec![(at(1), Event::PowerOff(0))], at(60));
        schedule.advance(at(0));
        schedule.advance(at(1));
        schedule.exited(0, Exit::Signal(9));
        let kept = schedule.suspended();
        let mut later = Schedule::new(rules(), vec![(at(5), Event::PowerOn(0))], at(60)).go_on(at(2), &kept);
        assert!(kept[0].off);
        assert_eq!(later.advance(at(3)), [Action::Start(1)]);
        // Its container ends without its program having started.
        later.exited(0, Exit::Signal(9));
        assert_eq!(later.advance(at(5)), [Action::Boot(0)]);
    }

    #[test]
    fn a_node_is_paused_once_and_its_end_ends_that() {
        let all = [Event::Pause(0), Event::Pause(0), Event::Resume(1), Event::Kill(0), Event::Resume(0)];
        let mut schedule = server_and_clients(all.into_iter().zip(1..).map(|(event, s)| (at(s), event)).collect());
        schedule.advance(at(0));
        schedule.ready(0);
        schedule.advance(at(0));
        assert_eq!(schedule.advance(at(1)), [Action::Pause(0, true)]);
        assert!(schedule.is_paused(0) && schedule.is_running(0) && !schedule.is_paused(1));
        assert_eq!(schedule.advance(at(2)), [Action::Nothing(0, "pause")]);
        assert_eq!(schedule.advance(at(3)), [Action::Nothing(1, "resume")]);
        assert_eq!(schedule.advance(at(4)), [Action::Kill(0)]);
        schedule.exited(0, Exit::Signal(9));
        assert_eq!(schedule.advance(at(5)), [Action::Nothing(0, "resume")]);
    }

    #[test]
    fn a_node_that_was_killed_can_start_again() {
        let mut schedule =
            server_and_clients(vec![(at(1), Event::Kill(0)), (at(2), Event::Start(0)), (at(3), Event::Start(0))]);
        schedule.advance(at(0));
        schedule.ready(0);
        schedule.advance(at(0));
        assert_eq!(schedule.advance(at(1)), [Action::Kill(0)]);
        schedule.exited(0, Exit::Signal(9));
        assert_eq!(schedule.advance(at(2)), [Action::Restart(0)]);
        assert_eq!(schedule.outcome(0), None);
        // It runs already: the second start changes nothing.
        assert_eq!(schedule.advance(at(3)), [Action::Nothing(0, "start")]);
    }

    #[test]
    fn a_node_that_was_kept_from_starting_starts_for_the_first_time() {
        let mut schedule = server_and_clients(vec![(at(1), Event::Stop(1)), (at(2), Event::Start(1))]);
        // The client waits for a server that is not ready.
        assert_eq!(schedule.advance(at(0)), [Action::Start(0)]);
        assert_eq!(schedule.advance(at(1)), []);
        assert_eq!(schedule.advance(at(2)), [Action::Start(1)]);
        // A busy machine may see both events late, before it has started anything: one that was to run does, and again.
        let mut late = server_and_clients(vec![(at(1), Event::Stop(0)), (at(2), Event::Start(0))]);
        assert_eq!(late.advance(at(3)), [Action::Start(0), Action::Terminate(0)]);
        late.exited(0, Exit::Signal(15));
        assert_eq!(late.advance(at(3)), [Action::Restart(0)]);
    }

    #[test]
    fn a_start_that_finds_a_node_on_its_way_out_waits_for_its_end() {
        let mut schedule =
            server_and_clients(vec![(at(1), Event::Kill(0)), (at(1), Event::Start(0)), (at(2), Event::Start(0))]);
        schedule.advance(at(0));
        schedule.ready(0);
        schedule.advance(at(0));
        assert_eq!(schedule.advance(at(1)), [Action::Kill(0)]);
        assert_eq!(schedule.advance(at(2)), []);
        schedule.exited(0, Exit::Signal(9));
        assert_eq!(schedule.advance(at(2)), [Action::Restart(0)]);
        assert_eq!(schedule.awaiting_readiness(), [0]);
        assert!(schedule.was_cut_short(0) && !schedule.was_cut_short(1));

        // Killed once more before it has ended: the last word counts.
        let events = vec![(at(1), Event::Stop(0)), (at(1), Event::Start(0)), (at(1), Event::Kill(0))];
        let mut schedule = server_and_clients(events);
        schedule.advance(at(0));
        assert_eq!(schedule.advance(at(1)), [Action::Terminate(0), Action::Kill(0)]);
        schedule.exited(0, Exit::Signal(9));
        let restarted = schedule.advance(at(2)).contains(&Action::Restart(0));
        assert!(!restarted);
    }

    #[test]
    fn a_node_without_power_boots_when_it_has_some_and_its_processes_have_ended() {
        let both = |off: u64, on: u64| vec![(at(off), Event::PowerOff(0)), (at(on), Event::PowerOn(0))];
        let mut schedule = server_and_clients([both(1, 3), vec![(at(2), Event::Start(0))], both(4, 4)].concat());
        schedule.advance(at(0));
        schedule.ready(0);
        schedule.advance(at(0));
        assert_eq!(schedule.advance(at(1)), [Action::CutPower(0)]);
        schedule.exited(0, Exit::Signal(9));
        assert_eq!(schedule.outcome(0), Some((Ended::Killed, Exit::Signal(9))));
        // A program does not start where there is no power.
        assert_eq!(schedule.advance(at(2)), [Action::Nothing(0, "start")]);
        assert_eq!(schedule.advance(at(3)), [Action::Boot(0)]);
        assert_eq!(schedule.awaiting_readiness(), [0]);
        assert_eq!(schedule.advance(at(4)), [Action::CutPower(0)]);
        assert_eq!(schedule.advance(at(5)), [], "it waits for the end of what ran");
        schedule.exited(0, Exit::Signal(9));
        assert_eq!(schedule.advance(at(5)), [Action::Boot(0)]);
        assert!(schedule.was_cut_short(0));

        // One whose program has ended by itself, and one that has yet to start.
        let events = [both(2, 3), vec![(at(2), Event::PowerOff(1)), (at(2), Event::PowerOff(1))]].concat();
        let mut schedule =
            Schedule::new(vec![Rules::default(), Rules { after: vec![0], ..Rules::default() }], events, at(9));
        schedule.advance(at(0));
        schedule.exited(0, Exit::Code(0));
        let nothing = Action::Nothing(1, "power-off");
        assert_eq!(schedule.advance(at(2)), [Action::CutPower(0), Action::CutPower(1), nothing]);
        assert_eq!(schedule.outcome(0), Some((Ended::Exited, Exit::Code(0))));
        assert_eq!(schedule.advance(at(3)), [Action::Boot(0)]);
    }

    #[test]
    fn a_run_waits_for_an_awaited_node_that_will_start_again() {
        let rules = Rules { awaited: true, ..Rules::default() };
        let events = vec![(at(8), Event::Kill(0)), (at(9), Event::Start(0))];
        let mut schedule = Schedule::new(vec![rules], events, at(60));
        schedule.advance(at(0));
        schedule.advance(at(8));
        schedule.exited(0, Exit::Signal(9));
        assert_eq!(schedule.advance(at(8)), []);
        assert_eq!(schedule.advance(at(9)), [Action::Restart(0)]);
        schedule.exited(0, Exit::Code(0));
        assert_eq!(schedule.advance(at(10)), [Action::End(Ending::Exited)]);
    }

    #[test]
    fn a_node_that_never_was_ready_fails_the_run_and_names_those_that_waited() {
        let mut schedule = server_and_clients(vec![]);
        schedule.advance(at(0));
        let late = Late { unready: vec![0], unstarted: vec![1, 2], ..Late::default() };
        assert_eq!(schedule.advance(at(60)), [Action::End(Ending::Late(late))]);

        // One that was ready, and is starting again as the limit comes, is fine.
        let server = Rules { has_ready: true, ..Rules::default() };
        let mut schedule = Schedule::new(vec![server], vec![(at(4), Event::Kill(0)), (at(4), Event::Start(0))], at(5));
        schedule.advance(at(0));
        schedule.ready(0);
        schedule.advance(at(4));
        schedule.exited(0, Exit::Signal(9));
        schedule.advance(at(4));
        assert_eq!(schedule.advance(at(5)), [Action::End(Ending::Limit)]);
    }

    #[test]
    fn the_limit_is_a_failure_only_if_somebody_was_awaited() {
        let mut schedule = server_and_clients(vec![]);
        schedule.advance(at(0));
        schedule.ready(0);
        schedule.advance(at(0));
        assert_eq!(schedule.next_deadline(), at(60));
        let late = Late { running: vec![1, 2], ..Late::default() };
        assert_eq!(schedule.advance(at(60)), [Action::End(Ending::Late(late))]);

        let mut schedule = Schedule::new(vec![Rules::default()], vec![], at(5));
        assert_eq!(schedule.advance(at(0)), [Action::Start(0)]);
        assert_eq!(schedule.advance(at(5)), [Action::End(Ending::Limit)]);
    }

    #[test]
    fn events_of_one_instant_happen_in_the_order_written() {
        let mut schedule =
            server_and_clients(vec![(at(6), Event::Link(1)), (at(5), Event::Link(0)), (at(6), Event::Link(2))]);
        schedule.advance(at(0));
        assert_eq!(schedule.advance(at(7)), [Action::Link(0), Action::Link(1), Action::Link(2)]);
    }

    #[test]
    fn what_is_added_happens_among_the_events_of_the_experiment() {
        let mut schedule = server_and_clients(vec![(at(5), Event::Link(0)), (at(7), Event::Link(1))]);
        schedule.advance(at(0));
        for event in [Event::Disk(8), Event::Disk(9)] {
            schedule.add(at(5), event);
        }
        assert_eq!(schedule.next_deadline(), at(5));
        assert_eq!(schedule.advance(at(6)), [Action::Link(0), Action::Disk(8), Action::Disk(9)]);
        assert_eq!(schedule.advance(at(7)), [Action::Link(1)]);
    }

    #[test]
    fn a_chain_without_readiness_conditions_starts_at_once() {
        let parts = vec![
            Rules { after: vec![1], ..Rules::default() },
            Rules { after: vec![2], ..Rules::default() },
            Rules::default(),
        ];
        let mut schedule = Schedule::new(parts, vec![], at(5));
        assert_eq!(schedule.advance(at(0)), [Action::Start(2), Action::Start(1), Action::Start(0)]);
    }
}
