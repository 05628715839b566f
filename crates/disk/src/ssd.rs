//! A drive of flash memory.
//!
//! A read goes through the controller, to a die for each page (`flash`), over channels and the link; a sequential one
//! finds its pages read ahead (`ahead`). A write is complete when it is in the cache, which is programmed in units, on
//! one die after the other; garbage collection (`mirror`) gives the dies as much more to do as it costs. All of that is
//! known when a request comes, so there is nothing to be done until it is complete.

mod ahead;
mod buffer;
mod flash;
mod mirror;
mod parameters;

use std::collections::HashSet;

use rand::rngs::Xoshiro256PlusPlus;
use scale::{VirtualDuration, VirtualInstant};

pub use self::parameters::{Cache, Fast, Flash, SsdParameters, State};

use self::ahead::Ahead;
use self::buffer::Buffer;
use self::flash::{transfer, us};
use self::mirror::Mirror;
use crate::disk::Counters;
use crate::ledger::Ledger;
use crate::outbox::Outbox;
use crate::request::{Event, EventKind, Lost, Op, Request, Span};
use crate::slots::Slots;

/// A rest in the cache that fills no unit is programmed after so long without another write: an estimate.
const LINGER: VirtualDuration = VirtualDuration::from_nanos(2_000_000);
/// A pause of writing that is long enough to move data out of the fast flash memory: an estimate.
const IDLE: VirtualDuration = VirtualDuration::from_nanos(10_000_000);

#[derive(Debug)]
pub(crate) struct Ssd {
    parameters: SsdParameters,
    flash: flash::Flash,
    ahead: Ahead,
    buffer: Buffer,
    /// Made by the first write or trim.
    mirror: Option<Mirror>,
    random: Xoshiro256PlusPlus,
    pub(crate) ledger: Ledger,
    outbox: Outbox,
    /// Writes that have been programmed before they are complete, which is told first.
    early: HashSet<u64>,
    pub(crate) counters: Counters,
    slots: Slots,
    /// When the controller can take up the next command, and the link is free, for reads and for writes.
    controller: VirtualInstant,
    links: [VirtualInstant; 2],
    /// Bytes that garbage collection has yet to copy.
    debt: f64,
    /// Bytes written into the fast flash memory, and when last something was programmed.
    fast: u64,
    programmed: VirtualInstant,
    now: VirtualInstant,
}

/// The directions of the link.
const OUT: usize = 0;
const IN: usize = 1;

impl Ssd {
    pub fn new(parameters: &SsdParameters, mut random: Xoshiro256PlusPlus) -> Ssd {
        let for_reads = rand::SeedableRng::from_rng(&mut random);
        Ssd {
            flash: flash::Flash::new(parameters.flash, for_reads),
            ahead: Ahead::default(),
            buffer: Buffer::new(parameters.cache, parameters.flash.program_bytes),
            mirror: None,
            random,
            ledger: Ledger::default(),
            outbox: Outbox::default(),
            early: HashSet::new(),
            counters: Counters::default(),
            slots: Slots::new(parameters.queue_depth),
            controller: VirtualInstant::ZERO,
            links: [VirtualInstant::ZERO; 2],
            debt: 0.0,
            fast: 0,
            programmed: VirtualInstant::ZERO,
            now: VirtualInstant::ZERO,
            parameters: parameters.clone(),
        }
    }

    pub fn submit(&mut self, at: VirtualInstant, request: Request) -> VirtualInstant {
        self.now = self.now.max(at);
        self.ledger.open(&request);
        if let Some(request) = self.slots.arrive(request) {
            self.take(request, at);
        }
        at
    }

    fn take(&mut self, request: Request, at: VirtualInstant) {
        self.controller = self.controller.max(at) + us(self.parameters.command_us);
        let from = self.controller;
        let answer = us(self.parameters.write_overhead_us);
        let done = match request.op {
            Op::Read => self.read(&request, from),
            Op::Write => self.write(&request, from),
            Op::WriteThrough => self.write_through(&request, from),
            Op::Flush if self.is_safe() => from + answer,
            Op::Flush => self.flush(from).max(from) + answer,
            Op::Trim => {
                self.mirror().trim(Span::of(&request));
                from + answer
            }
        };
        self.outbox.put(done, request.id, EventKind::Completed);
    }

