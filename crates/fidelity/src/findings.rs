//! The findings of the checks, and what follows from them for each metric and for the run: intervals and the verdict.

mod metric;
mod why;

use record::{Accuracy, Check, CheckName, CoreSpeed, Fidelity, MetricRecord, Sample, Verdict};

use self::metric::Metric;
use crate::accuracy::{accuracy, asked};
use crate::checks::Found;
use crate::compare::Statistic;
use crate::effects::{Change, Effect, Usage, furthest, is_known};
use crate::links::Bottleneck;

/// A check before it is known what it does to the metrics.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub name: CheckName,
    pub value: Option<f64>,
    pub limit: Option<f64>,
    pub unit: &'static str,
    pub found: Found,
    pub says: String,
}

impl Finding {
    fn effects(&self) -> &[Effect] {
        match &self.found {
            Found::Effects(effects) => effects,
            Found::Nothing | Found::Unsized => &[],
        }
    }
}

/// The findings of all checks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    findings: Vec<Finding>,
    usage: Usage,
    core_speed: Option<CoreSpeed>,
}

/// A metric of a run whose interval is to be found.
#[derive(Debug)]
pub struct Measured<'a> {
    /// Its name.
    pub name: &'a str,
    /// The record of it; interval and its parts are filled in.
    pub record: &'a mut MetricRecord,
    /// Its samples.
    pub samples: &'a [Sample],
    /// Whether the run is judged by it.
    pub judged: bool,
    /// Whether it is a rate of what happens at instants of its own, however long everything takes (an open loop).
    pub clocked: bool,
    /// The link that decides what its nodes get done, if one does.
    pub link: Option<Bottleneck>,
}

/// The effect of one check on times where that matters most.
struct Worst {
    range: [f64; 2],
    /// As a multiple of what may be.
    of_allowed: f64,
}

impl Findings {
    pub(crate) fn new(findings: Vec<Finding>, usage: Usage, core_speed: Option<CoreSpeed>) -> Findings {
        Findings { findings, usage, core_speed }
    }

    /// Fills in the intervals of all metrics, and judges the run by them. Samples count that were taken from … to …
    /// virtual s (`window`).
    pub fn conclude(&self, asked_for: Accuracy, window: [f64; 2], metrics: &mut [Measured]) -> Fidelity {
        let subjects = metric::all(&self.usage, window, metrics);
        let changes: Vec<Vec<Change>> = subjects.iter().map(|metric| self.changes(metric)).collect();
        let none = Metric::none();
        let of_none = self.changes(&none);
        let mut judged: Vec<(&Metric, &[Change])> = Vec::new();
        for ((metric, changes), measured) in subjects.iter().zip(&changes).zip(&*metrics) {
            if measured.judged {
                judged.push((metric, changes));
            }
        }
        let without_metrics = judged.is_empty();
        if without_metrics {
            judged.push((&none, &of_none));
        }
        let mut why = Vec::new();
        let mut checks = Vec::new();
        for (number, finding) in self.findings.iter().enumerate() {
            let felt = judged.iter().map(|(metric, changes)| (*metric, changes[number]));
            checks.push(check(finding, felt, &asked_for));
            if finding.found == Found::Unsized {
                why.push(format!("{}: nobody can say what this does to the metrics: {}", finding.name, finding.says));
            }
        }
        for ((metric, changes), measured) in subjects.iter().zip(&changes).zip(metrics.iter_mut()) {
            let of_value = self.named(changes).map(|(name, change)| (name, change.of_value(metric.kind)));
            metric.fill(&self.usage, measured.record, &of_value.collect::<Vec<_>>());
            if measured.judged {
                why.extend(why::of_metric(measured.name, measured.record, &asked_for));
            }
        }
        if without_metrics {
            let changes: Vec<_> = self.named(&of_none).collect();
            why.extend(why::without_metrics(&changes, asked_for.mean));
        }
        if checks.iter().all(|c| c.ok.is_none()) {
            why.push(NOTHING_CHECKED.into());
        }
        let verdict = if why.is_empty() { Verdict::Trustworthy } else { Verdict::Suspect };
        Fidelity { verdict, accuracy_percent: Some(asked_for), why, core_speed: self.core_speed, checks }
    }

    /// The effect of each finding on the times that a metric depends on.
    fn changes(&self, metric: &Metric) -> Vec<Change> {
        let of = |finding: &Finding| {
            let changes = finding.effects().iter().map(|effect| metric.change(&self.usage, effect));
            changes.fold(Change::default(), Change::plus).or_not_known()
        };
        self.findings.iter().map(of).collect()
    }

    /// Such changes with the names of the checks.
    fn named(&self, changes: &[Change]) -> impl Iterator<Item = (CheckName, Change)> {
        self.findings.iter().zip(changes).map(|(finding, change)| (finding.name, *change))
    }
}

/// The record of a finding, which changes times of these metrics.
fn check<'a>(finding: &Finding, felt: impl Iterator<Item = (&'a Metric, Change)>, asked_for: &Accuracy) -> Check {
    let mut worst = Worst { range: [0.0; 2], of_allowed: 0.0 };
    for (metric, times) in felt {
        let values = times.of_value(metric.kind);
        let stated = metric.stated().map(|s| match s {
            Statistic::Mean | Statistic::P50 => (times.centre, values.centre, asked(asked_for, s)),
            Statistic::P90 | Statistic::P99 => (times.tail, values.tail, asked(asked_for, s)),
        });
        for (times, values, allowed) in stated {
            let of_allowed = furthest(values).abs() / allowed;
            // Not a number is no proof of anything.
            if of_allowed > worst.of_allowed || of_allowed.is_nan() {
                worst = Worst { range: times, of_allowed };
            }
        }
    }
    let Finding { name, value, limit, unit, found, mut says } = finding.clone();
    let (ok, range) = match found {
        Found::Nothing => (None, None),
        Found::Unsized => (Some(false), None),
        Found::Effects(_) if !is_known(worst.range) => {
            says += " How large a part of an operation that is cannot be said.";
            (Some(false), None)
        }
        Found::Effects(_) => (Some(worst.of_allowed <= 1.0), Some(worst.range)),
    };
    Check {
        name,
        value,
        limit,
        unit: unit.into(),
        ok,
        effect_percent: range.map(furthest),
        effect_range_percent: range,
        says,
    }
}

const NOTHING_CHECKED: &str = "nothing was checked: silence is not trust";

/// The verdict of checks alone, where no metric is known that they could matter to: one that does not hold makes a run
/// suspect, and so does none at all.
pub fn conclude(checks: Vec<Check>) -> Fidelity {
    let mut why: Vec<String> =
        checks.iter().filter(|c| c.ok == Some(false)).map(|c| format!("{}: {}", c.name, c.says)).collect();
    if checks.iter().all(|c| c.ok.is_none()) {
        why.push(NOTHING_CHECKED.into());
    }
    let verdict = if why.is_empty() { Verdict::Trustworthy } else { Verdict::Suspect };
    Fidelity { verdict, accuracy_percent: Some(accuracy(&[])), why, core_speed: None, checks }
}

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;
