//! How nodes take turns on the core that they share, and how long one waits for its turn.

use crate::{RealDuration, TargetCpu, Tdf, VirtualDuration};

/// Turns of nodes on a core.
///
/// Who becomes ready at any time finds its own turn with the probability *s*, its share of the core, and waits for
/// half of the others' turns else. With turns of length *l* that is (1 − *s*)² *l* / 2*s* of real time on average.
/// So that it is the same virtual time in baseline and scaled run, *l* is *L* / (1 − *s*)²: a node of speed *v*, whose
/// share is *v* / TDF, then waits for half of *L* / *v* of virtual time whatever the TDF. *L* / *v* of the slowest node
/// is the *grain*. Faster nodes have [longer turns](Turns::stretch) and wait less.
///
/// All of a run's turns are made longer by [one factor](Turns::lengthened), which keeps them whole multiples of the
/// shortest: it suits two nodes, such as a client and its server, together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turns {
    /// *L*: how long a turn of the slowest node lasts where all shares are small.
    pub length: RealDuration,
    /// Twice what the slowest node waits for its next turn on average; no node waits longer.
    pub grain: VirtualDuration,
    /// How long a wait may be: less than `grain`, where turns as short as that cannot be had.
    pub within: VirtualDuration,
    /// The longest that `length` can be.
    longest: RealDuration,
}

/// Of the shortest path's delay, the part that a node may wait for its turn. A burst of work meets on average half of
/// the wait, and a request and its answer pass the path twice: what the slowest node adds to a round trip is then a
/// fortieth of it on average.
const OF_PATH: f64 = 0.1;

/// How far a turn may be off its bounds: as much as a grain that was printed with few digits.
const ROUNDING: f64 = 1e-3;

/// Turns are never lengthened more than this: as much as those of a node that has half of the core. Who has more of it
/// hardly waits.
const MOST_LENGTHENED: f64 = 4.0;

/// Speeds that differ by less, as a part, are those of one kind of node.
const ONE_KIND: f64 = 0.01;

/// All nodes that take turns on cores, and which lengths their turns can have there.
#[derive(Clone, Copy, Debug)]
pub struct Sharers<'a> {
    nodes: &'a [TargetCpu],
    lengths: Lengths,
    slowest: f64,
}

impl<'a> Sharers<'a> {
    /// These nodes.
    pub fn new(nodes: &'a [TargetCpu], lengths: Lengths) -> Sharers<'a> {
        let slowest = nodes.iter().map(together).min_by(f64::total_cmp).unwrap_or(1.0);
        Sharers { nodes, lengths, slowest }
    }

    /// The speed of the slowest node, its CPUs together; 1 without nodes.
    pub fn slowest(&self) -> f64 {
        self.slowest
    }

    /// By how much turns that are so many times the shortest are made longer at a factor.
    fn lengthened(&self, stretches: &[f64], tdf: Tdf) -> f64 {
        let mut waits: Vec<(f64, &TargetCpu)> =
            self.nodes.iter().zip(stretches).map(|(node, stretch)| (stretch / together(node), node)).collect();
        waits.sort_by(|a, b| b.0.total_cmp(&a.0));
        waits.dedup_by(|later, earlier| alike(together(later.1), together(earlier.1)));
        waits.truncate(Turns::KINDS);
        let at_any_time = |(wait, node): &(f64, &TargetCpu)| wait * (1.0 - node.share(tdf)).max(0.0).powi(2);
        let [whole, part] = [waits.iter().map(|w| w.0).sum::<f64>(), waits.iter().map(at_any_time).sum::<f64>()];
        if whole > 0.0 { (whole / part).min(MOST_LENGTHENED) } else { 1.0 }
    }

    /// How many times the shortest the turns of each node would be if they had no longest.
    fn unbounded(&self) -> Vec<f64> {
        self.nodes.iter().map(|node| self.lengths.nearest((together(node) / self.slowest).sqrt())).collect()
    }
}

impl Turns {
    /// The shortest turn: the kernel grants no shorter slices.
    pub const SHORTEST: RealDuration = RealDuration::from_nanos(100_000);
    /// The longest turn: caches gain little beyond, and the kernel's own tick of 4 ms is near.
    pub const LONGEST: RealDuration = RealDuration::from_nanos(3_000_000);
    /// An operation waits for its turn at nodes of so many kinds: at a client and a server, say.
    pub const KINDS: usize = 2;

