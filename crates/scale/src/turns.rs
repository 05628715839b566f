//! How nodes take turns on the core that they share, and how long one waits for its turn.

use crate::{RealDuration, TargetCpu, VirtualDuration};

/// Turns of nodes on a core.
///
/// With turns of length *L*, a node whose share of the core is speed / TDF has one every *L* / share of real time,
/// which is *L* / speed of virtual time whatever the TDF. So the same turns are one *grain* for baseline and scaled
/// run: the longest that a node waits for its turn, which is that of the slowest. Faster nodes have
/// [longer turns](Turns::stretch).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turns {
    /// How long a turn of the slowest node lasts.
    pub length: RealDuration,
    /// The longest that a node waits for its next turn: the slowest node does.
    pub grain: VirtualDuration,
    /// How long a wait may be: less than `grain`, where turns as short as that cannot be had.
    pub within: VirtualDuration,
}

/// Of the shortest path's delay, the part that a node may wait for its turn. A burst of work meets on average half of
/// the wait, and a request and its answer pass the path twice: what the slowest node adds to a round trip is then a
/// fortieth of it on average.
const OF_PATH: f64 = 0.1;

/// How far a turn may be off its bounds: as much as a grain that was printed with few digits.
const ROUNDING: f64 = 1e-3;

impl Turns {
    /// The shortest turn: the kernel grants no shorter slices.
    pub const SHORTEST: RealDuration = RealDuration::from_nanos(100_000);
    /// The longest turn: caches gain little beyond, and the kernel's own tick of 4 ms is near.
    pub const LONGEST: RealDuration = RealDuration::from_nanos(3_000_000);

    /// How many times as long as the slowest node's the turns of a node of this speed are; at least 1.
    ///
    /// A turn begins with data that others have driven out of the caches: were all turns of one length, the fast nodes,
    /// which do most of the work, would have the most of them and lose the most. In turns in proportion to speed they
    /// would wait as long as the slowest. This is halfway between the two, as factors: a node of four times the speed
    /// has turns twice as long, and waits half as long for them; and nobody waits for longer than [`Turns::within`]
    /// because of it.
    pub fn stretch(&self, speed: f64, slowest: f64) -> f64 {
        let most = self.within.as_secs_f64() * speed / self.length.as_secs_f64();
        (speed / slowest).sqrt().min(most).max(1.0)
    }

    /// A turn that is so many times as long, or the longest that there is.
    pub fn stretched(turn: RealDuration, stretch: f64) -> RealDuration {
        RealDuration::from_secs_f64(turn.as_secs_f64() * stretch).min(Turns::LONGEST.max(turn))
    }

    /// Turns that are so many times as long, or the nearest to those that can be had; `None` if nothing is known of the
    /// slowest node.
    pub fn times(self, factor: f64) -> Option<Turns> {
        let slowest = self.length.as_secs_f64() / self.grain.as_secs_f64();
        let length = RealDuration::from_secs_f64(self.length.as_secs_f64() * factor);
        (slowest > 0.0 && slowest.is_finite()).then(|| Turns::of_length(length, slowest).nearest(slowest))
    }

    /// How long a turn of each of these nodes, which are all that share the core, lasts, where turns can have such
    /// lengths.
    pub fn of_nodes(&self, nodes: &[TargetCpu], lengths: Lengths) -> Vec<RealDuration> {
        let slowest = slowest(nodes).unwrap_or(1.0);
        let stretch = |node| lengths.nearest(self.stretch(together(node), slowest));
        nodes.iter().map(|node| Turns::stretched(self.length, stretch(node))).collect()
    }

    /// Turns of this length; `slowest` is the speed of the slowest node.
    pub fn of_length(length: RealDuration, slowest: f64) -> Turns {
        let grain = VirtualDuration::from_secs_f64(length.as_secs_f64() / slowest);
        Turns { length, grain, within: grain }
    }

