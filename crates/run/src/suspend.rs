//! A run that is suspended, and one that goes on with such.

use model::Action;
use record::Variant;
use scale::VirtualInstant;
use serde_json::json;
use site::{Part, Suspended, SuspendedNode};

use crate::Run;
use crate::end::End;
use crate::error::{Error, Result};
use crate::live::of_link;
use crate::outside_requests::Desk;
use crate::schedule::Ending;

impl Run<'_> {
    /// Brings links, disks and flows into the state in which events of earlier parts of the run have left them, and
    /// takes the power of those nodes that had none.
    pub(super) fn restore(&mut self) -> Result<()> {
        let Some(earlier) = &self.earlier else { return Ok(()) };
        let happened = earlier.happened;
        let off: Vec<usize> = (0..earlier.nodes.len()).filter(|node| earlier.nodes[*node].off).collect();
        let mut past: Vec<_> = self.experiment.events.iter().filter(|event| event.at <= happened).cloned().collect();
        for (at, text) in &self.by_hand {
            let events = model::read_event(text, "0s", self.experiment).map_err(|e| Error::Experiment(e.render()))?;
            past.extend(events.into_iter().map(|event| model::Event { at: *at, ..event }));
        }
        past.sort_by_key(|event| event.at);
        for event in &past {
            match &event.action {
                Action::Disk { node, change } => self.change_disk(*node, *change)?,
                Action::Flow { flow, act } => self.change_flow(*flow, *act)?,
                Action::Partition { partition, on } => self.partition(partition, *on)?,
                Action::Heal => self.heal()?,
                other => self.change_links(&of_link(other).into_iter().collect::<Vec<_>>())?,
            }
        }
        off.into_iter().try_for_each(|node| self.cut_power(node))
    }

    /// Whether the run can be suspended at all; makes room for what that takes, so that nothing is lost for want of it.
    pub(super) fn prepare_suspension(&mut self, id: &str, now: VirtualInstant) -> Result<()> {
        if self.plan.variant != Variant::Scaled {
            let what = format!(
                "a {} run cannot be suspended: its nodes read the host's own clock, which goes on; only the scaled \
                 variant can",
                self.plan.variant
            );
            return Err(Error::Usage(what));
        }
        if !self.experiment.conditions.is_empty() {
            let what = "a run whose events wait for what nodes print (`when`) cannot be suspended";
            return Err(Error::Usage(what.into()));
        }
        if !self.experiment.steps.is_empty() {
            let what = "a run whose events wait for the end of programs (`after`) cannot be suspended: such programs \
                        do not outlive it";
            return Err(Error::Usage(what.into()));
        }
        self.write_suspended(id, now, now, self.schedule.suspended())
    }

    /// Writes down what it takes to go on. All has happened until `happened`, and the nodes have ended at `at`.
    fn write_suspended(
        &mut self,
        id: &str,
        happened: VirtualInstant,
        at: VirtualInstant,
        nodes: Vec<SuspendedNode>,
    ) -> Result<()> {
        let timeline = self.timeline;
        let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let now = unix.as_nanos() as u64;
        let lasted = host::now().since(timeline.zero).as_nanos();
        let dates = [timeline.from, at].map(|instant| timeline.zero_unix_ns + instant.as_nanos());
        let part = Part { real: [now.saturating_sub(lasted), now], virt: dates };
        let parts = self.earlier.iter().flat_map(|earlier| earlier.parts.iter().copied()).chain([part]);
        let experiment = self.experiment;
        let folder = experiment.dir.canonicalize().map_err(Error::io(experiment.dir.display()))?;
        let suspended = Suspended {
            id: id.into(),
            name: experiment.name.clone(),
            out: self.dir.path().to_path_buf(),
            experiment: experiment.resolved.clone(),
            folder,
            tdf: timeline.tdf,
            seed: self.seed,
            accuracy: self.accuracy,
            cores: self.choice,
            at,
            happened,
            zero_unix_ns: timeline.zero_unix_ns,
            parts: parts.collect(),
            nodes,
            by_hand: self.by_hand.clone(),
            images: plan::images(experiment),
        };
        Ok(self.site.suspend(&suspended)?)
    }

    /// Where the run is to be suspended, writes down that it is, now that its nodes have ended; `nodes` are as they
    /// were at the run's end.
    pub(super) fn suspend_at(&mut self, end: &mut End, nodes: Vec<SuspendedNode>, desk: &mut Desk) {
        if end.ending != Ending::Suspended {
            return;
        }
        let at = self.timeline.at(host::now());
        self.event("aside", None, json!({ "id": desk.id() }));
        desk.at = Some(at);
        if let Err(e) = self.write_suspended(desk.id(), self.timeline.at(end.at), at, nodes) {
            end.breaks(e);
        }
    }
}
