//! The estimator against nodes that are simulated turn by turn, whose refill is known.

use scale::RealDuration;

use super::*;

/// SplitMix64 (Steele, Lea, Flood: *Fast splittable pseudorandom number generators*, OOPSLA 2014, figure 17).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.next()).ln()
    }
}

/// How a node's pace grows in a turn.
#[derive(Clone, Copy)]
enum Warming {
    /// As the estimator has it.
    Exponential { depth: f64, recovery_us: f64 },
    /// Nothing at all is done in the first so many µs.
    Constant { us: f64 },
}

impl Warming {
    /// Work done in the first `t` µs of a turn.
    fn work(self, t: f64) -> f64 {
        match self {
            Warming::Exponential { depth, recovery_us } => t + depth * recovery_us * (-t / recovery_us).exp_m1(),
            Warming::Constant { us } => (t - us).max(0.0),
        }
    }

    /// How long `work` takes from `t` on.
    fn time_for(self, work: f64, t: f64) -> f64 {
        match self {
            Warming::Constant { us } => (us - t).max(0.0) + work,
            Warming::Exponential { depth, recovery_us } => {
                // Newton's method: the pace grows, so from too late an end it comes down to the right one.
                let end = self.work(t) + work;
                let later = t + work + depth * recovery_us;
                (0..5).fold(later, |at, _| at - (self.work(at) - end) / (1.0 - depth * (-at / recovery_us).exp())) - t
            }
        }
    }
}

/// A server whose requests want some work each and count when they are done.
struct Server {
    warming: Warming,
    share: f64,
    /// Work per request: mean in µs, and whether it is exponential, or else between half and one and a half of that.
    work_us: f64,
    exponential: bool,
    /// Requests per second of real time that come by chance; `None`: the next one is always there.
    arrivals: Option<f64>,
    /// Bytes per request.
    bytes: f64,
}

const TLS: Server = Server {
    warming: Warming::Exponential { depth: 0.81, recovery_us: 160.0 },
    share: 0.03,
    work_us: 900.0,
    exponential: false,
    arrivals: None,
    bytes: 4_000.0,
};

/// What happens to it from outside.
#[derive(Clone, Copy, Default)]
struct Weather {
    /// The pace drifts by this part up and down in some ten seconds.
    drift: f64,
    /// Every so many seconds the pace is another, up to twice the slowest, and the meter does not see it.
    steps: Option<f64>,
    /// Part of the windows in which counters say anything.
    garbage: f64,
}

struct Outcome {
    windows: Vec<[Observed; LENGTHS]>,
    refill: Refill,
    /// From the twentieth second on: work done by work that a node without refill would have done.
    got: f64,
}

/// Lets a server run for so many seconds, with turns around `turn_us`; its share follows what is estimated if
/// `gives_back`.
fn run(server: &Server, turn_us: u64, seconds: f64, weather: Weather, seed: u64, gives_back: bool) -> Outcome {
    let mut random = Random(seed);
    let around = Alternation::around(RealDuration::from_nanos(turn_us * 1_000), server.share.min(0.004));
    let mut estimator = Estimator::new(Guess::NONE, &around);
    let (mut clock, mut n) = (0.0, 0);
    let (mut left, mut queue, mut next_arrival) = (0.0, 0u64, 0.0);
    let (mut did, mut owed, mut pace) = (0.0, 0.0, 1.0);
    let (mut round, mut windows) = ([None; LENGTHS], Vec::new());
    while clock < seconds * 1e6 {
        let dwell = around.dwell(n);
        let length = dwell.turn.as_nanos() as f64 / 1e3;
        let counted_from = clock + dwell.wash_out.as_nanos() as f64 / 1e3;
        let until = counted_from + dwell.counted.as_nanos() as f64 / 1e3;
        let factors = if gives_back { estimator.refill().factors(&around) } else { Factors::ONE };
        let factor = factors.by_turn[dwell.which];
        if clock < 20e6 {
            (did, owed) = (0.0, 0.0);
        }
        let (mut cpu, mut progress) = (0.0, 0.0);
        while clock < until {
            // One turn, once in a cycle.
            pace = match weather.steps {
                Some(every) => 1.0 + (Random((clock / 1e6 / every) as u64 ^ (seed << 8)).next()),
                None => pace,
            };
            let speed = pace * (1.0 + weather.drift * (clock / 1e7 * std::f64::consts::TAU).sin());
            let warming = server.warming;
            owed += length * speed / factor;
            let mut t = 0.0;
            while t < length {
                while server.arrivals.is_some() && next_arrival <= clock {
                    queue += 1;
                    next_arrival += random.exponential(1e6 / server.arrivals.unwrap_or(1.0));
                }
                if left <= 0.0 {
                    if server.arrivals.is_some() {
                        if queue == 0 {
                            break;
                        }
                        queue -= 1;
                    }
                    left =
                        server.work_us * if server.exponential { random.exponential(1.0) } else { 0.5 + random.next() };
                }
                let takes = warming.time_for(left / speed, t);
                let works = takes.min(length - t);
                let done = speed * (warming.work(t + works) - warming.work(t));
                (left, did, t) = (left - done, did + done, t + works);
                cpu += if clock >= counted_from { works } else { 0.0 };
                if takes <= works {
                    left = 0.0;
                    progress += if clock >= counted_from { server.bytes } else { 0.0 };
                }
            }
            clock += length / (server.share * factor);
        }
        if random.next() < weather.garbage {
            progress *= 1e6 * random.next();
        }
        let seen = Observed { cpu: ns(cpu), speed: 1.0, progress };
        round[dwell.which] = Some(seen);
        if dwell.ends_round {
            let whole = std::mem::take(&mut round).map(|seen| seen.expect("a whole round"));
            windows.push(whole);
            estimator.observe(whole);
        }
        n += 1;
    }
    Outcome { windows, refill: estimator.refill(), got: did / owed }
}

