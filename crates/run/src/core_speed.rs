//! How fast the nodes' cores were during a run: `speed.csv`, and what the next runs know of it.

use std::collections::BTreeMap;

use counters::{CoreWork, Speed};
use record::{RunDir, SpeedInterval, SpeedLog};
use scale::{RealDuration, VirtualInstant};
use site::SpeedSeen;

use crate::error::Result;

/// A shorter window is no measure of what the core can do.
const WINDOW: RealDuration = RealDuration::from_nanos(900_000_000);

/// Follows the speed of the cores that hold nodes.
#[derive(Debug)]
pub struct CoreSpeeds {
    dir: RunDir,
    /// The speed to which shares are related; `None` for shares of time.
    reference: Option<Speed>,
    /// By core.
    followed: BTreeMap<usize, CoreSpeed>,
    /// Begun when there is something to write: where nothing is measured there is no file.
    log: Option<SpeedLog>,
}

/// The speed of one core as far as it was seen.
#[derive(Debug, Default)]
struct CoreSpeed {
    last: Option<(VirtualInstant, CoreWork)>,
    /// Speeds in windows that were long enough.
    windows: Vec<SpeedSeen>,
    /// The beginning of a window that is not yet long enough.
    window: Option<CoreWork>,
}

impl CoreSpeeds {
    /// Begins with nothing seen yet.
    pub fn begin(dir: &RunDir, reference: Option<Speed>) -> CoreSpeeds {
        CoreSpeeds { dir: dir.clone(), reference, followed: BTreeMap::new(), log: None }
    }

    /// Adds what each core has done until `at`; nothing where that is not measured.
    pub fn add(&mut self, at: VirtualInstant, work: &[(usize, CoreWork)]) -> Result<()> {
        for (core, work) in work {
            let followed = self.followed.entry(*core).or_default();
            followed.look(*work);
            if let Some((from, before)) = followed.last.replace((at, *work)) {
                let interval = interval(before, *work, from, *core, self.reference);
                if self.log.is_none() {
                    self.log = Some(self.dir.speed_log()?);
                }
                self.log.as_mut().map_or(Ok(()), |log| log.add(&interval))?;
            }
        }
        Ok(())
    }

    /// Writes out what has been added.
    pub fn flush(&mut self) -> Result<()> {
        Ok(self.log.as_mut().map_or(Ok(()), SpeedLog::flush)?)
    }

    /// Speeds of the cores, in windows that were long enough.
    pub fn windows(&self) -> Vec<SpeedSeen> {
        self.followed.values().flat_map(|core| core.windows.iter().copied()).collect()
    }
}

impl CoreSpeed {
    fn look(&mut self, work: CoreWork) {
        let began = *self.window.get_or_insert(work);
        if work.at.since(began.at) >= WINDOW {
            let lasted = work.at.since(began.at);
            self.windows.extend(work.speed_since(began).map(|speed| SpeedSeen { speed, lasted }));
            self.window = Some(work);
        }
    }
}

