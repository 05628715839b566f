//! Which cores a run uses, for what, and which node is on which. Pure.
//!
//! Of each pair of hyper-threads only one is used, because the two share the units of one core: what one does slows the
//! other. Nodes have as few cores as leave each of them room to get twice its share, and all that there are where that
//! is not enough: what a run does not need is left to others.

use cpu::PLANNED_USABLE;
use host::cores::listed;
use record::plan::Cores;
use scale::{loads, pack};
use site::CoreChoice;

use crate::error::{Error, Result};

/// Up to so many cores one is for the harness, and two above.
const ONE_FOR_THE_HARNESS: usize = 8;

/// As much of a core is sold before another is used: each node can then get twice its share, so the core may become as
/// slow as a neighbour on its sibling hyper-thread makes it, and what timeslices lose to cold caches can be given back.
const COMFORTABLE: f64 = PLANNED_USABLE / 2.0;

/// The cores that a plan may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supply {
    /// For nodes, those to be used first in front; at least one.
    pub nodes: Vec<usize>,
    /// For the harness: the first for the emulator, and all others, or else the same, for the injector and the engine.
    pub harness: Vec<usize>,
    /// Over how many of the first nodes are to be spread, whatever they need, if that is not left to the plan.
    pub spread: Option<usize>,
    /// All that this machine tells of them: those that are hyper-threads of one physical core, group by group.
    pub physical: Vec<Vec<usize>>,
}

impl Supply {
    /// The supply that the usable processors are, grouped by physical core.
    ///
    /// The first processor of all is for nodes, the next for the harness, all others for nodes. Second hyper-threads
    /// come after all first ones, and are there only where they were asked for, or where one physical core is all that
    /// there is.
    ///
    /// # Errors
    ///
    /// If they are too few.
    pub fn of(physical: Vec<Vec<usize>>, choice: &CoreChoice) -> Result<Supply> {
        let both = choice.both_threads(physical.len());
        Supply::of_these(physical, choice, both)
    }

    /// The supply that a part of a machine's processors is, where it is known whether `both` threads of a core may be
    /// used.
    ///
    /// # Errors
    ///
    /// If they are too few.
    pub fn of_these(physical: Vec<Vec<usize>>, choice: &CoreChoice, both: bool) -> Result<Supply> {
        let threads = if both { physical.iter().map(Vec::len).max().unwrap_or(0) } else { 1 };
        let nth = |n: usize| physical.iter().filter_map(move |threads| threads.get(n)).copied();
        let mut all: Vec<usize> = (0..threads).flat_map(nth).collect();
        let harness = choice.harness.unwrap_or(if all.len() <= ONE_FOR_THE_HARNESS { 1 } else { 2 });
        let needed = harness + choice.nodes.unwrap_or(1);
        if all.len() < needed {
            return Err(too_few(all.len(), harness, choice));
        }
        let harness: Vec<usize> = all.drain(1..=harness).collect();
        // Cores that share their units with the harness come last.
        let beside = |core: &usize| {
            physical.iter().any(|threads| threads.contains(core) && harness.iter().any(|h| threads.contains(h)))
        };
        let (last, mut nodes): (Vec<usize>, Vec<usize>) = all.into_iter().partition(beside);
        nodes.extend(last);
        Ok(Supply { nodes, harness, spread: choice.nodes, physical })
    }

    /// Exactly the cores of another plan, over all of which nodes are spread, as they are there.
    pub fn of_plan(cores: &Cores, by_physical_core: impl Fn(&[usize]) -> Vec<Vec<usize>>) -> Supply {
        let (nodes, harness) = (cores.nodes.clone(), cores.harness.clone());
        let physical = by_physical_core(&[&nodes[..], &harness].concat());
        Supply { spread: Some(nodes.len()), nodes, harness, physical }
    }

    /// On how many cores nodes can be.
    pub(super) fn for_nodes(&self) -> usize {
        self.spread.unwrap_or(self.nodes.len()).min(self.nodes.len())
    }

