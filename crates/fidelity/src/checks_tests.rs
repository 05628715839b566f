//! What each check makes of good, bad and absent evidence.

use hdrhistogram::Histogram;
use record::Verdict;
use scale::{RealDuration, Tdf, VirtualDuration, VirtualInstant};

use super::caches::caches;
use super::clock::clock_rate;
use super::cpu::{cpu_entitlement, cpu_grain, steal};
use super::emulator::{emulator_lateness, ring_drops};
use super::foreign::{foreign_load_harness, foreign_load_nodes};
use super::timers::kernel_timers;
use super::*;
use crate::counters::TcpCounters;
use crate::emulator_load::LoadInterval;
use crate::evidence::{Caches, ClockRate, Grain, ScaledTimers};
use crate::observations::{NodeTcp, Observations, Occurrence};

const TEN: f64 = 10.0;
const ALL: ScaledTimers = ScaledTimers { rto_min: true, initial_rto: true };
const NO_INITIAL: ScaledTimers = ScaledTimers { initial_rto: false, ..ALL };
const NO_LEAST: ScaledTimers = ScaledTimers { rto_min: false, ..ALL };
const TURN: Option<RealDuration> = Some(RealDuration::from_nanos(120_000));

fn tdf(v: f64) -> Tdf {
    Tdf::try_from(v).unwrap()
}

fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
    let mut h = Histogram::new_with_bounds(1, 10_000_000_000, 3).unwrap();
    values.into_iter().for_each(|v| h.record(v).unwrap());
    h
}

/// Frames that were seen at once.
fn prompt() -> Histogram<u64> {
    histogram([1_000])
}

fn worst(value: f64, whose: &str) -> Occurrence {
    let at = |s: u64| VirtualInstant::from_nanos(s * 1_000_000_000);
    Occurrence { value, whose: (!whose.is_empty()).then(|| whose.into()), from: at(3), to: at(4) }
}

fn node(name: &str, grew: TcpCounters) -> NodeTcp {
    NodeTcp { node: name.into(), grew, first_hard: None, first_waiting: None }
}

#[test]
fn lateness_is_judged_in_virtual_time() {
    // 0.5 real ms are 0.05 virtual ms at TDF 10, and five times too much at TDF 1.
    let half_ms = histogram(std::iter::repeat_n(500_000, 1000));
    let check = emulator_lateness(&half_ms, &prompt(), None, None, tdf(TEN));
    assert_eq!((check.ok, check.limit), (Some(true), Some(0.1)));
    assert!((check.value.unwrap() - 0.05).abs() < 0.001, "{check:?}");
    let late = Some((VirtualInstant::from_nanos(7_000_000_000), RealDuration::from_nanos(900_000)));
    let check = emulator_lateness(&half_ms, &prompt(), late, None, Tdf::ONE);
    assert_eq!(check.ok, Some(false));
    assert!(check.says.contains("began at 7.0 s, with 0.9 virtual ms"), "{}", check.says);
}

#[test]
fn one_frame_in_ten_thousand_may_be_late_and_a_long_path_forgives_more() {
    let mostly = histogram(std::iter::repeat_n(1_000, 9_999).chain([5_000_000_000]));
    assert_eq!(emulator_lateness(&mostly, &prompt(), None, None, Tdf::ONE).ok, Some(true));
    let often = histogram(std::iter::repeat_n(1_000, 99).chain([5_000_000_000]));
    assert_eq!(emulator_lateness(&often, &prompt(), None, None, Tdf::ONE).ok, Some(false));
    let half_ms = histogram([500_000]);
    let path = Some(VirtualDuration::from_nanos(80_000_000));
    let check = emulator_lateness(&half_ms, &prompt(), None, path, Tdf::ONE);
    assert_eq!((check.ok, check.limit), (Some(true), Some(0.8)));
    let short = Some(VirtualDuration::from_nanos(1));
    assert_eq!(emulator_lateness(&half_ms, &prompt(), None, short, Tdf::ONE).limit, Some(0.1));
    assert_eq!(emulator_lateness(&histogram([]), &prompt(), None, None, Tdf::ONE).ok, None, "no frame, no promise");
}

