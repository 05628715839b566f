//! Which programs the nodes really ran: results cannot be reproduced without their versions.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use node::Runtime;
use rustix::fs::{Dir, Mode, OFlags, openat};
use sha2::{Digest, Sha256};

use crate::local::packages::Packages;

/// The programs found in the nodes so far. They are kept open, so that their contents can still be read when the
/// processes have gone.
#[derive(Debug, Default)]
pub struct Programs {
    found: BTreeMap<String, Program>,
    /// Programs in the enclosure that are Diorama's.
    own: Vec<PathBuf>,
}

/// A program that ran.
#[derive(Debug)]
enum Program {
    /// Its file.
    Open(File),
    /// The checksum of its content.
    Summed(String),
}

impl Programs {
    /// None yet. This program itself, which is the enclosure's first process, and the runtime are never among them.
    pub fn but_own(runtime: &Runtime) -> Programs {
        let own = std::env::current_exe().into_iter().chain([runtime.path().to_path_buf()]).collect();
        Programs { found: BTreeMap::new(), own }
    }

    /// Notes the programs that all processes below a `/proc` execute now.
    pub fn scan(&mut self, proc: BorrowedFd<'_>) -> io::Result<()> {
        for entry in Dir::read_from(proc)? {
            let Ok(pid) = entry?.file_name().to_string_lossy().parse::<u32>() else { continue };
            let link = format!("{pid}/exe");
            // Processes come and go while we look.
            let Ok(path) = rustix::fs::readlinkat(proc, &link, Vec::new()) else { continue };
            let path = path.to_string_lossy().into_owned();
            // Between being admitted and its own exec a process is still our launcher.
            // A runtime that executes a copy of itself has no path but that of the mount which holds the copy.
            let launcher = path.starts_with("/.diorama/") || path.starts_with("/memfd:") || path == "/";
            if launcher || self.found.contains_key(&path) || self.own.iter().any(|o| o.as_os_str() == path.as_str()) {
                continue;
            }
            if let Ok(file) = openat(proc, &link, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
                self.found.insert(path, Program::Open(file.into()));
            }
        }
        Ok(())
    }

    /// Lets go of all that was found, but for what it is: to keep a program open is to keep the file system that it is
    /// on.
    pub fn close(&mut self) {
        let open = std::mem::take(&mut self.found).into_iter();
        self.found = open
            .map(|(path, program)| match program {
                Program::Open(file) => (path, Program::Summed(sum_of(&file))),
                summed => (path, summed),
            })
            .collect();
    }

    /// Program by program: the Debian package and its version where the same file is packaged on this host, and the
    /// SHA-256 of what really ran.
    pub fn versions(&self) -> BTreeMap<String, String> {
        let packages = Packages::here().of(&self.found.keys().map(String::as_str).collect::<Vec<_>>());
        self.found
            .iter()
            .map(|(path, program)| {
                let sum = match program {
                    Program::Open(file) => sum_of(file),
                    Program::Summed(sum) => sum.clone(),
                };
                let version = match packages.get(path.as_str()) {
                    Some(package) => format!("{package} sha256:{sum}"),
                    None => format!("sha256:{sum}"),
                };
                (path.clone(), version)
            })
            .collect()
    }
}

fn sum_of(file: &File) -> String {
    sha256(file).unwrap_or_else(|e| format!("cannot be read: {e}"))
}

fn sha256(mut file: &File) -> io::Result<String> {
    let mut hash = Sha256::new();
    file.seek(SeekFrom::Start(0))?;
    io::copy(&mut file, &mut hash)?;
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_program_is_identified_by_its_contents() {
        use std::os::fd::AsFd;
        let proc = File::open("/proc").unwrap();
        let me = std::env::current_exe().unwrap();
        let mut programs = Programs { own: vec![me.clone()], ..Programs::default() };
        programs.scan(proc.as_fd()).unwrap();
        assert!(!programs.found.contains_key(me.to_str().unwrap()));
        programs.own.clear();
        programs.scan(proc.as_fd()).unwrap();
        programs.found.retain(|path, _| path == me.to_str().unwrap());
        let expected = sha256(&File::open(&me).unwrap()).unwrap();
        let versions = programs.versions();
        assert_eq!(versions.len(), 1);
        assert!(versions[me.to_str().unwrap()].ends_with(&expected), "{versions:?}");
    }
}
