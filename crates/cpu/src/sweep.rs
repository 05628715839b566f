//! Removing what a run left in the control group hierarchies, whoever made it there.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::Error;
use crate::cgroup::Mounts;
use crate::groups::Paths;

/// How long the kernel may take to let go of processes that were killed.
const PATIENCE: Duration = Duration::from_secs(3);

/// Removes the groups of a run in every hierarchy, and kills what still runs in them. It is fine if there are none.
/// The caller makes sure that the run is dead.
pub fn sweep(run_id: &str) -> Result<(), Error> {
    check_name(run_id)?;
    let tree = Paths::of(run_id).tree().to_owned();
    let roots: Vec<_> = Mounts::discover()?.all.iter().map(|m| m.join(&tree[1..])).collect();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut stuck = None;
        for root in roots.iter().filter(|r| r.exists()) {
            // Killed first everywhere: removing a group in one hierarchy would hide its members there.
            kill_members(root, &tree);
            if let Err(error) = remove(root) {
                stuck = Some(error);
            }
        }
        match stuck {
            None => return Ok(()),
            Some(error) if Instant::now() > deadline => return Err(error),
            Some(_) => sleep(Duration::from_millis(5)),
        }
    }
}

/// The trees of `dilate --cpu` commands that are no longer alive, as run ids for [`sweep`].
pub fn stale_limits() -> Result<Vec<String>, Error> {
    let cpu = Mounts::discover()?.cpu;
    let entries = fs::read_dir(&cpu).map_err(Error::io(format!("read {}", cpu.display())))?;
    let stale = entries.flatten().filter_map(|entry| {
        let id = entry.file_name().to_str()?.strip_prefix("diorama-")?.to_owned();
        let pid: u32 = id.strip_prefix("dilate-")?.parse().ok()?;
        (!Path::new(&format!("/proc/{pid}")).exists()).then_some(id)
    });
    Ok(stale.collect())
}

/// Names become directories: they must stay within theirs.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with(['.', '_']) || !name.chars().all(fine) {
        return Err(Error::Input(format!(
            "`{name}` cannot name a control group: use letters, digits, `-`, `_` and `.`, and begin with a letter or digit"
        )));
    }
    Ok(())
}

fn kill_members(dir: &Path, tree: &str) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
        kill_members(&entry.path(), tree);
    }
    let members = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    for pid in members.lines().filter_map(|l| l.parse().ok()).filter_map(Pid::from_raw) {
        // The id may have found a new owner since it was read: hold the process first, then look where it is.
        let Ok(handle) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let groups = fs::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_nonzero())).unwrap_or_default();
        if belongs(&groups, tree) {
            let _ = rustix::process::pidfd_send_signal(&handle, Signal::KILL);
        }
    }
}

/// Whether the text of `/proc/PID/cgroup` places the process in `tree` in some hierarchy.
fn belongs(groups: &str, tree: &str) -> bool {
    groups
        .lines()
        .filter_map(|line| line.splitn(3, ':').nth(2))
        .any(|path| path.strip_prefix(tree).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

fn remove(dir: &Path) -> Result<(), Error> {
    let gone = |e: &std::io::Error| e.kind() == ErrorKind::NotFound;
    match fs::read_dir(dir) {
        Ok(entries) => {
            for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
                remove(&entry.path())?;
            }
        }
        Err(e) if gone(&e) => return Ok(()),
        Err(e) => return Err(Error::io(format!("read {}", dir.display()))(e)),
    }
    match fs::remove_dir(dir) {
        Err(e) if !gone(&e) => Err(Error::io(format!("remove the control group {}", dir.display()))(e)),
        _ => Ok(()),
    }
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
        for bad in ["", "..", "a/b", "/", "a b", "_unsold", "é"] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        assert!(check_name("web-1").is_ok() && check_name("20260101-120000.web_busy").is_ok());
    }
}
