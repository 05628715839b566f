//! Where in a run's tree of control groups each thing is.

use host::cgroup::{Group, Tree};

use crate::Error;

/// Where in a run's tree the group of a node's container is.
pub fn container_group(node: &str) -> String {
    format!("emu/{node}/c")
}

/// The groups of one run.
#[derive(Clone, Debug)]
pub(crate) struct Layout(Tree);

impl Layout {
    pub fn of(run_id: &str) -> Result<Layout, Error> {
        Ok(Layout(Tree::of(run_id)?))
    }

    /// All of it, which competes with whatever else is on the core.
    pub fn tree(&self) -> &Tree {
        &self.0
    }

    pub fn top(&self) -> Group {
        self.0.group("")
    }

    /// All that divides the core by shares.
    pub fn emulated(&self) -> Group {
        self.0.group("emu")
    }

    /// The CPU time of the processes that keep the shares is counted here.
    pub fn poke(&self) -> Group {
        self.0.group("poke")
    }

    /// Has next to no weight, so that changing it changes nothing for the nodes. (No node has this name, nor the next
    /// one: an underscore is not allowed in host names.)
    pub fn poked(&self) -> Group {
        self.0.group("emu/_poked")
    }

    /// Burns what no node has bought.
    pub fn unsold(&self) -> Group {
        self.0.group("emu/_unsold")
    }

    pub fn node(&self, name: &str) -> Group {
        self.0.group(&format!("emu/{name}"))
    }

    pub fn container(&self, name: &str) -> Group {
        self.0.group(&container_group(name))
    }

    /// The container's group as an OCI runtime is told it.
    pub fn container_path(&self, name: &str) -> String {
        self.0.path(&container_group(name))
    }

    pub fn filler(&self, name: &str) -> Group {
        self.0.group(&format!("emu/{name}/f"))
    }
}
