//! From findings and samples to intervals and the verdict.

use record::{Samples, Summary};

use super::*;
use crate::links::{LinkUse, PipeUse};
use crate::statistics::summary;

const WINDOW: [f64; 2] = [0.0, 10.0];

/// Ten virtual seconds over a path of 10 ms, in which a server was half busy.
fn usage() -> Usage {
    Usage { virtual_s: 10.0, frames: 30_000, shortest_path_s: Some(0.01), busy: vec![0.5, 0.1] }
}

fn finding(name: CheckName, found: Found) -> Finding {
    Finding { name, value: Some(1.0), limit: None, unit: "%", found, says: "This was seen.".into() }
}

/// Work that takes up to so many per cent longer.
fn work(name: CheckName, high: f64) -> Finding {
    finding(name, Found::Effects(vec![Effect::Work([0.0, high])]))
}

fn found(findings: impl IntoIterator<Item = Finding>) -> Findings {
    Findings::new(findings.into_iter().collect(), usage(), None)
}

/// Latencies of about 25 ms of `n` requests, evenly spread over the run and over `width` ms.
fn latencies(n: usize, width: f64) -> Vec<Sample> {
    let value = |i: usize| 25.0 + width * ((i as f64 * 0.618034).fract() - 0.5);
    let sample = |i: usize| Sample { virtual_s: Some(10.0 * i as f64 / n as f64), value: value(i), node: "c".into() };
    (0..n).map(sample).collect()
}

fn record(unit: &str, samples: &[Sample]) -> MetricRecord {
    let summary = summary(&Samples::new(samples.iter().map(|s| s.value).collect()).unwrap()).unwrap();
    MetricRecord::new(unit, summary, "metrics/m.csv")
}

/// The verdict over latencies and the rate of requests, and what was recorded of the two.
fn concluded(findings: &Findings, samples: &[Sample], asked_for: &[&str]) -> (Fidelity, MetricRecord, MetricRecord) {
    let rate = [Sample { virtual_s: None, value: samples.len() as f64 / 10.0, node: "".into() }];
    let (mut latency, mut requests) = (record("ms", samples), record("1/s", &rate));
    let bounds: Vec<_> = asked_for.iter().map(|b| b.parse().unwrap()).collect();
    let mut metrics = [
        Measured { name: "latency", record: &mut latency, samples, judged: true, clocked: false, link: None },
        Measured { name: "requests", record: &mut requests, samples: &rate, judged: true, clocked: false, link: None },
    ];
    let fidelity = findings.conclude(accuracy(&bounds), WINDOW, &mut metrics);
    (fidelity, latency, requests)
}

fn check(fidelity: &Fidelity, name: CheckName) -> &Check {
    fidelity.check(name).unwrap()
}

#[test]
fn an_interval_is_chance_and_what_the_model_does() {
    let (fidelity, latency, requests) =
        concluded(&found([work(CheckName::CoreSpeed, 2.0)]), &latencies(1500, 10.0), &[]);
    assert_eq!((fidelity.verdict, fidelity.why.len()), (Verdict::Trustworthy, 0), "{:?}", fidelity.why);
    let uncertainty = latency.uncertainty.unwrap();
    // 6 busy seconds of 37.5; a half used server doubles that twice.
    assert!((uncertainty.cpu_sensitivity - 0.64).abs() < 0.01, "{uncertainty:?}");
    let ([low, high], [s_low, s_high]) = (latency.interval.unwrap().mean.unwrap(), uncertainty.sampling.mean.unwrap());
    // The run may be up to 1.28 % too slow, and is not too fast; neither is at its worst where the other is.
    assert!(s_low / 1.0128 < low && low < s_low && high < s_high, "{low} to {high}, {s_low} to {s_high}");
    let (chance, all) = ((s_high - s_low) / latency.summary.mean, (high - low) / latency.summary.mean);
    assert!(chance.max(0.0128) < all && all < chance + 0.0127, "{all} of {chance}");
    assert!(low < latency.summary.mean && latency.summary.mean < high);
    // The rate counts the requests of the latencies: what they take longer, it is lower.
    let (interval, value) = (requests.interval.unwrap(), requests.summary.mean);
    assert!(interval.mean.unwrap()[1] > value * 1.006 && interval.p50.is_none(), "{interval:?} of {value}");
    let check = check(&fidelity, CheckName::CoreSpeed);
    assert!((check.effect_percent.unwrap() - 1.28).abs() < 0.02, "{check:?}");
    assert_eq!((check.ok, check.effect_range_percent.unwrap()[0]), (Some(true), 0.0));
}

