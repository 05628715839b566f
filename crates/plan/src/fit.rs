//! Refusals of experiments that the harness could not keep to, and which TDF it could.

use cpu::{PLANNED_USABLE, Speed};
use model::{Action, Experiment, Link, Pipe, PipeChange};
use net::{Network, PipeId};
use record::Variant;
use scale::{TargetCpu, Tdf, VirtualDuration, VirtualRate};

use super::cores::Packing;
use super::{Facts, Refusal};
use crate::error::Result;

/// The smallest share that weights express well enough in either version of control groups, as a fraction of a core.
pub const SMALLEST_SHARE: f64 = 0.0005;

/// A frame with the first segment of a connection: 20 bytes of IP, 40 of TCP with its usual options, 14 of Ethernet.
const SYN_BYTES: usize = 74;

/// Which node is on which core. Fails if the nodes want more of the cores than a plan may sell, or one of them too
/// little to be kept.
pub(super) fn cpu(
    experiment: &Experiment,
    variant: Variant,
    tdf: Tdf,
    cpus: &[TargetCpu],
    machine: &Facts,
) -> Result<Packing> {
    let shares: Vec<f64> = cpus.iter().map(|c| c.share(tdf)).collect();
    let Some(packing) = machine.cores.packed(&shares) else {
        let cores = machine.cores.for_nodes();
        let mut larger = experiment.nodes.iter().zip(&shares).filter(|(_, share)| **share > PLANNED_USABLE + 1e-9);
        return Err(Refusal::TooMuchCpu {
            experiment: experiment.name.clone(),
            variant,
            tdf,
            sold: scale::sold(cpus, tdf),
            cores,
            too_large: larger.next().map(|(node, _)| node.name.clone()),
            several: cpus.iter().any(|c| c.cpus > 1),
            by_group: by_group(experiment, cpus, tdf),
            reference: machine.reference.filter(|_| super::sharing::is_absolute(experiment)).map(Speed::units_per_us),
            fits: scale::tdf_that_packs(cpus, cores, PLANNED_USABLE),
        }
        .into());
    };
    if let Some((node, cpu)) = experiment.nodes.iter().zip(cpus).find(|(_, c)| c.share(tdf) < SMALLEST_SHARE - 1e-12) {
        return Err(Refusal::TooLittleCpu {
            experiment: experiment.name.clone(),
            variant,
            tdf,
            node: node.name.clone(),
            share: cpu.share(tdf),
            least: SMALLEST_SHARE,
            fits: scale::tdf_that_leaves(cpus, SMALLEST_SHARE),
        }
        .into());
    }
    Ok(packing)
}

/// Which whole cores each node has in the native variant. Fails if there are too few, or if a CPU is faster than one.
pub(super) fn whole_cores(experiment: &Experiment, cpus: &[TargetCpu], machine: &Facts) -> Result<Packing> {
    let mut faster = experiment.nodes.iter().zip(cpus).filter(|(_, cpu)| cpu.speed > 1.0 + 1e-9);
    if let Some((node, cpu)) = faster.next() {
        let (experiment, node) = (experiment.name.clone(), node.name.clone());
        return Err(Refusal::FasterThanACore { experiment, node, speed: cpu.speed }.into());
    }
    let counts: Vec<u32> = cpus.iter().map(|cpu| cpu.cpus).collect();
    let refused = || Refusal::TooFewCores {
        experiment: experiment.name.clone(),
        wanted: counts.iter().map(|count| *count as usize).sum(),
        cores: machine.cores.for_nodes(),
    };
    machine.cores.whole(&counts).ok_or_else(|| refused().into())
}

/// Who asks for how much: `server 0.5, client 4 x 0.08`, and with how many CPUs: `database 2 (4 CPUs)`.
fn by_group(experiment: &Experiment, cpus: &[TargetCpu], tdf: Tdf) -> String {
    const SHOWN: usize = 6;
    let mut groups: Vec<(&str, usize, &TargetCpu)> = Vec::new();
    for (node, cpu) in experiment.nodes.iter().zip(cpus) {
        match groups.last_mut() {
            Some((name, count, _)) if *name == node.group => *count += 1,
            _ => groups.push((&node.group, 1, cpu)),
        }
    }
    let asked = |(_, count, cpu): &(&str, usize, &TargetCpu)| *count as f64 * cpu.share(tdf);
    groups.sort_by(|a, b| asked(b).total_cmp(&asked(a)));
    let text = |(name, count, cpu): &(&str, usize, &TargetCpu)| {
        let times = if *count == 1 { String::new() } else { format!("{count} x ") };
        let with = if cpu.cpus == 1 { String::new() } else { format!(" ({})", super::table::cpus(cpu.cpus)) };
        format!("{name} {times}{:.3}{with}", cpu.share(tdf))
    };
    let mut shown: Vec<String> = groups.iter().take(SHOWN).map(text).collect();
    if groups.len() > SHOWN {
        shown.push("…".into());
    }
    shown.join(", ")
}

/// The fastest link of a harness, in bit/s: ten times what the emulator carries where it is fastest. A frame of 1514
/// bytes takes 121 ns then, and the emulator more than a microsecond.
const FASTEST: f64 = 1e11;

