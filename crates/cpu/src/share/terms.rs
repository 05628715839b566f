//! Terms on which nodes share a core: how long a timeslice is, and whether shares are of time or of work.

use std::fmt;

use scale::{RealDuration, RealInstant, Timeslice};
use serde::{Deserialize, Serialize};

use crate::Error;

/// The timeslice where nobody asked for another.
pub const DEFAULT_SLICE: RealDuration = Timeslice::SHORTEST;

/// How much of a core's slowness programs feel, where nothing is known of them: 0 for a program that never waits for
/// what the yardstick waits for, 1 for one that slows down just as the yardstick does. The median of eleven
/// programs is 1.0, and most are between 0.9 and 1.2 (`docs/cpu.md`).
pub const DEFAULT_GAIN: f64 = 1.0;

/// More than this is no measured gain but a mistake.
const LARGEST_GAIN: f64 = 2.0;

/// The terms on which the nodes of a run share their cores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// The timeslice, from [`Timeslice::SHORTEST`] to [`Timeslice::LONGEST`].
    pub slice: RealDuration,
    /// Shares of work; `None` for shares of time: the core's speed is then measured and nothing is corrected.
    pub pace: Option<Pace>,
}

impl Default for Terms {
    /// Shares of time in the shortest timeslices.
    fn default() -> Terms {
        Terms { slice: DEFAULT_SLICE, pace: None }
    }
}

impl Terms {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let [shortest, longest] = [Timeslice::SHORTEST, Timeslice::LONGEST];
        if !(shortest..=longest).contains(&self.slice) {
            let [slice, shortest, longest] = [self.slice, shortest, longest].map(|d| d.as_secs_f64() * 1e3);
            return Err(Error::Input(format!(
                "timeslices of {slice} ms on the nodes' core: they can be {shortest} to {longest} ms of real time"
            )));
        }
        match self.pace {
            Some(Pace { gain, .. }) if !(0.0..=LARGEST_GAIN).contains(&gain) => Err(Error::Input(format!(
                "a gain of {gain}: it is between 0 (programs do not feel how fast the core is) and {LARGEST_GAIN}"
            ))),
            _ => Ok(()),
        }
    }
}

/// Shares of work: nodes get more of the core's time while the core is slower than the reference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// The speed at which a share of time is a share of work.
    pub reference: Speed,
    /// How far programs follow the yardstick: where a chunk of it takes `1 + x` of its usual time, nodes get
    /// `1 + gain × x` of theirs. Between 0 and 2; [`DEFAULT_GAIN`] where nothing is known.
    pub gain: f64,
}

/// How fast a core is: what it does of the yardstick ([`crate::measure::meter`]) per microsecond of real time, in
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

/// What a core could do and what nodes were owed of it, since the limits were applied: differences of two are what
/// counts. None of these ever decreases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreWork {
    /// When this was so.
    pub at: RealInstant,
    /// Real time in which the core's speed was known; nearly all.
    pub metered_ns: u64,
    /// The work in rounds of the yardstick that a whole core would have done in that time; its mean [`Speed`] is
    /// [`CoreWork::speed_since`].
    pub units: u64,
    /// What a node with a whole core would have been entitled to, in ns of CPU time: a node's CPU time must grow by its
    /// share of what this grows by. With shares of time it is the time that went by.
    pub owed_ns: u64,
    /// The same had there been room for all of it; beyond `owed_ns` is what nodes lacked.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(terms: Terms) -> String {
        terms.check().unwrap_err().to_string()
    }

    #[test]
    fn slices_are_within_what_the_kernel_does() {
        let slice = |ns| Terms { slice: RealDuration::from_nanos(ns), ..Terms::default() };
        assert!(slice(100_000).check().is_ok() && slice(3_000_000).check().is_ok());
        assert!(refused(slice(99_999)).contains("0.1 to 3 ms"));
        assert!(refused(slice(4_000_000)).contains("timeslices of 4 ms"));
    }

    #[test]
    fn a_gain_is_a_sane_number() {
        let reference = Speed::from_units_per_us(1000.0).unwrap();
        let of = |gain| Terms { pace: Some(Pace { reference, gain }), ..Terms::default() };
        assert!(of(0.0).check().is_ok() && of(DEFAULT_GAIN).check().is_ok());
        for bad in [-0.1, 2.1, f64::NAN, f64::INFINITY] {
            assert!(refused(of(bad)).contains("gain"));
        }
    }

    #[test]
    fn a_speed_is_a_positive_number() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Speed::from_units_per_us(bad), None);
            assert!(Speed::try_from(bad).is_err());
        }
        assert_eq!(Speed::from_units_per_us(1234.56).unwrap().to_string(), "1234.6 units/us");
    }
}
