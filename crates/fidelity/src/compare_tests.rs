//! Comparisons of runs made up in memory.

use indexmap::IndexMap;
use record::{
    Check, CheckName, CoreSpeed, Ended, MetricEffect, MetricRecord, NodeOutcome, RunDir, RunResult, Samples, Status,
    Uncertainty, Variant,
};

use super::*;
use crate::conclude;
use crate::statistics::summary;

fn check(name: CheckName, ok: bool, says: &str) -> Check {
    Check {
        name,
        value: Some(1.0),
        limit: Some(2.0),
        unit: "%".into(),
        ok: Some(ok),
        effect_percent: None,
        effect_range_percent: None,
        says: says.into(),
    }
}

/// A run in the making.
fn made(name: &str, variant: Variant) -> Run {
    let result = RunResult {
        experiment: "web-half".into(),
        variant,
        tdf: scale::Tdf::ONE,
        scaling_factor: 1.0,
        status: Status::Ok,
        why: None,
        virtual_seconds: 10.0,
        real_seconds: 10.0,
        metrics: IndexMap::new(),
        nodes: IndexMap::new(),
        fidelity: conclude(vec![check(CheckName::ClockLead, true, "Clocks were near.")]),
    };
    Run { dir: RunDir::at(name), result, samples: IndexMap::new(), calls: IndexMap::new(), packets: None }
}

/// The part of chance in a metric: each statistic lies within so many per cent.
fn chance(summary: &Summary, percent: f64) -> Intervals {
    let of = |v: f64| Some([v * (1.0 - percent / 100.0), v * (1.0 + percent / 100.0)]);
    Intervals { mean: of(summary.mean), p50: of(summary.p50), p90: of(summary.p90), p99: None }
}

trait Making: Sized {
    fn metric(self, name: &str, unit: &str, values: &[f64]) -> Self;
    fn known(self, chance_percent: f64, effects: &[(CheckName, [f64; 2])]) -> Self;
    fn reference(self, units_per_us: f64) -> Self;
    fn node(self, name: &str, core_seconds: Option<f64>) -> Self;
    fn alone(self) -> Series;
}

impl Making for Run {
    fn metric(mut self, name: &str, unit: &str, values: &[f64]) -> Run {
        let samples = Samples::new(values.to_vec()).unwrap();
        let summary = summary(&samples).unwrap();
        let file = format!("{name}.csv");
        self.result.metrics.insert(name.into(), MetricRecord::new(unit, summary, file));
        self.samples.insert(name.into(), samples);
        self
    }

    fn known(mut self, chance_percent: f64, effects: &[(CheckName, [f64; 2])]) -> Run {
        for record in self.result.metrics.values_mut() {
            let sampling = chance(&record.summary, chance_percent);
            let effect = |(check, percent): &(CheckName, [f64; 2])| MetricEffect {
                check: *check,
                percent: *percent,
                tail_percent: None,
            };
            record.interval = Some(sampling);
            let effects = effects.iter().map(effect).collect();
            record.uncertainty = Some(Uncertainty { sampling, effects, cpu_sensitivity: 0.5 });
        }
        self
    }

    fn reference(mut self, units_per_us: f64) -> Run {
        let reference_units_per_us = Some(units_per_us);
        self.result.fidelity.core_speed = Some(CoreSpeed { units_per_us, reference_units_per_us });
        self
    }

    fn node(mut self, name: &str, core_seconds: Option<f64>) -> Run {
        let outcome = NodeOutcome { exit: Some(0), ended: Ended::Exited, core_seconds };
        self.result.nodes.insert(name.into(), outcome);
        self
    }

    fn alone(self) -> Series {
        Series { path: self.dir.path().into(), runs: [(0, self)].into() }
    }
}

fn repeated(name: &str, runs: impl IntoIterator<Item = Run>) -> Series {
    Series { path: name.into(), runs: (1..).zip(runs).collect() }
}

fn latencies(scale: f64) -> Vec<f64> {
    (1..=200).map(|i| scale * f64::from(i)).collect()
}

