//! How far one run, or a series of them, is from another.
//!
//! The error of a statistic is `100 (other − base) / base`, signed. Runs of two `--repeat` folders are paired by their
//! numbers: paired runs were made one after the other, so what drifts on the machine between pairs cancels. What is
//! reported is the *median of the paired errors*, with each pair's own, and the base's own *spread*: `100 (max − min) /
//! median` over its runs. Whether an error is one, or chance, or what the models are known to do, the *difference*
//! says.

mod bounds;
mod calls;
mod chance;
mod difference;
mod network;
mod nodes;

pub use bounds::{Bound, Statistic};
pub use calls::{CallComparison, LIGHTEST, ProgramComparison, StepComparison};
pub use chance::NO_CHANCE;
pub use difference::{Difference, Says};
pub use network::{Measure, NetworkComparison, WayComparison};
pub use nodes::{NodeComparison, busiest};
use record::{Intervals, Run, Series, Summary, Variant, Verdict};
use serde::Serialize;

use crate::accuracy::{accuracy, asked};
use crate::statistics::{ks_distance, median};

/// Why two series cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Incomparable(String);

/// One series against another: `diorama compare --json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Whether all bounds hold; true if there is none.
    pub within: bool,
    /// In the order of the base's metrics.
    pub metrics: Vec<MetricComparison>,
    /// In the order of the base's nodes.
    pub nodes: Vec<NodeComparison>,
    /// Programs whose system calls both counted, those first that differ most.
    pub programs: Vec<ProgramComparison>,
    /// Packets of nodes; `None` if a run did not observe any.
    pub network: Option<NetworkComparison>,
    /// Why there is nothing of packets, if so.
    pub network_because: Option<String>,
    /// Of base and other; suspect if any of their runs is.
    pub verdicts: [Verdict; 2],
    /// How many pairs of runs were compared.
    pub pairs: usize,
    /// Which runs are suspect, and why.
    pub suspect: Vec<Suspect>,
    /// The notes for a reader, a sentence each.
    pub notes: Vec<String>,
}

/// A run that should not be believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Suspect {
    /// The run's directory.
    pub run: String,
    /// The reasons, a sentence each.
    pub why: Vec<String>,
}

/// One metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricComparison {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The base. Of several runs: the median of each statistic, and all samples counted.
    pub base: Summary,
    /// The other, likewise.
    pub other: Summary,
    /// The error; of several pairs, the median of theirs.
    pub error_percent: Statistics,
    /// The Kolmogorov–Smirnov distance; of several pairs, the median of theirs. `None` if a run has a single sample.
    pub ks_d: Option<f64>,
    /// Each pair's error, in the order of the pairs.
    pub pair_error_percent: Vec<Statistics>,
    /// Each pair's Kolmogorov–Smirnov distance, likewise; `None` if a run of the pair has a single sample.
    pub pair_ks_d: Vec<Option<f64>>,
    /// The base's own spread; `None` for a single run.
    pub base_spread_percent: Option<Statistics>,
    /// Where the target's own values lie by the base, and
    pub base_interval: Option<Intervals>,
    /// by the other; of several runs, the medians of the ends.
    pub other_interval: Option<Intervals>,
    /// Whether the two differ, by all that is known of both.
    pub difference: Differences,
    /// The bounds that do not hold.
    pub outside: Vec<Outside>,
}

/// A bound that does not hold; in JSON, the sentence alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Outside {
    /// The quantity that it bounds.
    pub statistic: Statistic,
    /// How far off that is, in a sentence.
    pub says: String,
}

impl From<Outside> for String {
    fn from(outside: Outside) -> String {
        outside.says
    }
}

/// The statement on each statistic, if anything can be said.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ByStatistic<T> {
    /// Bound of the mean.
    pub mean: Option<T>,
    /// Bound of the median.
    pub p50: Option<T>,
    /// Bound of the 90th percentile.
    pub p90: Option<T>,
    /// Bound of the 99th percentile.
    pub p99: Option<T>,
}

/// A percentage per statistic; `None` where it would be infinite, because the base is zero and the other is not.
pub type Statistics = ByStatistic<f64>;

