//! The controller against cores that slow down, are stolen, or are measured wrongly.

use super::*;

const MS: u64 = 1_000_000;
const REFERENCE: f64 = 1_000.0;

fn speed(units: f64) -> Option<Speed> {
    Some(Speed::from_units_per_us(units).unwrap())
}

/// A core under a controller: what the controller writes is in force, as on a real one.
struct Core {
    controller: Controller,
    room: Room,
    now: RealInstant,
    slack: f64,
    writes: usize,
    /// CPU time that all nodes together had.
    nodes_ns: f64,
}

impl Core {
    fn new(gain: f64, usable: f64, sold: f64) -> Core {
        let room = Room { usable, sold, largest: 1.31 };
        let mut controller = Controller::new(RealInstant::ZERO);
        controller.keep(Pace { reference: speed(REFERENCE).unwrap(), gain }, room);
        Core { controller, room, now: RealInstant::ZERO, slack: usable - sold, writes: 0, nodes_ns: 0.0 }
    }

    fn window(&mut self, ms: u64, speed: Option<Speed>, available: Option<f64>) {
        let length = RealDuration::from_nanos(ms * MS);
        self.now = self.now + length;
        let had = available.map(|a| RealDuration::from_nanos((a * length.as_nanos() as f64) as u64));
        let real = available.unwrap_or(self.room.usable) * length.as_nanos() as f64;
        self.nodes_ns += real * self.room.sold / (self.room.sold + self.slack);
        if let Some(slack) = self.controller.step(Measurement { at: self.now, speed, available: had }) {
            self.slack = slack;
            self.writes += 1;
        }
    }

    fn run(&mut self, windows: usize, units: f64, available: f64) {
        (0..windows).for_each(|_| self.window(20, speed(units), Some(available)));
    }

    /// The time of nodes per share, with the weights in force and this much of the core.
    fn given(&self, available: f64) -> f64 {
        available / (self.room.sold + self.slack)
    }

    fn work(&self) -> CoreWork {
        self.controller.books().work(self.now)
    }
}

#[test]
fn a_core_at_its_reference_changes_nothing() {
    let mut core = Core::new(0.8, 0.99, 0.5);
    core.run(100, REFERENCE, 0.99);
    assert_eq!((core.writes, core.slack), (0, 0.49));
    let work = core.work();
    assert_eq!((work.owed_ns, work.wanted_ns, work.capped_ns), (2_000 * MS, 2_000 * MS, 0));
    assert_eq!((work.metered_ns, work.units), (2_000 * MS, 2_000_000_000));
    assert!((work.available_ns as f64 - 0.99 * 2e9).abs() < 1e3);
}

#[test]
fn a_slower_core_gives_nodes_more_of_its_time() {
    let mut core = Core::new(0.8, 0.99, 0.5);
    core.run(100, REFERENCE / 1.5, 0.99);
    assert!((core.given(0.99) / 1.4 - 1.0).abs() < 0.003, "{}", core.given(0.99));
    assert!(core.writes <= 2, "a steady core is left alone: {}", core.writes);
    let work = core.work();
    assert!((work.owed_ns as f64 / 2.8e9 - 1.0).abs() < 0.02 && work.owed_ns == work.wanted_ns, "{work:?}");
}

#[test]
fn a_faster_core_gives_them_less() {
    let mut core = Core::new(1.0, 0.99, 0.5);
    core.run(100, REFERENCE * 1.25, 0.99);
    assert!((core.given(0.99) / 0.8 - 1.0).abs() < 0.003, "{}", core.given(0.99));
}

#[test]
fn a_step_is_followed_within_some_hundred_milliseconds_and_without_overshoot() {
    let mut core = Core::new(1.0, 0.99, 0.4);
    core.run(50, REFERENCE, 0.99);
    let mut last = core.given(0.99);
    for window in 0..50 {
        core.run(1, REFERENCE / 2.0, 0.99);
        let given = core.given(0.99);
        assert!(given >= last && given <= 2.001, "window {window}: {given} after {last}");
        assert!(window < 15 || given > 1.9, "window {window}: {given}");
        last = given;
    }
}

#[test]
fn shares_are_not_more_than_there_is() {
    let mut core = Core::new(1.0, 0.99, 0.8);
    core.run(100, REFERENCE / 2.0, 0.99);
    assert!((core.slack - FOR_THE_METER).abs() < 1e-9, "the meter keeps its hundredth: {}", core.slack);
    let work = core.work();
    assert!((work.wanted_ns as f64 / 4e9 - 1.0).abs() < 0.02, "{work:?}");
    let most = 0.99 / 0.81;
    assert!((work.owed_ns as f64 / (most * 2e9) - 1.0).abs() < 0.02, "owed is what there is: {work:?}");
    assert!(work.capped_ns > 1_900 * MS, "{work:?}");
    core.run(100, REFERENCE, 0.99);
    assert!((core.given(0.99) - 1.0).abs() < 0.003, "and back: {}", core.given(0.99));
}

#[test]
fn a_core_that_is_sold_out_keeps_its_shares() {
    let mut core = Core::new(0.8, 0.9, 0.9);
    core.run(100, REFERENCE / 2.0, 0.9);
    assert_eq!(core.slack, 0.0);
    assert!((core.work().owed_ns as f64 / 2e9 - 1.0).abs() < 0.01, "{:?}", core.work());
}

