//! `run --confirm`: whether the same experiment at another TDF, or in other timeslices, says the same.
//!
//! Much of what makes a model wrong grows or shrinks with the TDF: caches that go cold between timeslices, timers that
//! tick in real time, lateness. A result that moves with the TDF by more than the two runs' intervals allow is off by
//! more than they say, and in which direction it moves tells in which direction it is off.

use fidelity::compare::Statistic;
use fidelity::wording::significant;
use plan::Plan;
use record::{Event, MetricRecord, RunDir, RunResult, Status, Verdict};
use scale::{Tdf, Timeslice};

use crate::error::Result;

/// A second run that would take longer than this, in real time, is made at half the factor instead, if it can be.
const LONG_S: f64 = 1800.0;

/// The runs that could confirm one: at twice its TDF, and at half of it.
#[derive(Debug)]
pub struct Seconds {
    doubled: Option<Plan>,
    halved: Option<Plan>,
}

impl Seconds {
    /// Those for a run by a plan at `tdf`, as `plan` makes them at others.
    ///
    /// # Errors
    ///
    /// Where neither can be planned: why the first cannot.
    pub fn of(tdf: Tdf, plan: impl Fn(Tdf) -> site::Result<Plan>) -> site::Result<Seconds> {
        let doubled = tdf.doubled().map(&plan);
        let halved = tdf.halved().map(&plan).and_then(|plan| plan.ok());
        match (doubled, halved) {
            (Some(Ok(doubled)), halved) => Ok(Seconds { doubled: Some(doubled), halved }),
            (_, Some(halved)) => Ok(Seconds { doubled: None, halved: Some(halved) }),
            (Some(Err(why)), None) => Err(why),
            (None, None) => Err(site::Error::input(format_args!(
                "--confirm: there is no second TDF for {tdf}: twice that is more than {}, and half is less than 1",
                Tdf::MAX
            ))),
        }
    }

    /// The one to make after a run that took `real_seconds`.
    pub fn choose(self, real_seconds: f64) -> Plan {
        let Seconds { doubled, halved } = self;
        let long = 2.0 * real_seconds > LONG_S;
        let (one, other) = if long { (halved, doubled) } else { (doubled, halved) };
        one.or(other).expect("one of them can be planned")
    }
}

/// The conditions of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Its factor.
    pub tdf: Tdf,
    /// How long nodes kept their cores.
    pub slice: Timeslice,
}

impl Conditions {
    /// Those of a plan.
    pub fn of(plan: &Plan) -> Conditions {
        Conditions { tdf: plan.tdf, slice: plan.slice }
    }
}

/// How a second run compares with the first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Statistics that moved by more than both intervals allow, a sentence for each metric.
    pub moved: Vec<String>,
    /// The metrics that were compared.
    pub compared: Vec<String>,
    /// The metrics of which nothing can be said, because a run has too few samples of them.
    pub unknown: Vec<String>,
}

/// The verdict of a second run on the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confirmed {
    /// Everything that could be compared stayed where it was.
    Yes,
    /// Something moved.
    No,
    /// Nothing could be compared.
    CannotTell,
}

impl Comparison {
    /// Whether the first run is confirmed.
    pub fn confirmed(&self) -> Confirmed {
        match (self.moved.is_empty(), self.compared.is_empty()) {
            (false, _) => Confirmed::No,
            (true, false) => Confirmed::Yes,
            (true, true) => Confirmed::CannotTell,
        }
    }
}

/// Compares a second run with the first.
pub fn compare(first: (&RunResult, Conditions), second: (&RunResult, Conditions)) -> Comparison {
    let mut comparison = Comparison::default();
    for (name, one) in &first.0.metrics {
        let other = second.0.metrics.get(name);
        let judged = other.map_or(Vec::new(), |other| judged(one, other));
        let kind = if judged.is_empty() { &mut comparison.unknown } else { &mut comparison.compared };
        kind.push(name.clone());
        let moved: Vec<_> = judged.into_iter().filter(PairedStatistic::moved).collect();
        if let Some(most) = moved.iter().max_by(|a, b| a.beyond().total_cmp(&b.beyond())) {
            comparison.moved.push(most.says(name, &one.unit, &moved, first.1, second.1));
        }
    }
    comparison
}