#[test]
fn an_effect_that_matters_breaches_and_is_named() {
    let findings = found([work(CheckName::CpuEntitlement, 20.0), work(CheckName::Steal, 1.0)]);
    let (fidelity, ..) = concluded(&findings, &latencies(1500, 10.0), &[]);
    assert_eq!(fidelity.verdict, Verdict::Suspect);
    assert_eq!(fidelity.breaches().map(|c| c.name).collect::<Vec<_>>(), [CheckName::CpuEntitlement]);
    let [latency, _requests] = &fidelity.why[..] else { panic!("{:?}", fidelity.why) };
    assert!(latency.starts_with("latency "), "{latency}");
    assert!(latency.contains("cpu-entitlement up to 11.9 %, ") && latency.contains("steal up to 0.638 %"), "{latency}");
    // Right again where less is asked for.
    let (lenient, ..) = concluded(&findings, &latencies(1500, 10.0), &["20%"]);
    assert_eq!((lenient.verdict, lenient.breaches().count()), (Verdict::Trustworthy, 0), "{:?}", lenient.why);
    assert_eq!(lenient.accuracy_percent.unwrap().p90, 40.0);
    // Who only waits for the network does not depend on work.
    let idle = Findings { usage: Usage { busy: vec![0.0, 0.0], ..usage() }, ..findings };
    let (idle, ..) = concluded(&idle, &latencies(1500, 10.0), &[]);
    assert_eq!(idle.verdict, Verdict::Trustworthy, "{:?}", idle.why);
    assert_eq!(check(&idle, CheckName::CpuEntitlement).effect_percent, Some(0.0));
}

#[test]
fn small_effects_may_be_too_much_together() {
    let names = [CheckName::CpuEntitlement, CheckName::CoreSpeed, CheckName::Steal, CheckName::Caches];
    let (fidelity, ..) = concluded(&found(names.map(|name| work(name, 3.0))), &latencies(1500, 10.0), &[]);
    assert_eq!((fidelity.verdict, fidelity.breaches().count()), (Verdict::Suspect, 0), "none by itself");
    assert!(names.iter().all(|name| fidelity.why[0].contains(name.as_str())), "{:?}", fidelity.why);
}

#[test]
fn too_few_samples_make_a_run_suspect_and_it_is_said_how_many_would_do() {
    let (fidelity, latency, _) = concluded(&found([work(CheckName::Steal, 0.0)]), &latencies(40, 40.0), &[]);
    assert_eq!(fidelity.verdict, Verdict::Suspect);
    assert_eq!(fidelity.breaches().count(), 0, "no check is to blame");
    assert!(
        fidelity.why[0].contains("chance") && fidelity.why[0].contains("times as long would do"),
        "{:?}",
        fidelity.why
    );
    let interval = latency.interval.unwrap();
    assert!(interval.mean.is_some() && interval.p50.is_some() && interval.p90.is_none() && interval.p99.is_none());
    // Where nothing can be said of chance, the effects must be small all the same.
    let few = latencies(5, 40.0);
    let (fidelity, latency, _) = concluded(&found([work(CheckName::Steal, 1.0)]), &few, &[]);
    assert_eq!((fidelity.verdict, latency.interval), (Verdict::Trustworthy, None), "{:?}", fidelity.why);
    let (fidelity, ..) = concluded(&found([work(CheckName::Steal, 30.0)]), &few, &[]);
    assert_eq!(fidelity.verdict, Verdict::Suspect);
    assert!(
        check(&fidelity, CheckName::Steal).ok == Some(false) && fidelity.why[0].contains("steal"),
        "{:?}",
        fidelity.why
    );
}