    /// Whether a flush has nothing to do.
    fn is_safe(&self) -> bool {
        self.parameters.cache.power_loss_protection || self.parameters.cache.ignores_flush
    }

    fn mirror(&mut self) -> &mut Mirror {
        let SsdParameters { capacity_bytes, spare, state, .. } = self.parameters;
        self.mirror.get_or_insert_with(|| Mirror::new(capacity_bytes, spare, state, &mut self.random))
    }

    /// When the link has carried so many bytes, which it can begin with at an instant.
    fn carry(&mut self, direction: usize, from: VirtualInstant, bytes: u64) -> VirtualInstant {
        let link = &mut self.links[if self.parameters.full_duplex { direction } else { 0 }];
        *link = (*link).max(from) + transfer(bytes, self.parameters.link_bytes_per_s);
        *link
    }

    fn read(&mut self, request: &Request, from: VirtualInstant) -> VirtualInstant {
        let span = Span::of(request);
        let linked = self.carry(OUT, from, request.length);
        let last = transfer(request.length.min(self.parameters.flash.page_bytes), self.parameters.link_bytes_per_s);
        let ready = if self.buffer.holds(span, from) {
            from
        } else if let Some(ready) = self.sequential(span, from) {
            ready
        } else {
            self.pages(span, from).map(|(_, ready)| ready).max().unwrap_or(from)
        };
        if ready <= from {
            self.counters.cache_hits += 1;
        }
        // The last page goes over the link when it has come.
        linked.max(ready + last) + us(self.parameters.read_overhead_us)
    }

    /// Reads pages from the dies, all that a range is in; where each ends, and when it is with the controller.
    fn pages(&mut self, span: Span, from: VirtualInstant) -> impl Iterator<Item = (u64, VirtualInstant)> {
        let size = self.parameters.flash.page_bytes;
        (span.begin / size..span.end.div_ceil(size)).map(move |page| {
            let end = (page + 1) * size;
            let wanted = span.end.min(end) - span.begin.max(page * size);
            (end, self.flash.read(page, from, wanted))
        })
    }

    /// When a read that goes on where another ended has its pages; they were read ahead, and others are now.
    fn sequential(&mut self, span: Span, from: VirtualInstant) -> Option<VirtualInstant> {
        let window = self.parameters.read_ahead_bytes;
        if window == 0 {
            return None;
        }
        let page = self.parameters.flash.page_bytes;
        let to = (span.end + window).min(self.parameters.capacity_bytes).next_multiple_of(page);
        let mut run = self.ahead.follow(span, page)?;
        let missing = Span { begin: run.read_to, end: to };
        if !missing.is_empty() {
            run.pages.extend(self.pages(missing, from));
            run.read_to = to;
        }
        Some(self.ahead.put_back(run, span.end, page).max(from))
    }

    fn write(&mut self, request: &Request, from: VirtualInstant) -> VirtualInstant {
        self.store(request, from) + us(self.parameters.write_overhead_us)
    }

    fn write_through(&mut self, request: &Request, from: VirtualInstant) -> VirtualInstant {
        let stored = self.store(request, from);
        let safe = if self.is_safe() { stored } else { self.flush(stored).max(stored) };
        safe + us(self.parameters.write_overhead_us)
    }

    /// Puts a write into the cache; when the last of it is there.
    fn store(&mut self, request: &Request, from: VirtualInstant) -> VirtualInstant {
        let span = Span::of(request);
        let copies = self.mirror().write(span);
        self.debt += copies * request.length as f64;
        if !self.parameters.cache.power_loss_protection {
            self.ledger.cache(request.id);
        }
        self.ahead.forget(span);
        let mut at = self.carry(IN, from, request.length);
        // Those that are safe need not be known any more.
        drop(self.buffer.safe(self.now));
        let mut rest = span;
        while !rest.is_empty() {
            let part = Span { begin: rest.begin, end: rest.end.min(rest.begin + self.buffer.room_in_unit()) };
            at = self.buffer.wait_for(part.len(), at);
            self.buffer.add(request.id, part, part.end == span.end, at);
            if self.buffer.room_in_unit() == 0 {
                self.program(at);
            }
            rest.begin = part.end;
        }
        self.buffer.remember(span);
        at
    }

