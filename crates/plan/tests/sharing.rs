//! How plans share the core: absolute speeds, timeslices, shares of work and the room that they need.

use crate::common::{load, machine};
use cpu::Speed;
use diorama_plan::{Facts, Plan, Result};
use host::cgroup::Weights;
use record::Variant;
use record::plan::CpuMode;
use scale::{RealDuration, Timeslice};
use site::Kind;
use tcp::Offers;

const WEB: &str = r#"
name: web
tdf: 10
machines:
  server: { speed: 0.3, memory: 256MiB }
  client: { speed: 0.04, memory: 128MiB }
nodes:
  server: { machine: server, run: "nginx" }
  client: { count: 4, machine: client, run: "h2load" }
links:
  - { from: server, to: core, delay: 10ms }
  - { from: "client-*", to: core, delay: 90ms }
switches: [core]
ends: { limit: 60s }
"#;

fn us(n: u64) -> RealDuration {
    RealDuration::from_nanos(1000 * n)
}

/// The plan on a machine whose cores do `reference` units/us.
fn on(reference: Option<f64>, variant: Variant, overrides: &[(&str, &str)]) -> Result<(Plan, model::Experiment)> {
    let experiment = load(WEB, overrides);
    let reference = reference.and_then(Speed::from_units_per_us);
    let host =
        Facts { offers: Offers::ALL, cores: machine(2), reference, weights: Some(Weights::fine()), processes: None };
    Plan::with(&host, &experiment, variant, None).map(|plan| (plan, experiment))
}

fn plan(variant: Variant, overrides: &[(&str, &str)]) -> Plan {
    on(Some(1000.0), variant, overrides).unwrap().0
}

fn refusal(reference: Option<f64>, variant: Variant, overrides: &[(&str, &str)]) -> (Kind, String) {
    let error = on(reference, variant, overrides).unwrap_err();
    (error.kind(), error.to_string())
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs()
}

#[test]
fn an_absolute_speed_is_a_fraction_of_the_hosts_usual_one() {
    let half = [("machines.server.speed", "425 units/us")];
    let (fast, _) = on(Some(850.0), Variant::Scaled, &half).unwrap();
    assert!(near(fast.nodes["server"].share, 0.05) && near(fast.nodes["server"].cpu_clock_divisor, 0.5));
    // On a host of half that speed the same machine is a whole core.
    let (slow, experiment) = on(Some(425.0), Variant::Scaled, &half).unwrap();
    assert!(near(slow.nodes["server"].share, 0.1) && near(slow.nodes["server"].cpu_clock_divisor, 1.0));
    assert!(near(slow.nodes["client-1"].share, 0.004), "a fraction is one of every host");
    let text = slow.to_text(&experiment);
    assert!(text.contains("1 CPU at 425 units/us") && text.contains("usually does, 425.0 units/us"), "{text}");
}

#[test]
fn a_host_of_unknown_speed_has_no_absolute_speeds() {
    let (kind, what) = refusal(None, Variant::Scaled, &[("machines.server.speed", "850 units/us")]);
    assert_eq!(kind, Kind::Machine);
    assert!(what.contains("`server` does 850 units/us") && what.contains("run `diorama doctor`"), "{what}");
    // Where nothing is absolute, nothing has to be known.
    let (plan, experiment) = on(None, Variant::Scaled, &[]).unwrap();
    assert_eq!((plan.terms.pace, plan.cpu.unwrap().reference_units_per_us), (None, None));
    assert!(plan.to_text(&experiment).contains("usually does, not known"));
}

#[test]
fn a_host_slower_than_asked_for_says_what_would_fit() {
    let fast = [("machines.server.speed", "850 units/us")];
    // Dilation makes it possible,
    assert!(near(on(Some(500.0), Variant::Scaled, &fast).unwrap().0.nodes["server"].share, 0.17));
    // and without it there is not so much.
    let (kind, what) = refusal(Some(500.0), Variant::Baseline, &fast);
    assert_eq!(kind, Kind::Input);
    assert!(what.contains("server 1.700"), "{what}");
    assert!(what.contains("a core of this host usually does 500.0 units/us"), "{what}");
    assert!(what.contains("lower the speeds"), "{what}");
    let (kind, what) = refusal(Some(500.0), Variant::Scaled, &[("machines.server.speed", "0.1 units/us")]);
    assert_eq!(kind, Kind::Input);
    assert!(what.contains("on this host a speed is 0.5 to 500000 units/us"), "{what}");
}

#[test]
fn slices_suit_the_shortest_path_and_are_the_same_in_every_factor() {
    // In 3 ms of real time, the longest slice, the server of 0.3 gets ahead by a tenth of the path of 100 ms.
    for variant in [Variant::Baseline, Variant::Scaled] {
        let plan = plan(variant, &[]);
        let slice = plan.recorded().timeslice.unwrap();
        assert_eq!((plan.slice.length, plan.terms.slice), (us(3_000), us(3_000)));
        assert!(near(slice.lead_s, 0.075) && near(slice.real_s, 0.003), "the client of 0.04 by more: {slice:?}");
    }
    let near_nodes = plan(Variant::Scaled, &[("links.1.delay", "1ms")]);
    assert_eq!(near_nodes.slice.length, us(600), "from client to client it is 2 ms");
    let naive = plan(Variant::Naive, &[]);
    assert_eq!((naive.recorded().timeslice, naive.cpu, naive.terms), (None, None, cpu::Terms::default()));
}

