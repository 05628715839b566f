//! How far the way to a device has drifted from what was measured before the run. Pure.
//!
//! The way changes: with the core on which the kernel's threads happen to be, with what is in the processors' caches,
//! with how long everybody has waited. The kernel counts for each device how many requests of each kind it had and how
//! long these took (`Documentation/block/stat.rst`), so what they took too long is known, in the mean.

use disk::Op;
use scale::RealDuration;

/// The kinds of requests that the kernel counts apart and somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes.
    Flush,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Read, Kind::Write, Kind::Flush];

    /// As which a request counts; none if nobody waits for one.
    pub fn of(op: Op) -> Option<Kind> {
        match op {
            Op::Read => Some(Kind::Read),
            Op::Write | Op::WriteThrough => Some(Kind::Write),
            Op::Flush => Some(Kind::Flush),
            Op::Trim => None,
        }
    }
}

/// Requests of one kind so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// How long they took together.
    pub took: RealDuration,
    /// Of how many bytes they were.
    pub bytes: u64,
}

impl Sum {
    fn less(self, before: Sum) -> Sum {
        Sum {
            count: self.count.saturating_sub(before.count),
            took: self.took.saturating_sub(before.took),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }
}

/// Requests of each kind so far, in the order of [`Kind`].
pub type Sums = [Sum; 3];

fn each_less(now: &Sums, before: &Sums) -> Sums {
    Kind::ALL.map(|kind| now[kind as usize].less(before[kind as usize]))
}

/// Counts of both since an instant: the kernel, whose counts may be those of one instant and `own` of the same.
///
/// Some kernels also count a flush as a write: those are taken out.
pub fn since(before: &Sums, now: &Sums, own_writes: u64) -> Sums {
    let mut since = each_less(now, before);
    let [_, write, flush] = &mut since;
    if flush.count > 0 && write.count == own_writes + flush.count {
        *write = write.less(*flush);
    }
    since
}

/// Knowledge of the way to one device.
#[derive(Clone, Debug)]
pub struct Drift {
    /// The time that the kernel does not count: before it begins a request, and until who has asked knows that it
    /// ended.
    outside: RealDuration,
    /// First counts of both.
    first: Both,
    /// And since then, when this last told something.
    told: Both,
}

/// Counts of the same requests.
#[derive(Clone, Copy, Debug, Default)]
struct Both {
    kernels: Sums,
    own: Sums,
}

impl Both {
    /// Whether there were as many requests of a kind.
    fn agrees(&self, kind: Kind) -> bool {
        self.kernels[kind as usize].count == self.own[kind as usize].count
    }

    /// Takes another's counts of a kind.
    fn set(&mut self, kind: Kind, to: &Both) {
        let place = kind as usize;
        (self.kernels[place], self.own[place]) = (to.kernels[place], to.own[place]);
    }
}

/// A change of the way of one kind of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Of which kind.
    pub kind: Kind,
    /// How much longer it is, ns.
    pub longer_ns: i64,
}

impl Drift {
    /// So many requests say something: the kernel counts in whole ms, and those under way are not all alike.
    const ENOUGH: u64 = 64;
    /// Of longer ones, in the mean, nothing is learnt: they are on their way for longer by what they carry.
    const LONG: u64 = 64 << 10;
    /// A part of what they took too long is taken over, as the next ones may be others.
    const PART: i64 = 2;

    /// Of a device, when nothing is under way.
    pub fn new(outside: RealDuration, kernels: Sums, own: Sums) -> Drift {
        Drift { outside, first: Both { kernels, own }, told: Both::default() }
    }

    fn since_first(&self, kernels: &Sums, own: &Sums) -> Both {
        let own = each_less(own, &self.first.own);
        Both { kernels: since(&self.first.kernels, kernels, own[Kind::Write as usize].count), own }
    }

    /// Whether there were so many requests of a kind that the kernel is to be asked.
    pub fn wants(&self, own: &Sums) -> bool {
        let untold = each_less(&each_less(own, &self.first.own), &self.told.own);
        untold.iter().any(|sum| sum.count >= Drift::ENOUGH)
    }

    /// Begins anew with those kinds of which they have not counted as many, when nothing is under way: the kernel has
    /// made two requests of one or one of two, or the power was cut.
    pub fn reconcile(&mut self, kernels: &Sums, own: &Sums) {
        let since = self.since_first(kernels, own);
        let [read, write, flush] = Kind::ALL.map(|kind| !since.agrees(kind));
        // Whether flushes are among the writes is told by both.
        for (kind, anew) in Kind::ALL.into_iter().zip([read, write || flush, write || flush]) {
            if anew {
                self.first.set(kind, &Both { kernels: *kernels, own: *own });
                self.told.set(kind, &Both::default());
            }
        }
    }

