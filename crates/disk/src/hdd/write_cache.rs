//! Data that a drive has taken and not written yet, as runs of neighbouring bytes.

use std::collections::{BTreeMap, VecDeque};

use scale::VirtualInstant;

use super::geometry::{Geometry, Place};
use crate::ledger::Ledger;
use crate::request::{SECTOR, Span};

/// A run that has grown to this is not joined to the next one, so that a read never waits long: 1 MiB.
const LONGEST: u64 = 1 << 20;
/// So many runs before the arm, and as many behind it, are weighed against one another.
const NEAREST: usize = 8;

/// A part of a write that is in a run; it, or something that was written later in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub id: u64,
    pub part: Span,
    /// When its data has been transferred.
    pub taken: VirtualInstant,
}

#[derive(Debug)]
struct Run {
    end: u64,
    owners: Vec<Owner>,
    /// When the oldest of it came.
    since: VirtualInstant,
    /// Where it begins on the platters; none: nobody has asked.
    place: Option<Place>,
}

/// What is yet to be written, by where it begins.
#[derive(Debug, Default)]
pub(crate) struct WriteCache {
    runs: BTreeMap<u64, Run>,
    bytes: u64,
    /// Runs by their age, oldest first; those that are no longer so are skipped.
    ages: VecDeque<(VirtualInstant, u64)>,
}

impl WriteCache {
    /// How many bytes are to be written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Takes a write in; what it takes the place of becomes its own.
    pub fn insert(&mut self, owner: Owner, ledger: &mut Ledger) {
        let (span, mut since) = (owner.part, owner.taken);
        let (mut owners, oldest) = self.carve(span, ledger);
        if let Some(oldest) = oldest {
            since = since.min(oldest);
        }
        owners.push(owner);
        self.bytes += span.len();
        let (mut begin, mut end) = (span.begin, span.end);
        if let Some((left, run)) = self.runs.range(..begin).next_back()
            && run.end == begin
            && end - left <= LONGEST
        {
            begin = *left;
        }
        if let Some(right) = self.runs.get(&end)
            && right.end - begin <= LONGEST
        {
            let right = self.runs.remove(&end).expect("it was just found");
            end = right.end;
            since = since.min(right.since);
            owners.extend(right.owners);
        }
        if let Some(left) = self.runs.get_mut(&begin) {
            left.end = end;
            left.owners.append(&mut owners);
            if since < left.since {
                left.since = since;
                self.ages.push_front((since, begin));
            }
            return;
        }
        self.ages.push_back((since, begin));
        self.runs.insert(begin, Run { end, owners, since, place: None });
    }

    /// Takes out what lies in a range: what becomes of the writes there is up to who takes their place. Also since when
    /// the oldest of it has been there.
    pub fn carve(&mut self, span: Span, ledger: &mut Ledger) -> (Vec<Owner>, Option<VirtualInstant>) {
        let (mut carved, mut oldest) = (Vec::new(), None::<VirtualInstant>);
        while let Some((&begin, _)) = self.runs.range(..span.end).next_back().filter(|(_, run)| run.end > span.begin) {
            let run = self.runs.remove(&begin).expect("it was just found");
            let whole = Span { begin, end: run.end };
            self.bytes -= whole.common(&span).map_or(0, |both| both.len());
            oldest = Some(oldest.map_or(run.since, |o| o.min(run.since)));
            let before = Span { begin: whole.begin, end: span.begin.max(whole.begin) };
            let behind = Span { begin: span.end.min(whole.end), end: whole.end };
            let mut rest = [(before, Vec::new()), (behind, Vec::new())];
            for owner in run.owners {
                let inside = owner.part.common(&span).map(|part| Owner { part, ..owner });
                let mut pieces = u32::from(inside.is_some());
                carved.extend(inside);
                for (range, owners) in &mut rest {
                    if let Some(part) = owner.part.common(range) {
                        owners.push(Owner { part, ..owner });
                        pieces += 1;
                    }
                }
                if pieces > 1 {
                    ledger.split(owner.id, pieces - 1);
                }
            }
            for (range, owners) in rest {
                if !range.is_empty() {
                    self.ages.push_front((run.since, range.begin));
                    self.runs.insert(range.begin, Run { end: range.end, owners, since: run.since, place: None });
                }
            }
        }
        (carved, oldest)
    }

    /// Takes the run out that begins there, or as much of it as is written in one go.
    pub fn take(&mut self, begin: u64, ledger: &mut Ledger) -> (Span, Vec<Owner>) {
        let Some(run) = self.runs.get(&begin) else { return (Span { begin, end: begin }, Vec::new()) };
        let span = Span { begin, end: run.end.min(begin + LONGEST) };
        (span, self.carve(span, ledger).0)
    }

    /// Whether all of a range is there.
    pub fn covers(&self, span: Span) -> bool {
        let mut reached = span.begin;
        while reached < span.end {
            match self.runs.range(..=reached).next_back() {
                Some((_, run)) if run.end > reached => reached = run.end,
                _ => return false,
            }
        }
        true
    }

