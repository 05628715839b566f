//! One metric: what its samples say by themselves, and what the checks' effects do to it.

use record::{CheckName, Intervals, MetricEffect, MetricRecord, Uncertainty};

use super::Measured;
use crate::budget::Budget;
use crate::compare::Statistic;
use crate::effects::{Change, Effect, SHORTEST, Times, Usage, is_known};
use crate::links::Bottleneck;
use crate::sampling::{self, Span};
use crate::units::{Kind, counts_events, kind};

/// A metric, as far as effects depend on it.
pub(super) struct Metric {
    pub kind: Kind,
    /// Its own times, or those of what it counts.
    times: Option<Times>,
    /// By how many per cent times change where work takes 1 % longer.
    sensitivity: f64,
    sampling: Intervals,
    /// Whether it is a rate that nothing decides but the clock.
    clocked: bool,
    /// The link that decides it, and no CPU.
    link: Option<Bottleneck>,
}

/// All metrics of a run.
pub(super) fn all(usage: &Usage, window: [f64; 2], metrics: &[Measured]) -> Vec<Metric> {
    let times: Vec<Option<Times>> = metrics.iter().map(|m| times(usage, window, m)).collect();
    // The units that a rate counts are not said; the times with most samples are the best guess.
    let most = times.iter().flatten().max_by_key(|t| t.samples).cloned();
    let counted = counted(metrics);
    let of = |(measured, own): (&Measured, Option<Times>)| {
        let kind = kind(&measured.record.unit);
        let times = own.clone().or(most.clone());
        let sensitivity = match (kind, &own) {
            (Kind::Time { .. }, Some(own)) => usage.of_times(own),
            _ => usage.of_rate(most.as_ref()),
        };
        let sampling = match measured.record.summary.n {
            1 => of_single(measured.record, counted, window),
            _ => sampling::intervals(&sampling::in_time(measured.samples)),
        };
        let part = sensitivity.min(1.0);
        let link = measured.link.filter(|link| link.decides(usage, times.as_ref(), part));
        Metric { kind, times, sensitivity, sampling, clocked: measured.clocked, link }
    };
    metrics.iter().zip(times).map(of).collect()
}

/// The times of a metric, in seconds, as if samples had been taken all over the run.
fn times(usage: &Usage, [from, to]: [f64; 2], measured: &Measured) -> Option<Times> {
    let Kind::Time { seconds } = kind(&measured.record.unit) else { return None };
    let s = measured.record.summary;
    let of_run = if to > from { (usage.virtual_s / (to - from)).max(1.0) } else { 1.0 };
    // A single one is no rate of anything.
    let n = if s.n == 1 { 1.0 } else { s.n as f64 * of_run };
    let (mean, p90) = (s.mean * seconds, s.p90 * seconds);
    let p90 = if p90 > 0.0 { p90 } else { mean };
    (mean > 0.0).then_some(Times { n, samples: s.n, mean, p90 })
}

/// The metric whose samples are the events that a rate of a single number counts: the one with most samples of which is
/// known when they were.
fn counted<'a>(metrics: &'a [Measured<'a>]) -> Option<&'a Measured<'a>> {
    let timed = metrics.iter().filter(|m| m.samples.len() > 1 && m.samples.iter().all(|s| s.virtual_s.is_some()));
    timed.max_by_key(|m| m.samples.len())
}

/// The sampling error of a single number: of a rate, that of the number of events; of anything else, unknown.
fn of_single(record: &MetricRecord, counted: Option<&Measured>, window: [f64; 2]) -> Intervals {
    let percent = counted.filter(|_| counts_events(&record.unit)).and_then(|events| {
        let times: Vec<f64> = events.samples.iter().filter_map(|s| s.virtual_s).collect();
        let by_number = sampling::of_count(&times, window);
        let Kind::Time { seconds } = kind(&events.record.unit) else { return by_number };
        let spans = times.iter().zip(events.samples).map(|(at, s)| Span { at: *at, took: s.value * seconds });
        let by_time = sampling::of_closed_loop(&spans.collect::<Vec<_>>(), window);
        let width = |ends: &[f64; 2]| ends[1] - ends[0];
        by_number.into_iter().chain(by_time).min_by(|a, b| width(a).total_cmp(&width(b)))
    });
    let value = record.summary.mean;
    let all = percent.map(|percent| percent.map(|p| value + value.abs() * p / 100.0));
    Intervals { mean: all, p50: None, p90: None, p99: None }
}

