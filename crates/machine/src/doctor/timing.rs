//! How punctual the machine is, now.

use std::fs;
use std::time::{Duration, Instant};

use fidelity::checks::lost_to_caches;
use host::sched::{self, Class};
use host::stat::{self, CoreTicks};
use scale::RealDuration;

use super::Finding;

/// Time that the hypervisor may take before another host is worth a try, per cent.
const STEAL: f64 = 1.0;
/// A short and a long timeslice of nodes.
const TIMESLICES: [RealDuration; 2] = [RealDuration::from_nanos(100_000), RealDuration::from_nanos(1_500_000)];
/// The part of long timeslices that may be lost to caches before another host is worth a try.
const LOST: f64 = 0.05;

pub(super) fn findings() -> Vec<Finding> {
    // Steal and load are watched while the other thread tries how precisely it can sleep: it costs next to nothing.
    let before = ticks();
    let (real_time, punctual) = std::thread::spawn(punctuality)
        .join()
        .unwrap_or_else(|_| (Finding::lacking("real time", "unknown", "the probe failed"), None));
    std::thread::sleep(Duration::from_millis(500));
    let after = ticks();
    [Some(clock_source()), Some(real_time), punctual, steal(&before, &after), load(&before, &after), Some(caches())]
        .into_iter()
        .flatten()
        .collect()
}

fn clock_source() -> Finding {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let found = fs::read_to_string(path).map(|s| s.trim().to_string()).unwrap_or_else(|_| "unknown".into());
    match found.as_str() {
        "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page" => {
            Finding::ok("clock source", found, "programs read the clock without a system call")
        }
        _ => Finding::degraded(
            "clock source",
            found,
            "every reading of the clock is a system call, and dilated ones are slow",
        ),
    }
}

/// Whether this thread may be a real-time one, and how late it then wakes.
fn punctuality() -> (Finding, Option<Finding>) {
    // For the calling thread only, which ends after the probe.
    if let Err(e) = sched::set(Class::RealTime { priority: 1, inherited: true }) {
        let says = format!(
            "the emulator must be a real-time thread: run as root, where a control group has real-time budget (`{}`)",
            host::cgroup::REAL_TIME_BUDGET
        );
        return (Finding::lacking("real time", e.to_string(), says), None);
    }
    let allowed = Finding::ok("real time", "SCHED_FIFO", "the emulator comes first on its core");
    let mut late: Vec<Duration> = (0..300)
        .map(|_| {
            let nap = Duration::from_millis(1);
            let start = Instant::now();
            std::thread::sleep(nap);
            start.elapsed().saturating_sub(nap)
        })
        .collect();
    late.sort();
    let us = |q: f64| late[(q * (late.len() - 1) as f64) as usize].as_secs_f64() * 1e6;
    let found = format!("{:.0} µs late", us(0.5));
    let says = format!("{:.0} µs at worst in 99 of 100", us(0.99));
    let sleeping = match us(0.99) > 300.0 {
        true => Finding::degraded("sleeping", found, format!("{says}: packets will be late; is the host busy?")),
        false => Finding::ok("sleeping", found, says),
    };
    (allowed, Some(sleeping))
}

/// How dear memory is that was left alone for as long as a dilated program leaves it.
fn caches() -> Finding {
    // The nodes' core of a run is the first that this process may use.
    let core = host::cores::usable().ok().and_then(|cores| cores.first().copied()).unwrap_or(0);
    match cpu::caches::measure(core, &[RealDuration::from_nanos(20_000_000)]).as_deref() {
        Some([found]) => judged(found.soon, found.late),
        _ => Finding::lacking("caches", "unknown", "the probe failed"),
    }
}

/// By what a run loses where a line of memory costs `soon` after 1 ms and `late` after a node's absence.
fn judged(soon: RealDuration, late: RealDuration) -> Finding {
    let found = format!("{} → {} ns", soon.as_nanos(), late.as_nanos());
    let [short, long] = TIMESLICES.map(|slice| 100.0 * lost_to_caches(late.saturating_sub(soon), slice));
    let says = format!(
        "a line of memory untouched for 20 ms instead of 1 ms costs that: under dilation a program that fetches 64 KiB \
         again in each timeslice loses {short:.0} % of 0.1 ms, {long:.0} % of 1.5 ms"
    );
    match long > 100.0 * LOST {
        true => Finding::degraded("caches", found, format!("{says}: neighbours of this machine use its caches")),
        false => Finding::ok("caches", found, says),
    }
}

/// Ticks of the cores so far; none, if they cannot be read.
fn ticks() -> Vec<CoreTicks> {
    stat::core_ticks().unwrap_or_default()
}

/// Of each core's time between two readings, how much went where `of` says, per cent.
fn percent(before: &[CoreTicks], after: &[CoreTicks], of: fn(&CoreTicks) -> u64) -> Vec<f64> {
    let share = |(b, a): (&CoreTicks, &CoreTicks)| {
        100.0 * of(a).saturating_sub(of(b)) as f64 / a.total.saturating_sub(b.total).max(1) as f64
    };
    before.iter().zip(after).map(share).collect()
}

fn steal(before: &[CoreTicks], after: &[CoreTicks]) -> Option<Finding> {
    let worst = percent(before, after, |t| t.steal).into_iter().fold(0.0, f64::max);
    let found = format!("{worst:.1} %");
    Some(if worst > STEAL {
        let says = "the hypervisor takes time from this machine, and every run says what that does to it: try another \
                    host or hour";
        Finding::degraded("steal", found, says)
    } else {
        Finding::ok("steal", found, "now; every run measures it")
    })
}

fn load(before: &[CoreTicks], after: &[CoreTicks]) -> Option<Finding> {
    let busy = percent(before, after, |t| t.total - t.idle);
    let (core, most) = busy.into_iter().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let found = format!("{most:.0} % of core {core}");
    Some(if most > 20.0 {
        Finding::degraded("load", found, "something else runs: `top` shows it; every run says what that does to it")
    } else {
        Finding::ok("load", found, "nothing else keeps a core busy, now")
    })
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn caches_are_judged_by_what_a_run_loses_to_them() {
        let of = |late: u64| judged(RealDuration::from_nanos(4), RealDuration::from_nanos(late));
        let (quiet, shared) = (of(19), of(110));
        assert_eq!((quiet.state, shared.state), (State::Ok, State::Degraded));
        assert!(quiet.says.contains("loses 15 % of 0.1 ms, 1 % of 1.5 ms"), "{}", quiet.says);
        assert!(shared.says.contains("neighbours"), "{}", shared.says);
    }
}
