//! The conditions under which a run takes place, as the site found or made them.

use cpu::{Calibration, Exclusive, Policy, Terms};
use device::Transport;
use host::Change;
use node::NotApplied;
use scale::RealDuration;
use serde::{Deserialize, Serialize};

/// Under which conditions a run takes place, for its verdict.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Conditions {
    /// How CPU shares are enforced.
    pub policy: Policy,
    /// Why not by always-runnable groups, if they are not.
    pub policy_because: Option<String>,
    /// Whether the nodes' cores are theirs alone.
    pub exclusive: Exclusive,
    /// A setting of the whole machine that is another one while the run lasts.
    pub host_setting: Option<Change>,
    /// The calibration of each core that holds nodes.
    pub cores: Vec<Calibration>,
    /// The terms on which nodes share them.
    pub terms: Terms,
    /// Kernel settings that could not be applied.
    pub not_applied: Vec<NotApplied>,
    /// Conditions of the nodes' disks, if any node has one.
    pub disks: Option<DiskConditions>,
    /// After how long the machine pages out memory that is not used, where it does: what is different for the whole
    /// machine, or why that is not as it should be for this run.
    pub idle_memory: Result<Vec<Change>, String>,
}

/// Under which conditions nodes have disks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskConditions {
    /// How requests come to whoever serves them.
    pub over: Transport,
    /// Why not in a better way.
    pub because: Option<String>,
    /// When the kernel writes back what programs have written: what is different for the whole machine, or why that is
    /// not as it should be for this run.
    pub writeback: Result<[Change; 2], OtherWriteback>,
}

/// That the kernel writes back at other times than the target's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OtherWriteback {
    /// Why.
    pub because: String,
    /// Pages that are younger than this are written back by neither.
    pub from: RealDuration,
}
