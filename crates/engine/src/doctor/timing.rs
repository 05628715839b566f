//! How punctual the machine is, now.

use std::fs;
use std::time::{Duration, Instant};

use fidelity::checks::{LINE, LINE_SATURATED, STEAL};

use super::Finding;

pub(super) fn findings() -> Vec<Finding> {
    // Steal and load are watched while the other thread tries how precisely it can sleep: it costs next to nothing.
    let before = times();
    let (real_time, punctual) = std::thread::spawn(punctuality)
        .join()
        .unwrap_or_else(|_| (Finding::lacking("real time", "unknown", "the probe failed"), None));
    std::thread::sleep(Duration::from_millis(500));
    let after = times();
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
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the structure outlives the call; it changes the calling thread only, which ends after the probe.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) } != 0 {
        let e = std::io::Error::last_os_error();
        let says = "the emulator must be a real-time thread: run as root, where a control group has real-time budget \
                    (`cat /sys/fs/cgroup/cpu/cpu.rt_runtime_us`)";
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
    let cores = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    let core = (0..rustix::thread::CpuSet::MAX_CPU).find(|c| cores.is_set(*c)).unwrap_or(0);
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

/// The times of a core, in ticks: all, idle, stolen.
struct Times {
    core: usize,
    all: u64,
    idle: u64,
    stolen: u64,
}

fn times() -> Vec<Times> {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let parse = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split_whitespace();
        let core = fields.next()?.parse().ok()?;
        // user nice system idle iowait irq softirq steal; guest times are in user already.
        let ticks: Vec<u64> = fields.take(8).map_while(|f| f.parse().ok()).collect();
        let at = |i: usize| ticks.get(i).copied().unwrap_or(0);
        Some(Times { core, all: ticks.iter().sum(), idle: at(3) + at(4), stolen: at(7) })
    };
    // The line of all cores together has no number after `cpu`.
    text.lines().filter(|l| l.as_bytes().get(3).is_some_and(u8::is_ascii_digit)).filter_map(parse).collect()
}

fn percent(before: &[Times], after: &[Times], of: fn(&Times) -> u64) -> Vec<(usize, f64)> {
    let pairs = before.iter().zip(after).filter(|(b, a)| b.core == a.core);
    pairs
        .map(|(b, a)| (a.core, 100.0 * of(a).saturating_sub(of(b)) as f64 / a.all.saturating_sub(b.all).max(1) as f64))
        .collect()
}

fn steal(before: &[Times], after: &[Times]) -> Option<Finding> {
    let worst = percent(before, after, |t| t.stolen).into_iter().map(|(_, p)| p).fold(0.0, f64::max);
    let found = format!("{worst:.1} %");
    Some(if worst > STEAL {
        let says = "the hypervisor takes time from this machine: runs will be suspect; try another host or hour";
        Finding::degraded("steal", found, says)
    } else {
        Finding::ok("steal", found, "now; every run measures it")
    })
}

fn load(before: &[Times], after: &[Times]) -> Option<Finding> {
    let busy = percent(before, after, |t| t.all - t.idle);
    let (core, most) = busy.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
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
