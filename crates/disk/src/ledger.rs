//! Which requests are not done with, and which writes would not survive a power cut.
//!
//! A write can reach the medium in parts: a later one may take its place in the cache halfway, or a long run of sectors
//! be written in several goes. It is durable when its last part is on the medium, in its own version or a later one.
//! Models that know beforehand when that will be say so when it is ([`Ledger::told`]), and do not count parts.

use std::collections::{BTreeMap, HashMap};

use crate::request::{Event, EventKind, Lost, Op, Request, Span};

/// The requests that are outstanding, and the writes that are not durable.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    requests: HashMap<u64, Record>,
    /// Writes in a cache, by the order in which they came there.
    cached: BTreeMap<u64, u64>,
    /// How many ever came there.
    count: u64,
}

#[derive(Debug)]
struct Record {
    op: Op,
    completed: bool,
    /// Whether it has been told that it is durable.
    durable: bool,
    /// How many parts of it are not on the medium.
    parts: u32,
    /// Its place in the order of the cache, from 1; 0: it is not there.
    order: u64,
    /// Parts that are on the medium.
    kept: Vec<Span>,
}

impl Ledger {
    /// Takes a request in.
    pub fn open(&mut self, request: &Request) {
        let record = Record { op: request.op, completed: false, durable: false, parts: 1, order: 0, kept: Vec::new() };
        self.requests.insert(request.id, record);
    }

    /// Whether there is such a request.
    pub fn has(&self, id: u64) -> bool {
        self.requests.contains_key(&id)
    }

    /// Whether there is such a request, and it writes.
    pub fn writes(&self, id: u64) -> bool {
        self.requests.get(&id).is_some_and(Record::writes)
    }

    /// Whether there is such a request that writes to the cache only, and is not complete.
    pub fn is_cached_only(&self, id: u64) -> bool {
        self.requests.get(&id).is_some_and(|r| r.op == Op::Write && !r.completed)
    }

    /// A write is in the cache from now on.
    pub fn cache(&mut self, id: u64) {
        self.count += 1;
        self.cached.insert(self.count, id);
        if let Some(record) = self.requests.get_mut(&id) {
            record.order = self.count;
        }
    }

    /// A write has so many parts more than before.
    pub fn split(&mut self, id: u64, more: u32) {
        if let Some(record) = self.requests.get_mut(&id) {
            record.parts += more;
        }
    }

    /// A part of a write is on the medium; whether it was the last one.
    pub fn written(&mut self, id: u64, part: Span) -> bool {
        let Some(record) = self.requests.get_mut(&id) else { return false };
        record.parts -= 1;
        record.kept.push(part);
        if record.parts == 0 {
            self.cached.remove(&record.order);
        }
        record.parts == 0
    }

    fn durable(&mut self, id: u64) {
        if let Some(record) = self.requests.get_mut(&id) {
            record.durable = true;
            self.cached.remove(&record.order);
        }
        self.close(id);
    }

    /// Some of a part of a write is on the medium, at the instant of a power cut.
    pub fn torn(&mut self, id: u64, kept: Span) {
        if let Some(record) = self.requests.get_mut(&id) {
            record.kept.push(kept);
        }
    }

    /// It has been told what has been done for a request.
    pub fn told(&mut self, event: &Event) {
        match event.kind {
            EventKind::Completed => self.complete(event.id),
            EventKind::Durable => self.durable(event.id),
        }
    }

    fn complete(&mut self, id: u64) {
        if let Some(record) = self.requests.get_mut(&id) {
            record.completed = true;
        }
        self.close(id);
    }

    fn close(&mut self, id: u64) {
        let done = |r: &Record| r.completed && (r.durable || !r.writes());
        if self.requests.get(&id).is_some_and(done) {
            self.requests.remove(&id);
        }
    }

    /// The place of the latest write in the order of the cache.
    pub fn latest(&self) -> u64 {
        self.count
    }

    /// Whether all writes up to a place in the order of the cache have left it.
    pub fn flushed(&self, up_to: u64) -> bool {
        self.cached.keys().next().is_none_or(|first| *first > up_to)
    }

    /// The completed writes that a power cut would lose, in the order of the cache.
    pub fn at_risk(&self) -> impl Iterator<Item = u64> {
        self.cached.values().copied().filter(|id| self.requests.get(id).is_some_and(|r| r.completed))
    }

    /// Cuts the power: what was lost, by the writes' names. Nothing is outstanding any more.
    pub fn cut(&mut self) -> Vec<Lost> {
        self.cached.clear();
        let writes = self.requests.drain().filter(|(_, r)| r.writes() && !r.durable);
        let mut lost: Vec<Lost> = writes.map(|(id, r)| Lost { id, completed: r.completed, kept: r.kept }).collect();
        lost.sort_by_key(|l| l.id);
        lost
    }
}

impl Record {
    fn writes(&self) -> bool {
        matches!(self.op, Op::Write | Op::WriteThrough)
    }
}
