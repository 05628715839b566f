//! Divisions of a core: where small nodes are, and what the kernel makes of their shares.

use proptest::prelude::*;

use super::*;

/// The largest error of these shares, relative.
fn worst(shares: &[f64], usable: f64, weights: Weights) -> f64 {
    rounding(shares, usable, weights).into_iter().fold(0.0, |worst, error| worst.max(error.abs()))
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9
}

#[test]
fn a_thousand_small_nodes_beside_a_large_one_have_what_they_bought() {
    let mut shares = vec![0.0005; 1000];
    shares.push(0.5);
    // All of the core is sold.
    assert!(worst(&shares, 1.0, Weights::coarse()) < 0.002);
    let flat = Division::flat(1001, Weights::coarse()).realised(&shares, 1.0);
    assert!((flat[0] / 0.0005 - 1.0).abs() > 0.04, "beside it they would have {}", flat[0]);
    assert!(worst(&shares[200..], 0.99, Weights::coarse()) < 0.002);
}

#[test]
fn what_is_large_enough_has_no_group_around_it() {
    let division = Division::of(&[0.5, 0.08, 0.03], Weights::coarse());
    assert_eq!(division, Division::flat(3, Weights::coarse()));
    assert_eq!(division.fractions(&[0.5, 0.08, 0.03]).nodes, [0.5, 0.08, 0.03]);
    assert_eq!(division.spare(), 0.0);
}

#[test]
fn weights_that_are_fine_need_no_groups() {
    let shares = [0.5, 0.0005, 0.0001];
    assert_eq!(Division::of(&shares, Weights::fine()), Division::flat(3, Weights::fine()));
    assert!(worst(&shares[..2], 0.99, Weights::fine()) < 0.005);
}

#[test]
fn small_nodes_are_with_their_like() {
    // 1,000 times as much as the smallest: three levels.
    let mut shares = vec![0.4, 0.3];
    shares.extend([0.01; 4]);
    shares.extend([0.0004; 100]);
    let division = Division::of(&shares, Weights::coarse());
    assert_eq!(division.levels()[..6], [0, 0, 1, 1, 1, 1]);
    assert!(division.levels()[6..].iter().all(|level| *level == 2));
    let batch = |level, above| Batch { level, above, spare: 0.0 };
    assert_eq!(division.batches(), [batch(2, 0), batch(1, 0)], "together they are not small");
    let Fractions { nodes, batches, .. } = division.fractions(&shares);
    assert!(near(nodes[0], 0.4) && near(nodes[2], 0.16) && near(nodes[6], 0.0004 * 256.0));
    assert!(near(batches[0], 0.04) && near(batches[1], 0.04));
}

#[test]
fn few_small_nodes_are_with_larger_ones_of_theirs() {
    let mut shares = vec![0.4];
    shares.extend([0.01; 4]);
    shares.extend([0.001; 4]);
    let division = Division::of(&shares, Weights::coarse());
    let batch = |level, above| Batch { level, above, spare: 0.0 };
    assert_eq!(division.batches(), [batch(2, 1), batch(1, 0)]);
    assert_eq!((division.path_to(2), division.path_to(1), division.path_to(0)), (vec![1, 2], vec![1], vec![]));
    let Fractions { batches, .. } = division.fractions(&shares);
    assert!(near(batches[0], 0.004 * 16.0) && near(batches[1], 0.044), "{batches:?}");
    assert!(worst(&shares, 0.99, Weights::coarse()) < 0.005);
}

#[test]
fn too_little_for_a_group_of_its_own_has_a_spare() {
    let shares = [0.4, 0.002, 0.002];
    let division = Division::of(&shares, Weights::coarse());
    let [batch] = division.batches() else { panic!("{division:?}") };
    let spare = batch.spare;
    assert!((batch.level, batch.above) == (1, 0) && near(spare + 0.004, 250.0 / 9000.0));
    let Fractions { nodes, batches, spares } = division.fractions(&shares);
    assert!(near(nodes[1], 0.032) && near(batches[0], 250.0 / 9000.0) && near(spares[0], spare * 16.0));
    assert!(worst(&shares, 0.99, Weights::coarse()) < 0.002);
}

