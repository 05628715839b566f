//! The memory that the processes that keep the shares have in common: what each filler has measured, what the poke has
//! reckoned from it, and what the engine has told them. Shared, because they are processes of their own; without locks,
//! because each word has one writer.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use scale::{RealDuration, RealInstant};

use crate::keeper::controller::{Books, Room};
use crate::{Pace, Speed};

/// A cache line: what different processes write is in different ones.
#[repr(C, align(64))]
#[derive(Default)]
struct Line([AtomicU64; 8]);

/// What is said to all of them.
const COMMON: usize = 0;
/// The lines of the first core; each has as many.
const CORES: usize = 1;
/// Of those of a core: what it is told, and what was reckoned of it.
const ORDERS: usize = 0;
const BOOKS: [usize; 2] = [1, 2];
const LINES_OF_CORE: usize = 3;

/// Of a filler's line, where what is told to one that burns what sleeping nodes leave begins.
const BURNER: usize = 3;
/// Of the common line, where the numbers of the kernel's maps begin.
const MAPS: usize = 1;

/// Which of the kernel's maps have the nodes' clocks, and how many values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Maps {
    pub nodes: u32,
    pub burners: u32,
    pub node_count: usize,
    pub burner_count: usize,
}

/// What a burner has of what it is in beside its siblings: `base` where none of the nodes that leave it their shares
/// sleeps, and `scale` × the shares of those that do, of which there are `sold` in all; `largest` at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BurnerOrders {
    pub base: f64,
    pub scale: f64,
    pub sold: f64,
    pub largest: f64,
}

impl BurnerOrders {
    /// Its fraction, where the nodes that do not sleep have so much of the core together.
    pub fn fraction(&self, awake: f64) -> f64 {
        (self.base + self.scale * (self.sold - awake).max(0.0)).min(self.largest)
    }
}

/// Handles on the memory; a forked process has the same.
#[derive(Clone, Copy)]
pub(crate) struct Board {
    lines: &'static [Line],
    cores: usize,
    /// By filler, which of the cores it is on.
    fillers: &'static [usize],
}

/// What concerns one core.
#[derive(Clone, Copy)]
pub(crate) struct OfCore {
    board: Board,
    place: usize,
}

/// What one filler has measured so far.
#[derive(Clone, Copy)]
pub(crate) struct Meter(&'static Line);

/// Chunks of the yardstick that were left alone, and the cycles that they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    pub chunks: u64,
    pub cycles: u64,
}

/// What the poke is to keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Orders {
    pub pace: Pace,
    pub room: Room,
}

impl Board {
    /// For so many cores, counted from 0, and fillers that are each on one of them. It is there until the process ends.
    pub fn new(cores: usize, fillers: &[usize]) -> io::Result<Board> {
        let count = CORES + cores * LINES_OF_CORE + fillers.len();
        let (bytes, prot) = (count * size_of::<Line>(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping, at an address of the kernel's choice, that nothing else knows.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, prot, MapFlags::SHARED)? };
        // SAFETY: `bytes` bytes from `start` are mapped, begin at a page and are never unmapped; zeros are valid
        // atomics, which may be read and written by several processes at once.
        let lines = unsafe { std::slice::from_raw_parts(start.cast::<Line>(), count) };
        Ok(Board { lines, cores, fillers: Box::leak(fillers.into()) })
    }

    fn meters(&self) -> &'static [Line] {
        &self.lines[CORES + self.cores * LINES_OF_CORE..]
    }

    /// The place of one filler.
    pub fn meter(&self, filler: usize) -> Meter {
        Meter(&self.meters()[filler])
    }

    /// What concerns one of the cores.
    pub fn core(self, place: usize) -> OfCore {
        OfCore { board: self, place }
    }

    /// The cores, in their order.
    pub fn cores(self) -> impl Iterator<Item = OfCore> {
        (0..self.cores).map(move |place| self.core(place))
    }

    /// Tells a filler's keeper what it burns.
    pub fn order_burner(&self, filler: usize, orders: BurnerOrders) {
        let BurnerOrders { base, scale, sold, largest } = orders;
        let line = &self.meters()[filler].0[BURNER..];
        line.iter().zip([base, scale, sold, largest]).for_each(|(word, v)| word.store(v.to_bits(), Ordering::Relaxed));
    }

    /// What a filler burns, as it was told.
    pub fn burner(&self, filler: usize) -> BurnerOrders {
        let word = |i: usize| f64::from_bits(self.meters()[filler].0[BURNER + i].load(Ordering::Relaxed));
        BurnerOrders { base: word(0), scale: word(1), sold: word(2), largest: word(3) }
    }

    /// Tells where the nodes' clocks are kept.
    pub fn set_maps(&self, maps: Maps) {
        let Maps { nodes, burners, node_count, burner_count } = maps;
        let words = [u64::from(nodes), u64::from(burners), node_count as u64, burner_count as u64];
        let line = &self.lines[COMMON].0[MAPS..];
        line.iter().zip(words).rev().for_each(|(word, value)| word.store(value, Ordering::Release));
    }

    /// Where the nodes' clocks are kept, once that was told.
    pub fn maps(&self) -> Option<Maps> {
        let word = |i: usize| self.lines[COMMON].0[MAPS + i].load(Ordering::Acquire);
        let [nodes, burners] = [word(0), word(1)].map(|number| number as u32);
        let maps = Maps { nodes, burners, node_count: word(2) as usize, burner_count: word(3) as usize };
        (nodes != 0).then_some(maps)
    }

    /// Tells the poke how long the shortest turns are.
    pub fn set_slice(&self, slice: RealDuration) {
        self.lines[COMMON].0[0].store(slice.as_nanos(), Ordering::Relaxed);
    }

    /// How long the shortest turns are.
    pub fn slice(&self) -> RealDuration {
        RealDuration::from_nanos(self.lines[COMMON].0[0].load(Ordering::Relaxed))
    }
}

impl OfCore {
    fn line(&self, of_core: usize) -> &'static Line {
        &self.board.lines[CORES + self.place * LINES_OF_CORE + of_core]
    }

