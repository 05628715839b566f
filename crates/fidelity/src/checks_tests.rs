//! The reading of each check of good, bad and absent evidence.

use hdrhistogram::Histogram;
use scale::{RealDuration, RealInstant, Tdf, VirtualDuration, VirtualInstant};

use super::caches::caches;
use super::clock::{clock_lead, clock_rate, of_host};
use super::cpu::{cpu_entitlement, parallelism, steal};
use super::emulator::{emulator_lateness, ring_drops};
use super::foreign::{foreign_load_harness, foreign_load_nodes};
use super::speed::core_speed;
use super::timers::kernel_timers;
use super::*;
use crate::accuracy::accuracy;
use crate::core_speed::{SpeedRecord, SpeedSeries};
use crate::counters::{CoreWork, TcpCounters};
use crate::emulator_load::LoadInterval;
use crate::evidence::{ClockRate, Crossings, Pace, ScaledTimers, Sharing, Spread};
use crate::observations::{NodeCpu, NodeTcp, Observations, Occurrence, Parallelism, Spinning};
use counters::Staleness;

const TEN: f64 = 10.0;
const ALL: ScaledTimers = ScaledTimers { rto_min: true, initial_rto: true };
const NO_INITIAL: ScaledTimers = ScaledTimers { initial_rto: false, ..ALL };
const NO_LEAST: ScaledTimers = ScaledTimers { rto_min: false, ..ALL };
/// Shares of time, related to nothing.
const OF_TIME: Pace = Pace { reference: None, gain: None };
/// Shares of work.
const OF_WORK: Pace = Pace { reference: Some(1000.0), gain: Some(0.8) };

/// Slices of this length on core 0.
fn slices_of(ns: u64) -> Sharing {
    Sharing::Slots(vec![(0, RealDuration::from_nanos(ns))])
}

fn usual() -> Sharing {
    slices_of(120_000)
}

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

fn at(s: u64) -> VirtualInstant {
    VirtualInstant::from_nanos(s * 1_000_000_000)
}

fn worst(value: f64, whose: &str) -> Occurrence {
    Occurrence { value, whose: (!whose.is_empty()).then(|| whose.into()), from: at(3), to: at(4) }
}

fn node(name: &str, grew: TcpCounters) -> NodeTcp {
    NodeTcp { node: name.into(), grew, first_hard: None, first_waiting: None }
}

fn cpu_of(node: &str, share: f64, busy: f64) -> NodeCpu {
    // Ten virtual seconds at TDF 10.
    let used = RealDuration::from_secs_f64(100.0 * share * busy);
    NodeCpu { node: node.into(), core: 0, share, busy, used }
}

/// The finding of a check of the one kind of effect that it has.
fn work(judged: &Judgement) -> [f64; 2] {
    match &judged.found {
        Found::Effects(effects) => match effects[..] {
            [Effect::Work(range)] => range,
            _ => panic!("not one effect on work: {judged:?}"),
        },
        _ => panic!("no effect: {judged:?}"),
    }
}

fn firings(judged: &Judgement) -> Vec<(f64, f64)> {
    let Found::Effects(effects) = &judged.found else { panic!("no effect: {judged:?}") };
    let firing = |effect: &Effect| match effect {
        // Nobody can be early and late by the same timer.
        Effect::Firings { count, each: [low, high] } if *low == 0.0 || *high == 0.0 => (*count, low + high),
        _ => panic!("no firings: {judged:?}"),
    };
    effects.iter().map(firing).filter(|(count, _)| *count > 0.0).collect()
}

fn near(is: f64, should: f64) -> bool {
    (is - should).abs() <= 1e-3 * should.abs().max(1e-9)
}

const HARMLESS: Found = Found::Effects(Vec::new());

