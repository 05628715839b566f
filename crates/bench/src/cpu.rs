//! Shares and bursts at full speed and at a tenth of it, as a baseline and its scaled twin have them.

pub mod gain;
pub mod speed;

use std::thread::sleep;
use std::time::Duration;

use cpu::{CpuGroups, NodeShare, NodeUse, Policy, Terms};
use scale::{RealDuration, TargetCpu, Tdf, VirtualDuration};
use serde_json::json;

use crate::cores::first_and_last;
use crate::load::{self, Load};
use crate::row::percent_off;
use crate::{Error, Notify, Row};

/// The CPUs of the demo's server and clients, as fractions of one core: their shares at TDF 1.
const SPEEDS: [f64; 5] = [0.5, 0.08, 0.08, 0.08, 0.08];
/// Window over which entitlement is judged, as in a run; a real second of a small share is too few timeslices.
const ENTITLEMENT_WINDOW: VirtualDuration = VirtualDuration::from_nanos(1_000_000_000);
/// The window over which shares are averaged.
const SHARE_WINDOW: Duration = Duration::from_secs(10);
/// How far from what it bought a node may be over that, in percent.
const SHARE_OFF: f64 = 1.0;
/// As many nodes as fill a core.
const MANY: usize = 100;

/// Slices of the server and of somebody else: what is shorter may or may not have to wait for one.
const TWO_SLICES: f64 = 2.0;

/// Bursts: work in virtual ms on the target's whole core, and how often.
pub(crate) const BURSTS: [(f64, usize); 5] = [(0.1, 60), (0.5, 60), (1.0, 40), (5.0, 20), (20.0, 8)];

/// How long bursts of work take and how exactly shares are kept, with idle and with busy siblings, at TDF 1 and 10, in
/// timeslices of this length, such as `2ms`; the shortest if none is given. Takes a minute; needs root.
///
/// # Errors
///
/// If the shares cannot be enforced here, or timeslices cannot be so long.
pub fn measure(slice: Option<&str>, notify: Notify) -> Result<Vec<Row>, Error> {
    let (policy, why) = cpu::best_policy();
    if let Some(why) = why {
        notify(&format!("measuring CFS quota, the fallback: {why}"));
    }
    let (core, _) = first_and_last()?;
    let mut bench = Bench { core, policy, terms: Terms::default(), rows: Vec::new() };
    bench.terms.slice = slice.map_or(Ok(bench.terms.slice), time)?;
    let slices_ms = TWO_SLICES * bench.terms.slice.as_secs_f64() * 1e3;
    let mut medians = Vec::new();
    for tdf in [1, 10] {
        let tdf = Tdf::new(tdf, 1).map_err(Error::failed)?;
        medians.push([bench.bursts_at(tdf, false)?, bench.bursts_at(tdf, true)?]);
    }
    for (siblings, of) in [("idle", 0), ("busy", 1)] {
        for (i, (work, _)) in BURSTS.iter().enumerate() {
            let (base, scaled) = (medians[0][of][i], medians[1][of][i]);
            let params = json!({"work_ms": work, "siblings": siblings});
            let row = Row::new("burst-scaled-from-baseline", params, (scaled - base).abs(), "virtual ms");
            let error_percent = Some(percent_off(scaled, base));
            // The value is the difference, the reference what the difference is from.
            bench.rows.push(Row { error_percent, ..row.beside(base).goal(f64::max(0.1 * base, slices_ms)) });
        }
    }
    bench.many()?;
    Ok(bench.rows)
}

/// Reads a time such as `2ms`.
fn time(text: &str) -> Result<RealDuration, Error> {
    let ms = text.strip_suffix("ms").and_then(|ms| ms.trim().parse().ok()).filter(|ms: &f64| (0.0..1e3).contains(ms));
    let wrong = || Error::Input(format!("`--timeslice {text}`: the length of timeslices is a time in ms, such as 2ms"));
    Ok(RealDuration::from_secs_f64(ms.ok_or_else(wrong)? / 1e3))
}

/// Fixed conditions of all measurements, and their results.
struct Bench {
    core: usize,
    policy: Policy,
    terms: Terms,
    rows: Vec<Row>,
}

impl Bench {
    /// Puts nodes under limits.
    fn engage(&mut self, shares: &[NodeShare], of: &serde_json::Value) -> Result<CpuGroups, Error> {
        let id = format!("bench-{}", std::process::id());
        let mut groups = CpuGroups::create(&id, shares, self.policy, self.terms)?;
        let keeper = groups.keeper().map(|mut command| command.spawn()).transpose().map_err(Error::failed)?;
        let calibrations = groups.engage(keeper)?;
        let calibration = calibrations.first().ok_or_else(|| Error::failed("no core was calibrated"))?;
        let usable = Row::new("usable_rate", of.clone(), calibration.usable, "of a core");
        self.rows.push(usable.goal(cpu::PLANNED_USABLE));
        Ok(groups)
    }

