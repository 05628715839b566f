//! A drive with platters.
//!
//! Requests wait in its queue until the arm serves them, whole: seek, rotation, transfer (`geometry`, `seek`,
//! `platter`). Reads that are in the track cache, and writes as long as the write cache has room, do not wait. When it
//! has nothing else to do, it reads ahead, and then writes what is in the cache.

mod geometry;
mod parameters;
mod platter;
mod scheduler;
mod seek;
mod track_cache;
mod write_cache;

use std::collections::VecDeque;

use scale::{VirtualDuration, VirtualInstant};

pub use self::parameters::{Band, HddParameters, Order, Queue, Seek, TrackCache, WriteCache, Zones};

use self::geometry::{Geometry, Place};
use self::platter::Platter;
use self::scheduler::{Active, Queued, Work};
use self::track_cache::Found;
use self::write_cache::{Owned, Owner};
use crate::disk::Counters;
use crate::ledger::Ledger;
use crate::outbox::Outbox;
use crate::parameters::ParameterError;
use crate::request::{Event, EventKind, Lost, Op, Request, SECTOR, Span};
use crate::slots::Slots;

#[derive(Debug)]
pub(crate) struct Hdd {
    parameters: HddParameters,
    geometry: Geometry,
    platter: Platter,
    reading: track_cache::TrackCache,
    writing: write_cache::WriteCache,
    pub(crate) ledger: Ledger,
    outbox: Outbox,
    pub(crate) counters: Counters,
    slots: Slots,
    /// Writes that it has taken, and its cache has no room for, and when they came.
    held: VecDeque<(Request, VirtualInstant)>,
    /// For the arm, in the order of arrival.
    queue: Vec<Queued>,
    flushes: VecDeque<Flush>,
    active: Option<Active>,
    /// Whether the arm has served a request since it last wrote a run of the cache.
    served: bool,
    /// Where the arm was last, as a sector.
    arm: u64,
    bus_free: VirtualInstant,
    now: VirtualInstant,
}

/// A flush that waits.
#[derive(Clone, Copy, Debug)]
struct Flush {
    id: u64,
    /// The place, in the order of the cache, of the last write that it is about.
    up_to: u64,
    came: VirtualInstant,
    /// When the data of all of these has been transferred: a run that came later has none of it.
    taken: VirtualInstant,
}

fn ms(ms: f64) -> VirtualDuration {
    VirtualDuration::from_secs_f64(ms / 1e3)
}

impl Hdd {
    /// `phase`: where the platters are at virtual zero, as part of a turn.
    pub fn new(parameters: &HddParameters, phase: f64) -> Result<Hdd, ParameterError> {
        let geometry = Geometry::new(parameters);
        let platter = Platter::new(parameters, geometry.cylinders(), phase)?;
        Ok(Hdd {
            parameters: parameters.clone(),
            geometry,
            platter,
            reading: track_cache::TrackCache::new(parameters.track_cache),
            writing: write_cache::WriteCache::default(),
            ledger: Ledger::default(),
            outbox: Outbox::default(),
            counters: Counters::default(),
            slots: Slots::new(parameters.queue.depth),
            held: VecDeque::new(),
            queue: Vec::new(),
            flushes: VecDeque::new(),
            active: None,
            served: false,
            arm: 0,
            bus_free: VirtualInstant::ZERO,
            now: VirtualInstant::ZERO,
        })
    }

    pub fn submit(&mut self, at: VirtualInstant, request: Request) -> VirtualInstant {
        self.now = self.now.max(at);
        self.ledger.open(&request);
        if let Some(request) = self.slots.arrive(request) {
            self.take(request);
        }
        self.pick();
        self.now
    }

    /// Takes a request.
    fn take(&mut self, request: Request) {
        match request.op {
            Op::Read => self.read(request),
            Op::Write => self.write(request),
            Op::WriteThrough if self.parameters.write_cache.ignores_flush => self.write(request),
            Op::WriteThrough => self.write_through(&request),
            Op::Flush => self.flush(request.id),
            // The platters have no use for it.
            Op::Trim => self.complete(self.now + ms(self.parameters.hit_overhead_ms), request.id),
        }
    }

    fn complete(&mut self, at: VirtualInstant, id: u64) {
        self.outbox.put(at, id, EventKind::Completed);
    }

    fn on_the_bus(&self, bytes: u64) -> VirtualDuration {
        VirtualDuration::from_secs_f64(bytes as f64 / self.parameters.bus_bytes_per_s)
    }

    /// When the bus has carried so much that it can begin with at an instant.
    fn carry(&mut self, from: VirtualInstant, bytes: u64) -> VirtualInstant {
        self.bus_free = self.bus_free.max(from) + self.on_the_bus(bytes);
        self.bus_free
    }

    fn read(&mut self, request: Request) {
        let span = Span::of(&request);
        let (begin, end) = (span.begin / SECTOR, span.end / SECTOR);
        let found = match self.writing.covers(span) {
            true => Found::All,
            false => self.reading.find(begin, end, self.now, &self.geometry, &self.platter),
        };
        match found {
            Found::All => {
                self.counters.cache_hits += 1;
                let at = self.carry(self.now + ms(self.parameters.hit_overhead_ms), request.length);
                self.complete(at, request.id);
            }
            Found::Head { begin: segment, missing } => self.queue.push(Queued {
                id: request.id,
                span,
                segment,
                missing,
                place: self.geometry.locate(missing),
                came: self.now,
                ready: self.now + ms(self.parameters.read_overhead_ms),
                through: None,
            }),
        }
    }

