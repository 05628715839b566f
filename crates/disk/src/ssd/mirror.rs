//! How much garbage collection costs, found out on a small drive that mirrors the large one.
//!
//! A drive of flash memory writes everything to a new place, and has to free blocks by copying what is still valid in
//! them. How much that is depends on what was written over when. A table of all pages of a terabyte would take a
//! gigabyte; but what matters is how much of a block is still valid when its turn comes, and that is the same in a
//! drive of fewer, sampled pages, whose blocks are as many times smaller. So every *n*-th page is mirrored, with the
//! rule by which real ones choose a block: the one with the fewest valid pages ("greedy"), as a rule. (Sampling by
//! address is what makes curves of cache misses cheap, too: Waldspurger et al., *Efficient MRC Construction with
//! SHARDS*, FAST 2015.)
//!
//! For writes at random places, all equally likely, the result is known (Xiang and Kurkoski, *An Improved Analytic
//! Expression for Write Amplification in NAND Flash*, ICNC 2012): with *α* = physical over logical pages, each page
//! costs α / (α + W(−α e^−α)) writes, where W is Lambert's function; the tests compare.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::parameters::State;
use crate::request::Span;

/// Bytes that are mapped as one.
pub(crate) const PAGE: u64 = 4096;
/// So many pages are mirrored at most.
const MOST: u64 = 16_384;
/// Pages of a mirrored block. In larger blocks of a drive with as many pages, too few blocks are left.
const BLOCK: usize = 128;
/// Every so many collections, the oldest block is freed instead of the cheapest (static wear levelling): an estimate.
const OLDEST: u64 = 8;
/// Over so many collections the cost is averaged.
const MEMORY: f64 = 16.0;

/// Kinds of pages that are written into the two open blocks.
const NEW: usize = 0;
const COPIED: usize = 1;

/// A block that is being written, and how many of its pages are.
#[derive(Clone, Copy, Debug)]
struct Open {
    block: u32,
    filled: usize,
}

/// A drive of few pages.
#[derive(Debug)]
pub(crate) struct Mirror {
    /// Which pages are mirrored: those with this remainder, `every` being odd, so that no usual stride misses them.
    every: u64,
    /// Where each mirrored page lies, counted from 1; 0: nowhere.
    place: Vec<u32>,
    /// Page at each place, counted from 1; 0: nothing that is valid.
    holds: Vec<u32>,
    /// Valid pages of each block.
    valid: Vec<u16>,
    /// Blocks with nothing in them.
    free: Vec<u32>,
    /// The blocks that are being written: with what is new, and with what is copied, which is as a rule older and will
    /// last longer.
    open: [Open; 2],
    /// When each block was begun, counted in collections, of which there have been so many.
    begun: Vec<u64>,
    collections: u64,
    /// How many pages were copied for each that was written, lately.
    copies: f64,
}

impl Mirror {
    /// `spare`: how much more flash memory there is, as a part of the capacity.
    pub fn new(capacity: u64, spare: f64, state: State, random: &mut Xoshiro256PlusPlus) -> Mirror {
        let pages = capacity.div_ceil(PAGE);
        let every = pages.div_ceil(MOST) | 1;
        let mirrored = pages.div_ceil(every) as usize;
        // Two blocks are always open, half full on average, and one is kept free.
        let blocks = ((mirrored as f64 * (1.0 + spare)) as usize).div_ceil(BLOCK) + 2;
        // All of the drive fits into the others. Then these have a place that is not valid whenever a page is in an
        // open block, and collecting it comes to an end.
        let blocks = blocks.max(mirrored.div_ceil(BLOCK) + 3);
        let mut mirror = Mirror {
            every,
            place: vec![0; mirrored],
            holds: vec![0; blocks * BLOCK],
            valid: vec![0; blocks],
            free: (2..blocks as u32).rev().collect(),
            open: [Open { block: 0, filled: 0 }, Open { block: 1, filled: 0 }],
            begun: vec![0; blocks],
            collections: 0,
            copies: 0.0,
        };
        if state == State::Steady {
            (0..mirrored).for_each(|page| mirror.put(page));
            for _ in 0..3 * mirrored {
                let page = random.random_range(0..mirrored);
                mirror.put(page);
            }
        }
        mirror
    }

