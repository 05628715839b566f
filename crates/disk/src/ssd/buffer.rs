//! The cache for writing: what has been taken and is not programmed yet.
//!
//! It is programmed in the order in which it came, in units of what a die programs in one go, and counts as written in
//! that order: a unit that is done before an earlier one is safe with that. When each unit will be done is known when
//! it is begun, and so is when there will be room for the next write.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use scale::VirtualInstant;

use super::parameters::Cache;
use crate::request::Span;

/// So many writes are remembered, so that what is read of them comes from the cache: an estimate.
const REMEMBERED: usize = 32;

/// A part of a write, by the write's name.
type Piece = (u64, Span);

#[derive(Debug)]
pub(crate) struct Buffer {
    cache: Cache,
    unit: u64,
    /// Content of the unit that is being filled, and since when the last of it.
    open: Vec<Piece>,
    filled: u64,
    since: VirtualInstant,
    /// Writes whose last part is in that unit.
    ends: Vec<u64>,
    /// Content of the cache, in bytes, and when how much of it will leave.
    used: u64,
    leaving: BinaryHeap<Reverse<(VirtualInstant, u64)>>,
    /// When the last write was let in.
    admitted: VirtualInstant,
    /// Units being programmed, in the order in which they are safe.
    pieces: VecDeque<(VirtualInstant, Piece)>,
    last_safe: VirtualInstant,
    recent: VecDeque<Span>,
}

impl Buffer {
    /// A cache that is programmed in units of `unit` bytes, of which it holds at least two.
    pub fn new(cache: Cache, unit: u64) -> Buffer {
        Buffer {
            cache,
            unit,
            open: Vec::new(),
            filled: 0,
            since: VirtualInstant::ZERO,
            ends: Vec::new(),
            used: 0,
            leaving: BinaryHeap::new(),
            admitted: VirtualInstant::ZERO,
            pieces: VecDeque::new(),
            last_safe: VirtualInstant::ZERO,
            recent: VecDeque::new(),
        }
    }

    /// How many bytes are missing from the unit that is being filled.
    pub fn room_in_unit(&self) -> u64 {
        self.unit - self.filled
    }

    /// Since when a unit has been waiting for more.
    pub fn open_since(&self) -> Option<VirtualInstant> {
        (self.filled > 0).then_some(self.since)
    }

    /// When there is room for so many bytes, no more than a unit, that come at an instant. Writes are let in in the
    /// order in which they came.
    pub fn wait_for(&mut self, bytes: u64, from: VirtualInstant) -> VirtualInstant {
        let mut at = from.max(self.admitted);
        while let Some(Reverse((done, leaves))) = self.leaving.peek().copied() {
            if done > at && self.used + bytes <= self.cache.bytes {
                break;
            }
            self.leaving.pop();
            self.used -= leaves;
            at = at.max(done);
        }
        self.admitted = at;
        at
    }

    /// Puts a part of a write into the unit that is being filled; `last`: there is no other part of it to come.
    pub fn add(&mut self, id: u64, part: Span, last: bool, at: VirtualInstant) {
        self.filled += part.len();
        self.used += part.len();
        self.since = at;
        // Protected writes are safe when they are complete: nobody asks when they have been programmed.
        if !self.cache.power_loss_protection {
            self.open.push((id, part));
            if last {
                self.ends.push(id);
            }
        }
    }

    /// The unit will have been programmed at an instant. When it is safe, and which writes are with it.
    pub fn close(&mut self, done: VirtualInstant) -> (VirtualInstant, impl Iterator<Item = u64>) {
        self.leaving.push(Reverse((done, self.filled)));
        self.filled = 0;
        self.last_safe = self.last_safe.max(done);
        let safe = self.last_safe;
        self.pieces.extend(self.open.drain(..).map(|piece| (safe, piece)));
        (safe, self.ends.drain(..))
    }

    /// When all units that have been begun to be programmed will be safe.
    pub fn safe_by(&self) -> VirtualInstant {
        self.last_safe
    }

    /// Forgets what has been safe since an instant or longer, and gives it.
    pub fn safe(&mut self, at: VirtualInstant) -> impl Iterator<Item = Piece> {
        let count = self.pieces.partition_point(|(safe, _)| *safe <= at);
        self.pieces.drain(..count).map(|(_, piece)| piece)
    }

    /// Remembers a write.
    pub fn remember(&mut self, span: Span) {
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(span);
    }

    /// Whether a read finds its data in the cache: in one of the latest writes, unless all has been programmed.
    pub fn holds(&mut self, span: Span, at: VirtualInstant) -> bool {
        if self.filled == 0 && self.last_safe <= at {
            self.recent.clear();
        }
        self.recent.iter().any(|recent| recent.holds(&span))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Buffer::new(self.cache, self.unit);
    }
}
