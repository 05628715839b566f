//! Where a run is in virtual time.

use scale::{RealDuration, RealInstant, Tdf, VirtualInstant};

use crate::calls::Zero;

/// Virtual zero, and the rate at which virtual time passes from there.
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    /// The real instant at which virtual time starts: that of t = 0, but in a run that goes on with an earlier one.
    pub zero: RealInstant,
    /// The virtual time at it.
    pub from: VirtualInstant,
    /// Virtual zero as a date, as the nodes see it: ns since 1970.
    pub zero_unix_ns: u64,
    /// Real time over virtual time.
    pub tdf: Tdf,
}

impl Timeline {
    /// The timeline of a run whose virtual zero was at `zero`.
    pub fn new(zero: Zero, tdf: Tdf) -> Timeline {
        Timeline { zero: zero.real, from: zero.from, zero_unix_ns: zero.unix_ns, tdf }
    }

    /// The virtual time at a real instant.
    pub fn at(&self, real: RealInstant) -> VirtualInstant {
        self.from + self.tdf.to_virtual(real.since(self.zero))
    }

    /// The date that the nodes' own clocks show at a real instant: ns since 1970.
    pub fn date(&self, real: RealInstant) -> u64 {
        self.zero_unix_ns + self.at(real).as_nanos()
    }

    /// Virtual zero as a Unix time in seconds.
    pub fn zero_unix_s(&self) -> f64 {
        self.zero_unix_ns as f64 / 1e9
    }

    /// The real time from `now` until `virtual_instant`; zero if that has passed.
    pub fn until(&self, virtual_instant: VirtualInstant, now: RealInstant) -> RealDuration {
        let real = self.zero + self.tdf.to_real(virtual_instant.since(self.from));
        real.since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_real_seconds_are_one_virtual_second_at_tdf_ten() {
        let zero = RealInstant::from_nanos(7);
        let (zero_unix_ns, tdf) = (1_790_000_000_000_000_001, Tdf::new(10, 1).unwrap());
        let line = Timeline { zero, from: VirtualInstant::ZERO, zero_unix_ns, tdf };
        let later = Timeline { from: VirtualInstant::from_nanos(500), ..line };
        assert_eq!(later.at(zero + RealDuration::from_nanos(70)), VirtualInstant::from_nanos(507));
        assert_eq!(later.date(zero), zero_unix_ns + 500);
        assert_eq!(line.at(zero + RealDuration::from_nanos(10_000_000_000)), VirtualInstant::from_nanos(1_000_000_000));
        assert_eq!(line.at(RealInstant::ZERO), VirtualInstant::ZERO);
        // A float would have lost the last digits.
        assert_eq!(line.date(zero + RealDuration::from_nanos(20)), 1_790_000_000_000_000_003);
    }
}
