//! Another machine's clock against this one's: offset and drift, from questions for its time over a way with jitter.
//!
//! Pure: who asks is elsewhere, and real instants of the two machines meet only here. An answer bounds the offset by
//! the question's round trip (Cristian, 1989). Of each window of time the question with the shortest round trip counts,
//! as in NTP's clock filter (RFC 5905, section 10), and a line through those is the clock.

use std::collections::VecDeque;

use scale::{RealDuration, RealInstant};
use serde::{Deserialize, Serialize};

/// How fast two clocks get apart at most: Linux slews each by 500 ppm (`adjtimex(2)`).
const MOST_DRIFT: f64 = 1000e-6;
/// How many windows count; an hour's wander of a crystal is not in the drift of minutes.
const WINDOWS: usize = 128;
/// The cost of reading a clock and waking up, at the best: no round trip is better known.
const FLOOR_NS: f64 = 1000.0;

/// A question for another machine's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// When it was sent, by this machine's clock.
    pub sent: RealInstant,
    /// The time there when it was answered, by that machine's clock.
    pub there: RealInstant,
    /// When the answer was here.
    pub received: RealInstant,
}

impl Exchange {
    /// How long it took.
    pub fn round_trip(&self) -> RealDuration {
        self.received.since(self.sent)
    }

    /// The offset is not below the first nor above the second, in ns: no answer is before its question.
    pub fn bounds(&self) -> [i64; 2] {
        [difference(self.there, self.received), difference(self.there, self.sent)]
    }

    /// The offset where both ways take equally long.
    fn middle(&self) -> i64 {
        let [low, high] = self.bounds().map(i128::from);
        to_i64((low + high) / 2)
    }

    /// The instant that belongs to the middle.
    fn at(&self) -> RealInstant {
        self.sent + RealDuration::from_nanos(self.round_trip().as_nanos() / 2)
    }
}

/// A jump of one of the two clocks against the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jump {
    /// When it was seen, by this machine's clock: up to a window after it happened.
    pub at: RealInstant,
    /// By how many ns the other machine's clock got ahead.
    pub by_ns: i64,
    /// How exactly that is known.
    pub within: RealDuration,
}

/// Another machine's clock, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FarTime {
    /// For when, by this machine's clock.
    pub at: RealInstant,
    /// By how many ns the other clock is ahead.
    pub offset_ns: i64,
    /// How exactly that is known: half the shortest round trip, all of which may be one of the ways, and what jitter
    /// leaves.
    pub offset_within: RealDuration,
    /// By how much faster it goes, in parts per million; none before there are two windows.
    pub drift_ppm: Option<f64>,
    /// How exactly that is known, where the ways stay as long as they are.
    pub drift_within_ppm: Option<f64>,
    /// The shortest round trip.
    pub shortest: RealDuration,
}

/// Follows another machine's clock.
#[derive(Clone, Debug)]
pub struct FarClock {
    window: RealDuration,
    /// The first question of the window that goes on, and its best.
    open: Option<(RealInstant, Exchange)>,
    /// The best of each window that is over, since the last jump.
    best: VecDeque<Exchange>,
    jumps: Vec<Jump>,
}

impl FarClock {
    /// Begins with nothing; of each `window` one question counts.
    pub fn new(window: RealDuration) -> FarClock {
        FarClock { window, open: None, best: VecDeque::new(), jumps: Vec::new() }
    }

    /// Takes in a question that was answered, in the order in which they were asked.
    pub fn add(&mut self, exchange: Exchange) {
        match &mut self.open {
            Some((from, best)) if exchange.sent.since(*from) < self.window => {
                if exchange.round_trip() < best.round_trip() {
                    *best = exchange;
                }
            }
            open => {
                if let Some((_, best)) = open.replace((exchange.sent, exchange)) {
                    self.close(best);
                }
            }
        }
    }

    /// Ends the window that goes on.
    pub fn close_window(&mut self) {
        if let Some((_, best)) = self.open.take() {
            self.close(best);
        }
    }

