//! The setting that says how long the slices of all tasks are.

use std::fs::File;
use std::io::{self, Read, Write};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use scale::RealDuration;

use super::{USUAL_PLACE, lacking};
use crate::error::{Error, Lack};

/// Its name, in nanoseconds, in the scheduler's folder of debugfs.
pub(super) const NAME: &str = "base_slice_ns";
/// What is there in its place where turns do not end by slices (CFS).
const OF_CFS: &str = "latency_ns";

/// It, in its folder.
#[derive(Debug)]
pub(super) struct Setting(OwnedFd);

/// Whether a folder has it; `None` if it has nothing that is known.
pub(super) fn is_there(folder: &OwnedFd) -> Option<bool> {
    // What is locked down cannot be opened, but looked for.
    let has = |name| rustix::fs::statat(folder, name, AtFlags::empty()).is_ok();
    if has(NAME) { Some(true) } else { has(OF_CFS).then_some(false) }
}

impl Setting {
    pub fn of(folder: OwnedFd) -> Setting {
        Setting(folder)
    }

    /// Where users find it.
    pub fn place() -> String {
        format!("{USUAL_PLACE}/{NAME}")
    }

    fn open(&self, flags: OFlags) -> io::Result<File> {
        Ok(rustix::fs::openat(self.0.as_fd(), NAME, flags | OFlags::CLOEXEC, Mode::empty())?.into())
    }

    /// Fails if it cannot be written.
    pub fn writable(&self) -> Result<(), Lack> {
        let opened = self.open(OFlags::RDWR);
        opened.map(drop).map_err(|e| lacking(&format!("{} cannot be opened for writing: {e}", Setting::place())))
    }

    pub fn read(&self) -> Result<RealDuration, Error> {
        let mut text = String::new();
        let read = self.open(OFlags::RDONLY).and_then(|mut file| file.read_to_string(&mut text));
        let value = read.and_then(|_| text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into()));
        value.map(RealDuration::from_nanos).map_err(|e| Error::system(format!("cannot read {}", Setting::place()), e))
    }

    pub fn write(&self, slice: RealDuration) -> Result<(), Error> {
        let value = slice.as_nanos().to_string();
        let written = self.open(OFlags::WRONLY | OFlags::TRUNC).and_then(|mut file| file.write_all(value.as_bytes()));
        written.map_err(|e| Error::system(format!("cannot write {value} to {}", Setting::place()), e))
    }
}

#[cfg(test)]
pub(super) mod testing {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

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
            std::fs::write(self.0.join(NAME), format!("{value}\n")).unwrap();
        }

        pub fn folder(&self) -> OwnedFd {
            rustix::fs::open(&self.0, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap()
        }

        pub fn setting(&self) -> Setting {
            Setting::of(self.folder())
        }

        pub fn text(&self) -> String {
            std::fs::read_to_string(self.0.join(NAME)).unwrap().trim().to_owned()
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
    use super::testing::Scratch;
    use super::*;

    #[test]
    fn kernels_are_told_apart_by_what_they_have() {
        assert_eq!(is_there(&Scratch::with_setting().folder()), Some(true));
        let cfs = Scratch::new();
        assert_eq!(is_there(&cfs.folder()), None);
        std::fs::write(cfs.0.join(OF_CFS), "12000000\n").unwrap();
        assert_eq!(is_there(&cfs.folder()), Some(false));
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let made = Scratch::with_setting();
        let setting = made.setting();
        setting.writable().unwrap();
        assert_eq!(setting.read().unwrap().as_nanos(), 2_800_000);
        setting.write(RealDuration::from_nanos(100_000)).unwrap();
        assert_eq!((made.text().as_str(), setting.read().unwrap().as_nanos()), ("100000", 100_000));
        made.set("many");
        assert!(setting.read().unwrap_err().to_string().contains("base_slice_ns"));
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let made = Scratch::with_setting();
        std::fs::remove_file(made.0.join(NAME)).unwrap();
        std::fs::create_dir(made.0.join(NAME)).unwrap();
        let lack = made.setting().writable().unwrap_err();
        assert!(lack.what.contains("sched/base_slice_ns cannot be opened"), "{lack}");
    }
}