#[test]
fn a_frame_that_was_seen_late_is_late_too() {
    let (in_time, late) = (histogram([1_000]), histogram([3_000_000]));
    let check = emulator_lateness(&in_time, &late, None, None, Tdf::ONE);
    assert_eq!((check.ok, check.value.map(f64::round)), (Some(false), Some(3.0)));
    assert!(check.says.contains("before they were seen"), "{}", check.says);
    assert_eq!(emulator_lateness(&in_time, &late, None, None, tdf(100.0)).ok, Some(true));
}

#[test]
fn a_single_lost_frame_is_too_many() {
    assert_eq!(ring_drops(0, 0, None).ok, Some(true));
    let check = ring_drops(3, 0, Some(&worst(3.0, "web-1")));
    assert_eq!(check.ok, Some(false));
    assert!(check.says.contains("in web-1, from 3.0 s to 4.0 s"), "{}", check.says);
    assert!(!check.says.contains("memory"), "{}", check.says);
    let check = ring_drops(3, 2, Some(&worst(3.0, "web-1")));
    assert!(check.says.contains("2 of them, because all links together held"), "{}", check.says);
}

#[test]
fn a_clock_may_be_a_hundred_ppm_off_either_way() {
    let measured = |ppm| clock_rate(&ClockRate::Measured { ppm, node: "a".into() });
    assert_eq!(measured(-100.0).ok, Some(true));
    assert_eq!(measured(-100.1).ok, Some(false));
    assert!(measured(-120.0).says.contains("120 ppm too slow"), "{}", measured(-120.0).says);
    assert_eq!(measured(100.1).ok, Some(false));
    assert_eq!(measured(f64::NAN).ok, Some(false), "not a number is no proof");
    assert_eq!(measured(f64::NAN).value, None);
    assert_eq!(clock_rate(&ClockRate::Native).ok, Some(true));
    assert_eq!(clock_rate(&ClockRate::Unknown("the prober died".into())).ok, None);
}

#[test]
fn a_node_gets_its_cpu_neither_less_nor_more() {
    let slots = |value| cpu_entitlement(&Grain::Slots(TURN), Some(&worst(value, "server")), 5);
    assert_eq!(
        [slots(96.9).ok, slots(97.0).ok, slots(101.0).ok, slots(101.1).ok].map(|ok| ok == Some(true)),
        [false, true, true, false]
    );
    assert_eq!((slots(98.0).limit, slots(100.5).limit), (Some(97.0), Some(101.0)));
    assert!(slots(90.0).says.contains("in server, from 3.0 s to 4.0 s"), "{}", slots(90.0).says);
    assert_eq!(cpu_entitlement(&Grain::Slots(TURN), None, 0).ok, None);
    assert_eq!(cpu_entitlement(&Grain::Pool, Some(&worst(50.0, "server")), 5).ok, None, "naive promises nothing");
}

#[test]
fn quota_makes_a_run_suspect_and_slots_do_not() {
    assert_eq!(cpu_grain(&Grain::Slots(TURN)).ok, Some(true));
    assert_eq!(
        cpu_grain(&Grain::Slots(Some(RealDuration::from_nanos(1_000_000)))).ok,
        Some(false),
        "nobody ends slices"
    );
    assert_eq!(cpu_grain(&Grain::Slots(None)).ok, None);
    assert_eq!(cpu_grain(&Grain::Pool).ok, None);
    let quota = cpu_grain(&Grain::Quota("this kernel has no cpu.idle".into()));
    assert_eq!(quota.ok, Some(false));
    assert!(quota.says.contains("no cpu.idle"), "{}", quota.says);
}

