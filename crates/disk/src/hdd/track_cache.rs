//! Memory of a drive of what it has read, and reading ahead.
//!
//! After a read the head stays where it is and reads on, until something else is to be done or a limit is reached. How
//! far it has come is a matter of how far the platter has turned, so nothing has to be done meanwhile.

use std::collections::VecDeque;

use scale::VirtualInstant;

use super::geometry::{Geometry, Place};
use super::parameters::TrackCache as Limits;
use super::platter::Platter;
use crate::request::SECTOR;

/// Runs of sectors that are in the cache. Sectors are counted from the beginning of the disk.
#[derive(Debug)]
pub(crate) struct TrackCache {
    limits: Limits,
    /// Ranges that were read, `(begin, end)`; the least recently used first.
    read: VecDeque<(u64, u64)>,
    /// Ranges that were written, likewise.
    written: VecDeque<(u64, u64)>,
    ahead: Option<ReadAhead>,
}

/// Reading on behind a read.
#[derive(Clone, Copy, Debug)]
struct ReadAhead {
    /// Where its segment begins.
    begin: u64,
    /// The sector that was next when it began, where that is, and when it passed the head.
    next: u64,
    place: Place,
    since: VirtualInstant,
    /// The sector at which it ends, and when.
    limit: u64,
    until: VirtualInstant,
}

/// How much of a read is in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// All of it.
    All,
    /// The range before the sector `missing`, which may be nothing, in a segment that begins at `begin`.
    Head { begin: u64, missing: u64 },
}

impl TrackCache {
    pub fn new(limits: Limits) -> TrackCache {
        TrackCache { limits, read: VecDeque::new(), written: VecDeque::new(), ahead: None }
    }

    /// The part of a read that is there now; what is used is what will be forgotten last.
    pub fn find(&mut self, begin: u64, end: u64, now: VirtualInstant, geometry: &Geometry, platter: &Platter) -> Found {
        if let Some(ahead) = self.ahead
            && ahead.begin <= begin
            && begin < ahead.limit
        {
            if end <= reached(&ahead, now, geometry, platter) {
                return Found::All;
            }
            return Found::Head { begin: ahead.begin, missing: begin };
        }
        if self.written.iter().any(|(b, e)| *b <= begin && end <= *e) {
            return Found::All;
        }
        let Some(at) = self.read.iter().rposition(|(b, e)| *b <= begin && begin < *e) else {
            return Found::Head { begin, missing: begin };
        };
        let segment = self.read.remove(at).expect("it was just found");
        self.read.push_back(segment);
        match end <= segment.1 {
            true => Found::All,
            false => Found::Head { begin: segment.0, missing: segment.1 },
        }
    }

    /// The first sector of a read that reading ahead has yet to come to, and when that passes the head; if it is on the
    /// way.
    pub fn on_the_way(
        &self,
        begin: u64,
        now: VirtualInstant,
        geometry: &Geometry,
        platter: &Platter,
    ) -> Option<(u64, VirtualInstant)> {
        let ahead = self.ahead.filter(|a| a.begin <= begin && begin < a.limit)?;
        let missing = begin.max(reached(&ahead, now, geometry, platter));
        let passes = ahead.since + platter.turns(geometry.sweep(&ahead.place, missing - ahead.next));
        Some((missing, passes.max(now)))
    }

    /// Begins to read ahead: `next` is the sector behind what was read, which the head is at.
    pub fn read_on(&mut self, begin: u64, next: u64, now: VirtualInstant, geometry: &Geometry, platter: &Platter) {
        if self.limits.segments == 0 {
            return;
        }
        let most = self.limits.segment_bytes / SECTOR;
        let limit = (next + self.limits.read_ahead_bytes / SECTOR).min(geometry.sectors());
        if limit <= next {
            return self.keep(begin.max(next.saturating_sub(most)), next);
        }
        let place = geometry.locate(next);
        let until = now + platter.turns(geometry.sweep(&place, limit - next));
        let begin = begin.max(limit.saturating_sub(most));
        self.ahead = Some(ReadAhead { begin, next, place, since: now, limit, until });
    }

    /// The sector that a head which reads ahead is at.
    pub fn head(&self, now: VirtualInstant, geometry: &Geometry, platter: &Platter) -> Option<u64> {
        let ahead = self.ahead?;
        Some(reached(&ahead, now, geometry, platter).min(geometry.sectors() - 1))
    }

    /// When reading ahead ends by itself.
    pub fn busy_until(&self) -> Option<VirtualInstant> {
        self.ahead.map(|a| a.until)
    }

    /// Ends reading ahead, and keeps what was read.
    pub fn stop(&mut self, now: VirtualInstant, geometry: &Geometry, platter: &Platter) {
        if let Some(ahead) = self.ahead.take() {
            self.keep(ahead.begin, reached(&ahead, now, geometry, platter));
        }
    }

    fn keep(&mut self, begin: u64, end: u64) {
        if begin < end {
            self.read.retain(|(b, e)| !(begin <= *b && *e <= end));
            self.read.push_back((begin, end));
            if self.read.len() > self.limits.segments as usize {
                self.read.pop_front();
            }
        }
    }

    /// Sectors are being written: segments that have any of them are cleared, as Seagate's manuals say it (*Exos X18
    /// SAS Product Manual*, section 4.4.1); what is written is known, the last of it that a segment holds.
    pub fn write(&mut self, begin: u64, end: u64) {
        let apart = |b: u64, e: u64| e <= begin || end <= b;
        self.read.retain(|(b, e)| apart(*b, *e));
        self.ahead.take_if(|ahead| !apart(ahead.begin, ahead.limit));
        let least = end.saturating_sub(self.limits.segment_bytes / SECTOR);
        match self.written.back_mut().filter(|(_, e)| *e == begin) {
            Some(last) => *last = (last.0.max(least), end),
            None => self.written.push_back((begin.max(least), end)),
        }
        if self.written.len() > self.limits.segments as usize {
            self.written.pop_front();
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.read.clear();
        self.written.clear();
        self.ahead = None;
    }
}

/// The sector at which the head is that reads ahead.
fn reached(ahead: &ReadAhead, now: VirtualInstant, geometry: &Geometry, platter: &Platter) -> u64 {
    let turns = platter.turns_in(now.since(ahead.since));
    ahead.next + geometry.passed(&ahead.place, turns, ahead.limit - ahead.next)
}
