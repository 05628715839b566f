//! Shares and bursts at full speed and at a tenth of it, as a baseline and its scaled twin have them.

pub mod gain;
pub mod speed;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{Scope, ScopedJoinHandle, scope, sleep};
use std::time::Duration;

use cpu::{CpuGroups, Joiner, NodeShare, NodeUse, Policy, Terms, probe};
use scale::{RealDuration, TargetCpu, Tdf, VirtualDuration};
use serde_json::json;

use crate::cores::first_and_last;
use crate::row::percent_off;
use crate::stats::median;
use crate::{Error, Notify, Row};

/// The CPUs of the demo's server and clients, as fractions of one core: their shares at TDF 1.
const SPEEDS: [f64; 5] = [0.5, 0.08, 0.08, 0.08, 0.08];
/// What entitlement is judged over, as in a run; a real second of a small share is too few turns.
const ENTITLEMENT_WINDOW: VirtualDuration = VirtualDuration::from_nanos(1_000_000_000);

/// How often a node with half of the core has its turn, in ms: what is shorter may or may not have to wait for one.
const TURN_MS: f64 = 0.2;

/// Bursts: work in virtual ms on the target's whole core, and how often.
const BURSTS: [(f64, usize); 4] = [(0.1, 60), (1.0, 40), (5.0, 20), (20.0, 8)];

/// How long bursts of work take and how exactly shares are kept, with idle and with busy siblings, at TDF 1 and 10.
/// Takes some 20 s; needs root.
///
/// # Errors
///
/// If the shares cannot be enforced here.
pub fn measure(notify: Notify) -> Result<Vec<Row>, Error> {
    let (policy, why) = cpu::best_policy();
    if let Some(why) = why {
        notify(&format!("measuring CFS quota, the fallback: {why}"));
    }
    let (core, _) = first_and_last()?;
    let mut rows = Vec::new();
    let mut medians = Vec::new();
    for tdf in [1, 10] {
        let tdf = Tdf::new(tdf, 1).map_err(Error::failed)?;
        let idle = at(tdf, core, policy, false, &mut rows)?;
        let busy = at(tdf, core, policy, true, &mut rows)?;
        medians.push([idle, busy]);
    }
    for (siblings, of) in [("idle", 0), ("busy", 1)] {
        for (i, (work, _)) in BURSTS.iter().enumerate() {
            let (base, scaled) = (medians[0][of][i], medians[1][of][i]);
            let params = json!({"work_ms": work, "siblings": siblings});
            let row = Row::new("burst-scaled-from-baseline", params, (scaled - base).abs(), "virtual ms");
            let error_percent = Some(percent_off(scaled, base));
            // The value is the difference, the reference what the difference is from.
            rows.push(Row { error_percent, ..row.beside(base).goal(f64::max(0.1 * base, TURN_MS)) });
        }
    }
    Ok(rows)
}