#[test]
fn lateness_is_what_a_frame_was_late_on_average_in_virtual_time() {
    // 0.5 real ms are 0.05 virtual ms at TDF 10.
    let half_ms = histogram(std::iter::repeat_n(500_000, 1000));
    let effect = |check: &Judgement| match check.found {
        Found::Effects(ref effects) => match effects[..] {
            [Effect::EachFrame { mean, late }] => (mean, late),
            _ => panic!("{check:?}"),
        },
        _ => panic!("{check:?}"),
    };
    let check = emulator_lateness(&half_ms, &prompt(), None, tdf(TEN));
    let (mean, late) = effect(&check);
    assert!(near(mean, 0.0000501) && near(late, 0.00005), "{mean} {late}");
    assert!(near(check.value.unwrap(), 0.05), "{check:?}");
    let when = Some((VirtualInstant::from_nanos(7_000_000_000), RealDuration::from_nanos(900_000)));
    let check = emulator_lateness(&half_ms, &prompt(), when, Tdf::ONE);
    assert!(check.says.contains("began at 7.0 s, with 0.9 virtual ms"), "{}", check.says);
    // One frame in a hundred matters to the tail, one in a thousand to the value.
    let tail = histogram(std::iter::repeat_n(1_000, 985).chain(std::iter::repeat_n(2_000_000, 15)));
    let (mean, late) = effect(&emulator_lateness(&tail, &prompt(), None, Tdf::ONE));
    assert!(near(late, 0.002) && mean < 0.000035, "{mean} {late}");
    assert_eq!(
        emulator_lateness(&histogram([]), &prompt(), None, Tdf::ONE).found,
        Found::Nothing,
        "no frame, no promise"
    );
}

#[test]
fn a_frame_that_was_seen_late_is_late_too() {
    let (in_time, late) = (histogram([1_000]), histogram([3_000_000]));
    let check = emulator_lateness(&in_time, &late, None, Tdf::ONE);
    assert_eq!(check.value.map(f64::round), Some(3.0));
    assert!(
        matches!(&check.found, Found::Effects(e) if matches!(e[..], [Effect::EachFrame { mean, .. }] if mean > 0.003))
    );
    assert!(check.says.contains("before they were seen"), "{}", check.says);
}

#[test]
fn a_lost_frame_costs_a_time_out() {
    assert_eq!(firings(&ring_drops(0, 0, None)), []);
    let check = ring_drops(3, 0, Some(&worst(3.0, "web-1")));
    assert_eq!(firings(&check), [(3.0, 0.2)]);
    assert!(check.says.contains("in web-1, from 3.0 s to 4.0 s"), "{}", check.says);
    assert!(!check.says.contains("memory"), "{}", check.says);
    let check = ring_drops(3, 2, Some(&worst(3.0, "web-1")));
    assert!(check.says.contains("2 of them, because all links together held"), "{}", check.says);
}

#[test]
fn a_clock_that_is_off_makes_all_times_as_wrong() {
    let measured = |ppm| clock_rate(&ClockRate::Measured { ppm, node: "a".into() });
    assert_eq!(measured(-120.0).found, Found::Effects(vec![Effect::Everything([-0.012, 0.012])]));
    assert!(measured(-120.0).says.contains("120 ppm too slow"), "{}", measured(-120.0).says);
    assert_eq!(
        (measured(f64::NAN).found, measured(f64::NAN).value),
        (Found::Unsized, None),
        "not a number is no proof"
    );
    assert_eq!(clock_rate(&ClockRate::Native).found, HARMLESS);
    assert_eq!(clock_rate(&ClockRate::Unknown("the prober died".into())).found, Found::Nothing);
}

#[test]
fn what_a_node_lacked_in_all_saturated_seconds_together_is_what_its_work_took_longer() {
    let judged = |sharing, all: f64| {
        let (entitlement, entitled) = (Some(worst(60.0, "server")), Some(worst(all, "server")));
        cpu_entitlement(
            &sharing,
            &Observations { entitlement, entitled, entitled_intervals: 5, ..Observations::default() },
        )
    };
    let slots = |all| judged(usual(), all);
    assert!(near(work(&slots(80.0))[1], 25.0) && work(&slots(80.0))[0] == 0.0);
    assert!(near(work(&slots(125.0))[0], -20.0) && work(&slots(125.0))[1] == 0.0);
    assert_eq!((slots(99.0).value, slots(99.0).limit), (Some(60.0), None), "the worst second is told");
    assert!(slots(99.0).says.contains("in server, from 3.0 s to 4.0 s; all of them together gave server 99 %"));
    assert_eq!(cpu_entitlement(&usual(), &Observations::default()).found, Found::Nothing);
    assert_eq!(judged(Sharing::Pool, 50.0).found, Found::Nothing, "naive promises nothing");
    assert_eq!(judged(Sharing::Quota(String::new()), 50.0).found, Found::Nothing);
}

