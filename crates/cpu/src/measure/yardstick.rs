//! The yardstick: a fixed piece of work, always the same, whose duration tells how fast a core is just now.
//!
//! A core's speed changes by up to a factor of two without any counter showing it, when a neighbour computes on the
//! other hardware thread of the same core: both share what executes instructions. What notices is a loop that keeps
//! many execution units busy at a time and never waits: integer work in registers in several independent chains, with a
//! few loads that always hit the first cache and a few branches that are always predicted. A loop that waits for memory
//! hardly notices.
//!
//! Time is the processor's own counter (TSC), which does not stop and does not change its rate on any processor of the
//! last fifteen years; its rate is measured, never assumed.

use std::arch::asm;
use std::arch::x86_64::_rdtsc;

use host::now;
use scale::RealInstant;

/// Rounds of a chunk: 4 to 5 µs on a core of 3 GHz that is left alone. Long beside reading the counter (10 ns), and
/// short beside a timeslice (100 µs), so that few chunks are interrupted.
pub(crate) const ROUNDS: u64 = 4096;

/// The memory of the loads: four cache lines, which are all that this takes of a cache.
#[repr(align(64))]
struct Table([u64; 32]);

static TABLE: Table = Table([0x9e37_79b9_7f4a_7c15; 32]);

/// Does one chunk: [`ROUNDS`] rounds.
#[inline(always)]
pub(crate) fn chunk() {
    // The loop begins a cache line: where a compiler put it elsewhere, it took 27 % longer at one place of sixteen, so
    // that two builds of this program were not of one opinion on how fast a core is.
    // SAFETY: reads 16 bytes at each of the four lines of TABLE (offsets 0 to 192) and writes registers that are
    // declared; it neither uses the stack nor leaves the block other than at its end.
    unsafe {
        asm!(
            ".p2align 6",
            "2:",
            "add {a}, {n}",
            "lea {b}, [{b} + {b}*2 + 7]",
            "xor {c}, {n}",
            "rol {d}, 7",
            "add {e}, qword ptr [{table}]",
            "xor {f}, qword ptr [{table} + 64]",
            "test {n:e}, 7",
            "jz 3f",
            "sub {a}, {c}",
            "add {d}, {e}",
            "3:",
            "xor {c}, {f}",
            "add {e}, qword ptr [{table} + 128]",
            "add {f}, qword ptr [{table} + 192]",
            "dec {n}",
            "jnz 2b",
            a = inout(reg) 1u64 => _,
            b = inout(reg) 2u64 => _,
            c = inout(reg) 3u64 => _,
            d = inout(reg) 4u64 => _,
            e = inout(reg) 5u64 => _,
            f = inout(reg) 6u64 => _,
            n = inout(reg) ROUNDS => _,
            table = in(reg) TABLE.0.as_ptr(),
            options(nostack, readonly),
        );
    }
}

/// The processor's counter.
#[inline(always)]
pub(crate) fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux lets user programs use it.
    unsafe { _rdtsc() }
}

/// The rate of the processor's counter, measured against the clock since this was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterRate {
    start: (u64, RealInstant),
}

impl CounterRate {
    pub fn start() -> CounterRate {
        CounterRate { start: pair() }
    }

    /// Cycles per microsecond; `None` in the first milliseconds, in which it cannot be told well.
    pub fn per_us(&self) -> Option<f64> {
        let ((c0, t0), (c1, t1)) = (self.start, pair());
        let ns = t1.since(t0).as_nanos();
        (ns >= LEAST_NS && c1 > c0).then(|| (c1 - c0) as f64 * 1e3 / ns as f64)
    }
}

/// Over this time, reading both clocks 100 ns apart is an error of 1 in 50,000.
const LEAST_NS: u64 = 5_000_000;

/// Both clocks at one moment: of a few attempts the one that was least interrupted.
fn pair() -> (u64, RealInstant) {
    let attempt = || {
        let before = cycles();
        let at = now();
        let after = cycles();
        (after.wrapping_sub(before), before, at)
    };
    let best = (0..5).map(|_| attempt()).min_by_key(|(width, ..)| *width);
    let (width, before, at) = best.expect("five attempts");
    (before.wrapping_add(width / 2), at)
}

/// Tells chunks that were interrupted from those that were not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sieve {
    usual: u64,
    rejected: u32,
}

/// More chunks than this one after the other are not interrupted: the core has become slower.
const IN_A_ROW: u32 = 4;

