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
    /// At the beginning so much of the pace is missing, and nothing after so many µs.
    Step { lost: f64, us: f64 },
}

/// Nothing at all is done in the first so many µs.
fn constant(us: f64) -> Warming {
    Warming::Step { lost: 1.0, us }
}

impl Warming {
    /// Work done in the first `t` µs of a turn.
    fn work(self, t: f64) -> f64 {
        match self {
            Warming::Exponential { depth, recovery_us } => t + depth * recovery_us * (-t / recovery_us).exp_m1(),
            Warming::Step { lost, us } => t - lost * t.min(us),
        }
    }

    /// How long `work` takes from `t` on.
    fn time_for(self, work: f64, t: f64) -> f64 {
        match self {
            Warming::Step { lost, us } => {
                let before = (us - t).max(0.0);
                let done = (1.0 - lost) * before;
                if work < done { work / (1.0 - lost) } else { before + work - done }
            }
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
    /// Part of the times in which counters say anything.
    garbage: f64,
    /// It has no windows of the longest turns.
    no_windows: bool,
}

struct Outcome {
    windows: Vec<[Observed; LENGTHS]>,
    refill: Refill,
    /// From the twentieth second on: work done by work that a node without refill would have done.
    got: f64,
    /// By dwell: when it began, µs, and the factor that was right by what was known then.
    factors: Vec<(f64, f64)>,
    learned: Option<Learned>,
    standing: Standing,
}

/// A server that runs, and what has come of it.
struct Running<'a> {
    server: &'a Server,
    weather: Weather,
    seed: u64,
    random: Random,
    /// µs since the start.
    clock: f64,
    left: f64,
    queue: u64,
    next_arrival: f64,
    did: f64,
    owed: f64,
    used: f64,
}

impl Running<'_> {
    /// Turns of one length for so long, of which the first part is not counted.
    fn turns(&mut self, turn: RealDuration, wash_out: RealDuration, counted: RealDuration, factor: f64) -> Observed {
        let Running { server, weather, .. } = *self;
        let length = turn.as_nanos() as f64 / 1e3;
        let counted_from = self.clock + wash_out.as_nanos() as f64 / 1e3;
        let until = counted_from + counted.as_nanos() as f64 / 1e3;
        if self.clock < 20e6 {
            (self.did, self.owed) = (0.0, 0.0);
        }
        let (mut cpu, mut progress) = (0.0, 0.0);
        while self.clock < until {
            // One turn, once in a cycle.
            let counts = self.clock >= counted_from;
            let of_step = |every: f64| 1.0 + Random((self.clock / 1e6 / every) as u64 ^ (self.seed << 8)).next();
            let pace = weather.steps.map_or(1.0, of_step);
            let speed = pace * (1.0 + weather.drift * (self.clock / 1e7 * std::f64::consts::TAU).sin());
            let warming = server.warming;
            self.owed += length * speed / factor;
            let mut t = 0.0;
            while t < length {
                while server.arrivals.is_some() && self.next_arrival <= self.clock {
                    self.queue += 1;
                    self.next_arrival += self.random.exponential(1e6 / server.arrivals.unwrap_or(1.0));
                }
                if self.left <= 0.0 {
                    if server.arrivals.is_some() {
                        if self.queue == 0 {
                            break;
                        }
                        self.queue -= 1;
                    }
                    let random = &mut self.random;
                    let wants = if server.exponential { random.exponential(1.0) } else { 0.5 + random.next() };
                    self.left = server.work_us * wants;
                }
                let takes = warming.time_for(self.left / speed, t);
                let works = takes.min(length - t);
                let done = speed * (warming.work(t + works) - warming.work(t));
                (self.left, self.did, t) = (self.left - done, self.did + done, t + works);
                self.used += works;
                cpu += if counts { works } else { 0.0 };
                if takes <= works {
                    self.left = 0.0;
                    progress += if counts { server.bytes } else { 0.0 };
                }
            }
            self.clock += length / (server.share * factor);
        }
        if self.random.next() < weather.garbage {
            progress *= 1e6 * self.random.next();
        }
        Observed { cpu: ns(cpu), speed: 1.0, progress }
    }
}