#[test]
fn what_threads_lacked_of_the_cpus_that_they_wanted_is_what_their_work_took_longer() {
    let seen = |all: f64| Observations {
        parallelism: Some(Parallelism {
            worst: worst(70.0, "server"),
            wanted: (2.5, 4),
            seconds: 6,
            all: worst(all, "server"),
        }),
        ..Observations::default()
    };
    let judged = parallelism(&usual(), &seen(80.0));
    assert!(near(work(&judged)[1], 25.0) && judged.value == Some(70.0), "{judged:?}");
    assert!(judged.says.contains("wanted 2.5 of 4 CPUs, 70 % of that, in server, from 3.0 s to 4.0 s;"), "{judged:?}");
    assert_eq!(parallelism(&Sharing::Pool, &seen(80.0)).found, Found::Nothing);
    assert_eq!(parallelism(&usual(), &Observations::default()).found, Found::Nothing, "all nodes have one");
    let uncounted = Observations { uncounted: Some((3, "server".into())), ..seen(100.0) };
    assert_eq!(parallelism(&usual(), &uncounted).found, Found::Unsized);
}

/// Virtual seconds, ten real ones each, in which the core did so many units a microsecond, nodes were owed so many
/// times the time and wanted so many.
fn speeds(seconds: &[(f64, f64, f64)]) -> Vec<(usize, SpeedRecord)> {
    let (mut series, mut work) = (SpeedSeries::default(), CoreWork::default());
    series.push(at(0), work);
    for (index, (speed, owed, wanted)) in (1u64..).zip(seconds) {
        let ns = 10_000_000_000u64;
        work.at = RealInstant::from_nanos(index * ns);
        work.metered_ns += ns;
        work.units += (speed * 1e7) as u64;
        work.owed_ns += (owed * ns as f64) as u64;
        work.wanted_ns += (wanted * ns as f64) as u64;
        work.capped_ns += if wanted > owed { ns } else { 0 };
        series.push(at(index), work);
    }
    series.finish().into_iter().map(|record| (0, record)).collect()
}

#[test]
fn a_slow_core_is_made_up_for_as_far_as_programs_feel_it() {
    let steady = speeds(&[(1000.0, 1.0, 1.0), (1000.0, 1.0, 1.0)]);
    assert_eq!(work(&core_speed(&steady, OF_WORK)), [0.0, 0.0]);
    // Half as fast for half of the time: the yardstick took 50 % longer on average.
    let slow = speeds(&[(1000.0, 1.0, 1.0), (500.0, 1.8, 1.8)]);
    let judged = core_speed(&slow, OF_WORK);
    let [low, high] = work(&judged);
    assert!(near(low, (GAIN_LOW - 0.8) * 50.0) && near(high, (GAIN_HIGH - 0.8) * 50.0), "{low} {high}");
    assert!(
        near(judged.value.unwrap(), 75.0) && judged.says.contains("at the slowest 50 %, from 1.0 s"),
        "{}",
        judged.says
    );
    let [low, high] = work(&core_speed(&slow, Pace { gain: None, ..OF_WORK }));
    assert!(near(low, GAIN_LOW * 50.0) && near(high, GAIN_HIGH * 50.0), "uncorrected, all of it: {low} {high}");
    let fast = speeds(&[(1250.0, 0.84, 0.84)]);
    let [low, high] = work(&core_speed(&fast, OF_WORK));
    assert!(near(low, -8.0) && near(high, 4.0), "a core faster than its reference: {low} {high}");
}

#[test]
fn a_core_that_is_sold_out_cannot_make_up_for_all() {
    let capped = speeds(&[(500.0, 1.2, 1.8)]);
    let judged = core_speed(&capped, OF_WORK);
    let [low, high] = work(&judged);
    assert!(near(low, -20.0) && near(high, 40.0 + 50.0), "1.8 is half as much again as 1.2: {low} {high}");
    assert!(judged.says.contains("too much of the core is sold"), "{}", judged.says);
    assert_eq!(core_speed(&[], OF_WORK).found, Found::Nothing);
    let unrelated = core_speed(&capped, OF_TIME);
    assert_eq!((unrelated.found, unrelated.value), (Found::Nothing, Some(500.0)), "no reference, no promise");
    assert_eq!(speed::recorded(&capped, OF_WORK).unwrap().reference_units_per_us, Some(1000.0));
    let of_time = Pace { gain: None, ..OF_WORK };
    assert_eq!(speed::recorded(&capped, of_time).unwrap().reference_units_per_us, None);
}

