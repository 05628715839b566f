//! Readers are given what no one would write: known inputs, changed at random. (`make fuzz` does that for longer, and
//! is told which code an input has reached.)
//!
//! A reader may refuse an input, and must do nothing else: no panic, no end of the process, and no more than some
//! seconds for it. What it does not survive is kept where the message says, and becomes a test of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Inputs that each reader gets: enough to see that it is tried at all.
const TRIES: usize = 60;
/// The longest that a reader may take for one, of at most 64 KiB, also unoptimised and beside others.
const PATIENCE: Duration = Duration::from_secs(20);
/// The longest input.
const LONGEST: usize = 1 << 16;

/// Words that mean something to some reader.
const WORDS: [&[u8]; 34] = [
    b"&a ",
    b"*a",
    b"<<: ",
    b"? ",
    b"!!",
    b"|\n",
    b"{",
    b"}",
    b"[",
    b"]",
    b"${A:-",
    b"$A",
    b"%",
    b"\0",
    b"\xff",
    b"\n",
    b"  ",
    b"- ",
    b": ",
    b"null",
    b"-1",
    b"0",
    b"1e999",
    b"nan",
    b"18446744073709551616",
    b"99999999999999999999s",
    b"count: 4294967295",
    b"../",
    b"/etc/shadow",
    b"image:",
    b"\xc2\x85",
    b"\"",
    b"'",
    b"#",
];

/// A generator whose numbers repeat from run to run (xorshift).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Tries a reader on the inputs themselves, and on changed ones.
pub fn fuzz(name: &str, inputs: &[Vec<u8>], read: impl Fn(&[u8])) {
    let kept = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}"));
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut pool = inputs.to_vec();
    for tries in 0..TRIES.max(inputs.len()) {
        let input = inputs.get(tries).cloned();
        let input = input.unwrap_or_else(|| changed(&mut dice, &pool));
        // Before it is read: what ends the process leaves it there.
        std::fs::write(&kept, &input).unwrap();
        let since = Instant::now();
        let survived = catch_unwind(AssertUnwindSafe(|| read(&input))).is_ok();
        let took = since.elapsed();
        assert!(survived && took < PATIENCE, "{name}: {} (took {took:?})", kept.display());
        // Changes of changes reach further.
        if tries % 50 == 0 && pool.len() < 500 {
            pool.push(input);
        }
    }
}

fn changed(dice: &mut Dice, pool: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = pool[dice.below(pool.len())].clone();
    for _ in 0..1 + dice.below(8) {
        let at = dice.below(bytes.len() + 1);
        let end = (at + dice.below(64)).min(bytes.len());
        match dice.below(7) {
            0 => drop(bytes.drain(at..end)),
            1 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            2 => drop(bytes.splice(at..at, WORDS[dice.below(WORDS.len())].iter().copied())),
            3 => drop(bytes.splice(at..at, WORDS[dice.below(WORDS.len())].repeat(1 + dice.below(500)))),
            4 => {
                let again = bytes[at..end].repeat(1 + dice.below(20));
                drop(bytes.splice(at..at, again));
            }
            5 => {
                let other = &pool[dice.below(pool.len())];
                let from = dice.below(other.len());
                let part = other[from..(from + dice.below(200)).min(other.len())].to_vec();
                drop(bytes.splice(at..end, part));
            }
            _ => drop(bytes.splice(at..end, (0..dice.below(8)).map(|_| dice.next() as u8).collect::<Vec<_>>())),
        }
        bytes.truncate(LONGEST);
    }
    bytes
}

/// The files of a folder whose names end so, in order.
#[allow(dead_code, reason = "some readers have no files of their own")]
pub fn files(folder: &str, ends: &[&str]) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<_> =
        entries.filter(|path| ends.iter().any(|end| path.to_string_lossy().ends_with(end))).collect();
    paths.sort();
    let read = paths.iter().filter_map(|path| std::fs::read(path).ok());
    read.filter(|bytes| bytes.len() < LONGEST).collect()
}
