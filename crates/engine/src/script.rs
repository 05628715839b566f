//! What happens in a run, and when: the order in which nodes start, the experiment's events, and its end.
//!
//! This is the pure half of the engine: it is told what became of the nodes and what the virtual time is, and answers
//! with what is to be done. It reads no clock and touches no process, so every order of events can be tested.

use std::collections::{BTreeMap, VecDeque};

use scale::{VirtualDuration, VirtualInstant};

/// How long a node may take to heed a `stop` before it is killed: what init systems on real machines commonly grant.
pub const GRACE: VirtualDuration = VirtualDuration::from_nanos(10_000_000_000);

/// A node, by its place in the plan.
pub type NodeIndex = usize;

/// What the script needs to know about a node.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Nodes that must be ready before this one starts.
    pub after: Vec<NodeIndex>,
    /// Whether the run ends when this node, and all others so marked, have exited.
    pub awaited: bool,
    /// Whether being ready is more than having started.
    pub has_ready: bool,
}

/// An event of the experiment.
#[derive(Clone, Debug, PartialEq)]
pub enum Cue {
    /// Change a link, given by its place in the list of link events of the experiment.
    Link(usize),
    /// SIGKILL a node.
    Kill(NodeIndex),
    /// SIGTERM a node, and SIGKILL after [`GRACE`].
    Stop(NodeIndex),
    /// Start a node that is not running, or that has been told to end: then as soon as it has.
    Start(NodeIndex),
}

/// What the engine is to do now.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Start a node's program for the first time.
    Start(NodeIndex),
    /// Start a node's program again.
    Restart(NodeIndex),
    /// Ask a node to end.
    Terminate(NodeIndex),
    /// End a node at once.
    Kill(NodeIndex),
    /// Apply a link event.
    Link(usize),
    /// An event (`kill`, `stop`, `start`) found a node as it should become: nothing is to be done but to say so.
    Nothing(NodeIndex, &'static str),
    /// The run is over.
    End(Ending),
}

/// Why a run is over.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// Every awaited node has exited.
    Exited,
    /// The limit was reached, and nothing was awaited.
    Limit,
    /// The limit was reached too early.
    Late(Late),
    /// A node failed.
    Failed(NodeIndex),
    /// The harness failed.
    Broken(String),
    /// The user wished it so.
    Interrupted,
}

/// What had still to happen when the limit was reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Late {
    /// Awaited nodes that had still to exit.
    pub running: Vec<NodeIndex>,
    /// Nodes that have never become ready.
    pub unready: Vec<NodeIndex>,
    /// Nodes that were never started, because of such.
    pub unstarted: Vec<NodeIndex>,
}

/// How a node's program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// What became of a node, in the words of `result.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself.
    Exited,
    /// By a `stop`, or because the run ended.
    Stopped,
    /// By a `kill`, or by a signal of its own.
    Killed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Starting,
    Ready,
    Ended,
}

#[derive(Clone, Debug)]
struct Actor {
    part: Part,
    state: State,
    /// The experiment itself ended it, so that its exit is no failure.
    dismissed: Option<Ended>,
    /// It is to be started as soon as it has ended.
    again: bool,
    /// It was ready at least once.
    was_ready: bool,
    /// An event ended it at least once, or kept it from starting.
    cut_short: bool,
    outcome: Option<(Ended, Exit)>,
}

/// The script of a run.
#[derive(Clone, Debug)]
pub struct Script {
    cast: Vec<Actor>,
    cues: VecDeque<(VirtualInstant, Cue)>,
    /// Nodes that were asked to stop, by when they will be killed.
    graces: BTreeMap<(VirtualInstant, NodeIndex), ()>,
    limit: VirtualInstant,
    over: bool,
}

