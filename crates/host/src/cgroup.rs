//! Control groups, by what they are for: a tree for a run, shares of a core, caps, memory, who is in a group and what
//! it has used, and removing what a dead run left.
//!
//! Only `cgroup/files.rs` knows where the kernel has these things and what it calls them. It knows version 1, also
//! beside a version 2 tree that has no controllers (*hybrid*), and version 2. `docs/host.md` says how each purpose is
//! met in either.

mod counters;
mod files;
mod freezer;
mod group;
mod hierarchies;
mod memory;
mod partition;
mod passing;
mod scope;
mod sweep;
mod weights;

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use counters::{Usage, UsageByCore, oom_kills, processes};
pub use files::{NODE_VIEW, REAL_TIME_BUDGET};
pub use freezer::freeze;
pub use group::{Group, Joiner};
pub use hierarchies::{hide_second_version, limits_sockets, limits_swap, of_all_sockets};
pub use memory::{MemoryUsed, limit_memory};
pub use partition::Partition;
pub use weights::{ForcedReschedule, Fraction, Weights};

use crate::{Error, Lack};
use hierarchies::Hierarchies;

/// The beginning of all trees' names.
const PREFIX: &str = "diorama-";

/// The tree of one run (or of one command with a limit): groups at the same path in every hierarchy.
#[derive(Clone, Debug)]
pub struct Tree {
    id: String,
    hierarchies: Hierarchies,
}

impl Tree {
    /// The tree with this id, which need not exist.
    ///
    /// # Errors [`Error::Input`] if `id` cannot name a group, [`Error::Machine`] if this machine has no groups that
    /// could be used.
    pub fn of(id: &str) -> Result<Tree, Error> {
        check_name(id)?;
        Ok(Tree { id: id.into(), hierarchies: Hierarchies::discover()? })
    }

    /// Those that exist, whoever made them.
    pub fn all() -> Result<Vec<Tree>, Error> {
        let hierarchies = Hierarchies::discover()?;
        let entries = hierarchies.all().iter().filter_map(|root| fs::read_dir(root).ok()).flatten().flatten();
        let directories = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
        let id = |name: &str| {
            let id = name.strip_prefix(PREFIX)?;
            Some(id.strip_suffix(scope::SUFFIX).unwrap_or(id).to_owned())
        };
        let names = directories.filter_map(|e| id(e.file_name().to_str()?));
        let mut ids: Vec<_> = names.filter(|id| check_name(id).is_ok()).collect();
        ids.sort();
        ids.dedup();
        Ok(ids.into_iter().map(|id| Tree { id, hierarchies: hierarchies.clone() }).collect())
    }

    /// The id that tells it from other trees.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The group `inside` the tree, such as `emu/web-1/c`; the empty path is the tree itself. It need not exist.
    pub fn group(&self, inside: &str) -> Group {
        self.hierarchies.group(&self.path(inside))
    }

    /// The `cgroupsPath` for an OCI runtime, to make a container in that group.
    pub fn path(&self, inside: &str) -> String {
        let top = format!("/{PREFIX}{}{}", self.id, self.hierarchies.suffix());
        if inside.is_empty() { top } else { format!("{top}/{inside}") }
    }

    /// The weights that groups in it can have.
    pub fn weights(&self) -> Weights {
        self.hierarchies.weights()
    }

    /// Whether a process is in the tree, in some hierarchy. No, if it has ended.
    pub fn contains(&self, pid: u32) -> bool {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup"));
        groups.is_ok_and(|groups| self.tops().iter().any(|top| belongs(&groups, top)))
    }

    /// The remains of the tree: its directory in every hierarchy in which it exists.
    pub fn remains(&self) -> Vec<PathBuf> {
        let places = self.tops().into_iter().flat_map(|top| self.hierarchies.places(&top));
        places.filter(|place| place.exists()).collect()
    }