#[test]
fn of_several_cores_any_may_matter_and_the_worst_is_told() {
    let of = |speed: f64| speeds(&[(speed, 1.0, 1.0)])[0].1.clone();
    let two = [(0, of(1000.0)), (3, of(800.0))];
    let judged = core_speed(&two, OF_WORK);
    let [low, high] = work(&judged);
    assert!(near(low, (GAIN_LOW - 0.8) * 25.0) && near(high, (GAIN_HIGH - 0.8) * 25.0), "{low} {high}");
    assert!(judged.says.starts_with("Of the nodes' cores the slowest: core 3 did 800 units"), "{}", judged.says);
    assert_eq!(judged.value.map(f64::round), Some(80.0));
    assert!(near(speed::recorded(&two, OF_WORK).unwrap().units_per_us, 900.0));
    // One core faster than the reference, one slower: from the one's least to the other's most.
    let [low, high] = work(&core_speed(&[(0, of(1250.0)), (3, of(800.0))], OF_WORK));
    assert!(near(low, -8.0) && near(high, (GAIN_HIGH - 0.8) * 25.0), "{low} {high}");

    let sharing = Sharing::Slots(vec![(0, RealDuration::from_nanos(100_000)), (3, RealDuration::from_nanos(400_000))]);
    // The caches of the worse core, in its slices.
    let ns = RealDuration::from_nanos;
    let line = |late| Staleness { soon: ns(4), away: ns(10_000_000), late: ns(late) };
    let found = [(0, line(40)), (3, line(80))];
    let told = caches(&found, &sharing, tdf(TEN));
    assert!(told.says.starts_with("On core 0 a line"), "shorter slices lose more: {}", told.says);
    let told = caches(&[(0, line(5)), (3, line(80))], &sharing, tdf(TEN));
    assert!(told.says.starts_with("On core 3 a line"), "{}", told.says);

    let seen = Observations {
        nodes_cores: 2,
        steal: Some(worst(9.0, "core 3")),
        stolen_nodes_percent: Some(4.0),
        foreign_nodes: Some(worst(9.0, "dd (process 9) on core 3")),
        foreign_nodes_percent: Some(4.0),
        ..Observations::default()
    };
    let said = steal(&seen, OF_TIME).says;
    assert!(said.contains("of one of the nodes' cores at most 4 % on average"), "{said}");
    let said = foreign_load_nodes(&seen, OF_TIME).says;
    assert!(said.contains("9 % of one of the nodes' cores,") && said.contains("at most 4 %."), "{said}");
}

/// Mean, median and 99th percentile in µs.
fn spread(us: [u64; 3]) -> Spread {
    let [mean, p50, p99] = us.map(|us| RealDuration::from_nanos(us * 1_000));
    Spread { mean, p50, p99 }
}

/// Frames of which 99 % came at most so many µs of real time too late, and those half of that on average.
fn crossings(late_us: u64) -> Crossings {
    Crossings {
        stamped: 3_000,
        unstamped: 70,
        late: spread([late_us / 2, 0, late_us]),
        to_busy: 900,
        lead: spread([1_000, 800, 4_000]),
        lag: spread([30, 20, 90]),
    }
}

#[test]
fn a_frame_that_enters_after_later_ones_is_a_late_frame() {
    let told = clock_lead(&usual(), Some(&crossings(200)), None, tdf(TEN));
    assert_eq!(told.found, Found::Effects(vec![Effect::EachFrame { mean: 10e-6, late: 10e-6 }]));
    assert!(near(told.value.unwrap(), 0.02) && told.unit == "virtual ms");
    for words in [
        "99 % of frames entered",
        "at most 0.02 virtual ms later than 3000 of them said",
        ": 0.01 on average (70 bore none)",
        "0.1 (mean), 0.08 (p50) and 0.4 (p99) virtual ms ahead",
        "of 900 frames",
        "0.003 (mean)",
    ] {
        assert!(told.says.contains(words), "{words}: {}", told.says);
    }
    let idle = clock_lead(&usual(), Some(&Crossings { unstamped: 0, to_busy: 0, ..crossings(0) }), None, tdf(TEN));
    assert!(!idle.says.contains("bore none") && !idle.says.contains("ahead"), "{}", idle.says);
    assert_eq!(idle.found, Found::Effects(vec![Effect::EachFrame { mean: 0.0, late: 0.0 }]), "nothing was late");
}

