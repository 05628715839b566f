//! Requirements: `trustworthy`, `latency.p99<200ms`. Whoever runs an experiment as a test says what must hold.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use record::{MetricRecord, RunResult, Status, Verdict};

use crate::compare::Statistic;
use crate::units::{Kind, kind};
use crate::wording::significant;

/// A condition on a run's results.
#[derive(Clone, Debug, PartialEq)]
pub enum Requirement {
    /// Its verdict is that it is trustworthy.
    Trustworthy,
    /// A number of it is on the right side of a limit.
    Metric(Limit),
}

/// A limit for one number of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    metric: String,
    statistic: Statistic,
    relation: Relation,
    value: f64,
    /// `None`: the metric's own.
    unit: Option<String>,
    /// As it was written.
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Relation {
    Less,
    AtMost,
    More,
    AtLeast,
}

/// How a run stands to a requirement.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The requirement, as it was written.
    pub requirement: String,
    /// Whether the run meets it.
    pub met: bool,
    /// The number, or why there is none.
    pub says: String,
}

/// Longer ones first: `<=` begins like `<`.
const RELATIONS: [(&str, Relation); 4] =
    [("<=", Relation::AtMost), (">=", Relation::AtLeast), ("<", Relation::Less), (">", Relation::More)];

impl Requirement {
    /// Fails if an experiment with these metrics, each with its unit, can never say whether it holds.
    pub fn check<'a>(&self, metrics: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Result<(), String> {
        let Requirement::Metric(limit) = self else { return Ok(()) };
        match metrics.clone().find(|(name, _)| *name == limit.metric) {
            Some((_, unit)) => limit.factor(unit).map(drop),
            None => Err(no_metric(self, &limit.metric, metrics.map(|(name, _)| name))),
        }
    }

    /// How a run stands to it.
    pub fn judge(&self, run: &RunResult) -> Finding {
        let (met, says) = match self {
            _ if run.status == Status::Failed => (false, "the run failed".into()),
            Requirement::Trustworthy => {
                let fidelity = &run.fidelity;
                let why = if fidelity.why.is_empty() { String::new() } else { format!(": {}", fidelity.why.join(" ")) };
                (fidelity.verdict == Verdict::Trustworthy, format!("{}{why}", fidelity.verdict))
            }
            Requirement::Metric(limit) => match run.metrics.get(&limit.metric) {
                Some(metric) => limit.judge(metric),
                None => (false, format!("nothing was measured of {}", limit.metric)),
            },
        };
        Finding { requirement: self.to_string(), met, says }
    }
}

/// Says that an experiment with metrics of these names lacks one that somebody asks for.
pub(crate) fn no_metric<'a>(asked: &dyn fmt::Display, metric: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    let names = if names.is_empty() { "it has none".into() } else { format!("it has {}", names.join(", ")) };
    format!("`{asked}`: the experiment has no metric `{metric}`: {names}")
}

impl Limit {
    /// How many of the metric's units are one of the limit's.
    fn factor(&self, unit: &str) -> Result<f64, String> {
        let Some(own) = self.unit.as_deref().filter(|own| *own != unit) else { return Ok(1.0) };
        match (kind(own), kind(unit)) {
            (Kind::Time { seconds: own }, Kind::Time { seconds }) => Ok(own / seconds),
            _ => Err(format!("`{}`: {} is in {unit}: write the limit in that unit", self.text, self.metric)),
        }
    }

    fn judge(&self, metric: &MetricRecord) -> (bool, String) {
        let factor = match self.factor(&metric.unit) {
            Ok(factor) => factor,
            Err(says) => return (false, says),
        };
        let (value, limit) = (self.statistic.of(&metric.summary), self.value * factor);
        let met = match value.partial_cmp(&limit) {
            Some(Ordering::Less) => matches!(self.relation, Relation::Less | Relation::AtMost),
            Some(Ordering::Greater) => matches!(self.relation, Relation::More | Relation::AtLeast),
            Some(Ordering::Equal) => matches!(self.relation, Relation::AtMost | Relation::AtLeast),
            None => false,
        };
        let told = |v: f64| significant(v, 4);
        let mut says = format!("it is {} {}", told(value), metric.unit);
        if let Some([low, high]) = metric.interval.and_then(|all| self.statistic.in_intervals(&all)) {
            says += &format!(", on the target {} to {}", told(low), told(high));
            if low <= limit && limit <= high {
                says += ": too near to the limit to be sure";
            }
        }
        (met, says)
    }
}

impl FromStr for Requirement {
    type Err = String;