/// A statistic of a metric in both runs, where both state an interval.
struct PairedStatistic {
    statistic: Statistic,
    first: f64,
    second: f64,
    intervals: [[f64; 2]; 2],
}

fn judged(first: &MetricRecord, second: &MetricRecord) -> Vec<PairedStatistic> {
    let judge = |statistic: Statistic| {
        let interval = |metric: &MetricRecord| metric.interval.as_ref().and_then(|i| statistic.in_intervals(i));
        let intervals = [interval(first)?, interval(second)?];
        Some(PairedStatistic {
            statistic,
            first: statistic.of(&first.summary),
            second: statistic.of(&second.summary),
            intervals,
        })
    };
    Statistic::ALL.into_iter().filter_map(judge).collect()
}

impl PairedStatistic {
    /// How far the intervals are apart; negative where they meet.
    fn gap(&self) -> f64 {
        let [[low, high], [other_low, other_high]] = self.intervals;
        (other_low - high).max(low - other_high)
    }

    fn moved(&self) -> bool {
        self.gap() > 0.0
    }

    /// The gap as a part of the first run's value.
    fn beyond(&self) -> f64 {
        self.gap() / self.first.abs().max(f64::MIN_POSITIVE)
    }

    fn says(&self, name: &str, unit: &str, moved: &[PairedStatistic], first: Conditions, second: Conditions) -> String {
        let PairedStatistic { statistic, first: here, second: there, intervals: [one, other] } = self;
        let percent = 100.0 * (there - here) / here.abs().max(f64::MIN_POSITIVE);
        let also: Vec<_> = moved.iter().filter(|m| m.statistic != *statistic).map(|m| m.statistic.as_str()).collect();
        let also = if also.is_empty() { String::new() } else { format!(" (so do {})", also.join(", ")) };
        let in_other_slices = first.slice.lead != second.slice.lead;
        // A number that grows with the factor has grown from the target, at TDF 1, to here, too.
        let too = match (in_other_slices, (there > here) == (second.tdf > first.tdf)) {
            (true, _) => "with the TDF or the length of timeslices, so one of the two makes it wrong",
            (false, true) => "it grows with the TDF, so it is probably too large here already",
            (false, false) => "it shrinks as the TDF grows, so it is probably too small here already",
        };
        let slices = match in_other_slices {
            true => format!(" and a lead of {}", second.slice.lead),
            false => String::new(),
        };
        format!(
            "{name} {statistic} moves by {percent:+.1} % at TDF {}{slices}{also}, from {} to {} {unit}, more than both \
             intervals allow ({} to {}; {} to {}): {too}",
            second.tdf,
            rounded(*here),
            rounded(*there),
            rounded(one[0]),
            rounded(one[1]),
            rounded(other[0]),
            rounded(other[1]),
        )
    }
}

fn rounded(v: f64) -> String {
    significant(v, 4)
}

/// Makes known, in the first run's directory, what a second run said; gives the first run's result as it now is.
///
/// # Errors
///
/// If its files cannot be written.
pub fn settle(dir: &RunDir, mut first: RunResult, comparison: &Comparison, second: Conditions) -> Result<RunResult> {
    let confirmed = comparison.confirmed();
    let detail = serde_json::json!({
        "confirmed": confirmed, "tdf": second.tdf, "lead_s": second.slice.lead.as_secs_f64(),
        "moved": comparison.moved, "unknown": comparison.unknown,
    });
    dir.event_log()?.write(&Event {
        virtual_s: None,
        real_s: first.real_seconds,
        event: "confirm".into(),
        target: None,
        detail,
    })?;
    if confirmed == Confirmed::No {
        first.fidelity.verdict = Verdict::Suspect;
        first.fidelity.why.extend(comparison.moved.iter().cloned());
        dir.write_result(&first)?;
    }
    report::write_report(dir)?;
    Ok(first)
}

