//! The table of `docs/notebook/2026-11-map.md`: how long mappings take, and how good they are. Not judged: times depend
//! on the machine, and on what else it does.
//!
//! `cargo run --release -p diorama-map --example table`

#[path = "../tests/families/mod.rs"]
mod families;

use std::time::Instant;

use diorama_map::{Weights, map};
use families::*;

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    println!("| network | nodes | links | machines | time | score | best known | above it |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let cases: Vec<(&str, Family, usize, u32)> = vec![
        ("ring", ring(10, 50, 1), 10, 50),
        ("ring", ring(5, 100, 1), 10, 100),
        ("tree", tree(10, 50, 1), 10, 50),
        ("tree", tree(5, 100, 1), 10, 100),
        ("grid", grid(5, 2, 5, 10, 1), 10, 50),
        ("grid", grid(5, 1, 5, 20, 1), 10, 100),
        ("random", random(10, 50, 1), 10, 50),
        ("random", random(5, 100, 1), 10, 100),
        ("ring", ring(50, 100, 1), 100, 100),
        ("tree", tree(50, 100, 1), 100, 100),
        ("grid", grid(10, 5, 10, 10, 1), 100, 100),
        ("random", random(50, 100, 1), 100, 100),
    ];
    for (name, family, machines, slots) in cases {
        if quick && machines > 10 {
            continue;
        }
        let harness = harness(machines, slots);
        let known = map(&planted(&family, slots), &harness, &TERMS, Weights::default(), 1).expect("a plan").score.total;
        let begun = Instant::now();
        let found = map(&family.request, &harness, &TERMS, Weights::default(), 1).expect("a plan");
        let took = begun.elapsed().as_secs_f64();
        assert!(found.fits, "{:?}", found.violations);
        let score = found.score.total;
        // The best that any seed has found counts as known.
        let seeds = if quick { 2..2 } else { 2..4 };
        let best = seeds
            .map(|seed| map(&family.request, &harness, &TERMS, Weights::default(), seed).expect("a plan").score.total);
        let best = best.fold(known.min(score), f64::min);
        println!(
            "| {name} | {} | {} | {machines} of {slots} | {took:.2} s | {score:.2} | {best:.2} ({known:.2}) | \
             {:.1} % |",
            family.request.nodes.len(),
            family.request.links.len(),
            (score / best - 1.0) * 100.0
        );
    }
}