#[test]
fn spares_are_no_more_than_nobody_has_bought() {
    let shares = [0.85, 0.002];
    let division = Division::of(&shares, Weights::coarse());
    let little = division.within(0.01);
    assert!(division.spare() > 0.025 && near(little.spare(), 0.01), "{little:?}");
    assert_eq!(division.within(0.5), division);
    assert_eq!(division.within(-0.1).spare(), 0.0);
    assert_eq!(Division::flat(2, Weights::coarse()).within(0.0).spare(), 0.0);
    // Told as it is: by what is slack, not by what was hoped for.
    assert!(worst(&shares, 0.853, Weights::coarse()) < 0.02);
}

#[test]
fn a_share_that_is_raised_takes_from_nobody_beside_it() {
    let shares = [0.4, 0.01, 0.01, 0.02];
    let division = Division::of(&shares, Weights::coarse());
    let raised = [0.4, 0.02, 0.01, 0.02];
    let realised = division.realised(&raised, 0.99);
    for (realised, share) in realised.iter().zip(raised) {
        assert!((realised / share - 1.0).abs() < 0.005, "{realised} for {share}");
    }
    assert!(near(division.fractions(&raised).batches[0], 0.05));
}

#[test]
fn who_has_next_to_nothing_is_as_deep_as_it_goes() {
    let division = Division::of(&[1e-12, 0.2], Weights::coarse());
    assert_eq!(division.levels()[0], DEEPEST);
    assert!(division.batches().iter().all(|batch| batch.above < batch.level));
    assert!(division.fractions(&[1e-12, 0.2]).batches.iter().all(|f| f.is_finite()));
}

/// A core of nodes of all sizes from what a plan allows on, with what is usual to be left of it.
fn cores() -> impl Strategy<Value = Vec<f64>> {
    let share = (0.0f64..1.0).prop_map(|x| 0.0005 * 1600f64.powf(x));
    prop::collection::vec(share, 1..400).prop_map(|all| {
        let mut sum = 0.0;
        let fits = move |share: &f64| {
            let room = sum + share <= 0.9;
            sum += if room { *share } else { 0.0 };
            room
        };
        all.into_iter().filter(fits).collect()
    })
}

proptest! {
    #[test]
    fn every_node_has_what_it_bought_within_a_hundredth(shares in cores()) {
        prop_assume!(!shares.is_empty());
        let worst = worst(&shares, 0.99, Weights::coarse());
        prop_assert!(worst < 0.01, "{}", worst);
    }

    #[test]
    fn weights_are_within_the_kernels_bounds_however_far_shares_are_raised(shares in cores(), factor in 1.0f64..2.2) {
        let weights = Weights::coarse();
        let division = Division::of(&shares, weights).within(0.9 - shares.iter().sum::<f64>());
        let room = (0.99 / shares.iter().sum::<f64>()).min(factor);
        let raised: Vec<f64> = shares.iter().map(|share| share * room).collect();
        let Fractions { nodes, batches, spares } = division.fractions(&raised);
        for fraction in nodes.iter().chain(&batches).chain(&spares) {
            prop_assert!(fraction * weights.of_core() <= 10_000.0, "{}", fraction);
        }
        prop_assert!(nodes.iter().all(|fraction| fraction * weights.of_core() >= LEAST * 0.999));
    }

    #[test]
    fn every_group_comes_before_the_one_that_it_is_in(shares in cores()) {
        let division = Division::of(&shares, Weights::coarse());
        let levels: Vec<u32> = division.batches().iter().map(|batch| batch.level).collect();
        prop_assert!(levels.windows(2).all(|two| two[0] > two[1]));
        for batch in division.batches() {
            prop_assert!(batch.above == 0 || levels.contains(&batch.above));
            prop_assert!(batch.above < batch.level && batch.spare < 0.03);
        }
        for level in division.levels() {
            prop_assert_eq!(division.path_to(*level).last().copied().unwrap_or(0), *level);
        }
        let together: f64 = division.realised(&shares, 0.99).iter().sum();
        prop_assert!((together - shares.iter().sum::<f64>()).abs() < 0.01);
    }
}
