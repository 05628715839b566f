//! The time that a disk takes on the harness.
//!
//! A model of a disk knows virtual time only. The harness serves its requests from a file, which takes real time of its
//! own, and that is part of what a request takes: it is answered after TDF × modelled − spent. Both are counted from
//! instants here and not from durations, so that nothing adds up over a queue.

use crate::{RealDuration, RealInstant, Tdf, VirtualDuration, VirtualInstant};

/// When the requests of a disk arrive on the target, and when they are to be answered on the harness.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskClock {
    zero: RealInstant,
    tdf: Tdf,
    spent: RealDuration,
    waking: RealDuration,
    /// How many times as long everything takes as the model says, and since when: in virtual time, and in the model's.
    factor: f64,
    since: VirtualInstant,
    model_since: VirtualInstant,
}

impl DiskClock {
    /// Of a run whose virtual zero was at `zero`. `spent` is the real time that each request is on its way between
    /// whoever asks and whoever serves it, there and back: it is answered so much earlier. `waking`, a part of that, is
    /// how long whoever answers usually takes to wake up: an answer after that time is none that is late.
    pub fn new(zero: RealInstant, tdf: Tdf, spent: RealDuration, waking: RealDuration) -> DiskClock {
        let none = VirtualInstant::ZERO;
        DiskClock { zero, tdf, spent, waking, factor: 1.0, since: none, model_since: none }
    }

    /// Starts with a model that has come to this instant of its own time by virtual zero.
    pub fn continuing(self, model: VirtualInstant) -> DiskClock {
        DiskClock { model_since: model, ..self }
    }

    /// The clock from a real instant on, where all takes `factor` times as long as the model says: its time passes so
    /// much more slowly.
    pub fn slowed(self, from: RealInstant, factor: f64) -> DiskClock {
        let since = self.passed(from + self.spent);
        DiskClock { factor, since, model_since: self.model(since), ..self }
    }

    /// When a request arrives that is met at a real instant, by the model's time.
    pub fn arrival(&self, met: RealInstant) -> VirtualInstant {
        self.model(self.passed(met))
    }

    /// The virtual time at an instant of the model's, which is the same unless the disk was slowed down.
    pub fn shown(&self, model: VirtualInstant) -> VirtualInstant {
        let passed = model.since(self.model_since);
        // Before that, it was the same, or some other time; nobody asks.
        if model <= self.model_since || self.factor == 1.0 {
            return self.since + passed - self.model_since.since(model);
        }
        // Rounded up, so that nothing is answered too early.
        self.since + VirtualDuration::from_nanos((passed.as_nanos() as f64 * self.factor).ceil() as u64)
    }

    fn passed(&self, real: RealInstant) -> VirtualInstant {
        VirtualInstant::ZERO + self.tdf.to_virtual(real.since(self.zero))
    }

    fn model(&self, at: VirtualInstant) -> VirtualInstant {
        let passed = at.since(self.since);
        match self.factor {
            1.0 => self.model_since + passed - self.since.since(at),
            factor => self.model_since + VirtualDuration::from_nanos((passed.as_nanos() as f64 / factor) as u64),
        }
    }

    /// When a request is to be answered that is complete at a virtual instant: as much before it as the answer and the
    /// request were on their way, so that whoever has asked sees what the model says.
    pub fn answer(&self, complete: VirtualInstant) -> RealInstant {
        self.complete(complete) - self.spent
    }

    /// The answers due by a real instant: all that is complete at the virtual instant that this gives.
    pub fn due(&self, now: RealInstant) -> VirtualInstant {
        self.arrival(now + self.spent)
    }

    /// How much sooner a request is to be answered that was asked for at an instant of the model's, and of which it was
    /// told as one of a later instant: as much, but no more than the way, for by more nothing is answered too early.
    /// And the rest, by which that is answered too late.
    pub fn early(&self, asked: VirtualInstant, told: VirtualInstant) -> (RealDuration, RealDuration) {
        let all = self.complete(told).since(self.complete(asked));
        let early = all.min(self.spent);
        (early, all.saturating_sub(early))
    }