    fn close(&mut self, best: Exchange) {
        if let Some(jump) = self.jump_to(best) {
            self.jumps.push(jump);
            self.best.clear();
        }
        self.best.push_back(best);
        if self.best.len() > WINDOWS {
            self.best.pop_front();
        }
    }

    /// The jump before a question, if no two clocks could be where it and those before say without one.
    fn jump_to(&self, next: Exchange) -> Option<Jump> {
        let mut range = [i128::MIN, i128::MAX];
        for past in &self.best {
            let slack = (MOST_DRIFT * next.at().since(past.at()).as_nanos() as f64) as i128;
            let [low, high] = past.bounds().map(i128::from);
            range = [range[0].max(low - slack), range[1].min(high + slack)];
        }
        let last = self.best.back()?;
        let [low, high] = next.bounds().map(i128::from);
        if low <= range[1] && high >= range[0] {
            return None;
        }
        let by = i128::from(next.middle()) - i128::from(last.middle());
        let within = (last.round_trip() + next.round_trip()).as_nanos() / 2;
        let within = within + (MOST_DRIFT * next.at().since(last.at()).as_nanos() as f64) as u64;
        Some(Jump { at: next.at(), by_ns: to_i64(by), within: RealDuration::from_nanos(within) })
    }

    /// All jumps so far. One that is shorter than a round trip cannot be told from a way that has changed.
    pub fn jumps(&self) -> &[Jump] {
        &self.jumps
    }

    /// The clock since the last jump, by the windows that are over; none before there is one.
    pub fn known(&self) -> Option<FarTime> {
        let (first, last) = (self.best.front()?, self.best.back()?);
        let mut trips: Vec<RealDuration> = self.best.iter().map(Exchange::round_trip).collect();
        trips.sort();
        let shortest = *trips.first()?;
        // The way's own length is below the shortest by about as much as the next is above.
        let unseen = trips.get(1).map_or(0.0, |next| next.saturating_sub(shortest).as_nanos() as f64);
        let origin = first.middle();
        // By when, by what, and how exactly, in ns from the first.
        let points: Vec<[f64; 3]> = self
            .best
            .iter()
            .map(|e| {
                let excess = e.round_trip().saturating_sub(shortest).as_nanos() as f64 / 2.0;
                let offset = (i128::from(e.middle()) - i128::from(origin)) as f64;
                [e.at().since(first.at()).as_nanos() as f64, offset, excess + unseen + FLOOR_NS]
            })
            .collect();
        let end = last.at().since(first.at()).as_nanos() as f64;
        let line = Line::through(&points, end);
        Some(FarTime {
            at: last.at(),
            offset_ns: to_i64(i128::from(origin) + line.value.round() as i128),
            offset_within: RealDuration::from_nanos(shortest.as_nanos() / 2 + line.value_within.ceil() as u64),
            drift_ppm: line.slope.map(|[slope, _]| slope * 1e6),
            drift_within_ppm: line.slope.map(|[_, within]| within * 1e6),
            shortest,
        })
    }
}

/// A line through points, by weighted least squares.
struct Line {
    /// Its value at some place, and twice the standard error of that.
    value: f64,
    value_within: f64,
    /// Its slope, and twice the standard error of that; none of points at one place.
    slope: Option<[f64; 2]>,
}

