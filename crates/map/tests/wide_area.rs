//! Nodes to far machines by what was measured between them.

use crate::families::TERMS;
use diorama_map::{
    Cpu, Harness, MeasuredPath, Place, Request, Share, Target, Violated, Wanted, WantedLink, Weights, map,
};
use model::Speed;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// Machines somewhere in the world, with paths between all of them.
fn world(machines: usize, seed: u64) -> Harness {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut harness = Harness::default();
    for i in 0..machines {
        harness.places.push(Place::machine(format!("m{i}")));
    }
    for from in 0..machines {
        for to in 0..machines {
            if from != to {
                harness.paths.push(MeasuredPath {
                    from,
                    to,
                    delay_s: rng.random_range(0.005..0.2),
                    bits_per_s: Some(rng.random_range(1e5..1e8)),
                    loss: rng.random_range(0.0..0.05),
                });
            }
        }
    }
    harness
}

/// Nodes all joined, whose links are as the paths between the machines with these numbers.
fn planted(harness: &Harness, machines: &[usize]) -> Request {
    let nodes = |i| Wanted { name: format!("n{i}"), slots: 1, ..Wanted::default() };
    let target = |a: usize, b: usize| {
        let path = harness.paths.iter().find(|p| (p.from, p.to) == (a, b)).unwrap();
        Target { delay_s: path.delay_s, bits_per_s: path.bits_per_s, loss: path.loss }
    };
    let mut links = Vec::new();
    for (i, a) in machines.iter().enumerate() {
        for (j, b) in machines.iter().enumerate().skip(i + 1) {
            links.push(WantedLink {
                name: format!("n{i}--n{j}"),
                ends: [i, j],
                bits_per_s: None,
                shares: true,
                inside: true,
                kind: None,
                target: [target(*a, *b), target(*b, *a)],
            });
        }
    }
    Request { nodes: (0..machines.len()).map(nodes).collect(), links, ..Request::default() }
}

#[test]
fn machines_whose_paths_are_as_wanted_are_found() {
    let harness = world(30, 1);
    let planted_at = [17, 3, 29, 8, 11, 22, 0, 14];
    let plan = map(&planted(&harness, &planted_at), &harness, &TERMS, Weights::default(), 5).unwrap();
    assert!(plan.fits && plan.score.total < 1e-6, "{:?}", plan.score);
    for (i, at) in planted_at.iter().enumerate() {
        assert_eq!(plan.nodes[&format!("n{i}")].machine, format!("m{at}"));
    }
    let path = &plan.paths["n0--n1"];
    assert!(path.delay_ms.iter().all(|delay| (delay.wanted - delay.measured).abs() < 1e-9));
}

#[test]
fn weights_say_what_counts() {
    // From the first machine one path has the delay that is wanted, and another the bandwidth.
    let mut harness = Harness::default();
    harness.places.extend(["a", "near", "wide"].map(Place::machine));
    for (from, to, delay_s, bits) in [(0, 1, 0.01, 1e5), (0, 2, 0.5, 1e8), (1, 2, 0.5, 1e5)] {
        let path = MeasuredPath { from, to, delay_s, bits_per_s: Some(bits), loss: 0.0 };
        harness.paths.extend([path, MeasuredPath { from: to, to: from, ..path }]);
    }
    let target = [Target { delay_s: 0.01, bits_per_s: Some(1e8), loss: 0.0 }; 2];
    let nodes = vec![
        Wanted { name: "x".into(), slots: 1, on: Some("a".into()), ..Wanted::default() },
        Wanted { name: "y".into(), slots: 1, ..Wanted::default() },
    ];
    let links = vec![WantedLink { target, ..planted(&world(2, 1), &[0, 1]).links.remove(0) }];
    let request = Request { nodes, links, ..Request::default() };
    let with = |delay, bandwidth| {
        let weights = Weights { delay, bandwidth, loss: 0.0 };
        map(&request, &harness, &TERMS, weights, 1).unwrap().nodes["y"].machine.clone()
    };
    assert_eq!((with(1.0, 0.0), with(0.0, 1.0)), ("near".to_owned(), "wide".to_owned()));
}

#[test]
fn what_machines_hold_counts_here_too() {
    let mut harness = world(3, 2);
    let request = planted(&harness, &[0, 1, 2]);
    let few =
        Harness { places: harness.places[..2].to_vec(), paths: harness.paths[..1].to_vec(), ..Harness::default() };
    let message = map(&request, &few, &TERMS, Weights::default(), 1).unwrap_err().render();
    assert!(message.contains("3 nodes cannot be put to 2 machines"), "{message}");
    // A machine that takes several nodes still has only its cores.
    harness.places.truncate(1);
    harness.paths = vec![MeasuredPath { from: 0, to: 0, delay_s: 0.0, bits_per_s: None, loss: 0.0 }];
    harness.places[0].slots = Some(3);
    harness.places[0].cpu = Some(Cpu { cores: 1, speed: Speed::OfHost(1.0) });
    let mut large = request;
    let share = Share { speed: Speed::OfHost(0.4), per_speed: 1.0 };
    large.nodes.iter_mut().for_each(|node| node.cpu = Some(share));
    let plan = map(&large, &harness, &TERMS, Weights::default(), 1).unwrap();
    assert_eq!(plan.violations.iter().map(|v| v.what).collect::<Vec<_>>(), [Violated::Cpu]);
    let switched = Request { nodes: vec![Wanted { name: "s".into(), ..Wanted::default() }], ..Request::default() };
    let message = map(&switched, &harness, &TERMS, Weights::default(), 1).unwrap_err().render();
    assert!(message.contains("`s` is a switch or a LAN"), "{message}");
}