    /// Notes that a range is written over; how many pages the drive copies for each page of it.
    pub fn write(&mut self, span: Span) -> f64 {
        for page in self.mirrored(span) {
            self.put(page);
        }
        self.copies
    }

    /// Notes that a range is no longer needed.
    pub fn trim(&mut self, span: Span) {
        // A page that is needed in part is needed.
        let whole = Span { begin: span.begin.next_multiple_of(PAGE), end: span.end / PAGE * PAGE };
        if !whole.is_empty() {
            for page in self.mirrored(whole) {
                self.forget(page);
            }
        }
    }

    fn mirrored(&self, span: Span) -> std::ops::Range<usize> {
        let first = (span.begin / PAGE).div_ceil(self.every);
        let behind = span.end.div_ceil(PAGE).div_ceil(self.every);
        first as usize..behind as usize
    }

    fn forget(&mut self, page: usize) {
        let place = std::mem::take(&mut self.place[page]) as usize;
        if place > 0 {
            self.holds[place - 1] = 0;
            self.valid[(place - 1) / BLOCK] -= 1;
        }
    }

    /// Writes a page, and collects garbage if there is no free block left but one.
    fn put(&mut self, page: usize) {
        self.forget(page);
        self.append(NEW, page);
        while self.free.len() < 2 {
            self.collect();
        }
    }

    fn append(&mut self, kind: usize, page: usize) {
        if self.open[kind].filled == BLOCK {
            let block = self.free.pop().expect("a block is always kept free");
            self.open[kind] = Open { block, filled: 0 };
            self.begun[block as usize] = self.collections;
        }
        let Open { block, filled } = &mut self.open[kind];
        let place = *block as usize * BLOCK + *filled;
        *filled += 1;
        self.valid[*block as usize] += 1;
        self.holds[place] = page as u32 + 1;
        self.place[page] = place as u32 + 1;
    }

    /// Moves what is valid in a block.
    fn collect(&mut self) {
        self.collections += 1;
        let victim = self.victim();
        let copied = usize::from(self.valid[victim]);
        for place in victim * BLOCK..(victim + 1) * BLOCK {
            let held = std::mem::take(&mut self.holds[place]);
            if held > 0 {
                self.append(COPIED, held as usize - 1);
            }
        }
        self.valid[victim] = 0;
        self.free.push(victim as u32);
        let each = copied as f64 / (BLOCK - copied).max(1) as f64;
        self.copies += (each - self.copies) / MEMORY;
    }

    /// The block with the fewest valid pages; every so often, the one that is oldest, so that what never changes does
    /// not keep the room for ever that was left beside it.
    fn victim(&self) -> usize {
        let busy = |block: usize| {
            let number = block as u32;
            self.open.iter().any(|open| open.block == number) || self.free.contains(&number)
        };
        let closed = || (0..self.valid.len()).filter(|block| !busy(*block));
        if self.collections.is_multiple_of(OLDEST) {
            let gains = closed().filter(|block| usize::from(self.valid[*block]) < BLOCK);
            if let Some(oldest) = gains.min_by_key(|block| self.begun[*block]) {
                return oldest;
            }
        }
        closed().min_by_key(|block| self.valid[*block]).expect("there are several blocks")
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn random() -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(7)
    }

    /// Writes that each page costs, on average, by the analytic result: 1 / (1 − u), where u = e^(−α (1 − u)) is
    /// what of a block is valid when its turn comes.
    fn analytic(spare: f64) -> f64 {
        let alpha = 1.0 + spare;
        let mut valid = 0.5;
        for _ in 0..10_000 {
            valid = (-alpha * (1.0 - valid)).exp();
        }
        1.0 / (1.0 - valid)
    }

    /// The mean cost of writes at random places of a drive that has seen many.
    fn measured(capacity: u64, spare: f64) -> f64 {
        let mut random = random();
        let mut mirror = Mirror::new(capacity, spare, State::Steady, &mut random);
        let (writes, pages) = (60_000, capacity / PAGE);
        let mut sum = 0.0;
        for _ in 0..writes {
            let begin = mirror.every * random.random_range(0..pages / mirror.every) * PAGE;
            sum += mirror.write(Span { begin, end: begin + PAGE });
        }
        1.0 + sum / f64::from(writes)
    }

