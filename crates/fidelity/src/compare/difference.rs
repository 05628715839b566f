//! Whether two runs differ: *same*, *different*, or *cannot tell*.
//!
//! The parts of a difference are chance in both runs, what each model does to its own values, and the rest, which is
//! what the question is about. Where effects have one unknown cause in both runs (how far a program feels the core's
//! speed; whether an operation had to wait for its turn; how much of its data the caches forgot), it is as large in one
//! as in the other, and only what differs of them counts.

use std::fmt;

use record::{CheckName, CoreSpeed, MetricEffect, MetricRecord, Run};
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{Differences, Statistic};
use crate::budget::Budget;
use crate::checks::{GAIN_HIGH, GAIN_LOW};
use crate::effects::{Change, furthest, is_known};
use crate::sampling::COVERAGE;
use crate::statistics::{extremes, median};
use crate::units::kind;
use crate::wording::number;

/// Checks whose effect has one unknown cause in all runs of an experiment.
const SHARED: [CheckName; 2] = [CheckName::CoreSpeed, CheckName::Caches];
/// References that differ by less, as a part, are one.
const ONE_REFERENCE: f64 = 0.005;
/// The spread of a few pairs is itself chance: what the samples of each say of it counts like so many pairs more.
const PAIRS_OF_SAMPLES: f64 = 4.0;
/// The median of several pairs varies more than their mean would: √(π/2).
const MEDIAN: f64 = 1.2533;
/// Standard errors on one side of an interval of 95 %.
const ERRORS: f64 = 1.96;

/// Statements about a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Says {
    /// It is no larger than asked for.
    Same,
    /// It is there, and may be larger than asked for.
    Different,
    /// It may be there or not.
    CannotTell,
}

impl fmt::Display for Says {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Says::Same => "same",
            Says::Different => "different",
            Says::CannotTell => "cannot tell",
        })
    }
}

/// How far the other run is from the base, per cent of the base.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// As measured; of several pairs, the median.
    pub percent: f64,
    /// The target's own difference is at least this,
    pub low: f64,
    /// and at most this (95 %).
    pub high: f64,
    /// The conclusion.
    pub says: Says,
}

/// One pair of runs.
struct Pair {
    percent: f64,
    /// The part that chance may have, downwards and upwards, per cent; `None` if that is not known.
    chance: Option<[f64; 2]>,
    /// By how much the models put the other above the base, per cent.
    models: Budget,
}

/// How far a metric differs over all pairs; they are the same if it is by no more than `within` asks of each statistic.
pub(super) fn differences(pairs: &[(&Run, &Run)], metric: &str, within: impl Fn(Statistic) -> f64) -> Differences {
    let of = |statistic: Statistic| {
        let each = pairs.iter().map(|(base, other)| {
            let record = |run: &Run| run.result.metrics.get(metric).cloned();
            let speed = |run: &Run| run.result.fidelity.core_speed;
            pair([&record(base)?, &record(other)?], [speed(base), speed(other)], statistic)
        });
        let each: Vec<Pair> = each.collect::<Option<_>>()?;
        let (percent, [below, above]) = (median(each.iter().map(|p| p.percent).collect())?, spread(&each)?);
        // The observed difference is the target's, and the models', and chance.
        let off = |pair: &Pair| pair.models.and_chance([-above, below]).range();
        let off = |end: usize| median(each.iter().map(|pair| off(pair)[end]).collect());
        let (low, high) = (percent - off(1)?, percent - off(0)?);
        if !is_known([low, high]) {
            return None;
        }
        let within = within(statistic);
        let says = match (low, high) {
            (low, high) if low >= -within && high <= within => Says::Same,
            (low, high) if low > 0.0 || high < 0.0 => Says::Different,
            _ => Says::CannotTell,
        };
        Some(Difference { percent, low, high, says })
    };
    Differences::each(of)
}

fn pair([base, other]: [&MetricRecord; 2], speeds: [Option<CoreSpeed>; 2], statistic: Statistic) -> Option<Pair> {
    let values = [base, other].map(|record| statistic.of(&record.summary));
    if values[0] == 0.0 && values[1] == 0.0 {
        return Some(Pair { percent: 0.0, chance: Some([0.0; 2]), models: Budget::default() });
    }
    let percent = 100.0 * (values[1] / values[0] - 1.0);
    if !percent.is_finite() {
        return None;
    }
    let chance = |record: &MetricRecord, value: f64| {
        let [low, high] = statistic.in_intervals(&record.uncertainty.as_ref()?.sampling)?;
        Some([(value - low).max(0.0) / value.abs(), (high - value).max(0.0) / value.abs()])
    };
    let scale = 100.0 * (values[1] / values[0]).abs();
    let chance = chance(base, values[0])
        .zip(chance(other, values[1]))
        .map(|([b_low, b_high], [o_low, o_high])| [scale * o_low.hypot(b_high), scale * o_high.hypot(b_low)]);
    Some(Pair { percent, chance, models: models([base, other], speeds, statistic) })
}