fn ns(us: f64) -> RealDuration {
    RealDuration::from_secs_f64(us / 1e6)
}

fn turn(us: u64) -> RealDuration {
    RealDuration::from_nanos(us * 1_000)
}

fn around() -> Alternation {
    Alternation::around(turn(400), 0.004)
}

/// Of 24 seeds: the mean of R in µs, the mean standard error, and how many are within two of those of `truth`.
fn many(server: &Server, turn_us: u64, seconds: f64, weather: Weather, truth: f64) -> (f64, f64, usize) {
    let found: Vec<_> = (0..24)
        .map(|seed| {
            let (r, error) = run(server, turn_us, seconds, weather, seed, false).refill.of_turn(turn(turn_us));
            (r.as_nanos() as f64 / 1e3, error.as_nanos() as f64 / 1e3)
        })
        .collect();
    let mean = |of: fn(&(f64, f64)) -> f64| found.iter().map(of).sum::<f64>() / 24.0;
    let within = found.iter().filter(|(r, error)| (r - truth).abs() <= 2.0 * error).count();
    (mean(|f| f.0), mean(|f| f.1), within)
}

#[test]
fn a_known_refill_is_found() {
    for (turn_us, truth) in [(400, 118.96), (1_500, 129.59), (150, 78.85)] {
        let (mean, error, within) = many(&TLS, turn_us, 100.0, Weather::default(), truth);
        assert!((mean - truth).abs() < 0.1 * truth, "turns of {turn_us} µs: {mean}, not {truth}");
        assert!(error < 0.35 * truth, "turns of {turn_us} µs: ± {error}");
        assert!(within >= 21, "turns of {turn_us} µs: {within} of 24 within two standard errors");
    }
}

#[test]
fn a_core_that_changes_its_pace_does_not_matter() {
    for weather in [Weather { drift: 0.3, ..Weather::default() }, Weather { steps: Some(7.0), ..Weather::default() }] {
        let (mean, error, within) = many(&TLS, 400, 100.0, weather, 118.96);
        assert!((mean - 118.96).abs() < 12.0 && error < 40.0 && within >= 21, "{mean} ± {error}, {within}");
    }
}

#[test]
fn a_node_without_refill_keeps_its_share() {
    let none = Warming::Constant { us: 0.0 };
    for server in [
        Server { warming: none, ..TLS },
        Server { warming: none, work_us: 8_000.0, ..TLS },
        Server { warming: none, exponential: true, ..TLS },
        Server { warming: none, arrivals: Some(10.0), ..TLS },
    ] {
        let factors: Vec<_> = (0..24)
            .map(|seed| run(&server, 400, 100.0, Weather::default(), seed, true).refill.factors(&around()).mean())
            .collect();
        let mean = factors.iter().sum::<f64>() / 24.0;
        assert!(mean < 1.015, "{mean} in the mean");
        assert!(factors.iter().filter(|f| **f > 1.03).count() <= 1, "{factors:?}");
    }
}

