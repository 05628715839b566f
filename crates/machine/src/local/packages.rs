//! Debian packages that programs come from. What dpkg says is kept from run to run for as long as its database is the
//! same: to ask it is to have the lists of all packages read, a quarter of a second and more at the end of each run.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

use host::warn;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::places::STATE;
use crate::state_file::StateFile;

const FILE: &str = "packages.json";

const DATABASE: &str = "/var/lib/dpkg";

/// The parts of the database that answers depend on. Each is replaced, or gets and loses files, with every change.
const PARTS: [&str; 4] = ["status", "diversions", "info", "updates"];

/// The most paths that are kept: nodes name their programs as they like.
const MOST: usize = 1000;

/// The packages of this host.
pub struct Packages {
    database: PathBuf,
    file: StateFile,
}

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct PackagesFile {
    /// The state of the database when it was asked.
    database: String,
    /// `package version` by path; `None` if no package has it.
    packages: BTreeMap<String, Option<String>>,
}

impl Packages {
    /// This host's.
    pub fn here() -> Packages {
        Packages { database: DATABASE.into(), file: StateFile::new(STATE, FILE) }
    }

    /// `package version` of the package that owns each of these paths, for those that are in one.
    pub fn of<'a>(&self, paths: &[&'a str]) -> BTreeMap<&'a str, String> {
        self.by(paths, asked)
    }

    fn by<'a>(
        &self,
        paths: &[&'a str],
        ask: impl Fn(&[&str]) -> BTreeMap<String, String>,
    ) -> BTreeMap<&'a str, String> {
        let Some(database) = self.state() else { return BTreeMap::new() };
        // Entries not of this state, or that cannot be read, are asked for again.
        let kept = self.file.read::<PackagesFile>().ok().flatten().filter(|kept| kept.database == database);
        let mut kept = kept.unwrap_or_else(|| PackagesFile { database, packages: BTreeMap::new() });
        let new: Vec<&str> = paths.iter().copied().filter(|path| !kept.packages.contains_key(*path)).collect();
        let asks = !new.is_empty();
        if asks {
            let mut found = ask(&new);
            kept.packages.extend(new.into_iter().map(|path| (path.to_owned(), found.remove(path))));
        }
        let answer = paths.iter().filter_map(|path| Some((*path, kept.packages.get(*path)?.clone()?))).collect();
        if asks {
            self.keep(kept, paths);
        }
        answer
    }

    /// Keeps the answers, if the database did not change meanwhile: where they are too many, those that were just
    /// wanted. A run does not fail for that.
    fn keep(&self, mut kept: PackagesFile, wanted: &[&str]) {
        if self.state().as_ref() != Some(&kept.database) {
            return;
        }
        if kept.packages.len() > MOST {
            kept.packages.retain(|path, _| wanted.contains(&path.as_str()));
        }
        while kept.packages.len() > MOST {
            kept.packages.pop_last();
        }
        let write = || -> Result<()> {
            let _locked = self.file.lock()?;
            self.file.write(&kept)
        };
        if let Err(e) = write() {
            warn(format_args!("what dpkg says of programs is not kept: {e}"));
        }
    }

    /// The identity and age of each part of the database; `None` where there is none.
    fn state(&self) -> Option<String> {
        let of = |part: &str| {
            let found = std::fs::metadata(self.database.join(part));
            found.map_or_else(
                |_| "none".into(),
                |m| format!("{} {} {}.{:09}", m.ino(), m.size(), m.mtime(), m.mtime_nsec()),
            )
        };
        self.database.join(PARTS[0]).exists().then(|| PARTS.map(of).join(", "))
    }
}

/// dpkg's answer for these paths, asked once for all.
fn asked(paths: &[&str]) -> BTreeMap<String, String> {
    let ask = |what: &str, of: &[&str]| {
        let out = Command::new("dpkg-query").arg(what).args(of).output();
        // It fails where it knows one of them only.
        out.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default()
    };
    let named: Vec<_> = paths.iter().copied().filter(|path| is_askable(path)).flat_map(names).collect();
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
    owners.into_iter().map(|(path, owner)| (path.to_owned(), version(owner))).collect()
}