    /// How many times as long as the slowest node's the turns of a node of this speed are; at least 1.
    ///
    /// A turn begins with data that others have driven out of the caches: were all turns of one length, the fast nodes,
    /// which do most of the work, would have the most of them and lose the most. In turns in proportion to speed they
    /// would wait as long as the slowest. This is halfway between the two, as factors: a node of four times the speed
    /// has turns twice as long, and waits half as long for them; and nobody waits for longer than [`Turns::within`]
    /// because of it, nor has turns that would have to be longer than the longest at any TDF.
    pub fn stretch(&self, speed: f64, slowest: f64) -> f64 {
        let asked = self.within.as_secs_f64() * speed / self.length.as_secs_f64();
        let longest = self.longest.as_secs_f64() / self.length.as_secs_f64();
        (speed / slowest).sqrt().min(asked).min(longest).max(1.0)
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
        let times = Turns { longest: self.longest, ..Turns::of_length(length, slowest) };
        (slowest > 0.0 && slowest.is_finite()).then(|| times.nearest(slowest))
    }

    /// How many times the slowest node's the turns of each node are.
    fn stretches(&self, of: &Sharers) -> Vec<f64> {
        of.nodes.iter().map(|node| of.lengths.nearest(self.stretch(together(node), of.slowest))).collect()
    }

    /// How long a turn of the slowest node lasts at a TDF.
    pub fn lengthened(&self, of: &Sharers, tdf: Tdf) -> RealDuration {
        Turns::stretched(self.length, of.lengthened(&self.stretches(of), tdf))
    }

    /// How long a turn of each node lasts where one of the slowest lasts so long.
    pub fn of_nodes(&self, of: &Sharers, shortest: RealDuration) -> Vec<RealDuration> {
        self.stretches(of).into_iter().map(|stretch| Turns::stretched(shortest, stretch)).collect()
    }

    /// Turns of this length where all shares are small; `slowest` is the speed of the slowest node.
    pub fn of_length(length: RealDuration, slowest: f64) -> Turns {
        let grain = VirtualDuration::from_secs_f64(length.as_secs_f64() / slowest);
        Turns { length, grain, within: grain, longest: Turns::LONGEST }
    }

    /// Turns for which the slowest of these nodes waits for half as long as this on average.
    pub fn of_grain(grain: VirtualDuration, of: &Sharers) -> Turns {
        let length = RealDuration::from_secs_f64(grain.as_secs_f64() * of.slowest);
        // A baseline run's are the longest.
        let longest = Turns::LONGEST.as_secs_f64() / of.lengthened(&of.unbounded(), Tdf::ONE);
        Turns { length, grain, within: grain, longest: RealDuration::from_secs_f64(longest) }
    }

    /// The nearest that can be had: these, or the shortest or the longest.
    pub fn nearest(self, slowest: f64) -> Turns {
        let within = self.length.clamp(Turns::SHORTEST, self.longest);
        let Turns { longest, .. } = self;
        match within == self.length {
            true => self,
            false => Turns { within: self.within, longest, ..Turns::of_length(within, slowest) },
        }
    }

    /// Whether they can be had.
    pub fn can_be_had(self) -> bool {
        let length = self.length.as_secs_f64();
        let least = Turns::SHORTEST.as_secs_f64() * (1.0 - ROUNDING);
        let most = self.longest.as_secs_f64() * (1.0 + ROUNDING);
        (least..=most).contains(&length)
    }

    /// The lengths that those of the slowest node can have where all shares are small.
    pub fn bounds(self) -> [RealDuration; 2] {
        [Turns::SHORTEST, self.longest]
    }