/// A difference per statistic; `None` where nothing can be said.
pub type Differences = ByStatistic<Difference>;

impl<T: Copy> ByStatistic<T> {
    /// The one asked for.
    pub fn get(&self, statistic: Statistic) -> Option<T> {
        match statistic {
            Statistic::Mean => self.mean,
            Statistic::P50 => self.p50,
            Statistic::P90 => self.p90,
            Statistic::P99 => self.p99,
        }
    }
}

impl<T> ByStatistic<T> {
    fn each(of: impl FnMut(Statistic) -> Option<T>) -> ByStatistic<T> {
        let [mean, p50, p90, p99] = Statistic::ALL.map(of);
        ByStatistic { mean, p50, p90, p99 }
    }
}

impl<T> Default for ByStatistic<T> {
    /// Nothing is said of any.
    fn default() -> ByStatistic<T> {
        ByStatistic::each(|_| None)
    }
}

/// Compares `other` with `base`.
pub fn compare(base: &Series, other: &Series, bounds: &[Bound]) -> Result<Comparison, Incomparable> {
    let pairs = pair(base, other)?;
    let measured = |name: &&String| other.first().result.metrics.contains_key(*name);
    let metrics = base.first().result.metrics.keys().filter(measured);
    let metrics: Vec<_> = metrics.map(|name| compare_metric(base, other, &pairs, name, bounds)).collect();
    let suspect = [base, other].into_iter().flat_map(|series| series.runs.values()).filter_map(suspect).collect();
    let (network, network_because) = match network::compare(base, other) {
        Ok(network) => (Some(network), None),
        Err(because) => (None, Some(because)),
    };
    Ok(Comparison {
        within: metrics.iter().all(|m| m.outside.is_empty()),
        metrics,
        nodes: nodes::compare(&pairs),
        programs: calls::compare(&all(base), &all(other)),
        network,
        network_because,
        verdicts: [base.verdict(), other.verdict()],
        pairs: pairs.len(),
        suspect,
        notes: difference::note(&pairs).into_iter().collect(),
    })
}

fn all(series: &Series) -> Vec<&Run> {
    series.runs.values().collect()
}

/// The runs that belong together; all of them measure the same things. A program on a plain machine measures nothing,
/// and may be beside any run.
fn pair<'a>(base: &'a Series, other: &'a Series) -> Result<Vec<(&'a Run, &'a Run)>, Incomparable> {
    let [b, o] = [base, other].map(|s| s.path.display());
    let [first, second] = [base, other].map(|s| &s.first().result);
    let apart = |what: String| Err(Incomparable(what));
    let is_plain = |series: &Series| series.first().result.variant == Variant::Observed;
    if is_plain(base) || is_plain(other) {
        if base.first().calls.is_empty() || other.first().calls.is_empty() {
            return apart(format!(
                "{b} or {o} has no system calls, and without an experiment nothing else can be compared: write \
                 `observe: {{ calls: true }}` at the node, and run it again"
            ));
        }
        return Ok(base.runs.values().zip(other.runs.values()).collect());
    }
    if first.experiment != second.experiment {
        return apart(format!(
            "{b} is a run of `{}` and {o} one of `{}`: only runs of one experiment can be compared",
            first.experiment, second.experiment
        ));
    }
    if !base.runs.keys().eq(other.runs.keys()) {
        let list = |s: &Series| match s.runs.keys().map(u32::to_string).collect::<Vec<_>>() {
            single if single == ["0"] => "a single run".to_string(),
            several => format!("the runs {}", several.join(", ")),
        };
        return apart(format!(
            "{b} is {} and {o} is {}: runs are paired by their numbers, so both must have the same",
            list(base),
            list(other)
        ));
    }
    let pairs: Vec<_> = base.runs.values().zip(other.runs.values()).collect();
    for run in base.runs.values().chain(other.runs.values()) {
        let dir = run.dir.path().display();
        for (name, metric) in &first.metrics {
            let Some(its) = run.result.metrics.get(name) else {
                return apart(format!("{dir} has no metric `{name}`, {b} has"));
            };
            if its.unit != metric.unit {
                return apart(format!("metric `{name}` is in {} in {dir} and in {} in {b}", its.unit, metric.unit));
            }
        }
        if let Some(name) = run.result.metrics.keys().find(|name| !first.metrics.contains_key(*name)) {
            return apart(format!("{dir} has a metric `{name}`, {b} has not"));
        }
    }
    let both = |has: fn(&Run) -> bool| has(base.first()) && has(other.first());
    if first.metrics.is_empty() && !both(|run| !run.calls.is_empty()) && !both(|run| run.packets.is_some()) {
        return apart(format!("{b} has no metrics, so there is nothing to compare: name some in the experiment"));
    }
    Ok(pairs)
}

