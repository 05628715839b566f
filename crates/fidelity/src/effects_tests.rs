//! Directions and sizes of effects.

use super::*;

const TIME: Kind = Kind::Time { seconds: 1e-3 };

/// Ten virtual seconds over a path of 10 ms, in which a server was half and a client a tenth busy.
fn usage() -> Usage {
    Usage { virtual_s: 10.0, frames: 30_000, shortest_path_s: Some(0.01), busy: vec![0.5, 0.1] }
}

/// Operations of 25 ms, 150 a second.
fn times() -> Times {
    Times { n: 1500.0, samples: 1500, mean: 0.025, p90: 0.035 }
}

fn near(is: [f64; 2], should: [f64; 2]) -> bool {
    is.iter().zip(should).all(|(a, b)| (a - b).abs() < 1e-9 * b.abs().max(1.0))
}

#[test]
fn an_operation_depends_on_work_as_far_as_it_is_work_and_queues_for_it() {
    // 6 busy seconds of 37.5 in operations are a part of 0.16; queues at a half used node double it, and what it
    // changes by.
    let s = usage().of_times(&times());
    assert!((s - 0.16 * 2.0 * 2.0).abs() < 1e-12, "{s}");
    let short = Times { mean: 0.004, n: 1500.0, ..times() };
    assert!((usage().of_times(&short) - (1.0f64).min(1.0 * 1.6) * 1.6).abs() < 1e-12, "at most 0.6 others wait");
    let idle = Usage { busy: vec![0.0, 0.0], ..usage() };
    assert_eq!(idle.of_times(&times()), 0.0, "who only waits for the network does not care");
    let full = Usage { busy: vec![0.99], ..usage() };
    assert_eq!(full.of_times(&Times { mean: 0.002, n: 4000.0, ..times() }), 2.0, "no longer than twice as much");
    let alone = Times { n: 1.0, samples: 1, mean: 9.9, p90: 9.9 };
    assert_eq!(full.of_times(&alone), 1.0, "one job that is all work");
}

#[test]
fn a_rate_changes_no_more_than_the_time_of_what_it_counts() {
    assert!((usage().of_rate(Some(&times())) - 0.32).abs() < 1e-12);
    assert_eq!(usage().of_rate(None), 1.0, "a half used node whose operations are not known");
    assert_eq!(Usage { busy: vec![0.2], ..usage() }.of_rate(None), 0.2 / 0.8);
    assert_eq!(Usage { busy: Vec::new(), ..usage() }.of_rate(None), 0.0);
}

#[test]
fn longer_times_are_lower_rates() {
    let longer = Change::both([0.0, 25.0]);
    assert_eq!(longer.of_value(TIME), longer);
    assert!(near(longer.of_value(Kind::Rate).centre, [-20.0, 0.0]));
    assert!(near(Change::both([-20.0, 0.0]).of_value(Kind::Rate).centre, [0.0, 25.0]));
    assert_eq!(Change::both([-3.0, 5.0]).of_value(Kind::Other).tail, [-5.0, 5.0]);
    assert!(Change::both([-500.0, 0.0]).of_value(Kind::Rate).centre[1].is_finite());
    assert_eq!((furthest([-3.0, 2.0]), furthest([0.0, 2.0]), furthest([-2.0, 2.0])), (-3.0, 2.0, 2.0));
}

#[test]
fn work_may_matter_in_full_or_not_at_all() {
    let of = |range, part: f64| usage().change(&Effect::Work(range), Some(&times()), part).centre;
    // Work of 25 more per cent is a fifth of the work; half of the times is work, and nine tenths of them are left.
    let (longer, shorter) = (100.0 / 9.0, -100.0 / 9.0);
    assert!(near(of([2.0, 25.0], 0.5), [0.0, longer]), "{:?}", of([2.0, 25.0], 0.5));
    assert!(near(of([-20.0, -2.0], 0.5), [shorter, 0.0]), "a quarter of it was missing: {:?}", of([-20.0, -2.0], 0.5));
    assert!(near(of([-20.0, 25.0], 0.5), [shorter, longer]));
    // However dear work is, there is no more of it than there was.
    let most = of([0.0, 1e9], 0.2)[1];
    assert!(most < 25.0 && most > 24.9, "{most}");
    assert!(
        near(of([-4.0, 10.0], 1.0), [-4.0, 10.0]) && near(of([-4.0, 10.0], 2.0), [-8.0, 20.0]),
        "as queues make it"
    );
    assert_eq!(usage().change(&Effect::Everything([-0.01, 0.01]), None, 0.0).tail, [-0.01, 0.01]);
}