impl Script {
    /// A script for these nodes and events; `limit` is the latest end.
    pub fn new(cast: Vec<Part>, mut cues: Vec<(VirtualInstant, Cue)>, limit: VirtualInstant) -> Script {
        // A stable sort: events of the same instant happen in the order in which they were written.
        cues.sort_by_key(|(at, _)| *at);
        let cast = cast
            .into_iter()
            .map(|part| Actor {
                part,
                state: State::Waiting,
                dismissed: None,
                again: false,
                was_ready: false,
                cut_short: false,
                outcome: None,
            })
            .collect();
        Script { cast, cues: cues.into(), graces: BTreeMap::new(), limit, over: false }
    }

    /// When something will have to be done even if nothing happens until then.
    pub fn next_deadline(&self) -> VirtualInstant {
        let cue = self.cues.front().map(|(at, _)| *at);
        let grace = self.graces.keys().next().map(|(at, _)| *at);
        [cue, grace].into_iter().flatten().fold(self.limit, Ord::min)
    }

    /// The nodes that have started and have still to become ready.
    pub fn awaiting_readiness(&self) -> Vec<NodeIndex> {
        (0..self.cast.len()).filter(|n| self.cast[*n].state == State::Starting).collect()
    }

    /// Whether every node is ready, or was and has ended.
    pub fn all_ready(&self) -> bool {
        self.cast.iter().all(|a| matches!(a.state, State::Ready | State::Ended))
    }

    /// What became of a node, if it ran and has ended.
    pub fn outcome(&self, node: NodeIndex) -> Option<(Ended, Exit)> {
        self.cast[node].outcome
    }

    /// Whether the experiment itself ended the node's program before the run was over, so that it may not have written all
    /// that it would have.
    pub fn was_cut_short(&self, node: NodeIndex) -> bool {
        self.cast[node].cut_short
    }

    /// Whether a node is running.
    pub fn is_running(&self, node: NodeIndex) -> bool {
        matches!(self.cast[node].state, State::Starting | State::Ready)
    }

