//! What a program loses because a core's caches forget in real time.
//!
//! Under dilation the real time between two uses of the same data grows by the TDF. On a machine of one's own that alone
//! does no harm: data leave a cache when others need the room. In a virtual machine *others* are the neighbours, who need it
//! in real time. So a program works here in turns, now as close together as on the target, now as far apart as in the model, on a
//! core that runs nothing else meanwhile; what it does less in the same time is the loss.

use flate2::{Compress, Compression, FlushCompress};
use scale::{RealDuration, RealInstant};

use crate::probe;

/// A turn of a node under always-runnable groups.
pub const TURN: RealDuration = RealDuration::from_nanos(150_000);
/// Beyond this apart a program has lost all that it can.
const FARTHEST: u64 = 20_000_000;
/// How long turns of one kind follow one another.
const BLOCK: u64 = 40_000_000;
/// Blocks of either kind, in turn. A neighbour comes and goes: single pairs differ by a tenth.
const PAIRS: usize = 16;
/// What is compressed over and over, as much as a web page.
const INPUT: usize = 240 << 10;
/// Between two looks at the clock, bytes: some microseconds.
const STEP: usize = 512;

/// How far apart a node's turns begin: [`TURN`] divided by its share of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// On the target, or in the baseline.
    pub on_target: RealDuration,
    /// In the model.
    pub in_model: RealDuration,
}

impl Turns {
    /// The turns of a node that has `on_target` and `in_model` of a core, in real time.
    pub fn of_shares(on_target: f64, in_model: f64) -> Turns {
        let every = |share: f64| {
            let ns = TURN.as_nanos() as f64 / share.clamp(1e-3, 1.0);
            RealDuration::from_nanos((ns as u64).min(FARTHEST))
        };
        Turns { on_target: every(on_target), in_model: every(in_model) }
    }
}

/// How much less a program does in the model's turns than in the target's, with the same CPU time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// Per cent; what is below zero is noise.
    pub percent: f64,
    /// Its standard error.
    pub error: f64,
    /// How far apart the turns were.
    pub turns: Turns,
}

/// Measures a core that has nothing else to do, for 1.3 s. `None` if this process may not use the core.
///
/// The program is zlib at level 1: tables of some hundred kilobytes that are read everywhere, and its input once in a row, as much
/// that compresses, parses or looks up does. One whose data fit into the first cache loses next to nothing.
pub fn measure(core: usize, turns: Turns) -> Option<Loss> {
    let probe = move || {
        let mut only = rustix::thread::CpuSet::new();
        only.set(core);
        rustix::thread::sched_setaffinity(None, &only).ok()?;
        let mut program = Program::new();
        program.block(turns.on_target);
        let pairs = (0..PAIRS).map(|_| (program.block(turns.on_target), program.block(turns.in_model)));
        loss(&pairs.collect::<Vec<_>>(), turns)
    };
    std::thread::spawn(probe).join().ok().flatten()
}

/// What pairs of rates, on the target and in the model, say together. The sums count and not the single ratios: a block of many turns
/// is more likely than one of few to lie in one mood of the neighbours. `None` without work.
fn loss(pairs: &[(f64, f64)], turns: Turns) -> Option<Loss> {
    let n = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / n;
    let (on_target, in_model) = (mean(|p| p.0), mean(|p| p.1));
    if n < 2.0 || on_target <= 0.0 {
        return None;
    }
    let ratio = in_model / on_target;
    // Of a ratio of means (Cochran, Sampling Techniques, §2.11).
    let squares: f64 = pairs.iter().map(|(t, m)| (m - ratio * t).powi(2)).sum();
    let error = (squares / (n * (n - 1.0))).sqrt() / on_target;
    Some(Loss { percent: 100.0 * (1.0 - ratio), error: 100.0 * error, turns })
}

/// A program that compresses the same text again and again.
struct Program {
    zlib: Compress,
    input: Vec<u8>,
    output: Vec<u8>,
    at: usize,
}

