//! The layout of a run's control groups.

use std::collections::HashMap;

use host::cgroup::{Group, Tree};

use crate::share::core_plan::CorePlan;
use crate::share::division::Division;
use crate::{Error, NodeShare};

/// The groups of one run.
#[derive(Clone, Debug)]
pub(crate) struct GroupLayout {
    tree: Tree,
    /// The cores that hold nodes.
    cores: Vec<usize>,
    /// By node, where its group is below `emu`; one that is not here is right there.
    places: HashMap<String, String>,
}

impl GroupLayout {
    /// The layout of a run whose nodes are on these cores, all right below `emu`, or called by their
    /// [places](GroupLayout::place).
    pub fn of(run_id: &str, cores: &[usize]) -> Result<GroupLayout, Error> {
        Ok(GroupLayout { tree: Tree::of(run_id)?, cores: cores.to_vec(), places: HashMap::new() })
    }

    /// Has small nodes in groups of their own.
    pub fn divided(mut self, shares: &[NodeShare], plans: &[CorePlan]) -> GroupLayout {
        for plan in plans {
            for (node, level) in plan.levels().filter(|(_, level)| *level > 0) {
                let name = &shares[node].name;
                let place = format!("{}/{}", self.path_to(plan.core, &plan.division, level), of_node(name));
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

    /// Counts the CPU time of the process that keeps the shares.
    pub fn keeper(&self) -> Group {
        self.tree.group("keeper")
    }

    /// Has next to no weight, so that changing it changes nothing for the nodes, and a task on each core, so that one
    /// change forces a reschedule on them all. (No node has this name, nor the next ones: see [`NODE`].)
    pub fn reschedule(&self) -> Group {
        self.at("_reschedule")
    }

    fn place_of_slack(&self, plan: &CorePlan) -> String {
        format!("{SLACK}{}", self.of_core(plan.core))
    }

    /// The burner of a core: it has the slack, and what those beside it leave.
    pub fn slack(&self, plan: &CorePlan) -> Group {
        self.at(&self.place_of_slack(plan))
    }

    /// The places of all burners of a core, in the order of [`CorePlan::burners`].
    pub fn places_of_burners(&self, plan: &CorePlan) -> Vec<String> {
        self.places_of_spares(plan).into_iter().chain([self.place_of_slack(plan)]).collect()
    }

    /// The group at a place below `emu`.
    pub fn at(&self, place: &str) -> Group {
        self.tree.group(&format!("emu/{place}"))
    }

    /// The end of the names of groups that there are on each core.
    fn of_core(&self, core: usize) -> String {
        if self.cores.len() == 1 { String::new() } else { format!("-{core}") }
    }

    /// Holds what measures the caches of cores that belong to these groups alone.
    pub fn caches(&self) -> Group {
        self.tree.group("emu/_caches")
    }

    /// The place of a node's group below `emu`: this names it to another process.
    pub fn place(&self, name: &str) -> String {
        self.places.get(name).cloned().unwrap_or_else(|| of_node(name))
    }

    pub fn node(&self, name: &str) -> Group {
        self.at(&self.place(name))
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

    /// The group of the small nodes of a level on a core.
    pub fn batch(&self, plan: &CorePlan, level: u32) -> Group {
        self.at(&self.path_to(plan.core, &plan.division, level))
    }

    /// The places of the burners in a core's groups of small nodes, group by group.
    pub fn places_of_spares(&self, plan: &CorePlan) -> Vec<String> {
        plan.division
            .batches()
            .iter()
            .map(|batch| format!("{}/{SPARE}", self.path_to(plan.core, &plan.division, batch.level)))
            .collect()
    }

    /// The groups of small ones that lead to the one of a level.
    fn path_to(&self, core: usize, division: &Division, level: u32) -> String {
        let of_core = self.of_core(core);
        let path = division.path_to(level).into_iter().map(|level| format!("_small-{level}{of_core}"));
        path.collect::<Vec<_>>().join("/")
    }
}

/// The beginning of the names of nodes' groups. The kernel's own files lie beside them: `tasks`, `notify_on_release`,
/// `cpu.max`, `memory.stat` and more with each kernel, none of which has a hyphen.
const NODE: &str = "node-";

fn of_node(name: &str) -> String {
    format!("{NODE}{name}")
}

const SPARE: &str = "_spare";
const SLACK: &str = "_slack";

/// Whether the burner at a place has the slack of its core.
pub(crate) fn is_slack(place: &str) -> bool {
    place.starts_with(SLACK)
}

#[cfg(test)]
mod tests {
    use host::cgroup::Weights;

    use super::*;
    use crate::Policy;

    fn divided(shares: &[NodeShare]) -> (GroupLayout, Vec<CorePlan>) {
        let plans = CorePlan::all(shares, Policy::Slots, Weights::coarse()).unwrap();
        let cores: Vec<usize> = plans.iter().map(|plan| plan.core).collect();
        let layout = GroupLayout::of("x1", &cores).expect("control groups, which these tests need");
        (layout.divided(shares, &plans), plans)
    }

    #[test]
    fn small_nodes_are_where_no_node_can_be() {
        let share = |(name, share): (&str, f64)| NodeShare::new(name, 0, share);
        let (layout, plans) = divided(&[("web", 0.4), ("a", 0.01), ("b", 0.001)].map(share));
        let places = ["web", "a", "b"].map(|name| layout.place(name));
        assert_eq!(places, ["node-web", "_small-1/node-a", "_small-1/_small-2/node-b"]);
        let path = layout.container_path("b");
        assert!(path.ends_with("/emu/_small-1/_small-2/node-b/c"), "{path}");
        assert_eq!(layout.places_of_spares(&plans[0]), ["_small-1/_small-2/_spare", "_small-1/_spare"]);
        assert!(["_small-1", "_small-1-0", SPARE, SLACK].iter().all(|name| !name.starts_with(NODE)));
    }

    #[test]
    fn those_of_one_core_are_together() {
        let share = |(name, core): (&str, usize)| NodeShare::new(name, core, 0.01);
        let (layout, plans) = divided(&[("a", 3), ("b", 1), ("c", 3)].map(share));
        let places = ["a", "b", "c"].map(|name| layout.place(name));
        assert_eq!(places, ["_small-1-3/node-a", "_small-1-1/node-b", "_small-1-3/node-c"]);
        assert_eq!(layout.places_of_burners(&plans[0]), ["_small-1-3/_spare", "_slack-3"]);
        assert!(is_slack("_slack-3") && !is_slack("_small-1-3/_spare"));
    }

    #[test]
    fn another_process_finds_groups_by_their_places() {
        let (layout, _) = divided(&[NodeShare::new("a", 0, 0.01)]);
        let other = GroupLayout::of("x1", &[0]).unwrap();
        let of = |group: Group| format!("{group:?}");
        assert_eq!(of(other.at(&layout.place("a"))), of(layout.node("a")));
    }
}
