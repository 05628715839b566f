//! The whole search for a mapping.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::anneal::{Heat, anneal, is_better};
use crate::coarse::coarsen;
use crate::exchange::exchange;
use crate::first_cut::{by_tree, by_walk};
use crate::instance::Instance;
use crate::state::State;

/// Searches of up to so many items are not made smaller.
const SMALL: usize = 60;

/// How many moves are tried in all, for each item: of few items, and of many.
const MOVES_FEW: u64 = 10_000;
const MOVES_MANY: u64 = 5000;
/// Up to so many items are few.
const FEW: u64 = 250;
/// The least and the most moves.
const MOVES_LEAST: u64 = 60_000;
const MOVES_MOST: u64 = 12_000_000;

/// At least so many in a search that was made smaller.
const LEVEL_LEAST: u64 = 30_000;

/// So many searches begin, each elsewhere; only the best of them go on.
const BEGIN: u64 = 8;
const GO_ON: usize = 2;

/// The best mapping that was found. The same instance and seed give the same one.
pub(crate) fn search(instance: &Instance, seed: u64) -> State<'_> {
    let moves = moves(instance.items.len());
    let begun = |number: u64| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_mul(BEGIN).wrapping_add(number));
        let found = match number {
            0 => {
                let pieces = by_tree(instance, &mut rng);
                anneal(exchange(pieces, &mut rng), Heat::Warm, moves / 2 / BEGIN, &mut rng)
            }
            1 => {
                let walked = by_walk(instance, &mut rng);
                anneal(exchange(walked, &mut rng), Heat::Warm, moves / 2 / BEGIN, &mut rng)
            }
            _ => by_levels(instance, moves / 2 / BEGIN, &mut rng),
        };
        (exchange(found, &mut rng), rng)
    };
    let mut all = in_parallel((0..BEGIN).collect(), begun);
    // Stable: of equal ones the first.
    let rank = |state: &State<'_>| (state.wrong * 1e6).round();
    all.sort_by(|(a, _), (b, _)| rank(a).total_cmp(&rank(b)).then(a.soft.total_cmp(&b.soft)));
    all.truncate(GO_ON);
    let gone_on = in_parallel(all, |(state, mut rng)| {
        let better = anneal(state, Heat::Warm, moves / 2 / GO_ON as u64, &mut rng);
        exchange(better, &mut rng)
    });
    let best = gone_on.into_iter().reduce(|a, b| if is_better(&b, &a) { b } else { a });
    best.unwrap_or_else(|| State::empty(instance))
}

/// Does the same with each, on as many cores as there are; the results are in the order of what they are of.
fn in_parallel<T: Send, R: Send>(all: Vec<T>, each: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let mut results = Vec::with_capacity(all.len());
    let mut left = all.into_iter();
    loop {
        let part: Vec<T> = left.by_ref().take(threads).collect();
        if part.is_empty() {
            return results;
        }
        std::thread::scope(|scope| {
            let each = &each;
            let running: Vec<_> = part.into_iter().map(|one| scope.spawn(move || each(one))).collect();
            for thread in running {
                match thread.join() {
                    Ok(result) => results.push(result),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
    }
}

/// Goes on from a mapping.
pub(crate) fn improve<'a>(instance: &'a Instance, place_of: &[u32], seed: u64) -> State<'a> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    anneal(State::of(instance, place_of), Heat::Warm, moves(instance.items.len()) / 8, &mut rng)
}

fn moves(items: usize) -> u64 {
    let items = items as u64;
    (MOVES_FEW * items.min(FEW)).max(MOVES_MANY * items).clamp(MOVES_LEAST, MOVES_MOST)
}

/// From the smallest instance up: each one's solution is where the next begins.
fn by_levels<'a>(instance: &'a Instance, moves: u64, rng: &mut Xoshiro256PlusPlus) -> State<'a> {
    let mut levels: Vec<(Instance, Vec<u32>)> = Vec::new();
    loop {
        let finer = levels.last().map_or(instance, |(level, _)| level);
        let coarser = if finer.items.len() > SMALL { coarsen(finer, rng) } else { None };
        match coarser {
            Some(level) => levels.push(level),
            None => break,
        }
    }
    let Some((coarsest, _)) = levels.last() else {
        return anneal(by_tree(instance, rng), Heat::Hot, moves, rng);
    };
    let part = |level: &Instance| moves * level.items.len() as u64 / instance.items.len() as u64 + LEVEL_LEAST;
    let coarse = anneal(by_tree(coarsest, rng), Heat::Hot, part(coarsest), rng);
    let mut place_of = exchange(coarse, rng).place_of;
    for at in (1..levels.len()).rev() {
        let level = &levels[at - 1].0;
        let begin: Vec<u32> = levels[at].1.iter().map(|cluster| place_of[*cluster as usize]).collect();
        place_of = anneal(State::of(level, &begin), Heat::Warm, part(level), rng).place_of;
    }
    let begin: Vec<u32> = levels[0].1.iter().map(|cluster| place_of[*cluster as usize]).collect();
    anneal(State::of(instance, &begin), Heat::Warm, moves, rng)
}
