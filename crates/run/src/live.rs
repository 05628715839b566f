//! A run while its clock runs: what is due is done, and what happens is noted.

use std::time::Duration;

use crossbeam_channel::{Receiver, Select, TryRecvError};
use device::Change;
use host::warn;
use model::{Action as EventAction, ClockOff, DiskChange, FlowAction, LinkChange, ProgramAction};
use net::FlowChange;
use plan::harness_load;
use scale::{RealInstant, VirtualDuration, VirtualInstant};
use serde_json::json;
use site::{ClockChange, Event, How, NodeExit, NodeIndex, ProgramChange, ProgramDeed, Sample, Start, Stop};

use crate::conditions::Conditions;
use crate::error::{Error, Result};
use crate::idle::{Counted, Idleness};
use crate::notice::{Notice, Tick};
use crate::outside_requests::{Answer, Asked, Desk, Wish};
use crate::schedule::{self, Action, Ending};
use crate::steps::Steps;
use crate::{GLANCE, Run, of_node};

/// How often a node that is to become ready is looked at, and a program for whose end events wait, in real time.
const READINESS: Duration = Duration::from_millis(4);
/// How often the display is told where the run is, in real time.
const TICK: Duration = Duration::from_millis(200);
/// How often samples are taken.
const SAMPLE: VirtualDuration = VirtualDuration::from_nanos(1_000_000_000);

