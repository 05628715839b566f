//! Comparisons of runs made up on disk, as `diorama compare` reads them.

use std::fs;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use record::{Ended, MetricRecord, NodeOutcome, RunDir, RunResult, Sample, Samples, Status, Variant};

use super::*;
use crate::checks::{cpu_grain, steal};
use crate::conclude;
use crate::statistics::summary;
use crate::watch::Worst;

/// A run directory under construction.
struct Made {
    dir: PathBuf,
    result: RunResult,
}

fn made(dir: PathBuf, variant: Variant) -> Made {
    RunDir::prepare(&dir, []).unwrap();
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
        fidelity: conclude(vec![cpu_grain(&crate::checks::Grain::Slots(Some(scale::RealDuration::from_nanos(
            100_000,
        ))))]),
    };
    Made { dir, result }
}

impl Made {
    fn metric(mut self, name: &str, unit: &str, values: &[f64]) -> Made {
        let rows: Vec<_> = values.iter().map(|v| Sample { virtual_s: None, value: *v, node: "c".into() }).collect();
        let file = RunDir::at(&self.dir).write_samples(name, &rows).unwrap();
        let summary = summary(&Samples::new(values.to_vec()).unwrap()).unwrap();
        self.result.metrics.insert(name.into(), MetricRecord { unit: unit.into(), summary, file });
        self
    }

    fn node(mut self, name: &str, core_seconds: Option<f64>) -> Made {
        let outcome = NodeOutcome { exit: Some(0), ended: Ended::Exited, core_seconds };
        self.result.nodes.insert(name.into(), outcome);
        self
    }

    fn write(self) -> PathBuf {
        RunDir::at(&self.dir).write_result(&self.result).unwrap();
        self.dir
    }
}

fn latencies(scale: f64) -> Vec<f64> {
    (1..=200).map(|i| scale * f64::from(i)).collect()
}

fn run(parent: &Path, name: &str, variant: Variant, scale: f64) -> PathBuf {
    made(parent.join(name), variant)
        .metric("latency", "ms", &latencies(scale))
        .metric("requests", "1/s", &[800.0 / scale])
        .write()
}

fn compared(base: &Path, other: &Path, bounds: &[&str]) -> Comparison {
    let bounds: Vec<Bound> = bounds.iter().map(|b| b.parse().unwrap()).collect();
    compare(&Series::open(base).unwrap(), &Series::open(other).unwrap(), &bounds).unwrap()
}

fn refused(base: &Path, other: &Path) -> String {
    let open = |path| Series::open(path).map_err(Error::from);
    open(base).and_then(|base| compare(&base, &open(other)?, &[])).unwrap_err().to_string()
}

fn about(value: Option<f64>, expected: f64) -> bool {
    value.is_some_and(|v| (v - expected).abs() < 1e-6)
}

#[test]
fn errors_are_signed_and_relative_to_the_base() {
    let dir = tempfile::tempdir().unwrap();
    let base = run(dir.path(), "baseline", Variant::Baseline, 1.0);
    let slow = run(dir.path(), "scaled", Variant::Scaled, 1.25);
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
    let dir = tempfile::tempdir().unwrap();
    let base = made(dir.path().join("b"), Variant::Baseline).metric("x", "ms", &[10.0, 10.0, 10.0]).write();
    let tail = made(dir.path().join("o"), Variant::Scaled).metric("x", "ms", &[10.0, 10.0, 10.9]).write();
    // mean +3 %, p50 0 %, p90 and p99 +9 %.
    assert!(compared(&base, &tail, &["3.1%"]).within);
    assert!(!compared(&base, &tail, &["2.9%"]).within, "the mean");
    assert!(compared(&base, &tail, &["p50=0%"]).within);
    assert!(!compared(&base, &tail, &["5%", "p90=8%"]).within, "all bounds must hold");
    assert!(compared(&base, &tail, &["5%", "p90=10%"]).within);
    assert!(!compared(&tail, &base, &["p99=8%"]).within, "either way");
    let outside = &compared(&base, &tail, &["p90=8%"]).metrics[0].outside;
    assert_eq!(outside, &["x p90 is +9.00 % off, more than 8 %"]);
}