#[test]
fn what_cannot_be_sized_and_what_was_not_checked_is_suspect() {
    let held = work(CheckName::Steal, 0.0);
    let (fidelity, ..) =
        concluded(&found([held.clone(), finding(CheckName::ClockLead, Found::Unsized)]), &latencies(1500, 10.0), &[]);
    assert_eq!(fidelity.verdict, Verdict::Suspect);
    let lead = check(&fidelity, CheckName::ClockLead);
    assert_eq!((lead.ok, lead.effect_percent, lead.effect_range_percent), (Some(false), None, None));
    assert_eq!(fidelity.why, ["clock-lead: nobody can say what this does to the metrics: This was seen."]);
    let nothing = found([finding(CheckName::Disk, Found::Nothing)]);
    let (fidelity, ..) = concluded(&nothing, &latencies(1500, 10.0), &[]);
    assert_eq!((fidelity.verdict, fidelity.checks[0].ok), (Verdict::Suspect, None));
    assert!(fidelity.why[0].contains("nothing was checked"), "{:?}", fidelity.why);
    let (fidelity, ..) =
        concluded(&found([held, finding(CheckName::Disk, Found::Nothing)]), &latencies(1500, 10.0), &[]);
    assert_eq!(fidelity.verdict, Verdict::Trustworthy, "what is not modelled promises nothing");
    let broken = finding(CheckName::Steal, Found::Effects(vec![Effect::Work([0.0, f64::NAN])]));
    assert_eq!(
        concluded(&found([broken]), &latencies(1500, 10.0), &[]).0.verdict,
        Verdict::Suspect,
        "no number, no proof"
    );
}

#[test]
fn a_run_without_metrics_is_judged_by_what_would_have_happened_to_any() {
    let verdict = |percent: f64| {
        let fidelity = found([work(CheckName::Steal, percent)]).conclude(accuracy(&[]), WINDOW, &mut []);
        (fidelity.verdict, fidelity.checks[0].ok, fidelity.checks[0].effect_percent)
    };
    assert_eq!(verdict(4.9), (Verdict::Trustworthy, Some(true), Some(4.9)));
    assert_eq!(verdict(5.1), (Verdict::Suspect, Some(false), Some(5.1)));
    let nothing = Findings::default().conclude(accuracy(&[]), WINDOW, &mut []);
    assert_eq!(nothing.verdict, Verdict::Suspect);
}

/// Each frame comes so many virtual s later.
fn late(mean: f64) -> Findings {
    let late = Effect::EachFrame { mean, late: mean };
    found([finding(CheckName::ClockLead, Found::Effects(vec![late]))])
}

#[test]
fn what_nobody_knows_has_no_size() {
    // Late by more than the path is long, as often as operations send frames: they cannot be nothing else.
    let (fidelity, latency, requests) = concluded(&late(0.02), &latencies(1500, 10.0), &[]);
    assert_eq!((latency.interval, requests.interval), (None, None));
    for record in [&latency, &requests] {
        assert!(!is_known(record.uncertainty.as_ref().unwrap().effects[0].percent));
    }
    let lead = check(&fidelity, CheckName::ClockLead);
    assert_eq!((lead.ok, lead.effect_percent, lead.effect_range_percent), (Some(false), None, None));
    assert_eq!(fidelity.verdict, Verdict::Suspect);
    for what in ["latency", "requests"] {
        let says = format!("{what}: what clock-lead does to it is not known");
        assert!(fidelity.why.iter().any(|why| why.starts_with(&says)), "{:?}", fidelity.why);
    }
    // Nor without metrics.
    let fidelity = late(0.02).conclude(accuracy(&[]), WINDOW, &mut []);
    assert_eq!(fidelity.why.len(), 1);
    assert!(fidelity.why[0].contains("what clock-lead does to it is not known"), "{:?}", fidelity.why);
    assert_eq!(late(0.000_1).conclude(accuracy(&[]), WINDOW, &mut []).verdict, Verdict::Trustworthy);
}

