//! How fast the nodes' core was, virtual second by virtual second.

use scale::VirtualInstant;

use crate::counters::CoreWork;

/// A second may be this much shorter, and a rest this short is left out.
const LEAST_SECOND: f64 = 0.95;
/// Likewise, where it is all there is.
const LEAST_RUN: f64 = 0.05;

/// The core in one virtual second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedSecond {
    /// When it began.
    pub from: VirtualInstant,
    /// When it ended.
    pub to: VirtualInstant,
    /// The yardstick's work per real microsecond; `None` where nothing was undisturbed enough to tell.
    pub units_per_us: Option<f64>,
    /// The right of a node with all of the core, as a multiple of the time.
    pub k: f64,
    /// The part of the second, 0 to 1, in which it was entitled to less than the core's speed asked for.
    pub capped: f64,
}

/// Follows the work of the nodes' core.
#[derive(Clone, Debug, Default)]
pub struct SpeedSeries {
    first: Option<CoreWork>,
    second: Option<(VirtualInstant, CoreWork)>,
    last: Option<(VirtualInstant, CoreWork)>,
    seconds: Vec<SpeedSecond>,
}

/// The verdict of a whole run on the speed of its nodes' core.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeedRecord {
    /// Work per microsecond on average; `None` if it was never known.
    pub units_per_us: Option<f64>,
    /// The right of nodes, as a multiple of the time.
    pub owed: f64,
    /// The part that they lacked because all of the core was sold, per cent of what they were entitled to.
    pub lacked_percent: f64,
    /// The part of the time in which they did, 0 to 1.
    pub capped: f64,
    /// Second by second.
    pub seconds: Vec<SpeedSecond>,
}

impl SpeedSeries {
    /// At `at` the core had done this much.
    pub fn push(&mut self, at: VirtualInstant, work: CoreWork) {
        self.first.get_or_insert(work);
        let (from, _) = *self.second.get_or_insert((at, work));
        self.last = Some((at, work));
        if at.since(from).as_secs_f64() >= LEAST_SECOND {
            self.end_second();
        }
    }

    fn end_second(&mut self) {
        let (Some((from, before)), Some((to, after))) = (self.second, self.last) else { return };
        let passed = after.at.since(before.at).as_nanos() as f64;
        if passed > 0.0 {
            self.seconds.push(SpeedSecond {
                from,
                to,
                units_per_us: speed(&before, &after),
                k: after.owed_ns.saturating_sub(before.owed_ns) as f64 / passed,
                capped: (after.capped_ns.saturating_sub(before.capped_ns) as f64 / passed).min(1.0),
            });
        }
        self.second = self.last;
    }

    /// The speed over the whole run; `None` if it was not followed.
    pub fn finish(mut self) -> Option<SpeedRecord> {
        let ((from, _), (to, _)) = (self.second?, self.last?);
        let least = if self.seconds.is_empty() { LEAST_RUN } else { LEAST_SECOND / 2.0 };
        if to.since(from).as_secs_f64() >= least {
            self.end_second();
        }
        let (first, (_, last)) = (self.first?, self.last?);
        let passed = last.at.since(first.at).as_nanos() as f64;
        if passed <= 0.0 {
            return None;
        }
        let owed = last.owed_ns.saturating_sub(first.owed_ns) as f64;
        let wanted = last.wanted_ns.saturating_sub(first.wanted_ns) as f64;
        Some(SpeedRecord {
            units_per_us: speed(&first, &last),
            owed: owed / passed,
            lacked_percent: if owed > 0.0 { (100.0 * (wanted / owed - 1.0)).max(0.0) } else { 0.0 },
            capped: (last.capped_ns.saturating_sub(first.capped_ns) as f64 / passed).min(1.0),
            seconds: self.seconds,
        })
    }
}

fn speed(before: &CoreWork, after: &CoreWork) -> Option<f64> {
    let metered = after.metered_ns.saturating_sub(before.metered_ns) as f64 / 1e3;
    let units = after.units.saturating_sub(before.units) as f64;
    (metered > 0.0 && units > 0.0).then(|| units / metered)
}