impl Line {
    fn through(points: &[[f64; 3]], at: f64) -> Line {
        let sum = |of: &dyn Fn(&[f64; 3]) -> f64| -> f64 { points.iter().map(|p| of(p) / (p[2] * p[2])).sum() };
        let weight = sum(&|_| 1.0);
        let (x, y) = (sum(&|p| p[0]) / weight, sum(&|p| p[1]) / weight);
        let spread = sum(&|p| (p[0] - x).powi(2));
        let slope = if spread > 0.0 { sum(&|p| (p[0] - x) * (p[1] - y)) / spread } else { 0.0 };
        // Points that scatter more than each is known say so of the line.
        let scatter = match points.len() {
            0..=2 => 1.0,
            n => (sum(&|p| (p[1] - y - slope * (p[0] - x)).powi(2)) / (n - 2) as f64).sqrt().max(1.0),
        };
        let known = spread > 0.0;
        let lever = if known { (at - x).powi(2) / spread } else { 0.0 };
        Line {
            value: y + slope * (at - x),
            value_within: 2.0 * scatter * (1.0 / weight + lever).sqrt(),
            slope: known.then(|| [slope, 2.0 * scatter / spread.sqrt()]),
        }
    }
}

/// `a` − `b` in ns, of two clocks.
fn difference(a: RealInstant, b: RealInstant) -> i64 {
    to_i64(i128::from(a.as_nanos()) - i128::from(b.as_nanos()))
}

