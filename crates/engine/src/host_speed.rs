//! What a core of this host does at its best, kept from run to run.
//!
//! A core of a virtual machine slows down to half while a neighbour computes on its sibling hyper-thread, for minutes
//! or hours. "Half a core" must mean the same at every hour, so shares are related to the best that was ever seen here:
//! by model of processor, because a machine that is moved or started again may find itself on another.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use cpu::Speed;
use rustix::fs::{FlockOperation, flock};
use scale::RealDuration;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::notice::warn;
use crate::registry::STATE;

const FILE: &str = "speed.json";

/// A new best is one that is further above the old than measurements scatter.
const BETTER: f64 = 1.02;

/// The part of a run's windows that may be faster than what counts as its best.
const BEST_OF: f64 = 0.9;

/// How often, and for how long each time, a core is measured that nothing is known of.
const WINDOWS: usize = 10;
const WINDOW: RealDuration = RealDuration::from_nanos(50_000_000);

/// What processors that do not say their model are called.
const NAMELESS: &str = "unknown";

/// What a unit of work is. Raise it when the yardstick of `crates/cpu` becomes another: what was kept is worth nothing
/// then.
const YARDSTICK: u32 = 1;

/// All of the file: the best by model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Kept {
    yardstick: u32,
    best_units_per_us: BTreeMap<String, Speed>,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept { yardstick: YARDSTICK, best_units_per_us: BTreeMap::new() }
    }
}

/// The best speed of this host's processors, and where it is kept.
#[derive(Clone, Debug)]
pub struct HostSpeed {
    folder: PathBuf,
    model: String,
}

/// What is known of the best speed.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// This.
    Best(Speed),
    /// No run has measured it yet on such a processor.
    Nothing,
    /// What was kept cannot be read, and why.
    Unreadable(String),
}

impl HostSpeed {
    /// This host's.
    pub fn here() -> HostSpeed {
        HostSpeed::at(STATE, host::cores::model())
    }

    fn at(folder: impl Into<PathBuf>, model: Option<String>) -> HostSpeed {
        HostSpeed { folder: folder.into(), model: model.unwrap_or_else(|| NAMELESS.into()) }
    }

    /// What is known.
    pub fn known(&self) -> Known {
        match self.read() {
            Ok(kept) => kept.best_units_per_us.get(&self.model).map_or(Known::Nothing, |best| Known::Best(*best)),
            Err(why) => Known::Unreadable(why),
        }
    }

    /// The best, if it is known.
    pub fn best(&self) -> Option<Speed> {
        match self.known() {
            Known::Best(best) => Some(best),
            Known::Nothing | Known::Unreadable(_) => None,
        }
    }

    /// The best that is known, or else what `core` does now, which is kept if it can be. Measuring takes half a second,
    /// and the user is told of it.
    pub fn best_or_measured(&self, core: usize) -> Result<Speed> {
        let why = match self.known() {
            Known::Best(best) => return Ok(best),
            Known::Nothing => format!("nothing is kept of the speed of this host ({})", self.model),
            Known::Unreadable(why) => why,
        };
        let speed = measured(core)?;
        warn(format_args!(
            "{why}: measured anew, {speed}; runs that see the core faster will raise it, and are then not quite \
             comparable with those before"
        ));
        // Who may not write (without root) measures again next time.
        let _ = self.raise(speed);
        Ok(speed)
    }

    /// Keeps `seen`, the best that a run has seen, if it is better than what is known; and says whether it was.
    pub fn raise(&self, seen: Speed) -> Result<bool> {
        fs::create_dir_all(&self.folder).map_err(Error::file(&self.folder, "create"))?;
        // Two runs may end at once, and each must see what the other has written.
        let folder = File::open(&self.folder).map_err(Error::file(&self.folder, "open"))?;
        flock(&folder, FlockOperation::LockExclusive).map_err(Error::file(&self.folder, "lock"))?;
        // What cannot be read is written anew.
        let mut kept = self.read().unwrap_or_default();
        let better = |old: &Speed| seen.units_per_us() > old.units_per_us() * BETTER;
        if !kept.best_units_per_us.get(&self.model).is_none_or(better) {
            return Ok(false);
        }
        kept.best_units_per_us.insert(self.model.clone(), seen);
        let path = self.folder.join(FILE);
        self.write(&kept).map_err(Error::file(&path, "write"))?;
        Ok(true)
    }

