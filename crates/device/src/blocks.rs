//! Memory for what is read. Large blocks are used again: of each new one the kernel would map and clear 256 pages, one
//! fault each, which takes longer than to read what comes into them.

use std::sync::{Mutex, PoisonError};

/// From here on a block is worth keeping; what is smaller, the allocator keeps.
const LARGE: usize = 64 << 10;
/// How large those are that are kept: as much as a request may hold.
const LONGEST: usize = 1 << 20;
/// How many are kept.
const KEPT: usize = 32;

/// A block of memory, whose beginning is used.
#[derive(Debug, Default)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    used: usize,
}

impl Block {
    pub fn used(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    pub fn used_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.used]
    }
}

/// Large blocks that nobody uses now.
#[derive(Debug, Default)]
pub(crate) struct Blocks(Mutex<Vec<Vec<u8>>>);

impl Blocks {
    /// A block of so many bytes. What is in it is left over from somebody else.
    pub fn take(&self, length: usize) -> Block {
        let kept = if length < LARGE { None } else { self.kept().pop().filter(|kept| kept.len() >= length) };
        let bytes = kept.unwrap_or_else(|| vec![0; if length < LARGE { length } else { length.max(LONGEST) }]);
        Block { bytes, used: length }
    }

    /// Gives one back.
    pub fn give(&self, block: Block) {
        let mut kept = self.kept();
        if block.bytes.len() >= LARGE && kept.len() < KEPT {
            kept.push(block.bytes);
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        // Nobody panics with it locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_blocks_are_used_again_and_small_ones_are_as_long_as_asked_for() {
        let blocks = Blocks::default();
        let mut first = blocks.take(LONGEST);
        first.used_mut()[0] = 7;
        blocks.give(first);
        let again = blocks.take(LARGE);
        assert_eq!((again.used().len(), again.used()[0]), (LARGE, 7));
        let more = blocks.take(LONGEST + 1);
        assert_eq!(more.used().len(), LONGEST + 1);
        blocks.give(blocks.take(512));
        assert_eq!(blocks.take(512).used(), [0; 512]);
    }

    #[test]
    fn no_more_are_kept_than_that() {
        let blocks = Blocks::default();
        let taken: Vec<Block> = (0..KEPT + 5).map(|_| blocks.take(LARGE)).collect();
        taken.into_iter().for_each(|block| blocks.give(block));
        assert_eq!(blocks.kept().len(), KEPT);
    }
}