/// Lets a server run for so many seconds, with turns around `turn_us`; its share follows what is estimated if
/// `gives_back`.
fn run(server: &Server, turn_us: u64, seconds: f64, weather: Weather, seed: u64, gives_back: bool) -> Outcome {
    let estimator = Estimator::new(Guess::NONE, &around(turn_us));
    run_with(estimator, server, turn_us, seconds, weather, seed, gives_back)
}

/// The same with an estimator that may know something.
fn run_with(
    mut estimator: Estimator,
    server: &Server,
    turn_us: u64,
    seconds: f64,
    weather: Weather,
    seed: u64,
    gives_back: bool,
) -> Outcome {
    let around = around(turn_us);
    let candidate = Candidate { core: 0, share: server.share, turn: around.mean(), window: around.in_windows() };
    let mut schedule = Windows::new([candidate], ns(seconds * 1e6));
    let mut running = Running {
        server,
        weather,
        seed,
        random: Random(seed),
        clock: 0.0,
        left: 0.0,
        queue: 0,
        next_arrival: 0.0,
        did: 0.0,
        owed: 0.0,
        used: 0.0,
    };
    let (mut round, mut windows, mut n) = ([None; LENGTHS], Vec::new(), 0);
    let mut right = Vec::new();
    while running.clock < seconds * 1e6 {
        let dwell = around.dwell(n);
        let factors = if gives_back { estimator.refill().factors(&around) } else { Factors::ONE };
        let factor = factors.by_turn[dwell.which];
        right.push((running.clock, factors.mean()));
        round[dwell.which] = Some(running.turns(dwell.turn, dwell.wash_out, dwell.counted, factor));
        if dwell.ends_round {
            let whole = std::mem::take(&mut round).map(|seen| seen.expect("a whole round"));
            windows.push(whole);
            estimator.observe(whole);
            let window = schedule.next(ns(running.clock), &[ns(running.used)]).filter(|_| !weather.no_windows);
            if let Some(Window { wash_out, counted, .. }) = window {
                estimator.observe_long(running.turns(around.in_windows(), wash_out, counted, factors.long));
            }
        }
        n += 1;
    }
    let (refill, got) = (estimator.refill(), running.did / running.owed);
    Outcome { windows, refill, got, factors: right, learned: estimator.learned(), standing: estimator.standing() }
}

fn ns(us: f64) -> RealDuration {
    RealDuration::from_secs_f64(us / 1e6)
}

fn turn(us: u64) -> RealDuration {
    RealDuration::from_nanos(us * 1_000)
}

/// Beside a client with a share of 0.004.
fn around(turn_us: u64) -> Alternation {
    Alternation::around(turn(turn_us), 0.004, RealDuration::ZERO)
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
    let none = constant(0.0);
    for server in [
        Server { warming: none, ..TLS },
        Server { warming: none, work_us: 8_000.0, ..TLS },
        Server { warming: none, exponential: true, ..TLS },
        Server { warming: none, arrivals: Some(10.0), ..TLS },
    ] {
        let factors: Vec<_> = (0..24)
            .map(|seed| run(&server, 400, 100.0, Weather::default(), seed, true).refill.factors(&around(400)).mean())
            .collect();
        let mean = factors.iter().sum::<f64>() / 24.0;
        assert!(mean < 1.015, "{mean} in the mean");
        assert!(factors.iter().filter(|f| **f > 1.03).count() <= 3, "chance, in one of eight: {factors:?}");
    }
}