    /// How long a request takes in real time that arrived at a virtual instant, and is complete at one of the model's.
    pub fn lasts(&self, arrived: VirtualInstant, complete: VirtualInstant) -> RealDuration {
        self.tdf.to_real(self.shown(complete).since(arrived))
    }

    /// How much later than it should a request was answered, in virtual time.
    pub fn late(&self, complete: VirtualInstant, answered: RealInstant) -> VirtualDuration {
        self.tdf.to_virtual(answered.since(self.answer(complete) + self.waking))
    }

    /// When whoever has asked knows, if answered in time, that a request is complete at an instant of the model's.
    pub fn complete(&self, at: VirtualInstant) -> RealInstant {
        self.zero + self.tdf.to_real(self.shown(at).since(VirtualInstant::ZERO))
    }
}

/// The times after which a file system's journal (ext4's) writes of its own accord: the kernel's, for a dilated run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalTimes {
    /// The longest that a transaction is left open, real s.
    pub commit_s: u64,
    /// The longest that a write waits for others to be made durable with it, real µs.
    pub batch_us: u64,
}

impl JournalTimes {
    /// Linux's default, in virtual time: 5 s and 15 ms.
    const COMMIT: VirtualDuration = VirtualDuration::from_nanos(5_000_000_000);
    const BATCH: VirtualDuration = VirtualDuration::from_nanos(15_000_000);
    /// The kernel keeps both in 32 bits, seconds as jiffies of up to 1000 a second.
    const MOST_S: u64 = 2_147_483;
    const MOST_US: u64 = 4_294_967_295;

    /// Of a run with this factor.
    pub fn at(tdf: Tdf) -> JournalTimes {
        JournalTimes {
            commit_s: (tdf.to_real(JournalTimes::COMMIT).as_nanos() / 1_000_000_000).min(JournalTimes::MOST_S),
            batch_us: (tdf.to_real(JournalTimes::BATCH).as_nanos() / 1_000).min(JournalTimes::MOST_US),
        }
    }
}

