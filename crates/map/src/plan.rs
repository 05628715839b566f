//! From a request and a harness to a mapping.

use std::borrow::Cow;

use model::Experiment;
use scale::Tdf;

use crate::error::Error;
use crate::feasibility::possible;
use crate::harness::Harness;
use crate::instance::{Instance, Terms};
use crate::mapping::{Mapping, Score, mapping};
use crate::request::Request;
use crate::search::{improve, search};
use crate::state::{ROUNDING, State};
use crate::wide_area::{Weights, Wide, compared, unmeasured};

/// A machine whose nodes cannot be packed on its cores is given this much less room, and the search goes on.
const LESS: f64 = 0.98;
/// So often.
const AGAIN: u64 = 12;

/// The mapping of a request to a harness that costs least, of those that were found; where the harness has measured
/// paths, that whose paths are most like the links, by these weights. The same seed gives the same one.
///
/// # Errors
///
/// If the files contradict themselves, or a node fits nowhere at all. A mapping that violates something is none.
pub fn map(request: &Request, harness: &Harness, terms: &Terms, weights: Weights, seed: u64) -> Result<Mapping, Error> {
    at(request, None, &Task { harness, terms, weights, seed })
}

/// The part that is the same at every TDF.
#[derive(Clone, Copy)]
struct Task<'a> {
    harness: &'a Harness,
    terms: &'a Terms,
    weights: Weights,
    seed: u64,
}

fn at(request: &Request, tdf: Option<Tdf>, task: &Task<'_>) -> Result<Mapping, Error> {
    let Task { harness, terms, seed, .. } = *task;
    let instance = Instance::new(request, harness, terms)?;
    possible(request, harness, &instance, tdf)?;
    let mapping = match harness.paths.is_empty() {
        true => near(request, &instance, task),
        false => wide(request, harness, terms, task.weights, seed, &instance)?,
    };
    Ok(Mapping { tdf, ..mapping })
}

/// By simulated annealing.
fn near(request: &Request, instance: &Instance, task: &Task<'_>) -> Mapping {
    let Task { harness, terms, seed, .. } = *task;
    let mut found = search(instance, seed);
    let mut best = mapping(request, harness, terms, &found, seed);
    // Cores are packed only now; until it can be done, who is too full is given less.
    let mut tighter = instance.clone();
    for round in 1..=AGAIN {
        let full = unpacked(&tighter, harness, terms, &found);
        if full.is_empty() {
            break;
        }
        let place_of = found.place_of.clone();
        for (place, used) in full {
            tighter.places[place].cpu = tighter.places[place].cpu.min(used) * LESS;
        }
        let again = improve(&tighter, &place_of, seed.wrapping_add(round));
        let state = State::of(instance, &again.place_of);
        let next = mapping(request, harness, terms, &state, seed);
        if (next.violations.len(), next.score.total) < (best.violations.len(), best.score.total) {
            best = next;
        }
        found = state;
    }
    best
}

/// The places whose nodes have room together, and cannot be packed on the cores; with what is used of each.
fn unpacked(instance: &Instance, harness: &Harness, terms: &Terms, state: &State<'_>) -> Vec<(usize, f64)> {
    let mut all = Vec::new();
    for (place, machine) in harness.places.iter().enumerate() {
        let Some(cpu) = machine.cpu else { continue };
        let room = &instance.places[place];
        let shares: Vec<f64> = state.items_at(place as u32).iter().map(|i| instance.items[*i as usize].cpu).collect();
        let used: f64 = shares.iter().sum();
        let parts: Vec<f64> = shares.iter().map(|share| share / room.core * terms.usable).collect();
        let packs = scale::pack(&parts, cpu.cores as usize, terms.usable).is_some();
        if !packs && used <= f64::from(cpu.cores) * room.core + ROUNDING {
            all.push((place, used));
        }
    }
    all
}

/// The harness as far as the experiment wants it filled.
fn limited<'a>(harness: &'a Harness, experiment: &Experiment) -> Cow<'a, Harness> {
    let Some(most) = experiment.colocate else { return Cow::Borrowed(harness) };
    let mut harness = harness.clone();
    for machine in harness.places.iter_mut().filter(|place| !place.switch) {
        machine.slots = Some(machine.slots.map_or(most, |slots| slots.min(most)));
    }
    Cow::Owned(harness)
}

