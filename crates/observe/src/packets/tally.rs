//! Sums and spreads of packets that went one way.

use counters::{Carried, PacketCounters};

use super::spread::Values;

/// Classes of sizes: 0, 1, 2 to 3, 4 to 7, and so on, to all of 16 bits and more.
const SIZES: usize = 17;

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub counters: PacketCounters,
    sizes: [u64; SIZES],
    delays: Values,
    round_trips: Values,
    windows: Values,
}

/// Growth by one packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Grown {
    pub counters: PacketCounters,
    /// Its size without headers, if it has just been sent.
    pub size: Option<u32>,
    pub delay: Option<u64>,
    pub round_trip: Option<u64>,
    pub window: Option<u64>,
}

impl Tally {
    pub fn add(&mut self, grown: &Grown) {
        self.counters.add(&grown.counters);
        if let Some(size) = grown.size {
            let class = size.checked_ilog2().map_or(0, |power| power as usize + 1);
            self.sizes[class.min(SIZES - 1)] += 1;
        }
        let spreads = [
            (&mut self.delays, grown.delay),
            (&mut self.round_trips, grown.round_trip),
            (&mut self.windows, grown.window),
        ];
        for (values, value) in spreads {
            if let Some(value) = value {
                values.add(value);
            }
        }
    }

    pub fn told(&self) -> Carried {
        let last = self.sizes.iter().rposition(|n| *n > 0).map_or(0, |last| last + 1);
        Carried {
            counters: self.counters,
            sizes: self.sizes[..last].to_vec(),
            delays_ns: self.delays.spread(),
            round_trips_ns: self.round_trips.spread(),
            windows: self.windows.spread(),
        }
    }
}