    /// Has the runs weighed that came by an instant: the nearest behind a place, and the nearest before it.
    pub fn weigh(&mut self, at: u64, by: VirtualInstant, geometry: &Geometry, mut weigh: impl FnMut(u64, &Place)) {
        let mut one = |(begin, run): (&u64, &mut Run)| {
            if run.since <= by {
                weigh(*begin, run.place.get_or_insert_with(|| geometry.locate(begin / SECTOR)));
            }
        };
        self.runs.range_mut(at..).take(NEAREST).for_each(&mut one);
        self.runs.range_mut(..at).rev().take(NEAREST).for_each(&mut one);
    }

    /// Whether a run begins there that came by an instant.
    pub fn begins_at(&self, at: u64, by: VirtualInstant) -> bool {
        self.runs.get(&at).is_some_and(|run| run.since <= by)
    }

    /// Where the oldest run begins, and since when it has been there.
    pub fn oldest(&mut self) -> Option<(u64, VirtualInstant)> {
        while let Some((since, begin)) = self.ages.front().copied() {
            if self.runs.get(&begin).is_some_and(|run| run.since == since) {
                return Some((begin, since));
            }
            self.ages.pop_front();
        }
        None
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = WriteCache::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use crate::parameters::Parameters;
    use crate::request::{Op, Request};

    fn at(ns: u64) -> VirtualInstant {
        VirtualInstant::from_nanos(ns)
    }

    /// A cache after writes of `(id, begin, end)`, the id being the instant as well.
    fn after(writes: &[(u64, u64, u64)]) -> (WriteCache, Ledger) {
        let (mut cache, mut ledger) = (WriteCache::default(), Ledger::default());
        for &(id, begin, end) in writes {
            ledger.open(&Request { id, op: Op::Write, offset: begin, length: end - begin });
            ledger.cache(id);
            cache.insert(Owner { id, part: Span { begin, end }, taken: at(id) }, &mut ledger);
        }
        (cache, ledger)
    }

    fn runs(cache: &WriteCache) -> Vec<(u64, u64)> {
        cache.runs.iter().map(|(begin, run)| (*begin, run.end)).collect()
    }

    #[test]
    fn neighbours_become_one_run_and_are_written_in_one_go() {
        let (mut cache, mut ledger) = after(&[(1, 0, 10), (3, 20, 30), (2, 10, 20), (4, 40, 50)]);
        assert_eq!((runs(&cache), cache.bytes()), (vec![(0, 30), (40, 50)], 40));
        assert_eq!(cache.oldest(), Some((0, at(1))));
        let (span, owners) = cache.take(0, &mut ledger);
        assert_eq!(span, Span { begin: 0, end: 30 });
        assert!(owners.iter().all(|owner| ledger.written(owner.id, owner.part)), "each is durable");
        assert_eq!((cache.bytes(), cache.oldest()), (10, Some((40, at(4)))));
    }

    #[test]
    fn what_was_written_over_is_durable_with_what_took_its_place() {
        let (mut cache, mut ledger) = after(&[(1, 0, 30), (2, 10, 20)]);
        assert_eq!((runs(&cache), cache.bytes()), (vec![(0, 30)], 30));
        let (_, owners) = cache.take(0, &mut ledger);
        let durable: Vec<u64> =
            owners.iter().filter(|owner| ledger.written(owner.id, owner.part)).map(|o| o.id).collect();
        assert_eq!(durable, [2, 1], "the first one has three parts");
        let (mut cache, mut ledger) = after(&[(1, 0, 30), (2, 10, 40)]);
        let (carved, since) = cache.carve(Span { begin: 25, end: 35 }, &mut ledger);
        assert_eq!((carved.len(), since), (2, Some(at(1))));
        assert_eq!((runs(&cache), cache.bytes()), (vec![(0, 25), (35, 40)], 30));
        assert!(!ledger.written(1, Span { begin: 0, end: 10 }));
    }

    #[test]
    fn a_range_is_covered_only_without_gaps() {
        let (cache, _) = after(&[(1, 0, 10), (2, 10, 20), (3, 30, 40)]);
        assert!(cache.covers(Span { begin: 5, end: 20 }));
        assert!(!cache.covers(Span { begin: 5, end: 35 }) && !cache.covers(Span { begin: 20, end: 30 }));
    }

    #[test]
    fn the_nearest_runs_come_first_and_those_in_transfer_not_at_all() {
        let (mut cache, _) = after(&[(1, 0, 512), (2, 5120, 5632), (3, 10_240, 10_752), (9, 20_480, 20_992)]);
        let Some(Parameters::Hdd(drive)) = catalogue::named("hdd-15k") else { panic!("it has platters") };
        let (geometry, mut weighed) = (Geometry::new(&drive), Vec::new());
        cache.weigh(7_000, at(5), &geometry, |begin, place| weighed.push((begin, place.sector)));
        assert_eq!(weighed, [(10_240, 20), (5120, 10), (0, 0)]);
    }
}
