//! Which programs the nodes really ran: results cannot be reproduced without their versions.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::process::Command;

use node::Runtime;
use rustix::fs::{Dir, Mode, OFlags, openat};
use sha2::{Digest, Sha256};

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
        let packages = debian_packages(&self.found.keys().map(String::as_str).collect::<Vec<_>>());
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

/// `package version` of the package that owns each path on this host, if it is a Debian one. Asked once for all: each
/// time the lists of all packages are read, which takes a second where they are not in memory.
fn debian_packages<'a>(paths: &[&'a str]) -> BTreeMap<&'a str, String> {
    let ask = |what: &str, of: &[&str]| {
        let out = Command::new("dpkg-query").arg(what).args(of).output();
        // It fails where it knows one of them only.
        out.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default()
    };
    let named: Vec<_> = paths.iter().copied().flat_map(names).collect();
    let found = if named.is_empty() { String::new() } else { ask("--search", &named) };
    let owners: BTreeMap<_, _> = paths.iter().filter_map(|path| Some((*path, owner(path, &found)?))).collect();
    if owners.is_empty() {
        return BTreeMap::new();
    }
    let packages: Vec<_> =
        ["--showformat=${Package} ${Version}\n"].into_iter().chain(owners.values().copied()).collect();
    let versions = ask("--show", &packages);
    let version = |owner: &str| versions.lines().find(|line| line.split(' ').next() == Some(owner));
    let version = |owner: &str| version(owner).map_or_else(|| format!("{owner} "), str::to_owned);
    owners.into_iter().map(|(path, owner)| (path, version(owner))).collect()
}

/// Names of a path in packages: on a merged-/usr system they may still list /bin/sh for what is /usr/bin/sh.
fn names(path: &str) -> impl Iterator<Item = &str> {
    [Some(path), path.strip_prefix("/usr")].into_iter().flatten()
}

/// The package that has a path by what `dpkg-query --search` says: `PACKAGE[:ARCHITECTURE][, …]: PATH`, line by line.
fn owner<'a>(path: &str, found: &'a str) -> Option<&'a str> {
    let of = |name: &str| {
        let lines = found.lines().filter(|line| !line.starts_with("diversion "));
        let packages = lines.filter_map(|line| line.strip_suffix(name)?.strip_suffix(": ")).next()?;
        packages.split([':', ',']).next()
    };
    names(path).find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_found_by_either_name_of_a_path() {
        let found = "diversion by dash from: /bin/sh\ndash: /bin/sh\nlibc6:amd64, libc6:i386: /usr/lib/ld.so\n\
                     bash: /bin/bash\nother: /usr/bin/perl\nperl-base: /usr/bin/perl.2\n";
        let owned = ["/usr/bin/sh", "/usr/lib/ld.so", "/usr/bin/bash", "/usr/bin/perl"].map(|path| owner(path, found));
        assert_eq!(owned, [Some("dash"), Some("libc6"), Some("bash"), Some("other")]);
        assert_eq!((owner("/opt/bash", found), owner("/bash", found)), (None, None));
    }

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