    /// Which node is on which core; `None` where they cannot be packed.
    pub(super) fn packed(&self, shares: &[f64]) -> Option<Packing> {
        let places = self.places(shares)?;
        let sold = loads(shares, &places, self.for_nodes());
        // Where there are more cores than nodes, some have none.
        let used = |place: &usize| places.contains(place);
        let nodes = (0..self.for_nodes()).filter(used).map(|place| self.nodes[place]).collect();
        let fullest = sold.iter().copied().fold(0.0, f64::max);
        let of_node = places.iter().map(|place| self.nodes[*place]).collect();
        let cores = Cores { nodes, harness: self.harness.clone() };
        Some(Packing { cores, of_node, whole: Vec::new(), fullest })
    }

    /// Which nodes have which cores where each has one of its own for each of its CPUs; `None` if there are too few.
    pub(super) fn whole(&self, cpus: &[u32]) -> Option<Packing> {
        let mut free = self.nodes.iter().copied();
        let of_node = |cpus: &u32| (0..*cpus).map(|_| free.next()).collect::<Option<Vec<usize>>>();
        let whole = cpus.iter().map(of_node).collect::<Option<Vec<_>>>()?;
        let cores = Cores { nodes: whole.concat(), harness: self.harness.clone() };
        let first = whole.iter().filter_map(|cores| cores.first().copied()).collect();
        Some(Packing { cores, of_node: first, whole, fullest: 1.0 })
    }

    fn places(&self, shares: &[f64]) -> Option<Vec<usize>> {
        let most = self.for_nodes();
        if self.spread.is_none() {
            // No number of cores gives the largest node more room than one of its own.
            let largest = shares.iter().copied().fold(0.0, f64::max);
            let enough = COMFORTABLE.max(largest);
            let comfortable = (1..most).find_map(|cores| pack(shares, cores, enough));
            if comfortable.is_some() {
                return comfortable.filter(|_| largest <= PLANNED_USABLE + 1e-9);
            }
        }
        pack(shares, most, PLANNED_USABLE)
    }

    /// A sentence if two of these cores are hyper-threads of one physical core.
    pub(super) fn shared_units(&self, cores: &Cores) -> Option<String> {
        let used = |core: &&usize| cores.nodes.contains(core) || cores.harness.contains(core);
        let shared = |threads: &&Vec<usize>| {
            threads.iter().filter(used).count() > 1 && threads.iter().any(|core| cores.nodes.contains(core))
        };
        let pairs: Vec<String> = self.physical.iter().filter(shared).map(|threads| listed(threads)).collect();
        (!pairs.is_empty()).then(|| {
            format!(
                "the run uses cores that are hyper-threads of one physical core ({}): what one does slows the other, \
                 and `core-speed` in the verdict says how much",
                pairs.join("; ")
            )
        })
    }
}

/// Which node is on which core.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Packing {
    /// The cores that are used.
    pub cores: Cores,
    /// By node, the number of its core.
    pub of_node: Vec<usize>,
    /// By node, the cores that it has to itself; empty where nodes share cores.
    pub whole: Vec<Vec<usize>>,
    /// How much is sold of the fullest core.
    pub fullest: f64,
}

impl Packing {
    /// The cores that a node has to itself.
    pub fn whole_of(&self, node: usize) -> Vec<usize> {
        self.whole.get(node).cloned().unwrap_or_default()
    }
}