    /// What its fillers have measured.
    pub fn measured(&self) -> Measured {
        let meters = self.board.meters().iter().zip(self.board.fillers);
        let own = meters.filter(|(_, place)| **place == self.place).map(|(line, _)| Meter(line).read());
        own.fold(Measured::default(), |sum, m| Measured {
            chunks: sum.chunks.wrapping_add(m.chunks),
            cycles: sum.cycles.wrapping_add(m.cycles),
        })
    }

    /// Tells the poke to keep shares of work; once.
    pub fn order(&self, orders: Orders) {
        let Orders { pace: Pace { reference, gain }, room: Room { usable, sold, largest } } = orders;
        let words = [reference.units_per_us(), gain, usable, sold, largest];
        let line = &self.line(ORDERS).0;
        line[1..].iter().zip(words).for_each(|(word, value)| word.store(value.to_bits(), Ordering::Relaxed));
        line[0].store(1, Ordering::Release);
    }

    /// What the poke has been told, once it has.
    pub fn orders(&self) -> Option<Orders> {
        let line = &self.line(ORDERS).0;
        if line[0].load(Ordering::Acquire) == 0 {
            return None;
        }
        let [reference, gain, usable, sold, largest] =
            std::array::from_fn(|i| f64::from_bits(line[1 + i].load(Ordering::Relaxed)));
        let reference = Speed::from_units_per_us(reference)?;
        Some(Orders { pace: Pace { reference, gain }, room: Room { usable, sold, largest } })
    }

