//! Measurements of the groups of a run: once when limits are applied, and again and again while they are in force.

pub use counters::{CpuSample as Sample, NodeUse};
use serde::{Deserialize, Serialize};

use crate::Speed;

/// The measurement of a core when limits were applied.
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