#[test]
fn a_node_that_is_given_its_refill_does_its_work() {
    let without = run(&TLS, 400, 100.0, Weather::default(), 1, false).got;
    let done = around(400).turns().map(|turn| {
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
        constant(80.0),
        Warming::Exponential { depth: 0.8, recovery_us: 100.0 },
        Warming::Exponential { depth: 0.7, recovery_us: 250.0 },
    ] {
        let truth = 400.0 - warming.work(400.0);
        let (mean, error, within) = many(&Server { warming, ..TLS }, 400, 100.0, Weather::default(), truth);
        assert!(within >= 20, "{truth}: {mean} ± {error}, {within}");
    }
}

/// A server that loses a third of its pace in all of the turns that alternate.
const SLOW: Warming = Warming::Step { lost: 0.35, us: 600.0 };

#[test]
fn what_is_lost_of_all_near_turns_alike_is_found() {
    let slow = Server { warming: SLOW, ..TLS };
    for turn_us in [160, 240, 400] {
        let truth = turn_us as f64 - SLOW.work(turn_us as f64);
        let of = |weather| many(&slow, turn_us, 100.0, weather, truth);
        for weather in [Weather::default(), Weather { drift: 0.3, ..Weather::default() }] {
            let (mean, error, within) = of(weather);
            assert!((mean - truth).abs() < 0.16 * truth && error < 0.35 * truth, "{truth}: {mean} ± {error}");
            assert!(within >= 22, "turns of {turn_us} µs: {within} of 24 within two standard errors");
        }
        let (mean, ..) = of(Weather { no_windows: true, ..Weather::default() });
        assert!(mean < 0.7 * truth, "three near lengths alone find {mean} of {truth}");
    }
}

#[test]
fn what_is_lost_of_all_near_turns_alike_is_given_back() {
    let slow = Server { warming: SLOW, ..TLS };
    for turn_us in [160, 240, 400] {
        let got = |weather| {
            let each = (0..12).map(|seed| run(&slow, turn_us, 100.0, weather, seed, true).got);
            each.collect::<Vec<_>>()
        };
        let (with, without) = (got(Weather::default()), got(Weather { no_windows: true, ..Weather::default() }));
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
        assert!((0.95..1.05).contains(&mean(&with)), "turns of {turn_us} µs: {with:?}");
        assert!(with.iter().all(|got| (0.8..1.12).contains(got)), "turns of {turn_us} µs: {with:?}");
        assert!(mean(&without) < 0.9 * mean(&with), "turns of {turn_us} µs: {without:?}");
    }
}

#[test]
fn nothing_that_is_counted_makes_it_run_away() {
    for seed in 0..12 {
        let weather = Weather { garbage: 0.3, drift: 0.5, steps: Some(3.0), ..Weather::default() };
        let outcome = run(&TLS, 400, 60.0, weather, seed, true);
        let factor = outcome.refill.factors(&around(400)).mean();
        assert!((1.0..=1.7).contains(&factor) && outcome.got < 1.7, "{factor}");
    }
    let mut estimator = Estimator::new(Guess::NONE, &around(400));
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
        assert!((1.0..=1.7).contains(&refill.factors(&around(400)).mean()), "{refill:?}");
    }
}

/// What an estimator makes of these windows.
fn estimated(guess: Guess, windows: &[&[[Observed; LENGTHS]]]) -> Refill {
    let mut estimator = Estimator::new(guess, &around(400));
    windows.concat().into_iter().for_each(|round| estimator.observe(round));
    estimator.refill()
}

#[test]
fn a_node_that_begins_to_do_something_else_is_believed() {
    let none = Server { warming: constant(0.0), ..TLS };
    let before = run(&none, 400, 100.0, Weather::default(), 1, false).windows;
    let later = run(&TLS, 400, 400.0, Weather::default(), 2, false).windows;
    let r = |windows: &[&[[Observed; LENGTHS]]]| estimated(Guess::NONE, windows).of_turn(turn(400)).0;
    let (first, then) = (r(&[&before]), r(&[&before, &later]));
    assert!(first < turn(25) && then > turn(85), "{first}, {then}");
}

#[test]
fn a_guess_counts_until_there_is_more_to_go_by() {
    let guess = |depth, error| Guess { depth, error };
    let factor = |guess| estimated(guess, &[]).factors(&around(400)).mean();
    assert_eq!(factor(guess(0.5, 0.5)), 1.0, "nothing is given on a guess that is as good as none");
    assert!(factor(guess(0.5, 0.1)) > 1.1);
    let windows = run(&TLS, 400, 100.0, Weather::default(), 1, false).windows;
    let [alone, with] =
        [Guess::NONE, guess(0.4, 0.4)].map(|guess| estimated(guess, &[&windows]).of_turn(turn(400)).0.as_secs_f64());
    assert!((with / alone - 1.0).abs() < 0.1, "{alone}, {with}");
}

/// The factor that gives this back in turns around 0.4 ms.
fn right_factor(warming: Warming) -> f64 {
    let each = around(400).turns().map(|turn| {
        let us = turn.as_nanos() as f64 / 1e3;
        us / warming.work(us)
    });
    each.iter().sum::<f64>() / LENGTHS as f64
}

const HOUR: RealDuration = RealDuration::from_nanos(3_600_000_000_000);