impl Program {
    fn new() -> Program {
        let mut state = 1u64;
        let mut word = || {
            // Knuth's MMIX generator; a few hundred different words, some rare.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (x, y) = ((state >> 33) % 24, (state >> 45) % 24);
            format!("{:x} ", 0x9e37 * (1 + x * y))
        };
        let mut input = Vec::with_capacity(INPUT + 16);
        while input.len() < INPUT {
            input.extend_from_slice(word().as_bytes());
        }
        Program { zlib: Compress::new(Compression::fast(), true), input, output: vec![0; 64 << 10], at: 0 }
    }

    /// Turns for [`BLOCK`], one `every` so often; bytes per nanosecond of the turns.
    fn block(&mut self, every: RealDuration) -> f64 {
        let begun = probe::now();
        let (mut bytes, mut worked) = (0, 0);
        let mut next = begun;
        while probe::now().since(begun).as_nanos() < BLOCK {
            next = next + every;
            while probe::now() + TURN < next {}
            let (did, took) = self.turn();
            bytes += did;
            worked += took;
        }
        bytes as f64 / worked as f64
    }

    /// Works for a turn; bytes, and nanoseconds.
    fn turn(&mut self) -> (u64, u64) {
        let start: RealInstant = probe::now();
        let before = self.zlib.total_in();
        let mut bytes = 0;
        loop {
            let end = self.input.len().min(self.at + STEP);
            let was = self.zlib.total_in();
            // The output is as long as what a step can give, and what is in it is of no use.
            let done = self.zlib.compress(&self.input[self.at..end], &mut self.output, FlushCompress::None);
            self.at += (self.zlib.total_in() - was) as usize;
            if done.is_err() || self.at >= self.input.len() {
                bytes += self.zlib.total_in();
                self.zlib.reset();
                self.at = 0;
            }
            let took = probe::now().since(start);
            if took >= TURN {
                return (bytes + self.zlib.total_in() - before, took.as_nanos());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURNS: Turns = Turns { on_target: TURN, in_model: TURN };

    #[test]
    fn a_loss_is_told_with_its_error() {
        let none = loss(&[(2.0, 2.0), (1.0, 1.0), (3.0, 3.0)], TURNS).unwrap();
        assert_eq!((none.percent, none.error), (0.0, 0.0));
        // A neighbour who slows both kinds alike is no loss.
        let tenth = loss(&[(2.0, 1.8), (1.0, 0.9), (4.0, 3.6)], TURNS).unwrap();
        assert!((tenth.percent - 10.0).abs() < 1e-9 && tenth.error < 1e-9, "{tenth:?}");
        let noisy = loss(&[(2.0, 2.0), (2.0, 1.6), (2.0, 1.8)], TURNS).unwrap();
        // Residuals 0.2, -0.2, 0 of means 2 and 1.8.
        assert!(
            (noisy.percent - 10.0).abs() < 1e-9 && (noisy.error - 100.0 * 0.115_470 / 2.0).abs() < 1e-3,
            "{noisy:?}"
        );
        assert!(loss(&[], TURNS).is_none() && loss(&[(0.0, 0.0), (0.0, 0.0)], TURNS).is_none());
    }

    #[test]
    fn turns_are_as_far_apart_as_the_share_is_small() {
        let us = |n: u64| RealDuration::from_nanos(n * 1_000);
        assert_eq!(Turns::of_shares(0.5, 0.05), Turns { on_target: us(300), in_model: us(3_000) });
        assert_eq!(Turns::of_shares(1.5, 0.15).on_target, TURN, "all of the core");
        assert_eq!(Turns::of_shares(0.08, 0.0008).in_model, RealDuration::from_nanos(FARTHEST));
    }

    #[test]
    fn the_program_works_all_its_turns_and_starts_again_at_the_end_of_its_input() {
        let mut program = Program::new();
        let (bytes, took) =
            (0..200).map(|_| program.turn()).fold((0, 0), |(b, t), (bytes, took)| (b + bytes, t + took));
        assert!(took >= 200 * TURN.as_nanos());
        // Some ten times around even where it is slow; and it was never stuck.
        assert!(bytes > 2 * INPUT as u64, "{bytes}");
    }
}
