//! The nodes' shares of the CPU: control groups, fillers, calibration.

use std::sync::{Arc, Mutex};

use cpu::caches::Sampler;
use cpu::{CpuGroups, NodeShare, Policy, Terms};
use host::Change;
use node::{Enclosure, NotApplied};
use scale::RealDuration;

use super::refill::{Beginning, Refills, guesses, locked};
use crate::earlier_refills::EarlierRefills;
use crate::error::Result;
use crate::notice::warn;
use crate::site::{Conditions, DiskConditions, NodeSetup, Setup};

/// The control groups of the run.
pub struct Shares {
    /// The thread that gives back refills has them too.
    groups: Arc<Mutex<CpuGroups>>,
    policy: Policy,
    because: Option<String>,
    terms: Terms,
    /// By node, what is believed of its refill; empty if none is given back.
    beginnings: Vec<Beginning>,
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
        let of = |n: &NodeSetup| NodeShare { name: n.name.clone(), core: n.core, share: n.share, stretch: n.stretch };
        let shares: Vec<_> = setup.nodes.iter().map(of).collect();
        let groups = CpuGroups::create(run_id, &shares, policy, setup.terms)?;
        let groups = Arc::new(Mutex::new(groups));
        Ok(Shares { groups, policy, because, terms: setup.terms, beginnings: Vec::new() })
    }

    /// The control group of a node's container.
    pub fn container_path(&self, node: &str) -> String {
        locked(&self.groups).container_path(node)
    }

    /// Calibrates the cores and applies the limits.
    pub fn apply(
        &mut self,
        setup: &Setup,
        enclosure: &Enclosure,
        not_applied: Vec<NotApplied>,
        disks: Option<DiskConditions>,
        idle_memory: std::result::Result<Vec<Change>, String>,
    ) -> Result<Conditions> {
        if setup.refill && self.policy == Policy::Slots && self.terms.pace.is_some() {
            // The cores have nothing to do before they have fillers.
            self.beginnings = beginnings(setup);
        }
        let mut groups = locked(&self.groups);
        // From here on this process itself cannot be on the nodes' cores.
        let exclusive = groups.take_cores();
        let helper = groups.helper().map(|command| enclosure.spawn(command)).transpose()?;
        let cores = groups.engage(helper)?;
        let (policy, policy_because, terms) = (self.policy, self.because.clone(), self.terms);
        let host_setting = groups.host_setting().cloned();
        Ok(Conditions {
            policy,
            policy_because,
            exclusive,
            host_setting,
            cores,
            terms,
            not_applied,
            disks,
            idle_memory,
        })
    }

    /// CPU time so far.
    pub fn sample(&mut self) -> Result<cpu::Sample> {
        Ok(locked(&self.groups).sample()?)
    }

    /// What the kernel says, if the nodes' cores were theirs alone and are no more.
    pub fn lost_cores(&self) -> Option<String> {
        locked(&self.groups).lost_cores()
    }

    /// Begins to measure what one of the nodes' cores forgets in a time.
    pub fn sampler(&self, core: usize, away: RealDuration) -> Result<Sampler> {
        Ok(locked(&self.groups).sampler(core, away)?)
    }

    /// Begins to give back what nodes lose at the start of their turns; `None` if this run does not.
    pub fn begin_refills(&self, setup: &Setup, traffic: net::Traffic) -> Result<Option<Refills>> {
        let begin = || Refills::start(self.groups.clone(), setup, traffic, &self.beginnings);
        (!self.beginnings.is_empty()).then(begin).transpose()
    }
}

/// What is believed of each node's refill before the run. The cores have nothing to do.
fn beginnings(setup: &Setup) -> Vec<Beginning> {
    let known = if setup.earlier_refills { EarlierRefills::here().known(setup) } else { Ok(Vec::new()) };
    let known = known.unwrap_or_else(|why| {
        warn(format_args!("{why}: this run begins without what earlier ones have learned of nodes' refills"));
        Vec::new()
    });
    let known = known.into_iter().chain(std::iter::repeat(None));
    guesses(setup).into_iter().zip(known).map(|(guess, earlier)| Beginning { guess, earlier }).collect()
}
