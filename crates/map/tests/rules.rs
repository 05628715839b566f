//! The bounds that a plan keeps to, and what it says where it cannot.

use crate::families::TERMS;
use diorama_map::{
    Cable, Cpu, Feature, Group, Harness, Kind, Mapping, Place, Request, Share, TypeSlots, Violated, Wanted, WantedLink,
    Weights, map, map_at_smallest_tdf, map_experiment,
};
use model::Speed;

fn node(name: &str) -> Wanted {
    Wanted { name: name.into(), slots: 1, ..Wanted::default() }
}

fn link(ends: [usize; 2], bits_per_s: f64) -> WantedLink {
    WantedLink {
        name: format!("{}--{}", ends[0], ends[1]),
        ends,
        bits_per_s: Some(bits_per_s),
        shares: true,
        inside: true,
        kind: None,
        target: Default::default(),
    }
}

fn cable(a: usize, b: usize, bits_per_s: f64) -> Cable {
    Cable { name: format!("c{a}-{b}"), ends: [a, b], bits_per_s, kinds: Vec::new() }
}

/// So many machines, `like` a given one, at one switch.
fn star(like: Place, machines: usize, bits_per_s: f64) -> Harness {
    let mut harness = Harness::default();
    for i in 0..machines {
        harness.places.push(Place { name: format!("m{i}"), ..like.clone() });
    }
    harness.places.push(Place::switch("s"));
    harness.cables.extend((0..machines).map(|i| cable(i, machines, bits_per_s)));
    harness
}

fn plan(request: &Request, harness: &Harness) -> Mapping {
    map(request, harness, &TERMS, Weights::default(), 1).unwrap()
}

fn refused(request: &Request, harness: &Harness) -> String {
    map(request, harness, &TERMS, Weights::default(), 1).unwrap_err().render()
}

fn on<'a>(plan: &'a Mapping, node: &str) -> &'a str {
    &plan.nodes[node].machine
}

#[test]
fn cores_are_packed_node_by_node() {
    let cpu = Cpu { cores: 2, speed: Speed::OfHost(1.0) };
    let harness = star(Place { cpu: Some(cpu), ..Place::machine("") }, 2, 1e9);
    let sized = |sizes: &[f64]| Request {
        nodes: sizes
            .iter()
            .enumerate()
            .map(|(i, size)| Wanted {
                cpu: Some(Share { speed: Speed::OfHost(*size), per_speed: 1.0 }),
                ..node(&format!("n{i}"))
            })
            .collect(),
        ..Request::default()
    };
    // Six of 0.45 have room on three cores, and each core of each machine takes two.
    let six = plan(&sized(&[0.45; 6]), &harness);
    assert!(six.fits, "{:?}", six.violations);
    for (name, used) in &six.machines {
        for core in 0..2 {
            let here = six.nodes.values().filter(|placed| placed.machine == *name && placed.core == Some(core));
            assert!(here.count() <= 2, "{name}");
        }
        assert!(used.cpu <= used.cpu_of.unwrap() + 1e-9);
    }
    // Together seven of 0.5 need less than the four cores have, but no core takes two.
    let seven = plan(&sized(&[0.5; 7]), &harness);
    assert!(!seven.fits);
    assert!(seven.violations.iter().all(|v| v.what == Violated::Cpu), "{:?}", seven.violations);
    let message = refused(&sized(&[0.95]), &harness);
    assert!(message.contains("`n0` fits on no machine") && message.contains("the fastest gives 0.9"), "{message}");
}

#[test]
fn memory_and_slots_are_kept_to() {
    let place = Place { slots: Some(3), memory_bytes: Some(4 << 30), ..Place::machine("") };
    let harness = star(place, 3, 1e9);
    let sized = |gib: &[u64]| Request {
        nodes: gib
            .iter()
            .enumerate()
            .map(|(i, gib)| Wanted { memory_bytes: gib << 30, ..node(&format!("n{i}")) })
            .collect(),
        ..Request::default()
    };
    let exact = plan(&sized(&[3, 3, 3, 1, 1, 1]), &harness);
    assert!(exact.fits, "{:?}", exact.violations);
    let much = plan(&sized(&[3, 3, 3, 3]), &harness);
    let says: Vec<&str> = much.violations.iter().map(|v| v.says.as_str()).collect();
    assert_eq!(says, ["its 2 nodes need 6GiB of 4GiB"]);
    let many = plan(&sized(&[0; 10]), &harness);
    assert_eq!(many.violations.iter().map(|v| v.what).collect::<Vec<_>>(), [Violated::Slots]);
    let message = refused(&sized(&[5]), &harness);
    assert!(message.contains("none has 5GiB of memory (the largest has 4GiB)"), "{message}");
}

