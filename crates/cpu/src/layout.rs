//! Where in a run's tree of control groups each thing is.

use std::collections::HashMap;

use host::cgroup::{Group, Tree};

use crate::division::{Division, Fractions};
use crate::{Error, NodeShare, shares};

/// The groups of one run.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    tree: Tree,
    /// By node, where its group is below `emu`; one that is not here is right there, by its name.
    places: HashMap<String, String>,
}

impl Layout {
    /// Of a run all of whose nodes are right below `emu`, or are called by their [places](Layout::place).
    pub fn of(run_id: &str) -> Result<Layout, Error> {
        Ok(Layout { tree: Tree::of(run_id)?, places: HashMap::new() })
    }

    /// The same where some are in groups of small ones.
    pub fn divided(self, shares: &[NodeShare], division: &Division) -> Layout {
        let nodes = shares.iter().zip(division.levels()).filter(|(_, level)| **level > 0);
        let place = |n: &NodeShare, level| format!("{}/{}", way(division, level), n.name);
        Layout { places: nodes.map(|(n, level)| (n.name.clone(), place(n, *level))).collect(), ..self }
    }

    /// All of it, which competes with whatever else is on the core.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    pub fn top(&self) -> Group {
        self.tree.group("")
    }

    /// All that divides the core by shares.
    pub fn emulated(&self) -> Group {
        self.tree.group("emu")
    }

    /// The CPU time of the processes that keep the shares is counted here.
    pub fn poke(&self) -> Group {
        self.tree.group("poke")
    }

    /// Has next to no weight, so that changing it changes nothing for the nodes. (No node has this name, nor the next
    /// one: an underscore is not allowed in host names.)
    pub fn poked(&self) -> Group {
        self.tree.group("emu/_poked")
    }

    /// Burns what no node has bought.
    pub fn unsold(&self) -> Group {
        self.tree.group("emu/_unsold")
    }

    /// For what measures the caches of a core that belongs to these groups alone.
    pub fn caches(&self) -> Group {
        self.tree.group("emu/_caches")
    }

    /// Where below `emu` a node's group is, or another one that is not a node's: this names it to another process.
    pub fn place<'a>(&'a self, name: &'a str) -> &'a str {
        self.places.get(name).map_or(name, String::as_str)
    }

    pub fn node(&self, name: &str) -> Group {
        self.tree.group(&format!("emu/{}", self.place(name)))
    }

    pub fn container(&self, name: &str) -> Group {
        self.tree.group(&self.inside_of_container(name))
    }

    /// The container's group as an OCI runtime is told it.
    pub fn container_path(&self, name: &str) -> String {
        self.tree.path(&self.inside_of_container(name))
    }

    fn inside_of_container(&self, name: &str) -> String {
        format!("emu/{}/c", self.place(name))
    }

    pub fn filler(&self, name: &str) -> Group {
        self.tree.group(&format!("emu/{}/f", self.place(name)))
    }

    /// The group of the small nodes of a level.
    pub fn batch(&self, division: &Division, level: u32) -> Group {
        self.tree.group(&format!("emu/{}", way(division, level)))
    }

    /// The places of what burns the spares of such groups, of those that have any. (Again no node's name.)
    pub fn places_of_spares(division: &Division) -> impl Iterator<Item = String> {
        let spared = division.batches().iter().filter(|batch| batch.spared());
        spared.map(|batch| format!("{}/{SPARE}", way(division, batch.level)))
    }

    /// What every group but the one of what is unsold is to be told that it has beside its siblings.
    pub fn told(&self, shares: &[NodeShare], division: &Division) -> Vec<(Group, f64)> {
        let Fractions { nodes, batches, spares } = division.fractions(&shares::fractions(shares));
        let nodes = shares.iter().map(|n| self.node(&n.name)).zip(nodes);
        let all = division.batches().iter();
        let spared = all.clone().zip(spares).filter(|(batch, _)| batch.spared()).map(|(_, spare)| spare);
        let spares = Layout::places_of_spares(division).map(|place| self.filler_at(&place)).zip(spared);
        let batches = all.map(|batch| self.batch(division, batch.level)).zip(batches);
        nodes.chain(batches).chain(spares).collect()
    }

    /// Where the filler at a place is: a node's is in a group of its own beside the container's, and a spare has no
    /// container.
    pub fn filler_at(&self, place: &str) -> Group {
        match place.rsplit('/').next() {
            Some(SPARE) => self.tree.group(&format!("emu/{place}")),
            _ => self.filler(place),
        }
    }
}

const SPARE: &str = "_spare";

/// The groups of small ones that lead to the one of a level. No node has their names.
fn way(division: &Division, level: u32) -> String {
    division.way_to(level).iter().map(|level| format!("_small-{level}")).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use host::cgroup::{Weights, check_name};

    use super::*;

    #[test]
    fn small_nodes_are_where_no_node_can_be() {
        let Ok(layout) = Layout::of("x1") else { return };
        let share = |(name, share): (&str, f64)| NodeShare { name: name.into(), share };
        let shares: Vec<_> = [("web", 0.4), ("a", 0.01), ("b", 0.001)].map(share).to_vec();
        let division = Division::of(&[0.4, 0.01, 0.001], Weights::coarse());
        let layout = layout.divided(&shares, &division);
        let places = ["web", "a", "b"].map(|name| layout.place(name));
        assert_eq!(places, ["web", "_small-1/a", "_small-1/_small-2/b"]);
        assert!(layout.container_path("b").ends_with("/emu/_small-1/_small-2/b/c"), "{}", layout.container_path("b"));
        let spares: Vec<_> = Layout::places_of_spares(&division).collect();
        assert_eq!(spares, ["_small-1/_small-2/_spare", "_small-1/_spare"]);
        let told = layout.told(&shares, &division);
        assert_eq!((told.len(), told[0].1), (7, 0.4), "three nodes, two groups and what is spared in each");
        assert!(["_small-1", SPARE].iter().all(|name| check_name(name).is_err()), "no node is called so");
    }

    #[test]
    fn another_process_finds_groups_by_their_places() {
        let (Ok(layout), Ok(other)) = (Layout::of("x1"), Layout::of("x1")) else { return };
        let shares = [NodeShare { name: "a".into(), share: 0.01 }];
        let layout = layout.divided(&shares, &Division::of(&[0.01], Weights::coarse()));
        let of = |group: Group| format!("{group:?}");
        assert_eq!(of(other.filler_at(layout.place("a"))), of(layout.filler("a")));
        assert!(of(other.filler_at("_small-1/_spare")).contains("emu/_small-1/_spare\""));
    }
}