fn too_few(there_are: usize, harness: usize, choice: &CoreChoice) -> Error {
    if (choice.harness, choice.nodes) == (None, None) {
        return Error::machine(
            "a run needs two cores, one for the nodes and one for the harness, and this process may use only one",
            "allow it another, as in `taskset -c 0,1 diorama …`, or use a machine with two cores",
        );
    }
    let each = if choice.siblings { "" } else { ", one of each physical core (`--siblings` allows both threads)" };
    Error::machine(
        format!(
            "a run that has {harness} of its cores for the harness and {} for the nodes needs {}, and this process may \
             use {there_are}{each}",
            choice.nodes.unwrap_or(1),
            harness + choice.nodes.unwrap_or(1),
        ),
        "ask for fewer with `--harness-cores` and `--node-cores`, or allow it more (see `taskset -p $$`)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cores: usize) -> Vec<Vec<usize>> {
        (0..cores).map(|core| vec![core]).collect()
    }

    /// Pairs of hyper-threads, numbered as most machines do.
    fn pairs(physical: usize) -> Vec<Vec<usize>> {
        (0..physical).map(|core| vec![core, core + physical]).collect()
    }

    fn chosen(physical: Vec<Vec<usize>>, choice: CoreChoice) -> (Vec<usize>, Vec<usize>) {
        let Supply { nodes, harness, .. } = Supply::of(physical, &choice).unwrap();
        (nodes, harness)
    }

    const ANY: CoreChoice = CoreChoice { harness: None, nodes: None, siblings: false };

    #[test]
    fn all_cores_but_those_of_the_harness_are_for_nodes() {
        assert_eq!(chosen(machine(2), ANY), (vec![0], vec![1]));
        assert_eq!(chosen(machine(8), ANY), (vec![0, 2, 3, 4, 5, 6, 7], vec![1]));
        assert_eq!(chosen(machine(9), ANY), (vec![0, 3, 4, 5, 6, 7, 8], vec![1, 2]));
        assert_eq!(chosen(machine(4), CoreChoice { harness: Some(2), ..ANY }), (vec![0, 3], vec![1, 2]));
        assert_eq!(chosen(machine(12), CoreChoice { harness: Some(1), ..ANY }).1, [1]);
    }

    #[test]
    fn one_of_a_pair_is_used_unless_both_are_asked_for() {
        assert_eq!(chosen(pairs(4), ANY), (vec![0, 2, 3], vec![1]));
        assert_eq!(chosen(vec![vec![0, 1], vec![2, 3], vec![4, 5]], ANY), (vec![0, 4], vec![2]));
        // The sibling of the harness is the last.
        let both = CoreChoice { siblings: true, ..ANY };
        assert_eq!(chosen(pairs(4), both), (vec![0, 2, 3, 4, 6, 7, 5], vec![1]));
        assert_eq!(chosen(pairs(8), both).1, [1, 2], "sixteen");
        // All that there is.
        assert_eq!(chosen(vec![vec![0, 1]], ANY), (vec![0], vec![1]));
        assert_eq!(chosen(vec![vec![0, 1], vec![3]], ANY), (vec![0], vec![3]));
    }

    #[test]
    fn too_few_cores_are_refused_with_what_would_do() {
        let what = |physical, choice| Supply::of(physical, &choice).unwrap_err().to_string();
        for physical in [machine(0), machine(1)] {
            assert!(what(physical, ANY).contains("needs two cores, one for the nodes and one for the harness"));
        }
        let two = what(pairs(2), CoreChoice { harness: Some(2), ..ANY });
        assert!(two.contains("2 of its cores for the harness and 1 for the nodes needs 3"), "{two}");
        assert!(two.contains("may use 2, one of each physical core (`--siblings` allows both threads)"), "{two}");
        assert!(chosen(pairs(2), CoreChoice { harness: Some(2), siblings: true, ..ANY }).1.len() == 2);
        let seven = what(machine(8), CoreChoice { nodes: Some(8), ..ANY });
        assert!(seven.contains("8 for the nodes needs 9"), "{seven}");
    }

    fn packed(cores: usize, shares: &[f64], nodes: Option<usize>) -> Option<Packing> {
        Supply::of(machine(cores), &CoreChoice { nodes, ..ANY }).unwrap().packed(shares)
    }

    #[test]
    fn nodes_have_as_few_cores_as_leave_them_room() {
        let used = |shares: &[f64]| packed(8, shares, None).unwrap().cores.nodes;
        assert_eq!(used(&[0.05, 0.008, 0.008, 0.008, 0.008]), [0]);
        assert_eq!(used(&[0.15; 3]), [0], "twice that is all that can be sold");
        assert_eq!(used(&[0.16; 3]), [0, 2]);
        // A node with half of a core has it to itself, and another core would not give it more.
        let web = packed(8, &[0.5, 0.08, 0.08, 0.08, 0.08], None).unwrap();
        assert_eq!((web.cores.nodes, web.of_node, web.fullest), (vec![0, 2], vec![0, 2, 2, 2, 2], 0.5));
        assert_eq!(used(&[0.03; 200]), [0, 2, 3, 4, 5, 6, 7], "more would leave more room, and there are no more");
        assert_eq!(used(&[0.9, 0.9]), [0, 2]);
        assert_eq!(packed(8, &[0.03; 220], None), None);
        assert_eq!(packed(8, &[0.91, 0.1], None), None);
        assert_eq!(packed(2, &[0.5, 0.08, 0.08, 0.08, 0.08], None).unwrap().of_node, [0; 5]);
    }

    #[test]
    fn a_number_of_cores_that_was_asked_for_is_used() {
        let seven = packed(8, &[0.005; 200], Some(7)).unwrap();
        assert_eq!(seven.cores.nodes, [0, 2, 3, 4, 5, 6, 7]);
        let on = |core| seven.of_node.iter().filter(|of| **of == core).count();
        assert_eq!([0, 2, 3, 4, 5, 6, 7].map(on), [29, 29, 29, 29, 28, 28, 28]);
        assert_eq!(packed(8, &[0.3, 0.3], Some(1)).unwrap().cores.nodes, [0]);
        assert_eq!(packed(8, &[0.3, 0.3], Some(5)).unwrap().cores.nodes, [0, 2], "none without a node");
        assert_eq!(packed(8, &[0.5, 0.5], Some(1)), None);
    }

    #[test]
    fn whole_cores_are_of_one_node_each() {
        let supply = Supply::of(machine(8), &ANY).unwrap();
        let whole = supply.whole(&[2, 1, 4]).unwrap();
        assert_eq!(whole.whole, [vec![0, 2], vec![3], vec![4, 5, 6, 7]]);
        assert_eq!((whole.of_node, whole.cores.nodes.len(), whole.cores.harness), (vec![0, 3, 4], 7, vec![1]));
        assert_eq!(supply.whole(&[2, 1, 5]), None, "there are seven");
    }

    #[test]
    fn another_plan_has_the_same_cores_and_the_same_places() {
        let plan = packed(8, &[0.5, 0.3, 0.2, 0.2], None).unwrap();
        let half = Supply::of_plan(&plan.cores, |all| all.iter().map(|core| vec![*core]).collect())
            .packed(&[0.25, 0.15, 0.1, 0.1])
            .unwrap();
        assert_eq!((&half.cores, half.of_node), (&plan.cores, plan.of_node));
    }

    #[test]
    fn a_run_that_shares_pairs_says_so() {
        let of = |physical, siblings, shares: &[f64]| {
            let supply = Supply::of(physical, &CoreChoice { siblings, ..ANY }).unwrap();
            supply.shared_units(&supply.packed(shares).unwrap().cores)
        };
        assert_eq!(of(pairs(4), false, &[0.4; 6]), None);
        assert_eq!(of(pairs(4), true, &[0.4; 3]), None, "three cores are enough");
        let shared = of(pairs(4), true, &[0.4; 5]).unwrap();
        assert!(shared.contains("one physical core (0,4; 2,6)"), "{shared}");
        assert!(of(vec![vec![0, 1]], false, &[0.1]).unwrap().contains("(0,1)"), "with the harness, too");
    }
}
