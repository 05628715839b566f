//! Settings of the whole machine that are others for as long as runs last.
//!
//! Where there is no other way: the kernel has one value for everybody. [`Held`] changes it, and leaves a note of what
//! it was, by which the next command restores it for a run that was killed. Runs that hold one at once agree on its
//! value.

mod held;
mod notes;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Write};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use scale::RealDuration;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Lack};

pub use self::held::Held;
pub(crate) use self::held::{holders, sweep};
pub(crate) use self::notes::Holder;

/// A setting of the whole machine that is another one while a run lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The file's name.
    pub setting: String,
    /// The value before the first run that changed it, and after the last.
    pub before: RealDuration,
    /// The value that the run chose.
    pub during: RealDuration,
}

/// A setting: a time, as a whole number in a file of the kernel's.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// The file's name, below where users find it.
    pub name: Cow<'static, str>,
    /// Where users find it.
    pub place: &'static str,
    /// The unit of the number.
    pub unit: RealDuration,
    /// The beginning of the names of notes about it.
    pub noted_as: Cow<'static, str>,
    /// Has the kernel look at it once it is written, if it does not do so by itself.
    pub applied: Option<Applied>,
    /// The sentence for a run that wants another value than one that holds it already.
    pub disagreed: fn(&Holder, RealDuration) -> Lack,
}

