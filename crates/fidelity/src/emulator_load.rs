//! How busy the emulator's thread was, and whether it had more to do than one thread can: the cause to be named where
//! frames were late or lost.

use scale::{RealDuration, RealInstant, VirtualInstant};

use crate::wording::number;

/// A thread that used this much of its core, per cent, may have been too slow; below, something else was the matter. It
/// leaves a fifteenth to others in any case.
pub const BUSY: f64 = 80.0;
/// A shorter interval tells little.
const SHORTEST: RealDuration = RealDuration::from_nanos(100_000_000);

/// The work of the emulator's thread in an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadInterval {
    /// When the interval began.
    pub from: VirtualInstant,
    /// When it ended.
    pub to: VirtualInstant,
    /// The CPU time that the thread used for frames, per cent of the interval.
    pub cpu_percent: f64,
    /// Frames delivered per real second.
    pub frames_per_real_s: f64,
}

/// The work of the emulator's thread since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmulatorCounters {
    /// Its CPU time.
    pub cpu: RealDuration,
    /// Of that, the time in which it was awake and had nothing to do: it does not sleep shortly before a frame is due,
    /// so 27,000 frames a second, each due at an instant of its own, keep it awake for 80 % of the time.
    pub spun: RealDuration,
    /// Frames that it delivered.
    pub frames: u64,
}

/// Follows how much of its core the emulator needs, interval by interval.
#[derive(Clone, Debug, Default)]
pub struct EmulatorLoad {
    last: Option<(RealInstant, VirtualInstant, EmulatorCounters)>,
    intervals: Vec<LoadInterval>,
}

impl EmulatorLoad {
    /// At `real`, which is `at` in virtual time, the thread had done this much.
    pub fn push(&mut self, real: RealInstant, at: VirtualInstant, counters: EmulatorCounters) {
        let Some((real_before, from, before)) = self.last else {
            self.last = Some((real, at, counters));
            return;
        };
        let length = real.since(real_before);
        if length < SHORTEST {
            return;
        }
        self.last = Some((real, at, counters));
        let used = counters.cpu.saturating_sub(before.cpu).saturating_sub(counters.spun.saturating_sub(before.spun));
        self.intervals.push(LoadInterval {
            from,
            to: at,
            cpu_percent: 100.0 * used.as_secs_f64() / length.as_secs_f64(),
            frames_per_real_s: counters.frames.saturating_sub(before.frames) as f64 / length.as_secs_f64(),
        });
    }

    /// The intervals, in the order of time.
    pub fn intervals(self) -> Vec<LoadInterval> {
        self.intervals
    }
}

/// A sentence, if the emulator was as busy as it can be at one of the times `when` frames were late or lost, or shortly
/// before; at any time, if none is known.
pub(crate) fn overload(loads: &[LoadInterval], when: &[(VirtualInstant, VirtualInstant)]) -> Option<String> {
    let concerned = |(from, to): &(VirtualInstant, VirtualInstant)| {
        // Frames are late until the work that has piled up is done, which may be after the interval in which it did.
        let first = loads.partition_point(|l| l.to <= *from).saturating_sub(1);
        &loads[first..loads.partition_point(|l| l.from < *to).max(first)]
    };
    let concerned: Vec<&[LoadInterval]> =
        if when.is_empty() { vec![loads] } else { when.iter().map(concerned).collect() };
    let busiest = concerned.into_iter().flatten().max_by(|a, b| a.cpu_percent.total_cmp(&b.cpu_percent));
    let load = busiest.filter(|l| l.cpu_percent >= BUSY)?;
    Some(format!(
        "The emulator had more to do than its one thread can: from {:.1} s to {:.1} s it used {} % of its core for {} \
         frames per real second.",
        load.from.as_secs_f64(),
        load.to.as_secs_f64(),
        number(load.cpu_percent),
        number(load.frames_per_real_s)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Intervals of so many real ms, at TDF 10, with the CPU time used and spun in each, in ms, and the frames
    /// delivered.
    fn pushed(intervals: &[(u64, u64, u64, u64)]) -> Vec<LoadInterval> {
        let ms = |n: u64| RealDuration::from_nanos(n * 1_000_000);
        let mut load = EmulatorLoad::default();
        let (mut now, mut work) = (0, EmulatorCounters { frames: 7, ..EmulatorCounters::default() });
        load.push(RealInstant::ZERO, VirtualInstant::ZERO, work);
        for (length, cpu, spun, frames) in intervals {
            now += length;
            work = EmulatorCounters {
                cpu: work.cpu + ms(*cpu),
                spun: work.spun + ms(*spun),
                frames: work.frames + frames,
            };
            load.push(RealInstant::ZERO + ms(now), VirtualInstant::from_nanos(now * 100_000), work);
        }
        load.intervals()
    }

    fn at(ms: u64) -> VirtualInstant {
        VirtualInstant::from_nanos(ms * 1_000_000)
    }

    /// The note on frames lost between these two virtual ms.
    fn said(loads: &[LoadInterval], when: &[(u64, u64)]) -> String {
        let when: Vec<_> = when.iter().map(|(from, to)| (at(*from), at(*to))).collect();
        overload(loads, &when).unwrap_or_default()
    }

    #[test]
    fn the_load_of_an_interval_is_what_was_used_and_not_spun() {
        let loads = pushed(&[(1000, 900, 850, 27_000), (2000, 1860, 0, 600_000), (50, 50, 0, 50_000)]);
        let of: Vec<_> = loads.iter().map(|l| (l.from, l.to, l.cpu_percent, l.frames_per_real_s)).collect();
        assert_eq!(of, [(at(0), at(100), 5.0, 27_000.0), (at(100), at(300), 93.0, 300_000.0)]);
        assert_eq!(pushed(&[]), []);
    }

    #[test]
    fn only_an_overloaded_emulator_is_blamed() {
        let loads = |cpu, spun| pushed(&[(1000, cpu, spun, 350_000)]);
        let blamed = said(&loads(930, 0), &[]);
        assert!(blamed.contains("it used 93 % of its core for 350000 frames per real second"), "{blamed}");
        assert_eq!(said(&loads(500, 0), &[]), "");
        assert_eq!(said(&loads(900, 700), &[]), "", "it was awake, and had little to do");
    }

    #[test]
    fn what_is_blamed_is_the_interval_of_the_breach_or_the_one_before() {
        // Most frames in the first interval, most work, over more links, in the third.
        let loads = pushed(&[
            (1000, 700, 0, 300_000),
            (1000, 100, 0, 1_000),
            (1000, 930, 0, 90_000),
            (1000, 200, 0, 2_000),
            (1000, 100, 0, 1_000),
        ]);
        let named = "from 0.2 s to 0.3 s it used 93 %";
        assert!(said(&loads, &[]).contains(named));
        for when in [(250, 260), (200, 300), (305, 405), (0, 500)] {
            assert!(
                said(&loads, &[when]).contains(named) && said(&loads, &[(0, 100), when]).contains(named),
                "{when:?}"
            );
        }
        for when in [(0, 100), (100, 199), (400, 500), (700, 800)] {
            assert!(!said(&loads, &[when]).contains("one thread"), "{when:?}");
        }
        assert!(!said(&[], &[(0, 100)]).contains("one thread"));
    }
}
