//! Usage of the cores by all groups of a run together.

use host::cgroup::{self, Usage, UsageByCore};
use scale::RealDuration;

use crate::share::core_plan::CorePlan;
use crate::share::layout::GroupLayout;
use crate::{Error, NodeShare, NodeUse, Policy};

/// A counter of what all groups have used, by core.
#[derive(Debug)]
pub(crate) enum UsageOfCores {
    /// The kernel says so.
    Counted(UsageByCore),
    /// It is what the nodes of a core have used, and the burners of it, by core.
    Summed(Vec<(usize, Usage)>),
    /// It is what each node has used of its own cores, of each as much as that was used more since it began.
    Whole {
        /// The usage of everything, by core.
        machine: UsageByCore,
        /// Usage of each core, as `now`, at the beginning.
        began: Vec<u64>,
    },
}

/// A counter of the same for whoever reads it often.
#[derive(Debug)]
pub(crate) enum RunUsage {
    /// They are on one core only.
    All(Usage),
    /// The kernel counts by core.
    Counted(UsageByCore, Vec<usize>),
    /// It does not, but it counts what everything on a core used.
    Inferred {
        /// The usage of the groups on all their cores.
        groups: Usage,
        /// The usage of everything, by core.
        machine: UsageByCore,
        /// The groups' cores.
        cores: Vec<usize>,
    },
}

/// A snapshot of one core at one instant, ns since some beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsageSnapshot {
    /// Usage of the core.
    core: u64,
    /// Of all cores of the groups, everything.
    cores: u64,
    /// Of all cores of the groups, the groups.
    groups: u64,
}

impl RunUsage {
    /// The counter of a run's groups.
    pub fn of(layout: &GroupLayout) -> Result<RunUsage, Error> {
        let (emulated, cores) = (layout.emulated(), layout.cores().to_vec());
        Ok(match cores[..] {
            [_] => RunUsage::All(emulated.usage()?),
            _ if emulated.counts_by_core() => RunUsage::Counted(emulated.usage_by_core(0)?, cores),
            _ => RunUsage::Inferred { groups: emulated.usage()?, machine: cgroup::usage_of_machine()?, cores },
        })
    }

    /// Reads each core, in the layout's order.
    pub fn read(&self) -> Result<Vec<UsageSnapshot>, Error> {
        let alone = |ns| UsageSnapshot { core: ns, cores: ns, groups: ns };
        Ok(match self {
            RunUsage::All(usage) => vec![alone(usage.read()?.as_nanos())],
            RunUsage::Counted(usage, cores) => {
                let all = usage.read()?;
                cores.iter().map(|core| alone(of_core(&all, *core))).collect()
            }
            RunUsage::Inferred { groups, machine, cores } => {
                let (all, groups) = (machine.read()?, groups.read()?.as_nanos());
                let together = cores.iter().map(|core| of_core(&all, *core)).sum();
                cores.iter().map(|core| UsageSnapshot { core: of_core(&all, *core), cores: together, groups }).collect()
            }
        })
    }
}

fn of_core(all: &[u64], core: usize) -> u64 {
    all.get(core).copied().unwrap_or(0)
}

impl UsageSnapshot {
    /// Time of the groups on the core since `before`. Where that is inferred, it is the core's part of what they had
    /// of all cores: right of all cores together, and of each as far as others use all of them alike.
    pub fn since(self, before: UsageSnapshot) -> RealDuration {
        let grown = |of: fn(&UsageSnapshot) -> u64| of(&self).saturating_sub(of(&before));
        let (core, cores, groups) = (grown(|c| c.core), grown(|c| c.cores), grown(|c| c.groups));
        let part = if cores > 0 { (groups as f64 / cores as f64).min(1.0) } else { 1.0 };
        RealDuration::from_nanos((core as f64 * part).round() as u64)
    }
}

