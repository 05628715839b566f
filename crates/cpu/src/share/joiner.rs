//! Entering a group of a run, and its core.

use std::io;

use host::cgroup;

/// The right of a thread to work in a node's share.
#[derive(Debug)]
pub struct NodeJoiner {
    group: cgroup::Joiner,
    core: usize,
}

impl NodeJoiner {
    pub(crate) fn new(group: cgroup::Joiner, core: usize) -> NodeJoiner {
        NodeJoiner { group, core }
    }

    /// Puts the calling thread into the node's group and on its core. Makes system calls only: may run between fork and
    /// exec.
    pub fn join(&self) -> io::Result<()> {
        // Before, for the group's sake, where that can be; and after, for whoever enters may be unpinned
        // (`crates/cpu/src/keeper/burners.rs` has both reasons).
        let _ = host::pin(self.core);
        self.group.join()?;
        host::pin(self.core)
    }
}
