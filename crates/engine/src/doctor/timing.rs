//! How punctual the machine is, now.

use std::fs;
use std::time::{Duration, Instant};

use fidelity::checks::{LINE, LINE_SATURATED, STEAL};
use host::sched::{self, Class};
use host::stat::{self, CoreTicks};

use super::Finding;

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
    let allowed = Finding::ok("real time", "SCHED_FIFO", "the emulator and the injector come first on their core");
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
    let Some(found) = cpu::caches::measure(core, scale::RealDuration::from_nanos(20_000_000)) else {
        return Finding::lacking("caches", "unknown", "the probe failed");
    };
    let (soon, late) = (found.soon.as_nanos(), found.late.as_nanos());
    judged(format!("{soon} → {late} ns"), late as f64)
}

/// By the limits of a run's verdict: `late` is the time of a line that was left alone for long, ns.
fn judged(found: String, late: f64) -> Finding {
    let costs = "a line of memory untouched for 20 ms instead of 1 ms costs that";
    let suspect = match late {
        late if late > LINE => "a dilated run in which a node uses its CPU",
        late if late > LINE_SATURATED => "a dilated run in which a node always wants its CPU",
        _ => return Finding::ok("caches", found, costs),
    };
    let says = format!(
        "{costs}: neighbours of this machine use its caches, so nodes' work is dearer under dilation; \
         {suspect} would be suspect now (docs/fidelity.md)"
    );
    Finding::degraded("caches", found, says)
}

/// What the cores have done so far; nothing, if that cannot be read.
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
        let says = "the hypervisor takes time from this machine: runs will be suspect; try another host or hour";
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
        Finding::degraded("load", found, "something else runs: `top` shows it; runs will be suspect")
    } else {
        Finding::ok("load", found, "nothing else keeps a core busy, now")
    })
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn caches_are_judged_as_a_run_would() {
        let of = |late: f64| judged(String::new(), late);
        assert_eq!(of(LINE_SATURATED).state, State::Ok);
        let (some, all) = (of(LINE_SATURATED + 1.0), of(LINE + 1.0));
        assert_eq!((some.state, all.state), (State::Degraded, State::Degraded));
        assert!(some.says.contains("always wants its CPU"), "{}", some.says);
        assert!(all.says.contains("a node uses its CPU"), "{}", all.says);
    }
}