    fn read(&self) -> Result<Kept, String> {
        let path = self.folder.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => match serde_json::from_str(&text) {
                Ok(Kept { yardstick, .. }) if yardstick != YARDSTICK => {
                    Err(format!("{} is of a version that measured in other units", path.display()))
                }
                Ok(kept) => Ok(kept),
                Err(e) => Err(format!("{} is not what was written ({e})", path.display())),
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Kept::default()),
            Err(e) => Err(format!("{} cannot be read ({e})", path.display())),
        }
    }

    /// Whole or not at all: a reader sees the old text or the new.
    fn write(&self, kept: &Kept) -> io::Result<()> {
        let part = self.folder.join(format!(".{FILE}.part"));
        let mut file = File::create(&part)?;
        file.write_all(serde_json::to_string_pretty(kept)?.as_bytes())?;
        fs::rename(&part, self.folder.join(FILE))
    }
}

/// The best that a core does, as measured now.
pub fn measured(core: usize) -> Result<Speed> {
    let windows = (0..WINDOWS).map(|_| cpu::meter::measure(core, WINDOW)).collect::<Result<Vec<_>, _>>()?;
    Ok(best_of(&windows).expect("there are windows"))
}

/// The speed that nine of ten windows did not exceed; `None` without windows.
pub fn best_of(windows: &[Speed]) -> Option<Speed> {
    let mut sorted = windows.to_vec();
    sorted.sort_by(|a, b| a.units_per_us().total_cmp(&b.units_per_us()));
    let last = sorted.len().checked_sub(1)?;
    sorted.get((BEST_OF * last as f64).floor() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speed(units: f64) -> Speed {
        Speed::from_units_per_us(units).unwrap()
    }

    fn host(folder: &std::path::Path) -> HostSpeed {
        HostSpeed::at(folder, Some("AMD EPYC".into()))
    }

    #[test]
    fn only_what_is_clearly_better_becomes_the_best() {
        let dir = tempfile::tempdir().unwrap();
        let host = host(dir.path());
        assert_eq!(host.known(), Known::Nothing);
        assert!(host.raise(speed(800.0)).unwrap());
        for not_better in [100.0, 800.0, 815.9] {
            assert!(!host.raise(speed(not_better)).unwrap(), "{not_better}");
        }
        assert_eq!(host.known(), Known::Best(speed(800.0)));
        assert!(host.raise(speed(817.0)).unwrap());
        assert_eq!(host.known(), Known::Best(speed(817.0)));
        // Another processor has a best of its own, and takes nobody else's away.
        let other = HostSpeed::at(dir.path(), None);
        assert_eq!(other.known(), Known::Nothing);
        assert!(other.raise(speed(300.0)).unwrap());
        assert_eq!(host.best_or_measured(usize::MAX).unwrap(), speed(817.0), "nothing is measured");
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["speed.json"], "no part is left");
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
        for text in ["", "{}", "\0", r#"{"yardstick":1,"best_units_per_us":{"AMD EPYC":-3}}"#] {
            let why = broken(text);
            assert!(why.contains("speed.json is not what was written"), "{why}");
        }
        assert!(broken(r#"{"yardstick":0,"best_units_per_us":{"AMD EPYC":3}}"#).contains("other units"));
        let first = host::cores::usable().unwrap()[0];
        let measured = host.best_or_measured(first).unwrap();
        assert_eq!(host.known(), Known::Best(measured));
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
                        host.raise(speed(100.0 * f64::from(i))).unwrap();
                    }
                });
            }
        });
        for n in 0..8 {
            let host = HostSpeed::at(dir.path(), Some(format!("model {n}")));
            assert_eq!(host.known(), Known::Best(speed(2000.0)));
        }
    }

    #[test]
    fn the_best_is_what_nine_of_ten_windows_did_not_exceed() {
        assert_eq!(best_of(&[]), None);
        assert_eq!(best_of(&[speed(5.0)]), Some(speed(5.0)));
        let windows: Vec<_> = (1..=101).rev().map(|n| speed(f64::from(n))).collect();
        assert_eq!(best_of(&windows), Some(speed(91.0)));
        // One window out of few is not a best.
        assert_eq!(best_of(&[speed(700.0), speed(1400.0)]), Some(speed(700.0)));
    }

    #[test]
    fn a_core_that_is_not_there_is_no_speed() {
        let dir = tempfile::tempdir().unwrap();
        assert!(host(dir.path()).best_or_measured(9999).is_err());
    }
}
