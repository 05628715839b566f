//! Ends of nodes that are whole machines.

use record::LogStream;
use serde_json::{Value, json};
use site::{Exit, NodeIndex, Written};

use crate::Run;

/// How much of a console is looked at.
const CONSOLE: u64 = 16 << 10;

impl Run<'_> {
    /// How a node has ended, and what is said of that. QEMU ends well also where the guest's kernel has given up.
    pub(super) fn end_of(&mut self, node: NodeIndex, exit: Exit) -> (Exit, Value) {
        match self.gave_up(node) {
            Some(why) if exit == Exit::Code(0) => (Exit::Code(1), json!({ "status": "guest gave up", "why": why })),
            _ => (exit, json!({ "status": exit.to_string() })),
        }
    }

    /// The last words of a guest's kernel that gave up; `None` if it did not, and of containers.
    pub(super) fn gave_up(&mut self, node: NodeIndex) -> Option<String> {
        guest::gave_up(&self.console(node)?)
    }

    /// The last lines of a guest's console; `None` if there are none, and of containers.
    pub(super) fn last_of_console(&mut self, node: NodeIndex) -> Option<String> {
        guest::last_lines(&self.console(node)?)
    }

    fn console(&mut self, node: NodeIndex) -> Option<Vec<u8>> {
        self.experiment.nodes[node].guest.as_ref()?;
        self.site.read(node, &Written::LogEnd(LogStream::Stdout), 0, CONSOLE).ok()?
    }
}
