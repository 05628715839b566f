//! What the scaled runs should reach, and the judgement: met, missed, or not measurable on this machine.

use fidelity::compare::{Comparison, MetricComparison, Statistic};
use serde::Serialize;

use crate::failure::Failure;

/// A baseline that is further apart from itself than this, in percent, measures nothing.
pub const MEASURABLE_SPREAD: f64 = 4.0;

/// What of a metric is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Of {
    /// The median of the paired errors of a statistic, in percent; its size counts.
    Error(Statistic),
    /// The median of the pairs' Kolmogorov–Smirnov distances.
    Ks,
}

/// A bound on one figure of one experiment.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    pub metric: &'static str,
    pub of: Of,
    /// An upper bound for scaled runs, a lower one for naive ones.
    pub bound: f64,
}

/// The goals of the scaled runs of an experiment.
pub fn scaled(experiment: &str) -> Vec<Goal> {
    let error = |metric, statistic, bound| Goal { metric, of: Of::Error(statistic), bound };
    match experiment {
        "web-busy" => vec![error("requests", Statistic::Mean, 5.0)],
        "web-half" => vec![
            error("latency", Statistic::P50, 10.0),
            error("latency", Statistic::P90, 10.0),
            Goal { metric: "latency", of: Of::Ks, bound: 0.1 },
        ],
        "web-net" => vec![error("requests", Statistic::Mean, 5.0), error("latency", Statistic::P50, 5.0)],
        _ => Vec::new(),
    }
}

/// How wrong naive runs must be, for the experiment to show anything.
pub fn naive(experiment: &str) -> Vec<Goal> {
    let error = |metric, statistic| Goal { metric, of: Of::Error(statistic), bound: 30.0 };
    match experiment {
        "web-busy" => vec![error("requests", Statistic::Mean)],
        "web-half" => vec![error("latency", Statistic::P50)],
        _ => Vec::new(),
    }
}

/// A judged figure, in the form of `diorama bench --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// `web-half scaled latency p50 error`; the bound of a name that ends in `_rate` is a lower one.
    pub name: String,
    /// The paired errors, and the baseline's own spread in percent.
    pub params: serde_json::Value,
    /// The size of the median error, or the distance.
    pub value: f64,
    pub unit: &'static str,
    /// What the baseline measured.
    pub reference: f64,
    pub error_percent: Option<f64>,
    pub goal: f64,
    /// `None`: not measurable here.
    pub ok: Option<bool>,
}

/// Judges one goal.
pub fn judge(experiment: &str, variant: &str, goal: &Goal, comparison: &Comparison) -> Result<Figure, Failure> {
    let missing =
        || Failure::failed(format!("{experiment} as {variant} has no figure for {} {:?}", goal.metric, goal.of));
    let metric = comparison.metrics.iter().find(|m| m.name == goal.metric).ok_or_else(missing)?;
    let statistic = match goal.of {
        Of::Error(statistic) => statistic,
        Of::Ks => Statistic::P50,
    };
    let error = metric.error_percent.get(statistic);
    let (value, unit, what) = match goal.of {
        Of::Error(statistic) => (error.ok_or_else(missing)?.abs(), "%", format!("{} error", statistic.as_str())),
        Of::Ks => (metric.ks_d.ok_or_else(missing)?, "", "KS d".to_string()),
    };
    let spread = spread(metric, goal.of);
    // That naive runs are far off needs no fine measure: only a goal that asks for closeness does.
    let lower = variant == "naive";
    let measurable = lower || spread.is_some_and(|s| s <= MEASURABLE_SPREAD);
    let met = if lower { value >= goal.bound } else { value <= goal.bound };
    let suffix = if lower { "_rate" } else { "" };
    Ok(Figure {
        name: format!("{experiment} {variant} {} {what}{suffix}", goal.metric),
        params: serde_json::json!({
            "pairs": comparison.pairs,
            "pair_error_percent": metric.pair_error_percent.iter().map(|p| p.get(statistic)).collect::<Vec<_>>(),
            "base_spread_percent": spread,
        }),
        value,
        unit,
        reference: statistic.of(&metric.base),
        error_percent: error,
        goal: goal.bound,
        ok: measurable.then_some(met),
    })
}

