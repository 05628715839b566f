//! Completions of a disk, by the instants at which they will be told.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use scale::VirtualInstant;

use crate::request::{Event, EventKind};

/// Events to come, earliest first; those of one instant in the order in which they were put in.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    heap: BinaryHeap<Reverse<(VirtualInstant, u64, u64, EventKind)>>,
    put: u64,
}

impl Outbox {
    /// Has an event told at an instant.
    pub fn put(&mut self, at: VirtualInstant, id: u64, kind: EventKind) {
        self.put += 1;
        self.heap.push(Reverse((at, self.put, id, kind)));
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<VirtualInstant> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next event out, if it is due by an instant.
    pub fn take(&mut self, by: VirtualInstant) -> Option<Event> {
        if self.next()? > by {
            return None;
        }
        let Reverse((at, _, id, kind)) = self.heap.pop()?;
        Some(Event { at, id, kind })
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.heap.clear();
    }
}