    /// Publishes the books; only the poke does.
    pub fn publish(&self, books: Books) {
        let edition = &self.line(BOOKS[0]).0[0];
        let before = edition.load(Ordering::Relaxed);
        // Odd while they are being written. The fences keep the words between the two stores.
        edition.store(before + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.book_words().zip(books.to_words()).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        edition.store(before + 2, Ordering::Release);
    }

    /// The books as they were last published; `None` before that, and if their writer was stopped in the middle.
    pub fn books(&self) -> Option<Books> {
        let edition = &self.line(BOOKS[0]).0[0];
        for _ in 0..1_000 {
            let before = edition.load(Ordering::Acquire);
            let mut words = [0; Books::WORDS];
            words.iter_mut().zip(self.book_words()).for_each(|(to, word)| *to = word.load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && edition.load(Ordering::Relaxed) == before {
                return (before > 0).then(|| Books::from_words(words));
            }
            std::thread::yield_now();
        }
        None
    }

    /// After the number of the edition.
    fn book_words(&self) -> impl Iterator<Item = &AtomicU64> {
        BOOKS.iter().flat_map(|line| &self.line(*line).0).skip(1)
    }
}

impl Meter {
    /// Adds a chunk that took `cycles`. Only one thread does, so this needs no locked instruction.
    #[inline(always)]
    pub fn add(self, cycles: u64) {
        let [chunks, sum, ..] = &self.0.0;
        chunks.store(chunks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        sum.store(sum.load(Ordering::Relaxed).wrapping_add(cycles), Ordering::Relaxed);
    }

    fn read(self) -> Measured {
        let [chunks, cycles, ..] = &self.0.0;
        Measured { chunks: chunks.load(Ordering::Relaxed), cycles: cycles.load(Ordering::Relaxed) }
    }
}

impl Measured {
    /// What was measured since `before`.
    pub fn since(self, before: Measured) -> Measured {
        Measured { chunks: self.chunks.wrapping_sub(before.chunks), cycles: self.cycles.wrapping_sub(before.cycles) }
    }
}

impl Books {
    const WORDS: usize = 10;

    fn to_words(self) -> [u64; Books::WORDS] {
        let Books { at, metered_ns, units, owed_ns, wanted_ns, capped_ns, available_ns, owed, wanted, capped } = self;
        let rest = [metered_ns, units, owed_ns, wanted_ns, capped_ns, available_ns, owed, wanted, capped];
        let mut words = [at.as_nanos(); Books::WORDS];
        words[1..].iter_mut().zip(rest).for_each(|(word, value)| *word = value.to_bits());
        words
    }

    fn from_words(words: [u64; Books::WORDS]) -> Books {
        let [metered_ns, units, owed_ns, wanted_ns, capped_ns, available_ns, owed, wanted, capped] =
            std::array::from_fn(|i| f64::from_bits(words[i + 1]));
        let at = RealInstant::from_nanos(words[0]);
        Books { at, metered_ns, units, owed_ns, wanted_ns, capped_ns, available_ns, owed, wanted, capped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeper::controller::{Pacer, Window};

    fn books() -> Books {
        let mut pacer = Pacer::new(RealInstant::from_nanos(5));
        let (at, speed) = (RealInstant::from_nanos(20_000_005), Speed::from_units_per_us(700.0));
        pacer.step(Window { at, speed, available: Some(RealDuration::from_nanos(19_000_000)) });
        pacer.books()
    }

    #[test]
    fn books_are_read_as_they_were_written() {
        let board = Board::new(2, &[0, 1]).unwrap();
        let core = board.core(1);
        assert_eq!(core.books(), None);
        core.publish(books());
        assert_eq!((core.books(), board.core(0).books()), (Some(books()), None), "each core has its own");
        let work = core.books().unwrap().work(RealInstant::ZERO);
        assert_eq!((work.units, work.available_ns), (14_000_000, 19_000_000));
    }

    #[test]
    fn books_that_are_being_written_are_not_read() {
        let core = Board::new(1, &[0]).unwrap().core(0);
        core.publish(books());
        core.line(BOOKS[0]).0[0].store(3, Ordering::Relaxed);
        assert_eq!(core.books(), None, "their writer was stopped");
    }

    #[test]
    fn readers_never_see_two_editions_at_once() {
        let board = Board::new(1, &[0]).unwrap().core(0);
        let of = |n: u64| Books { at: RealInstant::from_nanos(n), owed_ns: n as f64, capped: n as f64, ..books() };
        board.publish(of(0));
        std::thread::scope(|threads| {
            let reader = threads.spawn(|| {
                loop {
                    let Some(seen) = board.books() else { continue };
                    let n = seen.at.as_nanos();
                    assert_eq!(seen, of(n));
                    if n == 20_000 {
                        break;
                    }
                }
            });
            (1..=20_000).for_each(|n| board.publish(of(n)));
            reader.join().unwrap();
        });
    }

    #[test]
    fn meters_add_up() {
        let board = Board::new(2, &[0, 0, 1]).unwrap();
        let [core, other] = [board.core(0), board.core(1)];
        board.meter(0).add(10_000);
        let before = core.measured();
        board.meter(1).add(12_000);
        board.meter(1).add(11_000);
        board.meter(2).add(9_000);
        assert_eq!(core.measured(), Measured { chunks: 3, cycles: 33_000 });
        assert_eq!(core.measured().since(before), Measured { chunks: 2, cycles: 23_000 });
        assert_eq!(other.measured(), Measured { chunks: 1, cycles: 9_000 });
    }

    #[test]
    fn orders_arrive_whole() {
        let all = Board::new(2, &[]).unwrap();
        let board = all.core(1);
        assert_eq!(board.orders(), None);
        let pace = Pace { reference: Speed::from_units_per_us(812.5).unwrap(), gain: 0.7 };
        let orders = Orders { pace, room: Room { usable: 0.99, sold: 0.46, largest: 1.3 } };
        board.order(orders);
        assert_eq!(board.orders(), Some(orders));
        assert_eq!(all.core(0).orders(), None);
        all.set_slice(crate::LONGEST_SLICE);
        assert_eq!(all.slice(), crate::LONGEST_SLICE);
        assert_eq!(all.cores().count(), 2);
    }
}
