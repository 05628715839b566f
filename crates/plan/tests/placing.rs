//! Plans for machines with more than two cores: which node is on which, and what is refused.

use crate::common::{experiment, machine, near};
use cpu::Speed;
use diorama_plan::{Facts, Plan, Result};
use record::Variant;
use site::Kind;
use tcp::Offers;

fn refused(plan: Result<Plan>) -> String {
    match plan {
        Err(e) if e.kind() == Kind::Input => e.to_string(),
        other => panic!("{other:?}"),
    }
}

/// The plan on a machine that has so many cores.
fn on(cores: usize, variant: Variant, overrides: &[(&str, &str)]) -> Result<Plan> {
    let reference = Speed::from_units_per_us(1000.0);
    let host = Facts { offers: Offers::ALL, cores: machine(cores), reference, weights: None, processes: None };
    Plan::with(&host, &experiment(overrides), variant, None)
}

#[test]
fn nodes_are_packed_on_as_many_cores_as_leave_them_room() {
    let base = on(8, Variant::Baseline, &[]).unwrap();
    assert_eq!((&base.cores.nodes, &base.cores.harness), (&vec![0, 2], &vec![1]));
    assert_eq!((base.nodes["server"].core, base.nodes["client-3"].core), (0, 2));
    assert_eq!(base.cores.all(), [0, 2, 1]);
    assert!(near(base.sold, 0.82) && near(base.cpu.unwrap().headroom, 0.9 / 0.5), "the fullest core is half sold");
    assert!(base.warnings.is_empty(), "on one core there would be little room: {:?}", base.warnings);
    let setup = base.setup(&experiment(&[]), 1);
    assert!(setup.nodes.iter().all(|n| n.core == base.nodes[&n.name].core));
    let json: serde_json::Value = serde_json::from_str(&base.recorded().to_json()).unwrap();
    assert_eq!(
        (json["cores"].to_string(), &json["nodes"]["client-1"]["core"]),
        (r#"{"nodes":[0,2],"harness":[1]}"#.into(), &2.into())
    );
    let text = base.to_text(&experiment(&[]));
    for part in [
        "5 nodes on cores 0,2, emulator and engine on core 1",
        "all nodes: 82% of a core, on 2 cores",
        "core  sold, of 90%  nodes  which",
        "0     50%           1      server",
        "2     32%           4      client-1, client-2, client-3, client-4",
    ] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    // A tenth of that has room enough on one, as on a machine that has no more.
    let scaled = on(8, Variant::Scaled, &[]).unwrap();
    assert_eq!((&scaled.cores, scaled.nodes["client-4"].core), (&on(2, Variant::Scaled, &[]).unwrap().cores, 0));
    assert!(!scaled.to_text(&experiment(&[])).contains("sold, of"));
    let naive = on(8, Variant::Naive, &[("machines.server.speed", "8")]).unwrap();
    assert!(near(naive.pool_cap().unwrap(), 0.832) && naive.nodes["client-2"].core == 2);
    let text = naive.to_text(&experiment(&[("machines.server.speed", "8")]));
    assert!(text.contains("all nodes share a pool of 83.2% of a core"), "{text}");
}

#[test]
fn two_hundred_nodes_fill_seven_cores() {
    let many = [("nodes.client.count", "200"), ("machines.client.speed", "0.29"), ("machines.server.speed", "0.9")];
    let plan = on(8, Variant::Scaled, &many).unwrap();
    assert_eq!(plan.cores.nodes, [0, 2, 3, 4, 5, 6, 7]);
    let sold = plan.sold_by_core();
    assert!(sold.iter().all(|(_, sold)| (0.8..0.9).contains(sold)), "{sold:?}");
    assert!(near(sold.iter().map(|(_, sold)| sold).sum::<f64>(), plan.sold));
    let text = plan.to_text(&experiment(&many));
    assert!(text.contains("and 23 more") && text.contains("on cores 0,2-7"), "{text}");
}

#[test]
fn what_cannot_be_packed_is_refused_with_the_tdf_that_could() {
    let what = |cores, variant, overrides: &[_]| refused(on(cores, variant, overrides));
    let large = [("machines.server.speed", "10")];
    let told = what(8, Variant::Scaled, &large);
    assert!(told.contains("ask for 1.032 of 7 cores, of each of which a plan may sell 0.9"), "{told}");
    assert!(told.contains("a node stays on one core, and `server` is too large for any"), "{told}");
    assert!(told.contains("a TDF of 11.2 would fit (`--tdf 11.2`"), "{told}");
    // As much as there is in all, but in parts that are too large: two of them need a core that has twice as much.
    let halves = [("machines.client.speed", "8"), ("nodes.client.count", "3"), ("machines.server.speed", "0.1")];
    let told = what(4, Variant::Scaled, &[halves[0], ("nodes.client.count", "4"), halves[2]]);
    assert!(told.contains("ask for 3.210 of 3 cores"), "{told}");
    assert!(on(4, Variant::Scaled, &halves).is_ok());
    let told = what(3, Variant::Scaled, &[("machines.client.speed", "5.5"), halves[1], halves[2]]);
    assert!(told.contains("ask for 1.660 of 2 cores") && told.contains("cannot be placed so that all fit"), "{told}");
    assert!(told.contains("a TDF of 12.3 would fit"), "{told}");
    let told = what(8, Variant::Baseline, &[("machines.server.speed", "0.95")]);
    assert!(told.contains("lower the speeds until they sum to at most 0.9 on each core"), "{told}");
}
