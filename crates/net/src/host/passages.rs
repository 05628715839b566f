//! Passages of observed frames: noted by the emulator's thread, to be read by another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};

use crate::links::passages::{Passage, Watcher};

/// How many the ring holds, 32 MiB of them: half a second of what one thread forwards.
const RING: usize = 1 << 18;

/// Passages of frames, in the order in which the emulator saw them.
#[derive(Debug)]
pub struct Passages {
    ring: Consumer<Passage>,
    missed: Arc<AtomicU64>,
}

impl Passages {
    /// Those of frames from and for some nodes, and what goes into the emulator's thread.
    pub(crate) fn of(nodes: &[usize]) -> (Passages, Watcher) {
        let (mut producer, mut ring) = RingBuffer::new(RING);
        touch(&mut producer, &mut ring);
        let missed = Arc::new(AtomicU64::new(0));
        let mut observed = vec![false; nodes.iter().max().map_or(0, |most| most + 1)];
        nodes.iter().for_each(|node| observed[*node] = true);
        let watcher = Watcher::new(producer, observed, missed.clone());
        (Passages { ring, missed }, watcher)
    }

    /// Takes the next one out, if there is one yet.
    pub fn take(&mut self) -> Option<Passage> {
        self.ring.pop().ok()
    }

    /// Whether the emulator notes nothing more: what [`Passages::take`] gives after this is the rest.
    pub fn have_ended(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// How many could not be noted since the ring was full.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}

/// Has the kernel supply the ring's memory now, and not page by page to the emulator's thread.
fn touch(producer: &mut Producer<Passage>, ring: &mut Consumer<Passage>) {
    if let Ok(all) = producer.write_chunk_uninit(RING) {
        all.fill_from_iter(std::iter::repeat(Passage::BLANK));
    }
    if let Ok(all) = ring.read_chunk(RING) {
        all.commit_all();
    }
}