#[test]
fn what_others_take_is_given_back() {
    let mut core = Core::new(0.8, 0.99, 0.5);
    core.run(200, REFERENCE, 0.75);
    assert!((core.given(0.75) - 1.0).abs() < 0.003, "{}", core.given(0.75));
    let work = core.work();
    assert_eq!(work.owed_ns, 4_000 * MS, "time stolen does not change what is owed");
    assert_eq!(work.capped_ns, 0);
}

#[test]
fn what_was_taken_in_a_burst_is_given_back_after_it() {
    let mut core = Core::new(0.8, 0.99, 0.4);
    core.run(50, REFERENCE, 0.99);
    core.run(5, REFERENCE, 0.5);
    core.run(245, REFERENCE, 0.99);
    let got = core.nodes_ns / (0.4 * core.work().owed_ns as f64);
    assert!((0.995..1.01).contains(&got), "of what was owed in 6 s, nodes got {got}");
}

#[test]
fn counters_that_lag_by_a_turn_do_no_harm() {
    // Timeslices of 3 ms: a window's counter is wrong by up to one, and the next by as much in the other direction.
    let mut core = Core::new(0.8, 0.97, 0.5);
    for i in 0..500 {
        let lag = [0.15, -0.1, 0.0, -0.15, 0.1][i % 5];
        core.window(20, speed(REFERENCE * (1.0 + lag / 3.0)), Some((0.97 + lag).min(1.1)));
        let given = core.given(0.97);
        assert!(i < 25 || (given - 1.0).abs() < 0.03, "window {i}: {given}");
    }
    let got = core.nodes_ns / (0.5 * core.work().owed_ns as f64);
    assert!((got - 1.0).abs() < 0.01, "{got}");
}

#[test]
fn garbage_changes_nothing() {
    let mut core = Core::new(0.8, 0.99, 0.5);
    core.run(50, REFERENCE / 1.2, 0.99);
    let (slack, writes) = (core.slack, core.writes);
    for units in [1e-9, 1.0, REFERENCE / 11.0, REFERENCE * 5.0, 1e12] {
        core.window(20, speed(units), None);
    }
    core.window(20, None, None);
    core.window(0, speed(10.0), Some(0.0));
    assert_eq!((core.slack, core.writes), (slack, writes));
}

#[test]
fn garbage_from_before_the_reference_was_known_is_forgotten() {
    let mut controller = Controller::new(RealInstant::ZERO);
    let window =
        |i: u64, units| Measurement { at: RealInstant::from_nanos(i * 20 * MS), speed: speed(units), available: None };
    assert_eq!(controller.step(window(1, 1e9)), None);
    let room = Room { usable: 0.99, sold: 0.5, largest: 1.31 };
    controller.keep(Pace { reference: speed(REFERENCE).unwrap(), gain: 1.0 }, room);
    assert_eq!(controller.step(window(2, REFERENCE)), None, "at its reference at once");
    let slack = controller.step(window(3, REFERENCE / 1.5)).unwrap();
    assert!((0.3..0.49).contains(&slack), "{slack}");
}

#[test]
fn nothing_that_can_be_measured_makes_it_run_away() {
    let mut core = Core::new(2.0, 0.95, 0.02);
    let wild = [0.0, 1e-6, 0.3, 1.0, 1e9];
    for i in 0..10_000 {
        let units = [REFERENCE / 9.9, REFERENCE * 3.9, REFERENCE, 1e-3][i % 4];
        core.window([0, 1, 20, 60_000][i % 3], speed(units), Some(wild[i % wild.len()]));
        assert!(core.slack.is_finite() && (0.01..=1.31).contains(&core.slack), "{}", core.slack);
        let work = core.work();
        assert!(work.wanted_ns >= work.owed_ns && work.wanted_ns <= 4 * work.at.as_nanos(), "{work:?}");
    }
}

#[test]
fn what_is_owed_goes_on_while_no_window_comes() {
    let mut core = Core::new(1.0, 0.99, 0.4);
    core.run(100, REFERENCE / 1.5, 0.99);
    let now = core.work();
    let later = core.controller.books().work(core.now + RealDuration::from_nanos(500 * MS));
    let grew = (later.owed_ns - now.owed_ns) as f64;
    assert!((grew / (1.5 * 500e6) - 1.0).abs() < 0.01, "the weights stay: {grew}");
    assert_eq!((later.units, later.metered_ns), (now.units, now.metered_ns));
    assert_eq!(core.controller.books().work(RealInstant::ZERO), now, "and never goes back");
}

#[test]
fn shares_of_time_are_metered_only() {
    let mut controller = Controller::new(RealInstant::ZERO);
    for i in 1..=100 {
        let at = RealInstant::from_nanos(i * 20 * MS);
        let had = Some(RealDuration::from_nanos(15 * MS));
        assert_eq!(controller.step(Measurement { at, speed: speed(400.0), available: had }), None);
    }
    let work = controller.books().work(RealInstant::from_nanos(2_000 * MS));
    assert_eq!((work.owed_ns, work.wanted_ns, work.capped_ns), (2_000 * MS, 2_000 * MS, 0));
    assert_eq!((work.units, work.available_ns), (800_000_000, 1_500 * MS));
}