/// The mapping of an experiment at a TDF, its own if none is given.
///
/// # Errors
///
/// As [`map`].
pub fn map_experiment(
    experiment: &Experiment,
    tdf: Option<Tdf>,
    harness: &Harness,
    terms: &Terms,
    weights: Weights,
    seed: u64,
) -> Result<Mapping, Error> {
    let tdf = tdf.unwrap_or(experiment.tdf);
    let harness = &limited(harness, experiment);
    at(&Request::of(experiment, tdf), Some(tdf), &Task { harness, terms, weights, seed })
}

/// The mapping of an experiment at the smallest TDF, in tenths, at which one was found that violates nothing. If there
/// is none, that at the largest TDF that leaves each node enough of a core, with its violations.
///
/// # Errors
///
/// As [`map`].
pub fn map_at_smallest_tdf(
    experiment: &Experiment,
    harness: &Harness,
    terms: &Terms,
    weights: Weights,
    seed: u64,
) -> Result<Mapping, Error> {
    let harness = &limited(harness, experiment);
    let task = Task { harness, terms, weights, seed };
    let instance = Instance::new(&Request::of(experiment, Tdf::ONE), harness, terms)?;
    let shares: Vec<f64> = instance.items.iter().map(|item| item.cpu).collect();
    let machines = || instance.places.iter().filter(|room| !room.switch);
    let all: f64 = machines().map(|room| room.cpu).sum();
    let largest = shares.iter().copied().fold(0.0, f64::max);
    let fastest = machines().map(|room| room.core).fold(0.0, f64::max);
    // No less would do, whatever is where.
    let from = Tdf::at_least((shares.iter().sum::<f64>() / all).max(largest / fastest).max(1.0));
    let smallest = shares.iter().copied().filter(|share| *share > 0.0).fold(f64::INFINITY, f64::min);
    let leaves = if fastest.is_finite() { smallest * terms.usable / fastest / terms.least } else { f64::INFINITY };
    let to = Tdf::at_most(leaves.min(Tdf::MAX as f64)).unwrap_or(Tdf::ONE);
    let mut found: Option<Mapping> = None;
    let mut fits = |tdf: Tdf| {
        let Ok(mapping) = at(&Request::of(experiment, tdf), Some(tdf), &task) else { return false };
        let fits = mapping.fits;
        if fits {
            found = Some(mapping);
        }
        fits
    };
    let from = from.filter(|from| *from <= to);
    let chosen = from.and_then(|from| scale::smallest_that_fits(from, to, &mut fits));
    let at_this = |tdf: Tdf| at(&Request::of(experiment, tdf), Some(tdf), &task);
    match (chosen, found) {
        (Some(chosen), Some(mapping)) if mapping.tdf == Some(chosen) => Ok(mapping),
        (Some(chosen), _) => at_this(chosen),
        // With what is in the way.
        (None, _) => at_this(to),
    }
}

/// By the genetic algorithm.
fn wide(
    request: &Request,
    harness: &Harness,
    terms: &Terms,
    weights: Weights,
    seed: u64,
    instance: &Instance,
) -> Result<Mapping, Error> {
    if let Some(switch) = request.nodes.iter().find(|node| node.slots == 0) {
        return Err(Error::Input(format!(
            "`{}` is a switch or a LAN, and no machine between measured paths is one: join the nodes themselves with \
             links, or use a catalog without `paths`",
            switch.name
        )));
    }
    let wide = Wide::new(request, harness, instance, weights);
    let Some((place_of, score)) = wide.search(seed) else {
        return Err(Error::Input(format!(
            "{} nodes cannot be put to {} machines, each of which takes one unless `slots` says otherwise: add \
             machines, or slots",
            request.nodes.len(),
            harness.places.iter().filter(|place| !place.switch).count()
        )));
    };
    // Cables do not count where paths are measured.
    let bare = Request { links: Vec::new(), ..request.clone() };
    let bare_instance = Instance::new(&bare, harness, terms)?;
    let state = State::of(&bare_instance, &place_of);
    let judged = mapping(&bare, harness, terms, &state, seed);
    let total = score + judged.score.wants + judged.score.groups;
    let score = Score { total, links: score, machines: 0.0, ..judged.score };
    let mut notes = judged.notes;
    let unmeasured = unmeasured(request, harness, &place_of);
    if unmeasured > 0 {
        notes.push(format!(
            "{unmeasured} of {} links are between machines between which nothing was measured",
            request.links.len()
        ));
    }
    Ok(Mapping { score, paths: compared(request, harness, &place_of), notes, ..judged })
}