#[test]
fn loads_are_judged_on_their_own_core() {
    // What a busy loop got beside a run, and what a daemon that happened to be there got.
    let hog = foreign_load_nodes(Some(&worst(0.44, "")), Some(&worst(97.0, "bash (process 77)")));
    assert_eq!((hog.ok, hog.value), (Some(false), Some(97.0)));
    assert!(hog.says.contains("bash (process 77) had or wanted the nodes' core"), "{}", hog.says);
    assert!(hog.says.contains("from 3.0 s to 4.0 s"), "{}", hog.says);
    assert_eq!(foreign_load_nodes(Some(&worst(0.63, "")), Some(&worst(60.0, ""))).ok, Some(true));
    // More than its weight allows: something weighs more than an ordinary process.
    let heavy = foreign_load_nodes(Some(&worst(5.0, "dd (process 9)")), Some(&worst(60.0, "")));
    assert_eq!((heavy.ok, heavy.value), (Some(false), Some(5.0)));
    assert!(heavy.says.ends_with("from 3.0 s to 4.0 s, mostly dd (process 9)."), "{}", heavy.says);
    assert_eq!(foreign_load_nodes(Some(&worst(0.1, "")), None).ok, Some(true));
    assert_eq!(foreign_load_nodes(None, None).ok, None);
    assert_eq!(foreign_load_harness(Some(&worst(4.0, ""))).ok, Some(true), "a desktop's noise");
    assert_eq!(foreign_load_harness(Some(&worst(45.0, ""))).ok, Some(false));
    assert_eq!(foreign_load_harness(None).ok, None);
    assert_eq!(steal(Some(&worst(1.0, "core 0"))).ok, Some(true));
    assert_eq!(steal(Some(&worst(1.1, "core 0"))).ok, Some(false));
}

#[test]
fn one_syn_sent_again_or_one_connection_given_up_is_too_many() {
    let quiet = node("a", TcpCounters { in_segs: 1000, delayed_acks: 30, ..Default::default() });
    let check = kernel_timers(std::slice::from_ref(&quiet), tdf(TEN), ALL);
    assert_eq!((check.ok, check.value), (Some(true), Some(3.0)));
    let mut syn = node("b", TcpCounters { in_segs: 100_000, syn_retrans: 1, timeouts: 1, ..Default::default() });
    syn.first_hard = Some(VirtualInstant::from_nanos(2_500_000_000));
    assert_eq!(kernel_timers(&[quiet.clone(), syn.clone()], tdf(TEN), ALL).ok, Some(true), "as on the target");
    let check = kernel_timers(&[quiet.clone(), syn.clone()], tdf(TEN), NO_INITIAL);
    assert_eq!((check.ok, check.value, check.limit), (Some(false), Some(1.0), Some(0.0)));
    assert!(check.says.contains("most in b: 1 SYNs") && check.says.contains("first before 2.5 s"), "{}", check.says);
    let gone = node("c", TcpCounters { aborts: 1, ..Default::default() });
    assert_eq!(kernel_timers(&[gone], tdf(TEN), ALL).ok, Some(false));
    assert_eq!(kernel_timers(&[quiet, syn], Tdf::ONE, ALL).ok, Some(true), "undilated, all of them are right");
}

#[test]
fn a_time_out_is_faithful_only_where_its_minimum_is_scaled() {
    let lossy = node("a", TcpCounters { in_segs: 1000, timeouts: 7, ..Default::default() });
    assert_eq!(kernel_timers(std::slice::from_ref(&lossy), tdf(TEN), ALL).ok, Some(true));
    assert_eq!(kernel_timers(&[lossy], tdf(TEN), NO_LEAST).ok, Some(false));
}

#[test]
fn early_acknowledgements_are_bounded_where_it_is_not_known_who_waits() {
    let acks = |in_segs, delayed_acks| {
        let grew = TcpCounters { in_segs, delayed_acks, ..Default::default() };
        kernel_timers(&[node("quiet", TcpCounters::default()), node("a", grew)], tdf(TEN), ALL)
    };
    assert_eq!(acks(1000, 100).ok, Some(true));
    assert_eq!(acks(1000, 101).ok, Some(false));
    assert_eq!(acks(3, 2).ok, Some(true), "two are never a breach");
    assert_eq!(acks(6, 3).ok, Some(false), "a sender that waits for every one");
    assert!(acks(1000, 400).says.contains("in a, for 40 % of the segments received"), "{}", acks(1000, 400).says);
}