    /// What is to be done at `now`. To be called at the start, at every deadline and after every report.
    pub fn advance(&mut self, now: VirtualInstant) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.over {
            return actions;
        }
        while let Some((at, _)) = self.cues.front()
            && *at <= now
        {
            let (_, cue) = self.cues.pop_front().expect("just seen");
            self.cue(cue, now, &mut actions);
        }
        while let Some((&(at, node), ())) = self.graces.first_key_value()
            && at <= now
        {
            self.graces.pop_first();
            if self.is_running(node) {
                actions.push(Action::Kill(node));
            }
        }
        for node in 0..self.cast.len() {
            if self.cast[node].state == State::Ended && self.cast[node].again {
                self.enter(node);
                actions.push(Action::Restart(node));
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
        if self.cast[node].state == State::Starting {
            self.cast[node].state = State::Ready;
            self.cast[node].was_ready = true;
        }
    }

    /// A node's program has ended.
    pub fn exited(&mut self, node: NodeIndex, exit: Exit) {
        let actor = &mut self.cast[node];
        actor.state = State::Ended;
        let ended = actor.dismissed.unwrap_or(match exit {
            Exit::Code(_) => Ended::Exited,
            Exit::Signal(_) => Ended::Killed,
        });
        actor.outcome = Some((ended, exit));
        self.graces.retain(|(_, n), ()| *n != node);
    }

    /// A node was asked to end because the run has; `None` if it had to be killed.
    pub fn stopped(&mut self, node: NodeIndex, exit: Option<Exit>) {
        self.cast[node].dismissed = Some(Ended::Stopped);
        self.exited(node, exit.unwrap_or(Exit::Signal(9)));
    }

    fn cue(&mut self, cue: Cue, now: VirtualInstant, actions: &mut Vec<Action>) {
        match cue {
            Cue::Link(event) => actions.push(Action::Link(event)),
            Cue::Kill(node) if self.is_running(node) => {
                self.dismiss(node, Ended::Killed);
                actions.push(Action::Kill(node));
            }
            Cue::Stop(node) if self.is_running(node) => {
                self.dismiss(node, Ended::Stopped);
                self.graces.insert((now + GRACE, node), ());
                actions.push(Action::Terminate(node));
            }
            Cue::Start(node) if !self.is_running(node) => {
                let first = self.cast[node].state == State::Waiting;
                self.enter(node);
                actions.push(if first { Action::Start(node) } else { Action::Restart(node) });
            }
            // It has been told to end, and will.
            Cue::Start(node) if self.cast[node].dismissed.is_some() => self.cast[node].again = true,
            // One that has yet to start never will, unless it is told to.
            Cue::Kill(node) | Cue::Stop(node) if self.cast[node].state == State::Waiting => {
                self.cast[node].state = State::Ended;
                self.cast[node].cut_short = true;
            }
            Cue::Kill(node) => actions.push(Action::Nothing(node, "kill")),
            Cue::Stop(node) => actions.push(Action::Nothing(node, "stop")),
            Cue::Start(node) => actions.push(Action::Nothing(node, "start")),
        }
    }

    fn dismiss(&mut self, node: NodeIndex, how: Ended) {
        let actor = &mut self.cast[node];
        actor.dismissed = Some(how);
        actor.again = false;
        actor.cut_short = true;
    }

    fn enter(&mut self, node: NodeIndex) {
        let actor = &mut self.cast[node];
        actor.state = if actor.part.has_ready { State::Starting } else { State::Ready };
        actor.was_ready |= !actor.part.has_ready;
        actor.dismissed = None;
        actor.again = false;
        actor.outcome = None;
    }

    fn start_what_can(&mut self, actions: &mut Vec<Action>) {
        // Starting a node without a readiness condition makes it ready, which may let others start.
        loop {
            let can: Vec<_> = (0..self.cast.len())
                .filter(|n| self.cast[*n].state == State::Waiting)
                .filter(|n| {
                    self.cast[*n].part.after.iter().all(|a| matches!(self.cast[*a].state, State::Ready | State::Ended))
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
            .cast
            .iter()
            .position(|a| a.dismissed.is_none() && a.outcome.is_some_and(|(_, exit)| exit != Exit::Code(0)));
        if let Some(node) = failed {
            return Some(Ending::Failed(node));
        }
        let finished = |n: NodeIndex| self.cast[n].state == State::Ended && !self.will_start(n);
        let mut awaited = (0..self.cast.len()).filter(|n| self.cast[*n].part.awaited).peekable();
        let awaits = awaited.peek().is_some();
        if awaits && awaited.all(finished) {
            return Some(Ending::Exited);
        }
        if now < self.limit {
            return None;
        }
        let nodes = |which: &dyn Fn(&Actor) -> bool| -> Vec<_> {
            (0..self.cast.len()).filter(|n| which(&self.cast[*n])).collect()
        };
        let late = Late {
            running: nodes(&|a| a.part.awaited && !matches!(a.state, State::Ended | State::Waiting)),
            unready: nodes(&|a| a.state == State::Starting && !a.was_ready),
            unstarted: nodes(&|a| a.state == State::Waiting),
        };
        Some(if late == Late::default() { Ending::Limit } else { Ending::Late(late) })
    }

    /// Whether an event that has still to come starts this node.
    fn will_start(&self, node: NodeIndex) -> bool {
        self.cues.iter().any(|(_, cue)| *cue == Cue::Start(node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> VirtualInstant {
        VirtualInstant::from_nanos(s * 1_000_000_000)
    }

    fn server_and_clients(cues: Vec<(VirtualInstant, Cue)>) -> Script {
        let server = Part { has_ready: true, ..Part::default() };
        let client = Part { after: vec![0], awaited: true, has_ready: false };
        Script::new(vec![server, client.clone(), client], cues, at(60))
    }

    #[test]
    fn clients_wait_until_the_server_is_ready_and_end_the_run() {
        let mut script = server_and_clients(vec![]);
        assert_eq!(script.advance(at(0)), [Action::Start(0)]);
        assert_eq!(script.awaiting_readiness(), [0]);
        assert_eq!(script.advance(at(1)), []);
        script.ready(0);
        assert_eq!(script.advance(at(1)), [Action::Start(1), Action::Start(2)]);
        assert!(script.all_ready());
        script.exited(1, Exit::Code(0));
        assert_eq!(script.advance(at(2)), []);
        script.exited(2, Exit::Code(0));
        assert_eq!(script.advance(at(3)), [Action::End(Ending::Exited)]);
        assert_eq!(script.outcome(1), Some((Ended::Exited, Exit::Code(0))));
        assert_eq!(script.outcome(0), None);
        // Once over, nothing more happens.
        assert_eq!(script.advance(at(99)), []);
    }

    #[test]
    fn a_node_that_fails_ends_the_run_but_one_that_was_killed_does_not() {
        let mut script = server_and_clients(vec![(at(2), Cue::Kill(1))]);
        script.advance(at(0));
        script.ready(0);
        script.advance(at(1));
        assert_eq!(script.next_deadline(), at(2));
        assert_eq!(script.advance(at(2)), [Action::Kill(1)]);
        script.exited(1, Exit::Signal(9));
        assert_eq!(script.advance(at(2)), []);
        assert_eq!(script.outcome(1), Some((Ended::Killed, Exit::Signal(9))));
        script.exited(0, Exit::Code(1));
        assert_eq!(script.advance(at(3)), [Action::End(Ending::Failed(0))]);
    }

    #[test]
    fn a_crash_is_a_failure() {
        let mut script = server_and_clients(vec![]);
        script.advance(at(0));
        script.exited(0, Exit::Signal(11));
        let actions = script.advance(at(0));
        assert_eq!(actions.last(), Some(&Action::End(Ending::Failed(0))));
    }

    #[test]
    fn a_stop_is_followed_by_a_kill_unless_it_is_heeded() {
        let mut script = server_and_clients(vec![(at(5), Cue::Stop(0)), (at(5), Cue::Stop(1))]);
        script.advance(at(0));
        script.ready(0);
        script.advance(at(0));
        assert_eq!(script.advance(at(5)), [Action::Terminate(0), Action::Terminate(1)]);
        script.exited(1, Exit::Code(143));
        assert_eq!(script.advance(at(6)), []);
        assert_eq!(script.next_deadline(), at(15));
        assert_eq!(script.advance(at(15)), [Action::Kill(0)]);
        script.exited(0, Exit::Signal(9));
        assert_eq!(script.outcome(0), Some((Ended::Stopped, Exit::Signal(9))));
        assert_eq!(script.advance(at(16)), []);
    }

    #[test]
    fn a_node_that_was_killed_can_start_again() {
        let mut script =
            server_and_clients(vec![(at(1), Cue::Kill(0)), (at(2), Cue::Start(0)), (at(3), Cue::Start(0))]);
        script.advance(at(0));
        script.ready(0);
        script.advance(at(0));
        assert_eq!(script.advance(at(1)), [Action::Kill(0)]);
        script.exited(0, Exit::Signal(9));
        assert_eq!(script.advance(at(2)), [Action::Restart(0)]);
        assert_eq!(script.outcome(0), None);
        // It runs already: the second start changes nothing.
        assert_eq!(script.advance(at(3)), [Action::Nothing(0, "start")]);
    }

    #[test]
    fn a_start_that_finds_a_node_on_its_way_out_waits_for_its_end() {
        let mut script =
            server_and_clients(vec![(at(1), Cue::Kill(0)), (at(1), Cue::Start(0)), (at(2), Cue::Start(0))]);
        script.advance(at(0));
        script.ready(0);
        script.advance(at(0));
        assert_eq!(script.advance(at(1)), [Action::Kill(0)]);
        assert_eq!(script.advance(at(2)), []);
        script.exited(0, Exit::Signal(9));
        assert_eq!(script.advance(at(2)), [Action::Restart(0)]);
        assert_eq!(script.awaiting_readiness(), [0]);
        assert!(script.was_cut_short(0) && !script.was_cut_short(1));

        // Killed once more before it has ended: the last word counts.
        let cues = vec![(at(1), Cue::Stop(0)), (at(1), Cue::Start(0)), (at(1), Cue::Kill(0))];
        let mut script = server_and_clients(cues);
        script.advance(at(0));
        assert_eq!(script.advance(at(1)), [Action::Terminate(0), Action::Kill(0)]);
        script.exited(0, Exit::Signal(9));
        let restarted = script.advance(at(2)).contains(&Action::Restart(0));
        assert!(!restarted);
    }

    #[test]
    fn a_run_waits_for_an_awaited_node_that_will_start_again() {
        let part = Part { awaited: true, ..Part::default() };
        let cues = vec![(at(8), Cue::Kill(0)), (at(9), Cue::Start(0))];
        let mut script = Script::new(vec![part], cues, at(60));
        script.advance(at(0));
        script.advance(at(8));
        script.exited(0, Exit::Signal(9));
        assert_eq!(script.advance(at(8)), []);
        assert_eq!(script.advance(at(9)), [Action::Restart(0)]);
        script.exited(0, Exit::Code(0));
        assert_eq!(script.advance(at(10)), [Action::End(Ending::Exited)]);
    }

    #[test]
    fn a_node_that_never_was_ready_fails_the_run_and_names_those_that_waited() {
        let mut script = server_and_clients(vec![]);
        script.advance(at(0));
        let late = Late { unready: vec![0], unstarted: vec![1, 2], ..Late::default() };
        assert_eq!(script.advance(at(60)), [Action::End(Ending::Late(late))]);

        // One that was ready, and is starting again as the limit comes, is fine.
        let server = Part { has_ready: true, ..Part::default() };
        let mut script = Script::new(vec![server], vec![(at(4), Cue::Kill(0)), (at(4), Cue::Start(0))], at(5));
        script.advance(at(0));
        script.ready(0);
        script.advance(at(4));
        script.exited(0, Exit::Signal(9));
        script.advance(at(4));
        assert_eq!(script.advance(at(5)), [Action::End(Ending::Limit)]);
    }

    #[test]
    fn the_limit_is_a_failure_only_if_somebody_was_awaited() {
        let mut script = server_and_clients(vec![]);
        script.advance(at(0));
        script.ready(0);
        script.advance(at(0));
        assert_eq!(script.next_deadline(), at(60));
        let late = Late { running: vec![1, 2], ..Late::default() };
        assert_eq!(script.advance(at(60)), [Action::End(Ending::Late(late))]);

        let mut script = Script::new(vec![Part::default()], vec![], at(5));
        assert_eq!(script.advance(at(0)), [Action::Start(0)]);
        assert_eq!(script.advance(at(5)), [Action::End(Ending::Limit)]);
    }

    #[test]
    fn events_of_one_instant_happen_in_the_order_written() {
        let mut script = server_and_clients(vec![(at(6), Cue::Link(1)), (at(5), Cue::Link(0)), (at(6), Cue::Link(2))]);
        script.advance(at(0));
        assert_eq!(script.advance(at(7)), [Action::Link(0), Action::Link(1), Action::Link(2)]);
    }

    #[test]
    fn a_chain_without_readiness_conditions_starts_at_once() {
        let parts = vec![
            Part { after: vec![1], ..Part::default() },
            Part { after: vec![2], ..Part::default() },
            Part::default(),
        ];
        let mut script = Script::new(parts, vec![], at(5));
        assert_eq!(script.advance(at(0)), [Action::Start(2), Action::Start(1), Action::Start(0)]);
    }
}
