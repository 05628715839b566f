//! The nodes' cores for the nodes alone, where that can be: a program that runs beside them there, however light, takes
//! timeslices from them, and the kernel's balancing of load looks at cores whose tasks it may not move.

use host::cgroup::{self, Group, Partition};
use host::{cores, now};
use scale::{RealDuration, RealInstant};
use serde::{Deserialize, Serialize};

use crate::measure::caches::Sampler;
use crate::share::layout::GroupLayout;
use crate::{Error, NodeJoiner};

/// With fewer cores than this, the rest of the machine needs all that the harness leaves.
const LEAST: usize = 4;

/// Whether the nodes' cores are the nodes' alone during a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exclusive {
    /// Nobody else can be on them.
    Taken {
        /// Whether the scheduler balances no load on them either.
        isolated: bool,
    },
    /// Whoever wants to can, though the nodes outweigh them.
    Shared {
        /// Why.
        because: String,
    },
}

/// A run's cores, if they are its groups' alone; they are given back with the groups.
#[derive(Debug, Default)]
pub(crate) struct OwnCores {
    partition: Option<Partition>,
    /// When loads were counted again last.
    recounted: Option<RealInstant>,
}

/// How long a program that was started somewhere else has less than its node's share, at most: loads are counted again
/// that often. It takes some 20 us a node, on the harness's core.
const RECOUNT_EVERY: RealDuration = RealDuration::from_nanos(1_000_000_000);

impl OwnCores {
    /// Takes them, if that can be.
    pub fn take(&mut self, layout: &GroupLayout) -> Exclusive {
        let taken = match why_shared(layout.cores()) {
            None => layout.emulated().take(layout.cores()).map_err(|e| e.to_string()),
            Some(because) => Err(because),
        };
        match taken {
            Ok(partition) => {
                let isolated = partition.is_isolated();
                self.partition = Some(partition);
                Exclusive::Taken { isolated }
            }
            Err(because) => Exclusive::Shared { because },
        }
    }

    /// The kernel's word, if they were taken and are the groups' alone no more.
    pub fn lost(&self) -> Option<String> {
        self.partition.as_ref()?.lost()
    }

    /// Lets these groups, each of which is the only busy one of its node, have all of their node's share, wherever
    /// their programs began: of cores that are taken from the rest, and of those that are left over if there is but
    /// one, the kernel balances none, and forgets no load ([`Group::recount_above`]). At most once a second.
    pub fn recount(&mut self, mut containers: impl Iterator<Item = Group>) -> Result<(), Error> {
        let due = self.recounted.is_none_or(|last| now().since(last) >= RECOUNT_EVERY);
        if self.partition.is_none() || !due {
            return Ok(());
        }
        self.recounted = Some(now());
        Ok(containers.try_for_each(|group| group.recount_above())?)
    }

    /// See [`crate::CpuGroups::sampler`].
    pub fn sampler(&self, layout: &GroupLayout, core: usize, away: RealDuration) -> Result<Sampler, Error> {
        let why = || Error::io("start to measure the core's caches");
        if self.partition.is_none() {
            return Sampler::start(core, away).map_err(why());
        }
        layout.caches().create()?;
        let joiner = NodeJoiner::new(layout.caches().process_joiner()?, core);
        Sampler::start_inside(joiner, away).map_err(why())
    }
}

/// Why these cores are not taken from everybody else here during a run; `None` if they are, unless the kernel refuses.
pub fn why_shared(nodes: &[usize]) -> Option<String> {
    cgroup::offers().no_partitions.or_else(|| too_few(cores::count(), nodes.len()))
}

fn too_few(all: usize, nodes: usize) -> Option<String> {
    if all < LEAST {
        return Some(format!("of {all} cores the rest of the machine needs what is left; from {LEAST} on they are"));
    }
    (nodes >= all).then(|| "no core would be left for the rest of the machine".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_taken_where_enough_are_left() {
        assert!(too_few(2, 1).unwrap().contains("of 2 cores"));
        assert!(too_few(3, 1).is_some() && too_few(4, 1).is_none() && too_few(4, 3).is_none());
        assert!(too_few(4, 4).is_some() && too_few(8, 7).is_none());
    }
}