#[test]
fn a_base_of_zero_is_no_division() {
    let dir = tempfile::tempdir().unwrap();
    let zero = made(dir.path().join("b"), Variant::Baseline).metric("drops", "1", &[0.0]).write();
    let some = made(dir.path().join("o"), Variant::Scaled).metric("drops", "1", &[3.0]).write();
    let same = compared(&zero, &zero, &["0%"]);
    assert!(same.within && about(same.metrics[0].error_percent.mean, 0.0));
    let apart = compared(&zero, &some, &["1000000%"]);
    assert!(!apart.within);
    assert_eq!(apart.metrics[0].error_percent.mean, None);
    assert!(serde_json::to_string(&apart).unwrap().contains(r#""error_percent":{"mean":null"#));
}

#[test]
fn repetitions_are_paired_and_the_median_of_their_errors_counts() {
    let dir = tempfile::tempdir().unwrap();
    let (base, other) = (dir.path().join("baseline"), dir.path().join("scaled"));
    // The machine drifts by 30 % over the repetitions; each pair drifts together, one of them is out of line.
    for (n, (b, o)) in
        [(1.0, 1.02), (1.1, 1.1 * 1.03), (1.2, 2.4), (1.3, 1.3 * 1.01), (1.25, 1.25 * 1.02)].into_iter().enumerate()
    {
        run(&base, &(n + 1).to_string(), Variant::Baseline, b);
        run(&other, &(n + 1).to_string(), Variant::Scaled, o);
    }
    fs::create_dir(base.join("notes")).unwrap();
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
    let dir = tempfile::tempdir().unwrap();
    let runs = |name: &str, used: [f64; 3]| {
        for (n, used) in used.into_iter().enumerate() {
            made(dir.path().join(name).join(n.to_string()), Variant::Scaled)
                .metric("latency", "ms", &latencies(1.0))
                .node("server", Some(used))
                .node("client", Some(0.1))
                .node("old", None)
                .write();
        }
        Series::open(&dir.path().join(name)).unwrap()
    };
    let (base, other) = (runs("a", [1.0, 2.0, 4.0]), runs("b", [1.5, 2.2, 4.0]));
    let compared = compare(&base, &other, &[]).unwrap();
    let [server, client, old] = &compared.nodes[..] else { panic!("{:?}", compared.nodes) };
    assert_eq!((server.base_core_seconds, server.other_core_seconds), (Some(2.0), Some(2.2)), "medians");
    assert!(about(server.error_percent, 10.0), "of +50, +10 and 0 %: {server:?}");
    assert_eq!(client.error_percent, Some(0.0));
    assert_eq!((old.base_core_seconds, old.error_percent), (None, None), "a run of an earlier version");
    let text = table(&base, &[(&other, &compared)]);
    let row = text.lines().find(|l| l.starts_with("CPU of ")).unwrap();
    let shown: Vec<_> = row.split_whitespace().collect();
    assert_eq!(shown, ["CPU", "of", "server", "core", "s", "2.000", "2.200", "+10.0", "%"]);
    assert!(!text.contains("CPU of client"), "it did little: {text}");
}

#[test]
fn a_suspect_run_is_flagged_on_its_side() {
    let dir = tempfile::tempdir().unwrap();
    let base = run(dir.path(), "baseline", Variant::Baseline, 1.0);
    let mut made = made(dir.path().join("scaled"), Variant::Scaled).metric("latency", "ms", &latencies(1.0)).metric(
        "requests",
        "1/s",
        &[1.0],
    );
    let at = scale::VirtualInstant::ZERO;
    let stolen = Worst { value: 3.0, whose: Some("core 0".into()), from: at, to: at };
    made.result.fidelity = conclude(vec![steal(Some(&stolen))]);
    let other = made.write();
    let compared = compared(&base, &other, &[]);
    assert_eq!(compared.verdicts, [Verdict::Trustworthy, Verdict::Suspect]);
    assert_eq!(compared.suspect.len(), 1);
    assert!(compared.suspect[0].why[0].starts_with("steal: "), "{:?}", compared.suspect);
    let (b, o) = (Series::open(&base).unwrap(), Series::open(&other).unwrap());
    let text = table(&b, &[(&o, &compared)]);
    assert!(text.contains("scaled: suspect") && text.contains("steal: At most, the hypervisor took 3 %"), "{text}");
}

#[test]
fn the_json_is_the_contracts() {
    let dir = tempfile::tempdir().unwrap();
    let base = run(dir.path(), "baseline", Variant::Baseline, 1.0);
    let other = run(dir.path(), "scaled", Variant::Scaled, 1.25);
    let json = serde_json::to_value(compared(&base, &other, &["5%"])).unwrap();
    assert_eq!(json["within"], false);
    assert_eq!(json["verdicts"], serde_json::json!(["trustworthy", "trustworthy"]));
    let latency = &json["metrics"][0];
    let keys: Vec<_> = latency.as_object().unwrap().keys().take(6).collect();
    assert_eq!(keys, ["name", "unit", "base", "other", "error_percent", "ks_d"]);
    for (part, names) in
        [("base", &["n", "mean", "p50", "p90", "p99"][..]), ("error_percent", &["mean", "p50", "p90", "p99"])]
    {
        assert!(names.iter().all(|n| latency[part][n].is_number()), "{latency}");
    }
}

#[test]
fn what_cannot_be_compared_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let base = run(dir.path(), "baseline", Variant::Baseline, 1.0);
    let with =
        |name: &str, change: &dyn Fn(&mut RunResult)| {
            let mut made = made(dir.path().join(name), Variant::Scaled)
                .metric("latency", "ms", &latencies(1.0))
                .metric("requests", "1/s", &[1.0]);
            change(&mut made.result);
            made.write()
        };
    let failed = with("failed", &|r| (r.status, r.why) = (Status::Failed, Some("node web-1 exited with 1".into())));
    assert!(refused(&base, &failed).contains("failed: this run failed, so its numbers mean nothing: node web-1"));
    let elsewhere = with("elsewhere", &|r| r.experiment = "web-busy".into());
    assert!(refused(&base, &elsewhere).contains("only runs of one experiment"));
    let fewer = with("fewer", &|r| drop(r.metrics.shift_remove("requests")));
    assert!(refused(&base, &fewer).contains("fewer has no metric `requests`"));
    assert!(refused(&fewer, &base).contains("has a metric `requests`"));
    let units = with("units", &|r| r.metrics["latency"].unit = "us".into());
    assert!(refused(&base, &units).contains("metric `latency` is in us in"));
    let none = with("none", &|r| r.metrics.clear());
    assert!(refused(&none, &none).contains("there is nothing to compare"));
    let miscounted = with("miscounted", &|r| r.metrics["latency"].summary.n = 3);
    assert!(refused(&base, &miscounted).contains("holds 200 samples, but result.json counts 3"));
    let sampleless = with("sampleless", &|_| ());
    fs::remove_file(sampleless.join("metrics/latency.csv")).unwrap();
    assert!(refused(&base, &sampleless).contains("latency.csv: cannot read"));
    assert!(refused(&base, &dir.path().join("absent")).contains("there is no such directory"));
    assert!(refused(&base, &dir.path().join("fewer/metrics")).contains("holds no result.json"));
    let folder = dir.path().join("repeated");
    run(&folder, "1", Variant::Scaled, 1.0);
    assert!(refused(&base, &folder).contains("is a single run and"));
    run(&folder, "2", Variant::Naive, 1.0);
    assert!(refused(&folder, &folder).contains("holds runs of one kind"));
}

#[test]
fn one_table_holds_several_variants() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name, variant, scale| Series::open(&run(dir.path(), name, variant, scale)).unwrap();
    let base = open("baseline", Variant::Baseline, 1.0);
    let (scaled, naive) = (open("scaled", Variant::Scaled, 1.02), open("naive", Variant::Naive, 2.0));
    let comparisons = [&scaled, &naive].map(|o| compare(&base, o, &["5%".parse().unwrap()]).unwrap());
    let text = table(&base, &[(&scaled, &comparisons[0]), (&naive, &comparisons[1])]);
    let head = text.lines().find(|l| l.starts_with("metric")).unwrap();
    assert_eq!(
        head.split_whitespace().collect::<Vec<_>>(),
        ["metric", "unit", "baseline", "scaled", "error", "naive", "error"]
    );
    let mean = text.lines().find(|l| l.starts_with("latency")).unwrap();
    assert_eq!(
        mean.split_whitespace().collect::<Vec<_>>(),
        ["latency", "ms", "mean", "100.5", "102.5", "+2.0", "%", "201.0", "+100.0", "%"]
    );
    assert!(text.contains("outside: naive: latency mean is +100.00 % off, more than 5 %"), "{text}");
    assert_eq!(text.matches("\nrequests").count(), 1, "a metric of one sample has one row: {text}");
}

#[test]
fn figures_have_four_digits() {
    let shown = [0.0, 1.0, 1234.5, 99999.0, 0.012345, -7.25, 1e9, 1e-7].map(figure);
    assert_eq!(shown, ["0", "1.000", "1234", "99999", "0.01235", "-7.250", "1.000e9", "1.000e-7"]);
}
