//! Networks of which a good division is known (`families`): what is found is never more than 2 % worse.

use crate::families::*;
use diorama_map::{Mapping, Weights, map};

/// A mapping of a network, and what its planted one costs.
fn found(family: &Family, machines: usize, slots: u32, seed: u64) -> (Mapping, f64) {
    let harness = harness(machines, slots);
    let planted = map(&planted(family, slots), &harness, &TERMS, Weights::default(), 1).unwrap();
    assert!(planted.fits, "{:?}", planted.violations);
    (map(&family.request, &harness, &TERMS, Weights::default(), seed).unwrap(), planted.score.total)
}

fn is_close(name: &str, family: &Family, machines: usize, slots: u32) {
    let (found, planted) = found(family, machines, slots, 3);
    assert!(found.fits, "{name}: {:?}", found.violations);
    let score = found.score.total;
    assert!(score <= 1.02 * planted, "{name}: {score} where {planted} can be had");
}

#[test]
fn rings_are_cut_as_seldom_as_can_be() {
    is_close("10 parts of 20", &ring(10, 20, 7), 10, 20);
    is_close("20 parts of 10 in two racks", &ring(20, 10, 9), 20, 10);
    is_close("50 parts of 100 in ten racks, of which five would do", &ring(50, 100, 1), 100, 100);
}

#[test]
fn trees_are_cut_where_they_were_joined() {
    is_close("5 parts of 40 on 10 machines", &tree(5, 40, 8), 10, 40);
    is_close("16 parts of 10 in two racks", &tree(16, 10, 9), 16, 10);
}

#[test]
fn grids_are_cut_into_blocks() {
    is_close("5 by 2 blocks of 5 by 5", &grid(5, 2, 5, 5, 7), 10, 25);
    is_close("3 by 3 blocks of 5 by 5", &grid(3, 3, 5, 5, 8), 10, 25);
}

#[test]
fn random_networks_fall_apart_where_they_are_thin() {
    is_close("10 parts of 20", &random(10, 20, 7), 10, 20);
}

#[test]
fn the_same_seed_gives_the_same_plan() {
    let family = grid(3, 2, 4, 4, 1);
    let plans = [5, 5].map(|seed| found(&family, 6, 16, seed).0.to_json());
    assert_eq!(plans[0], plans[1]);
}
