//! Processors for one group alone: partitions of version 2, `Documentation/admin-guide/cgroup-v2.rst` in the kernel's
//! sources, *Cpuset Interface Files*.
//!
//! The group is not right below the root, so its partition is a *remote* one (Linux 6.7): each group on the way to it
//! is told which processors those below it may have for themselves. Older kernels make partitions right below the root
//! only, and until 6.2 they forget at that the affinity of every process of the machine.

use std::fs;
use std::path::{Path, PathBuf};

use super::Tree;
use super::files::{EXCLUSIVE, PARTITION, Version};
use super::group::Group;
use super::hierarchies::kernel_at_least;
use crate::error::{Error, Lack};

/// A partition on whose processors the scheduler balances nothing, and one on which it does.
const KINDS: [&str; 2] = ["isolated", "root"];
/// A group without a partition of its own.
const NONE: &str = "member";

/// Processors that belong to a group, and to those below it, alone: until they are given back, which removing the group
/// does too.
#[derive(Debug)]
pub struct Partition {
    file: PathBuf,
    kind: &'static str,
}

impl Partition {
    /// Whether the scheduler leaves each of its tasks on the processor that it is on.
    pub fn is_isolated(&self) -> bool {
        self.kind == KINDS[0]
    }

    /// The kernel's word now, if the processors are no longer the group's alone: as when one of them was taken off
    /// line, or somebody else has changed the groups above.
    pub fn lost(&self) -> Option<String> {
        match fs::read_to_string(&self.file) {
            Ok(now) => Some(now.trim().to_owned()).filter(|now| now != self.kind),
            Err(e) => Some(e.to_string()),
        }
    }
}

/// Why groups of this machine cannot have processors for themselves; `None` where they can.
pub(super) fn lack(version: Option<Version>) -> Option<String> {
    match version {
        Some(Version::Second) if kernel_at_least(6, 7) => None,
        Some(Version::Second) => Some("the kernel has no remote partitions (Linux 6.7)".into()),
        Some(Version::First) => Some("version 1 of control groups has no partitions".into()),
        None => Some("there are no control groups".into()),
    }
}

impl Group {
    /// Takes processors away from everything that is not in this group, which is to exist: whatever is on them is moved
    /// to others, but for the kernel's own threads, and nothing else can be pinned to them.
    ///
    /// # Errors
    ///
    /// [`Error::Machine`] if the kernel does not give them, with what it says; all is then as it was.
    pub fn take(&self, processors: &[usize]) -> Result<Partition, Error> {
        let list = processors.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let refused = |why: String| {
            let what = format!("processors {list} cannot belong to {} alone: {why}", self.cpu.display());
            Error::Machine(Lack::new(what, format!("see `{PARTITION}` in the kernel's documentation of cgroup v2")))
        };
        if let Some(why) = lack(Some(self.version)) {
            return Err(refused(why));
        }
        let taken = take(&self.root, &self.cpu, &list);
        if taken.is_err() {
            give_back(&self.cpu);
            way(&self.root, &self.cpu).iter().rev().for_each(|group| drop(fs::write(group.join(EXCLUSIVE), "\n")));
        }
        taken.map_err(refused)
    }
}

/// The groups from the one right below the root to this one.
fn way(root: &Path, group: &Path) -> Vec<PathBuf> {
    let mut way: Vec<_> = group.ancestors().take_while(|above| *above != root).map(Path::to_owned).collect();
    way.reverse();
    way
}

fn take(root: &Path, group: &Path, list: &str) -> Result<Partition, String> {
    for on_the_way in way(root, group) {
        let exclusive = on_the_way.join(EXCLUSIVE);
        fs::write(&exclusive, list).map_err(|e| format!("{}: {e}", exclusive.display()))?;
    }
    let file = group.join(PARTITION);
    let mut said = Vec::new();
    for kind in KINDS {
        let now = fs::write(&file, kind).and_then(|()| fs::read_to_string(&file));
        match now {
            Ok(now) if now.trim() == kind => return Ok(Partition { file, kind }),
            Ok(now) => said.push(now.trim().to_owned()),
            Err(e) => said.push(format!("{kind}: {e}")),
        }
        // One that is invalid stays so when it is to be another kind.
        give_back(group);
    }
    Err(said.join("; "))
}