/// Measures one variant on a core, with sleeping or busy siblings; the medians of the bursts, in virtual ms.
fn at(tdf: Tdf, core: usize, policy: Policy, busy: bool, rows: &mut Vec<Row>) -> Result<Vec<f64>, Error> {
    let id = format!("bench-{}", std::process::id());
    let share = |speed| TargetCpu { cpus: 1, speed }.share(tdf);
    let node = |(i, speed): (usize, f64)| NodeShare::new(format!("n{i}"), core, share(speed));
    let shares: Vec<_> = SPEEDS.into_iter().enumerate().map(node).collect();
    let mut groups = CpuGroups::create(&id, &shares, policy, Terms::default())?;
    let helper = groups.helper().map(|mut command| command.spawn()).transpose().map_err(Error::failed)?;
    let calibrations = groups.engage(helper)?;
    let calibration = calibrations.first().ok_or_else(|| Error::failed("no core was calibrated"))?;
    let joiners = shares.iter().map(|n| groups.joiner(&n.name)).collect::<Result<Vec<_>, _>>()?;
    let stop = &AtomicBool::new(false);
    let siblings = if busy { "busy" } else { "idle" };
    let (medians, entitled) = scope(|threads| {
        let mut joiners = joiners.into_iter();
        let own = joiners.next().expect("five nodes");
        if busy {
            joiners.for_each(|j| hog(threads, j, stop));
        }
        let medians = threads.spawn(move || bursts(&own, tdf)).join().expect("the probe does not panic");
        let entitled = busy.then(|| {
            hog(threads, groups.joiner(&shares[0].name)?, stop);
            entitlement(&mut groups, &shares, tdf.to_real(ENTITLEMENT_WINDOW).into())
        });
        // Whatever failed: the scope waits for the hogs.
        stop.store(true, Ordering::Relaxed);
        (medians, entitled.transpose())
    });
    groups.release()?;
    if let Some(worst) = entitled? {
        let of_tdf = json!({"tdf": tdf.as_f64()});
        let params = json!({"tdf": tdf.as_f64(), "virtual_s": ENTITLEMENT_WINDOW.as_secs_f64()});
        rows.push(Row::new("entitlement-error", params, worst, "%, worst node").goal(3.0));
        let usable = Row::new("usable_rate", of_tdf.clone(), calibration.usable, "of a core");
        rows.push(usable.goal(cpu::PLANNED_USABLE));
        if let Some(grain) = calibration.grain {
            rows.push(Row::new("grain", of_tdf, grain.as_secs_f64() * 1e3, "real ms").goal(0.2));
        }
    }
    for ((work, times), median) in BURSTS.iter().zip(&medians) {
        let ideal = work / SPEEDS[0];
        let params = json!({"tdf": tdf.as_f64(), "share": shares[0].share, "work_ms": work, "siblings": siblings,
            "n": times});
        rows.push(Row::new("burst", params, *median, "virtual ms, p50").against(ideal));
    }
    Ok(medians)
}

/// How far the always-busy node that is furthest from its entitlement is from it, in percent.
fn entitlement(groups: &mut CpuGroups, shares: &[NodeShare], window: Duration) -> Result<f64, cpu::Error> {
    sleep(Duration::from_millis(200));
    let before = groups.sample()?;
    sleep(window);
    let after = groups.sample()?;
    let off = |((node, a), b): ((&NodeShare, &NodeUse), &NodeUse)| {
        let got = (b.container_ns - a.container_ns) as f64 / b.at.since(a.at).as_nanos() as f64;
        100.0 * (got / node.share - 1.0).abs()
    };
    Ok(shares.iter().zip(&before.nodes).zip(&after.nodes).map(off).fold(0.0, f64::max))
}

/// Sleeps, wakes and works, many times; median virtual ms from the moment of waking, by length of burst.
fn bursts(joiner: &Joiner, tdf: Tdf) -> Vec<f64> {
    if joiner.join().is_err() {
        return vec![f64::NAN; BURSTS.len()];
    }
    let mut phase = 0u64;
    let wall = |(work, times): &(f64, usize)| {
        let work = RealDuration::from_secs_f64(work / 1e3);
        let walls = (0..*times)
            .map(|_| {
                // Steps that fit no period of the scheduler's.
                phase = (phase + 1_618_033) % 5_000_000;
                let start = host::now() + RealDuration::from_nanos(3_000_000 + phase);
                host::time::sleep_until(start);
                tdf.to_virtual(probe::work(work).since(start)).as_secs_f64() * 1e3
            })
            .collect();
        median(walls)
    };
    BURSTS.iter().map(wall).collect()
}

/// A thread that computes in a node until it is stopped; returns when it has begun.
fn hog<'scope>(threads: &'scope Scope<'scope, '_>, joiner: Joiner, stop: &'scope AtomicBool) {
    let (ready, begun) = mpsc::channel();
    let _: ScopedJoinHandle<'_, ()> = threads.spawn(move || {
        let entered = joiner.join();
        let _ = ready.send(());
        let mut n = 0u64;
        while entered.is_ok() && !stop.load(Ordering::Relaxed) {
            n = std::hint::black_box(n.wrapping_add(1));
        }
    });
    let _ = begun.recv();
}
