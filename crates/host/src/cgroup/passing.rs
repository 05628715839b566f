//! What groups of version 2 pass on to those below them: switched on from the root down as a tree grows, looked at once
//! for each group, and at the root as it was before when the last tree is gone.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::files::{self, CONTROLLERS_2, PASSED_ON, PASSED_ON_BEFORE};
use crate::error::{CONTAINER, Error, Lack};

/// Groups that pass on all that nodes need, as far as somebody has looked: a tree of a thousand nodes asks two thousand
/// times for the ones above them.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(Arc<Mutex<HashSet<PathBuf>>>);

impl Known {
    /// Has `group` pass on what nodes need, unless it is known to.
    pub(super) fn pass_on(&self, group: &Path) -> Result<(), Error> {
        if !self.locked().contains(group) {
            pass_on(group)?;
            self.locked().insert(group.to_owned());
        }
        Ok(())
    }

    /// This group was made just now: what was known was of one that is gone.
    pub(super) fn forget(&self, group: &Path) {
        self.locked().remove(group);
    }

    fn locked(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        // A set is never left half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Switches on, in a group, what nodes need below it.
fn pass_on(group: &Path) -> Result<(), Error> {
    let passed_on = group.join(PASSED_ON);
    let listed = files::read(&passed_on)?;
    let missing = not_among(&CONTROLLERS_2, &listed);
    if missing.is_empty() {
        return Ok(());
    }
    let switch = missing.iter().map(|c| format!("+{c}")).collect::<Vec<_>>().join(" ");
    fs::write(&passed_on, &switch).map_err(|source| match source.raw_os_error() {
        Some(libc::EBUSY | libc::EACCES | libc::EPERM | libc::EROFS | libc::ENOENT) => {
            let what = format!("cannot pass {} on in {}: {source}", missing.join(", "), group.display());
            let help = format!("run on the host itself, or in a container with {CONTAINER}");
            Error::Machine(Lack::new(what, help))
        }
        _ => Error::file("write to", &passed_on, source),
    })
}

/// Which of `wanted` a file such as that of what is passed on does not list.
pub(super) fn not_among<'a>(wanted: &[&'a str], listed: &str) -> Vec<&'a str> {
    wanted.iter().copied().filter(|c| listed.split_whitespace().all(|l| l != *c)).collect()
}

/// Notes on a tree what the root passed on before, unless another tree has that note.
pub(super) fn note_first(root: &Path, tree: &Path) -> Result<(), Error> {
    let passed_on = files::read(&root.join(PASSED_ON))?;
    let others = fs::read_dir(root).map_err(|e| Error::file("read", root, e))?;
    match others.flatten().any(|other| noted(&other.path()).is_some()) {
        true => Ok(()),
        false => note(tree, passed_on.trim()),
    }
}

fn note(tree: &Path, passed_on: &str) -> Result<(), Error> {
    let set = rustix::fs::setxattr(tree, PASSED_ON_BEFORE, passed_on.as_bytes(), rustix::fs::XattrFlags::empty());
    set.map_err(|e| Error::file("make a note on", tree, e))
}

/// What was noted on a tree.
fn noted(tree: &Path) -> Option<String> {
    let mut buffer = [0u8; 256];
    let n = rustix::fs::getxattr(tree, PASSED_ON_BEFORE, &mut buffer[..]).ok()?;
    String::from_utf8(buffer[..n].to_vec()).ok()
}

/// What the root passed on before there was any tree, as noted on one that is being removed.
pub(super) struct Before {
    root: PathBuf,
    passed_on: String,
}

/// The note on `tree`, if it has it.
pub(super) fn before(tree: &Path) -> Option<Before> {
    Some(Before { root: tree.parent()?.to_owned(), passed_on: noted(tree)? })
}

impl Before {
    /// Leaves the note to one of the trees that are still there; after the last, has the root pass on what it did.
    pub(super) fn hand_over(self, heirs: &[PathBuf]) {
        if heirs.iter().any(|heir| note(heir, &self.passed_on).is_ok()) {
            return;
        }
        let switch = self.root.join(PASSED_ON);
        let now = fs::read_to_string(&switch).unwrap_or_default();
        for controller in not_among(&now.split_whitespace().collect::<Vec<_>>(), &self.passed_on) {
            // Where another group has come to pass it on, the kernel keeps it.
            let _ = fs::write(&switch, format!("-{controller}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that has a file of what it passes on, as a group has.
    fn group(name: &str) -> PathBuf {
        let group = std::env::temp_dir().join(format!("diorama-passing-{}-{name}", std::process::id()));
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join(PASSED_ON), "memory pids\n").unwrap();
        group
    }

    fn written(group: &Path) -> String {
        fs::read_to_string(group.join(PASSED_ON)).unwrap()
    }

    #[test]
    fn what_is_missing_is_switched_on_and_looked_at_once() {
        let (known, group) = (Known::default(), group("once"));
        known.pass_on(&group).unwrap();
        assert_eq!(written(&group), "+cpu +cpuset");
        fs::write(group.join(PASSED_ON), "").unwrap();
        known.clone().pass_on(&group).unwrap();
        assert_eq!(written(&group), "", "it is known, to copies too");
        known.forget(&group);
        known.pass_on(&group).unwrap();
        assert_eq!(written(&group), "+cpu +cpuset +memory +pids", "one that was made anew passes on nothing yet");
        fs::remove_dir_all(&group).unwrap();
        known.forget(&group);
        assert!(known.pass_on(&group).is_err() && known.pass_on(&group).is_err(), "a failure is not remembered");
    }
}