    /// Has what is in the cache programmed, and says when that is done.
    fn flush(&mut self, from: VirtualInstant) -> VirtualInstant {
        if let Some(since) = self.buffer.open_since() {
            self.program(from.max(since));
        }
        self.buffer.safe_by()
    }

    /// Programs the unit that is open, full or not, and what garbage collection owes.
    fn program(&mut self, at: VirtualInstant) {
        let unit = self.parameters.flash.program_bytes;
        let mut takes = us(self.parameters.flash.program_us);
        if let Some(fast) = self.parameters.fast {
            let idle = at.since(self.programmed);
            if idle > IDLE {
                let rate = unit as f64 * f64::from(self.parameters.dies()) / takes.as_secs_f64();
                self.fast = self.fast.saturating_sub((idle.as_secs_f64() * rate) as u64);
            }
            if self.fast + unit <= fast.bytes {
                self.fast += unit;
                takes = us(fast.program_us);
            }
        }
        self.programmed = self.programmed.max(at);
        let copied = std::mem::take(&mut self.debt);
        let done = self.flash.program(at, takes, copied);
        let (safe, writes) = self.buffer.close(done);
        for id in writes {
            self.outbox.put(safe, id, EventKind::Durable);
        }
        self.counters.written_to_medium += unit + copied as u64;
    }

    /// When there is something to be done.
    pub fn next_event(&mut self) -> Option<VirtualInstant> {
        let lingers = self.buffer.open_since().map(|since| since + LINGER);
        [self.outbox.next(), lingers].into_iter().flatten().min()
    }

    pub fn advance(&mut self, to: VirtualInstant, events: &mut Vec<Event>) {
        while let Some(next) = self.next_event().filter(|next| *next <= to) {
            self.now = self.now.max(next);
            if self.buffer.open_since().is_some_and(|since| since + LINGER <= self.now) {
                self.program(self.now);
            }
            while let Some(event) = self.outbox.take(self.now) {
                self.tell(event, events);
            }
        }
        self.now = self.now.max(to);
    }

    fn tell(&mut self, event: Event, events: &mut Vec<Event>) {
        if event.kind == EventKind::Durable && self.ledger.is_cached_only(event.id) {
            self.early.insert(event.id);
            return;
        }
        if event.kind == EventKind::Completed
            && self.parameters.cache.power_loss_protection
            && self.ledger.writes(event.id)
        {
            let durable = Event { kind: EventKind::Durable, ..event };
            self.ledger.told(&durable);
            events.push(durable);
        }
        events.push(event);
        self.ledger.told(&event);
        if event.kind == EventKind::Completed && self.early.remove(&event.id) {
            let durable = Event { kind: EventKind::Durable, ..event };
            self.ledger.told(&durable);
            events.push(durable);
        }
        if event.kind == EventKind::Completed
            && let Some(request) = self.slots.complete()
        {
            self.take(request, self.now);
        }
    }

    /// Cuts the power: what has not been programmed is lost, unless the cache is protected.
    pub fn cut_power(&mut self, at: VirtualInstant) -> Vec<Lost> {
        self.now = self.now.max(at);
        (self.controller, self.links, self.programmed) = (at, [at; 2], at);
        self.slots.clear();
        self.outbox.clear();
        self.early.clear();
        for (id, part) in self.buffer.safe(at) {
            // Of writes that are durable the ledger knows nothing any more.
            self.ledger.torn(id, part);
        }
        self.buffer.clear();
        self.ahead = Ahead::default();
        self.flash.reset(at);
        self.ledger.cut()
    }
}