#[test]
fn a_lead_that_is_given_is_kept_or_refused_with_the_nearest() {
    let given = plan(Variant::Scaled, &[("lead", "37.5ms")]);
    assert_eq!(given.slice.length, us(1_500));
    for (asked, nearest) in [("1ms", 2.5e-3..2.6e-3), ("100ms", 74e-3..76e-3)] {
        // Both variants alike: what the one can have, the other can.
        let [other, said] = [Variant::Scaled, Variant::Baseline].map(|variant| {
            let (kind, what) = refusal(Some(1000.0), variant, &[("lead", asked)]);
            assert_eq!(kind, Kind::Input);
            assert!(what.contains("slices last 100µs to 3ms"), "{what}");
            what.split("`lead: ").nth(1).unwrap().split('`').next().unwrap().to_owned()
        });
        assert_eq!(other, said);
        for variant in [Variant::Scaled, Variant::Baseline] {
            let right = plan(variant, &[("lead", &said)]);
            assert!(nearest.contains(&right.slice.lead.as_secs_f64()), "{said}");
            assert!((Timeslice::SHORTEST..=Timeslice::LONGEST).contains(&right.terms.slice), "{said}");
        }
    }
    // Nearly the shortest, in as many digits as one writes.
    let thirds = [("machines.client.speed", "0.03"), ("lead", "3.333ms")];
    assert_eq!(plan(Variant::Scaled, &thirds).slice.length, Timeslice::SHORTEST);
}

#[test]
fn shares_are_of_work_unless_the_experiment_says_time() {
    let work = plan(Variant::Scaled, &[]);
    let planned = work.cpu.unwrap();
    assert_eq!((planned.mode, planned.reference_units_per_us), (CpuMode::Work, Some(1000.0)));
    assert_eq!(planned.gain, Some(cpu::DEFAULT_GAIN));
    assert!(near(planned.headroom, 0.9 / 0.046));
    let pace = work.terms.pace.unwrap();
    assert_eq!((pace.reference.units_per_us(), pace.gain), (1000.0, cpu::DEFAULT_GAIN));
    let json: serde_json::Value = serde_json::from_str(&work.recorded().to_json()).unwrap();
    assert_eq!((&json["cpu"]["mode"], &json["cpu"]["reference_units_per_us"]), (&"work".into(), &1000.0.into()));
    assert!(json["timeslice"]["lead_s"].is_f64() && json["timeslice"]["real_s"].is_f64());

    let (time, experiment) = on(Some(1000.0), Variant::Scaled, &[("cpu", "time")]).unwrap();
    assert_eq!((time.cpu.unwrap().mode, time.cpu.unwrap().gain), (CpuMode::Time, None));
    assert_eq!(time.terms.pace, None);
    let text = time.to_text(&experiment);
    assert!(text.contains("shares of time") && text.contains("slices of 3ms"), "{text}");
    assert_eq!(time.setup(&experiment, 1).terms, time.terms);
}

#[test]
fn little_room_is_told_before_the_run() {
    let sold = [("machines.server.speed", "0.6")]; // with the clients 0.76
    let (baseline, experiment) = on(Some(1000.0), Variant::Baseline, &sold).unwrap();
    let [warning] = &baseline.warnings[..] else { panic!("{:?}", baseline.warnings) };
    // 0.9 / 0.76 = 1.184: down to gain / (gain + 0.184).
    let part = 100.0 * cpu::DEFAULT_GAIN / (cpu::DEFAULT_GAIN + 0.9 / 0.76 - 1.0);
    assert!(warning.contains("have bought 0.76") && warning.contains(&format!("than {part:.0} %")), "{warning}");
    assert!(warning.contains("speeds that sum to at most 0.69"), "{warning}");
    assert!(baseline.to_text(&experiment).contains(warning.as_str()));
    assert!(plan(Variant::Scaled, &sold).warnings.is_empty(), "a tenth of that");
    // Nobody is promised work where shares are of time, or where there are none.
    assert!(plan(Variant::Baseline, &[sold[0], ("cpu", "time")]).warnings.is_empty());
    let fast = [("machines.server.speed", "8")];
    assert!(plan(Variant::Naive, &fast).warnings.is_empty());
    let scaled = plan(Variant::Scaled, &fast);
    assert!(scaled.warnings[0].contains("a TDF of 11.8 would leave room (`--tdf 11.8`)"), "{:?}", scaled.warnings);
    assert!(plan(Variant::Scaled, &[fast[0], ("tdf", "11.8")]).warnings.is_empty());
}
