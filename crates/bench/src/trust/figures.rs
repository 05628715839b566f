//! Figures of two runs that can be compared.

use std::path::Path;

use fidelity::accuracy;
use fidelity::compare::{self, Statistic};
use record::{MetricRecord, Run, Series, Verdict};

use super::tally::Figure;
use crate::Error;

/// The verdict of the run in `tested`, and every statistic for which both runs state an interval; of a metric with a
/// single sample its value alone.
pub(super) fn of(reference: &Path, tested: &Path) -> Result<(Verdict, Vec<Figure>), Error> {
    let [reference, tested] = [reference, tested].map(|dir| Series::open(dir).map_err(Error::failed));
    let (reference, tested) = (reference?, tested?);
    let compared = compare::compare(&reference, &tested, &[]).map_err(Error::failed)?;
    let (reference, tested) = (reference.first(), tested.first());
    let mut figures = Vec::new();
    for metric in &compared.metrics {
        let statistics = if metric.base.n == 1 { &[Statistic::Mean][..] } else { &Statistic::ALL };
        for statistic in statistics {
            figures.extend(figure(*statistic, metric, reference, tested));
        }
    }
    Ok((tested.result.fidelity.verdict, figures))
}

fn figure(statistic: Statistic, metric: &compare::MetricComparison, reference: &Run, tested: &Run) -> Option<Figure> {
    let record = |run: &Run| run.result.metrics.get(&metric.name).cloned();
    let difference = metric.difference.get(statistic)?;
    let asked = tested.result.fidelity.accuracy_percent.unwrap_or_else(|| accuracy::accuracy(&[]));
    Some(Figure {
        name: if metric.base.n == 1 { metric.name.clone() } else { format!("{} {statistic}", metric.name) },
        error: difference.percent,
        difference: [difference.low, difference.high],
        half_width: half_width(statistic, &record(tested)?)?,
        reference_half_width: half_width(statistic, &record(reference)?)?,
        accuracy: accuracy::asked(&asked, statistic),
    })
}

/// Half of what a run states of a statistic, per cent of its value.
fn half_width(statistic: Statistic, metric: &MetricRecord) -> Option<f64> {
    let [low, high] = statistic.in_intervals(&metric.interval?)?;
    let value = statistic.of(&metric.summary);
    (value > 0.0).then(|| 100.0 * (high - low) / 2.0 / value)
}

#[cfg(test)]
mod tests {
    use record::{RunDir, RunResult, Sample, Variant};
    use serde_json::{Value, json};

    use super::*;

    /// Writes a run with ten latencies around `middle`, of which median and mean are stated to ± 2 %, and one rate.
    fn written(dir: &Path, variant: Variant, middle: f64) {
        let directory = RunDir::prepare(dir, []).unwrap();
        let sample = |value: f64| Sample { virtual_s: None, value, node: "client".into() };
        let latencies: Vec<Sample> = (0..10).map(|n| sample(middle + f64::from(n) - 4.5)).collect();
        directory.write_samples("latency", &latencies).unwrap();
        directory.write_samples("requests", &[sample(1000.0 / middle)]).unwrap();
        let metric = |name: &str, unit: &str, n: usize, value: f64, p90: Value| {
            let ends = json!([value * 0.98, value * 1.02]);
            let intervals = json!({"mean": ends, "p50": ends, "p90": p90, "p99": null});
            json!({"unit": unit, "n": n, "mean": value, "p50": value, "p90": value, "p99": value,
                   "file": format!("metrics/{name}.csv"), "interval": intervals,
                   "uncertainty": {"sampling": intervals, "effects": [], "cpu_sensitivity": 1.0}})
        };
        let latency = metric("latency", "ms", 10, middle, Value::Null);
        let rate = 1000.0 / middle;
        let requests = metric("requests", "1/s", 1, rate, json!([rate * 0.98, rate * 1.02]));
        let result: RunResult = serde_json::from_value(json!({
            "experiment": "web", "variant": variant, "tdf": 1, "scaling_factor": 1, "status": "ok", "why": null,
            "virtual_seconds": 10.0, "real_seconds": 10.0, "nodes": {},
            "metrics": {"latency": latency, "requests": requests},
            "fidelity": {"verdict": "trustworthy", "checks": [],
                         "accuracy_percent": {"mean": 3, "p50": 4, "p90": 5, "p99": 6}},
        }))
        .unwrap();
        directory.write_result(&result).unwrap();
    }

    #[test]
    fn what_both_runs_state_is_compared() {
        let temp = tempfile::tempdir().unwrap();
        let [base, scaled] = ["base", "scaled"].map(|name| temp.path().join(name));
        [&base, &scaled].iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
        written(&base, Variant::Baseline, 50.0);
        written(&scaled, Variant::Scaled, 60.0);
        let (verdict, figures) = of(&base, &scaled).unwrap();
        assert_eq!(verdict, Verdict::Trustworthy);
        let names: Vec<&str> = figures.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["latency mean", "latency p50", "requests"], "no p90, and one value of a rate");
        assert_eq!(figures.iter().map(|f| f.accuracy).collect::<Vec<_>>(), [3.0, 4.0, 3.0], "of the tested run");
        let mean = &figures[0];
        assert!((mean.error - 20.0).abs() < 1e-9 && (mean.half_width - 2.0).abs() < 1e-9, "{mean:?}");
        assert!(mean.difference[0] > 0.0 && mean.difference[1] > 20.0, "{mean:?}");
    }
}