#[test]
fn no_cpu_decides_what_waits_for_a_link() {
    let (samples, link) = (
        latencies(1500, 10.0),
        LinkUse {
            pipes: vec![PipeUse { busy: 1.0, waited_s: 0.02, bytes: 9_000, from: vec![0], to: vec![1] }],
            nodes: vec![[9_000, 0], [0, 9_000]],
        },
    );
    let of = |busy: f64, nodes: &[usize]| {
        let usage = Usage { busy: vec![busy, 0.1], ..usage() };
        let mut latency = record("ms", &samples);
        let link = link.deciding(nodes);
        let name = "latency";
        let mut metrics =
            [Measured { name, record: &mut latency, samples: &samples, judged: true, clocked: false, link }];
        let findings = Findings::new(vec![work(CheckName::Caches, 85.0)], usage, None);
        let verdict = findings.conclude(accuracy(&[]), WINDOW, &mut metrics).verdict;
        (verdict, latency.uncertainty.unwrap().cpu_sensitivity == 0.0)
    };
    assert_eq!(of(0.2, &[1]), (Verdict::Trustworthy, true));
    assert_eq!(of(0.2, &[7]), (Verdict::Suspect, false), "nothing of it goes through the link");
    assert_eq!(of(0.6, &[1]), (Verdict::Suspect, false), "the server has much to do");
}

#[test]
fn the_tail_has_an_effect_of_its_own() {
    // Frames are late by 1 % of the path on average, and by 15 % of it now and then.
    let late = Effect::EachFrame { mean: 0.0001, late: 0.0015 };
    let findings = found([finding(CheckName::EmulatorLateness, Found::Effects(vec![late]))]);
    let (fidelity, latency, _) = concluded(&findings, &latencies(1500, 10.0), &[]);
    assert_eq!(fidelity.verdict, Verdict::Suspect);
    assert!(fidelity.why[0].starts_with("latency p90 may be "), "{:?}", fidelity.why);
    let effect = latency.uncertainty.unwrap().effects[0];
    assert!(
        (effect.percent[1] - 1.0).abs() < 1e-9 && (effect.tail_percent.unwrap()[1] - 15.0).abs() < 1e-9,
        "{effect:?}"
    );
    assert_eq!(fidelity.checks[0].effect_percent.map(f64::round), Some(15.0), "where it matters most");
    let (lenient, ..) = concluded(&findings, &latencies(1500, 10.0), &["5%", "p90=20%"]);
    assert_eq!(lenient.verdict, Verdict::Trustworthy, "{:?}", lenient.why);
}

#[test]
fn a_metric_of_nothing_but_zeros_is_exact() {
    let zeros: Vec<_> = latencies(100, 0.0).into_iter().map(|s| Sample { value: 0.0, ..s }).collect();
    let mut drops = record("1", &zeros);
    let mut metrics =
        [Measured { name: "drops", record: &mut drops, samples: &zeros, judged: true, clocked: false, link: None }];
    let fidelity = found([work(CheckName::Steal, 3.0)]).conclude(accuracy(&[]), WINDOW, &mut metrics);
    assert_eq!(fidelity.verdict, Verdict::Trustworthy, "{:?}", fidelity.why);
    assert_eq!(drops.interval.unwrap().mean, Some([0.0, 0.0]));
}

