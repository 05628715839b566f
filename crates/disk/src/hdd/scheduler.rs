//! What the arm does next.

use scale::VirtualInstant;

use super::{Hdd, Order, Owner, Place, ms};
use crate::request::{SECTOR, Span};

/// The cache is written although reads wait when it is as full as this.
const HIGH_WATER: f64 = 0.75;

/// A request that waits for the arm.
#[derive(Debug)]
pub(super) struct Queued {
    pub id: u64,
    pub span: Span,
    /// Where the segment of the track cache begins that it will be part of.
    pub segment: u64,
    /// The first sector that the arm is needed for, and where that is.
    pub missing: u64,
    pub place: Place,
    pub came: VirtualInstant,
    /// From when on the arm may move for it.
    pub ready: VirtualInstant,
    /// For a write: whose data it is.
    pub through: Option<Vec<Owner>>,
}

/// What the arm is doing.
#[derive(Debug)]
pub(super) struct Active {
    pub start: VirtualInstant,
    /// When the first sector is under the head, and where that is.
    pub begins: VirtualInstant,
    pub place: Place,
    pub end: VirtualInstant,
    pub work: Work,
}

/// What for.
#[derive(Debug)]
pub(super) enum Work {
    /// A read, with the beginning of its segment, the sector behind it, and how much the bus has to carry.
    Read { id: u64, segment: u64, end: u64, bytes: u64 },
    /// Writing; the request that is complete with it, if any.
    Write { owners: Vec<Owner>, span: Span, completes: Option<u64> },
}

/// What it could do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// The request at this place of the queue.
    Queued(usize),
    /// The run of the write cache that begins there.
    Run(u64),
}

impl Hdd {
    /// When the arm, which is idle, has something to do.
    pub(super) fn next_start(&mut self) -> Option<VirtualInstant> {
        let ready = self.queue.iter().map(|q| q.ready).min();
        let Some((_, since)) = self.writing.oldest() else { return ready };
        let write = match self.has_to_write() {
            true => Some(since),
            false if self.queue.is_empty() => Some(self.reading.busy_until().unwrap_or(since).max(since)),
            false => None,
        };
        [ready, write].into_iter().flatten().min().map(|at| at.max(self.now))
    }

    /// Whether the cache has to be written, not just when there is nothing else to do.
    fn has_to_write(&mut self) -> bool {
        let limit = ms(self.parameters.queue.age_limit_ms);
        !self.flushes.is_empty()
            || !self.held.is_empty()
            || self.writing.bytes() as f64 > HIGH_WATER * self.parameters.write_cache.bytes as f64
            || self.writing.oldest().is_some_and(|(_, since)| self.now.since(since) > limit)
    }

    /// Has the arm begin with what is next, if it is idle.
    pub(super) fn pick(&mut self) {
        if self.active.is_some() || (self.queue.is_empty() && self.writing.is_empty()) {
            return;
        }
        match self.choose() {
            Some(Choice::Queued(at)) => self.serve(at),
            Some(Choice::Run(begin)) => self.write_run(begin),
            None => {}
        }
    }

