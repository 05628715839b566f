//! Where in a run's tree of control groups each thing is.

use host::cgroup::{Group, Tree};

use crate::Error;

/// Where in a run's tree the group of a node's container is.
pub fn container_group(node: &str) -> String {
    format!("emu/{node}/c")
}

/// The groups of one run.
///
/// Those of all cores are siblings. What a group weighs counts on each core by itself against what else is to run
/// there, and every node and every filler is on one core only, so nodes of different cores do not compete. What they
/// have in common, `emu` and `poked`, has tasks on all of these cores, among which the kernel divides its weight.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    tree: Tree,
    cores: Vec<usize>,
}

impl Layout {
    /// Of a run whose nodes are on these cores.
    pub fn of(run_id: &str, cores: &[usize]) -> Result<Layout, Error> {
        Ok(Layout { tree: Tree::of(run_id)?, cores: cores.to_vec() })
    }

    /// The cores that hold nodes.
    pub fn cores(&self) -> &[usize] {
        &self.cores
    }

    /// All of it, which competes with whatever else is on the cores.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    pub fn top(&self) -> Group {
        self.tree.group("")
    }

    /// All that divides the cores by shares.
    pub fn emulated(&self) -> Group {
        self.tree.group("emu")
    }

    /// The CPU time of the processes that keep the shares is counted here.
    pub fn poke(&self) -> Group {
        self.tree.group("poke")
    }

    /// Has next to no weight, so that changing it changes nothing for the nodes, and a task on each core, so that one
    /// change reaches them all. (No node has this name, nor the next one: an underscore is not allowed in host names.)
    pub fn poked(&self) -> Group {
        self.tree.group("emu/_poked")
    }

    /// Burns what no node has bought of a core.
    pub fn unsold(&self, core: usize) -> Group {
        match self.cores[..] {
            [_] => self.tree.group("emu/_unsold"),
            _ => self.tree.group(&format!("emu/_unsold-{core}")),
        }
    }

    pub fn node(&self, name: &str) -> Group {
        self.tree.group(&format!("emu/{name}"))
    }

    pub fn container(&self, name: &str) -> Group {
        self.tree.group(&container_group(name))
    }

    /// The container's group as an OCI runtime is told it.
    pub fn container_path(&self, name: &str) -> String {
        self.tree.path(&container_group(name))
    }

    pub fn filler(&self, name: &str) -> Group {
        self.tree.group(&format!("emu/{name}/f"))
    }
}
