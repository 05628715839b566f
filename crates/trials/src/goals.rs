//! Goals of the scaled runs, and the judgement: met, missed, or not measurable on this machine.

use report::{Comparison, MetricComparison, Statistic};
use scale::Tdf;
use serde::Serialize;

use crate::failure::Failure;

/// A median of pairs is known to about two thirds of how far the baselines are apart: a bound that is less than that is
/// too fine for them.
const SPREAD_PER_BOUND: f64 = 1.5;
/// The largest spread for judging a distance of distributions, per cent of the median.
const SPREAD_FOR_DISTANCE: f64 = 4.0;

/// The factor for which the goals are. Runs at a larger one may be off by twice as much.
pub const TDF: u64 = 10;

/// The figure of a metric that is judged.
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

/// The goals of the scaled runs of an experiment at this factor.
pub fn scaled(experiment: &str, tdf: Tdf) -> Vec<Goal> {
    let allowance = if Tdf::new(TDF, 1).is_ok_and(|usual| tdf > usual) { 2.0 } else { 1.0 };
    let error = |metric, statistic, bound: f64| Goal { metric, of: Of::Error(statistic), bound: bound * allowance };
    match experiment {
        "tls" | "web-net" => vec![
            error("requests", Statistic::Mean, 2.0),
            error("latency", Statistic::P50, 5.0),
            error("latency", Statistic::P90, 5.0),
        ],
        "web-half" => vec![
            error("latency", Statistic::P50, 5.0),
            error("latency", Statistic::P90, 10.0),
            Goal { metric: "latency", of: Of::Ks, bound: 0.1 * allowance },
        ],
        "web-busy" => vec![error("requests", Statistic::Mean, 8.0)],
        _ => Vec::new(),
    }
}

/// How wrong naive runs must be, for the experiment to show anything.
pub fn naive(experiment: &str) -> Vec<Goal> {
    let error = |metric, statistic| Goal { metric, of: Of::Error(statistic), bound: 30.0 };
    match experiment {
        "web-busy" | "tls" => vec![error("requests", Statistic::Mean)],
        "web-half" => vec![error("latency", Statistic::P50)],
        _ => Vec::new(),
    }
}