fn interval(
    before: CoreWork,
    after: CoreWork,
    from: VirtualInstant,
    core: usize,
    reference: Option<Speed>,
) -> SpeedInterval {
    let units_per_us = after.speed_since(before).map(Speed::units_per_us);
    let passed = after.at.since(before.at).as_nanos().max(1) as f64;
    let part = |of: fn(&CoreWork) -> u64| of(&after).saturating_sub(of(&before)) as f64 / passed;
    SpeedInterval {
        virtual_s: from.as_secs_f64(),
        core,
        units_per_us,
        percent_of_reference: units_per_us.zip(reference).map(|(units, best)| 100.0 * units / best.units_per_us()),
        k: part(|w| w.owed_ns),
        capped: part(|w| w.capped_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scale::{RealInstant, VirtualDuration};

    /// A core that has been measured for so many seconds, and done so much.
    fn work(seconds: f64, units: u64, owed_s: f64, capped_s: f64) -> CoreWork {
        let ns = |s: f64| (s * 1e9) as u64;
        CoreWork {
            at: RealInstant::from_nanos(ns(seconds)),
            metered_ns: ns(seconds),
            units,
            owed_ns: ns(owed_s),
            wanted_ns: ns(owed_s),
            capped_ns: ns(capped_s),
            available_ns: ns(seconds),
        }
    }

    fn at(s: f64) -> VirtualInstant {
        VirtualInstant::ZERO + VirtualDuration::from_secs_f64(s)
    }

    #[test]
    fn each_virtual_second_has_its_row() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::prepare(temp.path(), []).unwrap();
        let mut speed = CoreSpeeds::begin(&dir, Speed::from_units_per_us(1000.0));
        for (s, work) in [
            (0.0, work(10.0, 5_000_000_000, 10.0, 0.0)),
            (1.0, work(12.0, 7_000_000_000, 12.0, 0.0)),
            (2.0, work(14.0, 8_000_000_000, 15.2, 0.5)),
        ] {
            speed.add(at(s), &[(3, work)]).unwrap();
        }
        speed.flush().unwrap();
        let rows = dir.speed().unwrap();
        let of = |r: &SpeedInterval| (r.virtual_s, r.core, r.units_per_us, r.percent_of_reference, r.k, r.capped);
        assert_eq!(
            rows.iter().map(of).collect::<Vec<_>>(),
            [(0.0, 3, Some(1000.0), Some(100.0), 1.0, 0.0), (1.0, 3, Some(500.0), Some(50.0), 1.6, 0.25),]
        );
        let windows: Vec<_> =
            speed.windows().iter().map(|w| (w.speed.units_per_us(), w.lasted.as_secs_f64())).collect();
        assert_eq!(windows, [(1000.0, 2.0), (500.0, 2.0)]);
    }

    #[test]
    fn each_core_has_rows_of_its_own() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::prepare(temp.path(), []).unwrap();
        let mut speeds = CoreSpeeds::begin(&dir, None);
        for s in 0..3u64 {
            let after = |speed: u64| work(s as f64, s * speed * 1_000_000, s as f64, 0.0);
            speeds.add(at(s as f64), &[(0, after(1000)), (2, after(500))]).unwrap();
        }
        speeds.flush().unwrap();
        let rows: Vec<_> = dir.speed().unwrap().iter().map(|r| (r.virtual_s, r.core, r.units_per_us)).collect();
        let of = |s: f64| [(s, 0, Some(1000.0)), (s, 2, Some(500.0))];
        assert_eq!(rows, [of(0.0), of(1.0)].concat());
        assert_eq!(speeds.windows().len(), 4);
    }

    #[test]
    fn what_is_not_measured_has_no_file_and_what_is_not_known_no_number() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::prepare(temp.path(), []).unwrap();
        let mut speed = CoreSpeeds::begin(&dir, None);
        (0..3).for_each(|s| speed.add(at(f64::from(s)), &[]).unwrap());
        speed.flush().unwrap();
        assert_eq!((dir.speed().unwrap(), speed.windows()), (vec![], vec![]));
        assert!(!temp.path().join("speed.csv").exists());
        // Disturbed all the time, and by shares of time.
        let robbed = CoreWork { metered_ns: 1_000_000_000, ..work(2.0, 7, 2.0, 0.0) };
        let before = CoreWork { metered_ns: 1_000_000_000, ..work(1.0, 7, 1.0, 0.0) };
        speed.add(at(4.0), &[(0, before)]).unwrap();
        speed.add(at(5.0), &[(0, robbed)]).unwrap();
        speed.flush().unwrap();
        let rows = dir.speed().unwrap();
        assert_eq!((rows.len(), rows[0].units_per_us, rows[0].percent_of_reference, rows[0].k), (1, None, None, 1.0));
        assert_eq!(speed.windows(), []);
    }

    #[test]
    fn short_windows_are_joined() {
        let temp = tempfile::tempdir().unwrap();
        let mut speed = CoreSpeeds::begin(&RunDir::prepare(temp.path(), []).unwrap(), None);
        // Tenths of a second, one of them three times as fast as the others.
        let mut units = 0;
        for tenth in 0..=20 {
            units += if tenth == 5 { 300_000_000 } else { 100_000_000 };
            speed.add(at(f64::from(tenth)), &[(0, work(f64::from(tenth) / 10.0, units, 0.0, 0.0))]).unwrap();
        }
        let joined: Vec<_> = speed.windows().iter().map(|w| w.speed.units_per_us()).collect();
        assert!(
            joined.len() == 2 && joined[0] > 1100.0 && joined.iter().all(|u| (1000.0..1300.0).contains(u)),
            "{joined:?}"
        );
    }
}
