//! Notes of runs about a setting, in Diorama's state directory: a note of what it was, and a
//! file for each run that has changed it, locked for as long as its run lives.
//!
//! The kernel drops such a lock however a process ends. The note says at which boot it was written: with the next one
//! the setting is the kernel's own again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use scale::RealDuration;

use super::Kind;
use crate::error::Error;

/// The first word of the note, before the id of the boot.
const BOOT: &str = "boot";

/// The notes about one setting, in one directory, at one boot.
#[derive(Clone, Debug)]
pub(super) struct Notes {
    pub kind: Kind,
    pub directory: PathBuf,
    /// The kernel's id of this boot.
    pub boot: String,
}

/// A run that has changed the setting, and lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub id: String,
    /// The value that it wants.
    pub wants: RealDuration,
    pub process: u32,
}

impl Notes {
    /// Those in a directory that may have to be made, at this boot.
    pub fn at(directory: &Path, kind: &Kind) -> Result<Notes, Error> {
        let file = Path::new("/proc/sys/kernel/random/boot_id");
        let boot = fs::read_to_string(file).map_err(|e| Error::file("read", file, e))?;
        Ok(Notes { kind: kind.clone(), directory: directory.to_owned(), boot: boot.trim().to_owned() })
    }

    /// The file that says what it was.
    fn note(&self) -> PathBuf {
        self.directory.join(format!("{}.before", self.kind.noted_as))
    }

    /// The beginning of a run's file name; its id follows.
    fn of_runs(&self) -> String {
        format!("{}.of-", self.kind.noted_as)
    }

    /// Keeps others from looking at the notes, and from changing the setting, until it is dropped.
    pub fn lock(&self) -> Result<File, Error> {
        let directory = &self.directory;
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(|e| Error::file("make", directory, e))?;
        let file = File::open(directory).map_err(|e| Error::file("open", directory, e))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|e| Error::file("lock", directory, e))?;
        Ok(file)
    }

    /// Whether there is nothing to be looked at.
    pub fn are_none(&self) -> bool {
        !self.note().exists()
    }

    /// The runs that live, after removing the files of those that do not.
    pub fn holders(&self) -> Result<Vec<Holder>, Error> {
        let entries = fs::read_dir(&self.directory).map_err(|e| Error::file("read", &self.directory, e))?;
        let (mut all, of_runs) = (Vec::new(), self.of_runs());
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|name| name.strip_prefix(&of_runs)) else { continue };
            let path = entry.path();
            if !is_locked(&path) {
                fs::remove_file(&path).map_err(|e| Error::file("remove", &path, e))?;
                continue;
            }
            let text = fs::read_to_string(&path).map_err(|e| Error::file("read", &path, e))?;
            // One that does not say what it is for is still one.
            let mut numbers = text.split_whitespace().map(|word| word.parse::<u64>().unwrap_or_default());
            let wants = RealDuration::from_nanos(numbers.next().unwrap_or_default());
            let process = numbers.next().and_then(|pid| pid.try_into().ok()).unwrap_or_default();
            all.push(Holder { id: id.to_owned(), wants, process });
        }
        Ok(all)
    }

    /// Adds a run; it is one for as long as the file is open.
    pub fn add(&self, holder: &Holder) -> Result<File, Error> {
        let path = self.file_of(&holder.id);
        let add = || {
            let mut file = written_anew(&path)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            writeln!(file, "{} {}", holder.wants.as_nanos(), holder.process)?;
            Ok::<_, io::Error>(file)
        };
        add().map_err(|e| Error::file("write", &path, e))
    }

    /// Removes a run.
    pub fn remove(&self, id: &str) -> Result<(), Error> {
        remove(&self.file_of(id))
    }

    fn file_of(&self, id: &str) -> PathBuf {
        self.directory.join(self.of_runs() + id)
    }

    /// The value before; `None` if nothing is noted, or it was before this boot.
    pub fn before(&self) -> Result<Option<RealDuration>, Error> {
        let path = self.note();
        match fs::read_to_string(&path) {
            Ok(text) => Ok(self.parse(&text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::file("read", &path, e)),
        }
    }

    /// Notes what it is, before it is changed: whole or not at all.
    pub fn write(&self, before: RealDuration) -> Result<(), Error> {
        let path = self.note();
        let part = self.directory.join(format!(".{}.part", self.kind.noted_as));
        let write = || {
            // It need not reach the disk: a machine that crashes has the kernel's own value when it is up again.
            written_anew(&part)?.write_all(self.text(before).as_bytes())?;
            fs::rename(&part, &path)
        };
        write().map_err(|e| Error::file("write", &path, e))
    }

    /// Forgets what it was.
    pub fn forget(&self) -> Result<(), Error> {
        remove(&self.note())
    }

    fn text(&self, before: RealDuration) -> String {
        let Notes { kind, boot, .. } = self;
        format!("{BOOT} {boot}\n{} {}\n", kind.name, before.as_nanos() / kind.unit.as_nanos())
    }

    /// Reads a note; `None` if it is of another boot, or is none.
    fn parse(&self, text: &str) -> Option<RealDuration> {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        (lines.next()? == (BOOT, self.boot.as_str())).then_some(())?;
        let (_, value) = lines.find(|(name, _)| *name == self.kind.name)?;
        // No more than the kernel's file holds.
        let value: u64 = value.parse::<u32>().ok()?.into();
        Some(RealDuration::from_nanos(value * self.kind.unit.as_nanos()))
    }
}

