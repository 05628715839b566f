//! Shares of work: nodes get more of a core that is slower than its reference, and what others take is made up for.
//!
//! How fast the core is may change at any time, so each test compares what nodes got with what was metered meanwhile.

use std::fs;
use std::sync::atomic::AtomicBool;
use std::thread::{scope, sleep};
use std::time::Duration;

use crate::common::{
    CORE, alone, come_and_go, create, engaged_on, keeper, run_id, spin, until_over, used_at_once, while_busy,
};
use diorama_cpu::{CoreWork, CpuGroups, DEFAULT_SLICE, NodeUse, Pace, Policy, Speed, Terms, meter};
use host::sched::{Class, set};
use scale::RealDuration;

/// How long it is looked on, and how often meanwhile the speed is.
const WINDOW: Duration = Duration::from_millis(1500);
const LOOKS: u32 = 10;

/// The use of a core in a window, as fractions of it.
struct Window {
    nodes: Vec<f64>,
    /// The debt to a whole core, per second: with shares of time it is 1.
    owed: f64,
    wanted: f64,
    /// The part of the time in which there was too little room.
    capped: f64,
    /// At the slowest and at the fastest: what is owed is between what these ask for.
    speeds: [f64; 2],
}

/// Compares nodes' use and their due, from the same first sample to the same last one: on a busy machine there may
/// be a while between two samples, in which the core goes on.
fn observe(groups: &mut CpuGroups) -> Window {
    let mut look = || {
        let sample = groups.sample().expect("sample");
        (sample.work_of(CORE).expect("a meter"), sample.nodes)
    };
    // Both follow a change within some hundred milliseconds.
    sleep(Duration::from_millis(600));
    let (before, nodes_before) = look();
    let (mut speeds, mut after, mut nodes_after) = (Vec::new(), before, nodes_before.clone());
    for _ in 0..LOOKS {
        sleep(WINDOW / LOOKS);
        let last = after;
        (after, nodes_after) = look();
        // Where nodes have all of the core there is hardly anybody to meter it.
        speeds.extend(after.speed_since(last).map(Speed::units_per_us));
    }
    let wall = after.at.since(before.at).as_nanos() as f64;
    let rate = |of: fn(&CoreWork) -> u64| (of(&after) - of(&before)) as f64 / wall;
    let had = |(before, after): (&NodeUse, &NodeUse)| {
        (after.container_ns - before.container_ns) as f64 / after.at.since(before.at).as_nanos() as f64
    };
    Window {
        nodes: nodes_before.iter().zip(&nodes_after).map(had).collect(),
        owed: rate(|w| w.owed_ns),
        wanted: rate(|w| w.wanted_ns),
        capped: rate(|w| w.capped_ns),
        speeds: [speeds.iter().copied().fold(f64::INFINITY, f64::min), speeds.iter().copied().fold(0.0, f64::max)],
    }
}

/// Terms with a reference of this many times the core's speed just now.
fn terms(reference: f64, gain: f64) -> Terms {
    let speed = meter::measure(CORE, RealDuration::from_nanos(100_000_000)).expect("the core").units_per_us();
    let reference = Speed::from_units_per_us(reference * speed).unwrap();
    Terms { slice: DEFAULT_SLICE, pace: Some(Pace { reference, gain }) }
}

#[test]
fn nodes_get_more_of_a_core_that_is_slower_than_its_reference() {
    let _alone = alone();
    for gain in [1.0, 0.5] {
        let terms = terms(1.3, gain);
        let reference = terms.pace.unwrap().reference.units_per_us();
        let (_, mut groups) = engaged_on(&[0.3, 0.1], terms);
        let seen = while_busy(&mut groups, &[0, 1], observe);
        let [most, least] = seen.speeds.map(|speed| 1.0 + gain * (reference / speed - 1.0));
        let near = least * 0.97..most * 1.03;
        assert!(near.contains(&seen.owed), "gain {gain}: {} instead of {least} to {most}", seen.owed);
        for (share, got) in [0.3, 0.1].into_iter().zip(&seen.nodes) {
            let off = got / (share * seen.owed) - 1.0;
            assert!(off.abs() < 0.06, "gain {gain}, share {share}: {got} of the core, owed {}", share * seen.owed);
        }
        groups.release().unwrap();
    }
}

#[test]
fn what_nodes_are_owed_ends_where_the_core_does() {
    let _alone = alone();
    let (_, mut groups) = engaged_on(&[0.6, 0.2], terms(3.0, 1.0));
    let seen = while_busy(&mut groups, &[0, 1], observe);
    assert!(seen.capped > 0.95 && seen.wanted > 1.5 * seen.owed, "{} of {}", seen.owed, seen.wanted);
    let all = seen.nodes.iter().sum::<f64>();
    assert!((0.9..1.0).contains(&all), "together they have nearly all of the core: {all}");
    assert!((seen.nodes[0] / seen.nodes[1] - 3.0).abs() < 0.2, "in the old proportion: {:?}", seen.nodes);
    assert!((all / (0.8 * seen.owed) - 1.0).abs() < 0.05, "{all} of the core, owed {}", 0.8 * seen.owed);
    groups.release().unwrap();
}

#[test]
fn shares_of_time_are_what_they_were() {
    let _alone = alone();
    let (_, mut groups) = engaged_on(&[0.3, 0.1], Terms::default());
    let seen = while_busy(&mut groups, &[0, 1], observe);
    assert!((seen.owed - 1.0).abs() < 1e-6 && (seen.wanted - 1.0).abs() < 1e-6 && seen.capped == 0.0);
    assert!((seen.nodes[0] / 0.3 - 1.0).abs() < 0.06 && (seen.nodes[1] / 0.1 - 1.0).abs() < 0.06, "{:?}", seen.nodes);
    groups.release().unwrap();
}

