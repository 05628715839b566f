//! The nodes' shares of the CPU: control groups, fillers, calibration.

use cpu::{Calibration, CpuGroups, NodeShare, Policy};
use node::{Enclosure, NotApplied};

use crate::error::Result;
use crate::site::{Conditions, Setup};

/// The control groups of the run.
pub struct Shares {
    groups: CpuGroups,
    policy: Policy,
    because: Option<String>,
}

/// How shares are enforced, and why not by always-runnable groups, if they are not.
pub fn policy_of(setup: &Setup) -> (Policy, Option<String>) {
    match setup.pool_cap {
        Some(cap) => (Policy::Pool { cap }, None),
        None => cpu::best_policy(),
    }
}

impl Shares {
    /// Makes the groups, without limits.
    pub fn create(run_id: &str, setup: &Setup, policy: Policy, because: Option<String>) -> Result<Shares> {
        let shares: Vec<_> = setup.nodes.iter().map(|n| NodeShare { name: n.name.clone(), share: n.share }).collect();
        let groups = CpuGroups::create(run_id, setup.cores.nodes[0], &shares, policy)?;
        Ok(Shares { groups, policy, because })
    }

    /// The control group of a node's container.
    pub fn container_path(&self, node: &str) -> String {
        self.groups.container_path(node)
    }

    /// Calibrates the core and applies the limits.
    pub fn apply(&mut self, enclosure: &Enclosure, not_applied: Vec<NotApplied>) -> Result<Conditions> {
        let helper = self.groups.helper().map(|command| enclosure.spawn(command)).transpose()?;
        let Calibration { usable, grain } = self.groups.engage(helper)?;
        Ok(Conditions { policy: self.policy, policy_because: self.because.clone(), usable, grain, not_applied })
    }

    /// CPU time so far.
    pub fn sample(&mut self) -> Result<cpu::Sample> {
        Ok(self.groups.sample()?)
    }
}