/// A judged figure, in the form of `diorama bench --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// `web-half scaled latency p50 error`; the bound of a name that ends in `_rate` is a lower one.
    pub name: String,
    /// The pairs' errors or distances, and the baseline's own spread in percent.
    pub params: serde_json::Value,
    /// The size of the median error, or the median distance.
    pub value: f64,
    pub unit: &'static str,
    /// The baseline's value; 0, its distance from itself, where a distance is judged.
    pub reference: f64,
    /// `None` for a distance.
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
    let error = |statistic| metric.error_percent.get(statistic).ok_or_else(missing);
    let (value, unit, what) = match goal.of {
        Of::Error(statistic) => (error(statistic)?.abs(), "%", format!("{} error", statistic.as_str())),
        Of::Ks => (metric.ks_d.ok_or_else(missing)?, "", "KS d".to_string()),
    };
    let (reference, error_percent) = match goal.of {
        Of::Error(statistic) => (statistic.of(&metric.base), Some(error(statistic)?)),
        Of::Ks => (0.0, None),
    };
    let (key, pairs): (_, Vec<Option<f64>>) = match goal.of {
        Of::Error(statistic) => {
            ("pair_error_percent", metric.pair_error_percent.iter().map(|p| p.get(statistic)).collect())
        }
        Of::Ks => ("pair_ks_d", metric.pair_ks_d.clone()),
    };
    let spread = spread(metric, goal.of);
    // That naive runs are far off needs no fine measure: only a goal that asks for closeness does.
    let lower = variant == "naive";
    let finest = match goal.of {
        Of::Error(_) => SPREAD_PER_BOUND * goal.bound,
        Of::Ks => SPREAD_FOR_DISTANCE,
    };
    let measurable = lower || spread.is_some_and(|s| s <= finest);
    let met = if lower { value >= goal.bound } else { value <= goal.bound };
    let suffix = if lower { "_rate" } else { "" };
    Ok(Figure {
        name: format!("{experiment} {variant} {} {what}{suffix}", goal.metric),
        params: serde_json::json!({
            "pairs": comparison.pairs,
            key: pairs,
            "base_spread_percent": spread,
        }),
        value,
        unit,
        reference,
        error_percent,
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
    let pairs = |key: &str, show: &dyn Fn(f64) -> String| {
        let pairs = figure.params[key].as_array()?.iter();
        Some(pairs.map(|p| p.as_f64().map_or("-".into(), show)).collect::<Vec<_>>().join(" "))
    };
    let distances = pairs("pair_ks_d", &|d| format!("{d:.3}"));
    let errors = || pairs("pair_error_percent", &|e| format!("{e:+.1}")).map(|errors| errors + " %");
    let pairs = distances.or_else(errors).unwrap_or_default();
    let spread = figure.params["base_spread_percent"].as_f64();
    let spread = spread.map_or("unknown (one run)".into(), |s| format!("{s:.1} %"));
    let sense = if figure.name.ends_with("_rate") { "at least" } else { "at most" };
    let judgement = match figure.ok {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => "not measurable here",
    };
    let (name, value, goal) = (&figure.name, figure.value, figure.goal);
    let (digits, unit) = if figure.unit.is_empty() { (3, String::new()) } else { (2, format!(" {}", figure.unit)) };
    format!(
        "{name}: {value:.digits$}{unit} ({sense} {goal}{unit}): {judgement}; pairs {pairs}; baseline's spread {spread}"
    )
}

#[cfg(test)]
mod tests {
    use fidelity::compare::Differences;
    use record::{Summary, Verdict};
    use report::Statistics;

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
            pair_ks_d: vec![Some(ks)],
            base_spread_percent: spread.map(all),
            base_interval: None,
            other_interval: None,
            difference: Differences::default(),
            outside: vec![],
        };
        let verdicts = [Verdict::Trustworthy; 2];
        let (metrics, nodes) = (vec![metric], vec![]);
        Comparison {
            within: true,
            metrics,
            nodes,
            programs: vec![],
            network: None,
            network_because: None,
            verdicts,
            pairs: 1,
            suspect: vec![],
            notes: vec![],
        }
    }

    #[test]
    fn an_unsteady_baseline_judges_nothing() {
        let goal = Goal { metric: "latency", of: Of::Error(Statistic::P50), bound: 10.0 };
        let ok = |error, spread| judge("web-half", "scaled", &goal, &comparison(error, spread, 0.0)).unwrap().ok;
        assert_eq!(ok(-9.0, Some(14.9)), Some(true));
        assert_eq!(ok(-11.0, Some(14.9)), Some(false), "an error counts by its size");
        assert_eq!(ok(0.0, Some(15.1)), None);
        assert_eq!(ok(0.0, None), None, "a single run has no spread");
    }

    #[test]
    fn larger_factors_may_be_off_by_twice_as_much() {
        for experiment in ["web-busy", "web-half", "web-net", "tls"] {
            let bounds =
                |tdf: &str| scaled(experiment, tdf.parse().unwrap()).iter().map(|goal| goal.bound).collect::<Vec<_>>();
            assert!(!bounds("10").is_empty(), "{experiment} has goals");
            assert_eq!(bounds("10").iter().map(|b| b * 2.0).collect::<Vec<_>>(), bounds("50"));
        }
    }

    #[test]
    fn distances_and_naive_runs_have_their_own_sense() {
        let ks = Goal { metric: "latency", of: Of::Ks, bound: 0.1 };
        let figure = judge("web-half", "scaled", &ks, &comparison(90.0, Some(1.0), 0.08)).unwrap();
        assert_eq!((figure.value, figure.ok, figure.error_percent), (0.08, Some(true), None));
        assert_eq!(figure.params["pair_ks_d"], serde_json::json!([0.08]), "not the errors of the median");
        let said = "KS d: 0.080 (at most 0.1): met; pairs 0.080; baseline's spread 1.0 %";
        assert!(line(&figure).ends_with(said), "{}", line(&figure));
        let wrong = naive("web-half")[0];
        let figure = judge("web-half", "naive", &wrong, &comparison(29.0, Some(9.0), 1.0)).unwrap();
        assert!(figure.name.ends_with("_rate") && figure.ok == Some(false), "{figure:?}");
        let said = "29.00 % (at least 30 %): MISSED; pairs +29.0 %; baseline's spread 9.0 %";
        assert!(line(&figure).ends_with(said), "{}", line(&figure));
    }
}