/// The nearest that fits: what another machine says of its time may be anything.
fn to_i64(ns: i128) -> i64 {
    ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const US: f64 = 1e3;

    /// Two clocks and the ways between them; all in ns of this machine's clock.
    struct Two {
        ahead: f64,
        drift: f64,
        /// The shortest ways there and back.
        ways: [f64; 2],
        /// The mean of what jitter adds to each, exponentially.
        jitter: f64,
        /// When the other clock jumps, and by what.
        jump: Option<(u64, f64)>,
        state: u64,
    }

    impl Two {
        fn new(drift: f64, ways: [f64; 2], jitter: f64) -> Two {
            Two { ahead: 3_271_000_123.0, drift, ways, jitter, jump: None, state: 7 }
        }

        fn offset(&self, at: f64) -> f64 {
            let jumped = self.jump.filter(|(when, _)| at >= *when as f64).map_or(0.0, |(_, by)| by);
            self.ahead + self.drift * at + jumped
        }

        fn way(&mut self, which: usize) -> f64 {
            // Numerical Recipes' generator: any will do.
            self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let uniform = ((self.state >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
            self.ways[which] - self.jitter * uniform.ln()
        }

        fn ask(&mut self, at: u64) -> Exchange {
            let there = at as f64 + self.way(0);
            let back = there + self.way(1);
            Exchange {
                sent: RealInstant::from_nanos(at),
                there: RealInstant::from_nanos((there + self.offset(there)) as u64),
                received: RealInstant::from_nanos(back as u64),
            }
        }

        /// Asks every 10 ms from one time to another, in ms.
        fn follow(&mut self, clock: &mut FarClock, from: u64, to: u64) {
            (from..to).step_by(10).for_each(|ms| clock.add(self.ask(ms * MS)));
        }

        /// All that is known must hold, and be as exact as this.
        fn must_hold(&self, clock: &FarClock, offset_us: f64, drift_ppm: f64) {
            let known = clock.known().unwrap();
            let off = (known.offset_ns as f64 - self.offset(known.at.as_nanos() as f64)).abs();
            let within = known.offset_within.as_nanos() as f64;
            assert!(off <= within && within <= offset_us * US, "{off} of {within} ns: {known:?}");
            let (drift, within) = (known.drift_ppm.unwrap(), known.drift_within_ppm.unwrap());
            let off = (drift - self.drift * 1e6).abs();
            assert!(off <= within && within <= drift_ppm, "{off} of {within} ppm: {known:?}");
        }
    }

    fn clock() -> FarClock {
        FarClock::new(RealDuration::from_nanos(200 * MS))
    }

    #[test]
    fn an_even_way_tells_offset_and_drift() {
        for drift in [0.0, 100e-6, -100e-6, 480e-6] {
            let (mut two, mut clock) = (Two::new(drift, [100.0 * US; 2], 0.0), clock());
            two.follow(&mut clock, 0, 10_000);
            two.must_hold(&clock, 102.0, 0.2);
            assert_eq!(clock.jumps(), []);
        }
    }

    #[test]
    fn jitter_is_filtered() {
        for jitter in [50.0, 500.0, 20_000.0] {
            let (mut two, mut clock) = (Two::new(100e-6, [100.0 * US; 2], jitter * US), clock());
            two.follow(&mut clock, 0, 20_000);
            two.must_hold(&clock, 110.0 + jitter / 10.0, 1.0 + jitter / 100.0);
            assert_eq!(clock.jumps(), []);
        }
    }

    #[test]
    fn ways_of_different_length_do_not_show_in_the_drift() {
        let (mut two, mut clock) = (Two::new(100e-6, [50.0 * US, 450.0 * US], 30.0 * US), clock());
        two.follow(&mut clock, 0, 10_000);
        two.must_hold(&clock, 260.0, 2.0);
        let known = clock.known().unwrap();
        let off = known.offset_ns as f64 - two.offset(known.at.as_nanos() as f64);
        assert!((off.abs() - 200.0 * US).abs() < 20.0 * US, "half of what they differ by: {off}");
    }

    #[test]
    fn a_jump_is_told_and_what_was_before_forgotten() {
        // A step, and a machine that stood still.
        for by in [5.0e6, -5.0e6, 0.7e6, -2.0e9] {
            let (mut two, mut clock) = (Two::new(100e-6, [100.0 * US; 2], 100.0 * US), clock());
            two.jump = Some((5_050 * MS, by));
            two.follow(&mut clock, 0, 15_000);
            let [jump] = clock.jumps() else { panic!("{by}: {:?}", clock.jumps()) };
            let at = jump.at.as_nanos() / MS;
            assert!((5_050..5_450).contains(&at), "{by}: at {at} ms");
            assert!((jump.by_ns as f64 - by).abs() <= jump.within.as_nanos() as f64, "{by}: {jump:?}");
            assert!(jump.within.as_nanos() < MS, "{jump:?}");
            two.must_hold(&clock, 130.0, 4.0);
        }
    }

    #[test]
    fn a_jump_shorter_than_a_round_trip_is_not_told() {
        let (mut two, mut clock) = (Two::new(0.0, [100.0 * US; 2], 0.0), clock());
        two.jump = Some((5_000 * MS, 90.0 * US));
        two.follow(&mut clock, 0, 10_000);
        assert_eq!(clock.jumps(), []);
        // But the line says that it is none.
        assert!(clock.known().unwrap().drift_within_ppm.unwrap() > 1.0, "{:?}", clock.known());
    }

    #[test]
    fn silence_is_no_jump() {
        let (mut two, mut clock) = (Two::new(400e-6, [100.0 * US; 2], 50.0 * US), clock());
        two.follow(&mut clock, 0, 3_000);
        two.follow(&mut clock, 63_000, 66_000);
        assert_eq!(clock.jumps(), []);
        two.must_hold(&clock, 120.0, 2.0);
    }

    #[test]
    fn nothing_is_known_before_a_window_and_no_drift_before_two() {
        let (mut two, mut clock) = (Two::new(0.0, [100.0 * US; 2], 0.0), clock());
        two.follow(&mut clock, 0, 200);
        assert_eq!(clock.known(), None);
        clock.close_window();
        let known = clock.known().unwrap();
        assert_eq!((known.drift_ppm, known.shortest.as_nanos()), (None, 200_000));
        assert!(known.offset_ns.abs_diff(3_271_000_123) < 2);
    }

    #[test]
    fn whatever_another_machine_says_is_a_number() {
        let mut clock = FarClock::new(RealDuration::from_nanos(1));
        for (i, there) in [0, u64::MAX, 1, u64::MAX / 2].into_iter().enumerate() {
            let at = RealInstant::from_nanos(1000 * i as u64);
            let there = RealInstant::from_nanos(there);
            clock.add(Exchange { sent: at, there, received: at + RealDuration::from_nanos(10) });
        }
        clock.close_window();
        assert_eq!(clock.jumps().len(), 3);
        assert!(clock.known().is_some());
    }
}
