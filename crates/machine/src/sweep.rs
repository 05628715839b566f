//! The removal of what dead runs left: what the kernel could not clean up when they were killed.

use std::fs::{self, File};
use std::path::Path;

use host::cgroup::Tree;
use host::{Change, warn};
use rustix::fs::{FlockOperation, flock};

use crate::live::is_locked;
use crate::places::{LIVE, STATE, disks_of, is_id, lock_file};
use crate::{images, suspended};

/// Removes what dead runs left behind; does nothing without root, or where another command is about to.
pub fn sweep() {
    if rustix::process::geteuid().is_root()
        && let Ok(registry) = lock_file(&Path::new(LIVE).join("lock"))
        && flock(&registry, FlockOperation::NonBlockingLockExclusive).is_ok()
    {
        sweep_dead(&registry);
    }
}

/// Removes what dead runs left behind, while the registry is locked.
pub(crate) fn sweep_dead(_registry: &File) {
    let ids = |dir: &str| {
        fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
            .filter_map(|e| e.file_name().into_string().ok())
            .filter(|name| is_id(name))
            .collect::<Vec<_>>()
    };
    let mut all = ids(LIVE);
    all.extend(ids(STATE));
    all.sort();
    all.dedup();
    for id in all {
        if !is_locked(&Path::new(LIVE).join(&id).join("lock")) {
            if let Some(cores) = Tree::of(&id).ok().and_then(|tree| tree.held()) {
                warn(format_args!("cores {cores} still belonged to run {id}, which was killed, and go back to all"));
            }
            remove_run(&id);
        }
    }
    suspended::sweep();
    images::sweep();
    let slices = host::slices::sweep().map(Vec::from_iter);
    let idle_memory = host::reclaim::sweep();
    for (whose, restored) in
        [("the scheduler's ", slices), ("vm.", host::writeback::sweep()), ("DAMON's ", idle_memory)]
    {
        match restored {
            Ok(all) => all.iter().for_each(|Change { setting, before, during }| {
                let still = format!("{whose}{setting} was still {during}");
                warn(format_args!("{still}, by a run that was killed: it is {before} again"));
            }),
            Err(e) => warn(format_args!("left behind by a run that was killed: {e}")),
        }
    }
    match host::user_limits::sweep() {
        Ok(all) => all.iter().for_each(|(setting, before, during)| {
            warn(format_args!("{setting} was still {during}, by a run that was killed: it is {before} again"));
        }),
        Err(e) => warn(format_args!("left behind by a run that was killed: {e}")),
    }
    // Those of a killed `dilate --cpu`, which is no run.
    for dead in cpu::stale_limits().unwrap_or_default() {
        if let Err(e) = dead.sweep() {
            warn(format_args!("left behind by {}: {e}", dead.id()));
        }
    }
}

/// Removes all that a run may have left that outlives its processes. Failures are reported, not fatal: the next command
/// tries again.
pub(crate) fn remove_run(id: &str) {
    if let Err(e) = Tree::of(id).and_then(|tree| tree.sweep()) {
        warn(format_args!("left behind by run {id}: {e}"));
    }
    if let Err(e) = device::remove_devices(&disks_of(&Path::new(STATE).join(id))) {
        warn(format_args!("left behind by run {id}: {e}"));
        // Its state goes when they have: they are noted there.
        return;
    }
    for dir in [Path::new(STATE).join(id), Path::new(LIVE).join(id)] {
        // Folders of a node may be deeper than the standard library could remove.
        if let Err(e) = node::remove_tree(&dir) {
            warn(format_args!("{}: left behind by run {id}: {e}", dir.display()));
            // The live directory goes last, and stays if the state could not be removed.
            return;
        }
    }
}