    #[test]
    fn writes_at_random_cost_what_the_analytic_result_says() {
        for spare in [0.07, 0.1, 0.145, 0.28, 0.5] {
            // A small drive, all of whose pages are mirrored, and a large one.
            for capacity in [64 << 20, 960_197_124_096] {
                let (is, should) = (measured(capacity, spare), analytic(spare));
                let off = is / should - 1.0;
                println!("spare {spare} of {capacity}: {is:.2}, analytic {should:.2}");
                assert!(off.abs() < 0.02, "spare {spare} of {capacity}: {is:.2}, not {should:.2}");
            }
        }
    }

    #[test]
    fn collecting_comes_to_an_end_however_full_the_drive_is() {
        // Of 258 pages, two full blocks and one page in each open block once were all that there was.
        let mut random = random();
        for pages in 256..520 {
            let mut mirror = Mirror::new(pages * PAGE, 0.01, State::Fresh, &mut random);
            for n in 0..2_000 {
                // In order, with places at random between.
                let page = if n % 3 == 0 { random.random_range(0..pages) } else { n % pages };
                mirror.write(Span { begin: page * PAGE, end: (page + 1) * PAGE });
            }
        }
    }

    #[test]
    fn writing_all_over_in_order_costs_nothing() {
        let mut mirror = Mirror::new(64 << 20, 0.1, State::Steady, &mut random());
        for _ in 0..4 {
            for begin in (0..64 << 20).step_by(1 << 20) {
                mirror.write(Span { begin, end: begin + (1 << 20) });
            }
        }
        assert!(mirror.copies < 0.05, "{}", mirror.copies);
    }

    #[test]
    fn what_is_hot_costs_less_than_what_is_random() {
        let mut random = random();
        let mut mirror = Mirror::new(64 << 20, 0.1, State::Steady, &mut random);
        let uniform = mirror.copies;
        for _ in 0..400_000 {
            // A tenth of the drive is written over and over.
            let begin = random.random_range(0..1638) * PAGE;
            mirror.write(Span { begin, end: begin + PAGE });
        }
        assert!(mirror.copies < uniform / 2.0, "{} of {uniform}", mirror.copies);
    }

    #[test]
    fn what_is_trimmed_need_not_be_copied() {
        let mut random = random();
        let mut mirror = Mirror::new(64 << 20, 0.1, State::Steady, &mut random);
        let before = mirror.copies;
        mirror.trim(Span { begin: 32 << 20, end: 64 << 20 });
        for _ in 0..30_000 {
            let begin = random.random_range(0..8192) * PAGE;
            mirror.write(Span { begin, end: begin + PAGE });
        }
        assert!(mirror.copies < before / 10.0, "{} of {before}", mirror.copies);
        let half = Span { begin: 100, end: 5000 };
        mirror.trim(half);
    }

    #[test]
    fn the_smallest_drive_with_the_least_to_spare_finds_room() {
        let mut random = random();
        for state in [State::Fresh, State::Steady] {
            for capacity in [MIB, 2 * MIB + 512, 100 * MIB] {
                let mut mirror = Mirror::new(capacity, 0.01, state, &mut random);
                for _ in 0..20_000 {
                    let begin = random.random_range(0..capacity / PAGE) * PAGE;
                    mirror.write(Span { begin, end: (begin + PAGE).min(capacity) });
                }
                assert!(mirror.copies < 130.0);
            }
        }
    }

    #[test]
    fn a_fresh_drive_copies_nothing_until_it_is_full() {
        let mut random = random();
        let mut mirror = Mirror::new(64 << 20, 0.1, State::Fresh, &mut random);
        let mut cost = 0.0;
        for _ in 0..16_384 {
            let begin = random.random_range(0..16_384) * PAGE;
            cost += mirror.write(Span { begin, end: begin + PAGE });
        }
        assert_eq!(cost, 0.0);
    }
}
