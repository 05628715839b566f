//! How many CPUs of nodes are at work, for whoever reads that often.

use host::cgroup::Usage;
use host::node_clock::NodeClock;
use scale::RealInstant;

use super::CpuGroups;
use crate::Error;
use crate::node_clock::WorkDone;

/// Meters of the nodes of a run, in their order. Reading one allocates nothing.
#[derive(Debug)]
pub struct CpuMeters(Source);

#[derive(Debug)]
enum Source {
    /// The kernel's programs count by how much nodes' clocks go on with their work: it needs no system call.
    Clocks(WorkDone, Vec<NodeClock>),
    /// Control groups count CPU time; a CPU of each node is so much of a core.
    Groups(Vec<(Usage, f64)>),
}

impl CpuGroups {
    /// Meters of all nodes. Where nodes have no clocks of their own, a CPU of each is so many `cores` of this machine.
    ///
    /// Fails if the counters cannot be opened.
    pub fn meters(&self, cores: &[f64]) -> Result<CpuMeters, Error> {
        if let Some(clocks) = &self.clocks {
            return Ok(CpuMeters(Source::Clocks(clocks.work_done()?, clocks.clocks().to_vec())));
        }
        let of_node = |(share, cores): (&crate::NodeShare, &f64)| Ok((self.layout.node(&share.name).usage()?, *cores));
        Ok(CpuMeters(Source::Groups(self.shares.iter().zip(cores).map(of_node).collect::<Result<_, Error>>()?)))
    }
}

impl CpuMeters {
    /// By how much one CPU of the node would have worked if it alone had done all that the node's CPUs have done by
    /// `now`, in real ns: with one of them always at work, it goes on as real time does. Nothing if it cannot be read.
    pub fn read(&self, node: usize, now: RealInstant) -> Option<f64> {
        match &self.0 {
            Source::Clocks(work, clocks) => Some(work.of(node, &clocks[node], now) as f64),
            Source::Groups(groups) => {
                let (usage, cores) = &groups[node];
                Some(usage.read().ok()?.as_nanos() as f64 / cores)
            }
        }
    }
}
