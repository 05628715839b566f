//! The nodes' cores for the nodes alone, where that can be: a program that runs beside them there, however light, takes
//! turns from them, and the kernel's balancing of load looks at cores whose tasks it may not move.

use host::cgroup::{self, Partition};
use host::cores;
use scale::RealDuration;
use serde::{Deserialize, Serialize};

use crate::caches::Sampler;
use crate::layout::Layout;
use crate::{Error, Joiner};

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
pub(crate) struct Alone(Option<Partition>);

impl Alone {
    /// Takes them, if that can be.
    pub fn take(&mut self, layout: &Layout) -> Exclusive {
        let taken = match why_shared(layout.cores()) {
            None => layout.emulated().take(layout.cores()).map_err(|e| e.to_string()),
            Some(because) => Err(because),
        };
        match taken {
            Ok(partition) => {
                let isolated = partition.is_isolated();
                self.0 = Some(partition);
                Exclusive::Taken { isolated }
            }
            Err(because) => Exclusive::Shared { because },
        }
    }

    /// What the kernel says, if they were taken and are the groups' alone no more.
    pub fn lost(&self) -> Option<String> {
        self.0.as_ref()?.lost()
    }

    /// See [`crate::CpuGroups::sampler`].
    pub fn sampler(&self, layout: &Layout, core: usize, away: RealDuration) -> Result<Sampler, Error> {
        let why = || Error::io("start to measure the core's caches");
        if self.0.is_none() {
            return Sampler::start(core, away).map_err(why());
        }
        layout.caches().create()?;
        let joiner = Joiner::new(layout.caches().process_joiner()?, core);
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
