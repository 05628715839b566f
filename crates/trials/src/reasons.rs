//! Why a run is suspect, in five words.

use record::{CheckName, Fidelity, MetricRecord, RunResult, Verdict};
use report::Statistic;

/// Chance.
const SAMPLES: &str = "too few samples for that";
/// No check was made.
const UNCHECKED: &str = "nothing was checked at all";

/// The check that moves a run's figures furthest, of what they may be off; `None` if it is trustworthy.
pub fn of(run: &RunResult) -> Option<&'static str> {
    let fidelity = &run.fidelity;
    if fidelity.verdict == Verdict::Trustworthy {
        return None;
    }
    let unsized_breach = fidelity.breaches().find(|check| check.effect_percent.is_none());
    if let Some(check) = unsized_breach {
        return Some(words(check.name));
    }
    let measured = run.metrics.values().flat_map(|metric| weights(metric, fidelity));
    let heaviest = measured.filter(|(weight, _)| weight.is_finite()).max_by(|a, b| a.0.total_cmp(&b.0));
    let breach = || fidelity.breaches().next().map(|check| words(check.name));
    Some(heaviest.map(|(_, why)| why).or_else(breach).unwrap_or(UNCHECKED))
}

/// How far each thing moves a metric, in terms of how far it may be moved.
fn weights(metric: &MetricRecord, fidelity: &Fidelity) -> Vec<(f64, &'static str)> {
    let (Some(uncertainty), Some(accuracy)) = (&metric.uncertainty, &fidelity.accuracy_percent) else {
        return Vec::new();
    };
    let size = |[low, high]: [f64; 2]| low.abs().max(high.abs());
    let mut all = Vec::new();
    for statistic in Statistic::ALL {
        let tail = matches!(statistic, Statistic::P90 | Statistic::P99);
        let (sampling, allowed) = match statistic {
            Statistic::Mean => (uncertainty.sampling.mean, accuracy.mean),
            Statistic::P50 => (uncertainty.sampling.p50, accuracy.p50),
            Statistic::P90 => (uncertainty.sampling.p90, accuracy.p90),
            Statistic::P99 => (uncertainty.sampling.p99, accuracy.p99),
        };
        // A figure that is not stated is not judged either.
        let Some([low, high]) = sampling else { continue };
        let value = statistic.of(&metric.summary).abs();
        all.push((100.0 * (high - low) / 2.0 / value / allowed, SAMPLES));
        for effect in &uncertainty.effects {
            let percent = if tail { effect.tail_percent.unwrap_or(effect.percent) } else { effect.percent };
            all.push((size(percent) / allowed, words(effect.check)));
        }
    }
    all
}

fn words(check: CheckName) -> &'static str {
    match check {
        CheckName::EmulatorLateness => "frames were delivered too late",
        CheckName::RingDrops => "frames lost outside all links",
        CheckName::ClockRate => "the clock's rate was off",
        CheckName::CpuEntitlement => "a node got another share",
        CheckName::Parallelism => "threads got too few CPUs",
        CheckName::CoreSpeed => "the core's speed changed much",
        CheckName::ClockLead => "frames carried a late clock",
        CheckName::Steal => "the hypervisor took CPU time",
        CheckName::ForeignLoadNodes => "others used the nodes' core",
        CheckName::ForeignLoadHarness => "others used the harness core",
        CheckName::Monitor => "nodes were looked at too often",
        CheckName::Observation => "counting calls took CPU time",
        CheckName::KernelTimers => "timers in real time fired",
        CheckName::KernelSettings => "programs set times in real time",
        CheckName::Caches => "caches were cold each slice",
        CheckName::Disk => "requests to disks were late",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A suspect run of one metric, with 50 ± `sampling` ms in every statistic.
    fn run(sampling: f64, effects: Value, checks: Value) -> RunResult {
        let ends = [50.0 - sampling, 50.0 + sampling];
        let intervals = json!({"mean": ends, "p50": ends, "p90": null, "p99": null});
        let latency = json!({
            "unit": "ms", "n": 9, "mean": 50.0, "p50": 50.0, "p90": 50.0, "p99": 50.0, "file": "x",
            "interval": intervals,
            "uncertainty": {"sampling": intervals, "effects": effects, "cpu_sensitivity": 1.0},
        });
        let accuracy = json!({"mean": 5, "p50": 5, "p90": 10, "p99": 20});
        serde_json::from_value(json!({
            "experiment": "web", "variant": "scaled", "tdf": 10, "scaling_factor": 1, "status": "ok", "why": null,
            "virtual_seconds": 10.0, "real_seconds": 10.0, "nodes": {}, "metrics": {"latency": latency},
            "fidelity": {"verdict": "suspect", "accuracy_percent": accuracy, "checks": checks},
        }))
        .unwrap()
    }

    fn check(name: &str, ok: bool, effect: Option<f64>) -> Value {
        json!({"name": name, "value": 1.0, "limit": null, "unit": "%", "ok": ok, "effect_percent": effect, "says": ""})
    }

    #[test]
    fn five_words_each() {
        let checks = "emulator-lateness ring-drops clock-rate cpu-entitlement parallelism core-speed clock-lead steal \
                      foreign-load-nodes foreign-load-harness kernel-timers caches disk";
        let checks: Vec<CheckName> =
            checks.split_whitespace().map(|name| serde_json::from_value(json!(name)).unwrap()).collect();
        for says in checks.into_iter().map(words).chain([SAMPLES, UNCHECKED]) {
            assert_eq!(says.split(' ').count(), 5, "{says}");
        }
    }

    #[test]
    fn what_moves_the_figures_most_is_the_reason() {
        let effects = json!([{"check": "steal", "percent": [0.0, 3.0]}, {"check": "caches", "percent": [-4.0, 1.0]}]);
        assert_eq!(of(&run(1.0, effects.clone(), json!([]))), Some(words(CheckName::Caches)));
        assert_eq!(of(&run(4.0, effects.clone(), json!([]))), Some(SAMPLES), "8 % by chance");
        let quota = json!([check("caches", false, Some(-4.0)), check("clock-lead", false, None)]);
        assert_eq!(of(&run(4.0, effects, quota)), Some(words(CheckName::ClockLead)), "of unknown size");
    }

    #[test]
    fn runs_without_metrics_have_a_reason_too() {
        let mut bare = run(1.0, json!([]), json!([check("steal", false, Some(7.0))]));
        bare.metrics.clear();
        assert_eq!(of(&bare), Some(words(CheckName::Steal)));
        bare.fidelity.checks.clear();
        assert_eq!(of(&bare), Some(UNCHECKED));
        bare.fidelity.verdict = Verdict::Trustworthy;
        assert_eq!(of(&bare), None);
    }
}
