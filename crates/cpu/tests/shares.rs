//! Shares hold, whatever the siblings do.
//!
//! Other work may disturb the machine, so each test compares what it measured with something else
//! that it measured in the same run, and leaves slack.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::common::{
    alone, come_and_go, create, engaged, engaged_on, keeper, left_behind, run_id, spin, until_over, used, used_at_once,
    while_busy,
};
use diorama_cpu::{CpuGroups, Error, Policy, Terms, best_policy, probe};
use scale::RealDuration;

const WINDOW: Duration = Duration::from_millis(700);

#[test]
fn this_machine_has_the_exact_policy() {
    assert_eq!(best_policy(), (Policy::Slots, None), "the tests below measure it");
}

#[test]
fn busy_nodes_get_their_shares() {
    let _alone = alone();
    let mut groups = engaged(&[0.5, 0.1, 0.05], Policy::Slots);
    let used = while_busy(&mut groups, &[0, 1, 2], |g| used(g, 3 * WINDOW));
    let ratio = |a: usize, b: usize| used[a].0 / used[b].0;
    assert!((4.8..5.2).contains(&ratio(0, 1)), "0.5 against 0.1: {used:?}");
    assert!((1.9..2.1).contains(&ratio(1, 2)), "0.1 against 0.05: {used:?}");
    for (programs, unused) in &used {
        assert!(unused / programs < 0.05, "a node that wants CPU leaves almost nothing unused: {used:?}");
    }
    groups.release().unwrap();
}

/// On version 2 these are in a group of their own, with a part of the slack.
#[test]
fn small_nodes_get_what_they_bought() {
    let _alone = alone();
    let mut groups = engaged(&[0.4, 0.004, 0.008, 0.016], Policy::Slots);
    let used = while_busy(&mut groups, &[0, 1, 2, 3], |g| used(g, 4 * WINDOW));
    for (node, share) in [0.4, 0.004, 0.008, 0.016].into_iter().enumerate() {
        let got = used[node].0 / used[0].0 * 0.4;
        assert!((0.85..1.15).contains(&(got / share)), "{got} of the core for a share of {share}: {used:?}");
    }
    groups.release().unwrap();
}

#[test]
fn a_sleeping_sibling_leaves_no_profit() {
    let _alone = alone();
    let mut groups = engaged(&[0.2, 0.6], Policy::Slots);
    let among_idle = while_busy(&mut groups, &[0], |g| used(g, WINDOW));
    let among_busy = while_busy(&mut groups, &[0, 1], |g| used(g, WINDOW));
    let profit = among_idle[0].0 / among_busy[0].0;
    assert!((0.9..1.1).contains(&profit), "idle {among_idle:?}, busy {among_busy:?}");
    assert!(among_idle[1].1 > 10.0 * among_busy[1].1, "a burner had the sleeper's share");
    groups.release().unwrap();
}

/// Each time that one goes to sleep or wakes up, the burner has another weight. Linux 6.13 to 6.19 forget who waits
/// meanwhile, for seconds, where the burner has the core just then.
#[test]
fn who_computes_is_never_forgotten_while_others_come_and_go() {
    let _alone = alone();
    let mut groups = engaged(&[0.11; 6], Policy::Slots);
    let stop = &AtomicBool::new(false);
    let mut had: Vec<f64> = std::thread::scope(|threads| {
        for (i, works) in [90, 300, 500, 900, 1_500].into_iter().enumerate() {
            let joiner = groups.joiner(&crate::common::named(i + 1)).unwrap();
            threads.spawn(move || {
                joiner.join().unwrap();
                come_and_go(stop, || spin(Duration::from_micros(works)), Duration::from_micros(5 * works));
            });
        }
        let window = |g: &mut CpuGroups| used_at_once(g, Duration::from_millis(100))[0].0;
        until_over(stop, || while_busy(&mut groups, &[0], |g| (0..60).map(|_| window(g)).collect()))
    });
    had.sort_by(f64::total_cmp);
    assert!(had[0] > 0.2 * had[had.len() / 2], "in the worst tenth of a second it had {} of the core: {had:?}", had[0]);
    groups.release().unwrap();
}

/// Others do their bursts at the speed of the core, and sleep before their shares would have let them be done: what
/// they leave until then is not the burner's.
#[test]
fn who_computes_has_its_share_beside_others_that_come_and_go() {
    let _alone = alone();
    let terms = Terms { slice: RealDuration::from_nanos(3_000_000), pace: None };
    let (_, mut groups) = engaged_on(&[0.12; 3], terms);
    let had = |groups: &mut CpuGroups| while_busy(groups, &[0], |g| used(g, 4 * WINDOW))[0].0;
    let among_idle = had(&mut groups);
    let stop = &AtomicBool::new(false);
    let among_others = std::thread::scope(|threads| {
        for node in [1, 2] {
            let joiner = groups.joiner(&crate::common::named(node)).unwrap();
            threads.spawn(move || {
                joiner.join().unwrap();
                let work = || {
                    probe::work(RealDuration::from_nanos(2_000_000));
                };
                come_and_go(stop, work, Duration::from_millis(25));
            });
        }
        until_over(stop, || had(&mut groups))
    });
    let kept = among_others / among_idle;
    assert!((0.92..1.08).contains(&kept), "{among_others} of the core beside others, {among_idle} beside none");
    groups.release().unwrap();
}

