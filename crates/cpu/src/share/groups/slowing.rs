//! CPUs of a node that become slower than they are by the plan, and as fast again.

use std::sync::PoisonError;
use std::thread::sleep;
use std::time::{Duration, Instant};

use host::node_clock::{NodeClock, NodeState};

use super::CpuGroups;
use crate::{Error, Policy};

/// How often it is looked whether a node has left its core, and for how long at most: some slices.
const LOOK: Duration = Duration::from_micros(20);
const LEAVES_WITHIN: Duration = Duration::from_millis(50);

/// How much slower than it has bought a node is, and what others have burnt for that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slowed {
    factor: f64,
    /// Demand of its CPUs when this was brought up to date, ns of a CPU.
    wanted: u64,
    /// Time that it would have had more by then, ns of the core.
    pub(super) unused: f64,
}

impl Default for Slowed {
    fn default() -> Slowed {
        Slowed { factor: 1.0, wanted: 0, unused: 0.0 }
    }
}

impl CpuGroups {
    /// How much slower a node is, brought up to now.
    pub(super) fn slowed(&self, node: usize) -> Slowed {
        let mut slowed = self.nodes[node].slowed.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = self.clocks.as_ref().map_or(0, |clocks| clocks.times(node).wanted.as_nanos());
        let more = wanted.saturating_sub(slowed.wanted) as f64 * self.shares[node].share_of_cpu();
        (slowed.unused, slowed.wanted) = (slowed.unused + more * (1.0 - slowed.factor), wanted);
        *slowed
    }

    /// From now on a node's CPUs are as fast as this part of what it has bought, which others burn the rest of.
    ///
    /// Fails for a factor that is not above 0 and at most 1, where nodes have no shares of their own, and if the kernel
    /// does not take it.
    pub fn slow(&self, node: usize, factor: f64) -> Result<(), Error> {
        if !(factor > 0.0 && factor <= 1.0) {
            return Err(Error::Input(format!("a CPU cannot be {factor} times as fast as it was planned to be")));
        }
        let share = &self.shares[node];
        match (self.policy, &self.clocks) {
            (Policy::Quota, _) => Ok(self.layout.node(&share.name).cap(share.share * factor)?),
            (Policy::Slots, Some(clocks)) => {
                self.slowed(node);
                clocks.slow(node, share.share_of_cpu(), factor);
                self.nodes[node].slowed.lock().unwrap_or_else(PoisonError::into_inner).factor = factor;
                // The weights of nodes with several CPUs follow by themselves.
                let told = self.plans.iter().filter(|plan| plan.core == share.core).find_map(|plan| {
                    let told = plan.fractions();
                    plan.of_nodes(&told).find(|(other, _)| *other == node).map(|(_, fraction)| fraction)
                });
                if let Some(fraction) = told.filter(|_| share.cpus == 1) {
                    let weight = self.layout.node(&share.name).fraction()?;
                    await_without_core(&clocks.clocks()[node]);
                    weight.set(fraction * factor).map_err(Error::io("change a weight"))?;
                }
                Ok(())
            }
            _ => Err(Error::Input("the speed of a node can be changed only where each has a share of its own".into())),
        }
    }
}

/// Waits until a node does not have its core: Linux 6.13 to 6.19 place a group wrongly whose weight changes while it
/// has it, so that it, or who runs beside it, is served out of turn for seconds. Who has it leaves it after a slice.
fn await_without_core(clock: &NodeClock) {
    let begun = Instant::now();
    while clock.state() == NodeState::Runs && begun.elapsed() < LEAVES_WITHIN {
        sleep(LOOK);
    }
}