/// The processors that groups of a tree have for themselves, as the kernel lists them; `None` if there are none.
pub(super) fn held(tree: &Tree) -> Option<String> {
    let tops = tree.remains();
    let holding = tops.iter().flat_map(|top| candidates(top)).filter(|group| is_partition(group));
    let lists = holding.filter_map(|group| fs::read_to_string(group.join(EXCLUSIVE)).ok());
    let lists: Vec<String> = lists.map(|list| list.trim().to_owned()).filter(|list| !list.is_empty()).collect();
    (!lists.is_empty()).then(|| lists.join(","))
}

/// Gives back whatever processors the groups of a tree have for themselves: it may be that not all of the groups can be
/// removed.
pub(super) fn give_all_back(top: &Path) {
    candidates(top).iter().for_each(|group| give_back(group));
}

/// The top of a tree and the groups right below it: no others have partitions.
fn candidates(top: &Path) -> Vec<PathBuf> {
    let below = fs::read_dir(top).into_iter().flatten().flatten().map(|entry| entry.path());
    std::iter::once(top.to_owned()).chain(below.filter(|path| path.is_dir())).collect()
}

/// Valid or not.
fn is_partition(group: &Path) -> bool {
    fs::read_to_string(group.join(PARTITION)).is_ok_and(|kind| kind.trim() != NONE)
}

fn give_back(group: &Path) {
    if is_partition(group) {
        // A processor that cannot be given back goes with the group.
        let _ = fs::write(group.join(PARTITION), NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with the files of a group and of one below it, which say whatever is written to them.
    fn groups(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("diorama-partition-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for group in ["top", "top/emu", "top/keeper"] {
            fs::create_dir_all(root.join(group)).unwrap();
            fs::write(root.join(group).join(PARTITION), "member\n").unwrap();
            fs::write(root.join(group).join(EXCLUSIVE), "\n").unwrap();
        }
        root
    }

    fn says(group: &Path, file: &str) -> String {
        fs::read_to_string(group.join(file)).unwrap().trim().to_owned()
    }

    #[test]
    fn processors_are_taken_from_the_root_down_and_given_back() {
        let root = groups("taken");
        let (top, emu) = (root.join("top"), root.join("top/emu"));
        let partition = take(&root, &emu, "0,2").unwrap();
        assert!(partition.is_isolated() && partition.lost().is_none());
        assert_eq!([&top, &emu].map(|group| says(group, EXCLUSIVE)), ["0,2", "0,2"]);
        assert_eq!([&top, &emu].map(|group| says(group, PARTITION)), ["member", "isolated"]);
        fs::write(emu.join(PARTITION), "isolated invalid (No cpu)\n").unwrap();
        assert_eq!(partition.lost().as_deref(), Some("isolated invalid (No cpu)"));
        assert!(is_partition(&emu) && !is_partition(&top), "one that is invalid is one that was not given back");
        give_all_back(&top);
        assert_eq!(says(&emu, PARTITION), "member");
        fs::remove_dir_all(&root).unwrap();
        assert!(partition.lost().is_some(), "it is gone");
    }

    #[test]
    fn what_the_kernel_says_is_told() {
        let root = groups("refused");
        fs::remove_file(root.join("top/emu").join(EXCLUSIVE)).unwrap();
        fs::create_dir(root.join("top/emu").join(EXCLUSIVE)).unwrap();
        let why = take(&root, &root.join("top/emu"), "0").unwrap_err();
        assert!(why.contains("top/emu"), "{why}");
        assert_eq!(lack(Some(Version::First)).unwrap(), "version 1 of control groups has no partitions");
        assert!(lack(None).is_some());
        fs::remove_dir_all(&root).unwrap();
    }
}
