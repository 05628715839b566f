//! How long a task runs before the next one of its core has its turn, and what decides that.
//!
//! From Linux 6.12 on each task asks for slices of its own ([`crate::sched::Class::Slices`]). From 6.6 on all tasks of
//! a machine have what one setting in debugfs says: [`Held`] changes it for as long as a run lasts, and leaves a note
//! of what it was, by which [`sweep`] restores it for one that was killed. Before, there are no slices to speak of:
//! whenever the core chooses anew, whoever is furthest behind goes on.

mod held;
mod notes;
mod setting;

use std::fs;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use scale::{Lengths, RealDuration};
use serde::{Deserialize, Serialize};

pub use self::held::{Held, holders, sweep};
use self::setting::Setting;
use crate::error::Lack;
use crate::sched::{self, Class};

/// Where users find the scheduler's settings, once debugfs is mounted where it usually is.
pub const USUAL_PLACE: &str = "/sys/kernel/debug/sched";

/// What is asked of the kernel to see whether it keeps slices of tasks' own. Neither its own choice nor a bound of it.
const TRIED: RealDuration = RealDuration::from_nanos(300_000);

/// The first Linux in which turns end by slices (EEVDF).
const EEVDF: (u32, u32) = (6, 6);
/// The first in which the shortest slice of all that wait ends the turn of whoever runs.
const SHORTEST_DECIDES: (u32, u32) = (6, 17);

/// What decides how long a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Slices {
    /// What each task asked for (Linux 6.12).
    OfTasks,
    /// A setting, for all tasks of the machine together (EEVDF, Linux 6.6).
    OfHost,
    /// When something interrupts it: whoever is furthest behind goes on then (CFS, before Linux 6.6).
    Interrupted,
    /// Nothing that can be had here.
    OfNobody,
}

/// A setting of the whole machine that is another one while a run lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The file in debugfs.
    pub setting: String,
    /// What it was, before the first run that changed it, and will be after the last.
    pub before: RealDuration,
    /// What it is in turns of the length that the run chose.
    pub during: RealDuration,
}

/// What decides here, and why not each task, if it does not and nothing else does.
pub fn offered() -> (Slices, Option<Lack>) {
    if tried(Class::Slices(TRIED)) {
        return (Slices::OfTasks, None);
    }
    let folder = debugfs();
    let of_host = folder.as_ref().ok().and_then(setting::is_there);
    let decided = match of_host.unwrap_or_else(|| version().is_none_or(|version| version >= EEVDF)) {
        false if tried(Class::RealTime { priority: 1, inherited: false }) => Ok(Slices::Interrupted),
        false => Err(Lack::new(
            "turns end when a real-time task interrupts them on this kernel, and there may be none",
            "run as root, with the capability SYS_NICE",
        )),
        true => setting_in(folder).and_then(|setting| setting.writable()).map(|()| Slices::OfHost),
    };
    decided.map_or_else(|lack| (Slices::OfNobody, Some(lack)), |slices| (slices, None))
}

/// Whether a class can be had: tried, for kernels take other people's changes. By a thread of its own, with which it
/// goes.
fn tried(class: Class) -> bool {
    let asked = move || match class {
        Class::Slices(length) => sched::set(class).is_ok() && sched::slice().ok() == Some(length),
        _ => sched::set(class).is_ok(),
    };
    std::thread::spawn(asked).join().unwrap_or(false)
}

/// Which lengths turns can have beside each other: any where slices are of tasks. But from Linux 6.17 on a task is left
/// alone for no longer than the shortest slice of all that wait beside it ("sched/fair: Limit run to parity to the min
/// slice of enqueued entities"); then it goes on if it is owed more, and if nobody else who is owed something asked for
/// less.
pub fn lengths() -> Lengths {
    match offered().0 {
        Slices::OfTasks if shortest_decides() => Lengths::Multiples,
        Slices::OfTasks => Lengths::Any,
        Slices::OfHost | Slices::Interrupted | Slices::OfNobody => Lengths::One,
    }
}

/// Whether a turn is over, or begins anew, after the shortest slice of all that wait.
pub fn shortest_decides() -> bool {
    version().is_none_or(|version| version >= SHORTEST_DECIDES)
}

/// Linux's version.
fn version() -> Option<(u32, u32)> {
    version_in(&rustix::system::uname().release().to_string_lossy())
}

fn version_in(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// What the setting is now, where one decides.
pub fn of_host() -> Option<RealDuration> {
    setting_here().ok()?.read().ok()
}

fn setting_here() -> Result<Setting, Lack> {
    setting_in(debugfs())
}

fn setting_in(folder: std::io::Result<OwnedFd>) -> Result<Setting, Lack> {
    folder.map(Setting::of).map_err(|e| lacking(&format!("debugfs cannot be had: {e}")))
}

/// The scheduler's folder in debugfs, in a mount of our own that has no place: nothing on the host changes for it.
fn debugfs() -> std::io::Result<OwnedFd> {
    let context = rustix::mount::fsopen("debugfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(context.as_fd())?;
    let root = rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(root, "sched", flags, Mode::empty())?)
}

/// Why slices cannot be set, and what helps.
fn lacking(why: &str) -> Lack {
    let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    let help = match locked_down(&lockdown) {
        Some(mode) => format!("it is locked down ({mode}, as under Secure Boot): use Linux 6.12, or switch that off"),
        None if !rustix::process::geteuid().is_root() => "run as root".into(),
        None => format!("use Linux 6.12, or a kernel that lets root write to {USUAL_PLACE}"),
    };
    Lack::new(format!("this kernel has no slices per task (Linux 6.12), nor can its scheduler be set: {why}"), help)
}

/// Of the text of `/sys/kernel/security/lockdown`, the mode in force, unless that is none.
fn locked_down(text: &str) -> Option<&str> {
    let mode = text.split_once('[')?.1.split_once(']')?.0;
    (mode != "none").then_some(mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_of_lockdown_is_the_one_in_brackets() {
        assert_eq!(locked_down("none [integrity] confidentiality\n"), Some("integrity"));
        assert_eq!(locked_down("[none] integrity confidentiality\n"), None);
        assert_eq!(locked_down(""), None, "a kernel without it");
    }

    #[test]
    fn releases_tell_versions() {
        for (release, version) in [("6.1.0-38-amd64", (6, 1)), ("6.8.0-151-generic", (6, 8)), ("6.18-rc1", (6, 18))] {
            assert_eq!(version_in(release), Some(version));
        }
        assert!(version_in("5.15.0") < Some(EEVDF) && version_in("6.12.3") > Some(EEVDF));
        assert_eq!(version_in("next"), None);
    }
}
