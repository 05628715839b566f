//! How long a queue has been, over time.

use scale::{RealDuration, RealInstant};

/// Follows the length of one pipe's queue. It changes in steps, so its integral is exact.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    /// Everything before has been accounted for.
    until: RealInstant,
    /// Nanoseconds in which the queue was not empty.
    busy: u64,
    /// Packets times nanoseconds.
    area: u64,
    max: usize,
}

impl Gauge {
    /// From the last call until `until` the queue held `packets`.
    pub fn held(&mut self, packets: usize, until: RealInstant) {
        if packets > 0 {
            let ns = until.since(self.until).as_nanos();
            self.busy += ns;
            self.area = self.area.saturating_add(ns.saturating_mul(packets as u64));
        }
        self.until = self.until.max(until);
    }

    /// A packet has joined the queue, which now holds `packets`.
    pub fn grown_to(&mut self, packets: usize) {
        self.max = self.max.max(packets);
    }

    /// Busy time, mean and maximum since the last call, `length` ago; the queue now holds `packets`.
    pub fn take(&mut self, packets: usize, length: RealDuration) -> (f64, f64, usize) {
        let length = length.as_nanos().max(1) as f64;
        let taken = (self.busy as f64 / length, self.area as f64 / length, self.max);
        (self.busy, self.area, self.max) = (0, 0, packets);
        taken
    }
}
