//! What is measured of the groups of a run: once when limits are applied, and again and again while they are in force.

use scale::RealInstant;
use serde::{Deserialize, Serialize};

use crate::{CoreWork, Speed};

/// What was measured of a core when limits were applied.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The core's number.
    pub core: usize,
    /// η, the fraction of the core that is left for nodes and burners together; 1 where nothing was measured (no
    /// [`Policy::Slots`](crate::Policy::Slots)).
    pub usable: f64,
    /// How fast the core was meanwhile; `None` where nothing was measured.
    pub speed: Option<Speed>,
}

impl Calibration {
    /// Of a core on which nothing is measured.
    pub(crate) fn none(core: usize) -> Calibration {
        Calibration { core, usable: 1.0, speed: None }
    }
}

/// CPU time since the groups were made; differences of two samples are what counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// One per node, in the order of the shares.
    pub nodes: Vec<NodeUse>,
    /// When the counters below were read.
    pub at: RealInstant,
    /// By core: everything of this run that is in its groups (nodes, burners, keeper), in ns.
    pub run_ns: Vec<u64>,
    /// By core: everything on this machine, in ns. Less `run_ns` it is foreign (or the engine's own) load.
    pub all_ns: Vec<u64>,
    /// What each of the nodes' cores did and what nodes were owed of it, in the order of
    /// [`CpuGroups::cores`](crate::CpuGroups::cores); empty without [`Policy::Slots`](crate::Policy::Slots), which has
    /// no meter.
    pub work: Vec<(usize, CoreWork)>,
}

impl Sample {
    /// What a core did and what nodes were owed of it; `None` where that is not metered.
    pub fn work_of(&self, core: usize) -> Option<CoreWork> {
        self.work.iter().find(|(number, _)| *number == core).map(|(_, work)| *work)
    }
}

/// One node's use of its core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeUse {
    /// When these counters were read.
    pub at: RealInstant,
    /// What the node's programs used, in ns.
    pub container_ns: u64,
    /// What the core's burner burnt of its share while all threads of the node slept, in ns.
    pub unused_ns: u64,
}
