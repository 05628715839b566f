//! The runs below a directory of results, for who wants to choose among them.
//!
//! The directory is opened once: its runs are looked for, and each of them is opened, from that descriptor on.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use host::beneath::Dir;

use crate::dir::{PLAN, RESULT, RunDir};
use crate::error::{Error, Result};

/// How deep below a directory of results runs are looked for: `SWEEP/CASE/VARIANT/REPETITION` is four.
const DEEPEST: usize = 6;
/// The most directories that are looked into, and the most runs that are told of.
const MOST_LOOKED_INTO: usize = 20_000;
const MOST_FOUND: usize = 2_000;

/// A run directory, or a folder of repetitions, below a directory of results.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its path from there, with slashes.
    pub name: String,
    /// How many repetitions it holds; none of a run directory.
    pub repetitions: Option<usize>,
    /// When something last was made in it.
    pub changed: Option<SystemTime>,
}

/// A directory of results that is open. No symbolic link below it is followed.
#[derive(Clone, Debug)]
pub struct ResultsDir {
    path: PathBuf,
    top: Dir,
}

impl ResultsDir {
    /// The directory of results at `path`.
    ///
    /// # Errors
    ///
    /// If there is no such directory.
    pub fn open(path: &Path) -> Result<ResultsDir> {
        let top = Dir::open(path).map_err(|e| Error::io(path, "open", e))?;
        Ok(ResultsDir { path: path.to_owned(), top })
    }

    /// Looks for the runs in it. Sorted by name; a folder of repetitions stands before them. Names that are no text are
    /// left out, and so is what is beyond a few thousand runs.
    pub fn runs(&self) -> Vec<Found> {
        runs_below(&self.top)
    }

    /// Opens a run that was found: whatever becomes of its path from then on.
    ///
    /// # Errors
    ///
    /// If it is not there any more, or a link is in its place.
    pub fn run(&self, found: &Found) -> Result<RunDir> {
        let path = self.path.join(&found.name);
        let opened = if found.name.is_empty() { Ok(self.top.clone()) } else { self.top.dir(Path::new(&found.name)) };
        opened.map(|dir| RunDir::of(path.clone(), dir)).map_err(|e| Error::io(&path, "open", e))
    }
}

fn runs_below(top: &Dir) -> Vec<Found> {
    let mut found = Vec::new();
    let mut looked_into = 0;
    // Level by level: what lies deep below one must not hide what lies beside it.
    let mut open = VecDeque::from([(PathBuf::new(), 0)]);
    while let Some((path, depth)) = open.pop_front() {
        looked_into += 1;
        if looked_into > MOST_LOOKED_INTO || found.len() >= MOST_FOUND {
            break;
        }
        let dir = if depth == 0 { Ok(top.clone()) } else { top.dir(&path) };
        // A directory that has gone meanwhile, or may not be read, holds no run.
        let Ok(dir) = dir else { continue };
        let Ok(names) = dir.names() else { continue };
        let is_run = names.iter().any(|name| name == RESULT || name == PLAN);
        let repetitions = names.iter().filter(|name| is_number(name) && is_run_in(&dir, Path::new(name))).count();
        if (is_run || repetitions > 0)
            && let Some(name) = path.to_str()
        {
            let repetitions = (!is_run).then_some(repetitions);
            found.push(Found { name: name.to_string(), repetitions, changed: dir.modified().ok() });
        }
        if !is_run && depth < DEEPEST {
            let room = MOST_LOOKED_INTO.saturating_sub(open.len());
            open.extend(names.iter().take(room).map(|name| (path.join(name), depth + 1)));
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn is_number(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| name.parse::<u32>().is_ok())
}

fn is_run_in(dir: &Dir, name: &Path) -> bool {
    [RESULT, PLAN].into_iter().any(|file| dir.has(&name.join(file)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn runs_and_repetitions_are_found_and_links_are_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        let results = temp.path().join("runs");
        for run in ["web/scaled/1", "web/scaled/2", "web/baseline", "sweep/a/b/c/scaled", "deep/b/c/d/e/f/g"] {
            fs::create_dir_all(results.join(run)).unwrap();
            fs::write(results.join(run).join(RESULT), "{}").unwrap();
        }
        fs::create_dir_all(results.join("web/baseline/confirm")).unwrap();
        fs::write(results.join("web/baseline/confirm").join(RESULT), "{}").unwrap();
        fs::create_dir_all(results.join("live/scaled")).unwrap();
        fs::write(results.join("live/scaled").join(PLAN), "{}").unwrap();
        symlink("../web", results.join("live/link")).unwrap();
        symlink(temp.path(), results.join("up")).unwrap();
        fs::write(results.join("notes"), "").unwrap();
        let found = ResultsDir::open(&results).unwrap().runs();
        let shown: Vec<_> = found.iter().map(|found| (found.name.as_str(), found.repetitions)).collect();
        let wanted = [
            ("live/scaled", None),
            ("sweep/a/b/c/scaled", None),
            ("web/baseline", None),
            ("web/scaled", Some(2)),
            ("web/scaled/1", None),
            ("web/scaled/2", None),
        ];
        assert_eq!(shown, wanted);
        assert!(found.iter().all(|found| found.changed.is_some()));
        let itself = ResultsDir::open(&results.join("web/baseline")).unwrap();
        let found = itself.runs();
        assert_eq!(found[0].name, "", "it is one itself");
        assert!(itself.run(&found[0]).unwrap().has_result());
        assert!(ResultsDir::open(&temp.path().join("absent")).is_err());
    }

    #[test]
    fn what_is_put_in_the_place_of_a_found_run_is_not_read() {
        let temp = tempfile::tempdir().unwrap();
        let (results, secret) = (temp.path().join("runs"), temp.path().join("secret"));
        for (dir, text) in [(results.join("web/scaled"), "own"), (secret.join("scaled"), "secret")] {
            fs::create_dir_all(dir.join("1")).unwrap();
            fs::write(dir.join(RunDir::REPORT), text).unwrap();
            fs::write(dir.join(RESULT), "{}").unwrap();
        }
        let open = ResultsDir::open(&results).unwrap();
        let found = open.runs();
        assert_eq!(found.len(), 1);
        let run = open.run(&found[0]).unwrap();
        let swap = |what: &Path, by: &Path| {
            fs::rename(what, what.with_extension("moved")).unwrap();
            symlink(by, what).unwrap();
        };
        let report = |run: &RunDir| run.report().map(|page| String::from_utf8(page).unwrap());
        // The run, after it was opened; then the directory that it is in; then that of all results.
        swap(&results.join("web/scaled"), &secret.join("scaled"));
        assert_eq!(report(&run).unwrap(), "own");
        let refused = |run: Result<RunDir>| run.unwrap_err().to_string();
        assert!(refused(open.run(&found[0])).contains("a symbolic link is in `web/scaled`"));
        swap(&results.join("web"), &secret);
        assert!(refused(open.run(&found[0])).contains("a symbolic link is in `web/scaled`"));
        swap(&results, temp.path());
        assert_eq!(report(&run).unwrap(), "own");
        assert!(open.run(&found[0]).is_err());
    }
}