#[test]
fn a_late_frame_matters_as_a_longer_path_or_by_the_frames_of_an_operation_whichever_is_less() {
    let late = |s: f64| Effect::EachFrame { mean: s, late: 10.0 * s };
    // 20 frames an operation: 0.1 ms late each is 2 ms of 25, but only 1 % of the path.
    let change = usage().change(&late(0.0001), Some(&times()), 0.0);
    assert!(near(change.centre, [0.0, 1.0]) && near(change.tail, [0.0, 10.0]), "{change:?}");
    let few = Usage { frames: 1500, ..usage() };
    assert!(near(few.change(&late(0.0001), Some(&times()), 0.0).centre, [0.0, 0.4]), "one frame of 25 ms");
    let unknown = Usage { shortest_path_s: None, ..usage() };
    assert!(near(unknown.change(&late(0.0001), None, 0.0).centre, [0.0, 30.0]), "one after the other");
}

#[test]
fn a_late_request_matters_by_its_own_length_or_by_the_requests_of_an_operation_whichever_is_less() {
    let late = |count: f64| Effect::EachRequest { count, mean: 0.0001, late: 0.001, least: 0.01 };
    // 20 requests an operation: 0.1 ms late each is 2 ms of 25, but only 1 % of a request.
    let change = usage().change(&late(30_000.0), Some(&times()), 0.0);
    assert!(near(change.centre, [0.0, 1.0]) && near(change.tail, [0.0, 10.0]), "{change:?}");
    assert!(near(usage().change(&late(1500.0), Some(&times()), 0.0).centre, [0.0, 0.4]), "one request of 25 ms");
    let none = Effect::EachRequest { count: 0.0, mean: 0.0, late: 0.0, least: f64::INFINITY };
    assert!(near(usage().change(&none, None, 0.0).tail, [0.0, 0.0]), "nothing was late");
}

#[test]
fn firings_are_shared_by_all_operations() {
    let early = Effect::Firings { count: 15.0, each: [-0.036, 0.0] };
    let change = usage().change(&early, Some(&times()), 0.0);
    assert!(near(change.centre, [-100.0 * 15.0 * 0.036 / 37.5, 0.0]), "{change:?}");
    assert!(near(change.tail, [-100.0 * 0.2 * 0.036 / 0.035, 0.0]), "a hundredth of all is a fifth of what is met");
    let lost = Effect::Firings { count: 3.0, each: [0.0, 0.2] };
    assert!(near(usage().change(&lost, None, 0.0).centre, [0.0, 6.0]), "0.6 s of ten");
}

#[test]
fn of_a_factor_of_two_nothing_is_known() {
    let of = |range| Change::both(range).or_not_known().centre;
    assert_eq!(of([-49.0, 99.0]), [-49.0, 99.0]);
    for unknown in [[0.0, 101.0], [-51.0, 0.0], [0.0, f64::INFINITY], [0.0, f64::NAN], [f64::NAN, 0.0]] {
        assert!(!is_known(of(unknown)), "{unknown:?}");
        for kind in [TIME, Kind::Rate, Kind::Other] {
            assert!(!is_known(Change::both(unknown).or_not_known().of_value(kind).tail), "{unknown:?} of {kind:?}");
        }
    }
}

#[test]
fn effects_add_up() {
    let sum = Change { centre: [-1.0, 2.0], tail: [0.0, 4.0] }.plus(Change::both([0.5, 1.0]));
    assert_eq!(sum, Change { centre: [-0.5, 3.0], tail: [0.5, 5.0] });
}