/// A real-time thread on the nodes' core takes a third of the time while `then` runs.
fn robbed<T>(then: impl FnOnce() -> T) -> T {
    robbed_of(1, 2, then)
}

/// A real-time thread on the nodes' core works for `busy` ms and rests for `idle` ms while `then` runs.
fn robbed_of<T>(busy: u64, idle: u64, then: impl FnOnce() -> T) -> T {
    let stop = &AtomicBool::new(false);
    scope(|threads| {
        threads.spawn(|| {
            host::pin(CORE).expect("the core");
            set(Class::RealTime { priority: 1, inherited: true }).expect("a real-time thread");
            come_and_go(stop, || spin(Duration::from_millis(busy)), Duration::from_millis(idle));
        });
        until_over(stop, then)
    })
}

#[test]
fn what_others_take_is_made_up_for() {
    let _alone = alone();
    let of = |terms: Terms| {
        let (_, mut groups) = engaged_on(&[0.3, 0.1], terms);
        let quiet = while_busy(&mut groups, &[0, 1], observe);
        let robbed = while_busy(&mut groups, &[0, 1], |g| robbed(|| observe(g)));
        groups.release().unwrap();
        let [quiet, robbed] = [quiet, robbed].map(|seen| seen.nodes[0] / seen.owed);
        robbed / quiet
    };
    let (time, work) = (of(Terms::default()), of(terms(1.0, 1.0)));
    assert!(time < 0.85, "a third was taken: shares of time shrink to {time}");
    assert!((0.93..1.07).contains(&work), "shares of work to {work}, those of time to {time}");
}

#[test]
fn who_takes_a_core_for_a_moment_does_not_keep_a_run_from_beginning() {
    let _alone = alone();
    let mut groups = create(&run_id(), &[0.6], Policy::Slots);
    let keeper = keeper(&groups);
    let cores = scope(|threads| {
        // Until after the first measurement, which finds less than what is sold.
        threads.spawn(|| robbed_of(2, 1, || sleep(Duration::from_millis(800))));
        groups.engage(keeper).expect("limits, as soon as there is room")
    });
    assert!(cores[0].usable >= 0.6, "{cores:?}");
    groups.release().unwrap();
}

/// The thread of a run's keeper that forces reschedules.
fn rescheduler_of(run_id: &str) -> libc::pid_t {
    let numbers = |folder: String| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|e| e.file_name().to_str()?.parse::<libc::pid_t>().ok()).collect::<Vec<_>>()
    };
    let read = |file: String| fs::read_to_string(file).unwrap_or_default();
    let keeper = |pid: &libc::pid_t| read(format!("/proc/{pid}/cmdline")).split('\0').any(|arg| arg == run_id);
    let keeper = numbers("/proc".into()).into_iter().find(keeper).expect("a keeper");
    let mut threads = numbers(format!("/proc/{keeper}/task")).into_iter();
    let ours = |tid: &libc::pid_t| read(format!("/proc/{keeper}/task/{tid}/comm")).trim() == "reschedule";
    threads.find(ours).expect("a thread that forces reschedules")
}

/// Stops one thread of another process while `then` runs: nobody else of that process.
fn while_stopped<T>(thread: libc::pid_t, then: impl FnOnce() -> T) -> T {
    let trace = |request| {
        // SAFETY: a request without an address, for a thread of a process that this test started.
        assert_eq!(unsafe { libc::ptrace(request, thread, 0, 0) }, 0, "{}", std::io::Error::last_os_error());
    };
    trace(libc::PTRACE_SEIZE);
    trace(libc::PTRACE_INTERRUPT);
    // SAFETY: waits for the stop, without its status.
    assert_eq!(unsafe { libc::waitpid(thread, std::ptr::null_mut(), libc::__WALL) }, thread);
    let result = then();
    trace(libc::PTRACE_DETACH);
    result
}

#[test]
fn weights_stay_while_the_keeper_is_held_up() {
    let _alone = alone();
    let terms = terms(1.3, 1.0);
    let reference = terms.pace.unwrap().reference.units_per_us();
    let (id, mut groups) = engaged_on(&[0.3, 0.1], terms);
    let rescheduler = rescheduler_of(&id);
    let (before, stopped) = while_busy(&mut groups, &[0, 1], |groups| {
        (observe(groups), while_stopped(rescheduler, || used_at_once(groups, WINDOW)))
    });
    let after = while_busy(&mut groups, &[0, 1], observe);
    // They were made for the speed of the core just then, which is one of those that it had before; without a keeper
    // that had told them so, nodes would have 0.3 and 0.1 of it, and without any weights all.
    let [most, least] = before.speeds.map(|speed| reference / speed);
    let kept = stopped[0].0 / 0.3;
    assert!((least * 0.95..most * 1.05).contains(&kept), "{kept} times its share, and not {least} to {most}");
    assert!((stopped[0].0 / stopped[1].0 - 3.0).abs() < 0.15, "in the old proportion: {stopped:?}");
    let off = after.nodes[0] / (0.3 * after.owed) - 1.0;
    assert!(off.abs() < 0.06, "and then it goes on: {:?} of {}", after.nodes, after.owed);
    groups.release().unwrap();
}
