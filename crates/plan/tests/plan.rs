//! Plans: what nodes and links get in each variant, and what is refused.

use crate::common::{experiment, load, machine, near};
use cpu::Speed;
use diorama_plan::{Error, Facts, Plan, Result};
use host::cgroup::Weights;
use record::Variant;
use record::plan::{Congestion, PipeValues};
use scale::{Tdf, VirtualDuration};
use site::Kind;
use tcp::Offers;

fn plan(variant: Variant, tdf: Option<&str>, overrides: &[(&str, &str)]) -> Result<Plan> {
    with(Offers::ALL, variant, tdf, overrides)
}

/// A machine with so many offers to TCP, whose cores usually do 1000 units/us.
fn host(offers: Offers) -> Facts {
    let reference = Speed::from_units_per_us(1000.0);
    Facts { offers, cores: machine(2), reference, weights: Some(Weights::fine()), processes: None }
}

fn with(offers: Offers, variant: Variant, tdf: Option<&str>, overrides: &[(&str, &str)]) -> Result<Plan> {
    Plan::with(&host(offers), &experiment(overrides), variant, tdf.map(|t| t.parse().unwrap()))
}

fn refusal(variant: Variant, tdf: Option<&str>, overrides: &[(&str, &str)]) -> String {
    refused(plan(variant, tdf, overrides))
}

