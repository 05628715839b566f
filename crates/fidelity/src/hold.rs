//! Bounds relative to a smaller run: `latency.p90=5%`. Who makes an experiment larger says what must stay as it was.

use std::fmt;
use std::str::FromStr;

use record::{CheckName, RunResult, Status};

use crate::compare::{Bound, Statistic};
use crate::require::no_metric;
use crate::wording::significant;

/// A number of a metric, and how far it may be from what it was in a reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Hold {
    metric: String,
    statistic: Statistic,
    /// At most so far, either way, per cent.
    percent: f64,
    text: String,
}

impl Hold {
    /// Fails if an experiment with metrics of these names has none of this one.
    pub fn check<'a>(&self, metrics: impl Iterator<Item = &'a str> + Clone) -> Result<(), String> {
        match metrics.clone().any(|name| name == self.metric) {
            true => Ok(()),
            false => Err(no_metric(self, &self.metric, metrics)),
        }
    }

    /// The number that it is about, in the metric's unit; `None` if the run failed or measured nothing of it.
    pub fn value(&self, run: &RunResult) -> Option<f64> {
        let metric = run.metrics.get(&self.metric).filter(|_| run.status == Status::Ok)?;
        Some(self.statistic.of(&metric.summary)).filter(|value| value.is_finite())
    }

    /// Whether a run holds it against the reference's number, and a sentence on that.
    pub fn judge(&self, reference: f64, run: &RunResult) -> (bool, String) {
        let Some(value) = self.value(run) else {
            return (false, format!("nothing was measured of {}", self.metric));
        };
        let off = 100.0 * (value - reference) / reference.abs();
        // A reference of 0 is held by 0 alone.
        let met = value == reference || off.abs() <= self.percent;
        let unit = run.metrics.get(&self.metric).map_or("", |metric| &metric.unit);
        let told = |v: f64| significant(v, 4);
        let by = if off.is_finite() { format!(" ({off:+.1} %)") } else { String::new() };
        (met, format!("{}.{} is {} {unit}{by}", self.metric, self.statistic.as_str(), told(value)))
    }
}

impl FromStr for Hold {
    type Err = String;

    fn from_str(text: &str) -> Result<Hold, String> {
        let wrong = || "write it as METRIC=5%, or METRIC.p90=5% (mean, p50, p90, p99)".to_owned();
        let (what, percent) = text.rsplit_once('=').ok_or_else(wrong)?;
        let (metric, statistic) = match what.rsplit_once('.') {
            Some((metric, name)) => (metric, Statistic::named(name).ok_or_else(wrong)?),
            None => (what, Statistic::Mean),
        };
        let Bound { percent, .. } = percent.parse().map_err(|_| wrong())?;
        match metric.is_empty() {
            true => Err(wrong()),
            false => Ok(Hold { metric: metric.into(), statistic, percent, text: text.into() }),
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// The check whose effect on some metric is the largest, with that effect in per cent; `None` if none has any.
pub fn largest_effect(run: &RunResult) -> Option<(CheckName, f64)> {
    let of_metrics = run.metrics.values().filter_map(|metric| metric.uncertainty.as_ref());
    let all = of_metrics.flat_map(|uncertainty| &uncertainty.effects);
    let sizes = all.map(|effect| (effect.check, effect.percent[0].abs().max(effect.percent[1].abs())));
    sizes.filter(|(_, percent)| *percent > 0.0).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The part of the machine whose want a check shows.
pub fn resource(check: CheckName) -> &'static str {
    match check {
        CheckName::EmulatorLateness | CheckName::RingDrops | CheckName::ForeignLoadHarness | CheckName::Monitor => {
            "the harness core"
        }
        CheckName::CpuEntitlement
        | CheckName::Parallelism
        | CheckName::CoreSpeed
        | CheckName::ClockLead
        | CheckName::Steal
        | CheckName::Observation
        | CheckName::ForeignLoadNodes => "the nodes' core",
        CheckName::Caches => "the nodes' core's caches",
        CheckName::ClockRate => "the machine's clock",
        CheckName::KernelTimers | CheckName::KernelSettings => "the kernel's own time",
        CheckName::Disk => "the disks",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_and_told() {
        let hold: Hold = "latency.p90=5%".parse().unwrap();
        assert_eq!((hold.statistic, hold.percent, hold.to_string().as_str()), (Statistic::P90, 5.0, "latency.p90=5%"));
        assert_eq!("requests=2.5 %".parse::<Hold>().unwrap().statistic, Statistic::Mean);
        for wrong in ["latency", "latency=5", "latency.p95=5%", "=5%", "latency=-1%", "latency=NaN%", "latency=inf%"] {
            assert!(wrong.parse::<Hold>().is_err(), "{wrong}");
        }
        let unknown = hold.check(["requests", "errors"].into_iter()).unwrap_err();
        assert!(unknown.contains("no metric `latency`: it has requests, errors"), "{unknown}");
    }
}