impl UsageOfCores {
    /// The counter of a run's groups under this policy.
    pub fn of(layout: &GroupLayout, parts: &[CorePlan], policy: Policy) -> Result<UsageOfCores, Error> {
        let (emulated, cores) = (layout.emulated(), layout.cores());
        if cores.len() == 1 || emulated.counts_by_core() {
            return Ok(UsageOfCores::Counted(emulated.usage_by_core(cores.first().copied().unwrap_or(0))?));
        }
        if policy == Policy::WholeCores {
            let machine = cgroup::usage_of_machine()?;
            let began = machine.read()?;
            return Ok(UsageOfCores::Whole { machine, began });
        }
        // Of small nodes' burners too, which are in groups of their own.
        let of_part = |part: &CorePlan| {
            let core = part.core;
            layout.places_of_burners(part).into_iter().map(move |place| (core, layout.at(&place)))
        };
        let groups = parts.iter().filter(|_| policy == Policy::Slots).flat_map(of_part);
        let burners = groups.map(|(core, group)| Ok((core, group.usage()?)));
        Ok(UsageOfCores::Summed(burners.collect::<Result<_, Error>>()?))
    }

    /// Nanoseconds by the core's number, where the nodes have used so much.
    pub fn read(&self, nodes: &[NodeUse], shares: &[NodeShare]) -> Result<Vec<u64>, Error> {
        let burners = match self {
            UsageOfCores::Counted(usage) => return Ok(usage.read()?),
            UsageOfCores::Whole { machine, began } => return Ok(of_whole(nodes, shares, &machine.read()?, began)),
            UsageOfCores::Summed(burners) => burners,
        };
        let mut by_core = Vec::new();
        let mut add = |core: usize, ns: u64| {
            by_core.resize(by_core.len().max(core + 1), 0);
            by_core[core] += ns;
        };
        nodes.iter().zip(shares).for_each(|(used, n)| add(n.core, used.container_ns));
        for (core, usage) in burners {
            add(*core, usage.read()?.as_nanos());
        }
        Ok(by_core)
    }
}

/// Usage of nodes, by core, where each has cores of its own: as everything there is divided between those.
fn of_whole(nodes: &[NodeUse], shares: &[NodeShare], all: &[u64], began: &[u64]) -> Vec<u64> {
    let mut by_core = vec![0; all.len()];
    for (used, node) in nodes.iter().zip(shares) {
        let grown = |core: &usize| of_core(all, *core).saturating_sub(of_core(began, *core)) as f64;
        let together: f64 = node.whole_cores.iter().map(grown).sum();
        for core in node.whole_cores.iter().filter(|core| **core < all.len()) {
            let part = if together > 0.0 { grown(core) / together } else { 0.0 };
            by_core[*core] += (used.container_ns as f64 * part) as u64;
        }
    }
    by_core
}

#[cfg(test)]
mod tests {
    use super::*;
    use counters::Looks;

    #[test]
    fn what_is_not_counted_by_core_is_a_part_of_what_is() {
        let snapshot = |core, cores, groups| UsageSnapshot { core, cores, groups };
        let ns = |d: RealDuration| d.as_nanos();
        // Counted: whatever it is, all of it.
        assert_eq!(ns(snapshot(950, 950, 950).since(snapshot(50, 50, 50))), 900);
        // A tenth of what seven cores did was others'.
        assert_eq!(ns(snapshot(1_000, 7_000, 6_300).since(UsageSnapshot::default())), 900);
        // Counters that are not read at one instant: no more than all.
        assert_eq!(ns(snapshot(1_000, 7_000, 7_010).since(UsageSnapshot::default())), 1_000);
        assert_eq!(ns(snapshot(5, 5, 5).since(snapshot(9, 9, 9))), 0, "a counter that went back");
    }

    #[test]
    fn a_node_s_usage_is_divided_between_the_cores_that_it_has_to_itself() {
        let (at, empty_looks) = (host::now(), Looks::default());
        let used = |container_ns| NodeUse { at, container_ns, unused_ns: 0, slept_ns: 0, uncounted: 0, empty_looks };
        let shares = [
            NodeShare::new("db", 1, 2.0).with_cpus(2).on_whole_cores(vec![1, 3]),
            NodeShare::new("web", 2, 1.0).on_whole_cores(vec![2]),
        ];
        let by_core = of_whole(&[used(800), used(90)], &shares, &[5, 1_300, 1_100, 2_700], &[0, 1_000, 1_000, 2_000]);
        assert_eq!(by_core, [0, 240, 90, 560]);
        assert_eq!(of_whole(&[used(0), used(0)], &shares, &[7; 4], &[7; 4]), [0; 4]);
    }
}