    /// Turns for which the slowest node, of speed `slowest`, waits this long.
    pub fn of_grain(grain: VirtualDuration, slowest: f64) -> Turns {
        let length = RealDuration::from_secs_f64(grain.as_secs_f64() * slowest);
        Turns { length, grain, within: grain }
    }

    /// The nearest that can be had: these, or the shortest or the longest.
    pub fn nearest(self, slowest: f64) -> Turns {
        let within = self.length.clamp(Turns::SHORTEST, Turns::LONGEST);
        if within == self.length { self } else { Turns { within: self.within, ..Turns::of_length(within, slowest) } }
    }

    /// Whether they can be had.
    pub fn can_be_had(self) -> bool {
        let length = self.length.as_secs_f64();
        let least = Turns::SHORTEST.as_secs_f64() * (1.0 - ROUNDING);
        let most = Turns::LONGEST.as_secs_f64() * (1.0 + ROUNDING);
        (least..=most).contains(&length)
    }

    /// The turns that suit a target whose shortest path from node to node has this delay: the slowest node waits for a
    /// tenth of that at most, if such turns can be had. Without a path, nobody says how long a wait may be: the
    /// shortest.
    pub fn suiting(shortest_path: Option<VirtualDuration>, slowest: f64) -> Turns {
        let path = shortest_path.unwrap_or(VirtualDuration::ZERO);
        let grain = VirtualDuration::from_secs_f64(path.as_secs_f64() * OF_PATH);
        Turns::of_grain(grain, slowest).nearest(slowest)
    }
}

/// Which lengths the turns of nodes can have beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// All have the same.
    One,
    /// Whole multiples of the shortest.
    Multiples,
    /// Any that is not below the shortest.
    Any,
}

impl Lengths {
    /// The nearest to so many times the shortest.
    fn nearest(self, stretch: f64) -> f64 {
        match self {
            Lengths::One => 1.0,
            Lengths::Multiples => stretch.round().max(1.0),
            Lengths::Any => stretch,
        }
    }
}

/// The speed of the slowest node, its CPUs together; `None` without nodes.
pub fn slowest(nodes: &[TargetCpu]) -> Option<f64> {
    nodes.iter().map(together).min_by(f64::total_cmp)
}