/// The baseline's own spread, of the statistic itself; a distribution is as steady as its median.
fn spread(metric: &MetricComparison, of: Of) -> Option<f64> {
    let statistic = match of {
        Of::Error(statistic) => statistic,
        Of::Ks => Statistic::P50,
    };
    metric.base_spread_percent?.get(statistic)
}

/// One line for a person.
pub fn line(figure: &Figure) -> String {
    let pairs = figure.params["pair_error_percent"].as_array().into_iter().flatten();
    let pairs: Vec<String> = pairs.map(|p| p.as_f64().map_or("-".into(), |p| format!("{p:+.1}"))).collect();
    let spread = figure.params["base_spread_percent"].as_f64();
    let spread = spread.map_or("unknown (one run)".into(), |s| format!("{s:.1} %"));
    let sense = if figure.name.ends_with("_rate") { "at least" } else { "at most" };
    let judgement = match figure.ok {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => "not measurable here",
    };
    let (name, value, unit, goal) = (&figure.name, figure.value, figure.unit, figure.goal);
    let pairs = pairs.join(" ");
    format!(
        "{name}: {value:.2} {unit} ({sense} {goal} {unit}): {judgement}; pairs {pairs} %; baseline's spread {spread}"
    )
}

#[cfg(test)]
mod tests {
    use fidelity::compare::Statistics;
    use fidelity::record::Verdict;
    use fidelity::samples::Summary;

    use super::*;

    fn comparison(error: f64, spread: Option<f64>, ks: f64) -> Comparison {
        let all = |v| Statistics { mean: Some(v), p50: Some(v), p90: Some(v), p99: Some(v) };
        let summary = Summary { n: 9, mean: 1.0, p50: 1.0, p90: 1.0, p99: 1.0 };
        let metric = MetricComparison {
            name: "latency".into(),
            unit: "ms".into(),
            base: summary,
            other: summary,
            error_percent: all(error),
            ks_d: Some(ks),
            pair_error_percent: vec![all(error)],
            base_spread_percent: spread.map(all),
            outside: vec![],
        };
        let verdicts = [Verdict::Trustworthy; 2];
        Comparison { within: true, metrics: vec![metric], verdicts, pairs: 1, suspect: vec![] }
    }

    #[test]
    fn an_unsteady_baseline_judges_nothing() {
        let goal = Goal { metric: "latency", of: Of::Error(Statistic::P50), bound: 10.0 };
        let ok = |error, spread| judge("web-half", "scaled", &goal, &comparison(error, spread, 0.0)).unwrap().ok;
        assert_eq!(ok(-9.0, Some(3.9)), Some(true));
        assert_eq!(ok(-11.0, Some(3.9)), Some(false), "an error counts by its size");
        assert_eq!(ok(0.0, Some(4.1)), None);
        assert_eq!(ok(0.0, None), None, "a single run has no spread");
    }

    #[test]
    fn distances_and_naive_runs_have_their_own_sense() {
        let ks = Goal { metric: "latency", of: Of::Ks, bound: 0.1 };
        let figure = judge("web-half", "scaled", &ks, &comparison(90.0, Some(1.0), 0.08)).unwrap();
        assert_eq!((figure.value, figure.ok), (0.08, Some(true)));
        let wrong = naive("web-half")[0];
        let figure = judge("web-half", "naive", &wrong, &comparison(29.0, Some(9.0), 1.0)).unwrap();
        assert!(figure.name.ends_with("_rate") && figure.ok == Some(false), "{figure:?}");
        assert!(line(&figure).contains("at least 30 %") && line(&figure).contains("MISSED"), "{}", line(&figure));
    }
}