#[test]
fn who_spins_at_a_socket_sees_each_frame_late() {
    let spinning = Spinning { node: "rank-1".into(), looks: 70_000, ahead: RealDuration::from_nanos(9_000_000) };
    let told = clock_lead(&usual(), Some(&crossings(200)), Some(&spinning), tdf(TEN));
    let late = |mean| Effect::EachFrame { mean, late: mean };
    assert_eq!(told.found, Found::Effects(vec![late(10e-6), late(900e-6)]));
    assert!(told.says.contains("rank-1 looked 70000 times") && told.says.contains("0.9 virtual ms late"), "{told:?}");
}

#[test]
fn where_there_are_no_clocks_nothing_is_said_of_them() {
    let none = Crossings { stamped: 0, unstamped: 0, to_busy: 0, ..crossings(0) };
    for (sharing, crossings) in [(Sharing::Pool, None), (usual(), None), (usual(), Some(&none))] {
        assert_eq!(clock_lead(&sharing, crossings, None, tdf(TEN)).found, Found::Nothing, "{sharing:?}");
    }
}

#[test]
fn slices_of_all_programs_are_told() {
    let said = |slices: Option<[u64; 2]>| {
        let slices = slices.map(|slices| slices.map(RealDuration::from_nanos));
        of_host(clock_lead(&usual(), Some(&crossings(200)), None, tdf(TEN)), slices).says
    };
    let told = said(Some([100_000, 2_800_000]));
    assert!(told.contains("had slices of 0.1 ms meanwhile, in place of 2.8 ms"), "{told}");
    assert!(!said(None).contains("All programs"));
}

#[test]
fn what_quota_does_to_a_burst_nobody_can_say() {
    let quota = clock_lead(&Sharing::Quota("this kernel has no cpu.idle".into()), None, None, tdf(TEN));
    assert_eq!(quota.found, Found::Unsized);
    assert!(quota.says.contains("no cpu.idle"), "{}", quota.says);
}

