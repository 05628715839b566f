//! Terms on which nodes share a core: how long a timeslice is, and whether shares are of time or of work.

use counters::Speed;
use scale::{RealDuration, Timeslice};
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
}
