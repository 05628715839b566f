//! Whether the emulator had more to do than one thread can: the cause to be named where frames were late or lost.

use scale::{RealDuration, RealInstant, VirtualInstant};

use crate::checks::number;
use crate::record::Check;

/// A thread that used this much of its core, per cent, may have been too slow; below, something else was the matter. It leaves a
/// fifteenth to others in any case.
pub const BUSY: f64 = 80.0;
/// A shorter interval tells little.
const SHORTEST: RealDuration = RealDuration::from_nanos(100_000_000);

/// What the emulator's thread did in an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// When the interval began.
    pub from: VirtualInstant,
    /// When it ended.
    pub to: VirtualInstant,
    /// The thread's CPU time, per cent of the interval.
    pub cpu_percent: f64,
    /// Frames delivered per real second.
    pub frames_per_real_s: f64,
}

/// Finds the interval in which the emulator delivered most.
#[derive(Clone, Debug, Default)]
pub struct LoadWatch {
    last: Option<(RealInstant, VirtualInstant, RealDuration, u64)>,
    busiest: Option<Load>,
}

impl LoadWatch {
    /// At `real`, which is `at` in virtual time, the thread had used `cpu` and delivered `frames`, since its start.
    pub fn push(&mut self, real: RealInstant, at: VirtualInstant, cpu: RealDuration, frames: u64) {
        let Some((real_before, from, cpu_before, frames_before)) = self.last else {
            self.last = Some((real, at, cpu, frames));
            return;
        };
        let length = real.since(real_before);
        if length < SHORTEST {
            return;
        }
        self.last = Some((real, at, cpu, frames));
        let load = Load {
            from,
            to: at,
            cpu_percent: 100.0 * cpu.saturating_sub(cpu_before).as_secs_f64() / length.as_secs_f64(),
            frames_per_real_s: frames.saturating_sub(frames_before) as f64 / length.as_secs_f64(),
        };
        if self.busiest.as_ref().is_none_or(|b| load.frames_per_real_s > b.frames_per_real_s) {
            self.busiest = Some(load);
        }
    }

    /// The busiest interval; `None` if the run was too short for any.
    pub fn busiest(self) -> Option<Load> {
        self.busiest
    }
}

/// Adds the cause to the sentence of a check that failed, if the emulator was as busy as it can be.
pub(crate) fn explain(check: &mut Check, busiest: Option<&Load>) {
    let Some(load) = busiest.filter(|l| l.cpu_percent >= BUSY && check.ok == Some(false)) else { return };
    check.says += &format!(
        " The emulator had more to do than its one thread can: from {:.1} s to {:.1} s it used {} % of its core for {} \
         frames per real second.",
        load.from.as_secs_f64(),
        load.to.as_secs_f64(),
        number(load.cpu_percent),
        number(load.frames_per_real_s)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::ring_drops;
    use crate::watch::Worst;

    fn pushed(intervals: &[(u64, u64, u64)]) -> Option<Load> {
        let mut watch = LoadWatch::default();
        let (mut ms, mut cpu, mut frames) = (0, 0, 7);
        watch.push(RealInstant::ZERO, VirtualInstant::ZERO, RealDuration::ZERO, frames);
        for (length, busy, passed) in intervals {
            (ms, cpu, frames) = (ms + length, cpu + busy, frames + passed);
            let ns = 1_000_000;
            let (real, at) = (RealInstant::from_nanos(ms * ns), VirtualInstant::from_nanos(ms * ns / 10));
            watch.push(real, at, RealDuration::from_nanos(cpu * ns), frames);
        }
        watch.busiest()
    }

    #[test]
    fn the_busiest_interval_is_the_one_with_most_frames_a_second() {
        let load =
            pushed(&[(1000, 500, 100_000), (2000, 1860, 600_000), (1000, 990, 200_000), (50, 50, 50_000)]).unwrap();
        assert_eq!((load.cpu_percent, load.frames_per_real_s), (93.0, 300_000.0));
        assert_eq!((load.from.as_nanos(), load.to.as_nanos()), (100_000_000, 300_000_000));
        assert_eq!(pushed(&[]), None);
    }

    #[test]
    fn only_an_overloaded_emulator_is_blamed_and_only_for_a_breach() {
        let worst = Worst { value: 3.0, whose: None, from: VirtualInstant::ZERO, to: VirtualInstant::ZERO };
        let said = |drops, busy| {
            let mut check = ring_drops(drops, Some(&worst));
            explain(&mut check, pushed(&[(1000, busy, 350_000)]).as_ref());
            check.says
        };
        assert!(
            said(3, 930).contains("it used 93 % of its core for 350000 frames per real second"),
            "{}",
            said(3, 930)
        );
        assert!(!said(3, 500).contains("one thread"));
        assert!(!said(0, 930).contains("one thread"));
    }
}