/// By how much the models put the other above the base.
fn models([base, other]: [&MetricRecord; 2], speeds: [Option<CoreSpeed>; 2], statistic: Statistic) -> Budget {
    let tail = matches!(statistic, Statistic::P90 | Statistic::P99);
    let effects = |record: &MetricRecord| record.uncertainty.as_ref().map_or(Vec::new(), |u| u.effects.clone());
    let (of_base, of_other) = (effects(base), effects(other));
    let range = |effects: &[MetricEffect], check: CheckName| {
        let found = effects.iter().find(|e| e.check == check);
        found.map_or([0.0; 2], |e| if tail { e.tail_percent.unwrap_or(e.percent) } else { e.percent })
    };
    let only_other = of_other.iter().filter(|e| of_base.iter().all(|b| b.check != e.check));
    let mut budget = Budget::default();
    for check in of_base.iter().chain(only_other).map(|e| e.check) {
        let ([b_low, b_high], [o_low, o_high]) = (range(&of_base, check), range(&of_other, check));
        let [low, high] = match SHARED.contains(&check) {
            // Of what is not known of either, a difference would be no number.
            _ if ![[b_low, b_high], [o_low, o_high]].into_iter().all(is_known) => [f64::NEG_INFINITY, f64::INFINITY],
            // Nothing, where the metric does not feel it at all.
            true => extremes([0.0, o_low - b_low, o_high - b_high]),
            false => [o_low - b_high, o_high - b_low],
        };
        budget = budget.and_effect([low, high]);
    }
    if let Some(slower) = by_reference(speeds) {
        let of = |record: &MetricRecord| record.uncertainty.as_ref().map_or(0.0, |u| u.cpu_sensitivity);
        let sensitivity = of(base).max(of(other));
        let range = extremes([0.0, GAIN_LOW * slower * sensitivity, GAIN_HIGH * slower * sensitivity]);
        let [low, high] = Change { centre: range, tail: range }.of_value(kind(&other.unit)).centre;
        budget = budget.and_effect([low, high]);
    }
    budget
}

/// By how many per cent the other's nodes were entitled to less work than the base's, because their shares are of
/// another core's speed; `None` if they are of the same, or of none.
fn by_reference([base, other]: [Option<CoreSpeed>; 2]) -> Option<f64> {
    let (base, other) = (base?.reference_units_per_us?, other?.reference_units_per_us?);
    let slower = base / other - 1.0;
    (slower.is_finite() && slower.abs() > ONE_REFERENCE).then_some(100.0 * slower)
}

/// The note on the references of pairs, if they differ.
pub(super) fn note(pairs: &[(&Run, &Run)]) -> Option<String> {
    let speeds = pairs.iter().map(|(b, o)| [b, o].map(|run| run.result.fidelity.core_speed));
    let (slower, [base, other]) = speeds
        .filter_map(|speeds| Some((by_reference(speeds)?, speeds)))
        .max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))?;
    let of = |speed: Option<CoreSpeed>| number(speed.and_then(|s| s.reference_units_per_us).unwrap_or(0.0));
    Some(format!(
        "shares are of a core that does {} units of work a microsecond in the base and {} in the other: work takes up \
         to {} % {} there, which the differences allow for",
        of(base),
        of(other),
        number(furthest([slower.min(0.0), slower.max(0.0)]).abs()),
        if slower > 0.0 { "longer" } else { "less" }
    ))
}

/// How far chance may be from the median of all pairs, downwards and upwards: what the samples of each pair say, and
/// how far pairs are from one another.
fn spread(pairs: &[Pair]) -> Option<[f64; 2]> {
    let n = pairs.len() as f64;
    let known: Option<Vec<[f64; 2]>> = pairs.iter().map(|p| p.chance).collect();
    if let (1, Some(known)) = (pairs.len(), &known) {
        return Some(known[0]);
    }
    if pairs.len() < 2 {
        return None;
    }
    let middle = pairs.iter().map(|p| p.percent).sum::<f64>() / n;
    let between = pairs.iter().map(|p| (p.percent - middle).powi(2)).sum::<f64>();
    let (variance, freedom) = match known {
        Some(known) => {
            let within = known.iter().map(|[low, high]| ((low + high) / 2.0 / ERRORS).powi(2)).sum::<f64>() / n;
            let freedom = PAIRS_OF_SAMPLES + n - 1.0;
            ((PAIRS_OF_SAMPLES * within + between) / freedom, freedom)
        }
        None => (between / (n - 1.0), n - 1.0),
    };
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(1.0 - (1.0 - COVERAGE) / 2.0);
    // Of two, the median is the mean.
    let median = if pairs.len() == 2 { 1.0 } else { MEDIAN };
    let half = student * median * (variance / n).sqrt();
    Some([half, half])
}