#[test]
fn checks_alone_are_judged_by_whether_they_hold() {
    let check = |ok: Option<bool>| Check {
        name: CheckName::Steal,
        value: Some(1.0),
        limit: Some(2.0),
        unit: "1".into(),
        ok,
        effect_percent: None,
        effect_range_percent: None,
        says: String::new(),
    };
    assert_eq!(conclude(vec![check(Some(true)), check(None)]).verdict, Verdict::Trustworthy);
    assert_eq!(conclude(vec![check(Some(true)), check(Some(false))]).verdict, Verdict::Suspect);
    assert_eq!(conclude(vec![check(None)]).verdict, Verdict::Suspect, "nothing was checked");
    assert_eq!(conclude(vec![]).verdict, Verdict::Suspect);
}

#[test]
fn a_run_that_counts_for_a_part_of_itself_has_done_more_than_its_samples() {
    // Samples of the second half only: work was done for twice as many.
    let samples: Vec<_> = latencies(1500, 10.0).into_iter().filter(|s| s.virtual_s >= Some(5.0)).collect();
    let mut record = record("ms", &samples);
    let mut metrics = [Measured {
        name: "latency",
        record: &mut record,
        samples: &samples,
        judged: true,
        clocked: false,
        link: None,
    }];
    found([work(CheckName::Steal, 1.0)]).conclude(accuracy(&[]), [5.0, 10.0], &mut metrics);
    assert!((record.uncertainty.unwrap().cpu_sensitivity - 0.64).abs() < 0.01);
    let Summary { n, .. } = record.summary;
    assert_eq!(n, 750);
}

#[test]
fn a_run_is_judged_only_by_what_it_is_for() {
    let samples = latencies(1500, 10.0);
    let verdict = |judged| {
        let mut record = record("ms", &samples);
        let mut metrics =
            [Measured { name: "beside", record: &mut record, samples: &samples, judged, clocked: false, link: None }];
        let fidelity = found([work(CheckName::Steal, 50.0)]).conclude(accuracy(&[]), WINDOW, &mut metrics);
        assert!(record.interval.is_some());
        let says = fidelity.why.iter().any(|why| why.starts_with("beside"));
        (fidelity.verdict, says)
    };
    assert_eq!(verdict(true), (Verdict::Suspect, true));
    assert!(!verdict(false).1);
}

#[test]
fn a_rate_by_the_clock_depends_on_no_cpu_while_there_is_enough() {
    let rates: Vec<_> = (0..10).map(|s| Sample { virtual_s: Some(s as f64), value: 500.0, node: "n".into() }).collect();
    let late = Effect::EachFrame { mean: 0.001, late: 0.002 };
    let slower = [
        work(CheckName::Caches, 30.0),
        finding(CheckName::EmulatorLateness, Found::Effects(vec![late])),
        finding(CheckName::ClockRate, Found::Effects(vec![Effect::Everything([-0.01, 0.01])])),
    ];
    let effects = |busy: f64, clocked| {
        let mut record = record("1/s", &rates);
        let mut metrics = [Measured {
            name: "video-packets",
            record: &mut record,
            samples: &rates,
            judged: false,
            clocked,
            link: None,
        }];
        let findings = Findings::new(slower.to_vec(), Usage { busy: vec![busy, 0.1], ..usage() }, None);
        findings.conclude(accuracy(&[]), WINDOW, &mut metrics);
        let uncertainty = record.uncertainty.unwrap();
        (uncertainty.effects.iter().map(|e| e.check).collect::<Vec<_>>(), uncertainty.cpu_sensitivity)
    };
    let all = [CheckName::Caches, CheckName::EmulatorLateness, CheckName::ClockRate];
    assert_eq!(effects(0.5, true), (vec![CheckName::ClockRate], 0.0));
    assert_eq!(effects(0.5, false).0, all);
    // A third more than 0.8 is more than there is.
    assert_eq!(effects(0.8, true).0, [CheckName::Caches, CheckName::ClockRate]);
    assert_eq!(effects(0.99, true).0, all, "such a sender may be late for good");
}