/// Whether a run can be confirmed at all: one that failed, or measured nothing, cannot.
pub fn is_possible(first: &RunResult) -> bool {
    first.status == Status::Ok && !first.metrics.is_empty()
}

#[cfg(test)]
mod tests {
    use indexmap::IndexMap;
    use plan::Supply;
    use record::{Fidelity, Intervals, Summary, Variant};
    use scale::{RealDuration, TargetCpu};

    use super::*;

    fn at(tdf: &str, turn_us: u64) -> Conditions {
        let length = RealDuration::from_nanos(turn_us * 1000);
        Conditions {
            tdf: tdf.parse().unwrap(),
            slice: Timeslice::of_length(length, &[TargetCpu { cpus: 1, speed: 0.1 }]),
        }
    }

    /// A run whose metric `latency` has these values of mean, p50, p90 and p99, each ± `around`; no interval where that
    /// is none.
    fn run(values: [f64; 4], around: [Option<f64>; 4]) -> RunResult {
        let [mean, p50, p90, p99] = values;
        let interval = |i: usize| around[i].map(|by| [values[i] - by, values[i] + by]);
        let interval = Intervals { mean: interval(0), p50: interval(1), p90: interval(2), p99: interval(3) };
        let summary = Summary { n: 1000, mean, p50, p90, p99 };
        let metric =
            MetricRecord { interval: Some(interval), ..MetricRecord::new("ms", summary, "metrics/latency.csv") };
        RunResult {
            experiment: "x".into(),
            variant: Variant::Scaled,
            tdf: "10".parse().unwrap(),
            scaling_factor: 2.0,
            status: Status::Ok,
            why: None,
            virtual_seconds: 10.0,
            real_seconds: 100.0,
            metrics: IndexMap::from([("latency".to_owned(), metric)]),
            nodes: IndexMap::new(),
            fidelity: Fidelity {
                verdict: Verdict::Trustworthy,
                accuracy_percent: None,
                why: Vec::new(),
                core_speed: None,
                checks: Vec::new(),
            },
        }
    }

    #[test]
    fn what_stays_within_both_intervals_is_confirmed() {
        let around = [Some(0.5), Some(0.5), Some(2.0), None];
        let first = run([10.0, 9.0, 20.0, 40.0], around);
        // By 0.9, 1.0, 3.9, and by how much it likes where nothing is promised.
        let second = run([10.9, 8.0, 23.9, 90.0], around);
        let comparison = compare((&first, at("10", 100)), (&second, at("20", 100)));
        assert_eq!((comparison.confirmed(), comparison.unknown.len()), (Confirmed::Yes, 0));
    }

    #[test]
    fn what_moves_further_is_told_with_its_direction() {
        let around = [Some(0.5), Some(0.5), Some(2.0), Some(30.0)];
        let first = run([10.0, 9.0, 20.0, 40.0], around);
        let second = run([11.5, 9.1, 28.0, 60.0], around);
        let [says] = &compare((&first, at("10", 100)), (&second, at("20", 100))).moved[..] else { panic!() };
        // 4 of 20 beyond the intervals, and 0.5 of 10.
        let expected = "latency p90 moves by +40.0 % at TDF 20 (so do mean), from 20.00 to 28.00 ms, more than both \
                        intervals allow (18.00 to 22.00; 26.00 to 30.00): it grows with the TDF, so it is probably too \
                        large here already";
        assert_eq!(says, expected);
        // The other way round, by a run at half the factor, it is the same.
        let [says] = &compare((&second, at("20", 100)), (&first, at("10", 100))).moved[..] else { panic!() };
        assert!(says.contains("p90 moves by -28.6 % at TDF 10") && says.contains("it grows with the TDF"), "{says}");
        let [says] = &compare((&second, at("10", 100)), (&first, at("20", 100))).moved[..] else { panic!() };
        assert!(says.ends_with("it shrinks as the TDF grows, so it is probably too small here already"), "{says}");
        // With other timeslices, too, nobody knows which it was.
        let [says] = &compare((&first, at("10", 100)), (&second, at("20", 400))).moved[..] else { panic!() };
        assert!(says.contains("at TDF 20 and a lead of 4ms") && says.contains("one of the two"), "{says}");
    }

