//! How nodes share their core: how fast each is, in slices of which length, and with how much room.

use std::collections::BTreeSet;

use cpu::{DEFAULT_GAIN, PLANNED_USABLE, Pace, Speed, Terms, USUALLY_USABLE};
use host::cgroup::Weights;
use model::{Cpu, Experiment};
use record::Variant;
use record::plan::{CpuMode, PlannedCpu, PlannedTimeslice};
use scale::{RealDuration, TargetCpu, Tdf, Timeslice, VirtualDuration};

use super::Refusal;
use crate::error::{Error, Result};

/// How many times its share each node should be able to get: a core that lost a quarter of its speed, as beside a
/// neighbour that computes now and then, then still does all the work that was sold.
const ENOUGH_ROOM: f64 = 1.3;

/// Nodes never get more than this many times their share, however much room there is:
/// `crates/cpu/src/keeper/controller.rs` takes a core that is so slow for one that was measured wrongly.
const MOST: f64 = 4.0;

/// The slowest and the fastest CPU of a target, in cores of this host; the clock can show no other.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

/// The CPUs of all nodes, in cores of this host, each of which does `reference`.
pub(super) fn cpus(experiment: &Experiment, reference: Option<Speed>) -> Result<Vec<TargetCpu>> {
    let machines = experiment.machines.iter().map(|machine| {
        let speed = match machine.speed {
            model::Speed::OfHost(fraction) => fraction,
            model::Speed::Absolute(units) => in_cores(experiment, &machine.name, units, reference)?,
        };
        Ok(TargetCpu { cpus: machine.cpus, speed })
    });
    let machines = machines.collect::<Result<Vec<_>>>()?;
    Ok(experiment.nodes.iter().map(|n| machines[n.machine]).collect())
}

/// Whether a machine of the experiment has a speed in units of work.
pub(super) fn is_absolute(experiment: &Experiment) -> bool {
    experiment.machines.iter().any(|m| matches!(m.speed, model::Speed::Absolute(_)))
}

fn in_cores(experiment: &Experiment, machine: &str, units: f64, reference: Option<Speed>) -> Result<f64> {
    let Some(reference) = reference else {
        return Err(Error::machine(
            format!("the machine `{machine}` does {units} units/us, and what a core of this host does is not known"),
            "run `diorama doctor` as root, which measures and keeps it, or write the speed as a fraction of a core",
        ));
    };
    let fraction = units / reference.units_per_us();
    match SPEEDS.contains(&fraction) {
        true => Ok(fraction),
        false => Err(Refusal::Speed {
            experiment: experiment.name.clone(),
            machine: machine.to_owned(),
            units,
            reference: reference.units_per_us(),
            possible: [SPEEDS.start(), SPEEDS.end()].map(|cores| cores * reference.units_per_us()),
        }
        .into()),
    }
}

/// How long nodes keep their cores: as the experiment bounds it, or as suits its shortest path. Fails if it cannot
/// be had.
pub(super) fn slice(
    experiment: &Experiment,
    cpus: &[TargetCpu],
    shortest_path: Option<VirtualDuration>,
) -> Result<Timeslice> {
    let Some(lead) = experiment.lead else { return Ok(Timeslice::suiting(shortest_path, cpus)) };
    let asked = Timeslice::of_lead(lead, cpus);
    let nearest = asked.nearest(cpus);
    match asked.can_be_had() {
        // Its length may be a rounding error beyond the bounds.
        true => Ok(Timeslice { length: nearest.length, ..asked }),
        false => Err(Refusal::Grain {
            experiment: experiment.name.clone(),
            asked: lead,
            length: asked.length,
            nearest: nearest.lead,
        }
        .into()),
    }
}

/// The timeslice as `plan.json` has it.
pub(super) fn planned_slice(slice: Timeslice) -> PlannedTimeslice {
    PlannedTimeslice { lead_s: slice.lead.as_secs_f64(), real_s: slice.length.as_secs_f64() }
}

/// The record of shares in `plan.json`.
/// `fullest` is what is sold of the core of which most is.
pub(super) fn planned(mode: Cpu, fullest: f64, reference: Option<Speed>) -> PlannedCpu {
    PlannedCpu {
        mode: match mode {
            Cpu::Work => CpuMode::Work,
            Cpu::Time => CpuMode::Time,
        },
        reference_units_per_us: reference.map(Speed::units_per_us),
        gain: (mode == Cpu::Work).then_some(DEFAULT_GAIN),
        headroom: PLANNED_USABLE / fullest,
        rounding: None,
    }
}

/// More than this, as a part of a share, is worth a word.
const MUCH: f64 = 0.01;