fn run(name: &str, variant: Variant, scale: f64) -> Run {
    made(name, variant).metric("latency", "ms", &latencies(scale)).metric("requests", "1/s", &[800.0 / scale])
}

fn compared(base: &Series, other: &Series, bounds: &[&str]) -> Comparison {
    let bounds: Vec<Bound> = bounds.iter().map(|b| b.parse().unwrap()).collect();
    compare(base, other, &bounds).unwrap()
}

fn refused(base: &Series, other: &Series) -> String {
    compare(base, other, &[]).unwrap_err().to_string()
}

fn about(value: Option<f64>, expected: f64) -> bool {
    value.is_some_and(|v| (v - expected).abs() < 1e-6)
}

#[test]
fn errors_are_signed_and_relative_to_the_base() {
    let base = run("baseline", Variant::Baseline, 1.0).alone();
    let slow = run("scaled", Variant::Scaled, 1.25).alone();
    let there = compared(&base, &slow, &[]);
    assert!(there.within, "no bound, nothing outside");
    let [latency, requests] = &there.metrics[..] else { panic!("{there:?}") };
    assert_eq!((latency.name.as_str(), latency.unit.as_str(), latency.base.n), ("latency", "ms", 200));
    assert!(Statistic::ALL.iter().all(|s| about(latency.error_percent.get(*s), 25.0)), "{latency:?}");
    assert!(about(requests.error_percent.mean, -20.0), "{requests:?}");
    assert_eq!(requests.ks_d, None, "one sample has no distribution");
    assert!(latency.ks_d.unwrap() > 0.15 && latency.ks_d.unwrap() < 0.25, "{:?}", latency.ks_d);
    let back = compared(&slow, &base, &[]);
    assert!(about(back.metrics[0].error_percent.p50, -20.0));
}

#[test]
fn bounds_judge_what_they_name() {
    let base = made("b", Variant::Baseline).metric("x", "ms", &[10.0, 10.0, 10.0]).alone();
    let tail = made("o", Variant::Scaled).metric("x", "ms", &[10.0, 10.0, 10.9]).alone();
    // mean +3 %, p50 0 %, p90 and p99 +9 %.
    assert!(compared(&base, &tail, &["3.1%"]).within);
    assert!(!compared(&base, &tail, &["2.9%"]).within, "the mean");
    assert!(compared(&base, &tail, &["p50=0%"]).within);
    assert!(!compared(&base, &tail, &["5%", "p90=8%"]).within, "all bounds must hold");
    assert!(compared(&base, &tail, &["5%", "p90=10%"]).within);
    assert!(!compared(&tail, &base, &["p99=8%"]).within, "either way");
    let outside = &compared(&base, &tail, &["p90=8%"]).metrics[0].outside;
    let [p90] = &outside[..] else { panic!("{outside:?}") };
    assert_eq!((p90.statistic, p90.says.as_str()), (Statistic::P90, "x p90 is +9.00 % off, more than 8 %"));
    assert_eq!(serde_json::to_value(outside).unwrap(), serde_json::json!(["x p90 is +9.00 % off, more than 8 %"]));
}