    /// The turns that suit a target whose shortest path from node to node has this delay: the grain is a tenth of that,
    /// if such turns can be had. Without a path, nobody says how long a wait may be: the shortest.
    pub fn suiting(shortest_path: Option<VirtualDuration>, of: &Sharers) -> Turns {
        let path = shortest_path.unwrap_or(VirtualDuration::ZERO);
        let grain = VirtualDuration::from_secs_f64(path.as_secs_f64() * OF_PATH);
        Turns::of_grain(grain, of).nearest(of.slowest)
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

/// Whether nodes of these speeds, or with these shares, are of one kind.
pub fn alike(one: f64, other: f64) -> bool {
    (one / other - 1.0).abs() < ONE_KIND
}

fn together(node: &TargetCpu) -> f64 {
    f64::from(node.cpus) * node.speed
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTORS: [&str; 5] = ["1", "1.5", "3", "10", "80"];

    fn us(n: u64) -> VirtualDuration {
        VirtualDuration::from_nanos(n * 1000)
    }

    fn of_speeds(speeds: &[f64]) -> Vec<TargetCpu> {
        speeds.iter().map(|speed| TargetCpu { cpus: 1, speed: *speed }).collect()
    }

    fn suiting(path: Option<VirtualDuration>, slowest: f64) -> Turns {
        Turns::suiting(path, &Sharers::new(&of_speeds(&[slowest]), Lengths::Any))
    }

    fn of_grain(grain: VirtualDuration, slowest: f64) -> Turns {
        Turns::of_grain(grain, &Sharers::new(&of_speeds(&[slowest]), Lengths::Any))
    }

    /// What a node waits for its turn on average, virtual s.
    fn wait(node: &TargetCpu, turn: RealDuration, tdf: Tdf) -> f64 {
        let share = node.share(tdf);
        let real = (1.0 - share).powi(2) * turn.as_secs_f64() / (2.0 * share);
        tdf.to_virtual(RealDuration::from_secs_f64(real)).as_secs_f64()
    }

    #[test]
    fn the_mean_wait_is_the_same_at_every_factor() {
        // One kind of node: half of the grain. A client and a server: what they wait together.
        for (speeds, lengths) in [
            (&[0.08][..], Lengths::Any),
            (&[0.36, 0.12, 0.12, 0.12], Lengths::Multiples),
            (&[0.3, 0.19, 0.19], Lengths::One),
            (&[0.4, 0.1], Lengths::Any),
        ] {
            let nodes = of_speeds(speeds);
            let of = Sharers::new(&nodes, lengths);
            let turns = Turns::of_grain(us(4_000), &of);
            let waits = FACTORS.map(|tdf| {
                let tdf: Tdf = tdf.parse().unwrap();
                let each = turns.of_nodes(&of, turns.lengthened(&of, tdf));
                assert!(each.iter().all(|turn| *turn >= turns.length), "{each:?}");
                let mut waits: Vec<f64> = nodes.iter().zip(each).map(|(node, turn)| wait(node, turn, tdf)).collect();
                waits.dedup();
                waits.iter().sum::<f64>()
            });
            assert!(waits.iter().all(|w| (w / waits[0] - 1.0).abs() < 1e-3), "{speeds:?}: {waits:?}");
            if speeds.len() == 1 {
                assert!((waits[0] - 0.002).abs() < 1e-6, "{waits:?}");
            }
        }
    }

    #[test]
    fn no_factor_has_turns_beyond_the_longest() {
        let nodes = of_speeds(&[0.5, 0.125]);
        let of = Sharers::new(&nodes, Lengths::Multiples);
        let turns = Turns::suiting(Some(us(10_000_000)), &of);
        assert!(turns.can_be_had() && turns.length < Turns::LONGEST, "{turns:?}");
        let at = |tdf: &str| turns.of_nodes(&of, turns.lengthened(&of, tdf.parse().unwrap()));
        let [baseline, scaled] = [at("1"), at("80")];
        let longest = baseline.iter().max().unwrap().as_secs_f64() / Turns::LONGEST.as_secs_f64();
        assert!((0.8..=1.0).contains(&longest), "{baseline:?}");
        // In the same proportion at every factor.
        assert!(baseline[0] >= baseline[1] && scaled[0] >= scaled[1] && scaled[1] < baseline[1], "{scaled:?}");
        let ratio = |turns: &[RealDuration]| turns[0].as_secs_f64() / turns[1].as_secs_f64();
        assert!((ratio(&baseline) / ratio(&scaled) - 1.0).abs() < 1e-3, "{baseline:?} {scaled:?}");
        assert!(!Turns::of_length(Turns::LONGEST, 0.125).nearest(0.125).bounds().contains(&turns.length));
    }

    #[test]
    fn a_node_that_has_all_of_its_core_has_turns_all_the_same() {
        let nodes = of_speeds(&[1.0]);
        let of = Sharers::new(&nodes, Lengths::Any);
        let turns = Turns::suiting(None, &of);
        assert_eq!((turns.length, turns.lengthened(&of, Tdf::ONE).as_nanos()), (Turns::SHORTEST, 400_000));
        let none = Sharers::new(&[], Lengths::Any);
        assert_eq!((Turns::suiting(None, &none).lengthened(&none, Tdf::ONE), none.slowest()), (Turns::SHORTEST, 1.0));
    }

    #[test]
    fn a_grain_is_a_length_and_back() {
        for (grain, speed, length) in [(us(1250), 0.08, 100_000), (us(3000), 0.25, 750_000), (us(30), 10.0, 300_000)] {
            let turns = of_grain(grain, speed);
            assert_eq!((turns.length.as_nanos(), turns.grain), (length, grain));
            assert_eq!(Turns::of_length(turns.length, speed).grain, grain);
            assert!(turns.can_be_had());
        }
    }

    #[test]
    fn what_cannot_be_had_has_a_nearest() {
        let fine = of_grain(us(1000), 0.08);
        assert!(!fine.can_be_had());
        let nearest = fine.nearest(0.08);
        assert_eq!((nearest.length, nearest.grain, nearest.within), (Turns::SHORTEST, us(1250), us(1000)));
        let coarse = of_grain(us(50_000), 0.08);
        assert!(!coarse.can_be_had());
        // The longest of a baseline run is 3 ms: 0.92² of it where all shares are small.
        assert_eq!(coarse.nearest(0.08).grain, us(31_740));
        // As the nearest is printed, it can be had.
        let thirds = of_grain(VirtualDuration::from_nanos(33_333_300), 0.003);
        assert!(thirds.can_be_had(), "{thirds:?}");
        assert!(!of_grain(VirtualDuration::MAX, 0.5).can_be_had());
    }

    #[test]
    fn turns_suit_the_shortest_path() {
        // A tenth of 100 ms for a node of a tenth of a core.
        let suits = suiting(Some(us(100_000)), 0.1);
        assert_eq!((suits.length.as_nanos(), suits.grain, suits.within), (1_000_000, us(10_000), us(10_000)));
        assert_eq!(suiting(Some(us(5_100)), 0.08).length, Turns::SHORTEST);
        assert_eq!(suiting(Some(us(1_000_000)), 0.5).length.as_nanos(), 750_000);
        assert_eq!(suiting(None, 0.5).length, Turns::SHORTEST);
    }

    #[test]
    fn faster_nodes_have_longer_turns_and_wait_less() {
        let turns = Turns::of_length(RealDuration::from_nanos(100_000), 0.08);
        assert_eq!((turns.stretch(0.32, 0.08), turns.stretch(0.08, 0.08)), (2.0, 1.0));
        let waits = |speed: f64| turns.stretch(speed, 0.08) / speed;
        assert!([0.08, 0.1, 0.2, 0.5].map(waits).is_sorted_by(|a, b| a > b));
        let nodes = [(1, 0.08), (4, 0.08), (1, 0.18), (1, 100.0)].map(|(cpus, speed)| TargetCpu { cpus, speed });
        let stretches = |lengths| turns.stretches(&Sharers::new(&nodes, lengths));
        let any = stretches(Lengths::Any);
        assert!(any.iter().zip([1.0, 2.0, 1.5, 30.0]).all(|(a, b)| (a - b).abs() < 1e-9), "{any:?}");
        assert_eq!(stretches(Lengths::Multiples)[..3], [1.0, 2.0, 2.0]);
        assert_eq!(stretches(Lengths::One), [1.0; 4]);
    }

    #[test]
    fn longer_turns_are_a_coarser_grain() {
        let turns = Turns::of_length(RealDuration::from_nanos(200_000), 0.08);
        assert_eq!(turns.times(2.5), Some(Turns::of_length(RealDuration::from_nanos(500_000), 0.08)));
        assert_eq!(turns.times(100.0).unwrap().length, Turns::LONGEST);
        assert_eq!(of_grain(VirtualDuration::ZERO, 0.5).times(2.0), None);
    }

    #[test]
    fn only_the_slow_wait_longer_than_asked_for() {
        // Half a millisecond was asked for; the slowest node waits for 1.25 ms, for no turn is shorter.
        let turns = suiting(Some(us(5_000)), 0.08);
        assert_eq!((turns.length, turns.grain, turns.within), (Turns::SHORTEST, us(1_250), us(500)));
        assert_eq!(turns.stretch(0.2, 0.08), 1.0, "0.1 ms is half a millisecond for it");
        assert!((turns.stretch(0.24, 0.08) - 1.2).abs() < 1e-9, "0.12 ms are");
        assert!((turns.stretch(0.5, 0.08) - 2.5).abs() < 1e-9, "as without a bound");
        assert_eq!(suiting(None, 0.08).stretch(0.5, 0.08), 1.0, "nobody says how long a wait may be");
    }

    #[test]
    fn the_slowest_counts() {
        assert_eq!(Sharers::new(&of_speeds(&[0.5, 0.04, 0.08]), Lengths::Any).slowest(), 0.04);
    }
}