#[test]
fn early_acknowledgements_are_a_breach_when_senders_wait_for_them() {
    let run = |delayed_acks, waiting| {
        let server = TcpCounters { in_segs: 100, delayed_acks, waiting: Some(0), ..Default::default() };
        let client = TcpCounters { in_segs: 100, waiting: Some(waiting), ..Default::default() };
        kernel_timers(&[node("server", server), node("client", client)], tdf(TEN), ALL)
    };
    let thoughtful = run(90, 0);
    assert_eq!(thoughtful.ok, Some(true), "a server that thinks for longer than the timer");
    assert!(thoughtful.says.contains("no sender was seen to wait"), "{}", thoughtful.says);
    assert_eq!(run(90, 1).ok, Some(true), "everyone waits for a round trip now and then");
    let nagle = run(90, 2);
    assert_eq!((nagle.ok, nagle.value, nagle.limit), (Some(false), Some(2.0), Some(1.0)));
    assert!(nagle.says.contains("most in client"), "{}", nagle.says);
    assert_eq!(run(2, 9).ok, Some(true), "they waited, but not for a timer");
    let probes = TcpCounters { in_segs: 100, loss_probes: 11, waiting: Some(0), ..Default::default() };
    assert_eq!(kernel_timers(&[node("a", probes)], tdf(TEN), ALL).ok, Some(false));
}

#[test]
fn a_quiet_run_is_trustworthy_and_any_breach_makes_it_suspect() {
    let lateness = histogram([1_000]);
    let judged = |observations: &Observations| {
        judge(&Evidence {
            tdf: tdf(TEN),
            lateness: &lateness,
            unseen: &prompt(),
            latest: None,
            shortest_path: None,
            clock: ClockRate::Measured { ppm: 3.0, node: "a".into() },
            grain: Grain::Slots(TURN),
            caches: None,
            loads: &[],
            scaled: ALL,
            observations,
        })
    };
    let quiet = judged(&Observations { foreign_nodes: Some(worst(0.05, "")), ..Observations::default() });
    assert_eq!(quiet.verdict, Verdict::Trustworthy);
    let names: Vec<_> = quiet.checks.iter().map(|c| c.name.as_str()).collect();
    let expected = [
        "emulator-lateness",
        "ring-drops",
        "clock-rate",
        "cpu-entitlement",
        "cpu-grain",
        "steal",
        "foreign-load-nodes",
        "foreign-load-harness",
        "kernel-timers",
        "caches",
        "disk",
    ];
    assert_eq!(names, expected);
    assert_eq!(quiet.checks.last().unwrap().ok, None, "disk is not modelled");
    assert!(quiet.checks.iter().all(|c| c.says.ends_with('.')), "sentences");
    let noisy = judged(&Observations { foreign_nodes: Some(worst(1.9, "")), ..Observations::default() });
    assert_eq!(noisy.verdict, Verdict::Suspect);
    assert_eq!(noisy.breaches().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["foreign-load-nodes"]);
}

#[test]
fn an_overload_explains_what_was_late_or_lost_during_it_and_nothing_else() {
    let (late, unseen) = (histogram([50_000_000]), histogram([90_000_000]));
    let at = |s: u64| VirtualInstant::from_nanos(s * 1_000_000_000);
    let load = |s, cpu_percent| LoadInterval { from: at(s), to: at(s + 1), cpu_percent, frames_per_real_s: 1e5 };
    let loads: Vec<LoadInterval> = (0..9).map(|s| load(s, if s == 3 { 93.0 } else { 20.0 })).collect();
    let blamed = |latest: u64, unseen: &Histogram<u64>, seen: Observations| {
        let evidence = Evidence {
            tdf: tdf(TEN),
            lateness: &late,
            unseen,
            latest: Some((at(latest), RealDuration::from_nanos(50_000_000))),
            shortest_path: None,
            clock: ClockRate::Native,
            grain: Grain::Pool,
            caches: None,
            loads: &loads,
            scaled: ALL,
            observations: &seen,
        };
        let checks = judge(&evidence).checks;
        [CheckName::EmulatorLateness, CheckName::RingDrops].map(|name| {
            let check = checks.iter().find(|c| c.name == name).unwrap();
            check.says.contains("from 3.0 s to 4.0 s it used 93 % of its core")
        })
    };
    // `worst` is of the fourth second, as the overload is.
    let lost = |no_memory| Observations {
        ring_drops: 5,
        no_memory,
        first_ring_drop: Some(worst(5.0, "a")),
        ..Observations::default()
    };
    assert_eq!(blamed(3, &prompt(), lost(0)), [true, true]);
    let first = Some(Occurrence { from: at(8), to: at(9), ..worst(5.0, "a") });
    let more = Observations {
        most_ring_drops: Some(worst(9.0, "")),
        ..Observations { first_ring_drop: first.clone(), ..lost(0) }
    };
    assert_eq!(blamed(3, &prompt(), more), [true, true]);
    assert_eq!(blamed(3, &prompt(), Observations { first_ring_drop: first, ..lost(0) }), [true, false]);
    assert_eq!(blamed(7, &prompt(), lost(4)), [false, true]);
    assert_eq!(blamed(3, &prompt(), lost(5)), [true, false], "there was no memory");
    assert_eq!(blamed(7, &unseen, Observations::default()), [true, false], "when frames waited is not known");
}