#[test]
fn a_node_that_is_given_its_refill_does_its_work() {
    let without = run(&TLS, 400, 100.0, Weather::default(), 1, false).got;
    let done = around().turns().map(|turn| {
        let us = turn.as_nanos() as f64 / 1e3;
        TLS.warming.work(us) / us
    });
    let expected = done.iter().sum::<f64>() / LENGTHS as f64;
    assert!((without / expected - 1.0).abs() < 0.03, "{without}, not {expected}");
    for seed in 0..12 {
        let with = run(&TLS, 400, 100.0, Weather::default(), seed, true);
        assert!((0.95..1.05).contains(&with.got), "{}", with.got);
    }
}

#[test]
fn nodes_that_sleep_are_estimated_by_what_they_do() {
    // Three requests a second of 0.9 ms: a tenth of what the share would do.
    let lazy = Server { arrivals: Some(3.0), ..TLS };
    let (mean, error, within) = many(&lazy, 400, 200.0, Weather::default(), 118.96);
    assert!(within >= 21, "{mean} ± {error}, {within}");
}

#[test]
fn what_is_not_known_of_the_shape_is_in_the_error() {
    for warming in [
        Warming::Constant { us: 80.0 },
        Warming::Exponential { depth: 0.8, recovery_us: 100.0 },
        Warming::Exponential { depth: 0.7, recovery_us: 250.0 },
    ] {
        let truth = 400.0 - warming.work(400.0);
        let (mean, error, within) = many(&Server { warming, ..TLS }, 400, 100.0, Weather::default(), truth);
        assert!(within >= 20, "{truth}: {mean} ± {error}, {within}");
    }
}

#[test]
fn nothing_that_is_counted_makes_it_run_away() {
    for seed in 0..12 {
        let weather = Weather { garbage: 0.3, drift: 0.5, steps: Some(3.0) };
        let outcome = run(&TLS, 400, 60.0, weather, seed, true);
        let factor = outcome.refill.factors(&around()).mean();
        assert!((1.0..=1.7).contains(&factor) && outcome.got < 1.7, "{factor}");
    }
    let mut estimator = Estimator::new(Guess::NONE, &around());
    let observed = |cpu, speed, progress| Observed { cpu: ns(cpu), speed, progress };
    for bad in [
        observed(0.0, 1.0, 5.0),
        observed(1e4, f64::NAN, 5.0),
        observed(1e4, 0.0, 5.0),
        observed(1e4, 1.0, f64::INFINITY),
        observed(1e4, 1.0, -1.0),
    ] {
        estimator.observe([observed(1e4, 1.0, 5.0), bad, observed(1e4, 1.0, 5.0)]);
        assert_eq!(estimator.refill().rounds, 0, "{bad:?}");
    }
    estimator.observe([observed(1e4, 1.0, 0.0); LENGTHS]);
    assert_eq!(estimator.refill().rounds, 0, "nothing was done");
    for progress in [0.0, 1e300] {
        (0..500).for_each(|_| estimator.observe([progress, 5.0, 5.0].map(|did| observed(1e4, 1.0, did))));
        let refill = estimator.refill();
        assert!((1.0..=1.7).contains(&refill.factors(&around()).mean()), "{refill:?}");
    }
}

/// What an estimator makes of these windows.
fn estimated(guess: Guess, windows: &[&[[Observed; LENGTHS]]]) -> Refill {
    let mut estimator = Estimator::new(guess, &around());
    windows.concat().into_iter().for_each(|round| estimator.observe(round));
    estimator.refill()
}

#[test]
fn a_node_that_begins_to_do_something_else_is_believed() {
    let none = Server { warming: Warming::Constant { us: 0.0 }, ..TLS };
    let before = run(&none, 400, 100.0, Weather::default(), 1, false).windows;
    let later = run(&TLS, 400, 400.0, Weather::default(), 2, false).windows;
    let r = |windows: &[&[[Observed; LENGTHS]]]| estimated(Guess::NONE, windows).of_turn(turn(400)).0;
    let (first, then) = (r(&[&before]), r(&[&before, &later]));
    assert!(first < turn(25) && then > turn(85), "{first}, {then}");
}

#[test]
fn a_guess_counts_until_there_is_more_to_go_by() {
    let guess = |depth, error| Guess { depth, error };
    let factor = |guess| estimated(guess, &[]).factors(&around()).mean();
    assert_eq!(factor(guess(0.5, 0.5)), 1.0, "nothing is given on a guess that is as good as none");
    assert!(factor(guess(0.5, 0.1)) > 1.1);
    let windows = run(&TLS, 400, 100.0, Weather::default(), 1, false).windows;
    let [alone, with] =
        [Guess::NONE, guess(0.4, 0.4)].map(|guess| estimated(guess, &[&windows]).of_turn(turn(400)).0.as_secs_f64());
    assert!((with / alone - 1.0).abs() < 0.1, "{alone}, {with}");
}
