//! Removing a tree, whoever made the groups in it.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};

use super::{Tree, files, partition, passing, scope};
use crate::Error;

/// How long the kernel may take to let go of processes that were killed.
const PATIENCE: Duration = Duration::from_secs(3);

/// See [`Tree::sweep`].
pub(super) fn sweep(tree: &Tree) -> Result<(), Error> {
    let deadline = Instant::now() + PATIENCE;
    // Cores are given back even if groups remain.
    tree.remains().iter().for_each(|top| partition::give_all_back(top));
    loop {
        let mut stuck = None;
        for top in tree.remains() {
            // Killed first everywhere: removing a group in one hierarchy would hide its members there.
            kill_members(&top, tree);
            let removed = inside(&top).and_then(|()| {
                if tree.hierarchies.is_scoped() && top.to_str().is_some_and(|top| top.ends_with(scope::SUFFIX)) {
                    scope::await_end(&top);
                }
                remove(&top)
            });
            stuck = removed.err().or(stuck);
        }
        match stuck {
            None => break,
            Some(error) if Instant::now() > deadline => return Err(error),
            Some(_) => sleep(Duration::from_millis(5)),
        }
    }
    // Also where systemd has removed it before.
    if Tree::all()?.is_empty() {
        tree.hierarchies.all().iter().for_each(|root| passing::restore(root, tree.hierarchies.is_scoped()));
    }
    Ok(())
}

fn kill_members(dir: &Path, tree: &Tree) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
        kill_members(&entry.path(), tree);
    }
    let members = fs::read_to_string(dir.join(files::MEMBERS)).unwrap_or_default();
    for pid in members.lines().filter_map(|l| l.parse().ok()).filter_map(Pid::from_raw) {
        // The id may have found a new owner since it was read: hold the process first, then look where it is.
        let Ok(handle) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if tree.contains(pid.as_raw_nonzero().get().unsigned_abs()) {
            let _ = rustix::process::pidfd_send_signal(&handle, Signal::KILL);
        }
    }
    let_go(dir);
}

/// Lets what was killed while it was stopped come to its end, where that is needed.
fn let_go(dir: &Path) {
    let file = dir.join(files::FREEZER.file);
    if file.exists() {
        let _ = files::write(&file, files::FREEZER.thawed);
    }
}

fn remove(dir: &Path) -> Result<(), Error> {
    inside(dir)?;
    match fs::remove_dir(dir) {
        Err(e) if !gone(&e) => Err(Error::file("remove the control group", dir, e)),
        _ => Ok(()),
    }
}

/// Removes what is in a group.
fn inside(dir: &Path) -> Result<(), Error> {
    match fs::read_dir(dir) {
        Ok(mut entries) => entries.try_for_each(|entry| match entry {
            Ok(entry) if entry.file_type().is_ok_and(|t| t.is_dir()) => remove(&entry.path()),
            _ => Ok(()),
        }),
        Err(e) if gone(&e) => Ok(()),
        Err(e) => Err(Error::file("read", dir, e)),
    }
}

pub(super) fn gone(e: &std::io::Error) -> bool {
    // The second is what a file says that was open when its group went.
    e.kind() == ErrorKind::NotFound || e.raw_os_error() == Some(libc::ENODEV)
}
