//! A file that keeps something from run to run, by which a damaged one costs no more than what was in it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::damaged_state;
use crate::error::{Error, Result};

/// More than any has, in bytes: one that is damaged may be as long as the disk.
const LONGEST: u64 = 16 << 20;

/// A file of this machine, in JSON.
#[derive(Clone, Debug)]
pub struct StateFile {
    folder: PathBuf,
    name: &'static str,
}

impl StateFile {
    /// The file of this name, which need not be there.
    pub fn new(folder: impl Into<PathBuf>, name: &'static str) -> StateFile {
        StateFile { folder: folder.into(), name }
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.folder.join(self.name)
    }

    /// Reads it; `None` if it is not there. The error is why it cannot be read, as a sentence without its end.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, String> {
        let path = self.path();
        match self.text() {
            Ok(text) => match serde_json::from_str(&text) {
                Ok(kept) => Ok(Some(kept)),
                Err(e) => Err(format!("{} is not what was written ({e})", path.display())),
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(format!("{} cannot be read ({e})", path.display())),
        }
    }

    fn text(&self) -> io::Result<String> {
        let mut text = String::new();
        let mut file = File::open(self.path())?.take(LONGEST + 1);
        match file.read_to_string(&mut text)? as u64 > LONGEST {
            true => Err(io::Error::other(format!("it is longer than {} MiB", LONGEST >> 20))),
            false => Ok(text),
        }
    }

    /// Puts a file apart that is not what was written: what is to be written next would take its place.
    pub fn set_apart(&self) {
        damaged_state::set_apart(&self.path(), "it is not what was written");
    }

    /// Makes the folder and locks it, until what is returned is dropped: runs may end at once, and each must see what
    /// the others have written.
    pub fn lock(&self) -> Result<File> {
        fs::create_dir_all(&self.folder).map_err(Error::file(&self.folder, "create"))?;
        let folder = File::open(&self.folder).map_err(Error::file(&self.folder, "open"))?;
        flock(&folder, FlockOperation::LockExclusive).map_err(Error::file(&self.folder, "lock"))?;
        Ok(folder)
    }

    /// Whole or not at all: a reader sees the old text or the new, also where the disk is full.
    pub fn write<T: Serialize>(&self, kept: &T) -> Result<()> {
        let part = self.folder.join(format!(".{}.part", self.name));
        let write = || -> io::Result<()> {
            let mut file = File::create(&part)?;
            file.write_all(serde_json::to_string_pretty(kept)?.as_bytes())?;
            fs::rename(&part, self.path())
        };
        write().map_err(|e| {
            // A file that is half written is of use to nobody.
            let _ = fs::remove_file(&part);
            Error::file(&self.path(), "write")(e)
        })
    }
}
