//! Next act of the arm.

use scale::VirtualInstant;

use super::{Hdd, Order, Owned, Place, ms};
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
    pub through: Option<Vec<Owned>>,
}

/// Present act of the arm.
#[derive(Debug)]
pub(super) struct Active {
    pub start: VirtualInstant,
    /// When the first sector is under the head, and where that is.
    pub begins: VirtualInstant,
    pub place: Place,
    pub end: VirtualInstant,
    pub work: Work,
}

/// Its purpose.
#[derive(Debug)]
pub(super) enum Work {
    /// A read, with the beginning of its segment, the sector behind it, and how much the bus has to carry.
    Read { id: u64, segment: u64, end: u64, bytes: u64 },
    /// Writing; the request that is complete with it, if any.
    Write { owned: Vec<Owned>, span: Span, completes: Option<u64> },
}

/// Its candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// The request at this place of the queue.
    Queued(usize),
    /// The run of the write cache that begins there.
    Run(u64),
}

impl Hdd {
    /// When the arm, which is idle, has something to do.
    pub(super) fn next_start(&self) -> Option<VirtualInstant> {
        let ready = self.queue.iter().map(|q| q.ready).min();
        let write = self.writing.oldest().and_then(|(_, since)| {
            let must = self.must_write_from();
            let may = self.queue.is_empty().then(|| self.reading.busy_until().unwrap_or(since));
            Some(must.into_iter().chain(may).min()?.max(since))
        });
        [ready, write].into_iter().flatten().min().map(|at| at.max(self.now))
    }

    /// From when on the cache has to be written, not just when there is nothing else to do.
    fn must_write_from(&self) -> Option<VirtualInstant> {
        let (_, since) = self.writing.oldest()?;
        let urgent = !self.flushes.is_empty()
            || !self.held.is_empty()
            || self.writing.bytes() as f64 > HIGH_WATER * self.parameters.write_cache.bytes as f64;
        Some(if urgent { since } else { since + ms(self.parameters.queue.age_limit_ms) })
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
        // Otherwise it would be asked again at the same instant, for ever.
        debug_assert!(
            self.active.is_some() || self.next_start().is_none_or(|at| at > self.now),
            "the arm stands still"
        );
    }

    /// Begins the arm's next act: something, if [`Hdd::next_start`] says that there is something now.
    fn choose(&mut self) -> Option<Choice> {
        let now = self.now;
        if let Some(sector) = self.reading.head(now, &self.geometry, &self.platter) {
            self.platter.moved(&self.geometry.locate(sector));
        }
        let must = self.must_write_from().is_some_and(|from| from <= now);
        let writes = must || (self.queue.is_empty() && self.reading.busy_until().is_none_or(|until| until <= now));
        let oldest = self.writing.oldest().filter(|(_, since)| writes && *since <= now);
        let in_order = self.parameters.queue.order == Order::Fifo;
        if let (true, true, true, Some((begin, _))) = (in_order, must, self.served, oldest) {
            // In turn with requests, so that neither waits for ever.
            return Some(Choice::Run(begin));
        }
        if let Some((came, choice)) = self.first(oldest)
            && (in_order || now.since(came) > ms(self.parameters.queue.age_limit_ms))
        {
            return Some(choice);
        }
        if in_order {
            return oldest.map(|(begin, _)| Choice::Run(begin));
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
        // If nothing was weighed, all that is near is being transferred.
        best.map(|(_, choice)| choice).or(oldest.map(|(begin, _)| Choice::Run(begin)))
    }

    /// The request that has waited longest, since when, and what the arm does for it: one of the queue that is ready;
    /// or a flush, or a write that has found no room, for which the oldest run is written, if that is of use to it.
    /// (What a flush waits for may also be in the queue, with a write through the cache that took its place.)
    fn first(&self, oldest: Option<(u64, VirtualInstant)>) -> Option<(VirtualInstant, Choice)> {
        let ready = self.queue.iter().enumerate().find(|(_, queued)| queued.ready <= self.now);
        let ready = ready.map(|(at, queued)| (queued.came, Choice::Queued(at)));
        let run = oldest.and_then(|(begin, since)| {
            let flush = self.flushes.front().filter(|flush| since <= flush.taken).map(|flush| flush.came);
            let held = self.held.front().map(|(_, came)| *came);
            let came = flush.into_iter().chain(held).min()?;
            Some((came, Choice::Run(begin)))
        });
        ready.into_iter().chain(run).min_by_key(|(came, _)| *came)
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
        self.served = true;
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
            Some(owned) => Work::Write { owned, span: queued.span, completes: Some(queued.id) },
            None => Work::Read { id: queued.id, segment: queued.segment, end, bytes: queued.span.len() },
        };
        self.begin(queued.place, begins, queued.missing, end, work);
    }

    /// Writes a run of the cache.
    fn write_run(&mut self, begin: u64) {
        self.served = false;
        let (span, owned) = self.writing.take(begin, &mut self.ledger);
        self.reading.stop(self.now, &self.geometry, &self.platter);
        let first = begin / SECTOR;
        let place = self.geometry.locate(first);
        let begins = self.now + self.platter.positioning(self.now, &place, true);
        self.begin(place, begins, first, span.end / SECTOR, Work::Write { owned, span, completes: None });
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