/// The node whose share the kernel's weights round most, and by how much.
pub(super) fn rounding(cpus: &[TargetCpu], core_of: &[usize], tdf: Tdf, weights: Weights) -> Option<(usize, f64)> {
    let cores: BTreeSet<usize> = core_of.iter().copied().collect();
    let of_core = |core: usize| {
        let nodes: Vec<usize> = (0..cpus.len()).filter(|i| core_of[*i] == core).collect();
        let shares: Vec<f64> = nodes.iter().map(|i| cpus[*i].share(tdf)).collect();
        let usable = USUALLY_USABLE.max(shares.iter().sum());
        let errors = cpu::rounding(&shares, usable, weights).into_iter().map(f64::abs);
        nodes.into_iter().zip(errors).collect::<Vec<_>>()
    };
    cores.into_iter().flat_map(of_core).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// A sentence if that is much.
pub(super) fn much_rounded(experiment: &Experiment, (node, error): (usize, f64)) -> Option<String> {
    (error > MUCH).then(|| {
        format!(
            "the kernel's weights are integers, and those nearest to what nodes have bought are off by up to {:.1} % \
             (`{}`): larger speeds, or a smaller TDF, would be rounded less",
            error * 100.0,
            experiment.nodes[node].name
        )
    })
}

/// The terms on which nodes share the core, in slices of this length.
pub(super) fn terms(slice: RealDuration, mode: Cpu, reference: Option<Speed>) -> Terms {
    let pace = reference.filter(|_| mode == Cpu::Work).map(|reference| Pace { reference, gain: DEFAULT_GAIN });
    Terms { slice, pace }
}

/// The part of its usual speed to which a core may slow down before shares of work no longer fit: nodes then need
/// 1 + gain × (1 / part − 1) = headroom times their shares.
pub(super) fn slowest_core(headroom: f64, gain: f64) -> f64 {
    gain / (gain + (headroom.min(MOST) - 1.0).max(0.0))
}

/// A sentence if the core may slow down but a little before shares of work no longer fit.
/// `fullest` is what is sold of the core of which most is, of as many as nodes can have.
pub(super) fn little_room(
    variant: Variant,
    planned: &PlannedCpu,
    fullest: f64,
    cores: usize,
    cpus: &[TargetCpu],
) -> Option<String> {
    let gain = planned.gain?;
    if planned.headroom >= ENOUGH_ROOM {
        return None;
    }
    let most = PLANNED_USABLE / ENOUGH_ROOM;
    let helps = match (variant, scale::tdf_that_packs(cpus, cores, most)) {
        (Variant::Scaled, Some(tdf)) => format!("a TDF of {tdf} would leave room (`--tdf {tdf}`)"),
        _ if cores > 1 => format!("speeds that sum to at most {most:.2} on each core would leave room"),
        _ => format!("speeds that sum to at most {most:.2} would leave room"),
    };
    let whose = if cores > 1 { "the nodes of one core have bought" } else { "the nodes have bought" };
    Some(format!(
        "{whose} {fullest:.2} of their core: when it is slower than {:.0} % of what is usual here, as \
         beside a neighbour on its sibling hyper-thread, it cannot do all the work that they are entitled to \
         (`core-speed` in the verdict says whether that happened); {helps}",
        slowest_core(planned.headroom, gain) * 100.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_may_slow_down_as_far_as_there_is_room() {
        assert_eq!(slowest_core(1.0, 0.8), 1.0);
        assert_eq!(slowest_core(0.9, 0.8), 1.0, "no room at all");
        // Twice as slow, followed fully: twice the time.
        assert_eq!(slowest_core(2.0, 1.0), 0.5);
        assert!((slowest_core(1.4, 0.8) - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(slowest_core(100.0, 1.0), 0.25, "four times its share at most");
    }

    #[test]
    fn the_node_that_is_rounded_most_is_found() {
        let of = |speeds: &[f64]| speeds.iter().map(|s| TargetCpu { cpus: 1, speed: *s }).collect::<Vec<_>>();
        let on_one = |speeds: &[f64], weights| rounding(&of(speeds), &vec![0; speeds.len()], Tdf::ONE, weights);
        let coarse = |speeds: &[f64]| on_one(speeds, Weights::coarse()).unwrap();
        let (node, error) = coarse(&[0.4, 0.0313, 0.2]);
        assert!(node == 1 && (0.0005..0.005).contains(&error), "{node}: {error}");
        let crowd: Vec<f64> = [0.4].into_iter().chain([0.0005; 900]).collect();
        assert!(coarse(&crowd).1 < 0.01 && on_one(&crowd, Weights::fine()).unwrap().1 < 0.01);
        assert_eq!(on_one(&[], Weights::fine()), None);
        // Each core is divided by itself: what is much on one may be little on another.
        let (node, _) = rounding(&of(&[0.5, 0.5, 0.0313]), &[4, 2, 2], Tdf::ONE, Weights::coarse()).unwrap();
        assert_eq!(node, 2);
    }
}