    fn from_str(text: &str) -> Result<Requirement, String> {
        let text = text.trim();
        if text == "trustworthy" {
            return Ok(Requirement::Trustworthy);
        }
        let wrong = || {
            format!(
                "`{text}` is not a requirement: write trustworthy, or a metric, mean, p50, p90 or p99 of it, and a \
                 limit: latency.p99<200ms, requests>=140"
            )
        };
        let at = text.find(['<', '>']).ok_or_else(wrong)?;
        let (what, rest) = text.split_at(at);
        let found = RELATIONS.iter().find_map(|(sign, relation)| Some((*relation, rest.strip_prefix(sign)?)));
        let (relation, limit) = found.ok_or_else(wrong)?;
        let of = what.trim().rsplit_once('.').and_then(|(metric, name)| Some((metric, Statistic::named(name)?)));
        let (metric, statistic) = of.unwrap_or((what.trim(), Statistic::Mean));
        let limit = limit.trim();
        let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-');
        let (number, unit) = limit.split_at(limit.find(|c| !is_of_number(c)).unwrap_or(limit.len()));
        let value = number.parse().ok().filter(|v: &f64| v.is_finite()).ok_or_else(wrong)?;
        if metric.is_empty() || [metric, unit].iter().any(|part| part.contains(['<', '>', '='])) {
            return Err(wrong());
        }
        let unit = Some(unit.trim().to_owned()).filter(|unit| !unit.is_empty());
        Ok(Requirement::Metric(Limit { metric: metric.into(), statistic, relation, value, unit, text: text.into() }))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Requirement::Trustworthy => f.write_str("trustworthy"),
            Requirement::Metric(limit) => f.write_str(&limit.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use record::{Intervals, Summary};

    use super::*;

    const MEASURED: Summary = Summary { n: 40, mean: 120.0, p50: 110.0, p90: 150.0, p99: 190.0 };

    fn met(text: &str, metric: &MetricRecord) -> (bool, String) {
        match text.parse().unwrap() {
            Requirement::Metric(limit) => limit.judge(metric),
            Requirement::Trustworthy => unreachable!("{text} names a metric"),
        }
    }

    #[test]
    fn a_limit_is_held_against_the_statistic_that_it_names() {
        let latency = MetricRecord::new("ms", MEASURED, "metrics/latency.csv");
        for text in
            ["latency.p99<200ms", "latency.p99 < 0.2 s", "latency<=120", "latency.mean>=120ms", "latency.p50>109999us"]
        {
            assert!(met(text, &latency).0, "{text}");
        }
        for text in ["latency.p99<190ms", "latency.p90<0.15s", "latency>120", "latency.p99>=200ms"] {
            assert!(!met(text, &latency).0, "{text}");
        }
        assert_eq!(met("latency.p99<200ms", &latency).1, "it is 190.0 ms");
    }

    #[test]
    fn a_limit_within_the_interval_is_said_to_be_near() {
        let interval = Intervals { p99: Some([170.0, 215.0]), ..Intervals::default() };
        let latency = MetricRecord { interval: Some(interval), ..MetricRecord::new("ms", MEASURED, "x") };
        let (met_, says) = met("latency.p99<200ms", &latency);
        assert!(met_ && says.ends_with("170.0 to 215.0: too near to the limit to be sure"), "{says}");
        assert!(met("latency.p99<220ms", &latency).1.ends_with("170.0 to 215.0"));
    }

    #[test]
    fn metrics_and_units_that_an_experiment_does_not_have_are_refused() {
        let metrics = [("latency", "ms"), ("size.p99", "B"), ("rate", "1/s")];
        let check = |text: &str| text.parse::<Requirement>().unwrap().check(metrics.into_iter());
        for text in ["trustworthy", "latency.p90<2s", "rate>10", "rate>10 1/s", "size.p99.mean<3B"] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        let unknown = check("latencies<2s").unwrap_err();
        assert!(unknown.contains("no metric `latencies`: it has latency, size.p99, rate"), "{unknown}");
        let other = check("rate>10ms").unwrap_err();
        assert!(other.contains("rate is in 1/s"), "{other}");
    }

    #[test]
    fn anything_else_is_no_requirement() {
        for text in
            ["", "latency", "latency<", "<3", "latency<ms", "latency=3ms", "latency<3<4", "latency<inf", "latency=<3"]
        {
            let error = text.parse::<Requirement>().unwrap_err();
            assert!(error.contains("latency.p99<200ms"), "{text}: {error}");
        }
    }
}