impl Run<'_> {
    /// Follows the schedule until it says that the run is over, or the user does.
    pub(super) fn until_the_end(
        &mut self,
        desk: &mut Desk,
        interrupts: &Receiver<i32>,
        tell: &mut dyn FnMut(&Notice),
    ) -> Result<Ending> {
        for (node, off) in self.experiment.nodes.iter().enumerate().filter_map(|(i, node)| Some((i, node.clock?))) {
            self.change_clock(node, off, true)?;
        }
        let mut next_sample = self.timeline.from + SAMPLE;
        let mut told = RealInstant::ZERO;
        let mut all_ready = false;
        let mut steps = Steps::new(self.experiment);
        let mut conditions = Conditions::new(self.experiment);
        let mut idleness = Idleness::new(self.experiment.idle.map(|idle| idle.after), self.timeline.from);
        loop {
            let now = self.timeline.at(host::now());
            if self.heed(desk, now)? {
                self.site.note_programs()?;
                return Ok(Ending::Suspended);
            }
            if let Some(ending) = self.act(now, &mut steps)? {
                self.site.note_programs()?;
                return Ok(ending);
            }
            let met = self.look_for_conditions(&mut conditions, now)?;
            if self.look_for_readiness(now)? | self.look_for_ended_steps(&mut steps)? | met {
                continue;
            }
            if !all_ready && self.schedule.all_ready() {
                all_ready = true;
                let since = host::now().since(self.asked).as_secs_f64();
                self.site.note_programs()?;
                self.event("all-ready", None, json!({ "real_s_since_command": since }));
            }
            if now >= next_sample {
                if self.sample(&mut idleness, desk, now)? {
                    return Ok(Ending::Suspended);
                }
                while next_sample <= now {
                    next_sample = next_sample + SAMPLE;
                }
            }
            let real = host::now();
            if real.since(told) >= TICK.into() {
                told = real;
                tell(&Notice::Tick(self.tick(now)));
            }
            if interrupts.try_recv().is_ok() {
                // Of a run that does not end by itself, this is the end.
                return Ok(if self.experiment.ends.never { Ending::Limit } else { Ending::Interrupted });
            }
            let due = self.schedule.next_deadline().min(next_sample);
            let mut wait = Duration::from(self.timeline.until(due, host::now())).min(GLANCE);
            if !self.schedule.awaiting_readiness().is_empty()
                || steps.begun().next().is_some()
                || conditions.is_waiting()
            {
                wait = wait.min(READINESS);
            }
            self.wait(desk, interrupts, wait);
            self.take_events()?;
        }
    }

    /// Waits until a site, somebody at the desk or the user has something to say, at most for `limit`.
    fn wait(&self, desk: &Desk, interrupts: &Receiver<i32>, limit: Duration) {
        let mut select = Select::new();
        select.recv(&self.events_of_site);
        select.recv(desk.asked());
        select.recv(interrupts);
        // Nothing is taken here: whose turn it is looks for itself.
        let _ = select.ready_timeout(limit);
    }

    /// Takes in what the site has told since this was last called.
    fn take_events(&mut self) -> Result<()> {
        loop {
            match self.events_of_site.try_recv() {
                Ok(Event::Exited(NodeExit { node, exit })) => {
                    let (exit, detail) = self.end_of(node, exit);
                    self.schedule.exited(node, exit);
                    self.event("exit", Some(node), detail);
                }
                Ok(Event::CommandEnded(id, done)) => self.command_ended(id, &done),
                Ok(Event::FromOutside { node, here, there }) => {
                    self.event("from-outside", Some(node), json!({ "port": here, "to": there }));
                }
                Ok(Event::Lost(e)) => return Err(e.into()),
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => {
                    return Err(site::Error::lost("a machine of the run does not answer any more").into());
                }
            }
        }
    }

    /// Does what is asked for at the desk; whether the run is to be suspended.
    fn heed(&mut self, desk: &mut Desk, now: VirtualInstant) -> Result<bool> {
        while let Ok(asked) = desk.asked().try_recv() {
            let Asked { wish, answer } = asked;
            match wish {
                Wish::Event(event) => {
                    let outcome = self.happen_by_hand(&event, now);
                    answer(outcome.map(Answer::Happened).map_err(site::Error::from));
                }
                Wish::Suspend => match self.prepare_suspension(desk.id(), now) {
                    Err(e) => answer(Err(e.into())),
                    Ok(()) => {
                        desk.waiting = Some(answer);
                        return Ok(true);
                    }
                },
            }
        }
        Ok(false)
    }

    /// Takes a sample; whether the run is to be suspended, because nobody has done anything in it for long.
    fn sample(&mut self, idleness: &mut Idleness, desk: &Desk, now: VirtualInstant) -> Result<bool> {
        let sample = self.site.sample()?;
        self.note_lost_cores(&sample);
        let is_idle = self.is_idle(idleness, now, &sample);
        desk.note_idle(idleness.lasts(now));
        self.observer.add(&self.plan, sample)?;
        self.site.note_programs()?;
        Ok(is_idle && self.suspend_if_idle(desk.id(), now))
    }

    /// Whether nobody has done anything for as long as the experiment says.
    fn is_idle(&self, idleness: &mut Idleness, now: VirtualInstant, sample: &Sample) -> bool {
        let counted = Counted {
            frames: sample.network.lateness.all.len(),
            used_ns: sample.cpu.nodes.iter().map(|node| node.container_ns).collect(),
            commands: sample.commands[0],
            sessions: sample.commands[1],
        };
        let second = self.timeline.tdf.to_real(SAMPLE).as_secs_f64();
        let shares: Vec<f64> = self.plan.nodes.values().map(|node| node.share * second).collect();
        idleness.is_reached(now, counted, &shares)
    }

    /// Says that the run is idle, and has it suspended if the experiment wants that; whether it is going to be.
    fn suspend_if_idle(&mut self, id: &str, now: VirtualInstant) -> bool {
        let Some(idle) = self.experiment.idle else { return false };
        self.event("idle", None, json!({ "for_s": idle.after.as_secs_f64() }));
        warn(format_args!("{}: nobody has done anything for {} of virtual time", self.experiment.name, idle.after));
        if !idle.swap_out {
            return false;
        }
        let prepared = self.prepare_suspension(id, now);
        if let Err(e) = &prepared {
            warn(format_args!("it is not suspended: {e}"));
        }
        prepared.is_ok()
    }

    /// Does what the schedule says is due, in its order.
    fn act(&mut self, now: VirtualInstant, steps: &mut Steps) -> Result<Option<Ending>> {
        let (mut starts, mut programs) = (Vec::new(), Vec::new());
        let mut ending = None;
        let actions = self.schedule.advance(now);
        // First, because the others take their time.
        let events = &self.experiment.events;
        let changes = actions.iter().filter_map(|action| match action {
            Action::Link(event) => of_link(&events[*event].action),
            _ => None,
        });
        self.change_links(&changes.collect::<Vec<_>>())?;
        for action in actions {
            // Nodes start together, but before anything else is done to one of them.
            if action.running_node().is_some_and(|node| starts.iter().any(|start: &Start| start.node == node)) {
                self.start_nodes(std::mem::take(&mut starts))?;
            }
            match action {
                Action::Start(node) => starts.push(Start { node, how: How::First }),
                Action::Restart(node) => starts.push(Start { node, how: How::Again }),
                Action::Boot(node) => starts.push(Start { node, how: How::Boot }),
                Action::CutPower(node) => self.cut_power(node)?,
                Action::Terminate(node) => {
                    self.event("stop", Some(node), serde_json::Value::Null);
                    self.site.stop(node, Stop::Ask)?;
                }
                Action::Kill(node) => {
                    self.event("kill", Some(node), serde_json::Value::Null);
                    self.site.stop(node, Stop::Kill)?;
                }
                Action::Nothing(node, what) => self.event("no-effect", Some(node), json!({ "do": what })),
                Action::Link(_) => {}
                Action::Clock(event) => {
                    if let EventAction::Clock { node, off } = self.experiment.events[event].action {
                        self.change_clock(node, off, false)?;
                    }
                }
                Action::Hardware(event) => {
                    if let EventAction::Hardware { node, change } = self.experiment.events[event].action {
                        self.change_hardware(node, change)?;
                    }
                }
                Action::Pause(node, paused) => self.pause(node, paused)?,
                Action::Partition(event) => {
                    let experiment = self.experiment;
                    if let EventAction::Partition { partition, on } = &experiment.events[event].action {
                        self.partition(partition, *on)?;
                    }
                }
                Action::Heal => self.heal()?,
                Action::Disk(event) => {
                    if let EventAction::Disk { node, change } = self.experiment.events[event].action {
                        self.change_disk(node, change)?;
                    }
                }
                Action::Flow(event) => {
                    if let EventAction::Flow { flow, act } = self.experiment.events[event].action {
                        self.change_flow(flow, act)?;
                    }
                }
                Action::Program(event) => programs.push(event),
                Action::End(how) => ending = Some(how),
            }
        }
        self.start_nodes(starts)?;
        let experiment = self.experiment;
        // Last, for a node may have started at the same moment.
        for event in programs {
            if let EventAction::Program { node, program, act } = &experiment.events[event].action {
                self.change_program(*node, program, act)?;
                steps.begin(experiment.events[event].step);
            }
        }
        Ok(ending)
    }

    /// Starts nodes, and then the programs beside their own.
    fn start_nodes(&mut self, starts: Vec<Start>) -> Result<()> {
        if starts.is_empty() {
            return Ok(());
        }
        for start in &starts {
            let what = if start.how == How::Boot { "power-on" } else { "start" };
            self.event(what, Some(start.node), serde_json::Value::Null);
        }
        self.site.start(&starts)?;
        let experiment = self.experiment;
        // Receivers are there before anything is sent, as far as nodes start at one moment.
        for receives in [true, false] {
            for start in &starts {
                for beside in experiment.nodes[start.node].beside.iter().filter(|b| b.receives == receives) {
                    self.change_program(start.node, &beside.program, &ProgramAction::Run(beside.argv.clone()))?;
                }
            }
        }
        Ok(())
    }

    /// Has happen what somebody asks for during the run, or as soon as a node lets it; the virtual time of that, in
    /// seconds. What cannot be done is the asker's mistake, and the run goes on.
    fn happen_by_hand(&mut self, text: &str, now: VirtualInstant) -> Result<f64> {
        let wrong = |e: model::Error| {
            let problems: Vec<String> = e.problems().iter().map(ToString::to_string).collect();
            Error::Usage(if problems.is_empty() { e.to_string() } else { problems.join("\n") })
        };
        let events = model::read_event(text, "0s", self.experiment).map_err(wrong)?;
        let links: Vec<_> = events.iter().filter_map(|event| of_link(&event.action)).collect();
        // Changes that the emulator does not take leave everything as it was.
        self.change_links(&links).map_err(|e| Error::Usage(e.to_string()))?;
        for event in &events {
            match &event.action {
                EventAction::Link { .. } => {}
                EventAction::Clock { node, off } => self.change_clock(*node, *off, false)?,
                EventAction::Hardware { node, change } => self.change_hardware(*node, *change)?,
                EventAction::Partition { partition, on } => self.partition(partition, *on)?,
                EventAction::Heal => self.heal()?,
                EventAction::Disk { node, change } => self.change_disk(*node, *change)?,
                EventAction::Flow { flow, act } => self.change_flow(*flow, *act)?,
                EventAction::Program { node, program, act } => {
                    self.change_program(*node, program, act).map_err(|e| Error::Usage(e.to_string()))?;
                }
                EventAction::Node { node, act } => self.schedule.add(now, of_node(*node, *act)),
                EventAction::End => self.schedule.add(now, schedule::Event::End),
            }
        }
        self.event("by-hand", None, json!({ "event": text }));
        self.by_hand.push((now, text.to_owned()));
        Ok(now.as_secs_f64())
    }

    /// Does to a program what an event says.
    fn change_program(&mut self, node: usize, program: &str, act: &ProgramAction) -> Result<()> {
        let (what, mut detail) = match act {
            ProgramAction::Run(argv) => (ProgramDeed::Run(argv.clone()), json!({ "run": argv })),
            ProgramAction::Again(argv) => (ProgramDeed::Again(argv.clone()), json!({ "again": argv })),
            ProgramAction::Signal(signal) => (ProgramDeed::Signal(*signal), json!({ "signal": signal })),
        };
        detail["program"] = program.into();
        let change = ProgramChange { node, program: program.to_owned(), what };
        let starts = !matches!(change.what, ProgramDeed::Signal(_));
        let is_up = self.schedule.is_running(node) && !(starts && self.schedule.is_paused(node));
        let done = is_up && self.site.change_program(&change)?;
        self.event(if done { "program" } else { "no-effect" }, Some(node), detail);
        Ok(())
    }

    /// Does to a flow of the emulator's what an event says.
    pub(super) fn change_flow(&mut self, flow: usize, act: FlowAction) -> Result<()> {
        let (what, change) = match act {
            FlowAction::Start => ("start", FlowChange::Start),
            FlowAction::Stop => ("stop", FlowChange::Stop),
            FlowAction::Load(load) => ("change", FlowChange::Load(harness_load(&load, self.plan.tdf))),
        };
        self.site.change_flow(flow, change)?;
        let name = &self.experiment.background[flow].name;
        self.event("flow", None, json!({ "flow": name, "do": what }));
        Ok(())
    }

    /// Sets the date of a node off, as an event or, from the start on, its description says.
    pub(super) fn change_clock(&mut self, node: usize, off: ClockOff, from_start: bool) -> Result<()> {
        self.site.change_clock(node, ClockChange { offset_ns: off.offset_ns, drift: off.drift, from_start })?;
        let offset_s = off.offset_ns.map(|ns| ns as f64 * 1e-9);
        let detail = json!({ "offset_s": offset_s, "drift_ppm": off.drift.map(|drift| (drift * 1e9).round() / 1e3) });
        self.event("clock", Some(node), detail);
        Ok(())
    }

    /// Does to a disk what an event says.
    pub(super) fn change_disk(&mut self, node: usize, change: DiskChange) -> Result<()> {
        let (done, change, detail) = match change {
            DiskChange::Slow(factor) => ("slow-disk", Change::Slow(factor), json!({ "factor": factor })),
            DiskChange::Fail => ("fail-disk", Change::Fail, serde_json::Value::Null),
            DiskChange::Full => ("full-disk", Change::Full, serde_json::Value::Null),
        };
        self.site.change_disk(node, change)?;
        self.event(done, Some(node), detail);
        Ok(())
    }

    /// Cuts the power of a node, and notes what that took.
    pub(super) fn cut_power(&mut self, node: NodeIndex) -> Result<()> {
        let device::Cut { lost, lost_bytes, unfinished } = self.site.cut_power(node)?;
        let detail = json!({ "lost": lost, "lost_bytes": lost_bytes, "unfinished": unfinished });
        self.event("power-off", Some(node), detail);
        Ok(())
    }

    /// Changes links, all at one instant.
    pub(super) fn change_links(&mut self, changes: &[(usize, &LinkChange)]) -> Result<()> {
        let experiment = self.experiment;
        let changed: Vec<_> = changes
            .iter()
            .map(|(link, change)| (&experiment.links[*link].name, self.plan.harness_changes(change)))
            .collect();
        let pipe = |link: &str, direction, change: &net::PipeChange| {
            (*change != net::PipeChange::default()).then(|| (format!("{link}/{direction}"), change.clone()))
        };
        let pipes = changed.iter().flat_map(|(link, [ab, ba])| [pipe(link, "ab", ab), pipe(link, "ba", ba)]);
        let pipes: Vec<_> = pipes.flatten().collect();
        if !pipes.is_empty() {
            self.site.change_pipes(&pipes)?;
        }
        for (name, [ab, ba]) in changed {
            let mut detail = json!({ "link": name, "harness": format!("{ab:?}") });
            if ab != ba {
                detail["harness"] = json!({ "ab": format!("{ab:?}"), "ba": format!("{ba:?}") });
            }
            self.record(host::now(), "link", Some(name.clone()), detail);
        }
        Ok(())
    }

    /// Whether a step is over: all its programs have been started, and none of them runs any more.
    fn look_for_ended_steps(&mut self, steps: &mut Steps) -> Result<bool> {
        let mut over = Vec::new();
        for (step, programs) in steps.begun() {
            if !self.site.programs_running(programs)?.contains(&true) {
                over.push(step);
            }
        }
        for step in &over {
            steps.end(*step);
            self.schedule.step_over(*step, self.timeline.at(host::now()));
            self.event("step-over", None, json!({ "step": self.experiment.steps[*step] }));
        }
        Ok(!over.is_empty())
    }

    fn tick(&self, now: VirtualInstant) -> Tick {
        let limit = self.experiment.ends.limit;
        let measured = self.experiment.measure.and_then(|(_, to)| to).filter(|to| *to > now);
        let expected_end = measured.unwrap_or(limit).min(limit);
        let ends = measured.is_some() || !self.experiment.ends.never;
        let nodes = self.experiment.nodes.len();
        let running = (0..nodes).filter(|n| self.schedule.is_running(*n)).count();
        Tick {
            virtual_now: now,
            real: host::now().since(self.timeline.zero),
            expected_end: ends.then(|| (expected_end, self.timeline.until(expected_end, host::now()))),
            running: (running, nodes),
        }
    }
}

/// The link that an event changes, and how, if it does.
pub(super) fn of_link(action: &EventAction) -> Option<(usize, &LinkChange)> {
    match action {
        EventAction::Link { link, change } => Some((*link, change)),
        _ => None,
    }
}
