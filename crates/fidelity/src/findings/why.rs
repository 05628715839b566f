//! Why a run is suspect, in sentences.

use record::{Accuracy, CheckName, MetricRecord};

use crate::accuracy::asked;
use crate::budget::Budget;
use crate::compare::Statistic;
use crate::effects::{Change, furthest, is_known};
use crate::wording::number;

/// A contribution of less than this, in per cent, is not worth naming,
const NAMED: f64 = 0.1;
/// and no more than so many are.
const CONTRIBUTIONS: usize = 4;
/// A run so many times as long is no advice.
const LONGEST: f64 = 50.0;

/// Why a metric is not within what was asked for: about the statistic that is furthest from it.
pub(super) fn of_metric(name: &str, record: &MetricRecord, asked_for: &Accuracy) -> Option<String> {
    let uncertainty = record.uncertainty.as_ref()?;
    let effects = |tail: bool| {
        let of = uncertainty
            .effects
            .iter()
            .map(move |e| (e.check, if tail { e.tail_percent.unwrap_or(e.percent) } else { e.percent }));
        of.collect::<Vec<_>>()
    };
    let Some(interval) = &record.interval else {
        // Too few samples to say what is chance; what is not must be little all the same.
        let off = furthest(together(&effects(false))).abs();
        if let Some(unknown) = not_known(name, &effects(false)) {
            return Some(unknown);
        }
        let contributions = contributions(&effects(false), None);
        return beyond(off, asked_for.mean).then(|| sentence(name, off, asked_for.mean, &contributions));
    };
    let stated = |s: &Statistic| s.in_intervals(&uncertainty.sampling).is_some();
    let of_unknown = |s: Statistic| not_known(&statistic_of(name, record, s), &effects(is_tail(s)));
    if let Some(unknown) = Statistic::ALL.into_iter().filter(stated).find_map(of_unknown) {
        return Some(unknown);
    }
    let off = |s: Statistic| {
        let (value, ends) = (s.of(&record.summary), s.in_intervals(interval)?);
        Some(percent_off(value, ends))
    };
    let of_asked = |s: Statistic| Some((s, off(s)?, off(s)? / asked(asked_for, s)));
    let (statistic, off, _) = Statistic::ALL
        .into_iter()
        .filter_map(of_asked)
        .filter(|(_, _, part)| beyond(*part, 1.0))
        .max_by(|a, b| a.2.total_cmp(&b.2))?;
    let allowed = asked(asked_for, statistic);
    let what = statistic_of(name, record, statistic);
    let effects = effects(is_tail(statistic));
    let chance =
        statistic.in_intervals(&uncertainty.sampling).map(|ends| percent_off(statistic.of(&record.summary), ends));
    let mut text = sentence(&what, off, allowed, &contributions(&effects, chance));
    let (systematic, chance) = (furthest(together(&effects)).abs(), chance.unwrap_or(0.0));
    if systematic < allowed && chance > allowed / 2.0 {
        let longer = (chance / (allowed - systematic)).powi(2);
        text += &match longer <= LONGEST {
            true => format!(" A run about {} times as long would do.", number(longer.max(1.1))),
            false => " There are too few samples.".to_string(),
        };
    }
    Some(text)
}

/// Why a run without metrics is suspect: by what would have happened to any.
pub(super) fn without_metrics(changes: &[(CheckName, Change)], allowed: f64) -> Option<String> {
    let effects: Vec<_> = changes.iter().map(|(name, change)| (*name, change.centre)).collect();
    const WHAT: &str = "what the nodes did in their time";
    let off = furthest(together(&effects)).abs();
    let known = || beyond(off, allowed).then(|| sentence(WHAT, off, allowed, &contributions(&effects, None)));
    not_known(WHAT, &effects).or_else(known)
}

/// A metric's statistic, as a sentence begins with it.
fn statistic_of(name: &str, record: &MetricRecord, statistic: Statistic) -> String {
    if record.summary.n == 1 { name.to_string() } else { format!("{name} {statistic}") }
}

fn is_tail(statistic: Statistic) -> bool {
    matches!(statistic, Statistic::P90 | Statistic::P99)
}

/// That nobody can say how far something is off, if that is so of one of these effects.
fn not_known(what: &str, effects: &[(CheckName, [f64; 2])]) -> Option<String> {
    let all: Vec<_> = effects.iter().filter(|(_, range)| !is_known(*range)).map(|(check, _)| check.as_str()).collect();
    let does = if all.len() == 1 { "does" } else { "do" };
    (!all.is_empty()).then(|| {
        format!(
            "{what}: what {} {does} to it is not known, for it may be half of it or more: the times of longer \
             operations, as a metric, would tell.",
            all.join(" and ")
        )
    })
}

/// Whether an error is more than what was asked for. What is no number is no proof that it is not.
fn beyond(off: f64, allowed: f64) -> bool {
    off.is_nan() || off > allowed
}

fn sentence(what: &str, off: f64, allowed: f64, contributions: &str) -> String {
    format!("{what} may be {} % off, more than {} %: {contributions}.", number(off), number(allowed))
}

/// The largest of what makes up an error.
fn contributions(effects: &[(CheckName, [f64; 2])], chance: Option<f64>) -> String {
    let of = |(check, range): &(CheckName, [f64; 2])| {
        let most = furthest(*range).abs();
        (most, format!("{check} up to {} %", number(most)))
    };
    let mut all: Vec<(f64, String)> = effects.iter().map(of).collect();
    all.extend(chance.map(|chance| (chance, format!("chance {} %", number(chance)))));
    all.retain(|(most, _)| *most >= NAMED);
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.truncate(CONTRIBUTIONS);
    match all.is_empty() {
        true => "many small effects".into(),
        false => all.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", "),
    }
}

fn together(effects: &[(CheckName, [f64; 2])]) -> [f64; 2] {
    Budget::of_effects(effects.iter().map(|(_, range)| *range)).range()
}

/// How far the further end of an interval is from a value, per cent of it.
pub(super) fn percent_off(value: f64, [low, high]: [f64; 2]) -> f64 {
    let most = (high - value).max(value - low);
    if most <= 0.0 { 0.0 } else { 100.0 * most / value.abs() }
}
