//! How a node's clock goes on between two of its turns on the core.

use crate::{RealDuration, RealInstant};

/// A rate counts in units of 2^-20: as many bits as `NODE_CLOCK_RATE_BITS` of `include/node_clock.h`.
const RATE_BITS: u32 = 20;

/// How fast a node's clock goes, in ns of its own for each real ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRate(u64);

impl NodeRate {
    /// As the run's clock.
    pub const UNIT: NodeRate = NodeRate(1 << RATE_BITS);
    /// Not at all.
    pub const STOPPED: NodeRate = NodeRate(0);

    /// The rate while the node has the core: what it does there counts as what a core that is all its own does in
    /// 1 / `share` of the time. `core_speed` is that of the core now, as a part of the speed that the share is of.
    /// Bounded to what a node can be sold, so that no reading overflows.
    pub fn of_share(share: f64, core_speed: f64) -> NodeRate {
        let rate = core_speed / share * (1u64 << RATE_BITS) as f64;
        NodeRate((rate as u64).clamp(1, 1 << (RATE_BITS + 14)))
    }

    /// The rate of a node that needs so many times its time for the same work from now on, bounded alike.
    pub fn times(self, longer: f64) -> NodeRate {
        NodeRate(((self.0 as f64 * longer) as u64).clamp(1, 1 << (RATE_BITS + 14)))
    }

    /// The rate as the page has it.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// A rate that was read from the page.
    pub const fn from_bits(bits: u64) -> NodeRate {
        NodeRate(bits)
    }
}

/// A node's clock from some real instant on: the arithmetic of `include/node_clock.h`. It shows real
/// instants, those at which the run's clock shows the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeClockLine {
    /// From when on.
    pub base_real: RealInstant,
    /// The time that it shows then.
    pub base: RealInstant,
    /// How fast it goes on.
    pub rate: NodeRate,
    /// It never shows less.
    pub floor: RealInstant,
}

impl NodeClockLine {
    /// Reads the clock at a real instant.
    pub fn at(&self, real: RealInstant) -> RealInstant {
        let shown = self.base.as_nanos().saturating_add(self.gone_on(real).as_nanos());
        RealInstant::from_nanos(shown.max(self.floor.as_nanos()))
    }

    /// By how much it has gone on by a real instant since the line began.
    pub fn gone_on(&self, real: RealInstant) -> RealDuration {
        let passed = u128::from(real.since(self.base_real).as_nanos());
        let gone = (passed * u128::from(self.rate.0)) >> RATE_BITS;
        RealDuration::from_nanos(u64::try_from(gone).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> RealInstant {
        RealInstant::from_nanos(ns)
    }

    #[test]
    fn the_header_counts_in_the_same_units() {
        let header = include_str!("../include/node_clock.h");
        assert!(header.contains(&format!("#define NODE_CLOCK_RATE_BITS {RATE_BITS}\n")));
    }

    #[test]
    fn a_node_that_runs_goes_on_by_its_work() {
        let rate = NodeRate::of_share(0.05, 1.0);
        let line = NodeClockLine { base_real: at(1000), base: at(400), rate, floor: at(0) };
        assert_eq!(line.at(at(1000)), at(400));
        // A hundred ns of a twentieth of the core are two thousand.
        assert!((2399..=2400).contains(&line.at(at(1100)).as_nanos()), "{:?}", line.at(at(1100)));
        assert_eq!(line.at(at(900)), at(400), "another thread may have read the real clock before the switch");
    }

    #[test]
    fn a_core_that_is_slow_is_worth_less() {
        let half = NodeRate::of_share(0.1, 0.5);
        assert_eq!(half, NodeRate::of_share(0.2, 1.0));
        assert_eq!(half.times(4.0), NodeRate::of_share(0.2, 4.0));
        assert_eq!(half.times(1e12), NodeRate::of_share(1e-12, 1.0));
    }

    #[test]
    fn a_node_that_waits_stands_still_and_an_event_raises_it() {
        let waits = NodeClockLine { base_real: at(50), base: at(70), rate: NodeRate::STOPPED, floor: at(0) };
        assert_eq!(waits.at(at(1_000_000)), at(70));
        assert_eq!(NodeClockLine { floor: at(80), ..waits }.at(at(60)), at(80));
    }

    #[test]
    fn one_that_is_idle_is_the_runs_clock_or_its_own_where_that_is_ahead() {
        let idle = NodeClockLine { base_real: at(100), base: at(100), rate: NodeRate::UNIT, floor: at(130) };
        assert_eq!(idle.at(at(120)), at(130));
        assert_eq!(idle.at(at(140)), at(140));
        let days = 30 * 86_400_000_000_000;
        assert_eq!(idle.at(at(days)), at(days));
    }
}