/// How long the kernel of a dilated run's machine has to leave alone what programs have in its page cache, before it
/// writes it back or takes it away, if it `usually` does so long: that is the target's kernel's time, virtual.
pub fn page_cache_time(tdf: Tdf, usually: RealDuration) -> RealDuration {
    let on_target = VirtualDuration::from_nanos(usually.as_nanos());
    // As with the journal's: more is for ever.
    tdf.to_real(on_target).min(RealDuration::from_nanos(JournalTimes::MOST_S * 1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: RealInstant = RealInstant::from_nanos(1_000_000);
    const NONE: RealDuration = RealDuration::ZERO;

    fn real(us: u64) -> RealInstant {
        ZERO + RealDuration::from_nanos(us * 1_000)
    }

    fn virtually(us: u64) -> VirtualInstant {
        VirtualInstant::from_nanos(us * 1_000)
    }

    #[test]
    fn what_a_request_took_on_its_way_is_subtracted_and_the_rest_multiplied() {
        let clock = DiskClock::new(ZERO, Tdf::new(10, 1).unwrap(), RealDuration::from_nanos(130_000), NONE);
        // Asked for at 5 ms, met at 5.065: it takes 8 ms of the target's time.
        let arrived = clock.arrival(real(5_065));
        assert_eq!(arrived, VirtualInstant::from_nanos(506_500));
        let complete = arrived + VirtualDuration::from_nanos(8_000_000);
        assert_eq!(clock.answer(complete), real(5_065 + 80_000 - 130));
        assert_eq!(clock.late(complete, real(5_065 + 80_000 - 130)), VirtualDuration::ZERO);
        assert_eq!(clock.late(complete, real(5_065 + 80_000)), VirtualDuration::from_nanos(13_000));
        let sleepy = DiskClock { waking: RealDuration::from_nanos(30_000), ..clock };
        assert_eq!(sleepy.answer(complete), clock.answer(complete));
        assert_eq!(sleepy.late(complete, real(5_065 + 80_000)), VirtualDuration::from_nanos(10_000));
        assert_eq!(sleepy.late(complete, real(5_065 + 80_000 - 110)), VirtualDuration::ZERO);
    }

    #[test]
    fn what_is_to_be_answered_is_due_then_and_not_before() {
        for (tdf, spent) in [("1", 0), ("1.5", 77), ("3.7", 130_000), ("100", 129_999)] {
            let clock = DiskClock::new(ZERO, tdf.parse().unwrap(), RealDuration::from_nanos(spent), NONE);
            for ns in [1_000_000, 1_234_567, 987_654_321] {
                let complete = VirtualInstant::from_nanos(ns);
                let at = clock.answer(complete);
                assert!(clock.due(at) >= complete, "{tdf} {ns}");
                assert!(clock.due(at - RealDuration::from_nanos(200)) < complete, "{tdf} {ns}");
            }
        }
    }

    #[test]
    fn a_model_that_has_lived_before_goes_on_where_it_was() {
        let clock = DiskClock::new(ZERO, Tdf::new(10, 1).unwrap(), NONE, NONE).continuing(virtually(7_000));
        assert_eq!(clock.arrival(real(20_000)), virtually(9_000));
        assert_eq!(clock.shown(virtually(9_000)), virtually(2_000));
        assert_eq!(clock.answer(virtually(10_000)), real(30_000));
    }

    #[test]
    fn a_slow_disk_lives_in_slower_time() {
        let ten = DiskClock::new(ZERO, Tdf::new(10, 1).unwrap(), NONE, NONE);
        let slow = ten.slowed(real(50_000), 4.0);
        // At 5 virtual ms it became slow: what comes 1 ms after that, and takes 2 ms, is done 8 ms later.
        let arrived = slow.arrival(real(60_000));
        assert_eq!(arrived, virtually(5_250));
        assert_eq!(slow.shown(arrived), virtually(6_000));
        assert_eq!(slow.answer(arrived + VirtualDuration::from_nanos(2_000_000)), real(140_000));
        // As fast as before again, from 14 ms on: nothing jumps.
        let again = slow.slowed(real(140_000), 1.0);
        assert_eq!(again.arrival(real(140_000)), virtually(7_250));
        assert_eq!(again.answer(virtually(8_250)), real(150_000));
    }

    #[test]
    fn before_zero_nothing_has_passed() {
        let clock = DiskClock::new(ZERO, Tdf::ONE, NONE, NONE);
        assert_eq!(clock.arrival(RealInstant::ZERO), VirtualInstant::ZERO);
        assert_eq!(clock.arrival(real(7)), virtually(7));
    }

    #[test]
    fn the_kernel_keeps_what_is_written_for_as_long_as_the_targets() {
        let s = |s: u64| RealDuration::from_nanos(s * 1_000_000_000);
        assert_eq!(page_cache_time(Tdf::ONE, s(30)), s(30));
        assert_eq!(page_cache_time("2.5".parse().unwrap(), s(30)), s(75));
        assert_eq!(page_cache_time(Tdf::new(Tdf::MAX, 1).unwrap(), s(30)), s(2_147_483));
        assert_eq!(page_cache_time(Tdf::new(10, 1).unwrap(), s(0)), s(0), "never");
    }

    #[test]
    fn the_journal_waits_as_long_as_the_targets() {
        assert_eq!(JournalTimes::at(Tdf::ONE), JournalTimes { commit_s: 5, batch_us: 15_000 });
        let ten = JournalTimes::at("1.5".parse().unwrap());
        assert_eq!(ten, JournalTimes { commit_s: 7, batch_us: 22_500 });
        let most = JournalTimes::at(Tdf::new(Tdf::MAX, 1).unwrap());
        assert_eq!(most, JournalTimes { commit_s: 500_000, batch_us: 1_500_000_000 });
    }
}
