//! Words between the engine and the keeper's process: JSON, a line each, over its standard input and output.
//!
//! Cores are named by their places among those that hold nodes, burners by theirs among those of the job.

use host::slices::Slices;
use scale::RealDuration;
use serde::{Deserialize, Serialize};

use super::controller::Room;
use crate::{CoreWork, Pace};

/// The second argument of the process, after the run's id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The numbers of the cores that hold nodes.
    pub cores: Vec<usize>,
    /// The timeslice of nodes.
    pub slice: RealDuration,
    /// How timeslices are ended.
    pub method: Method,
    /// The places of burners' groups, each with that of its core.
    pub burners: Vec<(String, usize)>,
    /// Nodes with several CPUs.
    pub several: Vec<SeveralCpus>,
}

/// A node with several CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SeveralCpus {
    /// The place of its group.
    pub place: String,
    /// Its place among all nodes.
    pub node: usize,
    /// The place of its core.
    pub core: usize,
    /// Its fraction beside its siblings while one of its CPUs is at work.
    pub fraction: f64,
}

/// How timeslices are ended on this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Method {
    /// The kernel ends a slice that is over as soon as it is made to account.
    Account,
    /// An interruption ends every slice: whoever is furthest behind goes on then.
    Interrupt,
}

impl Method {
    /// The one for who decides here how long slices are.
    pub fn of(slices: Slices) -> Method {
        match slices {
            Slices::Interrupted => Method::Interrupt,
            Slices::OfTasks | Slices::OfHost | Slices::OfNobody => Method::Account,
        }
    }
}

/// A word of the engine, to each of which there is one [`Reply`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Burners begin to burn, and slices to be ended.
    Begin,
    /// Makes weights and clock rates follow who sleeps, and how fast cores are, from now on.
    Follow(Orders),
    /// Asks for the counters of all cores.
    Work,
    /// Ends the process.
    Release,
}

/// A word of the process. The first one comes unasked: that all threads are where they are to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    /// By core; nothing before the first measurement.
    Work(Vec<CoreWork>),
    /// Why it fails, and ends.
    Failed(String),
}

/// How cores are divided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// By core; nothing where shares are of time.
    pub cores: Vec<Option<(Pace, Room)>>,
    /// By burner.
    pub burners: Vec<BurnerShare>,
    /// The kernel's maps of who sleeps.
    pub maps: Maps,
}

/// The kernel's maps of the nodes' clocks, by their numbers, and how many values they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Maps {
    pub nodes: u32,
    pub burners: u32,
    pub cores: u32,
    /// That of the program that looks which nodes have left the queue.
    pub look: u32,
    pub node_count: usize,
    pub burner_count: usize,
}

/// A burner's fraction beside its siblings: `base` where none of the nodes that leave it their shares sleeps, and
/// `scale` × the shares of those that do, of which there are `sold` in all; `largest` at most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BurnerShare {
    pub base: f64,
    pub scale: f64,
    pub sold: f64,
    pub largest: f64,
}

impl BurnerShare {
    /// Its fraction, where the nodes that do not sleep have so much of the core together.
    pub fn fraction(&self, awake: f64) -> f64 {
        (self.base + self.scale * (self.sold - awake).max(0.0)).min(self.largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_has_its_method() {
        assert_eq!(Method::of(Slices::Interrupted), Method::Interrupt);
        assert!([Slices::OfTasks, Slices::OfHost].map(Method::of) == [Method::Account; 2]);
    }

    #[test]
    fn a_burner_has_what_is_left() {
        let share = BurnerShare { base: 0.3, scale: 2.0, sold: 0.5, largest: 1.2 };
        assert_eq!([0.5, 0.25, 0.6, 0.0].map(|awake| share.fraction(awake)), [0.3, 0.8, 0.3, 1.2]);
    }
}
