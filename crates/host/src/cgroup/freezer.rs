//! Stopping all that runs in a group, and letting it go on.
//!
//! Version 2 does it wherever it is mounted, also beside version 1, without any controller: processes that are stopped
//! so can be killed, and nothing of theirs stays when whoever stopped them is gone. Version 1 alone has a controller
//! for it, which holds them whatever happens.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::counters::processes;
use super::files::{self, FREEZE, FREEZER, FROZEN, MEMBERS, Version};
use super::hierarchies::{is_v2, place_of};
use crate::error::{CONTAINER, Error, Lack};
use crate::mounts;

/// How long it is waited for processes to stop: those that the kernel keeps, for a disk or so, stop later.
const PATIENCE: Duration = Duration::from_millis(20);
/// How often processes are gathered that others may start meanwhile.
const ROUNDS: usize = 16;

/// Stops all processes of the group at `path`, as [`super::Tree::path`] gives it, where they are; or lets them go on.
///
/// # Errors
/// [`Error::Machine`] if this machine has nothing that does.
pub fn freeze(path: &str, frozen: bool) -> Result<(), Error> {
    let (dir, version) = place(path)?;
    if version == Version::First {
        let (file, word) = (dir.join(FREEZER.file), if frozen { FREEZER.frozen } else { FREEZER.thawed });
        files::write(&file, word)?;
        await_state(|| files::read(&file).is_ok_and(|text| text.trim() == word));
        return Ok(());
    }
    if frozen {
        gather(&dir, path)?;
    }
    files::write(&dir.join(FREEZE), if frozen { "1" } else { "0" })?;
    let (word, events) = (if frozen { "frozen 1" } else { "frozen 0" }, dir.join(FROZEN));
    await_state(|| files::read(&events).is_ok_and(|text| text.lines().any(|line| line == word)));
    Ok(())
}

/// The group's place in the hierarchy that stops processes.
fn place(path: &str) -> Result<(PathBuf, Version), Error> {
    let (mounts, inside) = (mounts::all()?, path.trim_start_matches('/'));
    if let Some(second) = mounts.iter().find(|m| is_v2(m)) {
        let dir = second.point.join(inside);
        // Beside version 1 there may be none yet.
        fs::create_dir_all(&dir).map_err(|e| Error::file("make the control group", &dir, e))?;
        return Ok((dir, Version::Second));
    }
    let lack = || Lack::new("no hierarchy of control groups that stops processes is mounted", CONTAINER);
    Ok((place_of(&mounts, FREEZER.controller).ok_or_else(lack)?.join(inside), Version::First))
}

/// Has all processes of the group be in its place, where the runtime has not put them there.
fn gather(dir: &Path, path: &str) -> Result<(), Error> {
    let list = dir.join(MEMBERS);
    for _ in 0..ROUNDS {
        let there = files::read(&list)?;
        let is_there = |pid: &u32| there.lines().any(|line| line.parse() == Ok(*pid));
        let missing: Vec<u32> = processes(path).into_iter().filter(|pid| !is_there(pid)).collect();
        if missing.is_empty() {
            break;
        }
        // One that has ended meanwhile is fine.
        missing.iter().for_each(|pid| drop(fs::write(&list, pid.to_string())));
    }
    Ok(())
}

fn await_state(is_reached: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_reached() && Instant::now() < end {
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::Tree;
    use super::*;

    #[test]
    fn a_process_stops_goes_on_and_can_be_killed_while_it_is_stopped() {
        let id = format!("test-freezer-{}", std::process::id());
        let tree = Tree::of(&id).unwrap();
        let (group, path) = (tree.group("emu/a/c"), tree.path("emu/a/c"));
        group.create().unwrap();
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        // Where containers are: in each hierarchy.
        for dir in tree.hierarchies.places(&path) {
            fs::create_dir_all(&dir).unwrap();
            let _ = fs::write(dir.join(MEMBERS), child.id().to_string());
        }
        assert_eq!(processes(&path), [child.id()]);
        freeze(&path, true).unwrap();
        let (dir, version) = place(&path).unwrap();
        let is_frozen = || match version {
            Version::First => files::read(&dir.join(FREEZER.file)).unwrap().trim() == FREEZER.frozen,
            Version::Second => files::read(&dir.join(FROZEN)).unwrap().contains("frozen 1"),
        };
        assert!(is_frozen());
        freeze(&path, false).unwrap();
        assert!(!is_frozen());
        freeze(&path, true).unwrap();
        child.kill().unwrap();
        if version == Version::First {
            freeze(&path, false).unwrap();
        }
        child.wait().unwrap();
        freeze(&path, false).unwrap();
        tree.sweep().unwrap();
    }
}
