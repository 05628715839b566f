//! Where in a run's tree of control groups each thing is.

use std::collections::HashMap;

use host::cgroup::{Group, Tree};

use crate::share::core_plan::Part;
use crate::share::division::Division;
use crate::{Error, NodeShare};

/// The groups of one run.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    tree: Tree,
    /// The cores that hold nodes.
    cores: Vec<usize>,
    /// By node, where its group is below `emu`; one that is not here is right there, by its name.
    places: HashMap<String, String>,
}

impl Layout {
    /// Of a run whose nodes are on these cores, all right below `emu`, or called by their [places](Layout::place).
    pub fn of(run_id: &str, cores: &[usize]) -> Result<Layout, Error> {
        Ok(Layout { tree: Tree::of(run_id)?, cores: cores.to_vec(), places: HashMap::new() })
    }

    /// The same where some nodes are in groups of small ones.
    pub fn divided(mut self, shares: &[NodeShare], parts: &[Part]) -> Layout {
        for part in parts {
            for (node, level) in part.levels().filter(|(_, level)| *level > 0) {
                let name = &shares[node].name;
                let place = format!("{}/{name}", self.way(part.core, &part.division, level));
                self.places.insert(name.clone(), place);
            }
        }
        self
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

    /// The place of what burns what no node has bought of a core. (No node has such a name.)
    fn place_of_unsold(&self, part: &Part) -> String {
        format!("{UNSOLD}{}", self.of_core(part.core))
    }

    /// Burns what no node has bought of a core, and what those beside it leave.
    pub fn unsold(&self, part: &Part) -> Group {
        self.filler_at(&self.place_of_unsold(part))
    }

    /// The places of all burners of a core, in the order of [`Part::burners`].
    pub fn places_of_burners(&self, part: &Part) -> Vec<String> {
        self.places_of_spares(part).into_iter().chain([self.place_of_unsold(part)]).collect()
    }

    /// What the names of groups that there are on each core end with.
    fn of_core(&self, core: usize) -> String {
        if self.cores.len() == 1 { String::new() } else { format!("-{core}") }
    }

    /// For what measures the caches of cores that belong to these groups alone.
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

    /// The group of the small nodes of a level on a core.
    pub fn batch(&self, part: &Part, level: u32) -> Group {
        self.tree.group(&format!("emu/{}", self.way(part.core, &part.division, level)))
    }

    /// The places of what burns the spares of a core, group by group of those that have any. (Again no node's name.)
    pub fn places_of_spares(&self, part: &Part) -> Vec<String> {
        part.division
            .batches()
            .iter()
            .map(|batch| format!("{}/{SPARE}", self.way(part.core, &part.division, batch.level)))
            .collect()
    }

    /// Where the filler at a place is: a node's is in a group of its own beside the container's; what burns something
    /// unsold has no container.
    pub fn filler_at(&self, place: &str) -> Group {
        match place.rsplit('/').next() {
            Some(last) if last == SPARE || is_unsold(last) => self.tree.group(&format!("emu/{place}")),
            _ => self.filler(place),
        }
    }

    /// The groups of small ones that lead to the one of a level. No node has their names.
    fn way(&self, core: usize, division: &Division, level: u32) -> String {
        let of_core = self.of_core(core);
        let way = division.way_to(level).into_iter().map(|level| format!("_small-{level}{of_core}"));
        way.collect::<Vec<_>>().join("/")
    }
}

const SPARE: &str = "_spare";
const UNSOLD: &str = "_unsold";

/// Whether the filler at a place burns what no node has bought, beside the nodes.
pub(crate) fn is_unsold(place: &str) -> bool {
    place.starts_with(UNSOLD)
}

#[cfg(test)]
mod tests {
    use host::cgroup::{Weights, check_name};

    use super::*;
    use crate::Policy;

    fn divided(shares: &[NodeShare]) -> Option<(Layout, Vec<Part>)> {
        let parts = Part::all(shares, Policy::Slots, Weights::coarse()).unwrap();
        let cores: Vec<usize> = parts.iter().map(|part| part.core).collect();
        Some((Layout::of("x1", &cores).ok()?.divided(shares, &parts), parts))
    }

    #[test]
    fn small_nodes_are_where_no_node_can_be() {
        let share = |(name, share): (&str, f64)| NodeShare::new(name, 0, share);
        let Some((layout, parts)) = divided(&[("web", 0.4), ("a", 0.01), ("b", 0.001)].map(share)) else { return };
        let places = ["web", "a", "b"].map(|name| layout.place(name));
        assert_eq!(places, ["web", "_small-1/a", "_small-1/_small-2/b"]);
        assert!(layout.container_path("b").ends_with("/emu/_small-1/_small-2/b/c"), "{}", layout.container_path("b"));
        assert_eq!(layout.places_of_spares(&parts[0]), ["_small-1/_small-2/_spare", "_small-1/_spare"]);
        assert!(["_small-1", "_small-1-0", SPARE].iter().all(|name| check_name(name).is_err()), "no node is called so");
    }

    #[test]
    fn those_of_one_core_are_together() {
        let share = |(name, core): (&str, usize)| NodeShare::new(name, core, 0.01);
        let Some((layout, parts)) = divided(&[("a", 3), ("b", 1), ("c", 3)].map(share)) else { return };
        assert_eq!(["a", "b", "c"].map(|name| layout.place(name)), ["_small-1-3/a", "_small-1-1/b", "_small-1-3/c"]);
        assert_eq!(layout.places_of_burners(&parts[0]), ["_small-1-3/_spare", "_unsold-3"]);
    }

    #[test]
    fn another_process_finds_groups_by_their_places() {
        let Some((layout, _)) = divided(&[NodeShare::new("a", 0, 0.01)]) else { return };
        let other = Layout::of("x1", &[0]).unwrap();
        let of = |group: Group| format!("{group:?}");
        assert_eq!(of(other.filler_at(layout.place("a"))), of(layout.filler("a")));
        assert!(of(other.filler_at("_small-1/_spare")).contains("emu/_small-1/_spare\""));
    }
}
