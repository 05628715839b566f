//! Runs that are made up: ordinary ones, and one whose every name tries to become markup.

use std::path::{Path, PathBuf};

use fidelity::conclude;
use fidelity::statistics::summary;
use indexmap::IndexMap;
use record::plan::{Congestion, Cores, PipeValues, PlannedNode, PlannedPipe};
use record::{
    Check, CheckName, Ended, Event, Intervals, MetricEffect, MetricRecord, NodeInterval, NodeOutcome, Plan, Run,
    RunDir, RunResult, Sample, Samples, Series, SpeedInterval, Status, Uncertainty, Variant,
};

pub const HOSTILE: &str = "</title><script>alert(1)</script><img src=x onerror='alert(2)'>\"&amp;";

/// Two hundred samples, in ms.
pub fn latencies(scale: f64) -> Vec<f64> {
    (1..=200).map(|i| scale * f64::from(i)).collect()
}

/// A check with made-up figures.
pub fn check(name: CheckName, ok: bool, says: &str) -> Check {
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

/// A trustworthy run with these latencies and one sample of requests, whose nodes used a core for so many seconds.
pub fn run(name: &str, variant: Variant, latencies: &[f64], nodes: &[(&str, Option<f64>)]) -> Run {
    let mut result = RunResult {
        experiment: "web-half".into(),
        variant,
        tdf: "1".parse().unwrap(),
        scaling_factor: 1.0,
        status: Status::Ok,
        why: None,
        virtual_seconds: 10.0,
        real_seconds: 10.0,
        metrics: IndexMap::new(),
        nodes: IndexMap::new(),
        fidelity: conclude(vec![check(CheckName::ClockLead, true, "Clocks were near.")]),
    };
    let mut samples = IndexMap::new();
    for (metric, unit, values) in [("latency", "ms", latencies.to_vec()), ("requests", "1/s", vec![800.0])] {
        let of_metric = Samples::new(values).unwrap();
        let file = format!("metrics/{metric}.csv");
        let record = MetricRecord::new(unit, summary(&of_metric).unwrap(), file);
        result.metrics.insert(metric.into(), record);
        samples.insert(metric.into(), of_metric);
    }
    for (node, core_seconds) in nodes {
        let outcome = NodeOutcome { exit: Some(0), ended: Ended::Exited, core_seconds: *core_seconds };
        result.nodes.insert(node.to_string(), outcome);
    }
    Run { dir: record::RunDir::at(name), result, samples, calls: IndexMap::new(), packets: None }
}

/// The run, of which it is known that each statistic is right within so many per cent.
pub fn known(mut run: Run, percent: f64) -> Run {
    for record in run.result.metrics.values_mut() {
        let of = |v: f64| Some([v * (1.0 - percent / 100.0), v * (1.0 + percent / 100.0)]);
        let s = record.summary;
        let sampling = Intervals { mean: of(s.mean), p50: of(s.p50), p90: of(s.p90), p99: of(s.p99) };
        record.interval = Some(sampling);
        record.uncertainty = Some(Uncertainty { sampling, effects: Vec::new(), cpu_sensitivity: 0.5 });
    }
    run
}

/// These runs, numbered from 0.
pub fn series<const N: usize>(name: &str, runs: [Run; N]) -> Series {
    Series { path: name.into(), runs: (0..).zip(runs).collect() }
}

/// Writes a run to `dir` whose every name is hostile.
pub fn hostile_run(dir: &Path, shift: f64) -> PathBuf {
    let run = RunDir::prepare(dir, []).unwrap();
    let values: Vec<f64> = (0..300).map(|i| 10.0 + shift + f64::from(i % 70)).collect();
    let rows: Vec<_> = values.iter().map(|v| Sample { virtual_s: None, value: *v, node: HOSTILE.into() }).collect();
    let file = run.write_samples("m", &rows).unwrap();
    let summary = summary(&Samples::new(values).unwrap()).unwrap();
    let check = Check {
        name: CheckName::Steal,
        value: Some(1.0),
        limit: Some(2.0),
        unit: HOSTILE.into(),
        ok: Some(true),
        effect_percent: Some(0.5),
        effect_range_percent: Some([0.0, 0.5]),
        says: HOSTILE.into(),
    };
    let of = |v: f64| Some([v - 1.0, v + 1.0]);
    let interval = Intervals { mean: of(summary.mean), p50: of(summary.p50), p90: None, p99: None };
    let effect = MetricEffect { check: CheckName::Steal, percent: [0.0, 0.5], tail_percent: None };
    let uncertainty = Uncertainty { sampling: interval, effects: vec![effect], cpu_sensitivity: 1.0 };
    let metric = MetricRecord {
        interval: Some(interval),
        uncertainty: Some(uncertainty),
        ..MetricRecord::new(HOSTILE, summary, file)
    };
    let result = RunResult {
        experiment: HOSTILE.into(),
        variant: Variant::Scaled,
        tdf: "10".parse().unwrap(),
        scaling_factor: 10.0,
        status: Status::Ok,
        why: Some(HOSTILE.into()),
        virtual_seconds: 10.0,
        real_seconds: 100.0,
        metrics: IndexMap::from([(HOSTILE.to_string(), metric)]),
        nodes: IndexMap::from([(
            HOSTILE.to_string(),
            NodeOutcome { exit: Some(0), ended: Ended::Exited, core_seconds: Some(2.0 + shift) },
        )]),
        fidelity: conclude(vec![check]),
    };
    run.write_result(&result).unwrap();
    let event = |virtual_s, event: &str| Event {
        virtual_s: Some(virtual_s),
        real_s: 10.0 * virtual_s,
        event: event.into(),
        target: Some(HOSTILE.into()),
        detail: serde_json::json!({ HOSTILE: HOSTILE }),
    };
    let mut log = run.event_log().unwrap();
    log.write(&event(0.0, "start")).unwrap();
    log.write(&event(5.0, HOSTILE)).unwrap();
    let mut log = run.speed_log().unwrap();
    for (virtual_s, percent) in [(0.0, 80.0), (1.0, 100.0)] {
        let (units_per_us, percent_of_reference) = (Some(8.0 * percent), Some(percent));
        let speed = SpeedInterval { virtual_s, core: 0, units_per_us, percent_of_reference, k: 1.2, capped: 0.0 };
        log.add(&speed).unwrap();
    }
    log.flush().unwrap();
    let mut log = run.node_log(1 << 20).unwrap();
    for from_s in [0.0, 5.0] {
        let used = NodeInterval { from_s, to_s: from_s + 5.0, node: "<b>", ..NodeInterval::default() };
        log.add(&NodeInterval { cpus: Some(0.5), memory_bytes: Some(50 << 20), bytes_in: 6_250_000, ..used }).unwrap();
    }
    log.flush().unwrap();
    let pipe = |mbit: f64| PipeValues {
        bits_per_s: Some(mbit * 1e6),
        delay_s: 0.01,
        queue_packets: Some(100),
        ..PipeValues::default()
    };
    let node = PlannedNode {
        core: 0,
        whole_cores: Vec::new(),
        cpus: 1,
        share: 0.05,
        memory_bytes: 268435456,
        addresses: vec!["10.0.0.1".parse().unwrap()],
        cpu_clock_divisor: 1.0,
        congestion: Congestion::Cubic,
        disk: None,
    };
    let planned = PlannedPipe { ends: None, target: pipe(100.0), harness: pipe(10.0), mtu: 1500, tso: true };
    let plan = Plan {
        processes: None,
        experiment: HOSTILE.into(),
        variant: Variant::Scaled,
        tdf: result.tdf,
        scaling_factor: 1.0,
        cores: Cores { nodes: vec![0], harness: vec![1] },
        sold: 0.05,
        timeslice: None,
        cpu: None,
        nodes: IndexMap::from([(HOSTILE.into(), node)]),
        pipes: IndexMap::from([(HOSTILE.into(), planned)]),
        versions: [(HOSTILE.to_string(), HOSTILE.to_string())].into(),
        warnings: Vec::new(),
    };
    run.write_plan(&plan).unwrap();
    dir.to_owned()
}

/// No tag or attribute of the hostile name survived, and nothing is fetched from anywhere.
pub fn assert_harmless(html: &str) {
    for forbidden in ["<script", "<img", "alert(1)</", "onerror='", "http://", "https://", "src=\"", "url("] {
        assert!(!html.contains(forbidden), "{forbidden} in the page");
    }
    for tag in ["title", "main", "table", "svg", "details", "figure"] {
        assert_eq!(html.matches(&format!("<{tag}")).count(), html.matches(&format!("</{tag}>")).count(), "<{tag}>");
    }
}