    /// Measures one variant with sleeping or busy siblings; the medians of the bursts, in virtual ms.
    fn bursts_at(&mut self, tdf: Tdf, busy: bool) -> Result<Vec<f64>, Error> {
        let share = |speed| TargetCpu { cpus: 1, speed }.share(tdf);
        let node = |(i, speed): (usize, f64)| NodeShare::new(format!("n{i}"), self.core, share(speed));
        let shares: Vec<_> = SPEEDS.into_iter().enumerate().map(node).collect();
        let siblings = if busy { "busy" } else { "idle" };
        let mut groups = self.engage(&shares, &json!({"tdf": tdf, "siblings": siblings}))?;
        let asleep = if busy { 1 } else { shares.len() };
        let mut all = Load::busy(&groups, &shares[asleep..])?;
        let medians = load::bursts(&groups, &shares[0].name, tdf)?;
        if busy {
            all.extend(Load::busy(&groups, &shares[..1])?);
            sleep(Duration::from_millis(200));
            let window = tdf.to_real(ENTITLEMENT_WINDOW).into();
            let off = |had: f64| (had - 100.0).abs();
            let worst = had(&mut groups, &shares, window)?.into_iter().map(off).fold(0.0, f64::max);
            let params = json!({"tdf": tdf, "virtual_s": ENTITLEMENT_WINDOW.as_secs_f64()});
            self.rows.push(Row::new("entitlement-error", params, worst, "%, worst node").goal(3.0));
            let had = had(&mut groups, &shares, SHARE_WINDOW)?;
            let (server, clients) = (&shares[..1], &shares[1..]);
            self.tell_shares("server", tdf, server, &had[..1]);
            self.tell_shares("clients", tdf, clients, &had[1..]);
        }
        drop(all);
        groups.release()?;
        for ((work, times), median) in BURSTS.iter().zip(&medians) {
            let ideal = work / SPEEDS[0];
            let params = json!({"tdf": tdf, "share": shares[0].share, "work_ms": work, "siblings": siblings,
                "n": times});
            self.rows.push(Row::new("burst", params, *median, "virtual ms, p50").against(ideal));
        }
        Ok(medians)
    }

    /// Nodes that fill the core together, and all want more.
    fn many(&mut self) -> Result<(), Error> {
        let share = cpu::PLANNED_USABLE / MANY as f64;
        let shares: Vec<_> = (0..MANY).map(|i| NodeShare::new(format!("n{i}"), self.core, share)).collect();
        let mut groups = self.engage(&shares, &json!({"tdf": 1.0, "nodes": MANY}))?;
        let all = Load::busy(&groups, &shares)?;
        sleep(Duration::from_secs(1));
        let had = had(&mut groups, &shares, SHARE_WINDOW)?;
        drop(all);
        groups.release()?;
        self.tell_shares("many", Tdf::ONE, &shares, &had);
        Ok(())
    }

    /// Of nodes that are alike, what they had on average, and what those two had which are furthest from their share.
    fn tell_shares(&mut self, nodes: &str, tdf: Tdf, shares: &[NodeShare], had: &[f64]) {
        let row = |which: &str, node: Option<&str>, value| {
            let mut params = json!({"tdf": tdf, "nodes": nodes, "n": had.len(), "share": shares[0].share,
                "which": which, "real_s": SHARE_WINDOW.as_secs()});
            if let Some(node) = node {
                params["node"] = node.into();
            }
            Row::new("share", params, value, "% of what was bought").within(SHARE_OFF, 100.0)
        };
        self.rows.push(row("mean", None, had.iter().sum::<f64>() / had.len() as f64));
        let mut by_distance: Vec<_> = shares.iter().zip(had).collect();
        by_distance.sort_by(|(_, a), (_, b)| (*b - 100.0).abs().total_cmp(&(*a - 100.0).abs()));
        let furthest = ["furthest", "next"].into_iter().zip(by_distance).take(if had.len() > 1 { 2 } else { 0 });
        self.rows.extend(furthest.map(|(which, (node, value))| row(which, Some(&node.name), *value)));
    }
}

/// CPU time of each node in the next `window`, in percent of its share; all of them want more.
fn had(groups: &mut CpuGroups, shares: &[NodeShare], window: Duration) -> Result<Vec<f64>, cpu::Error> {
    let before = groups.sample()?;
    sleep(window);
    let after = groups.sample()?;
    let of = |((node, a), b): ((&NodeShare, &NodeUse), &NodeUse)| {
        let got = (b.container_ns - a.container_ns) as f64 / b.at.since(a.at).as_nanos() as f64;
        100.0 * got / node.share
    };
    Ok(shares.iter().zip(&before.nodes).zip(&after.nodes).map(of).collect())
}