impl Metric {
    /// In place of all metrics of a run that has none: whatever it did in its time.
    pub fn none() -> Metric {
        Metric {
            kind: Kind::Time { seconds: 1.0 },
            times: None,
            sensitivity: 1.0,
            sampling: Intervals::default(),
            clocked: false,
            link: None,
        }
    }

    /// The statistics whose intervals are stated; the mean, if there are too few samples for any.
    pub fn stated(&self) -> impl Iterator<Item = Statistic> {
        let stated = |s: &Statistic| s.in_intervals(&self.sampling).is_some();
        let all: Vec<_> = Statistic::ALL.into_iter().filter(stated).collect();
        if all.is_empty() { vec![Statistic::Mean] } else { all }.into_iter()
    }

    pub fn change(&self, usage: &Usage, effect: &Effect) -> Change {
        if self.keeps_pace(usage, effect) {
            return Change::default();
        }
        let change = usage.change(effect, self.times.as_ref(), self.sensitivity);
        self.link.map_or(change, |link| link.bounded(effect, change, self.kind, self.times.as_ref()))
    }

    /// Whether an effect changes nothing, because the clock alone decides.
    fn keeps_pace(&self, usage: &Usage, effect: &Effect) -> bool {
        self.clocked && usage.keeps_pace(effect)
    }

    /// Records interval and what it is made of; `changes` are of the metric's value.
    pub fn fill(&self, usage: &Usage, record: &mut MetricRecord, changes: &[(CheckName, Change)]) {
        let effects = |tail: bool| {
            Budget::of_effects(changes.iter().map(|(_, change)| if tail { change.tail } else { change.centre }))
        };
        let [centre, tail] = [false, true].map(effects);
        let [mean, p50, p90, p99] = Statistic::ALL.map(|s| {
            let effects = match s {
                Statistic::Mean | Statistic::P50 => centre,
                Statistic::P90 | Statistic::P99 => tail,
            };
            s.in_intervals(&self.sampling).and_then(|sampling| truth(s.of(&record.summary), sampling, effects))
        });
        let interval = Intervals { mean, p50, p90, p99 };
        let effects = changes.iter().filter(|(_, change)| *change != Change::default());
        let effects = effects.map(|(check, change)| MetricEffect {
            check: *check,
            percent: change.centre,
            tail_percent: (change.tail != change.centre).then_some(change.tail),
        });
        record.interval = (interval != Intervals::default()).then_some(interval);
        let by_no_cpu = self.keeps_pace(usage, &Effect::Work([0.0; 2])) || self.link.is_some();
        let cpu_sensitivity = if by_no_cpu { 0.0 } else { self.sensitivity };
        record.uncertainty = Some(Uncertainty { sampling: self.sampling, effects: effects.collect(), cpu_sensitivity });
    }
}

/// Where the target's value is, if another run's would be between `low` and `high` by chance alone, and effects put
/// such values above the target's.
fn truth(value: f64, [low, high]: [f64; 2], effects: Budget) -> Option<[f64; 2]> {
    let percent = |other: f64| 100.0 * (value / other - 1.0);
    let without = |percent: f64| value / (1.0 + percent.max(SHORTEST) / 100.0);
    if value == 0.0 || low / value <= 0.0 {
        // A part of nothing is no part: what has a value on both sides of it, or has it, is off by chance alone.
        return effects.range().iter().all(|end| end.is_finite()).then_some([low, high]);
    }
    let off = effects.and_chance([percent(high).min(percent(low)), percent(low).max(percent(high))]).range();
    let [one, other] = is_known(off).then_some(off)?;
    let ends = [without(one).min(without(other)), without(one).max(without(other))];
    ends.iter().all(|end| end.is_finite()).then_some(ends)
}
