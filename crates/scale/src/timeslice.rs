//! How long a node keeps the core that it shares.

use crate::{RealDuration, TargetCpu, VirtualDuration};

/// The longest time for which a node keeps its core while others want it.
///
/// A node's clock follows its work, so when it has the core does not show. But while it has the core it gets ahead of
/// the run's clock, by *L* / *v* of virtual time where one of its CPUs of speed *v* is at work, and what reaches it
/// meanwhile finds it that much later than it should. So slices are no longer than that the fastest node, which does
/// the most in one, gets ahead by the delay of the shortest path. (Slower ones get further ahead, where they compute
/// for so long without a pause; `clock-lead` in the verdict says how far they were when something reached them.)
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timeslice {
    /// *L*.
    pub length: RealDuration,
    /// By how much the slowest node's clock gets ahead in it.
    pub lead: VirtualDuration,
}

/// How far a slice may be off its bounds: as much as a bound that was printed with few digits.
const ROUNDING: f64 = 1e-3;

impl Timeslice {
    /// The shortest: the kernel grants no shorter ones.
    pub const SHORTEST: RealDuration = RealDuration::from_nanos(100_000);
    /// The longest: caches gain little beyond, and the kernel's own tick of 4 ms is near.
    pub const LONGEST: RealDuration = RealDuration::from_nanos(3_000_000);

    /// A slice of this length, for these nodes.
    pub fn of_length(length: RealDuration, nodes: &[TargetCpu]) -> Timeslice {
        Timeslice { length, lead: VirtualDuration::from_secs_f64(length.as_secs_f64() / slowest(nodes)) }
    }

    /// The slice that suits nodes whose shortest path from one to another has this delay; without a path, the longest.
    pub fn suiting(shortest_path: Option<VirtualDuration>, nodes: &[TargetCpu]) -> Timeslice {
        let fastest = nodes.iter().map(|node| node.speed).max_by(f64::total_cmp).unwrap_or(1.0);
        // Threads of a node with several CPUs take turns and wait for one another, so that what one of its CPUs gets
        // ahead by in a slice is in what all of them do.
        let several = nodes.iter().filter(|node| node.cpus > 1).map(|node| node.speed);
        let speed = several.fold(fastest, f64::min);
        let length =
            shortest_path.map_or(Timeslice::LONGEST, |path| RealDuration::from_secs_f64(path.as_secs_f64() * speed));
        Timeslice::of_length(length.clamp(Timeslice::SHORTEST, Timeslice::LONGEST), nodes)
    }

    /// The longest slice in which no node's clock gets further ahead than this.
    pub fn of_lead(lead: VirtualDuration, nodes: &[TargetCpu]) -> Timeslice {
        Timeslice { length: RealDuration::from_secs_f64(lead.as_secs_f64() * slowest(nodes)), lead }
    }

    /// The nearest that can be had: this, or the shortest or the longest.
    pub fn nearest(self, nodes: &[TargetCpu]) -> Timeslice {
        let within = self.length.clamp(Timeslice::SHORTEST, Timeslice::LONGEST);
        if within == self.length { self } else { Timeslice::of_length(within, nodes) }
    }

    /// Whether it can be had.
    pub fn can_be_had(self) -> bool {
        let [least, most] = [Timeslice::SHORTEST, Timeslice::LONGEST].map(|bound| bound.as_secs_f64());
        (least * (1.0 - ROUNDING)..=most * (1.0 + ROUNDING)).contains(&self.length.as_secs_f64())
    }
}

/// The speed of a CPU of the slowest node; 1 without nodes.
fn slowest(nodes: &[TargetCpu]) -> f64 {
    nodes.iter().map(|node| node.speed).min_by(f64::total_cmp).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> VirtualDuration {
        VirtualDuration::from_nanos(n * 1000)
    }

    fn of(speeds: &[f64]) -> Vec<TargetCpu> {
        speeds.iter().map(|speed| TargetCpu { cpus: 1, speed: *speed }).collect()
    }

    #[test]
    fn the_fastest_node_gets_ahead_by_the_shortest_path() {
        let suiting = |path| Timeslice::suiting(Some(us(path)), &of(&[0.3, 0.04]));
        assert_eq!(suiting(5_000).length.as_nanos(), 1_500_000);
        assert!((suiting(5_000).lead.as_secs_f64() - 0.0375).abs() < 1e-9, "the slowest, by 37.5 ms");
        assert_eq!(suiting(100).length, Timeslice::SHORTEST);
        assert_eq!(suiting(100_000).length, Timeslice::LONGEST);
        assert_eq!(Timeslice::suiting(None, &of(&[0.3])).length, Timeslice::LONGEST);
        assert_eq!(Timeslice::suiting(None, &[]).lead, us(3_000));
    }

    #[test]
    fn a_node_with_several_cpus_gets_no_further_ahead_than_that_with_one_of_them() {
        let several = |speed| TargetCpu { cpus: 4, speed };
        let one = TargetCpu { cpus: 1, speed: 0.2 };
        let length = |nodes: &[TargetCpu]| Timeslice::suiting(Some(us(10_000)), nodes).length.as_nanos();
        assert_eq!(length(&[one, several(0.05)]), 500_000);
        assert_eq!(length(&[one, several(0.25)]), 2_500_000, "it is the fastest, too");
        assert_eq!(length(&[one, several(0.01), several(0.3)]), 100_000);
    }

    #[test]
    fn a_bound_is_a_length_and_back() {
        for (lead, speed, length) in [(us(1_250), 0.08, 100_000), (us(3_000), 0.25, 750_000)] {
            let slice = Timeslice::of_lead(lead, &of(&[speed, 1.0]));
            assert_eq!((slice.length.as_nanos(), slice.lead), (length, lead));
            assert_eq!(Timeslice::of_length(slice.length, &of(&[speed])).lead, lead);
            assert!(slice.can_be_had() && slice.nearest(&of(&[speed])) == slice);
        }
        let short = Timeslice::of_lead(us(10), &of(&[0.1]));
        assert!(!short.can_be_had());
        assert_eq!(short.nearest(&of(&[0.1])), Timeslice::of_length(Timeslice::SHORTEST, &of(&[0.1])));
        // As it was printed: 3.333 ms for a third of 10.
        assert!(Timeslice::of_lead(us(3_333), &of(&[0.03])).can_be_had());
    }
}