    fn choose(&mut self) -> Option<Choice> {
        let now = self.now;
        if let Some(sector) = self.reading.head(now, &self.geometry, &self.platter) {
            self.platter.moved(&self.geometry.locate(sector));
        }
        let limit = ms(self.parameters.queue.age_limit_ms);
        let first = self.queue.iter().position(|q| q.ready <= now);
        let too_old = first.filter(|at| now.since(self.queue[*at].came) > limit);
        let writes = self.has_to_write()
            || (self.queue.is_empty() && self.reading.busy_until().is_none_or(|until| until <= now));
        if writes && self.flushes.front().is_some_and(|(.., came)| now.since(*came) > limit) {
            return self.oldest_run();
        }
        if too_old.is_some() || (self.parameters.queue.order == Order::Fifo && first.is_some()) {
            return first.map(Choice::Queued);
        }
        if writes && self.parameters.queue.order == Order::Fifo {
            return self.oldest_run();
        }
        if writes && self.queue.is_empty() && self.writing.begins_at((self.arm + 1) * SECTOR, now) {
            // Nothing that is reached sooner is worth leaving a run half written.
            return Some(Choice::Run((self.arm + 1) * SECTOR));
        }
        let angle = self.platter.angle(now);
        let mut best: Option<(f64, Choice)> = None;
        let mut weigh = |takes: f64, choice: Choice| {
            if best.is_none_or(|(least, _)| takes < least) {
                best = Some((takes, choice));
            }
        };
        for (at, queued) in self.queue.iter().enumerate().filter(|(_, q)| q.ready <= now) {
            let takes = match self.on_the_way(queued) {
                Some((_, passes)) => passes.since(now).as_nanos() as f64,
                None => self.platter.positioning_ns(angle, &queued.place, queued.through.is_some()),
            };
            weigh(takes, Choice::Queued(at));
        }
        if writes {
            self.writing.weigh(self.arm * SECTOR, now, &self.geometry, |begin, place| {
                weigh(self.platter.positioning_ns(angle, place, true), Choice::Run(begin));
            });
        }
        match best {
            // All that is near is being transferred.
            None if writes => self.oldest_run(),
            best => best.map(|(_, choice)| choice),
        }
    }

    fn oldest_run(&mut self) -> Option<Choice> {
        let now = self.now;
        self.writing.oldest().filter(|(_, since)| *since <= now).map(|(begin, _)| Choice::Run(begin))
    }

    /// The first sector of a read that the head, reading ahead, has yet to come to, and when it does.
    fn on_the_way(&self, queued: &Queued) -> Option<(u64, VirtualInstant)> {
        let begin = queued.span.begin / SECTOR;
        match queued.through {
            Some(_) => None,
            None => self.reading.on_the_way(begin, self.now, &self.geometry, &self.platter),
        }
    }

    /// Serves a request of the queue.
    fn serve(&mut self, at: usize) {
        let mut queued = self.queue.remove(at);
        let end = queued.span.end / SECTOR;
        let on_the_way = self.on_the_way(&queued);
        self.reading.stop(self.now, &self.geometry, &self.platter);
        let begins = match on_the_way {
            // The head goes on to it; what it has come to meanwhile may be all that was wanted.
            Some((missing, passes)) => {
                queued.missing = missing.min(end);
                queued.place = self.geometry.locate(queued.missing.min(self.geometry.sectors() - 1));
                passes
            }
            None => self.now + self.platter.positioning(self.now, &queued.place, queued.through.is_some()),
        };
        let work = match queued.through.take() {
            Some(owners) => Work::Write { owners, span: queued.span, completes: Some(queued.id) },
            None => Work::Read { id: queued.id, segment: queued.segment, end, bytes: queued.span.len() },
        };
        self.begin(queued.place, begins, queued.missing, end, work);
    }

    /// Writes a run of the cache.
    fn write_run(&mut self, begin: u64) {
        let (span, owners) = self.writing.take(begin, &mut self.ledger);
        self.reading.stop(self.now, &self.geometry, &self.platter);
        let first = begin / SECTOR;
        let place = self.geometry.locate(first);
        let begins = self.now + self.platter.positioning(self.now, &place, true);
        self.begin(place, begins, first, span.end / SECTOR, Work::Write { owners, span, completes: None });
    }

    fn begin(&mut self, place: Place, begins: VirtualInstant, from: u64, to: u64, work: Work) {
        let sectors = to - from;
        let end = match sectors {
            0 => begins,
            _ => begins + self.platter.turns(self.geometry.sweep(&place, sectors)),
        };
        let last = if sectors <= 1 { place } else { self.geometry.locate(to - 1) };
        self.platter.moved(&last);
        self.arm = to.saturating_sub(1);
        self.active = Some(Active { start: self.now, begins, place, end, work });
    }
}