#[test]
fn a_base_of_zero_is_no_division() {
    let zero = made("b", Variant::Baseline).metric("drops", "1", &[0.0]).alone();
    let some = made("o", Variant::Scaled).metric("drops", "1", &[3.0]).alone();
    let same = compared(&zero, &zero, &["0%"]);
    assert!(same.within && about(same.metrics[0].error_percent.mean, 0.0));
    let apart = compared(&zero, &some, &["1000000%"]);
    assert!(!apart.within);
    assert_eq!(apart.metrics[0].error_percent.mean, None);
    assert!(serde_json::to_string(&apart).unwrap().contains(r#""error_percent":{"mean":null"#));
}

#[test]
fn repetitions_are_paired_and_the_median_of_their_errors_counts() {
    // The machine drifts by 30 % over the repetitions; each pair drifts together, one of them is out of line.
    let drifts = [(1.0, 1.02), (1.1, 1.1 * 1.03), (1.2, 2.4), (1.3, 1.3 * 1.01), (1.25, 1.25 * 1.02)];
    let base = repeated("baseline", drifts.map(|(base, _)| run("baseline", Variant::Baseline, base)));
    let other = repeated("scaled", drifts.map(|(_, other)| run("scaled", Variant::Scaled, other)));
    let compared = compared(&base, &other, &["2.5%"]);
    let latency = &compared.metrics[0];
    assert_eq!((compared.pairs, latency.pair_error_percent.len(), latency.base.n), (5, 5, 1000));
    assert!(about(latency.error_percent.p50, 2.0), "not the 3 % of the medians: {latency:?}");
    assert!(about(latency.pair_error_percent[2].p50, 100.0));
    assert!(latency.pair_ks_d.len() == 5 && latency.pair_ks_d[2].unwrap() > 0.4, "{:?}", latency.pair_ks_d);
    assert!(latency.ks_d.unwrap() < 0.05, "the median of the pairs: {:?}", latency.pair_ks_d);
    assert_eq!(compared.metrics[1].pair_ks_d, [None; 5]);
    assert!(about(latency.base_spread_percent.unwrap().p50, 100.0 * 0.3 / 1.2), "{:?}", latency.base_spread_percent);
    assert!(about(Some(latency.base.p50), 1.2 * 100.5), "the median run");
    assert!(compared.within);
}

#[test]
fn the_cpu_time_of_nodes_is_compared_pair_by_pair() {
    let runs = |name: &str, used: [f64; 3]| {
        let run = |used| {
            made(name, Variant::Scaled)
                .metric("latency", "ms", &latencies(1.0))
                .node("server", Some(used))
                .node("client", Some(0.1))
                .node("old", None)
        };
        repeated(name, used.map(run))
    };
    let (base, other) = (runs("a", [1.0, 2.0, 4.0]), runs("b", [1.5, 2.2, 4.0]));
    let compared = compare(&base, &other, &[]).unwrap();
    let [server, client, old] = &compared.nodes[..] else { panic!("{:?}", compared.nodes) };
    assert_eq!((server.base_core_seconds, server.other_core_seconds), (Some(2.0), Some(2.2)), "medians");
    assert!(about(server.error_percent, 10.0), "of +50, +10 and 0 %: {server:?}");
    assert_eq!(client.error_percent, Some(0.0));
    assert_eq!((old.base_core_seconds, old.error_percent), (None, None), "a run of an earlier version");
}

/// The difference of the mean of the latencies, and of the rate.
fn differs(base: Run, other: Run, bounds: &[&str]) -> (Difference, Difference) {
    let compared = compared(&base.alone(), &other.alone(), bounds);
    let [latency, requests] = &compared.metrics[..] else { panic!("{compared:?}") };
    (latency.difference.mean.unwrap(), requests.difference.mean.unwrap())
}

#[test]
fn a_difference_is_there_or_not_or_nobody_can_tell() {
    let says = |scale: f64, percent: f64, bounds: &[&str]| {
        let base = run("a", Variant::Baseline, 1.0).known(percent, &[]);
        differs(base, run("b", Variant::Scaled, scale).known(percent, &[]), bounds).0
    };
    let same = says(1.01, 1.0, &[]);
    assert_eq!(same.says, Says::Same);
    let half = 1.01 * 2.0f64.sqrt();
    assert!(about(Some(same.percent), 1.0) && about(Some(same.high), 1.0 + half) && about(Some(same.low), 1.0 - half));
    assert_eq!(says(1.10, 1.0, &[]).says, Says::Different);
    assert_eq!(says(0.90, 1.0, &[]).says, Says::Different, "either way");
    assert_eq!(says(1.04, 3.0, &[]).says, Says::CannotTell, "up to 8 %, or none");
    assert_eq!(says(1.04, 3.0, &["mean=10%"]).says, Says::Same, "where that is near enough");
    assert_eq!(says(1.03, 1.0, &["1%"]).says, Says::Different, "significant, and more than asked for");
    assert_eq!(says(1.03, 1.0, &[]).says, Says::Same, "significant, and no more than asked for");
    let json = serde_json::to_value(says(1.04, 3.0, &[])).unwrap();
    assert_eq!(json["says"], "cannot-tell");
    assert_eq!(Says::CannotTell.to_string(), "cannot tell");
}

#[test]
fn what_models_do_to_both_runs_alike_is_no_difference() {
    let with = |effects: [[f64; 2]; 2], check: CheckName| {
        let [base, other] = effects.map(|range| [(check, range)]);
        let base = run("a", Variant::Baseline, 1.0).known(0.5, &base);
        differs(base, run("b", Variant::Scaled, 1.0).known(0.5, &other), &[]).0
    };
    // One set of caches in both: whatever they do, they do to both.
    assert_eq!(with([[0.0, 8.0], [0.0, 8.0]], CheckName::Caches).says, Says::Same);
    let longer = with([[0.0, 2.0], [0.0, 8.0]], CheckName::Caches);
    assert_eq!(longer.says, Says::CannotTell);
    assert!(longer.low < -6.0 && longer.high < 1.0, "the other may be up to 6 % too slow: {longer:?}");
    // Two runs lose different frames.
    assert_eq!(with([[0.0, 8.0], [0.0, 8.0]], CheckName::RingDrops).says, Says::CannotTell);
    // An effect in one run only explains what is seen, and no more.
    let known = run("b", Variant::Scaled, 1.06).known(0.5, &[(CheckName::Caches, [0.0, 7.0])]);
    let explained = differs(run("a", Variant::Baseline, 1.0).known(0.5, &[]), known, &[]).0;
    assert_eq!(explained.says, Says::CannotTell, "{explained:?}");
    let known = run("b", Variant::Scaled, 1.2).known(0.5, &[(CheckName::Caches, [0.0, 7.0])]);
    assert_eq!(differs(run("a", Variant::Baseline, 1.0).known(0.5, &[]), known, &[]).0.says, Says::Different);
}

#[test]
fn shares_of_another_core_are_told_and_allowed_for() {
    let base = run("a", Variant::Baseline, 1.0).known(0.5, &[]).reference(1000.0);
    let other = |units| run("b", Variant::Scaled, 1.0).known(0.5, &[]).reference(units);
    let alike = compared(&base.clone().alone(), &other(1001.0).alone(), &[]);
    assert!(alike.notes.is_empty() && alike.metrics[0].difference.p50.unwrap().says == Says::Same);
    let slower = compared(&base.alone(), &other(800.0).alone(), &[]);
    assert!(
        slower.notes[0].contains("1000") && slower.notes[0].contains("800") && slower.notes[0].contains("25 % longer")
    );
    let [latency, requests] = [0, 1].map(|i| slower.metrics[i].difference.mean.unwrap());
    assert!(latency.low < -12.0 && latency.high < 1.0, "12.5 % of the time may be the core's: {latency:?}");
    assert!(requests.high > 11.0 && requests.low > -1.0, "and a rate the lower: {requests:?}");
}

#[test]
fn several_pairs_are_surer_than_one_unless_they_are_far_apart() {
    let folder = |errors: &[f64], percent: f64| {
        let runs = |of: &dyn Fn(f64) -> f64, variant| {
            repeated("r", errors.iter().map(|e| run("r", variant, of(*e)).known(percent, &[])).collect::<Vec<_>>())
        };
        let (base, other) = (runs(&|_| 1.0, Variant::Baseline), runs(&|e| 1.0 + e / 100.0, Variant::Scaled));
        compared(&base, &other, &[]).metrics[0].difference.mean.unwrap()
    };
    let one = folder(&[4.0], 3.0);
    let five = folder(&[4.0, 2.0, 6.0, 5.0, 3.0], 3.0);
    assert_eq!((one.says, five.says), (Says::CannotTell, Says::Different), "{one:?} {five:?}");
    let apart = folder(&[-20.0, 4.0, 30.0], 3.0);
    assert_eq!(apart.says, Says::CannotTell);
    assert!(apart.high - apart.low > 40.0, "{apart:?}");
    // A small spread of three is chance: their samples say more.
    let lucky = folder(&[1.0, 1.0, 1.0], 3.0);
    assert!(lucky.high - lucky.low > 4.0, "{lucky:?}");
}

#[test]
fn runs_without_intervals_are_compared_by_their_spread_alone() {
    let single = compared(&run("a", Variant::Baseline, 1.0).alone(), &run("b", Variant::Scaled, 1.5).alone(), &[]);
    assert_eq!((single.metrics[0].difference, single.metrics[0].base_interval), (Differences::default(), None));
    let folder = |variant, scales: [f64; 3]| repeated("r", scales.map(|scale| run("r", variant, scale)));
    let base = folder(Variant::Baseline, [1.0, 1.1, 1.2]);
    let other = folder(Variant::Scaled, [1.1, 1.21 * 1.001, 1.32]);
    assert_eq!(compared(&base, &other, &[]).metrics[0].difference.p50.unwrap().says, Says::Different);
    let zero = made("z", Variant::Baseline).metric("drops", "1", &[0.0]).alone();
    let none = compared(&zero, &zero, &[]).metrics[0].difference.mean.unwrap();
    assert_eq!((none.percent, none.says), (0.0, Says::Same));
}

#[test]
fn a_suspect_run_is_flagged_on_its_side() {
    let base = run("baseline", Variant::Baseline, 1.0).alone();
    let latency = latencies(1.0);
    let mut made = made("scaled", Variant::Scaled).metric("latency", "ms", &latency).metric("requests", "1/s", &[1.0]);
    made.result.fidelity =
        conclude(vec![check(CheckName::Steal, false, "At most, the hypervisor took 3 % of core 0.")]);
    let other = made.alone();
    let compared = compared(&base, &other, &[]);
    assert_eq!(compared.verdicts, [Verdict::Trustworthy, Verdict::Suspect]);
    assert_eq!(compared.suspect.len(), 1);
    assert!(compared.suspect[0].why[0].starts_with("steal: "), "{:?}", compared.suspect);
}

#[test]
fn the_json_has_the_keys_that_scripts_rely_on() {
    let base = run("baseline", Variant::Baseline, 1.0).alone();
    let other = run("scaled", Variant::Scaled, 1.25).alone();
    let json = serde_json::to_value(compared(&base, &other, &["5%"])).unwrap();
    assert_eq!(json["within"], false);
    assert_eq!(json["verdicts"], serde_json::json!(["trustworthy", "trustworthy"]));
    let latency = &json["metrics"][0];
    let keys: Vec<_> = latency.as_object().unwrap().keys().take(6).collect();
    assert_eq!(keys, ["name", "unit", "base", "other", "error_percent", "ks_d"]);
    assert!(latency["difference"]["p90"].is_null(), "a run of a version without intervals");
    for (part, names) in
        [("base", &["n", "mean", "p50", "p90", "p99"][..]), ("error_percent", &["mean", "p50", "p90", "p99"])]
    {
        assert!(names.iter().all(|n| latency[part][n].is_number()), "{latency}");
    }
}

#[test]
fn what_cannot_be_compared_is_said() {
    let base = run("baseline", Variant::Baseline, 1.0).alone();
    let with = |name: &str, change: &dyn Fn(&mut Run)| {
        let latency = latencies(1.0);
        let mut run = made(name, Variant::Scaled).metric("latency", "ms", &latency).metric("requests", "1/s", &[1.0]);
        change(&mut run);
        run.alone()
    };
    let elsewhere = with("elsewhere", &|r| r.result.experiment = "web-busy".into());
    assert!(refused(&base, &elsewhere).contains("only runs of one experiment"));
    let fewer = with("fewer", &|r| drop(r.result.metrics.shift_remove("requests")));
    assert!(refused(&base, &fewer).contains("fewer has no metric `requests`"));
    assert!(refused(&fewer, &base).contains("has a metric `requests`"));
    let units = with("units", &|r| r.result.metrics["latency"].unit = "us".into());
    assert!(refused(&base, &units).contains("metric `latency` is in us in"));
    let none = with("none", &|r| r.result.metrics.clear());
    assert!(refused(&none, &none).contains("there is nothing to compare"));
    let folder = repeated("repeated", [run("1", Variant::Scaled, 1.0)]);
    assert!(refused(&base, &folder).contains("is a single run and"));
}