    #[test]
    fn what_nobody_can_tell_is_no_move() {
        let (known, unknown) = ([Some(0.1); 4], [None; 4]);
        let first = run([10.0, 9.0, 20.0, 40.0], known);
        for second in [run([99.0; 4], unknown), RunResult { metrics: IndexMap::new(), ..first.clone() }] {
            let comparison = compare((&first, at("10", 100)), (&second, at("20", 100)));
            assert_eq!(comparison.confirmed(), Confirmed::CannotTell);
            assert_eq!(comparison.unknown, ["latency"]);
        }
        assert!(is_possible(&first) && !is_possible(&RunResult { status: Status::Failed, ..first }));
    }

    #[test]
    fn a_first_run_that_is_not_confirmed_is_suspect_and_says_why() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::prepare(temp.path(), []).unwrap();
        let first = run([10.0, 9.0, 20.0, 40.0], [Some(0.5); 4]);
        let sample = record::Sample { virtual_s: None, value: 10.0, node: "a".into() };
        dir.write_samples("latency", &vec![sample; 1000]).unwrap();
        dir.write_result(&first).unwrap();
        let same = settle(&dir, first.clone(), &Comparison::default(), at("20", 100)).unwrap();
        assert_eq!((&same, &dir.result().unwrap()), (&first, &first));
        let moved = Comparison { moved: vec!["latency p90 moves".into()], ..Comparison::default() };
        let settled = settle(&dir, first, &moved, at("20", 100)).unwrap();
        assert_eq!((settled.fidelity.verdict, &settled.fidelity.why), (Verdict::Suspect, &moved.moved));
        assert_eq!(dir.result().unwrap(), settled);
        let events: Vec<_> = dir.events().unwrap().into_iter().map(|e| e.detail["confirmed"].clone()).collect();
        assert_eq!(events, ["cannot-tell", "no"]);
        assert_eq!(dir.events().unwrap()[1].detail["tdf"], 20.0);
    }

    const PAIR: &str = "name: pair\ntdf: 10\nmachines: { m: { speed: 4, memory: 64MiB } }\n\
                        nodes: { a: { machine: m, run: x } }\nends: { limit: 1s }\n";

    /// The factors at which a run at `tdf` can be confirmed by one that takes as many seconds, and by a long one.
    fn seconds(tdf: &str, speed: &str) -> site::Result<[String; 2]> {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("experiment.yaml"), PAIR).unwrap();
        let set = [("machines.m.speed".to_owned(), speed.to_owned())];
        let experiment = model::load(temp.path(), &set).unwrap();
        let cores = Supply::of(vec![vec![0], vec![1]], &site::CoreChoice::default())?;
        let host = plan::Facts { offers: tcp::Offers::ALL, cores, reference: None, weights: None, processes: None };
        let of = |real_seconds: f64| {
            let plan = |tdf| Ok(Plan::with(&host, &experiment, Variant::Scaled, Some(tdf))?);
            Seconds::of(tdf.parse().unwrap(), plan).map(|seconds| seconds.choose(real_seconds).tdf.to_string())
        };
        Ok([of(60.0)?, of(3600.0)?])
    }

    #[test]
    fn twice_the_factor_confirms_or_half_of_it_where_that_is_long_or_impossible() {
        assert_eq!(seconds("10", "4").unwrap(), ["20", "5"]);
        // At half the factor there is too little of the core; then it takes long.
        assert_eq!(seconds("10", "8").unwrap(), ["20", "20"]);
        // At twice it there is too little of a share.
        assert_eq!(seconds("600", "0.5").unwrap(), ["300", "300"]);
        assert_eq!(seconds("1.5", "0.5").unwrap(), ["3", "3"]);
        // A tiny share that half of it would not leave room for, either.
        let error = seconds("1.5", "0.0012").unwrap_err();
        assert!(error.code() == 2 && error.to_string().contains("`a` gets 0.000400 of a core"), "{error}");
    }
}
