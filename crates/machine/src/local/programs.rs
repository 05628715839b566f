//! Which programs the nodes really ran: results cannot be reproduced without their versions.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use node::Runtime;
use rustix::fs::{Dir, Mode, OFlags, fstat, openat};
use sha2::{Digest, Sha256};

use crate::local::packages::Packages;

/// The most programs that are noted: nodes make as many as they like, and each is open until the end.
const MOST: usize = 1000;
/// Of how many bytes, of all programs together and the short ones first, checksums are made: a second's work or two. A
/// program may have holes, and be as long as its file system allows.
const SUMMED: u64 = 1 << 30;
/// Stands among the programs where there were more.
const OTHERS: &str = "(others)";

/// The programs found in the nodes so far. They are kept open, so that their contents can still be read when the
/// processes have gone.
#[derive(Debug, Default)]
pub struct Programs {
    found: BTreeMap<String, Program>,
    /// Whether there were more than are noted.
    others: bool,
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
        Programs { own, ..Programs::default() }
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
            if self.found.len() >= MOST {
                self.others = true;
                return Ok(());
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
        let sums = self.sums();
        self.found = sums.into_iter().map(|(path, sum)| (path, Program::Summed(sum))).collect();
    }

    /// Program by program: the Debian package and its version where the same file is packaged on this host, and the
    /// SHA-256 of what really ran.
    pub fn versions(&self) -> BTreeMap<String, String> {
        let packages = Packages::here().of(&self.found.keys().map(String::as_str).collect::<Vec<_>>());
        let version = |(path, sum): (String, String)| {
            let package = packages.get(path.as_str()).map_or(String::new(), |package| format!("{package} "));
            (path, package + &sum)
        };
        let others = self.others.then(|| (OTHERS.to_owned(), format!("not noted: the nodes ran more than {MOST}")));
        self.sums().into_iter().map(version).chain(others).collect()
    }

    /// The checksum of each program, or why it has none.
    fn sums(&self) -> BTreeMap<String, String> {
        let mut open: Vec<_> = self.found.iter().filter_map(|(path, program)| Some((path, program.file()?))).collect();
        open.sort_by_key(|(_, file)| length(file));
        let mut left = SUMMED;
        let mut sum = |(path, file): (&String, &File)| (path.clone(), sum_of(file, &mut left));
        let mut sums: BTreeMap<_, _> = open.into_iter().map(&mut sum).collect();
        for (path, program) in &self.found {
            if let Program::Summed(sum) = program {
                sums.insert(path.clone(), sum.clone());
            }
        }
        sums
    }
}

impl Program {
    fn file(&self) -> Option<&File> {
        match self {
            Program::Open(file) => Some(file),
            Program::Summed(_) => None,
        }
    }
}

fn length(file: &File) -> u64 {
    fstat(file).map_or(0, |stat| stat.st_size.unsigned_abs())
}

/// The checksum of a file that is no longer than what is `left`, of which it takes its part.
fn sum_of(file: &File, left: &mut u64) -> String {
    let length = length(file);
    if length > *left {
        return format!("not summed: {} MiB long, and of all programs together {} MiB are", length >> 20, SUMMED >> 20);
    }
    *left -= length;
    sha256(file, length).map_or_else(|e| format!("cannot be read: {e}"), |sum| format!("sha256:{sum}"))
}

/// Of so many bytes: who runs it may make it longer meanwhile.
fn sha256(mut file: &File, length: u64) -> io::Result<String> {
    let mut hash = Sha256::new();
    file.seek(SeekFrom::Start(0))?;
    io::copy(&mut file.take(length), &mut hash)?;
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
        let file = File::open(&me).unwrap();
        let expected = sha256(&file, length(&file)).unwrap();
        let versions = programs.versions();
        assert_eq!(versions.len(), 1);
        assert!(versions[me.to_str().unwrap()].ends_with(&expected), "{versions:?}");
    }
    #[test]
    fn of_programs_without_an_end_the_short_ones_are_summed() {
        let temp = tempfile::tempdir().unwrap();
        let open = |name: &str, length: u64| {
            let file = File::create_new(temp.path().join(name)).unwrap();
            file.set_len(length).unwrap();
            (name.to_owned(), Program::Open(File::open(temp.path().join(name)).unwrap()))
        };
        let found = [open("a", 1 << 40), open("b", 3), open("c", 0)].into();
        let mut programs = Programs { found, ..Programs::default() };
        let sums = programs.sums();
        assert!(sums["a"].contains("1048576 MiB long"), "{sums:?}");
        let zeros = "sha256:709e80c88487a2411e1ee4dfb9f22a861492d20c4765150c0c794abd70f8147c";
        assert_eq!(sums["b"], zeros);
        assert!(sums["c"].starts_with("sha256:e3b0c44298fc1c14"), "{sums:?}");
        programs.close();
        assert_eq!(programs.sums(), sums);
        programs.others = true;
        assert_eq!(programs.versions()[OTHERS], "not noted: the nodes ran more than 1000");
    }
}