/// Fails if a link, or what an event makes of it, is faster in real time than any emulator could fill it.
pub(super) fn link_rates(experiment: &Experiment, variant: Variant, tdf: Tdf) -> Result<()> {
    let changed = experiment.events.iter().filter_map(|event| match &event.action {
        Action::Link { link, change } => Some((*link, [change.ab.rate.flatten(), change.ba.rate.flatten()])),
        _ => None,
    });
    let written = experiment.links.iter().enumerate().map(|(link, l)| (link, [l.ab.rate, l.ba.rate]));
    for (link, rates) in written.chain(changed) {
        let too_fast = |rate: &VirtualRate| tdf.to_real_rate(*rate).bits_per_s() > FASTEST * (1.0 + 1e-9);
        let Some(rate) = rates.into_iter().flatten().find(too_fast) else { continue };
        let place = experiment.link_places.get(link).and_then(Option::as_ref);
        return Err(Refusal::TooFast {
            place: place.map_or(String::new(), |(file, line)| format!("{file}:{line}: ")),
            link: experiment.links[link].name.clone(),
            variant,
            tdf,
            real: tdf.to_real_rate(rate),
            fits: Tdf::at_least(rate.bits_per_s() / FASTEST),
        }
        .into());
    }
    Ok(())
}

/// Fails if the longest round trip between two nodes, empty queues provided, is too long under dilation.
pub(super) fn round_trips(
    experiment: &Experiment,
    tdf: Tdf,
    network: &Network,
    initial_rto_scaled: bool,
) -> Result<()> {
    let Some(bound) = tdf.longest_rtt(initial_rto_scaled) else { return Ok(()) };
    let crossings: Vec<[u64; 2]> = (0..experiment.links.len()).map(|l| slowest_crossing(experiment, l)).collect();
    let crossing = |pipe: PipeId| crossings[pipe.link()][usize::from(!pipe.is_ab())];
    let too_long = |sum| !tdf.allows_rtt(VirtualDuration::from_nanos(sum), initial_rto_scaled);
    let longest = longest_round_trip(experiment.nodes.len(), network, crossing, too_long);
    let Some(longest) = longest else { return Ok(()) };
    let rtt = VirtualDuration::from_nanos(longest.nanoseconds);
    Err(Refusal::RoundTripTooLong {
        experiment: experiment.name.clone(),
        between: [longest.from, longest.to].map(|n| experiment.nodes[n].name.clone()),
        rtt,
        tdf,
        real: tdf.to_real(rtt),
        bound,
        scales_initial_timeout: initial_rto_scaled,
        fits: Tdf::that_allows_rtt(rtt, initial_rto_scaled),
    }
    .into())
}

/// The two nodes between which a SYN and its answer take longest.
struct RoundTrip {
    from: usize,
    to: usize,
    nanoseconds: u64,
}

/// The longest of the round trips that are too long, if there is one. `crossing` is how long a SYN takes over a pipe.
fn longest_round_trip(
    nodes: usize,
    network: &Network,
    crossing: impl Fn(PipeId) -> u64,
    too_long: impl Fn(u64) -> bool,
) -> Option<RoundTrip> {
    let to = |node| network.route_sums(node, &crossing);
    let longest = (0..nodes).filter_map(|node| to(node).into_iter().flatten().max()).max()?;
    // Twice the longest way is a bound, and the sums of all pairs at once would be much to keep.
    if !too_long(longest.saturating_mul(2)) {
        return None;
    }
    let sums: Vec<Vec<Option<u64>>> = (0..nodes).map(to).collect();
    let pairs = (0..nodes).flat_map(|to| (to + 1..nodes).map(move |from| (from, to)));
    let trip = |(from, to): (usize, usize)| Some((sums[to][from]?.saturating_add(sums[from][to]?), from, to));
    let (nanoseconds, from, to) = pairs.filter_map(trip).max_by_key(|trip| trip.0)?;
    too_long(nanoseconds).then_some(RoundTrip { from, to, nanoseconds })
}

/// How long a SYN takes over each direction of a link at the worst moment that the experiment's events bring, in ns.
fn slowest_crossing(experiment: &Experiment, link: usize) -> [u64; 2] {
    let changes = || {
        experiment.events.iter().filter_map(|e| match &e.action {
            Action::Link { link: changed, change } if *changed == link => Some(change),
            _ => None,
        })
    };
    let Link { ab, ba, .. } = &experiment.links[link];
    [slowest_passage(ab, changes().map(|c| &c.ab)), slowest_passage(ba, changes().map(|c| &c.ba))].map(|d| d.as_nanos())
}

/// How long a SYN takes in one direction at worst: by the longest delay, the largest jitter and the least bandwidth.
fn slowest_passage<'a>(pipe: &Pipe, changes: impl Iterator<Item = &'a PipeChange>) -> VirtualDuration {
    let (mut delay, mut jitter, mut bandwidth) = (pipe.delay, pipe.jitter.spread, pipe.rate);
    for change in changes {
        delay = delay.max(change.delay.unwrap_or(delay));
        jitter = jitter.max(change.jitter.map_or(jitter, |j| j.spread));
        bandwidth = match (bandwidth, change.rate.flatten()) {
            (Some(a), Some(b)) => Some(if b < a { b } else { a }),
            (a, b) => a.or(b),
        };
    }
    delay + jitter + bandwidth.map_or(VirtualDuration::ZERO, |b| b.transmission(SYN_BYTES))
}
