//! Controllers that groups of version 2 pass on to those below: switched on from the root down as a tree grows, looked
//! at once for each group, and at the root as it was before when the last tree is gone.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::XattrFlags;

use super::files::{self, CONTROLLERS_2, OF_SYSTEMD, PASSED_ON, PASSED_ON_BEFORE};
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

/// Notes on the root what it passes on, before there is any tree, unless it has that note.
pub(super) fn note_first(root: &Path) -> Result<(), Error> {
    if noted(root).is_some() {
        return Ok(());
    }
    let passed_on = files::read(&root.join(PASSED_ON))?;
    let set = rustix::fs::setxattr(root, PASSED_ON_BEFORE, passed_on.trim().as_bytes(), XattrFlags::empty());
    set.map_err(|e| Error::file("make a note on", root, e))
}

/// Reads the note on the root.
fn noted(root: &Path) -> Option<String> {
    let mut buffer = [0u8; 256];
    let n = rustix::fs::getxattr(root, PASSED_ON_BEFORE, &mut buffer[..]).ok()?;
    String::from_utf8(buffer[..n].to_vec()).ok()
}

/// After the last tree has the root pass on what it did before the first. Where systemd owns the root it does that for
/// what it knows of, and nobody else can tell for whom it has switched that on since.
pub(super) fn restore(root: &Path, scoped: bool) {
    let Some(before) = noted(root) else { return };
    let switch = root.join(PASSED_ON);
    let now = fs::read_to_string(&switch).unwrap_or_default();
    for controller in to_switch_off(&now, &before, scoped) {
        // Where another group has come to pass it on, the kernel keeps it.
        let _ = fs::write(&switch, format!("-{controller}"));
    }
    let _ = rustix::fs::removexattr(root, PASSED_ON_BEFORE);
}

fn to_switch_off<'a>(now: &'a str, before: &str, scoped: bool) -> Vec<&'a str> {
    let mut beyond = not_among(&now.split_whitespace().collect::<Vec<_>>(), before);
    beyond.retain(|controller| !scoped || !OF_SYSTEMD.contains(controller));
    beyond
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

    #[test]
    fn what_is_beyond_what_was_is_switched_off_but_for_what_systemd_sees_to() {
        let now = "cpuset cpu memory hugetlb pids";
        assert_eq!(to_switch_off(now, "memory pids", false), ["cpuset", "cpu", "hugetlb"]);
        assert_eq!(to_switch_off(now, "memory pids", true), ["hugetlb"]);
        assert!(to_switch_off("memory", "memory pids", false).is_empty());
    }
}