#[test]
fn what_caches_forget_counts_where_cpu_was_used_and_most_where_it_was_always_wanted() {
    let ns = RealDuration::from_nanos;
    let found = Caches { soon: ns(4), away: ns(10_000_000), late: ns(34) };
    let saturated =
        Observations { entitlement: Some(worst(100.4, "server")), entitled_intervals: 3, ..Observations::default() };
    let busy = |percent| Observations { busiest: Some(worst(percent, "server")), ..Observations::default() };
    let check = |late: u64, seen: &Observations| caches(Some(&Caches { late: ns(late), ..found }), seen, tdf(TEN));
    let told = check(34, &saturated);
    assert_eq!((told.value, told.limit, told.ok), (Some(34.0), Some(LINE_SATURATED), Some(false)));
    for part in ["10 real ms cost 34 ns, after 1 ms 4 ns", "server used 100 %"] {
        assert!(told.says.contains(part), "{}", told.says);
    }
    assert_eq!(check(29, &saturated).ok, Some(true));
    let told = check(34, &busy(50.0));
    assert_eq!((told.limit, told.ok), (Some(LINE), Some(true)));
    assert_eq!(check(61, &busy(50.0)).ok, Some(false));
    let idle = check(90, &busy(5.0));
    assert_eq!((idle.value, idle.ok), (Some(90.0), None), "{}", idle.says);
    assert_eq!(check(90, &Observations::default()).ok, None);
    for told in [caches(None, &saturated, tdf(TEN)), caches(Some(&found), &saturated, Tdf::ONE)] {
        assert_eq!((told.value, told.ok), (None, None), "{}", told.says);
    }
}

#[test]
fn a_busy_emulator_is_not_blamed_for_what_was_in_time() {
    let load = LoadInterval {
        from: VirtualInstant::ZERO,
        to: VirtualInstant::from_nanos(1_000_000_000),
        cpu_percent: 93.0,
        frames_per_real_s: 1e5,
    };
    let kept = judge(&Evidence {
        tdf: tdf(TEN),
        lateness: &prompt(),
        unseen: &prompt(),
        latest: None,
        shortest_path: None,
        clock: ClockRate::Native,
        grain: Grain::Pool,
        caches: None,
        loads: &[load],
        scaled: ALL,
        observations: &Observations { ring_drops: 0, ..Observations::default() },
    });
    for name in [CheckName::EmulatorLateness, CheckName::RingDrops] {
        let check = kept.check(name).unwrap();
        assert!(check.ok == Some(true) && !check.says.contains("one thread"), "{check:?}");
    }
}

#[test]
fn every_check_is_made_once() {
    let mut names: Vec<_> = CHECKS.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), CHECKS.len());
}

#[test]
fn the_documentation_has_every_check_in_its_order() {
    let page = include_str!("../../../docs/fidelity.md");
    let rows =
        page.lines().skip_while(|line| !line.starts_with("| check |")).skip(2).take_while(|l| l.starts_with('|'));
    let names: Vec<_> = rows.map(|row| row.split('`').nth(1).unwrap_or(row)).collect();
    assert_eq!(names, CHECKS.map(|(name, _)| name.as_str()));
}