fn written_anew(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", path, e)),
        _ => Ok(()),
    }
}

fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    matches!(flock(&file, FlockOperation::NonBlockingLockShared), Err(rustix::io::Errno::WOULDBLOCK))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SLICE, Scratch};
    use super::*;

    const BEFORE: RealDuration = RealDuration::from_nanos(2_800_000);

    fn notes(directory: PathBuf, boot: &str) -> Notes {
        Notes { kind: SLICE.clone(), directory, boot: boot.into() }
    }

    #[test]
    fn a_note_is_read_as_it_was_written_and_of_no_other_boot() {
        let [first, second] = ["b-1", "b-2"].map(|boot| notes(PathBuf::new(), boot));
        let of_this = first.text(BEFORE);
        assert_eq!(of_this, "boot b-1\nbase_slice_ns 2800000\n");
        assert_eq!(first.parse(&of_this), Some(BEFORE));
        assert_eq!(second.parse(&of_this), None);
        for strange in ["", "boot b-1\n", "boot b-1\n../panic 1\n", "boot b-1\nbase_slice_ns -1\n"] {
            assert_eq!(first.parse(strange), None, "{strange}");
        }
    }

    #[test]
    fn a_run_is_one_for_as_long_as_its_file_is_open() {
        let made = Scratch::new();
        let notes = Notes::at(&made.0, &SLICE).unwrap();
        let holder = Holder { id: "a-1".into(), wants: RealDuration::from_nanos(200_000), process: 77 };
        let open = notes.add(&holder).unwrap();
        assert_eq!(notes.holders().unwrap(), std::slice::from_ref(&holder));
        drop(open);
        assert!(notes.holders().unwrap().is_empty());
        assert!(!notes.file_of("a-1").exists(), "who looks removes what the dead left");
        notes.remove("a-1").unwrap();
    }

    #[test]
    fn what_was_noted_can_be_forgotten() {
        let made = Scratch::new();
        let notes = notes(made.0.join("state"), "b-1");
        let _lock = notes.lock().unwrap();
        assert!(notes.are_none() && notes.before().unwrap().is_none());
        notes.write(BEFORE).unwrap();
        assert!(!notes.are_none());
        assert_eq!(notes.before().unwrap(), Some(BEFORE));
        notes.forget().unwrap();
        assert!(notes.are_none() && fs::read_dir(&notes.directory).unwrap().next().is_none());
    }
}
