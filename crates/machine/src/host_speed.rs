//! Usual and best speed of this host's cores, kept from run to run.
//!
//! A core of a virtual machine slows down to half while a neighbour computes on its sibling hyper-thread, for minutes
//! or hours. "Half a core" must mean the same at every hour, so shares are related to one speed, the *reference*: what
//! is usual here. (Not the best: how far programs follow the core's speed is known only roughly, so the less there is
//! to make up for, the better; and on some hosts the best is rare.) It is kept by model of processor, because a machine
//! that is moved or started again may find itself on another.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cpu::Speed;
use host::warn;
use scale::RealDuration;
use serde::{Deserialize, Serialize};
use site::SpeedSeen;

use crate::error::Result;
use crate::places::STATE;
use crate::state_file::StateFile;

const FILE: &str = "speed.json";

/// A new best is one that is further above the old than measurements scatter.
const BETTER: f64 = 1.02;

/// The part of a run's windows that may be faster than what counts as its best.
const BEST_OF: f64 = 0.9;

/// Speeds are counted in steps of this factor.
const STEP: f64 = 1.02;

/// The reference is moved to what is usual when that is this part away from it: runs before and after are related to
/// different speeds.
const MOVED: f64 = 0.15;

/// The least time, s, for which a speed was seen before it counts as usual.
const LEAST_SECONDS: f64 = 60.0;

/// The age, in measured seconds, at which what was seen counts half: a host that gets other neighbours gets another
/// usual speed.
const HALF_LIFE_SECONDS: f64 = 3.0 * 3600.0;

/// How often, and for how long each time, a core is measured that nothing is known of.
const WINDOWS: usize = 20;
const WINDOW: RealDuration = RealDuration::from_nanos(50_000_000);

/// The name of processors that do not say their model.
pub(crate) const NAMELESS: &str = "unknown";

/// The version of the unit of work. Raise it when the yardstick of `crates/cpu` becomes another: what was kept is
/// worth nothing then.
const YARDSTICK: u32 = 2;

/// All of the file, by model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SpeedFile {
    yardstick: u32,
    best_units_per_us: BTreeMap<String, Speed>,
    /// Missing in files of versions that related shares to the best.
    #[serde(default)]
    usual: BTreeMap<String, Usual>,
}

/// How fast one model of processor was, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Usual {
    reference_units_per_us: Speed,
    /// By the logarithm of the speed in steps of [`STEP`].
    seconds: BTreeMap<i32, f64>,
}

impl Default for SpeedFile {
    fn default() -> SpeedFile {
        SpeedFile { yardstick: YARDSTICK, best_units_per_us: BTreeMap::new(), usual: BTreeMap::new() }
    }
}

impl Usual {
    fn add(&mut self, windows: &[SpeedSeen]) {
        let all: f64 = windows.iter().map(|w| w.lasted.as_secs_f64()).sum();
        let older = 0.5f64.powf(all / HALF_LIFE_SECONDS);
        self.seconds.values_mut().for_each(|seconds| *seconds *= older);
        for SpeedSeen { speed, lasted } in windows {
            *self.seconds.entry(speed.units_per_us().log(STEP).round() as i32).or_default() += lasted.as_secs_f64();
        }
    }

    /// The speed that was exceeded for half of the time; `None` if it was not measured for long enough.
    fn median(&self) -> Option<Speed> {
        let all: f64 = self.seconds.values().sum();
        let mut passed = 0.0;
        let step = self.seconds.iter().find(|(_, seconds)| {
            passed += **seconds;
            passed >= all / 2.0
        });
        step.filter(|_| all >= LEAST_SECONDS).and_then(|(step, _)| Speed::from_units_per_us(STEP.powi(*step)))
    }
}

/// The speed of this host's processors, and where it is kept.
#[derive(Clone, Debug)]
pub struct HostSpeed {
    file: StateFile,
    model: String,
}

/// The record of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// This.
    Speeds {
        /// The speed to which shares are related.
        reference: Speed,
        /// The best that was seen.
        best: Speed,
    },
    /// No run has measured it yet on such a processor.
    Nothing,
    /// The file cannot be read, and why.
    Unreadable(String),
}

impl HostSpeed {
    /// This host's.
    pub fn here() -> HostSpeed {
        HostSpeed::at(STATE, host::cores::model())
    }

    fn at(folder: impl Into<PathBuf>, model: Option<String>) -> HostSpeed {
        HostSpeed { file: StateFile::new(folder, FILE), model: model.unwrap_or_else(|| NAMELESS.into()) }
    }

    /// The speeds, as far as they are known.
    pub fn known(&self) -> Known {
        match self.read() {
            Ok(kept) => match (kept.usual.get(&self.model), kept.best_units_per_us.get(&self.model)) {
                (Some(usual), Some(best)) => Known::Speeds { reference: usual.reference_units_per_us, best: *best },
                _ => Known::Nothing,
            },
            Err(why) => Known::Unreadable(why),
        }
    }

