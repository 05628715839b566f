//! Which of several cores each node gets.
//!
//! A node stays on its core, so this is bin packing. Nodes go in the order of their shares, the largest first, and
//! equal ones in the order in which they are given.

use crate::{TargetCpu, Tdf};

/// Sums of decimal fractions are off by some units in the last place.
const ROUNDING: f64 = 1e-9;

/// By node, one of so many cores, numbered from 0, so that no core has more than `room` of itself to give; `None` where
/// no way was found.
///
/// Each node goes to the core that has given least so far, the first of equal ones (worst fit decreasing; Graham's
/// longest processing time first: the fullest core has at most 4/3 − 1/(3 cores) times what it would have to): so that
/// all have as much as possible left. Only where that finds no way, each goes to the fullest core that has room for it
/// (best fit decreasing), which wastes less.
pub fn pack(shares: &[f64], cores: usize, room: f64) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = (0..shares.len()).collect();
    // Stable: equal shares keep their order.
    order.sort_by(|a, b| shares[*b].total_cmp(&shares[*a]));
    let room = room + ROUNDING;
    let emptiest = |given: &[f64], _: f64| first(given, |a, b| a < b, |_| true);
    let fullest = |given: &[f64], share: f64| first(given, |a, b| a > b, |given| given + share <= room);
    place(shares, &order, cores, room, emptiest).or_else(|| place(shares, &order, cores, room, fullest))
}

/// The first core whose load `better` finds better than that of any before, of those with `enough` room.
fn first(given: &[f64], better: impl Fn(f64, f64) -> bool, enough: impl Fn(f64) -> bool) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (core, load) in given.iter().enumerate().filter(|(_, load)| enough(**load)) {
        best = best.filter(|best| !better(*load, given[*best])).or(Some(core));
    }
    best
}

fn place(
    shares: &[f64],
    order: &[usize],
    cores: usize,
    room: f64,
    choose: impl Fn(&[f64], f64) -> Option<usize>,
) -> Option<Vec<usize>> {
    let mut given = vec![0.0; cores];
    let mut places = vec![0; shares.len()];
    for &node in order {
        let core = choose(&given, shares[node])?;
        given[core] += shares[node];
        places[node] = core;
    }
    given.iter().all(|given| *given <= room).then_some(places)
}

/// How much each of so many cores gives to the nodes that are on it.
pub fn loads(shares: &[f64], places: &[usize], cores: usize) -> Vec<f64> {
    let mut given = vec![0.0; cores];
    shares.iter().zip(places).for_each(|(share, core)| given[*core] += share);
    given
}

/// The smallest TDF, in tenths, at which the nodes can be [packed](pack) on so many cores with `usable` of each;
/// `None` if there is none.
pub fn tdf_that_packs(nodes: &[TargetCpu], cores: usize, usable: f64) -> Option<Tdf> {
    let whole: Vec<f64> = nodes.iter().map(|n| n.share(Tdf::ONE)).collect();
    let (all, largest) = (whole.iter().sum::<f64>(), whole.iter().copied().fold(0.0, f64::max));
    // No less would do; and from this on, they fit on one core.
    let mut tdf = Tdf::at_least((all / cores.max(1) as f64).max(largest) / usable)?;
    let enough = Tdf::at_least(all / usable);
    while enough.is_none_or(|enough| tdf < enough) {
        let shares: Vec<f64> = nodes.iter().map(|n| n.share(tdf)).collect();
        if pack(&shares, cores, usable).is_some() {
            return Some(tdf);
        }
        tdf = tdf.next_tenth()?;
    }
    enough
}