#[test]
fn nodes_of_the_naive_variant_share_one_small_pool() {
    let _alone = alone();
    let mut groups = engaged(&[0.1, 0.1], Policy::Pool { cap: 0.2 });
    let one = while_busy(&mut groups, &[0], |g| used(g, WINDOW));
    let both = while_busy(&mut groups, &[0, 1], |g| used(g, WINDOW));
    assert!(one[0].0 > 1.2 * both[0].0, "work-conserving: alone {one:?}, together {both:?}");
    let together = both[0].0 + both[1].0;
    assert!((0.8..1.2).contains(&(together / one[0].0)), "capped: alone {one:?}, together {both:?}");
    groups.release().unwrap();
}

#[test]
fn quotas_cap_where_there_is_nothing_better() {
    let _alone = alone();
    let mut groups = engaged(&[0.4, 0.1], Policy::Quota);
    let used = while_busy(&mut groups, &[0, 1], |g| used(g, WINDOW));
    assert!((3.2..4.8).contains(&(used[0].0 / used[1].0)), "{used:?}");
    assert!(used[0].0 + used[1].0 < 0.65, "half of the core is not theirs: {used:?}");
    groups.release().unwrap();
}

/// The point of it all: a short burst takes as long per unit of work as a long one. (With quota, a burst of 1 ms runs
/// at full speed, ten times too fast.)
#[test]
fn short_bursts_are_as_slow_as_long_ones() {
    let _alone = alone();
    let groups = engaged(&[0.1, 0.1], Policy::Slots);
    let joiner = groups.joiner("n0").unwrap();
    let inside = std::thread::spawn(move || {
        joiner.join().unwrap();
        let stretch = |work_ms: f64, times: usize| {
            let work = RealDuration::from_secs_f64(work_ms / 1e3);
            let mut walls: Vec<f64> = (0..times)
                .map(|i| {
                    let start = host::now() + RealDuration::from_nanos(7_000_000 + 310_000 * i as u64);
                    host::time::sleep_until(start);
                    probe::work(work).since(start).as_secs_f64() * 1e3
                })
                .collect();
            walls.sort_by(f64::total_cmp);
            walls[times / 2] / work_ms
        };
        [stretch(1.0, 25), stretch(20.0, 5), stretch(100.0, 3)]
    });
    let [short, long, steady] = inside.join().unwrap();
    // The reference is what the node gets all the time, in this minute: a tenth of the core, less what others take.
    assert!((8.8..13.0).contains(&steady), "100 ms of work at a tenth of the core took {steady:.1} times as long");
    let near = |burst: f64, off: f64| (burst / steady - 1.0).abs() < off;
    assert!(near(long, 0.15) && near(short, 0.25), "stretched by {short:.2}, {long:.2} and {steady:.2}");
    groups.release().unwrap();
}

#[test]
fn slices_are_as_long_as_they_were_asked_for() {
    let _alone = alone();
    let mean_slice = |us: u64| {
        let terms = Terms { slice: RealDuration::from_nanos(us * 1000), pace: None };
        let (_, mut groups) = engaged_on(&[0.3, 0.3], terms);
        let mean = while_busy(&mut groups, &[0, 1], |groups| {
            let times = |groups: &CpuGroups| groups.clocks().expect("clocks").times(0);
            let before = times(groups);
            std::thread::sleep(WINDOW);
            let after = times(groups);
            after.ran.saturating_sub(before.ran).as_secs_f64() / (after.slices - before.slices) as f64
        });
        groups.release().unwrap();
        mean
    };
    // Without forced reschedules both would be the 1 to 4 ms of the kernel's own tick.
    let [short, long] = [mean_slice(100), mean_slice(1_000)];
    assert!(short < 0.7 * long, "{short} s where 0.1 ms were asked, {long} s where 1 ms were");
}

#[test]
fn the_core_is_not_oversold() {
    let _alone = alone();
    let id = run_id();
    let mut groups = create(&id, &[0.6, 0.399], Policy::Slots);
    let keeper = keeper(&groups);
    let error = groups.engage(keeper).unwrap_err();
    assert!(matches!(error, Error::Machine { .. }), "{error}");
    drop(groups);
    assert!(left_behind(&id).is_empty(), "a refused run leaves nothing: {:?}", left_behind(&id));
}