/// A run an hour after one of 60 s that has learned what it could of a server that warms like this.
fn later(warming: Warming, server: &Server, seconds: f64, seed: u64) -> Outcome {
    let before = run(&Server { warming, ..TLS }, 400, 60.0, Weather::default(), 100 + seed, true);
    let learned = before.learned.expect("enough rounds");
    let estimator = Estimator::new(Guess::NONE, &around(400)).with_earlier(learned, HOUR);
    run_with(estimator, server, 400, seconds, Weather::default(), seed, true)
}

/// By how much the factor is off from some second to another: the root of the mean square, in all of these runs.
fn off(outcomes: &[Outcome], right: f64, seconds: std::ops::Range<f64>) -> f64 {
    let factors = outcomes.iter().flat_map(|o| &o.factors).filter(|(at, _)| seconds.contains(&(at / 1e6)));
    let squares: Vec<f64> = factors.map(|(_, factor)| (factor - right).powi(2)).collect();
    (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
}

#[test]
fn what_an_earlier_run_has_learned_is_known_from_the_start() {
    for warming in [TLS.warming, SLOW, constant(0.0)] {
        let (server, right) = (Server { warming, ..TLS }, right_factor(warming));
        let alone = |seed| run(&server, 400, 60.0, Weather::default(), seed, true);
        let without: Vec<_> = (0..8).map(alone).collect();
        let with: Vec<_> = (0..8).map(|seed| later(warming, &server, 60.0, seed)).collect();
        let [first, first_without] = [&with, &without].map(|runs| off(runs, right, 0.0..20.0));
        assert!(first < 0.01 + 0.35 * first_without, "{right}: off by {first} in the first third, {first_without}");
        let [last, last_without] = [&with, &without].map(|runs| off(runs, right, 40.0..60.0));
        assert!(last < 0.02 + 1.2 * last_without, "{right}: off by {last} in the last third, {last_without}");
        assert!(with.iter().all(|o| o.standing == Standing::Used), "{right}: nothing that is right is forgotten");
    }
}

#[test]
fn what_was_learned_of_something_else_does_no_lasting_harm() {
    let none = constant(0.0);
    for (before, now) in [(TLS.warming, none), (none, TLS.warming), (SLOW, none), (none, SLOW)] {
        let (server, right) = (Server { warming: now, ..TLS }, right_factor(now));
        let without: Vec<_> = (0..6).map(|s| run(&server, 400, 150.0, Weather::default(), s, true)).collect();
        let with: Vec<_> = (0..6).map(|seed| later(before, &server, 150.0, seed)).collect();
        let [last, last_without] = [&with, &without].map(|runs| off(runs, right, 100.0..150.0));
        assert!(last < 0.05 + 1.2 * last_without, "{right}: off by {last} in the last third, {last_without}");
        let rejected = with.iter().filter(|o| o.standing == Standing::Rejected).count();
        // What is slow shows only in windows, of which there are few: its weight fades instead.
        let told_by_rounds = ![before, now].iter().any(|warming| matches!(warming, Warming::Step { us: 600.0, .. }));
        assert!(rejected == 6 || !told_by_rounds, "{right}: rejected in {rejected} of 6");
    }
}

#[test]
fn a_few_rounds_neither_reject_nor_teach() {
    let before = run(&TLS, 400, 60.0, Weather::default(), 1, true).learned.unwrap();
    let begin = || Estimator::new(Guess::NONE, &around(400)).with_earlier(before.clone(), HOUR);
    let none = run(&Server { warming: constant(0.0), ..TLS }, 400, 150.0, Weather::default(), 2, false);
    let mut estimator = begin();
    assert_eq!((begin().learned(), Estimator::new(Guess::NONE, &around(400)).learned()), (None, None));
    for round in &none.windows[..ROUNDS_OF_ANOTHER as usize - 1] {
        estimator.observe(*round);
        assert_eq!(estimator.standing(), Standing::Used);
    }
    let known = estimator.learned().unwrap();
    assert!((30..=46).contains(&known.rounds), "23 and, each counting less, 23 more: {}", known.rounds);
    none.windows[23..].iter().for_each(|round| estimator.observe(*round));
    assert_eq!(estimator.standing(), Standing::Rejected);
    let alone = estimated(Guess::NONE, &[&none.windows]);
    assert_eq!(estimator.refill(), alone, "as if there had been nothing");
    assert_eq!(estimator.learned().unwrap().rounds, alone.rounds);
}