    fn write(&mut self, request: Request) {
        if self.parameters.write_cache.bytes < request.length {
            return self.write_through(&request);
        }
        match self.held.is_empty() && self.has_room(&request) {
            true => self.cache(&request),
            false => self.held.push_back((request, self.now)),
        }
    }

    fn has_room(&self, request: &Request) -> bool {
        self.writing.bytes() + request.length <= self.parameters.write_cache.bytes
    }

    /// Takes a write into the cache.
    fn cache(&mut self, request: &Request) {
        let part = Span::of(request);
        let taken = self.carry(self.now + ms(self.parameters.write_overhead_ms), request.length);
        self.ledger.cache(request.id);
        self.reading.write(part.begin / SECTOR, part.end / SECTOR);
        self.writing.insert(Owner { id: request.id, taken }, part, &mut self.ledger);
        self.complete(taken, request.id);
    }

    /// Has a write wait for the arm; what is in the cache of the same place is written with it.
    fn write_through(&mut self, request: &Request) {
        let part = Span::of(request);
        let ready = self.carry(self.now + ms(self.parameters.write_overhead_ms), request.length);
        let (mut owned, _) = self.writing.carve(part, &mut self.ledger);
        owned.push(Owned { part, by: vec![Owner { id: request.id, taken: ready }] });
        self.reading.write(part.begin / SECTOR, part.end / SECTOR);
        let missing = part.begin / SECTOR;
        self.queue.push(Queued {
            id: request.id,
            span: part,
            segment: missing,
            missing,
            place: self.geometry.locate(missing),
            came: self.now,
            ready,
            through: Some(owned),
        });
    }

    fn flush(&mut self, id: u64) {
        let up_to = self.ledger.latest();
        if self.parameters.write_cache.ignores_flush || self.ledger.flushed(up_to) {
            let at = self.now + ms(self.parameters.hit_overhead_ms);
            return self.complete(at, id);
        }
        self.flushes.push_back(Flush { id, up_to, came: self.now, taken: self.bus_free.max(self.now) });
    }

    /// When there is something to be done.
    pub fn next_event(&mut self) -> Option<VirtualInstant> {
        let arm = match &self.active {
            Some(active) => Some(active.end),
            None => self.next_start(),
        };
        [self.outbox.next(), arm].into_iter().flatten().min()
    }

    pub fn advance(&mut self, to: VirtualInstant, events: &mut Vec<Event>) {
        while let Some(next) = self.next_event().filter(|next| *next <= to) {
            self.now = self.now.max(next);
            if let Some(active) = self.active.take_if(|active| active.end <= self.now) {
                self.finish(active);
            }
            while let Some(event) = self.outbox.take(self.now) {
                events.push(event);
                self.ledger.told(&event);
                if event.kind == EventKind::Completed
                    && let Some(request) = self.slots.complete()
                {
                    self.take(request);
                }
            }
            self.pick();
        }
        self.now = self.now.max(to);
    }

    /// The arm has done what it was to do.
    fn finish(&mut self, active: Active) {
        let end = active.end;
        self.counters.busy = self.counters.busy + end.since(active.start);
        match active.work {
            Work::Read { id, segment, end: behind, bytes } => {
                // The bus carries what has come under the head while the rest comes.
                let takes = self.on_the_bus(bytes);
                self.bus_free = self.bus_free.max(active.begins).max(end - takes) + takes;
                self.complete(self.bus_free, id);
                self.reading.read_on(segment, behind, end, &self.geometry, &self.platter);
            }
            Work::Write { owned, span, completes } => {
                self.counters.written_to_medium += span.len();
                for Owned { part, by } in owned {
                    for owner in by {
                        if self.ledger.written(owner.id, part) {
                            self.outbox.put(end.max(owner.taken), owner.id, EventKind::Durable);
                        }
                    }
                }
                if let Some(id) = completes {
                    self.complete(end, id);
                }
                while let Some(done) = self.flushes.pop_front_if(|flush| self.ledger.flushed(flush.up_to)) {
                    self.complete(end, done.id);
                }
                while let Some((request, _)) = self.held.front().copied().filter(|(held, _)| self.has_room(held)) {
                    self.held.pop_front();
                    self.cache(&request);
                }
            }
        }
    }

    /// Cuts the power: what is in the cache, and what the head has not come to, is lost.
    pub fn cut_power(&mut self, at: VirtualInstant) -> Vec<Lost> {
        if let Some(Active { begins, place, work: Work::Write { owned, span, .. }, .. }) = self.active.take() {
            let turns = self.platter.turns_in(at.since(begins));
            let passed = self.geometry.passed(&place, turns, span.len() / SECTOR) * SECTOR;
            let written = Span { begin: span.begin, end: span.begin + passed };
            for Owned { part, by } in owned {
                if let Some(kept) = part.common(&written) {
                    by.iter().for_each(|owner| self.ledger.torn(owner.id, kept));
                }
            }
        }
        (self.now, self.bus_free) = (self.now.max(at), at);
        self.slots.clear();
        self.held.clear();
        self.queue.clear();
        self.flushes.clear();
        self.outbox.clear();
        self.reading.clear();
        self.writing.clear();
        self.ledger.cut()
    }
}