/// A word for a file of the kernel's, where another one, or the same, says that it is to be. Both are below
/// the setting's place.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    /// The file that is looked at, and what it says where there is anything to be done.
    pub where_says: (String, &'static str),
    /// The file that is written then, and what.
    pub written: (String, &'static str),
}

/// One, in its folder.
#[derive(Debug)]
pub(crate) struct Setting {
    pub kind: Kind,
    folder: OwnedFd,
}

impl Kind {
    /// Where users find it, with its name.
    pub fn path(&self) -> String {
        format!("{}/{}", self.place, self.name)
    }
}

impl Setting {
    pub fn of(kind: &Kind, folder: OwnedFd) -> Setting {
        Setting { kind: kind.clone(), folder }
    }

    /// Where users find it.
    pub fn here(kind: &Kind) -> Result<Setting, Error> {
        let folder = rustix::fs::open(kind.place, OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let folder = folder.map_err(|e| Error::system(format!("cannot open {}", kind.path()), e))?;
        Ok(Setting::of(kind, folder))
    }

    /// Opens it, if it can be written: before anything is noted of it, which could not be restored.
    pub fn writable_here(kind: &Kind) -> Result<Setting, Error> {
        let setting = Setting::here(kind)?;
        let written = setting.writable();
        written.map_err(|e| Error::system(format!("cannot write to {}", kind.path()), e)).map(|()| setting)
    }

    fn open(&self, flags: OFlags) -> io::Result<File> {
        self.open_file(&self.kind.name, flags)
    }

    fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        Ok(rustix::fs::openat(self.folder.as_fd(), name, flags | OFlags::CLOEXEC, Mode::empty())?.into())
    }

    /// Fails if it cannot be written.
    pub fn writable(&self) -> io::Result<()> {
        self.open(OFlags::RDWR).map(drop)
    }

    pub fn read(&self) -> Result<RealDuration, Error> {
        let mut text = String::new();
        let read = self.open(OFlags::RDONLY).and_then(|mut file| file.read_to_string(&mut text));
        let value = read.and_then(|_| text.trim().parse::<u64>().map_err(|_| io::ErrorKind::InvalidData.into()));
        let value = value.map_err(|e| Error::system(format!("cannot read {}", self.kind.path()), e))?;
        Ok(RealDuration::from_nanos(value.saturating_mul(self.kind.unit.as_nanos())))
    }

    pub fn write(&self, value: RealDuration) -> Result<(), Error> {
        let value = (value.as_nanos() / self.kind.unit.as_nanos()).to_string();
        let put = |name: &str, text: &str| {
            self.open_file(name, OFlags::WRONLY | OFlags::TRUNC).and_then(|mut file| file.write_all(text.as_bytes()))
        };
        let written = put(&self.kind.name, &value);
        written.map_err(|e| Error::system(format!("cannot write {value} to {}", self.kind.path()), e))?;
        let Some(Applied { where_says: (looked_at, says), written: (file, word) }) = &self.kind.applied else {
            return Ok(());
        };
        let apply = || {
            let mut state = String::new();
            self.open_file(looked_at, OFlags::RDONLY)?.read_to_string(&mut state)?;
            if state.trim() == *says { put(file, word) } else { Ok(()) }
        };
        apply().map_err(|e| Error::system(format!("cannot write {word} to {}/{file}", self.kind.place), e))
    }
}

/// That another run has set when the kernel does what `is_to_be_done` after `wanted`: the target's time by its own TDF.
pub(crate) fn other_tdf(is_to_be_done: &str, other: &Holder, wanted: RealDuration) -> Lack {
    let Holder { id, wants: theirs, process } = other;
    let what = format!(
        "{is_to_be_done} after {wanted}, and another run ({id}, pid {process}) has set {theirs} for the whole machine"
    );
    Lack::new(what, "wait for its end, or run both at the same TDF")
}

#[cfg(test)]
pub(crate) mod testing {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// One as slices of all tasks are.
    pub static SLICE: Kind = Kind {
        name: Cow::Borrowed("base_slice_ns"),
        place: "/sys/kernel/debug/sched",
        unit: RealDuration::from_nanos(1),
        noted_as: Cow::Borrowed("scheduler"),
        applied: None,
        disagreed: |other, wanted| Lack::new(format!("{wanted} are wanted, not {other:?}"), "wait"),
    };

    /// A folder of its own, which goes when it is dropped.
    pub struct Scratch(pub PathBuf);

    impl Scratch {
        pub fn new() -> Scratch {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let name = format!("diorama-slices-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        /// With the setting as Ubuntu 24.04 has it.
        pub fn with_setting() -> Scratch {
            let made = Scratch::new();
            made.set("2800000");
            made
        }

        pub fn set(&self, value: &str) {
            std::fs::write(self.0.join(&*SLICE.name), format!("{value}\n")).unwrap();
        }

        pub fn folder(&self) -> OwnedFd {
            rustix::fs::open(&self.0, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap()
        }

        pub fn setting(&self) -> Setting {
            Setting::of(&SLICE, self.folder())
        }

        pub fn text(&self) -> String {
            std::fs::read_to_string(self.0.join(&*SLICE.name)).unwrap().trim().to_owned()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{SLICE, Scratch};
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        let made = Scratch::with_setting();
        let setting = made.setting();
        setting.writable().unwrap();
        assert_eq!(setting.read().unwrap().as_nanos(), 2_800_000);
        setting.write(RealDuration::from_nanos(100_000)).unwrap();
        assert_eq!((made.text().as_str(), setting.read().unwrap().as_nanos()), ("100000", 100_000));
        // In hundredths of a second.
        let coarse = Kind { unit: RealDuration::from_nanos(10_000_000), ..SLICE.clone() };
        let coarse = Setting { kind: coarse, ..made.setting() };
        made.set("3000");
        assert_eq!(coarse.read().unwrap(), RealDuration::from_nanos(30_000_000_000));
        coarse.write(RealDuration::from_nanos(50_000_000_000)).unwrap();
        assert_eq!(made.text(), "5000");
        made.set("many");
        assert!(setting.read().unwrap_err().to_string().contains("base_slice_ns"));
    }

    #[test]
    fn what_the_kernel_is_to_look_at_is_told_to_it_where_it_listens() {
        let made = Scratch::with_setting();
        let applied = Some(Applied { where_says: ("state".into(), "on"), written: ("state".into(), "commit") });
        let setting = Setting { kind: Kind { applied, ..SLICE.clone() }, ..made.setting() };
        assert!(setting.write(RealDuration::ZERO).unwrap_err().to_string().contains("sched/state"));
        let state = made.0.join("state");
        for (before, after) in [("on\n", "commit"), ("off\n", "off\n")] {
            std::fs::write(&state, before).unwrap();
            setting.write(RealDuration::from_nanos(7)).unwrap();
            assert_eq!((made.text().as_str(), std::fs::read_to_string(&state).unwrap().as_str()), ("7", after));
        }
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let made = Scratch::with_setting();
        std::fs::remove_file(made.0.join(&*SLICE.name)).unwrap();
        std::fs::create_dir(made.0.join(&*SLICE.name)).unwrap();
        assert!(made.setting().writable().is_err());
        let error = made.setting().write(RealDuration::ZERO).unwrap_err();
        assert!(error.to_string().contains("sched/base_slice_ns"), "{error}");
    }
}