fn together(node: &TargetCpu) -> f64 {
    f64::from(node.cpus) * node.speed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tdf;

    fn us(n: u64) -> VirtualDuration {
        VirtualDuration::from_nanos(n * 1000)
    }

    #[test]
    fn the_grain_is_the_same_at_every_factor() {
        let node = TargetCpu { cpus: 1, speed: 0.08 };
        let turns = Turns::of_length(RealDuration::from_nanos(400_000), 0.08);
        assert_eq!(turns.grain, us(5000));
        for tdf in ["1", "1.5", "10", "80"] {
            let tdf: Tdf = tdf.parse().unwrap();
            let between = RealDuration::from_secs_f64(turns.length.as_secs_f64() / node.share(tdf));
            let wait = tdf.to_virtual(between).as_nanos();
            assert!(wait.abs_diff(turns.grain.as_nanos()) <= 1, "{tdf}: {wait}");
        }
    }

    #[test]
    fn a_grain_is_a_length_and_back() {
        for (grain, speed, length) in [(us(1250), 0.08, 100_000), (us(3000), 0.5, 1_500_000), (us(30), 10.0, 300_000)] {
            let turns = Turns::of_grain(grain, speed);
            assert_eq!((turns.length.as_nanos(), turns.grain), (length, grain));
            assert_eq!(Turns::of_length(turns.length, speed), turns);
            assert!(turns.can_be_had());
        }
    }

    #[test]
    fn what_cannot_be_had_has_a_nearest() {
        let fine = Turns::of_grain(us(1000), 0.08);
        assert!(!fine.can_be_had());
        let nearest = fine.nearest(0.08);
        assert_eq!(nearest, Turns { within: us(1000), ..Turns::of_length(Turns::SHORTEST, 0.08) });
        let coarse = Turns::of_grain(us(50_000), 0.08);
        assert!(!coarse.can_be_had());
        assert_eq!(coarse.nearest(0.08).grain, us(37_500));
        // As the nearest is printed, it can be had.
        let thirds = Turns::of_grain(VirtualDuration::from_nanos(33_333_300), 0.003);
        assert!(thirds.can_be_had(), "{thirds:?}");
        assert!(!Turns::of_grain(VirtualDuration::MAX, 0.5).can_be_had());
    }

    #[test]
    fn turns_suit_the_shortest_path() {
        // A tenth of 100 ms for a node of a tenth of a core.
        assert_eq!(Turns::suiting(Some(us(100_000)), 0.1), Turns::of_length(RealDuration::from_nanos(1_000_000), 0.1));
        assert_eq!(Turns::suiting(Some(us(5_100)), 0.08).length, Turns::SHORTEST);
        assert_eq!(Turns::suiting(Some(us(1_000_000)), 0.5).length, Turns::LONGEST);
        assert_eq!(Turns::suiting(None, 0.5).length, Turns::SHORTEST);
    }

    #[test]
    fn faster_nodes_have_longer_turns_and_wait_less() {
        let turns = Turns::of_length(RealDuration::from_nanos(100_000), 0.08);
        assert_eq!((turns.stretch(0.32, 0.08), turns.stretch(0.08, 0.08)), (2.0, 1.0));
        let waits = |speed: f64| turns.stretch(speed, 0.08) / speed;
        assert!([0.08, 0.1, 0.2, 0.5].map(waits).is_sorted_by(|a, b| a > b));
        let nodes = [(1, 0.08), (4, 0.08), (1, 0.18), (1, 100.0)].map(|(cpus, speed)| TargetCpu { cpus, speed });
        let each: Vec<_> = turns.of_nodes(&nodes, Lengths::Any).iter().map(|turn| turn.as_nanos()).collect();
        assert_eq!(each, [100_000, 200_000, 150_000, Turns::LONGEST.as_nanos()]);
        let whole = turns.of_nodes(&nodes, Lengths::Multiples);
        assert_eq!(whole[..3].iter().map(|turn| turn.as_nanos()).collect::<Vec<_>>(), [100_000, 200_000, 200_000]);
        assert_eq!(turns.of_nodes(&nodes, Lengths::One), [turns.length; 4]);
    }

    #[test]
    fn longer_turns_are_a_coarser_grain() {
        let turns = Turns::of_length(RealDuration::from_nanos(200_000), 0.08);
        assert_eq!(turns.times(2.5), Some(Turns::of_length(RealDuration::from_nanos(500_000), 0.08)));
        assert_eq!(turns.times(100.0).unwrap().length, Turns::LONGEST);
        assert_eq!(Turns::of_grain(VirtualDuration::ZERO, 0.5).times(2.0), None);
    }

    #[test]
    fn only_the_slow_wait_longer_than_asked_for() {
        // Half a millisecond was asked for; the slowest node waits for 1.25 ms, for no turn is shorter.
        let turns = Turns::suiting(Some(us(5_000)), 0.08);
        assert_eq!((turns.length, turns.grain, turns.within), (Turns::SHORTEST, us(1_250), us(500)));
        assert_eq!(turns.stretch(0.2, 0.08), 1.0, "0.1 ms is half a millisecond for it");
        assert!((turns.stretch(0.24, 0.08) - 1.2).abs() < 1e-9, "0.12 ms are");
        assert!((turns.stretch(0.5, 0.08) - 2.5).abs() < 1e-9, "as without a bound");
        assert_eq!(Turns::suiting(None, 0.08).stretch(0.5, 0.08), 1.0, "nobody says how long a wait may be");
    }

    #[test]
    fn the_slowest_counts() {
        let nodes = [0.5, 0.04, 0.08].map(|speed| TargetCpu { cpus: 1, speed });
        assert_eq!((slowest(&nodes), slowest(&[])), (Some(0.04), None));
    }
}