    /// The tree without systemd, as one that was made in a container, and with it, whoever looks.
    fn tops(&self) -> [String; 2] {
        ["", scope::SUFFIX].map(|suffix| format!("/{PREFIX}{}{suffix}", self.id))
    }

    /// The processors that groups of it have for themselves ([`Group::take`]), as the kernel lists them; `None` if
    /// there are none.
    pub fn held(&self) -> Option<String> {
        partition::held(self)
    }

    /// Allows so many processes and threads in the tree, all of its groups together. To be called when the tree exists.
    pub fn limit_processes(&self, most: u64) -> Result<(), Error> {
        let file = self.hierarchies.of_processes(&self.path(""))?.join(files::MOST_PROCESSES);
        files::write(&file, &most.to_string())
    }

    /// Removes the tree, and kills what still runs in it. It is fine if there is none. The caller makes sure that the
    /// run is dead.
    pub fn sweep(&self) -> Result<(), Error> {
        sweep::sweep(self)
    }
}

/// Opens the counter of everything on this machine, by core.
pub fn usage_of_machine() -> Result<UsageByCore, Error> {
    counters::usage_of_machine()
}

/// The weights that groups can have on this machine; `None` where it has no groups that could be used.
pub fn weights() -> Option<Weights> {
    Hierarchies::discover().ok().map(|hierarchies| hierarchies.weights())
}

/// Divides what their parent has among sibling groups that always have something to run, in proportion to these
/// fractions, as exactly as [`Weights`] can.
pub fn divide(siblings: &[(Group, f64)]) -> Result<(), Error> {
    siblings.iter().try_for_each(|(group, fraction)| group.set_fraction(*fraction))
}

/// How the kernel's control groups are mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Layout {
    /// Not at all.
    None,
    /// Version 1.
    V1,
    /// Version 2.
    V2,
    /// Both.
    Hybrid,
}

/// The abilities of this machine's control groups for this process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offers {
    /// How they are mounted.
    pub layout: Layout,
    /// Why groups cannot have processors for themselves ([`Group::take`]); `None` where they can.
    pub no_partitions: Option<String>,
    /// The lack, if CPU time cannot be divided and counted.
    pub no_shares: Option<Lack>,
    /// The lack, if nodes cannot be had, whose memory, devices and processes are limited too.
    pub no_nodes: Option<Lack>,
    /// Whether this process may make groups.
    pub writable: bool,
}

/// Looks what this machine's control groups can do for this process.
pub fn offers() -> Offers {
    hierarchies::offers()
}

/// Names become directories: they must stay within theirs. Also for nodes, whose groups' names end with theirs.
pub fn check_name(name: &str) -> Result<(), Error> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with(['.', '_']) || !name.chars().all(fine) {
        return Err(Error::Input(format!(
            "`{name}` cannot name a control group: use letters, digits, `-`, `_` and `.`, and begin with a letter or a \
             digit"
        )));
    }
    Ok(())
}

/// Whether the text of `/proc/PID/cgroup` places the process in the tree at `top` in some hierarchy.
fn belongs(groups: &str, top: &str) -> bool {
    groups
        .lines()
        .filter_map(|line| line.splitn(3, ':').nth(2))
        .any(|path| path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_members_of_the_tree_belong() {
        let tree = "/diorama-x1";
        assert!(belongs("4:memory:/\n1:cpu:/diorama-x1/emu/web/c\n", tree));
        assert!(belongs("1:cpu:/diorama-x1\n", tree));
        assert!(!belongs("1:cpu:/diorama-x10/emu/web/c\n0::/\n", tree), "another run with a longer name");
        assert!(!belongs("1:cpu:/a/diorama-x1\n", tree), "not at the root");
    }

    #[test]
    fn names_stay_in_their_directory() {
        for bad in ["", "..", "a/b", "/", "a b", "_slack", "é"] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        assert!(check_name("web-1").is_ok() && check_name("20260101-120000.web_busy").is_ok());
    }
}