fn compare_metric(
    base: &Series,
    other: &Series,
    pairs: &[(&Run, &Run)],
    name: &str,
    bounds: &[Bound],
) -> MetricComparison {
    let summary = |run: &Run| run.result.metrics[name].summary;
    let pair_error_percent: Vec<_> =
        pairs.iter().map(|(b, o)| Statistics::each(|s| error_percent(s.of(&summary(b)), s.of(&summary(o))))).collect();
    let error_percent = Statistics::each(|s| {
        // One infinite error in the middle would make the median meaningless; in any place it is no small error.
        median(pair_error_percent.iter().map(|e| e.get(s)).collect::<Option<_>>()?)
    });
    let pair_ks_d: Vec<_> = pairs.iter().map(|(b, o)| ks_distance(&b.samples[name], &o.samples[name])).collect();
    let distances: Option<Vec<f64>> = pair_ks_d.iter().copied().collect();
    let spread = |s: Statistic| {
        let values: Vec<f64> = base.runs.values().map(|run| s.of(&summary(run))).collect();
        let (low, high) = values.iter().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
        let middle = median(values)?;
        if high == low { Some(0.0) } else { Some(100.0 * (high - low) / middle.abs()).filter(|v| v.is_finite()) }
    };
    let mut compared = MetricComparison {
        name: name.to_string(),
        unit: base.first().result.metrics[name].unit.clone(),
        base: middle(base, name),
        other: middle(other, name),
        error_percent,
        ks_d: distances.and_then(median),
        pair_error_percent,
        pair_ks_d,
        base_spread_percent: (base.runs.len() > 1).then(|| Statistics::each(spread)),
        base_interval: interval(base, name),
        other_interval: interval(other, name),
        difference: difference::differences(pairs, name, |s| asked(&accuracy(bounds), s)),
        outside: Vec::new(),
    };
    compared.outside = bounds.iter().flat_map(|bound| bound.breaches(&compared)).collect();
    compared
}

/// The median of each statistic over the runs of a series, with all samples counted.
fn middle(series: &Series, name: &str) -> Summary {
    let of = |s: Statistic| {
        let values = series.runs.values().map(|run| s.of(&run.result.metrics[name].summary)).collect();
        median(values).expect("a series is never empty")
    };
    let [mean, p50, p90, p99] = Statistic::ALL.map(of);
    Summary { n: series.runs.values().map(|r| r.result.metrics[name].summary.n).sum(), mean, p50, p90, p99 }
}

/// The median of each end of each interval over the runs of a series, where all of them state it.
fn interval(series: &Series, name: &str) -> Option<Intervals> {
    let runs: Vec<Intervals> = series.runs.values().map(|r| r.result.metrics[name].interval).collect::<Option<_>>()?;
    let of = |s: Statistic| {
        let all: Vec<[f64; 2]> = runs.iter().map(|i| s.in_intervals(i)).collect::<Option<_>>()?;
        let end = |index: usize| median(all.iter().map(|ends| ends[index]).collect());
        Some([end(0)?, end(1)?])
    };
    let [mean, p50, p90, p99] = Statistic::ALL.map(of);
    Some(Intervals { mean, p50, p90, p99 })
}

fn error_percent(base: f64, other: f64) -> Option<f64> {
    if base == other { Some(0.0) } else { Some(100.0 * (other - base) / base).filter(|v| v.is_finite()) }
}

fn suspect(run: &Run) -> Option<Suspect> {
    let fidelity = &run.result.fidelity;
    (fidelity.verdict == Verdict::Suspect)
        .then(|| Suspect { run: run.dir.path().display().to_string(), why: fidelity.reasons() })
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