#[test]
fn bandwidth_of_cables_and_trunks_decides_who_is_where() {
    // Two racks of two machines that take two nodes each.
    let mut harness = Harness::default();
    for i in 0..4 {
        harness.places.push(Place { slots: Some(2), ..Place::machine(format!("m{i}")) });
    }
    harness.places.extend([Place::switch("left"), Place::switch("right")]);
    harness.cables = vec![cable(0, 4, 1e9), cable(1, 4, 1e9), cable(2, 5, 1e9), cable(3, 5, 1e9), cable(4, 5, 1e8)];
    let nodes: Vec<Wanted> = (0..6).map(|i| node(&format!("n{i}"))).collect();
    // Two triangles that a thin link joins: Netbed's figure 5.
    let ends = [[0, 1], [1, 2], [2, 0], [3, 4], [4, 5], [5, 3]];
    let mut links: Vec<WantedLink> = ends.into_iter().map(|ends| link(ends, 3e8)).collect();
    links.push(link([2, 3], 5e7));
    let figure = plan(&Request { nodes: nodes.clone(), links: links.clone(), ..Request::default() }, &harness);
    assert!(figure.fits, "{:?}", figure.violations);
    let rack = |node: usize| matches!(on(&figure, &format!("n{node}")), "m0" | "m1");
    assert_eq!([1, 2].map(rack), [rack(0); 2]);
    assert_eq!([4, 5].map(rack), [rack(3); 2]);
    assert_eq!(figure.cables["c4-5"].links, 1);

    // With more between the two than the trunk carries, the plan says by how much.
    links[6] = link([2, 3], 3e8);
    let fixed: Vec<Wanted> = nodes
        .iter()
        .enumerate()
        .map(|(i, node)| Wanted { on: Some(["m0", "m0", "m1", "m2", "m3", "m3"][i].into()), ..node.clone() })
        .collect();
    let over = plan(&Request { nodes: fixed, links, ..Request::default() }, &harness);
    let violated: Vec<(&str, &str)> = over.violations.iter().map(|v| (v.of.as_str(), v.says.as_str())).collect();
    assert_eq!(violated, [("c4-5", "its 1 links need 300Mbit/s of 100Mbit/s")]);
}

#[test]
fn what_links_carry_inside_a_machine_is_bounded() {
    let place = Place { slots: Some(4), inside_bits_per_s: Some(1e8), ..Place::machine("") };
    let harness = star(place, 2, 1e9);
    let nodes: Vec<Wanted> = (0..4).map(|i| node(&format!("n{i}"))).collect();
    let links = vec![link([0, 1], 9e7), link([2, 3], 9e7)];
    let plan = plan(&Request { nodes, links, ..Request::default() }, &harness);
    assert!(plan.fits, "{:?}", plan.violations);
    assert!(plan.machines.values().all(|used| used.inside_bits_per_s <= 1e8));
}

#[test]
fn types_features_and_groups_are_kept_to() {
    let mut harness = star(Place { slots: Some(4), ..Place::machine("") }, 4, 1e9);
    let kind = |name: &str| TypeSlots { name: name.into(), slots: None, always: true };
    harness.places[1].types = vec![kind("gpu")];
    harness.places[2].features = vec![Feature { name: "ssd".into(), value: 0.9, used_up: false }];
    harness.places[3].features = vec![Feature { name: "ports".into(), value: 2.0, used_up: true }];
    let mut nodes: Vec<Wanted> = (0..8).map(|i| node(&format!("n{i}"))).collect();
    nodes[0].kind = Kind::Type("gpu".into());
    nodes[1].wants = vec![("ssd".into(), 1.0)];
    nodes[2].wants = vec![("ports".into(), 2.0)];
    let groups = vec![
        Group { nodes: vec![3, 4, 5], together: true, weight: 1.0 },
        Group { nodes: vec![3, 6, 7], together: false, weight: 1.0 },
    ];
    let request = Request { nodes, groups, ..Request::default() };
    let all = plan(&request, &harness);
    assert!(all.fits, "{:?}", all.violations);
    assert_eq!(["n0", "n1", "n2"].map(|n| on(&all, n)), ["m1", "m2", "m3"]);
    assert_eq!((on(&all, "n4"), on(&all, "n5")), (on(&all, "n3"), on(&all, "n3")));
    assert!(on(&all, "n6") != on(&all, "n7") && on(&all, "n6") != on(&all, "n3"));
    // Who does not want what is kept for others goes elsewhere.
    let on_ssd = all.nodes.values().filter(|placed| placed.machine == "m2").count();
    assert_eq!(on_ssd, 1);

    let mut wrong = request.clone();
    wrong.nodes[0].kind = Kind::Type("tpu".into());
    assert!(refused(&wrong, &harness).contains("`n0` fits on no machine: none has the type `tpu`"));
    let mut wrong = request.clone();
    wrong.nodes[2].wants = vec![("ports".into(), 3.0)];
    assert!(refused(&wrong, &harness).contains("none has 3 of the feature `ports`"));
    // All of it there is, but not at once.
    let mut wrong = request;
    wrong.nodes[0].wants = vec![("ssd".into(), 1.0)];
    assert!(refused(&wrong, &harness).contains("none has all that it needs at once"));
}

