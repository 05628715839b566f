//! Readings of a core: its speed, its work, its ticks, and what the groups of a run used of it.

use std::fmt;

use scale::{RealDuration, RealInstant};
use serde::{Deserialize, Serialize};

/// How fast a core is: what it does of the yardstick per microsecond of real time, in
/// rounds.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Speed(f64);

impl Speed {
    /// A speed in rounds per microsecond; `None` unless it is a positive number.
    pub fn from_units_per_us(units: f64) -> Option<Speed> {
        (units.is_finite() && units > 0.0).then_some(Speed(units))
    }

    /// Rounds per microsecond.
    pub fn units_per_us(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Speed {
    type Error = String;

    fn try_from(units: f64) -> Result<Speed, String> {
        Speed::from_units_per_us(units).ok_or_else(|| format!("{units} units/us is not the speed of a core"))
    }
}

impl From<Speed> for f64 {
    fn from(speed: Speed) -> f64 {
        speed.0
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} units/us", self.0)
    }
}

/// The reading of a core that holds nodes: what it could do and what nodes were owed of it, since the limits were
/// applied. Differences of two readings are what counts; nothing in them ever decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreWork {
    /// When this was so.
    pub at: RealInstant,
    /// Real time in which the core's speed was known; nearly all.
    pub metered_ns: u64,
    /// The work in rounds of the yardstick that a whole core would have done in that time; its mean [`Speed`] is
    /// [`CoreWork::speed_since`].
    pub units: u64,
    /// The claim of a node with a whole core, in ns of CPU time: a node's CPU time must grow by its
    /// share of what this grows by. With shares of time it is the time that went by.
    pub owed_ns: u64,
    /// That claim had there always been room for all of it; beyond `owed_ns` is what nodes lacked.
    pub wanted_ns: u64,
    /// Real time in which there was too little room.
    pub capped_ns: u64,
    /// CPU time that nodes and burners had together; the rest was stolen, or had by others.
    pub available_ns: u64,
}

impl CoreWork {
    /// The core's mean speed since `before`; `None` if it was not known.
    pub fn speed_since(&self, before: CoreWork) -> Option<Speed> {
        let ns = self.metered_ns.checked_sub(before.metered_ns).filter(|ns| *ns > 0)?;
        Speed::from_units_per_us(self.units.checked_sub(before.units)? as f64 * 1e3 / ns as f64)
    }
}

/// CPU time since the groups were made; differences of two samples are what counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuSample {
    /// One per node, in the order of the shares.
    pub nodes: Vec<NodeUse>,
    /// When the counters below were read.
    pub at: RealInstant,
    /// By core: everything of this run that is in its groups (nodes, burners, keeper), in ns.
    pub run_ns: Vec<u64>,
    /// By core: everything on this machine, in ns. Less `run_ns` it is foreign (or the engine's own) load.
    pub all_ns: Vec<u64>,
    /// The reading of each core that holds nodes, in the order of
    /// the cores of the groups; empty where it is not metered.
    pub work: Vec<(usize, CoreWork)>,
}

impl CpuSample {
    /// The reading of a core; `None` where it is not metered.
    pub fn work_of(&self, core: usize) -> Option<CoreWork> {
        self.work.iter().find(|(number, _)| *number == core).map(|(_, work)| *work)
    }
}

/// One node's use of its core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeUse {
    /// When these counters were read.
    pub at: RealInstant,
    /// CPU time of the node's programs, in ns.
    pub container_ns: u64,
    /// CPU time that the core's burner burnt of its share while all threads of the node slept, in ns.
    pub unused_ns: u64,
    /// Real time in which all of its threads slept, in ns; 0 where the kernel does not count it.
    pub slept_ns: u64,
    /// Wake-ups of threads of the node that could not be counted.
    pub uncounted: u64,
    /// Of looks of its threads at sockets, by calls that do not wait, one after the other.
    pub empty_looks: Looks,
}

/// Looks of a node's threads for what had not come, which did not wait for the run's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looks {
    /// How many; those that follow one another only, before something is found or the thread leaves the core.
    pub count: u64,
    /// By how much the node's clock was ahead of the run's, added up over all of them; real ns.
    pub ahead_ns: u64,
}

/// The ticks of one core since boot, as in `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreTicks {
    /// Nothing ran.
    pub idle: u64,
    /// The hypervisor ran something else while this core had work.
    pub steal: u64,
    /// Everything, idle time and steal included.
    pub total: u64,
}

/// The cost on a core of coming back to data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staleness {
    /// Mean real time to fetch a line of memory that was touched 1 ms ago.
    pub soon: RealDuration,
    /// How long ago other lines were touched: a virtual millisecond, or the longest that makes a difference.
    pub away: RealDuration,
    /// Mean real time to fetch one of those.
    pub late: RealDuration,
}

impl Staleness {
    /// The bytes of a line of memory.
    pub const LINE: usize = 64;
    /// How many lines are looked at: 64 KiB, as much as a busy program keeps close, which is twice the smallest cache
    /// and a part of the next.
    pub const LINES: usize = (64 << 10) / Staleness::LINE;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_a_positive_number() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Speed::from_units_per_us(bad), None);
            assert!(Speed::try_from(bad).is_err());
        }
        assert_eq!(Speed::from_units_per_us(1234.56).unwrap().to_string(), "1234.6 units/us");
    }
}
