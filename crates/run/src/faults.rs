//! Faults of nodes and of the network between them, as events have them happen.

use model::{Direction, HardwareChange, Partition};
use serde_json::json;
use site::NodeIndex;

use crate::Run;
use crate::error::Result;

impl Run<'_> {
    /// Stops all processes of a node where they are, or lets them go on.
    pub(super) fn pause(&mut self, node: NodeIndex, paused: bool) -> Result<()> {
        self.site.pause(node, paused)?;
        self.event(if paused { "pause" } else { "resume" }, Some(node), serde_json::Value::Null);
        Ok(())
    }

    /// Has the CPUs of a node be slower, or less memory be there for it, as an event says.
    pub(super) fn change_hardware(&mut self, node: NodeIndex, change: HardwareChange) -> Result<()> {
        let told = match change {
            HardwareChange::Speed(factor) => site::HardwareChange::Speed(factor),
            HardwareChange::Memory(bytes) => site::HardwareChange::Memory(bytes),
        };
        let in_force = self.site.change_hardware(node, told)?;
        match change {
            HardwareChange::Speed(factor) => self.event("speed", Some(node), json!({ "factor": factor })),
            HardwareChange::Memory(asked) => {
                let planned = self.experiment.machines[self.experiment.nodes[node].machine].memory_bytes;
                let detail = json!({ "limit_bytes": asked.unwrap_or(planned), "in_force_bytes": in_force });
                self.event("memory", Some(node), detail);
            }
        }
        Ok(())
    }

    /// Lets nodes go on that are paused, so that they can end by themselves.
    pub(super) fn resume_all(&mut self) {
        for node in (0..self.experiment.nodes.len()).filter(|node| self.schedule.is_paused(*node)) {
            let _ = self.site.pause(node, false);
        }
    }

    /// Makes a partition, or ends one that is like it.
    pub(super) fn partition(&mut self, partition: &Partition, on: bool) -> Result<()> {
        let mut detail = self.detail(partition);
        if on {
            self.partitions.push(partition.clone());
        } else if let Some(place) = self.partitions.iter().position(|other| other == partition) {
            self.partitions.remove(place);
        } else {
            detail["do"] = "heal".into();
            self.event("no-effect", None, detail);
            return Ok(());
        }
        self.tell_cut()?;
        self.event(if on { "partition" } else { "heal" }, None, detail);
        Ok(())
    }

    /// Ends all partitions.
    pub(super) fn heal(&mut self) -> Result<()> {
        let were = std::mem::take(&mut self.partitions);
        self.tell_cut()?;
        let what = if were.is_empty() { "no-effect" } else { "heal" };
        self.event(what, None, json!({ "do": "heal", "ended": were.len() }));
        Ok(())
    }

    fn tell_cut(&mut self) -> Result<()> {
        let mut pairs: Vec<[NodeIndex; 2]> = self.partitions.iter().flat_map(Partition::pairs).collect();
        pairs.sort_unstable();
        pairs.dedup();
        Ok(self.site.cut(&pairs)?)
    }

    fn detail(&self, partition: &Partition) -> serde_json::Value {
        let name = |node: &usize| self.experiment.nodes[*node].name.as_str();
        let groups: Vec<Vec<&str>> = partition.groups.iter().map(|group| group.iter().map(name).collect()).collect();
        let direction = match partition.direction {
            Direction::Both => "both",
            Direction::To => "to",
            Direction::From => "from",
        };
        json!({ "groups": groups, "direction": direction })
    }
}