fn refused(plan: Result<Plan>) -> String {
    match plan {
        Err(e) if e.kind() == Kind::Input => e.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_scaled_variant_divides_cpu_and_bandwidth_and_multiplies_delay() {
    let plan = plan(Variant::Scaled, None, &[]).unwrap();
    let names: Vec<&str> = plan.nodes.keys().map(String::as_str).collect();
    assert_eq!(names, ["server", "client-1", "client-2", "client-3", "client-4"]);
    let server = &plan.nodes["server"];
    assert!(near(server.share, 0.05) && near(plan.nodes["client-4"].share, 0.008));
    assert_eq!((server.memory_bytes, server.cpu_clock_divisor), (256 << 20, 0.5));
    assert_eq!(server.addresses.len(), 1);
    let pipe = &plan.pipes["server--core/ab"];
    let values = |bits_per_s, delay_s, loss, queue| {
        let queue_packets = Some(queue);
        PipeValues { bits_per_s, delay_s, loss, queue_packets, ..PipeValues::default() }
    };
    assert_eq!(pipe.target, values(Some(1e8), 0.010, 0.0, 100));
    assert_eq!(pipe.harness, values(Some(1e7), 0.100, 0.0, 100));
    assert_eq!(plan.pipes["client-1--core/ba"].harness, values(None, 0.050, 0.01, 7));
    assert_eq!(plan.pool_cap(), None);
    assert_eq!(server.congestion, Congestion::Cubic);
}

#[test]
fn the_baseline_has_full_shares_and_the_links_of_the_target() {
    let plan = plan(Variant::Baseline, None, &[]).unwrap();
    assert_eq!(plan.tdf, Tdf::ONE);
    assert!(near(plan.nodes["server"].share, 0.5) && near(plan.sold, 0.82));
    assert_eq!(plan.pipes["server--core/ab"].harness, plan.pipes["server--core/ab"].target);
    assert_eq!((plan.nodes["server"].cpu_clock_divisor, plan.pool_cap()), (0.5, None));
}

#[test]
fn the_naive_variant_has_the_links_of_the_target_and_the_cpu_of_the_scaled_variant() {
    let plan = plan(Variant::Naive, None, &[]).unwrap();
    assert_eq!(plan.tdf, Tdf::ONE);
    assert!(near(plan.pool_cap().unwrap(), 0.082));
    assert_eq!(plan.pipes["server--core/ab"].harness.delay_s, 0.010);
}

#[test]
fn only_the_scaled_variant_takes_another_tdf() {
    assert!(near(plan(Variant::Scaled, Some("20"), &[]).unwrap().nodes["server"].share, 0.025));
    assert!(near(plan(Variant::Scaled, Some("1.5"), &[]).unwrap().nodes["server"].share, 1.0 / 3.0));
    for variant in [Variant::Baseline, Variant::Naive] {
        assert!(refusal(variant, Some("20"), &[]).contains("--tdf cannot be given"));
    }
}

#[test]
fn the_smallest_tdf_is_the_one_that_a_refusal_would_name() {
    let smallest = |overrides: &[(&str, &str)]| Plan::smallest_tdf(&host(Offers::ALL), &experiment(overrides));
    assert_eq!(smallest(&[]).unwrap(), Tdf::ONE);
    let fast = ("machines.server.speed", "10");
    assert_eq!(smallest(&[fast]).unwrap().to_string(), "11.5");
    // At the TDF at which a server of 200 cores has room, too little is left of clients that have 0.08 of one.
    let what = match smallest(&[("machines.server.speed", "200")]) {
        Err(e) if e.kind() == Kind::Input => e.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(what.contains("no TDF fits") && what.contains("only from TDF 222.6 on"), "{what}");
    assert!(what.contains("`client-1` gets") && what.contains("a higher speed") && !what.contains("--tdf"), "{what}");
}

#[test]
fn more_than_the_usable_part_of_the_core_is_refused_with_the_tdf_that_fits() {
    let fast = [("machines.server.speed", "10")];
    let what = refusal(Variant::Scaled, None, &fast);
    assert!(what.contains("ask for 1.032 of one core") && what.contains("server 1.000, client 4 x 0.008"), "{what}");
    assert!(what.contains("a TDF of 11.5 would fit (`--tdf 11.5`"), "{what}");
    assert!(plan(Variant::Scaled, Some("11.5"), &fast).is_ok());
    assert!(plan(Variant::Scaled, Some("11.4"), &fast).is_err());
    let what = refusal(Variant::Baseline, None, &[("machines.server.speed", "0.6")]);
    assert!(what.contains("lower the speeds until they sum to at most 0.9"), "{what}");
    // Exactly what can be sold is not too much, however the decimals add up.
    assert!(plan(Variant::Baseline, None, &[("machines.server.speed", "0.58")]).is_ok());
    let what = refusal(Variant::Naive, None, &fast);
    assert!(what.contains("`tdf: 11.5` in the experiment") && !what.contains("--tdf"), "{what}");
}

#[test]
fn a_node_of_several_cpus_has_the_share_of_all_of_them_on_one_core() {
    let four = ("machines.server.cpus", "4");
    let scaled = plan(Variant::Scaled, None, &[four]).unwrap();
    let server = &scaled.nodes["server"];
    // Each CPU as fast as that of a machine that has one, by its clocks, too.
    assert!(near(server.share, 4.0 * 0.05) && near(server.cpu_clock_divisor, 0.5));
    assert_eq!((server.cpus, scaled.nodes["client-1"].cpus), (4, 1));
    let setup = scaled.setup(&experiment(&[four]), 0);
    assert_eq!((setup.nodes[0].cpus, setup.nodes[1].cpus), (4, 1));
    assert!(near(plan(Variant::Naive, None, &[four]).unwrap().pool_cap().unwrap(), 0.232));
    let baseline = refusal(Variant::Baseline, None, &[four]);
    for part in ["server 2.000 (4 CPUs)", "client 4 x 0.080", "each times its machine's `cpus`", "(from TDF 2.6 on)"] {
        assert!(baseline.contains(part), "{part}: {baseline}");
    }
    let many = refusal(Variant::Scaled, None, &[("machines.server.cpus", "64")]);
    assert!(many.contains("server 3.200 (64 CPUs)") && many.contains("a TDF of 36 would fit"), "{many}");
    assert!(plan(Variant::Scaled, Some("36"), &[("machines.server.cpus", "64")]).is_ok());
    // A baseline of few slow CPUs fits.
    let slow = [("machines.server.cpus", "2"), ("machines.server.speed", "0.25")];
    assert!(near(plan(Variant::Baseline, None, &slow).unwrap().nodes["server"].share, 0.5));
}

#[test]
fn a_link_that_no_emulator_could_fill_is_refused_where_it_stands() {
    let faster = |bandwidth| [("links.server--core.bandwidth", bandwidth)];
    assert!(plan(Variant::Scaled, Some("9"), &faster("900Gbit/s")).is_ok());
    let said = refusal(Variant::Scaled, Some("5"), &faster("900Gbit/s"));
    assert!(said.contains("`server--core` carries 180 Gbit/s of real time") && said.contains("--tdf 9"), "{said}");
    let said = refusal(Variant::Baseline, None, &faster("900Gbit/s"));
    assert!(said.contains("900 Gbit/s") && said.contains("make it slower, or leave its bandwidth out"), "{said}");
    // No limit is none at any TDF, however it is written, and also where an event takes one away.
    for (unlimited, tdf) in [("unlimited", "1"), ("10000Gbit/s", "2"), ("10000Gbit/s", "1")] {
        let event = format!("[{{ at: 5s, link: client-1--core, set: {{ bandwidth: {unlimited} }} }}]");
        let plan = plan(Variant::Scaled, Some(tdf), &[faster(unlimited)[0], ("events", &event)]).unwrap();
        assert_eq!(plan.pipes["server--core/ab"].harness.bits_per_s, None, "{unlimited} at TDF {tdf}");
    }
    // Faults by what an event makes of it count, too, and the line is that of the file.
    let event = "[{ at: 5s, link: client-1--core, set: { bandwidth: 200Gbit/s } }]";
    let said = refusal(Variant::Baseline, None, &[("events", event)]);
    assert!(said.contains(".yaml:12: ") && said.contains("`client-1--core`"), "{said}");
}

#[test]
fn a_share_too_small_to_keep_is_refused() {
    let what = refusal(Variant::Scaled, Some("200"), &[]);
    assert!(what.contains("`client-1` gets 0.000400 of a core") && what.contains("a TDF of 160 would fit"), "{what}");
    assert!(plan(Variant::Scaled, Some("160"), &[("links.0.delay", "1ms"), ("links.1.delay", "1ms")]).is_ok());
}

#[test]
fn what_weights_make_of_shares_is_planned() {
    let experiment = experiment(&[("nodes.client.count", "500"), ("machines.client.speed", "0.005")]);
    let rounding = |weights| {
        let host = Facts { weights, ..host(Offers::ALL) };
        let plan = Plan::with(&host, &experiment, Variant::Scaled, None).unwrap();
        assert!(plan.warnings.iter().all(|w| !w.contains("integers")), "{:?}", plan.warnings);
        let text = plan.to_text(&experiment);
        (plan.cpu.unwrap().rounding, text.contains("weights of the kernel"))
    };
    for weights in [Weights::fine(), Weights::coarse()] {
        let (error, told) = rounding(Some(weights));
        assert!(told && error.unwrap() < 0.01, "{weights:?}: {error:?}");
    }
    assert_eq!(rounding(None), (None, false));
}

#[test]
fn a_round_trip_too_long_for_the_initial_time_out_is_refused_with_its_nodes() {
    let bare = |tdf, overrides: &[_]| with(Offers::NONE, Variant::Scaled, tdf, overrides);
    let refusal = |tdf, overrides: &[_]| refused(bare(tdf, overrides));
    // 2 × (10 + 5) ms: 0.78 s at TDF 26.
    let calm = [("events", "[]")];
    assert!(bare(Some("26"), &calm).is_ok());
    let what = refusal(Some("27"), &calm);
    assert!(what.contains("between `client-") && what.contains("and `server`"), "{what}");
    assert!(what.contains("a TDF of at most 26.6 would fit"), "{what}");
    // The baseline is not dilated: the kernel's time-out is then the target's.
    let slow = [("links.0.delay", "500ms")];
    assert!(with(Offers::NONE, Variant::Baseline, None, &slow).is_ok());
    assert!(refusal(None, &slow).contains("only TDF 1 would fit"));
    // A delay that an event brings counts.
    let later = [("events.0.set.delay", "50ms")];
    assert!(refusal(None, &later).contains("a TDF of at most 7.2 would fit"));
    // Between two clients, not by way of the server.
    let what = refusal(Some("45"), &[("links.0.delay", "0ms"), ("events", "[]"), ("links.1.delay", "5ms")]);
    assert!(what.contains("between `client-") && what.contains("and `client-"), "{what}");
    // Where the time-out is scaled, none of this is needed.
    assert!(plan(Variant::Scaled, Some("27"), &calm).is_ok() && plan(Variant::Scaled, None, &slow).is_ok());
}

#[test]
fn what_has_no_meaning_any_more_is_still_read_and_warned_of() {
    let warnings = |overrides: &[(&str, &str)]| {
        let room = [("machines.server.speed", "0.3")];
        plan(Variant::Scaled, None, &[&room[..], overrides].concat()).unwrap().recorded().warnings.clone()
    };
    assert_eq!(warnings(&[]), [] as [String; 0]);
    for value in ["true", "false"] {
        assert_eq!(warnings(&[("refill", value)]), ["`refill` does nothing any more, and can be removed"]);
    }
}

#[test]
fn nodes_have_cubic_where_it_can_be_had() {
    // With room on the core, of which there would be a warning of its own.
    let reno = [("nodes.client.congestion", "reno"), ("machines.server.speed", "0.3")];
    for variant in [Variant::Scaled, Variant::Baseline, Variant::Naive] {
        let plan = plan(variant, None, &reno).unwrap();
        assert_eq!(plan.nodes["server"].congestion, Congestion::Cubic);
        assert_eq!(plan.nodes["client-2"].congestion, Congestion::Reno);
        assert!(plan.recorded().to_json().contains("\"congestion\": \"cubic\""));
        assert!(plan.warnings.is_empty() && !plan.recorded().to_json().contains("warnings"));
    }
    let bare = with(Offers::NONE, Variant::Baseline, None, &[]).unwrap();
    assert!(bare.nodes.values().all(|n| n.congestion == Congestion::Reno));
    let count = bare.nodes.len();
    assert!(bare.warnings[0].contains(&format!("{count} of {count} nodes have Reno")), "{:?}", bare.warnings);
    assert!(bare.recorded().to_json().contains("\"warnings\""));
    // Who asked for Reno is not told about it.
    let chosen = with(Offers::NONE, Variant::Baseline, None, &[("nodes.server.congestion", "reno")]).unwrap();
    assert!(chosen.warnings[0].contains(&format!("{} of {count} nodes", count - 1)), "{:?}", chosen.warnings);
    let asked = with(Offers::NONE, Variant::Scaled, None, &[("nodes.server.congestion", "cubic")]);
    assert!(matches!(&asked, Err(Error::Machine { what, .. }) if what.contains("`server` wants CUBIC")), "{asked:?}");
}

#[test]
fn changes_of_links_reach_both_pipes_in_real_values() {
    let plan = plan(Variant::Scaled, None, &[]).unwrap();
    let experiment = experiment(&[]);
    let model::Action::Link { change, .. } = &experiment.events[0].action else { panic!() };
    let [real, back] = plan.harness_changes(change);
    assert_eq!(real, back);
    assert_eq!(real.up, Some(false));
    assert_eq!(real.rate.unwrap().unwrap().bits_per_s(), 1e6);
    assert_eq!(real.delay.unwrap().as_nanos(), 10_000_000);
    let network = net::Network::new(plan.setup(&experiment, 1).network, 1).unwrap();
    // The names by which changes go to the emulator.
    assert!(plan.pipes.keys().eq(network.pipe_names()));
}

#[test]
fn a_queue_in_bytes_holds_the_largest_frame_of_its_own_link_and_may_hold_no_more() {
    let small = [
        ("links.1", "{ from: client-*, to: core, mtu: 576, queue: 1000B }"),
        ("events", "[{ at: 5s, link: 'client-*', set: { queue: 590B } }]"),
    ];
    let planned = plan(Variant::Scaled, None, &small).unwrap();
    assert_eq!(planned.pipes["client-1--core/ab"].target.queue_bytes, Some(1000));
    // An experiment as no file can say it, because the model refuses it: the plan does not wait for the event either.
    let mut experiment = experiment(&small);
    let model::Action::Link { change, .. } = &mut experiment.events[3].action else { panic!() };
    change.ba.queue = Some(model::Queue::DropTail(model::Limit::Bytes(589)));
    let refused = Plan::with(&host(Offers::ALL), &experiment, Variant::Scaled, None).unwrap_err();
    let expected =
        "web: the event at 5 s: pipe `client-4--core/ba`: a queue of 589 bytes; it must hold at least one frame of 590";
    assert!(refused.kind() == Kind::Input && refused.to_string() == expected, "{refused}");
}

/// Every property of a link, other ones on the way back.
const ROUGH: &str = "{ bandwidth: 10Mbit/s, delay: 4ms, jitter: { normal: 1ms, reorder: true }, loss: { every: 50 }, \
    duplicate: 1%, corrupt: 2%, queue: { red: { min: 5, max: 15, limit: 50, max_p: 20%, gentle: true } }, ba: { \
    bandwidth: 1Mbit/s, delay: 8ms, jitter: 2ms, loss: { gilbert-elliott: { p: 1%, r: 19% } }, queue: 64KiB } }";

fn rough() -> Vec<(&'static str, &'static str)> {
    vec![
        ("links.1", Box::leak(ROUGH.replacen('{', "{ from: client-*, to: core,", 1).into_boxed_str())),
        ("events", "[]"),
    ]
}

#[test]
fn every_property_of_a_link_reaches_the_emulator_scaled_if_it_is_a_time() {
    let plan = plan(Variant::Scaled, None, &rough()).unwrap();
    let spec = plan.setup(&experiment(&rough()), 1).network;
    let link = spec.links.iter().find(|l| l.name == "client-2--core").unwrap();
    let (ab, ba) = (&link.ab, &link.ba);
    assert_eq!((ab.rate.unwrap().bits_per_s(), ba.rate.unwrap().bits_per_s()), (1e6, 1e5));
    assert_eq!((ab.delay.as_nanos(), ba.delay.as_nanos()), (40_000_000, 80_000_000));
    assert_eq!(
        (ab.jitter.distribution, ba.jitter.distribution),
        (net::Distribution::Normal, net::Distribution::Uniform)
    );
    assert_eq!((ab.jitter.spread.as_nanos(), ba.jitter.spread.as_nanos()), (10_000_000, 20_000_000));
    assert_eq!((ab.jitter.reorder, ba.jitter.reorder), (true, false));
    assert_eq!(ab.loss, net::Loss::Every(50));
    let chain = net::GilbertElliott { p: 0.01, r: 0.19, good: 0.0, bad: 1.0 };
    assert_eq!(ba.loss, net::Loss::GilbertElliott(chain));
    // Words on both hold for the one that says nothing of its own.
    assert_eq!((ab.duplicate, ab.corrupt, ba.duplicate, ba.corrupt), (0.01, 0.02, 0.01, 0.02));
    let limit = net::Limit::Packets(50);
    let red = net::Red { min: 5, max: 15, max_p: 0.2, weight: 0.002, limit, packet: 500, gentle: true };
    assert_eq!(ab.queue, net::Queue::Red(red));
    assert_eq!(ba.queue, net::Queue::DropTail(net::Limit::Bytes(65_536)));
    // A baseline has the target's times.
    let overrides = rough();
    let baseline = with(Offers::ALL, Variant::Baseline, None, &overrides).unwrap();
    let link = &baseline.setup(&experiment(&overrides), 1).network.links[1];
    assert_eq!((link.ba.jitter.spread.as_nanos(), link.ba.queue), (2_000_000, ba.queue));
}

#[test]
fn plan_json_has_more_keys_only_where_they_are_used() {
    let json: serde_json::Value =
        serde_json::from_str(&plan(Variant::Scaled, None, &rough()).unwrap().recorded().to_json()).unwrap();
    let keys = |v: &serde_json::Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let plain = ["bits_per_s", "delay_s", "loss", "queue_packets"];
    assert_eq!(keys(&json["pipes"]["server--core/ab"]["target"]), plain);
    let (ab, ba) = (&json["pipes"]["client-1--core/ab"], &json["pipes"]["client-1--core/ba"]);
    assert_eq!(keys(&ab["target"]), [&plain[..], &["red", "jitter", "loss_model", "duplicate", "corrupt"]].concat());
    assert_eq!((&ab["target"]["loss"], &ab["target"]["loss_model"]["every"]), (&0.02.into(), &50.into()));
    assert_eq!((&ab["target"]["queue_packets"], &ab["target"]["red"]["min"]), (&50.into(), &5.into()));
    let jitter = r#"{"distribution":"normal","spread_s":0.01,"reorder":true}"#;
    assert_eq!(ab["harness"]["jitter"].to_string(), jitter);
    assert_eq!(
        (&ba["target"]["queue_packets"], &ba["target"]["queue_bytes"]),
        (&serde_json::Value::Null, &65_536.into())
    );
    assert!((ba["target"]["loss"].as_f64().unwrap() - 0.05).abs() < 1e-12);
    assert_eq!(ba["target"]["loss_model"]["gilbert_elliott"]["r"], 0.19);
}

#[test]
fn an_event_changes_every_property_of_each_direction() {
    let set = "[{ at: 5s, link: 'server--*', set: { jitter: { pareto: 3ms }, loss: { packets: [7, 2] }, duplicate: 5%, \
        corrupt: 6%, queue: 9kB, ab: { loss: 1% }, ba: { up: false, queue: 3 } } }]";
    let overrides = [("events", set)];
    let (plan, experiment) = (plan(Variant::Scaled, None, &overrides).unwrap(), experiment(&overrides));
    let model::Action::Link { change, .. } = &experiment.events[0].action else { panic!() };
    let [ab, ba] = plan.harness_changes(change);
    let spread = scale::RealDuration::from_nanos(30_000_000);
    let jitter = Some(net::Jitter { distribution: net::Distribution::Pareto, spread, reorder: false });
    let both = net::PipeChange { jitter, duplicate: Some(0.05), corrupt: Some(0.06), ..Default::default() };
    let queue = Some(net::Queue::DropTail(net::Limit::Bytes(9_000)));
    assert_eq!(ab, net::PipeChange { loss: Some(net::Loss::Random(0.01)), queue, ..both.clone() });
    let (loss, queue) = (Some(net::Loss::Packets(vec![2, 7])), Some(net::Queue::packets(3)));
    assert_eq!(ba, net::PipeChange { loss, queue, up: Some(false), ..both });
}

#[test]
fn the_way_back_and_the_jitter_count_in_a_round_trip() {
    // 10 ms there, 20 ms and 5 ms of jitter back, and 2 × 5 ms: 45 ms, of which 800 ms hold 17.7.
    let way = [("events", "[]"), ("links.0.ba", "{ delay: 20ms, jitter: { normal: 5ms } }")];
    let bare = |tdf| with(Offers::NONE, Variant::Scaled, Some(tdf), &way);
    assert!(bare("17").is_ok());
    let refusal = bare("18").err().map(|e| e.to_string()).unwrap_or_default();
    assert!(refusal.contains("a TDF of at most 17.7 would fit"), "{refusal}");
}

#[test]
fn plan_json_has_its_documented_keys() {
    let text = plan(Variant::Scaled, None, &[]).unwrap().recorded().to_json();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["tdf"].to_string(), "10");
    assert_eq!(json["cores"].to_string(), r#"{"nodes":[0],"harness":[1]}"#);
    for key in ["core", "cpus", "share", "memory_bytes", "addresses"] {
        assert!(!json["nodes"]["client-3"][key].is_null(), "{key}");
    }
    for side in ["target", "harness"] {
        for key in ["bits_per_s", "delay_s", "loss", "queue_packets"] {
            assert!(json["pipes"]["server--core/ba"][side].get(key).is_some(), "{side} {key}");
        }
    }
    assert!(json["versions"].is_object());
    let fraction = plan(Variant::Scaled, Some("1.5"), &[]).unwrap().recorded().to_json();
    assert!(fraction.contains("\"tdf\": 1.5"));
}

/// Three nodes on a ring of switches, with a wire of its own between the first two.
const RING: &str = "name: ring\ntdf: 10\nmachines: { m: { speed: 0.1, memory: 64MiB } }\n\
    nodes: { n: { count: 3, machine: m, run: x } }\nswitches: [s, t, u]\nends: { limit: 1s }\nlinks:\n\
    \x20 - { from: n-1, to: s, delay: 1ms }\n\
    \x20 - { from: n-2, to: t, delay: 1ms }\n\
    \x20 - { from: n-3, to: u, delay: 1ms }\n\
    \x20 - { from: s, to: t, delay: 3ms }\n\
    \x20 - { from: t, to: u, delay: 4ms }\n\
    \x20 - { from: u, to: s, delay: 30ms }\n";

fn ring(more: &str, tdf: &str) -> Result<Plan> {
    let experiment = load(&format!("{RING}{more}"), &[]);
    Plan::with(&host(Offers::NONE), &experiment, Variant::Scaled, Some(tdf.parse().unwrap()))
}

#[test]
fn path_lengths_are_those_of_the_routes_and_not_of_any_way() {
    let ms = |n: u64| Some(VirtualDuration::from_nanos(n * 1_000_000));
    assert_eq!(ring("", "1").unwrap().shortest_path, ms(5));
    // n-1 to n-3 by s, t, u: 9 ms, not 32; 0.8 s of real time allow a TDF of 44.
    assert!(ring("", "44").is_ok());
    assert!(refused(ring("", "45")).contains("between `n-3` and `n-1` takes 18ms"));
    // Sent the long way round in one direction, the same two are 9 + 32 ms apart.
    let long = "routes: [{ from: n-1, to: n-3, via: [s, u] }]\n";
    assert_eq!(ring(long, "1").unwrap().shortest_path, ms(5));
    assert!(ring(long, "19").is_ok());
    assert!(refused(ring(long, "20")).contains("between `n-3` and `n-1` takes 41ms"));
    // A direct wire is a route of one link.
    let wire = "  - { from: n-1, to: n-2, delay: 2ms, mtu: 9000, tso: false }\n";
    let plan = ring(wire, "1").unwrap();
    assert_eq!(plan.shortest_path, ms(2));
    assert_eq!((plan.pipes["n-1--n-2/ba"].mtu, plan.pipes["s--t/ab"].mtu), (9000, 1500));
    assert!(!plan.pipes["n-1--n-2/ba"].tso && plan.pipes["s--t/ab"].tso);
    assert_eq!(plan.nodes["n-1"].addresses.len(), 2);
}

#[test]
fn a_lan_is_planned_as_the_links_of_its_members_with_addresses_of_one_block() {
    let lans = "{ office: { members: [server, client-1, client-2], delay: 3ms, subnet: 192.168.1.0/24,\
                addresses: { server: 192.168.1.9 } } }";
    let plan = plan(Variant::Scaled, None, &[("lans", lans)]).unwrap();
    assert_eq!(plan.pipes["client-1--office/ba"].harness.delay_s, 0.03);
    assert_eq!(plan.pipes["client-1--office/ba"].target.delay_s, 0.003);
    let addresses = |node: &str| plan.nodes[node].addresses.iter().map(|a| a.to_string()).collect::<Vec<_>>();
    assert_eq!(addresses("server"), ["10.0.0.1", "192.168.1.9"]);
    assert_eq!(addresses("client-2"), ["10.0.0.3", "192.168.1.2"]);
    assert!(plan.to_text(&experiment(&[("lans", lans)])).contains("server--office … client-2--office"));
    // The emulator takes what the experiment's own checks have let through.
    let setup = plan.setup(&experiment(&[("lans", lans)]), 0);
    assert_eq!(setup.network.lans[0].name, "office");
}