#[test]
fn what_others_take_of_the_nodes_core_is_missing_unless_shares_of_work_give_it_back() {
    let seen = |percent| Observations {
        steal: Some(worst(40.0, "core 1")),
        stolen_nodes_percent: Some(percent),
        foreign_nodes: Some(worst(40.0, "dd (process 9)")),
        foreign_nodes_percent: Some(percent),
        wanted_nodes: Some(worst(97.0, "bash (process 77)")),
        ..Observations::default()
    };
    for of in [steal, foreign_load_nodes] {
        assert_eq!(work(&of(&seen(0.0), OF_TIME)), [0.0, 0.0], "not what the other core's users took");
        assert!(near(work(&of(&seen(20.0), OF_TIME))[1], 25.0), "a fifth less is a quarter longer");
        assert!(near(work(&of(&seen(20.0), OF_WORK))[1], 5.0), "what is noticed late");
        assert!(work(&of(&seen(100.0), OF_TIME))[1].is_finite());
        assert_eq!(of(&Observations::default(), OF_TIME).found, Found::Nothing);
    }
    let said = foreign_load_nodes(&seen(0.4), OF_TIME).says;
    for part in [
        "at most 40 % of the nodes' core, from 3.0 s to 4.0 s, mostly dd (process 9)",
        "average it was 0.4 %",
        "bash (process 77) had or wanted it for the longest, 97 %",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let harness = foreign_load_harness(Some(&worst(45.0, "")));
    assert_eq!((harness.found, harness.value), (HARMLESS, Some(45.0)), "it shows in lateness");
    assert!(harness.says.contains("harness core"), "{}", harness.says);
    assert_eq!(foreign_load_harness(None).found, Found::Nothing);
}

#[test]
fn a_syn_sent_again_comes_early_and_what_a_connection_given_up_does_nobody_can_say() {
    let quiet = node("a", TcpCounters { in_segs: 1000, delayed_acks: 30, ..Default::default() });
    let check = timers(std::slice::from_ref(&quiet), tdf(TEN), ALL);
    assert_eq!((check.found, check.value), (HARMLESS, Some(3.0)));
    let mut syn = node("b", TcpCounters { in_segs: 100_000, syn_retrans: 1, timeouts: 1, ..Default::default() });
    syn.first_hard = Some(VirtualInstant::from_nanos(2_500_000_000));
    assert_eq!(timers(&[quiet.clone(), syn.clone()], tdf(TEN), ALL).found, HARMLESS, "as on the target");
    let check = timers(&[quiet.clone(), syn.clone()], tdf(TEN), NO_INITIAL);
    assert_eq!((firings(&check), check.value), (vec![(1.0, -0.9)], Some(1.0)), "0.1 virtual s in place of 1");
    assert!(check.says.contains("most in b: 1 SYNs") && check.says.contains("first before 2.5 s"), "{}", check.says);
    let gone = node("c", TcpCounters { aborts: 1, ..Default::default() });
    let check = timers(&[gone], tdf(TEN), ALL);
    assert_eq!((check.found, check.limit), (Found::Unsized, Some(0.0)));
    assert_eq!(timers(&[quiet, syn], Tdf::ONE, ALL).found, HARMLESS, "undilated, all of them are right");
}

#[test]
fn a_time_out_is_faithful_only_where_its_minimum_is_scaled() {
    let lossy = node("a", TcpCounters { in_segs: 1000, timeouts: 7, ..Default::default() });
    assert_eq!(timers(std::slice::from_ref(&lossy), tdf(TEN), ALL).found, HARMLESS);
    assert_eq!(firings(&timers(&[lossy], tdf(TEN), NO_LEAST)), [(7.0, -0.18)]);
}

/// By a look in each virtual second.
fn timers(nodes: &[NodeTcp], tdf: Tdf, scaled: ScaledTimers) -> Judgement {
    kernel_timers(nodes, tdf, scaled, 1.0)
}

#[test]
fn early_acknowledgements_are_bounded_where_it_is_not_known_who_waits() {
    let acks = |in_segs, delayed_acks| {
        let grew = TcpCounters { in_segs, delayed_acks, ..Default::default() };
        timers(&[node("quiet", TcpCounters::default()), node("a", grew)], tdf(TEN), ALL)
    };
    assert_eq!(acks(1000, 100).found, HARMLESS);
    assert_eq!(acks(1000, 101).found, Found::Unsized);
    assert_eq!(acks(3, 2).found, HARMLESS, "two are nothing");
    assert_eq!(acks(6, 3).found, Found::Unsized, "a sender that waits for every one");
    assert!(acks(1000, 400).says.contains("in a, for 40 % of the segments received"), "{}", acks(1000, 400).says);
}

#[test]
fn early_acknowledgements_shorten_what_senders_wait_for() {
    let looked = |delayed_acks, waiting, looks_per_s| {
        let server = TcpCounters { in_segs: 100, delayed_acks, waiting: Some(0), ..Default::default() };
        let client = TcpCounters { in_segs: 100, waiting: Some(waiting), ..Default::default() };
        kernel_timers(&[node("server", server), node("client", client)], tdf(TEN), ALL, looks_per_s)
    };
    let run = |delayed_acks, waiting| looked(delayed_acks, waiting, 1.0);
    let thoughtful = run(90, 0);
    assert_eq!(thoughtful.found, HARMLESS, "a server that thinks for longer than the timer");
    assert!(thoughtful.says.contains("no sender was seen to wait"), "{}", thoughtful.says);
    assert_eq!(run(90, 1).found, HARMLESS, "everyone waits for a round trip now and then");
    let nagle = run(90, 2);
    assert_eq!((firings(&nagle), nagle.value), (vec![(90.0, -0.036)], Some(2.0)), "4 virtual ms in place of 40");
    assert!(nagle.says.contains("most in client"), "{}", nagle.says);
    // Met twice in ten looks a second is 0.2 s of waiting, in which fifty acknowledgements can have been delayed.
    assert_eq!(firings(&looked(90, 2, 10.0)), [(50.0, -0.036)]);
    assert_eq!(run(2, 9).found, HARMLESS, "they waited, but not for a timer");
    let probes = TcpCounters { in_segs: 100, loss_probes: 11, waiting: Some(0), ..Default::default() };
    assert_eq!(timers(&[node("a", probes)], tdf(TEN), ALL).found, Found::Unsized);
}

/// Why nodes are looked through more often than counters are read (`senders` of the local site): in ten virtual seconds
/// a client sends 25 requests a second in two small writes, each of which waits for 4 virtual ms in place of 40.
#[test]
fn a_look_in_each_second_would_miss_what_ten_looks_find() {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    let run = |looks_per_s: f64| {
        let waits = |at: f64| (at - 0.01).rem_euclid(0.04) < 0.004;
        let looks = (0..).map(|k| (f64::from(k) + (f64::from(k) * GOLDEN) % 1.0) / looks_per_s);
        let met = looks.take_while(|at| *at < 10.0).filter(|at| waits(*at)).count() as u64;
        let server = TcpCounters { in_segs: 1000, delayed_acks: 250, waiting: Some(0), ..Default::default() };
        let client = TcpCounters { in_segs: 1000, waiting: Some(met), ..Default::default() };
        kernel_timers(&[node("server", server), node("client", client)], tdf(TEN), ALL, looks_per_s)
    };
    assert_eq!(run(1.0).found, HARMLESS, "a run whose answers come ten times too soon would be trustworthy");
    let [(count, sooner)] = firings(&run(10.0))[..] else { panic!("{}", run(10.0).says) };
    assert!((150.0..=250.0).contains(&count) && sooner == -0.036, "{count} of 250 were waited for");
}

/// A quiet run at TDF 10, but for what is given.
fn judged(
    lateness: &Histogram<u64>,
    unseen: &Histogram<u64>,
    loads: &[LoadInterval],
    seen: &Observations,
) -> record::Fidelity {
    let latest = (at(3), RealDuration::from_nanos(50_000_000));
    judged_when(lateness, unseen, Some(latest), loads, seen)
}

fn judged_when(
    lateness: &Histogram<u64>,
    unseen: &Histogram<u64>,
    latest: Option<(VirtualInstant, RealDuration)>,
    loads: &[LoadInterval],
    seen: &Observations,
) -> record::Fidelity {
    let findings = judge(&Evidence {
        observation: None,
        tdf: tdf(TEN),
        lateness,
        unseen,
        latest,
        shortest_path: Some(VirtualDuration::from_nanos(10_000_000)),
        clock: ClockRate::Measured { ppm: 3.0, node: "a".into() },
        sharing: usual(),
        crossings: Some(crossings(2)),
        host_slices: None,
        pace: OF_TIME,
        speeds: &[],
        caches: &[],
        disks: &[],
        other_writeback: None,
        goes_in_real_time: None,
        untrue_settings: Some(&[]),
        monitoring: None,
        loads,
        scaled: ALL,
        observations: seen,
    });
    findings.conclude(accuracy(&[]), [0.0, 10.0], &mut [])
}

fn lasting() -> Observations {
    Observations { lasted: VirtualDuration::from_nanos(10_000_000_000), ..Observations::default() }
}

#[test]
fn a_quiet_run_is_trustworthy_and_one_that_lacked_work_is_suspect() {
    let quiet = Observations {
        foreign_nodes: Some(worst(0.05, "")),
        foreign_nodes_percent: Some(0.03),
        nodes: vec![cpu_of("server", 0.05, 1.0)],
        ..lasting()
    };
    let of = |seen: &Observations| judged(&prompt(), &prompt(), &[], seen);
    let trusted = of(&quiet);
    assert_eq!((trusted.verdict, trusted.why.len()), (record::Verdict::Trustworthy, 0), "{:?}", trusted.why);
    let names: Vec<_> = trusted.checks.iter().map(|c| c.name.as_str()).collect();
    let expected = [
        "emulator-lateness",
        "ring-drops",
        "clock-rate",
        "cpu-entitlement",
        "parallelism",
        "core-speed",
        "clock-lead",
        "steal",
        "foreign-load-nodes",
        "foreign-load-harness",
        "monitor",
        "observation",
        "kernel-timers",
        "kernel-settings",
        "caches",
        "disk",
    ];
    assert_eq!(names, expected);
    assert_eq!(trusted.checks.last().unwrap().ok, None, "disk is not modelled");
    assert!(trusted.checks.iter().all(|c| c.says.ends_with('.')), "sentences");
    // A busy loop that got half a per cent, whatever it wanted, does not matter.
    let hog =
        Observations { wanted_nodes: Some(worst(99.0, "loop")), foreign_nodes_percent: Some(0.5), ..quiet.clone() };
    assert_eq!(of(&hog).verdict, record::Verdict::Trustworthy);
    let robbed = of(&Observations { foreign_nodes_percent: Some(6.0), ..quiet });
    assert_eq!(robbed.verdict, record::Verdict::Suspect);
    assert_eq!(robbed.breaches().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["foreign-load-nodes"]);
    assert!(robbed.why[0].contains("6.38 % off, more than 5 %: foreign-load-nodes up to 6.38 %"), "{:?}", robbed.why);
}

#[test]
fn an_overload_explains_what_was_late_or_lost_during_it_and_nothing_else() {
    let (late, unseen) = (histogram([50_000_000]), histogram([90_000_000]));
    let load = |s, cpu_percent| LoadInterval { from: at(s), to: at(s + 1), cpu_percent, frames_per_real_s: 1e5 };
    let loads: Vec<LoadInterval> = (0..9).map(|s| load(s, if s == 3 { 93.0 } else { 20.0 })).collect();
    let blamed = |latest: u64, unseen: &Histogram<u64>, seen: Observations| {
        let latest = Some((at(latest), RealDuration::from_nanos(50_000_000)));
        let checks = judged_when(&late, unseen, latest, &loads, &seen).checks;
        [CheckName::EmulatorLateness, CheckName::RingDrops].map(|name| {
            let check = checks.iter().find(|c| c.name == name).unwrap();
            check.says.contains("from 3.0 s to 4.0 s it used 93 % of its core")
        })
    };
    // `worst` is of the fourth second, as the overload is.
    let lost =
        |no_memory| Observations { ring_drops: 5, no_memory, first_ring_drop: Some(worst(5.0, "a")), ..lasting() };
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
    assert_eq!(blamed(7, &unseen, lasting()), [true, false], "when frames waited is not known");
}

#[test]
fn what_caches_forget_is_lost_at_the_start_of_each_slice() {
    let ns = RealDuration::from_nanos;
    let found = Staleness { soon: ns(4), away: ns(10_000_000), late: ns(111) };
    let on = |late: u64| [(0, Staleness { late: ns(late), ..found })];
    let lost = |late: u64, slice: u64| work(&caches(&on(late), &slices_of(slice), tdf(TEN)))[1];
    // 1,024 lines of 107 ns each are 110 µs.
    assert!((lost(111, 220_000) - 100.0).abs() < 1.0, "half of them: {}", lost(111, 220_000));
    assert!((lost(111, 1_100_000) - 11.1).abs() < 0.1, "a tenth of longer ones: {}", lost(111, 1_100_000));
    assert_eq!(lost(3, 140_000), 0.0, "no dearer than soon after");
    assert!(lost(100_000, 140_000) <= 400.0 + 1e-9, "no more than was ever seen");
    let told = caches(&on(111), &slices_of(140_000), tdf(TEN));
    assert!(told.says.contains("10 real ms cost 111 ns, after 1 ms 4 ns"), "{}", told.says);
    for told in [caches(&[], &slices_of(140_000), tdf(TEN)), caches(&on(111), &slices_of(140_000), Tdf::ONE)] {
        assert_eq!((told.value, told.found), (None, Found::Nothing), "{}", told.says);
    }
    let quota = caches(&on(111), &Sharing::Quota(String::new()), tdf(TEN));
    assert_eq!((quota.value, quota.found), (Some(111.0), Found::Nothing), "no slices");
}

#[test]
fn a_busy_emulator_is_not_blamed_for_what_was_in_time() {
    let load = LoadInterval { from: at(0), to: at(1), cpu_percent: 93.0, frames_per_real_s: 1e5 };
    let kept = judged(&prompt(), &prompt(), &[load], &lasting());
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
    let page = include_str!("../../../docs/checks.md");
    let rows =
        page.lines().skip_while(|line| !line.starts_with("| check |")).skip(2).take_while(|l| l.starts_with('|'));
    let names: Vec<_> = rows.map(|row| row.split('`').nth(1).unwrap_or(row)).collect();
    assert_eq!(names, CHECKS.map(|(name, _)| name.as_str()));
}