    /// How the way is to change, by what the kernel counted and what the requests that were answered should have taken,
    /// both at one instant.
    pub fn follow(&mut self, kernels: &Sums, own: &Sums) -> Vec<Change> {
        let since = self.since_first(kernels, own);
        let of = |kind: Kind| {
            let place = kind as usize;
            let seen = since.kernels[place].less(self.told.kernels[place]);
            let asked = since.own[place].less(self.told.own[place]);
            // Others, where the kernel has made two of one; and not now, where one is on its way.
            if asked.count < Drift::ENOUGH || !since.agrees(kind) {
                return None;
            }
            self.told.set(kind, &since);
            if asked.bytes > Drift::LONG * asked.count {
                return None;
            }
            let outside = self.outside.as_nanos() * asked.count;
            let too_long = seen.took.as_nanos() as i64 + outside as i64 - asked.took.as_nanos() as i64;
            Some(Change { kind, longer_ns: too_long / asked.count as i64 / Drift::PART })
        };
        Kind::ALL.into_iter().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(count: u64, us: u64) -> Sum {
        Sum { count, took: RealDuration::from_nanos(us * 1_000), bytes: count * 4_096 }
    }

    #[test]
    fn half_of_what_requests_took_too_long_is_taken_over() {
        let outside = RealDuration::from_nanos(6_000);
        let mut drift = Drift::new(outside, [sum(40, 9_000); 3], [sum(0, 0); 3]);
        // 200 reads of 300 us by the model, which were seen after 310.
        let kernels = [sum(240, 9_000 + 200 * 304), sum(103, 90_000), sum(45, 10_000)];
        let own = [sum(200, 200 * 300), sum(63, 70_000), sum(5, 1_000)];
        assert!(drift.wants(&own));
        assert_eq!(drift.follow(&kernels, &own), [Change { kind: Kind::Read, longer_ns: 5_000 }]);
        assert!(!drift.wants(&own));
        assert_eq!(drift.follow(&kernels, &own), [], "nothing is new");
        // Writes that took less than they should, and flushes of which one is on its way.
        let kernels = [kernels[0], sum(40 + 200, 9_000 + 200 * 90), sum(40 + 199, 9_000)];
        let own = [own[0], sum(200, 200 * 100), sum(200, 9_000)];
        assert_eq!(drift.follow(&kernels, &own), [Change { kind: Kind::Write, longer_ns: -2_000 }]);
        // Long reads.
        let more = |sum: Sum| Sum { count: sum.count + 100, bytes: sum.bytes + (100 << 20), ..sum };
        let (kernels, own) = ([more(kernels[0]), kernels[1], sum(45, 0)], [more(own[0]), own[1], sum(5, 0)]);
        assert_eq!((drift.follow(&kernels, &own), drift.wants(&own)), (vec![], false));
    }

    #[test]
    fn what_they_do_not_agree_on_begins_anew_and_nothing_else() {
        let mut drift = Drift::new(RealDuration::ZERO, Sums::default(), Sums::default());
        let kernels = [sum(30, 3_000), sum(90, 9_000), sum(0, 0)];
        let own = [sum(30, 3_000), sum(80, 8_000), sum(0, 0)];
        assert_eq!(drift.follow(&kernels, &own), [], "ten writes more than were met");
        drift.reconcile(&kernels, &own);
        let kernels = [sum(64, 6_528), sum(154, 9_000 + 6_528), sum(0, 0)];
        let own = [sum(64, 6_400), sum(144, 8_000 + 6_400), sum(0, 0)];
        let changes = [Kind::Read, Kind::Write].map(|kind| Change { kind, longer_ns: 1_000 });
        assert_eq!(drift.follow(&kernels, &own), changes);
    }

    #[test]
    fn a_flush_may_count_as_a_write_as_well() {
        let now = [sum(7, 70), sum(30, 3_000), sum(20, 2_000)];
        assert_eq!(since(&Sums::default(), &now, 10), [sum(7, 70), sum(10, 1_000), sum(20, 2_000)]);
        assert_eq!(since(&Sums::default(), &now, 30), now);
        assert_eq!(since(&Sums::default(), &now, 17), now, "neither; nothing is known");
    }
}
