//! The initial retransmission time-out of TCP, in the kernel's ticks.

use crate::{RealDuration, Tdf, VirtualDuration};

/// The kernel's tick: timers are whole numbers of it. Real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTick(RealDuration);

impl KernelTick {
    /// A tick of this length.
    pub fn new(length: RealDuration) -> KernelTick {
        KernelTick(length)
    }

    /// Its length, rounded to µs.
    pub fn as_micros(self) -> u64 {
        (self.0.as_nanos() + 500) / 1000
    }
}

/// The retransmission time-out of a connection that has not measured a round trip, 1 s (RFC 6298, §2.1).
pub const INITIAL_RTO: VirtualDuration = VirtualDuration::from_nanos(1_000_000_000);

/// The kernel waits for no retransmission longer than this.
pub(crate) const RTO_MAX: RealDuration = RealDuration::from_nanos(120_000_000_000);

/// A time-out on the harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// The setting.
    pub harness: RealDuration,
    /// The right setting, if the kernel does not allow it.
    pub wanted: Option<RealDuration>,
}

impl Timeout {
    /// In the kernel's ticks, rounded up.
    pub fn ticks(self, tick: KernelTick) -> u32 {
        u32::try_from(self.harness.as_nanos().div_ceil(tick.0.as_nanos().max(1))).unwrap_or(u32::MAX)
    }
}

/// The initial retransmission time-out, where it can be set.
pub fn initial_rto(tdf: Tdf) -> Timeout {
    let wanted = tdf.to_real(INITIAL_RTO);
    if wanted > RTO_MAX {
        Timeout { harness: RTO_MAX, wanted: Some(wanted) }
    } else {
        Timeout { harness: wanted, wanted: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tdf(s: &str) -> Tdf {
        s.parse().unwrap()
    }

    #[test]
    fn the_initial_time_out_is_in_ticks_and_has_a_limit() {
        let tick = |us: u64| KernelTick::new(RealDuration::from_nanos(us * 1000));
        assert_eq!(initial_rto(tdf("10")).ticks(tick(4000)), 2500);
        // 1.1 s are 330.0 ticks of 1/300 s, which is not a whole number of ns.
        assert_eq!(initial_rto(tdf("1.1")).ticks(KernelTick::new(RealDuration::from_nanos(3_333_333))), 331);
        let clamped = initial_rto(tdf("200"));
        assert_eq!(clamped.ticks(tick(1000)), 120_000);
        assert_eq!(clamped.wanted.map(|w| w.as_secs_f64()), Some(200.0));
    }
}