impl SpeedRecord {
    /// By how many per cent the yardstick took longer than at the speed `reference`, on average over the time in which
    /// that is known; negative where it took less.
    pub fn slower_percent(&self, reference: f64) -> Option<f64> {
        let (mut sum, mut time) = (0.0, 0.0);
        for second in &self.seconds {
            let Some(speed) = second.units_per_us else { continue };
            let length = second.to.since(second.from).as_secs_f64();
            sum += length * (reference / speed - 1.0);
            time += length;
        }
        (time > 0.0).then(|| 100.0 * sum / time)
    }

    /// The slowest second whose speed is known.
    pub fn slowest(&self) -> Option<(&SpeedSecond, f64)> {
        let known = self.seconds.iter().filter_map(|s| Some((s, s.units_per_us?)));
        known.min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

#[cfg(test)]
mod tests {
    use scale::RealInstant;

    use super::*;

    /// After each of these stretches of ten real seconds, one virtual one: the core's speed, what nodes were owed and
    /// what they would have been owed, as multiples of the time.
    fn pushed(stretches: &[(f64, f64, f64)]) -> Option<SpeedRecord> {
        const STRETCH: u64 = 10_000_000_000;
        let mut series = SpeedSeries::default();
        let mut work = CoreWork { at: RealInstant::from_nanos(77), metered_ns: 5, units: 9, ..CoreWork::default() };
        series.push(VirtualInstant::ZERO, work);
        for (index, (speed, owed, wanted)) in (1u64..).zip(stretches) {
            work.at = RealInstant::from_nanos(77 + index * STRETCH);
            work.metered_ns += STRETCH / 2;
            work.units += (speed * STRETCH as f64 / 2e3) as u64;
            work.owed_ns += (owed * STRETCH as f64) as u64;
            work.wanted_ns += (wanted * STRETCH as f64) as u64;
            work.capped_ns += if wanted > owed { STRETCH } else { 0 };
            series.push(VirtualInstant::from_nanos(index * STRETCH / 10), work);
        }
        series.finish()
    }

    #[test]
    fn a_second_has_its_speed_and_the_run_its_average() {
        let record = pushed(&[(1000.0, 1.0, 1.0), (500.0, 1.6, 1.8), (1000.0, 1.0, 1.0)]).unwrap();
        let of: Vec<_> = record.seconds.iter().map(|s| (s.units_per_us.unwrap().round(), s.k, s.capped)).collect();
        assert_eq!(of, [(1000.0, 1.0, 0.0), (500.0, 1.6, 1.0), (1000.0, 1.0, 0.0)]);
        assert!((record.units_per_us.unwrap() - 833.3).abs() < 0.1);
        assert!((record.slower_percent(1000.0).unwrap() - 100.0 / 3.0).abs() < 1e-3, "each second counts alike");
        assert!((record.owed - 1.2).abs() < 1e-6 && (record.lacked_percent - 100.0 * 0.2 / 3.6).abs() < 1e-3);
        assert!((record.capped - 1.0 / 3.0).abs() < 1e-6);
        assert_eq!(record.slowest().map(|(s, speed)| (s.from.as_secs_f64(), speed.round())), Some((1.0, 500.0)));
    }

    #[test]
    fn nothing_metered_is_no_speed_and_a_short_run_is_one_second() {
        assert_eq!(SpeedSeries::default().finish(), None);
        assert_eq!(pushed(&[]), None, "one reading has no growth");
        let unknown = pushed(&[(0.0, 1.0, 1.0)]).unwrap();
        assert_eq!((unknown.units_per_us, unknown.slower_percent(1000.0)), (None, None));
        let mut short = SpeedSeries::default();
        short.push(VirtualInstant::ZERO, CoreWork::default());
        let work = CoreWork {
            at: RealInstant::from_nanos(1_000_000_000),
            metered_ns: 1_000_000,
            units: 900_000,
            ..Default::default()
        };
        short.push(VirtualInstant::from_nanos(100_000_000), work);
        assert_eq!(short.finish().unwrap().seconds.len(), 1);
    }
}