#[test]
fn a_place_that_is_taken_is_told_with_who_has_it() {
    let harness = star(Place { slots: Some(1), ..Place::machine("") }, 2, 1e9);
    let fixed = |on: &str, name: &str| Wanted { on: Some(on.into()), ..node(name) };
    let both = Request { nodes: vec![fixed("m1", "a"), fixed("m1", "b")], ..Request::default() };
    let message = refused(&both, &harness);
    assert!(message.contains("`m1` is taken: `a` and `b` must be on it, and it has one slot"), "{message}");
    let nowhere = Request { nodes: vec![fixed("m7", "a")], ..Request::default() };
    let message = refused(&nowhere, &harness);
    assert!(message.contains("`a` must be on `m7`, and the harness has no machine"), "{message}");
    let one = plan(&Request { nodes: vec![fixed("m1", "a"), node("b")], ..Request::default() }, &harness);
    assert_eq!((on(&one, "a"), on(&one, "b"), one.fits), ("m1", "m0", true));
}

#[test]
fn links_without_cables_are_told() {
    let mut harness = star(Place { slots: Some(1), ..Place::machine("") }, 2, 1e9);
    harness.cables.pop();
    let nodes = vec![node("a"), node("b")];
    let plan = plan(&Request { nodes, links: vec![link([0, 1], 1e6)], ..Request::default() }, &harness);
    assert_eq!(plan.violations.iter().map(|v| v.what).collect::<Vec<_>>(), [Violated::Link]);
}

/// Ten nodes of half a core each at one switch.
fn experiment(dir: &tempfile::TempDir) -> model::Experiment {
    let text = "name: x\ntdf: 10\nmachines: { m: { speed: 0.5, memory: 64MiB } }\n\
                nodes: { n: { count: 10, machine: m, run: \"sleep 1\" } }\nlans:\n  l: { members: [\"n-*\"], \
                bandwidth: 100Mbit/s }\nends: { limit: 10s }\n";
    std::fs::write(dir.path().join("experiment.yaml"), text).unwrap();
    model::load(dir.path(), &[]).unwrap()
}

#[test]
fn an_experiments_smallest_tdf_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment(&dir);
    let cpu = Cpu { cores: 1, speed: Speed::OfHost(1.0) };
    let harness = star(Place { cpu: Some(cpu), ..Place::machine("") }, 2, 1e9);
    let weights = Weights::default();
    let at_its_own = map_experiment(&experiment, None, &harness, &TERMS, weights, 1).unwrap();
    assert_eq!((at_its_own.fits, at_its_own.machines.len()), (true, 1), "{:?}", at_its_own.violations);
    // No more on one machine than the experiment allows, though it would take them.
    let spread = model::Experiment { colocate: Some(5), ..experiment.clone() };
    let halves = map_experiment(&spread, None, &harness, &TERMS, weights, 1).unwrap();
    assert_eq!((halves.fits, halves.machines.len()), (true, 2), "{:?}", halves.violations);
    let tight = model::Experiment { colocate: Some(4), ..experiment.clone() };
    let more = map_experiment(&tight, None, &harness, &TERMS, weights, 1).unwrap();
    assert!(!more.fits && !more.violations.is_empty(), "{:?}", more.violations);
    // Five nodes of half a core share 0.9 of one.
    let least = map_at_smallest_tdf(&experiment, &harness, &TERMS, weights, 1).unwrap();
    assert_eq!(
        (least.tdf.map(|tdf| tdf.to_string()), least.fits),
        (Some("2.8".into()), true),
        "{:?}",
        least.violations
    );
    // Half of the links leave the machine that has no LAN, at real rates.
    let crossing: f64 = least.cables.values().map(|used| used.bits_per_s).fold(0.0, f64::max);
    assert!((crossing - 5.0 * 1e8 / 2.8).abs() < 1e6, "{crossing}");
    let thin = star(Place { cpu: Some(cpu), ..Place::machine("") }, 2, 1e8);
    let least = map_at_smallest_tdf(&experiment, &thin, &TERMS, weights, 1).unwrap();
    // Seven share 0.9 of a core, and three links are on the thin cable.
    assert_eq!(
        (least.tdf.map(|tdf| tdf.to_string()), least.fits),
        (Some("3.9".into()), true),
        "{:?}",
        least.violations
    );
}
