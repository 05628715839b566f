//! Data that a drive has taken and not written yet, as runs of neighbouring bytes.

use std::collections::{BTreeMap, BTreeSet};

use scale::VirtualInstant;

use super::geometry::{Geometry, Place};
use crate::ledger::Ledger;
use crate::request::{SECTOR, Span};

/// A run that has grown to this is not joined to the next one, so that a read never waits long: 1 MiB.
const LONGEST: u64 = 1 << 20;
/// So many runs before the arm, and as many behind it, are weighed against one another.
const NEAREST: usize = 8;

/// A part of a run, and the writes whose data it is, or whose data it took the place of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub part: Span,
    pub by: Vec<Owner>,
}

/// A write that owns a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub id: u64,
    /// When its data has been transferred.
    pub taken: VirtualInstant,
}

#[derive(Debug)]
struct Extent {
    end: u64,
    /// No part twice: a place that is written over and over costs no more each time.
    owned: Vec<Owned>,
    /// When the oldest of it came.
    since: VirtualInstant,
    /// Where it begins on the platters; none: nobody has asked.
    place: Option<Place>,
}

/// Ranges yet to be written, by where they begin.
#[derive(Debug, Default)]
pub(crate) struct WriteCache {
    runs: BTreeMap<u64, Extent>,
    bytes: u64,
    /// Since when each run has been there, and where it begins.
    ages: BTreeSet<(VirtualInstant, u64)>,
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
    pub fn insert(&mut self, owner: Owner, part: Span, ledger: &mut Ledger) {
        let (mut owned, oldest) = self.carve(part, ledger);
        let mut since = oldest.map_or(owner.taken, |oldest| oldest.min(owner.taken));
        owned.push(Owned { part, by: vec![owner] });
        gather(&mut owned);
        self.bytes += part.len();
        let (mut begin, mut end) = (part.begin, part.end);
        if let Some((left, run)) = self.runs.range(..begin).next_back()
            && run.end == begin
            && end - left <= LONGEST
        {
            begin = *left;
        }
        if let Some(right) = self.runs.get(&end)
            && right.end - begin <= LONGEST
            && let Some(mut right) = self.remove(end)
        {
            end = right.end;
            since = since.min(right.since);
            owned.append(&mut right.owned);
        }
        match self.runs.get_mut(&begin) {
            Some(left) => {
                left.end = end;
                left.owned.append(&mut owned);
                if since < left.since {
                    self.ages.remove(&(left.since, begin));
                    self.ages.insert((since, begin));
                    left.since = since;
                }
            }
            None => self.put(begin, Extent { end, owned, since, place: None }),
        }
    }

    fn put(&mut self, begin: u64, run: Extent) {
        self.ages.insert((run.since, begin));
        self.runs.insert(begin, run);
    }

    fn remove(&mut self, begin: u64) -> Option<Extent> {
        let run = self.runs.remove(&begin)?;
        self.ages.remove(&(run.since, begin));
        Some(run)
    }

    /// Takes out what lies in a range: what becomes of the writes there is up to who takes their place. Also since when
    /// the oldest of it has been there.
    pub fn carve(&mut self, span: Span, ledger: &mut Ledger) -> (Vec<Owned>, Option<VirtualInstant>) {
        let (mut carved, mut oldest) = (Vec::new(), None::<VirtualInstant>);
        while let Some((&begin, _)) = self.runs.range(..span.end).next_back().filter(|(_, run)| run.end > span.begin)
            && let Some(run) = self.remove(begin)
        {
            let whole = Span { begin, end: run.end };
            self.bytes -= whole.common(&span).map_or(0, |both| both.len());
            oldest = Some(oldest.map_or(run.since, |o| o.min(run.since)));
            let before = Span { begin: whole.begin, end: span.begin.max(whole.begin) };
            let behind = Span { begin: span.end.min(whole.end), end: whole.end };
            let [mut inside, mut left, mut right] = [Vec::new(), Vec::new(), Vec::new()];
            for owned in run.owned {
                let parts = [span, before, behind].map(|range| owned.part.common(&range));
                let pieces = parts.iter().flatten().count() as u32;
                if pieces > 1 {
                    owned.by.iter().for_each(|owner| ledger.split(owner.id, pieces - 1));
                }
                let (mut by, mut to_come) = (owned.by, pieces);
                for (part, owned) in parts.into_iter().zip([&mut inside, &mut left, &mut right]) {
                    if let Some(part) = part {
                        to_come -= 1;
                        let by = if to_come == 0 { std::mem::take(&mut by) } else { by.clone() };
                        owned.push(Owned { part, by });
                    }
                }
            }
            carved.append(&mut inside);
            for (range, mut owned) in [(before, left), (behind, right)] {
                if !range.is_empty() {
                    gather(&mut owned);
                    self.put(range.begin, Extent { end: range.end, owned, since: run.since, place: None });
                }
            }
        }
        (carved, oldest)
    }

