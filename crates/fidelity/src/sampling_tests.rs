//! Whether the intervals hold what they promise, on series whose truth is known.

use std::time::Instant;

use super::*;

fn random(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    Normal::standard().inverse_cdf(random.random_range(1e-12..1.0))
}

/// An autoregressive series of order one, each value `alike` times the one before plus something new: normal, with
/// mean 0 and variance 1.
fn autoregressive(seed: u64, n: usize, alike: f64) -> Vec<f64> {
    let mut random = random(seed);
    let mut value = normal(&mut random);
    let mut next = || {
        let now = value;
        value = alike * value + (1.0 - alike * alike).sqrt() * normal(&mut random);
        now
    };
    (0..n).map(|_| next()).collect()
}

/// How often, per cent of `series` of `n` values each, the interval of each statistic holds the truth. The values are
/// log-normal, as latencies are: skewed, with a long tail.
fn coverage(series: u64, n: usize, alike: f64) -> [f64; 4] {
    let level = |p: f64| Normal::standard().inverse_cdf(p).mul_add(0.5, 3.0).exp();
    let truth = [(3.0f64 + 0.125).exp(), level(0.5), level(0.9), level(0.99)];
    let mut held = [0; 4];
    for seed in 0..series {
        let values: Vec<f64> = autoregressive(seed, n, alike).iter().map(|x| (3.0 + 0.5 * x).exp()).collect();
        let Intervals { mean, p50, p90, p99 } = intervals(&values);
        for (index, interval) in [mean, p50, p90, p99].into_iter().enumerate() {
            let [low, high] = interval.unwrap_or([f64::INFINITY, f64::NEG_INFINITY]);
            held[index] += u64::from(low <= truth[index] && truth[index] <= high);
        }
    }
    held.map(|held| 100.0 * held as f64 / series as f64)
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_promise() {
    for alike in [0.0, 0.5, 0.8] {
        let held = coverage(300, 1000, alike);
        assert!(held[..3].iter().all(|held| (88.0..=99.7).contains(held)), "{alike}: {held:?}");
        // Ten samples lie beyond the 99th percentile, and all of them may be neighbours.
        assert!(held[3] >= 84.0, "{alike}: {held:?}");
    }
}

#[test]
fn few_samples_have_wide_intervals_and_not_wrong_ones() {
    for alike in [0.0, 0.5] {
        let held = coverage(300, 60, alike);
        assert!(held[..2].iter().all(|held| *held >= 86.0), "{alike}: {held:?}");
    }
}

#[test]
fn an_interval_is_as_narrow_as_independent_samples_allow() {
    // The standard error of the mean of 2,500 is 0.02; an interval of 95 % is 3.92 of it.
    let widths: Vec<f64> = (0..50)
        .map(|seed| {
            let [low, high] = mean(&autoregressive(seed, 2500, 0.0)).unwrap();
            high - low
        })
        .collect();
    let width = widths.iter().sum::<f64>() / 50.0;
    assert!((0.95..1.15).contains(&(width / 0.0784)), "{width}");
    // Samples that are alike are worth fewer: (1 + 0.8) / (1 − 0.8) = 9 of them one.
    let alike: f64 = (0..50)
        .map(|seed| {
            let [low, high] = mean(&autoregressive(seed, 2500, 0.8)).unwrap();
            (high - low) / 50.0
        })
        .sum();
    assert!((0.85..1.25).contains(&(alike / (3.0 * 0.0784))), "{alike}");
}

#[test]
fn what_is_too_little_is_not_stated() {
    let series = autoregressive(7, 1000, 0.2);
    let stated = |n: usize| {
        let Intervals { mean, p50, p90, p99 } = intervals(&series[..n]);
        [mean, p50, p90, p99].map(|interval| interval.is_some())
    };
    assert_eq!(stated(9), [false; 4]);
    assert_eq!(stated(10), [true, true, false, false]);
    assert_eq!(stated(100), [true, true, true, false]);
    assert_eq!(stated(1000), [true; 4]);
    assert_eq!((mean(&[]), mean(&[1.0])), (None, None));
    assert_eq!(intervals(&[5.0; 200]).p90, Some([5.0, 5.0]), "no spread, no doubt");
    assert_eq!(intervals(&[f64::NAN; 20]), Intervals::default());
}

#[test]
fn the_same_samples_have_the_same_interval_in_whatever_order_they_come() {
    let sample = |(i, value): (usize, f64)| Sample { virtual_s: Some(i as f64), value, node: "".into() };
    let mut samples: Vec<_> = autoregressive(3, 500, 0.7).into_iter().enumerate().map(sample).collect();
    let in_order = intervals(&in_time(&samples));
    samples.reverse();
    assert_eq!(intervals(&in_time(&samples)), in_order);
    assert_eq!(in_order, intervals(&in_time(&samples)));
}

#[test]
fn counts_vary_as_their_events_do() {
    // A Poisson process of 2,000 events: one standard error is 2.24 %.
    let mut random = random(1);
    let times: Vec<f64> = (0..2000).map(|_| random.random_range(0.0..20.0)).collect();
    let [low, high] = of_count(&times, [0.0, 20.0]).unwrap();
    assert!((-6.0..-3.0).contains(&low) && (3.0..6.0).contains(&high), "{low} {high}");
    // A clockwork has no spread.
    let steady: Vec<f64> = (0..2000).map(|i| f64::from(i) / 100.0 + 0.005).collect();
    let [low, high] = of_count(&steady, [0.0, 20.0]).unwrap();
    assert!(low > -0.2 && high < 0.2, "{low} {high}");
    assert_eq!(of_count(&steady[..30], [0.0, 20.0]), None);
    assert_eq!(of_count(&steady, [20.0, 20.0]), None);
}

/// Users that begin after 0.6 s, and then an operation as soon as the last is done and `between` has passed: it takes
/// 0.1 s, a fifth more or less, all users of a wave alike.
fn users(seed: u64, n: usize, between: f64) -> Vec<Span> {
    let mut random = random(seed);
    let mut spans = Vec::new();
    let mut wave = 0.6;
    while wave < 20.0 {
        let took = random.random_range(0.08..0.12);
        spans.extend((0..n).map(|_| Span { at: wave + random.random_range(0.0..1e-4), took }));
        wave += took + between;
    }
    spans
}

#[test]
fn users_in_step_do_not_make_their_number_less_certain() {
    let spans = users(3, 18, 0.0);
    let [low, high] = of_closed_loop(&spans, [0.0, 20.0]).unwrap();
    // 200 waves of ± 11.5 %: one standard error is 0.8 %.
    assert!((-3.0..-1.0).contains(&low) && (1.0..3.0).contains(&high), "{low} {high}");
    // Nor does it matter when they begin.
    let times: Vec<f64> = spans.iter().map(|s| s.at).collect();
    let first = times.iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(of_count(&times, [0.0, 20.0]), of_count(&times, [first, 20.0]));
}

#[test]
fn who_thinks_or_comes_by_chance_is_no_loop() {
    assert_eq!(of_closed_loop(&users(3, 18, 0.1), [0.0, 20.0]), None);
    let mut random = random(5);
    let chance: Vec<Span> =
        (0..2000).map(|_| Span { at: random.random_range(0.0..20.0), took: random.random_range(0.05..0.15) }).collect();
    assert_eq!(of_closed_loop(&chance, [0.0, 20.0]), None);
    // Nor is there anything to say of less than two operations after one another.
    let spans = users(3, 18, 0.0);
    assert_eq!(of_closed_loop(&spans, [0.0, 0.15]), None);
    assert_eq!(of_closed_loop(&spans[..9], [0.0, 20.0]), None);
}

#[test]
fn a_hundred_thousand_samples_take_less_than_summarising_them_a_hundred_times() {
    let series = autoregressive(11, 100_000, 0.6);
    let timed = |work: &dyn Fn()| {
        let began = Instant::now();
        work();
        began.elapsed()
    };
    let summarise = || {
        let sorted = Samples::new(series.clone()).unwrap();
        crate::statistics::summary(&sorted).unwrap();
    };
    // Both slow down alike on a busy machine.
    let reference: std::time::Duration = (0..3).map(|_| timed(&summarise)).sum();
    let took = timed(&|| assert!(intervals(&series).p99.is_some()));
    assert!(took < 34 * reference, "{took:?}, three summaries {reference:?}");
}