    /// The speed to which shares are related, if it is known.
    pub fn reference(&self) -> Option<Speed> {
        match self.known() {
            Known::Speeds { reference, .. } => Some(reference),
            Known::Nothing | Known::Unreadable(_) => None,
        }
    }

    /// The best, if it is known.
    pub fn best(&self) -> Option<Speed> {
        match self.known() {
            Known::Speeds { best, .. } => Some(best),
            Known::Nothing | Known::Unreadable(_) => None,
        }
    }

    /// The reference, or else what `core` does now, which is kept if it can be. Measuring takes a second, and the user
    /// is told of it.
    pub fn reference_or_measured(&self, core: usize) -> Result<Speed> {
        let why = match self.known() {
            Known::Speeds { reference, .. } => return Ok(reference),
            Known::Nothing => format!("nothing is kept of the speed of this host ({})", self.model),
            Known::Unreadable(why) => why,
        };
        let windows = measured(core)?;
        let speed = median_of(&windows).expect("there are windows");
        warn(format_args!(
            "{why}: measured anew, {speed}; where the first minutes of runs find that it is usually another, they \
             correct it, and are then not quite comparable with those after"
        ));
        // Who may not write (without root) measures again next time.
        let _ = self.add(&windows);
        Ok(speed)
    }

    /// Adds what was seen of a core. The new reference, if that has moved it.
    pub fn add(&self, windows: &[SpeedSeen]) -> Result<Option<Speed>> {
        let (Some(median), Some(best)) = (median_of(windows), best_of(windows)) else { return Ok(None) };
        let _locked = self.file.lock()?;
        // A file that cannot be read is written anew.
        if self.file.read::<SpeedFile>().is_err() {
            self.file.set_apart();
        }
        let mut kept = self.read().unwrap_or_default();
        let known = kept.best_units_per_us.entry(self.model.clone()).or_insert(best);
        if best.units_per_us() > known.units_per_us() * BETTER {
            *known = best;
        }
        let first = || Usual { reference_units_per_us: median, seconds: BTreeMap::new() };
        let usual = kept.usual.entry(self.model.clone()).or_insert_with(first);
        usual.add(windows);
        let reference = usual.reference_units_per_us.units_per_us();
        let moved = usual.median().filter(|median| (median.units_per_us() / reference - 1.0).abs() > MOVED);
        usual.reference_units_per_us = moved.unwrap_or(usual.reference_units_per_us);
        self.file.write(&kept)?;
        Ok(moved)
    }

    fn read(&self) -> Result<SpeedFile, String> {
        match self.file.read::<SpeedFile>()? {
            Some(SpeedFile { yardstick, .. }) if yardstick != YARDSTICK => {
                Err(format!("{} is of a version that measured in other units", self.file.path().display()))
            }
            kept => Ok(kept.unwrap_or_default()),
        }
    }
}

/// Measures a core now; takes a second.
pub fn measured(core: usize) -> Result<Vec<SpeedSeen>> {
    let window = |_| Ok(SpeedSeen { speed: cpu::meter::measure(core, WINDOW)?, lasted: WINDOW });
    (0..WINDOWS).map(window).collect()
}

/// The speed that half of the windows did not exceed; `None` without windows.
pub fn median_of(windows: &[SpeedSeen]) -> Option<Speed> {
    not_exceeded(windows, 0.5)
}

/// The speed that nine of ten windows did not exceed; `None` without windows.
fn best_of(windows: &[SpeedSeen]) -> Option<Speed> {
    not_exceeded(windows, BEST_OF)
}