    /// Takes the run out that begins there, or as much of it as is written in one go.
    pub fn take(&mut self, begin: u64, ledger: &mut Ledger) -> (Span, Vec<Owned>) {
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
        let mut one = |(begin, run): (&u64, &mut Extent)| {
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
    pub fn oldest(&self) -> Option<(u64, VirtualInstant)> {
        self.ages.first().map(|(since, begin)| (*begin, *since))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = WriteCache::default();
    }
}

/// Puts the owners of the same part together.
fn gather(owned: &mut Vec<Owned>) {
    if owned.len() > 1 {
        owned.sort_by_key(|o| o.part);
        owned.dedup_by(|again, first| {
            let same = again.part == first.part;
            if same {
                first.by.append(&mut again.by);
            }
            same
        });
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
            cache.insert(Owner { id, taken: at(id) }, Span { begin, end }, &mut ledger);
        }
        (cache, ledger)
    }

    fn runs(cache: &WriteCache) -> Vec<(u64, u64)> {
        cache.runs.iter().map(|(begin, run)| (*begin, run.end)).collect()
    }

    /// The writes that are durable when parts have been written, in the order in which they are.
    fn durable(parts: &[Owned], ledger: &mut Ledger) -> Vec<u64> {
        let each = parts.iter().flat_map(|owned| owned.by.iter().map(|owner| (owner.id, owned.part)));
        each.filter(|(id, part)| ledger.written(*id, *part)).map(|(id, _)| id).collect()
    }

    #[test]
    fn neighbours_become_one_run_and_are_written_in_one_go() {
        let (mut cache, mut ledger) = after(&[(1, 0, 10), (3, 20, 30), (2, 10, 20), (4, 40, 50)]);
        assert_eq!((runs(&cache), cache.bytes()), (vec![(0, 30), (40, 50)], 40));
        assert_eq!(cache.oldest(), Some((0, at(1))));
        let (span, parts) = cache.take(0, &mut ledger);
        assert_eq!(span, Span { begin: 0, end: 30 });
        assert_eq!(durable(&parts, &mut ledger), [1, 2, 3], "each is durable");
        assert_eq!((cache.bytes(), cache.oldest()), (10, Some((40, at(4)))));
    }

    #[test]
    fn what_was_written_over_is_durable_with_what_took_its_place() {
        let (mut cache, mut ledger) = after(&[(1, 0, 30), (2, 10, 20)]);
        assert_eq!((runs(&cache), cache.bytes()), (vec![(0, 30)], 30));
        let (_, parts) = cache.take(0, &mut ledger);
        assert_eq!(durable(&parts, &mut ledger), [2, 1], "the first one has three parts");
        let (mut cache, mut ledger) = after(&[(1, 0, 30), (2, 10, 40)]);
        let (carved, since) = cache.carve(Span { begin: 25, end: 35 }, &mut ledger);
        assert_eq!((carved.len(), since), (2, Some(at(1))));
        assert_eq!((runs(&cache), cache.bytes()), (vec![(0, 25), (35, 40)], 30));
        assert!(!ledger.written(1, Span { begin: 0, end: 10 }));
    }

    #[test]
    fn what_is_written_over_and_over_has_no_more_parts_each_time() {
        // Two places that overlap, in turn.
        let writes: Vec<(u64, u64, u64)> = (1..=1_000).map(|id| (id, 4 * (id % 2), 4 * (id % 2) + 8)).collect();
        let (mut cache, mut ledger) = after(&writes);
        assert_eq!((runs(&cache), cache.bytes(), cache.oldest()), (vec![(0, 12)], 12, Some((0, at(1)))));
        let (_, parts) = cache.take(0, &mut ledger);
        assert!(parts.len() <= 5, "{} parts", parts.len());
        let mut all = durable(&parts, &mut ledger);
        all.sort_unstable();
        assert_eq!(all, (1..=1_000).collect::<Vec<u64>>());
    }

    #[test]
    fn the_oldest_run_is_known_whatever_was_cut_out_of_others() {
        let (mut cache, mut ledger) = after(&[(1, 0, 10), (2, 20, 30), (3, 40, 50)]);
        // The rest of the youngest is no older for that.
        cache.carve(Span { begin: 42, end: 44 }, &mut ledger);
        assert_eq!((runs(&cache).len(), cache.oldest()), (4, Some((0, at(1)))));
        cache.take(0, &mut ledger);
        assert_eq!(cache.oldest(), Some((20, at(2))));
        cache.take(20, &mut ledger);
        assert_eq!(cache.oldest(), Some((40, at(3))));
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