/// Whether dpkg can be asked for a path. To it some are patterns, which it compares with every file of the host; and
/// all together must be short enough for a command line.
fn is_askable(path: &str) -> bool {
    path.len() < 256 && path.starts_with('/') && !path.contains(['*', '?', '[', '\\', '\n'])
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
    use std::cell::RefCell;
    use std::fs;
    use std::path::Path;

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
    fn a_database_is_asked_once_for_each_path_and_anew_when_it_has_changed() {
        let temp = tempfile::tempdir().unwrap();
        let (database, state) = (temp.path().join("dpkg"), temp.path().join("state"));
        fs::create_dir_all(database.join("updates")).unwrap();
        // Like dpkg, which writes another file and gives it the name.
        let replace = |text: &str| {
            fs::write(database.join("status-new"), text).unwrap();
            fs::rename(database.join("status-new"), database.join("status")).unwrap();
        };
        let of = |kept: &Path| Packages { database: database.clone(), file: StateFile::new(kept, FILE) };
        let asked = RefCell::new(Vec::new());
        let look = |kept: &Path, paths: &[&str]| {
            let version = fs::read_to_string(database.join("status")).unwrap();
            let answers = of(kept).by(paths, |paths| {
                asked.borrow_mut().push(paths.join(" "));
                let packaged = paths.iter().filter(|path| **path != "/proc/version");
                packaged.map(|path| (path.to_string(), format!("of {version}"))).collect()
            });
            answers.into_iter().map(|(path, package)| format!("{path} {package}")).collect::<Vec<_>>()
        };
        assert!(of(&state).by(&["/etc/passwd"], |_| unreachable!()).is_empty(), "there is no database");
        replace("1");
        let both = ["/etc/passwd", "/proc/version"];
        for _ in 0..2 {
            assert_eq!(look(&state, &both), ["/etc/passwd of 1"]);
        }
        assert_eq!(
            asked.take(),
            ["/etc/passwd /proc/version"],
            "the second time it is known, also what no package has"
        );
        assert_eq!(look(&state, &["/etc/passwd", "/etc/group"]), ["/etc/group of 1", "/etc/passwd of 1"]);
        assert_eq!(asked.take(), ["/etc/group"]);
        replace("2");
        assert_eq!(look(&state, &both), ["/etc/passwd of 2"]);
        // Not yet in the file, but in its journal.
        fs::write(database.join("updates/0000"), "").unwrap();
        assert_eq!(look(&state, &both), ["/etc/passwd of 2"]);
        assert_eq!(asked.take().len(), 2);
        fs::write(state.join(FILE), "damaged").unwrap();
        assert_eq!(look(&state, &both), ["/etc/passwd of 2"]);
        let nowhere = Path::new("/proc/no/such");
        for _ in 0..2 {
            assert_eq!(look(nowhere, &both), ["/etc/passwd of 2"], "what cannot be kept is asked each time");
        }
        assert_eq!(asked.take().len(), 3);
    }

    #[test]
    fn names_that_dpkg_would_take_for_patterns_are_not_asked() {
        let long = format!("/{}", "x".repeat(4000));
        let bad = [
            "/out/*a*a*a*a*a*b",
            "/out/?",
            "/out/[a-z]",
            "/out/\\",
            "/bin/sh\nx: /bin/true",
            "--help",
            "memfd:x",
            &long,
        ];
        assert!(!bad.iter().any(|path| is_askable(path)));
        assert!(is_askable("/usr/bin/python3.11") && is_askable("/usr/bin/g++"));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("status"), "").unwrap();
        let packages = Packages { database: temp.path().into(), file: StateFile::new(temp.path(), FILE) };
        let mut kept = PackagesFile { database: packages.state().unwrap(), packages: BTreeMap::new() };
        kept.packages = (0..MOST).map(|n| (n.to_string(), None)).collect();
        packages.file.write(&kept).unwrap();
        packages.by(&["/etc/passwd"], |_| BTreeMap::new());
        let kept: PackagesFile = packages.file.read().unwrap().unwrap();
        assert_eq!(kept.packages.into_keys().collect::<Vec<_>>(), ["/etc/passwd"]);
    }
}
