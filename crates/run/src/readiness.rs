//! Whether nodes have become ready: because they listen, or because a command that is run in them says so.

use std::collections::BTreeMap;

use model::Ready;
use scale::VirtualInstant;
use serde_json::json;
use site::{Command, CommandId, Execution, Exit, NodeIndex};

use crate::Run;
use crate::error::Result;

/// The commands that say whether nodes are ready, by node.
#[derive(Debug, Default)]
pub struct Readiness(BTreeMap<NodeIndex, Asking>);

/// How far the command of a node is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asking {
    /// It runs.
    Runs(CommandId),
    /// It is to be run again then.
    At(VirtualInstant),
}

impl Readiness {
    /// Whether the command of a node is to be run now.
    fn is_due(&self, node: NodeIndex, now: VirtualInstant) -> bool {
        match self.0.get(&node) {
            None => true,
            Some(Asking::Runs(_)) => false,
            Some(Asking::At(at)) => *at <= now,
        }
    }

    /// The node whose command has this number, if one has.
    fn of(&self, id: CommandId) -> Option<NodeIndex> {
        self.0.iter().find(|(_, asking)| **asking == Asking::Runs(id)).map(|(node, _)| *node)
    }
}

impl Run<'_> {
    /// Whether a node has become ready just now.
    pub(super) fn look_for_readiness(&mut self, now: VirtualInstant) -> Result<bool> {
        let awaiting = self.schedule.awaiting_readiness();
        let mut waiting = Vec::new();
        for node in awaiting {
            match &self.experiment.nodes[node].ready {
                None => {}
                Some(Ready::Tcp(port)) => waiting.push((node, *port)),
                Some(Ready::Run { argv, every, limit }) if self.readiness.is_due(node, now) => {
                    let limit = self.timeline.tdf.to_real(*limit);
                    // A node that is just ending cannot be asked.
                    let begun = self.site.begin_command(&Command { node, argv: argv.clone(), limit });
                    let asking = begun.map_or(Asking::At(now + *every), Asking::Runs);
                    self.readiness.0.insert(node, asking);
                }
                Some(Ready::Run { .. }) => {}
            }
        }
        if waiting.is_empty() {
            return Ok(false);
        }
        let ready = self.site.listening(&waiting)?;
        for (node, port) in waiting.iter().filter(|(node, _)| ready.contains(node)) {
            self.schedule.ready(*node);
            self.event("ready", Some(*node), json!({ "tcp": port }));
        }
        Ok(!ready.is_empty())
    }

    /// A command has ended: perhaps one that says whether a node is ready.
    pub(super) fn command_ended(&mut self, id: CommandId, done: &site::Result<Execution>) {
        let Some(node) = self.readiness.of(id) else { return };
        let Some(Ready::Run { argv, every, .. }) = &self.experiment.nodes[node].ready else { return };
        if matches!(done, Ok(Execution { exit: Exit::Code(0), .. })) {
            self.readiness.0.remove(&node);
            if self.schedule.awaiting_readiness().contains(&node) {
                self.schedule.ready(node);
                self.event("ready", Some(node), json!({ "run": argv }));
            }
        } else {
            let again = self.timeline.at(host::now()) + *every;
            self.readiness.0.insert(node, Asking::At(again));
        }
    }
}

#[cfg(test)]
mod tests {
    use scale::VirtualDuration;

    use super::*;

    #[test]
    fn a_command_is_run_again_after_a_while() {
        let at = |ms: u64| VirtualInstant::ZERO + VirtualDuration::from_nanos(ms * 1_000_000);
        let mut readiness = Readiness::default();
        assert!(readiness.is_due(3, at(0)));
        readiness.0.insert(3, Asking::Runs(7));
        assert_eq!((readiness.is_due(3, at(100)), readiness.of(7), readiness.of(8)), (false, Some(3), None));
        readiness.0.insert(3, Asking::At(at(50)));
        assert_eq!([49, 50].map(|ms: u64| readiness.is_due(3, at(ms))), [false, true]);
    }
}