fn not_exceeded(windows: &[SpeedSeen], part: f64) -> Option<Speed> {
    let mut sorted: Vec<Speed> = windows.iter().map(|w| w.speed).collect();
    sorted.sort_by(|a, b| a.units_per_us().total_cmp(&b.units_per_us()));
    let last = sorted.len().checked_sub(1)?;
    sorted.get((part * last as f64).floor() as usize).copied()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn speed(units: f64) -> Speed {
        Speed::from_units_per_us(units).unwrap()
    }

    fn host(folder: &std::path::Path) -> HostSpeed {
        HostSpeed::at(folder, Some("AMD EPYC".into()))
    }

    fn seen(units: f64) -> SpeedSeen {
        SpeedSeen { speed: speed(units), lasted: RealDuration::from_nanos(1_000_000_000) }
    }

    fn known(reference: f64, best: f64) -> Known {
        Known::Speeds { reference: speed(reference), best: speed(best) }
    }

    #[test]
    fn only_what_is_clearly_better_becomes_the_best() {
        let dir = tempfile::tempdir().unwrap();
        let host = host(dir.path());
        assert_eq!(host.known(), Known::Nothing);
        for (units, best) in [(800.0, 800.0), (100.0, 800.0), (815.9, 800.0), (817.0, 817.0)] {
            assert_eq!(host.add(&[seen(units)]).unwrap(), None);
            assert_eq!(host.known(), known(800.0, best), "{units}");
        }
        // Another processor has speeds of its own, and takes nobody else's away.
        let other = HostSpeed::at(dir.path(), None);
        assert_eq!(other.known(), Known::Nothing);
        other.add(&[seen(300.0)]).unwrap();
        assert_eq!(host.reference_or_measured(usize::MAX).unwrap(), speed(800.0), "nothing is measured");
        assert_eq!(host.add(&[]).unwrap(), None);
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["speed.json"], "no part is left");
    }

    #[test]
    fn the_reference_is_what_is_usual() {
        let dir = tempfile::tempdir().unwrap();
        let host = host(dir.path());
        let see = |units: f64, seconds: usize| host.add(&vec![seen(units); seconds]).unwrap();
        let reference = || host.reference_or_measured(usize::MAX).unwrap().units_per_us();
        // The first look was at a good moment.
        see(900.0, 1);
        assert_eq!((see(600.0, 58), reference()), (None, 900.0), "a minute must have been seen");
        let moved = see(600.0, 10).unwrap().units_per_us();
        assert!((moved / 600.0 - 1.0).abs() < 0.011 && reference() == moved, "{moved}");
        // An hour that is somewhat slower, or a minute that is much faster, moves nothing.
        assert_eq!((see(540.0, 3600), see(1200.0, 60)), (None, None));
        assert_eq!(reference(), moved);
        // Other neighbours for a day do, and the best stays.
        assert!(see(400.0, 80_000).is_some());
        assert!((reference() / 400.0 - 1.0).abs() < 0.011, "{}", reference());
        assert_eq!(host.best(), Some(speed(1200.0)));
    }

    /// A file without what is usual, as the first versions wrote it.
    fn of_units(yardstick: u32, best: f64) -> String {
        format!(r#"{{"yardstick":{yardstick},"best_units_per_us":{{"AMD EPYC":{best:?}}}}}"#)
    }

    #[test]
    fn what_an_earlier_version_kept_is_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), of_units(YARDSTICK, 900.0)).unwrap();
        let host = host(dir.path());
        assert_eq!(host.known(), Known::Nothing);
        host.add(&[seen(700.0)]).unwrap();
        assert_eq!(host.known(), known(700.0, 900.0));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_measured_anew_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let host = host(dir.path());
        let broken = |broken: &str| {
            fs::write(dir.path().join(FILE), broken).unwrap();
            let Known::Unreadable(why) = host.known() else { panic!("{broken:?}: {:?}", host.known()) };
            why
        };
        for text in ["", "{}", "\0", &of_units(YARDSTICK, -3.0)] {
            let why = broken(text);
            assert!(why.contains("speed.json is not what was written"), "{why}");
        }
        assert!(broken(&of_units(YARDSTICK - 1, 3.0)).contains("other units"));
        assert!(dir.path().join(FILE).exists(), "who only looks changes nothing");
        let first = host::cores::usable().unwrap()[0];
        let measured = host.reference_or_measured(first).unwrap();
        assert!(matches!(host.known(), Known::Speeds { reference, .. } if reference == measured));
    }

    #[test]
    fn runs_that_end_at_once_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for n in 0..8 {
                let folder = dir.path();
                scope.spawn(move || {
                    let host = HostSpeed::at(folder, Some(format!("model {n}")));
                    for i in 1..=20 {
                        host.add(&[seen(100.0 * f64::from(i))]).unwrap();
                    }
                });
            }
        });
        for n in 0..8 {
            let host = HostSpeed::at(dir.path(), Some(format!("model {n}")));
            assert_eq!(host.known(), known(100.0, 2000.0));
        }
    }

    #[test]
    fn the_best_is_what_nine_of_ten_windows_did_not_exceed() {
        assert_eq!((best_of(&[]), median_of(&[])), (None, None));
        assert_eq!(best_of(&[seen(5.0)]), Some(speed(5.0)));
        let windows: Vec<_> = (1..=101).rev().map(|n| seen(f64::from(n))).collect();
        assert_eq!((best_of(&windows), median_of(&windows)), (Some(speed(91.0)), Some(speed(51.0))));
        // One window out of few is not a best.
        assert_eq!(best_of(&[seen(700.0), seen(1400.0)]), Some(speed(700.0)));
    }

    #[test]
    fn a_core_that_is_not_there_is_no_speed() {
        let dir = tempfile::tempdir().unwrap();
        assert!(host(dir.path()).reference_or_measured(9999).is_err());
    }
}
