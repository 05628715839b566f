//! The nodes' shares of the CPU: control groups, their keeper, calibration.

use cpu::caches::Sampler;
use cpu::{CpuGroups, CpuMeters, NodeClocks, NodeShare, Policy, Terms};
use node::Enclosure;
use scale::RealDuration;
use site::{Conditions, CoreSharing, NodeSetup, Setup};

use crate::error::{Error, Result};

/// The control groups of the run.
pub struct Shares {
    groups: CpuGroups,
    policy: Policy,
    because: Option<String>,
    terms: Terms,
}

/// How shares are enforced, and why not by always-runnable groups, if they are not.
pub fn policy_of(setup: &Setup) -> (Policy, Option<String>) {
    match setup.sharing {
        CoreSharing::Pool { cap } => (Policy::Pool { cap }, None),
        CoreSharing::WholeCores => (Policy::WholeCores, None),
        CoreSharing::Shares => cpu::best_policy(),
    }
}

impl Shares {
    /// Makes the groups, without limits.
    pub fn create(run_id: &str, setup: &Setup, policy: Policy, because: Option<String>) -> Result<Shares> {
        let of = |n: &NodeSetup| {
            NodeShare::new(&n.name, n.core, n.share).with_cpus(n.cpus).on_whole_cores(n.whole_cores.clone())
        };
        let shares: Vec<_> = setup.nodes.iter().map(of).collect();
        let groups = CpuGroups::create(run_id, &shares, policy, setup.terms)?;
        Ok(Shares { groups, policy, because, terms: setup.terms })
    }

    /// The control group of a node's container.
    pub fn container_path(&self, node: &str) -> String {
        self.groups.container_path(node)
    }

    /// The number of a node's control group in the hierarchy that divides CPU time.
    pub fn group_number(&self, node: &str) -> Result<u64> {
        Ok(self.groups.number_of(node)?)
    }

    /// Calibrates the cores and applies the limits. Conditions are those of the CPU; others are to be
    /// filled in.
    pub fn apply(&mut self, enclosure: &Enclosure) -> Result<Conditions> {
        let groups = &mut self.groups;
        // From here on this process itself cannot be on the nodes' cores.
        let exclusive = groups.take_cores();
        let keeper = groups.keeper().map(|command| enclosure.spawn(command)).transpose()?;
        let cores = groups.engage(keeper)?;
        let (policy, policy_because, terms) = (self.policy, self.because.clone(), self.terms);
        let host_setting = groups.host_setting().cloned();
        Ok(Conditions {
            policy,
            policy_because,
            exclusive,
            host_setting,
            cores,
            terms,
            not_applied: Vec::new(),
            disks: None,
            idle_memory: Ok(Vec::new()),
        })
    }

    /// The clocks of the nodes, in their order; `None` where they live by the run's.
    pub fn clocks(&self) -> Option<&NodeClocks> {
        self.groups.clocks()
    }

    /// Meters of how many CPUs of the nodes are at work; of each node a CPU is so many `cores` where nodes have no
    /// clocks.
    pub fn meters(&self, cores: &[f64]) -> Result<CpuMeters> {
        Ok(self.groups.meters(cores)?)
    }

    /// From now on the CPUs of a node are as fast as this part of what they are by the plan.
    pub fn slow(&self, node: usize, factor: f64) -> Result<()> {
        if matches!(self.policy, Policy::Pool { .. }) {
            let what =
                "the speed of a node can change in scaled and baseline runs only: naive ones have none of their own";
            return Err(Error::Usage(what.into()));
        }
        Ok(self.groups.slow(node, factor)?)
    }

    /// CPU time so far.
    pub fn sample(&mut self) -> Result<cpu::Sample> {
        Ok(self.groups.sample()?)
    }

    /// The kernel's reason, if the nodes' cores were theirs alone and are no more.
    pub fn lost_cores(&self) -> Option<String> {
        self.groups.lost_cores()
    }

    /// Begins to measure what one of the nodes' cores forgets in a time.
    pub fn sampler(&self, core: usize, away: RealDuration) -> Result<Sampler> {
        Ok(self.groups.sampler(core, away)?)
    }
}
