//! A run while its clock runs: what is due is done, and what happens is noted.

use std::time::Duration;

use crossbeam_channel::Receiver;
use device::Change;
use model::{Action as EventAction, DiskChange, Ready};
use scale::{RealInstant, VirtualDuration, VirtualInstant};

use super::{GLANCE, Run};
use crate::error::Result;
use crate::notice::{Notice, Tick};
use crate::schedule::{Action, Ending};
use crate::site::{NodeExit, Start, Stop};

/// How often a node that is to become ready is looked at, in real time.
const READINESS: Duration = Duration::from_millis(4);
/// How often the display is told where the run is, in real time.
const TICK: Duration = Duration::from_millis(200);
/// How often samples are taken.
const SAMPLE: VirtualDuration = VirtualDuration::from_nanos(1_000_000_000);

impl Run<'_> {
    /// Follows the schedule until it says that the run is over, or the user does.
    pub(super) fn until_the_end(
        &mut self,
        interrupts: &Receiver<i32>,
        tell: &mut dyn FnMut(&Notice),
    ) -> Result<Ending> {
        let mut next_sample = VirtualInstant::ZERO + SAMPLE;
        let mut told = RealInstant::ZERO;
        let mut all_ready = false;
        loop {
            let now = self.timeline.now();
            if let Some(ending) = self.act(now)? {
                self.site.note_programs()?;
                return Ok(ending);
            }
            if self.look_for_readiness()? {
                continue;
            }
            if !all_ready && self.schedule.all_ready() {
                all_ready = true;
                let since = host::now().since(self.asked).as_secs_f64();
                self.site.note_programs()?;
                self.event("all-ready", None, serde_json::json!({ "real_s_since_command": since }));
            }
            if now >= next_sample {
                let sample = self.site.sample()?;
                self.note_lost_cores(&sample);
                self.observer.add(&self.plan, sample)?;
                self.site.note_programs()?;
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
                return Ok(Ending::Interrupted);
            }
            let mut wait = self.timeline.wait_until(self.schedule.next_deadline().min(next_sample)).min(GLANCE);
            if !self.schedule.awaiting_readiness().is_empty() {
                wait = wait.min(READINESS);
            }
            for NodeExit { node, exit } in self.site.exits(wait.into())? {
                self.schedule.exited(node, exit);
                self.event("exit", Some(node), serde_json::json!({ "status": exit.to_string() }));
            }
        }
    }

    /// Does what the schedule says is due.
    fn act(&mut self, now: VirtualInstant) -> Result<Option<Ending>> {
        let mut starts = Vec::new();
        let mut ending = None;
        let actions = self.schedule.advance(now);
        // First, because the others take their time.
        self.change_links(&actions)?;
        for action in actions {
            match action {
                Action::Start(node) => starts.push(Start { node, again: false }),
                Action::Restart(node) => starts.push(Start { node, again: true }),
                Action::Terminate(node) => {
                    self.event("stop", Some(node), serde_json::Value::Null);
                    self.site.stop(node, Stop::Ask)?;
                }
                Action::Kill(node) => {
                    self.event("kill", Some(node), serde_json::Value::Null);
                    self.site.stop(node, Stop::Kill)?;
                }
                Action::Nothing(node, what) => self.event("no-effect", Some(node), serde_json::json!({ "do": what })),
                Action::Link(_) => {}
                Action::Disk(event) => self.change_disk(event)?,
                Action::End(how) => ending = Some(how),
            }
        }
        if !starts.is_empty() {
            for start in &starts {
                self.event("start", Some(start.node), serde_json::Value::Null);
            }
            self.site.start(&starts)?;
        }
        Ok(ending)
    }

    /// Does to a disk what an event of the experiment says.
    fn change_disk(&mut self, event: usize) -> Result<()> {
        let EventAction::Disk { node, change } = self.experiment.events[event].action else { return Ok(()) };
        let (done, change, detail) = match change {
            DiskChange::Slow(factor) => ("slow-disk", Change::Slow(factor), serde_json::json!({ "factor": factor })),
            DiskChange::Fail => ("fail-disk", Change::Fail, serde_json::Value::Null),
        };
        self.site.change_disk(node, change)?;
        self.event(done, Some(node), detail);
        Ok(())
    }

    /// Changes all links that are to be changed, at one instant.
    fn change_links(&mut self, actions: &[Action]) -> Result<()> {
        let mut changed = Vec::new();
        for action in actions {
            let Action::Link(event) = action else { continue };
            let EventAction::Link { link, change } = &self.experiment.events[*event].action else { continue };
            changed.push((&self.experiment.links[*link].name, self.plan.harness_changes(change)));
        }
        let pipe = |link: &str, direction, change: &net::PipeChange| {
            (*change != net::PipeChange::default()).then(|| (format!("{link}/{direction}"), change.clone()))
        };
        let pipes = changed.iter().flat_map(|(link, [ab, ba])| [pipe(link, "ab", ab), pipe(link, "ba", ba)]);
        let pipes: Vec<_> = pipes.flatten().collect();
        if !pipes.is_empty() {
            self.site.change_pipes(&pipes)?;
        }
        for (name, [ab, ba]) in changed {
            let mut detail = serde_json::json!({ "link": name, "harness": format!("{ab:?}") });
            if ab != ba {
                detail["harness"] = serde_json::json!({ "ab": format!("{ab:?}"), "ba": format!("{ba:?}") });
            }
            self.record(host::now(), "link", Some(name.clone()), detail);
        }
        Ok(())
    }

    /// Whether a node has become ready just now.
    fn look_for_readiness(&mut self) -> Result<bool> {
        let port = |node: usize| self.experiment.nodes[node].ready.map(|Ready::Tcp(port)| (node, port));
        let waiting: Vec<_> = self.schedule.awaiting_readiness().into_iter().filter_map(port).collect();
        if waiting.is_empty() {
            return Ok(false);
        }
        let ready = self.site.listening(&waiting)?;
        for (node, port) in waiting.iter().filter(|(node, _)| ready.contains(node)) {
            self.schedule.ready(*node);
            self.event("ready", Some(*node), serde_json::json!({ "tcp": port }));
        }
        Ok(!ready.is_empty())
    }

    fn tick(&self, now: VirtualInstant) -> Tick {
        let limit = self.experiment.ends.limit;
        let measured = self.experiment.measure.and_then(|(_, to)| to).filter(|to| *to > now);
        let expected_end = measured.unwrap_or(limit).min(limit);
        let nodes = self.experiment.nodes.len();
        let running = (0..nodes).filter(|n| self.schedule.is_running(*n)).count();
        Tick {
            virtual_now: now,
            real: host::now().since(self.timeline.zero),
            expected_end,
            real_left: self.timeline.until(expected_end),
            running: (running, nodes),
        }
    }
}