/// The smallest TDF, in tenths, from `from` to `to` of which `fits` says so, if what fits at one fits at every larger
/// one; `None` if not even the largest does. It is asked about the logarithm of the answer's distance from `from`, in
/// tenths, times two.
pub fn smallest_that_fits(from: Tdf, to: Tdf, mut fits: impl FnMut(Tdf) -> bool) -> Option<Tdf> {
    let tenth = |tenths: u64| Tdf::new(tenths, 10).ok();
    let [first, last] = [from, to].map(|tdf| (tdf.as_f64() * 10.0 - ROUNDING).ceil() as u64);
    let (mut below, mut step) = (first.checked_sub(1)?, 1);
    // Upwards in strides that double, until one fits.
    let mut above = loop {
        let at = (below + step).min(last);
        if at <= below {
            return None;
        }
        if fits(tenth(at)?) {
            break at;
        }
        (below, step) = (at, step * 2);
    };
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if fits(tenth(middle)?) {
            above = middle;
        } else {
            below = middle;
        }
    }
    tenth(above)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(a: &[f64], b: &[f64]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9)
    }

    #[test]
    fn nodes_are_spread_evenly_the_largest_first() {
        let shares = [0.08, 0.5, 0.08, 0.08, 0.08];
        assert_eq!(pack(&shares, 2, 0.9), Some(vec![1, 0, 1, 1, 1]));
        assert_eq!(pack(&shares, 1, 0.9), Some(vec![0; 5]));
        assert!(near(&loads(&shares, &[1, 0, 1, 1, 1], 2), &[0.5, 0.32]));
        // Equal ones go round in their order.
        assert_eq!(pack(&[0.1; 7], 3, 0.9), Some(vec![0, 1, 2, 0, 1, 2, 0]));
        assert_eq!(pack(&[], 3, 0.9), Some(vec![]));
    }

    #[test]
    fn what_cannot_be_spread_is_stacked() {
        // Spread, they would be 0.8 and 1.0.
        let shares = [0.5, 0.4, 0.3, 0.3, 0.3];
        assert!(near(&loads(&shares, &pack(&shares, 2, 0.9).unwrap(), 2), &[0.9, 0.9]));
        assert_eq!(pack(&[0.91], 4, 0.9), None, "one that is larger than a core");
        assert_eq!(pack(&[0.5; 3], 2, 0.9), None, "all together would have room, but a node stays on one core");
        assert!(pack(&[0.1; 9], 1, 0.9).is_some(), "exactly what there is, however the decimals add up");
        assert_eq!(pack(&[0.1], 0, 0.9), None);
    }

    #[test]
    fn the_tdf_that_packs_is_the_smallest_that_does() {
        let of = |speeds: &[f64]| speeds.iter().map(|s| TargetCpu { cpus: 1, speed: *s }).collect::<Vec<_>>();
        let tdf = |speeds: &[f64], cores| tdf_that_packs(&of(speeds), cores, 0.9).map(Tdf::as_f64);
        assert_eq!(tdf(&[1.0; 10], 1), Some(11.2));
        assert_eq!(tdf(&[1.0; 10], 7), Some(2.3), "two on three cores");
        assert_eq!(tdf(&[0.5, 0.08], 7), Some(1.0));
        assert_eq!(tdf(&[20.0, 0.08], 7), Some(22.3), "the largest alone");
        assert_eq!(tdf(&[1e9], 7), None);
        assert_eq!(tdf(&[], 1), Some(1.0));
        assert_eq!(tdf(&[64_000.0; 3], 2), None, "two would need twice the largest factor on one core");
    }

    #[test]
    fn the_smallest_that_fits_is_found_with_few_questions() {
        let tdf = |text: &str| text.parse::<Tdf>().unwrap();
        for (from, to, least) in [("1", "100", "1"), ("1.5", "100", "37.3"), ("2", "7", "7"), ("1", "100000", "9999.9")]
        {
            let mut asked = 0;
            let found = smallest_that_fits(tdf(from), tdf(to), |tdf| {
                asked += 1;
                tdf >= least.parse().unwrap()
            });
            assert_eq!(found, Some(tdf(least)));
            assert!(asked <= 36, "{asked}");
        }
        assert_eq!(smallest_that_fits(tdf("1"), tdf("9"), |_| false), None);
        assert_eq!(smallest_that_fits(tdf("9"), tdf("1"), |_| true), None);
    }

    fn shares() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec((1u32..900).prop_map(|thousandths| f64::from(thousandths) / 1e3), 0..60)
    }

    proptest! {
        #[test]
        fn every_node_has_one_core_and_no_core_gives_more_than_it_has(shares in shares(), cores in 1usize..9) {
            match pack(&shares, cores, 0.9) {
                Some(places) => {
                    prop_assert_eq!(places.len(), shares.len());
                    prop_assert!(places.iter().all(|core| *core < cores));
                    prop_assert!(loads(&shares, &places, cores).iter().all(|load| *load <= 0.9 + 2e-9));
                }
                // Each core that refuses a node is more than half full, or the node is larger than half a core.
                None => prop_assert!(shares.iter().sum::<f64>() > 0.45 * cores as f64),
            }
        }

        #[test]
        fn one_core_is_enough_for_what_sums_to_no_more(shares in shares(), cores in 1usize..9) {
            let fits = shares.iter().sum::<f64>() <= 0.9;
            prop_assert_eq!(pack(&shares, 1, 0.9).is_some(), fits || (shares.iter().sum::<f64>() - 0.9).abs() <= 1e-9);
            prop_assert!(!fits || pack(&shares, cores, 0.9).is_some());
        }

        #[test]
        fn all_cores_have_work_where_there_are_enough_nodes(shares in shares(), cores in 1usize..9) {
            if let Some(places) = pack(&shares, cores, 1e9) {
                let used = loads(&shares, &places, cores).iter().filter(|load| **load > 0.0).count();
                prop_assert_eq!(used, cores.min(shares.len()));
            }
        }

        #[test]
        fn the_same_nodes_get_the_same_cores_at_every_factor(shares in shares(), cores in 1usize..9) {
            let halves: Vec<f64> = shares.iter().map(|s| s / 2.0).collect();
            prop_assert_eq!(pack(&shares, cores, 1e9), pack(&halves, cores, 1e9));
        }

        #[test]
        fn the_tdf_that_packs_does(speeds in shares(), cores in 1usize..9) {
            let nodes: Vec<_> = speeds.iter().map(|s| TargetCpu { cpus: 4, speed: *s }).collect();
            let packs = |tdf: Tdf| pack(&nodes.iter().map(|n| n.share(tdf)).collect::<Vec<_>>(), cores, 0.9).is_some();
            let tdf = tdf_that_packs(&nodes, cores, 0.9).unwrap();
            prop_assert!(packs(tdf));
            let less = Tdf::at_most(tdf.as_f64() - 0.1);
            prop_assert!(less.is_none_or(|less| !packs(less)), "{} and {:?}", tdf, less);
        }
    }
}