impl Sieve {
    /// Whether a chunk that took `cycles` was left alone: it took less than twice the usual.
    #[inline(always)]
    pub fn passes(&mut self, cycles: u64) -> bool {
        if cycles < 2 * self.usual {
            self.rejected = 0;
            // An average over the last 32, by which it follows the core's speed within a slice or two.
            self.usual = self.usual - self.usual / 32 + cycles / 32;
            return true;
        }
        self.rejected += 1;
        if self.rejected > IN_A_ROW || self.usual == 0 {
            (self.usual, self.rejected) = (cycles, 0);
        }
        false
    }
}

/// Chunk after chunk: the end of one is the begin of the next, so that no interruption falls between two.
#[derive(Debug)]
pub(crate) struct Laps {
    last: u64,
    sieve: Sieve,
}

impl Laps {
    pub fn start() -> Laps {
        Laps { last: cycles(), sieve: Sieve::default() }
    }

    /// Does one chunk; how many cycles it took, if it was left alone.
    #[inline(always)]
    pub fn lap(&mut self) -> Option<u64> {
        chunk();
        let now = cycles();
        let took = now.wrapping_sub(self.last);
        self.last = now;
        self.sieve.passes(took).then_some(took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_chunks_do_not_pass() {
        let mut sieve = Sieve::default();
        assert!(!sieve.passes(10_000), "nothing is usual yet");
        assert!(sieve.passes(10_400) && sieve.passes(9_800));
        assert!(!sieve.passes(300_000) && sieve.passes(10_000) && !sieve.passes(25_000) && sieve.passes(10_000));
    }

    #[test]
    fn a_core_that_becomes_slower_or_faster_is_believed() {
        let mut sieve = Sieve::default();
        assert_eq!((0..100).filter(|_| sieve.passes(9_000)).count(), 99);
        let passed = (0..100).filter(|_| sieve.passes(19_000)).count();
        assert!(passed >= 90, "more than twice as slow: {passed} of 100");
        let passed = (0..100).filter(|_| sieve.passes(9_000)).count();
        assert_eq!(passed, 100);
        assert!(!sieve.passes(22_000), "what is usual is soon the lower again");
    }

    #[test]
    fn a_chunk_is_more_work_than_half_of_it() {
        // Against itself, at once, for the core may become twice as fast or slow at any time; and the middle of many,
        // which interruptions do not move.
        let takes = |chunks: usize| {
            let start = cycles();
            (0..chunks).for_each(|_| chunk());
            (cycles() - start) as f64
        };
        let mut ratios: Vec<f64> = (0..200).map(|_| takes(8) / takes(4)).collect();
        ratios.sort_by(f64::total_cmp);
        let ratio = ratios[100];
        assert!((1.5..2.7).contains(&ratio), "twice the work took {ratio} times as long");
    }

    #[test]
    fn a_chunk_takes_as_long_wherever_it_is_in_a_program() {
        #[inline(never)]
        fn after<const BYTES: usize>() {
            // SAFETY: does nothing, but for the bytes that it takes.
            unsafe {
                asm!(".p2align 6", ".nops {}", const BYTES, options(nostack, nomem, preserves_flags));
            }
            chunk();
        }
        let places: [fn(); 8] =
            [after::<4>, after::<12>, after::<20>, after::<28>, after::<36>, after::<44>, after::<52>, after::<60>];
        let takes = |of: fn()| {
            let start = cycles();
            of();
            cycles() - start
        };
        // The least of many, one beside the other: nobody interrupted that, and no neighbour slowed it down.
        let mut least = [u64::MAX; 8];
        for _ in 0..2_000 {
            least.iter_mut().zip(places).for_each(|(least, of)| *least = takes(of).min(*least));
        }
        let [fastest, slowest] = [least.iter().min(), least.iter().max()].map(|l| *l.expect("eight") as f64);
        assert!(slowest < 1.1 * fastest, "{least:?} cycles");
    }

    #[test]
    fn the_counters_rate_is_what_the_clock_says() {
        let rate = CounterRate::start();
        let measured = || {
            while rate.per_us().is_none() {}
            rate.per_us().expect("known by now")
        };
        let (first, second) = (measured(), measured());
        assert!((100.0..10_000.0).contains(&first), "{first} cycles per µs");
        assert!((first / second - 1.0).abs() < 0.01, "{first}, {second}");
    }
}
