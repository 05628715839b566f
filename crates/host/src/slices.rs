//! The length of timeslices: how long a task runs before the next one of its core does, and what decides that.
//!
//! From Linux 6.12 on each task asks for slices of its own ([`crate::sched::Class::Slices`]). From 6.6 on all tasks of
//! a machine have what one setting in debugfs says, which is [held](take) for as long as a run lasts. Before, there are
//! no slices to speak of: whenever the core chooses anew, whoever is furthest behind goes on.

use std::borrow::Cow;
use std::fs;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use scale::RealDuration;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Lack};
use crate::sched::{self, Class};
use crate::settings::{self, Change, Held, Holder, Kind, Setting};

/// Where users find the scheduler's settings, once debugfs is mounted where it usually is.
pub const USUAL_PLACE: &str = "/sys/kernel/debug/sched";

/// How long the slices of all tasks are.
static BASE_SLICE: Kind = Kind {
    name: Cow::Borrowed("base_slice_ns"),
    place: USUAL_PLACE,
    unit: RealDuration::from_nanos(1),
    noted_as: Cow::Borrowed("scheduler"),
    applied: None,
    disagreed,
};
/// The setting in its place where slices do not end by length (CFS).
const OF_CFS: &str = "latency_ns";

/// A length asked of the kernel to see whether it keeps slices of tasks' own. Neither its own choice nor a bound of it.
const TRIED: RealDuration = RealDuration::from_nanos(300_000);

/// The first Linux in which a task's time ends by the length of its slice (EEVDF).
const EEVDF: (u32, u32) = (6, 6);

/// Who decides how long a timeslice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Slices {
    /// Each task, by what it asked for (Linux 6.12).
    OfTasks,
    /// A setting, for all tasks of the machine together (EEVDF, Linux 6.6).
    OfHost,
    /// When something interrupts it: whoever is furthest behind goes on then (CFS, before Linux 6.6).
    Interrupted,
    /// Nothing that can be had here.
    OfNobody,
}

/// Who decides here, and why not each task, if it does not and nothing else does.
pub fn offered() -> (Slices, Option<Lack>) {
    if tried(Class::Slices(TRIED)) {
        return (Slices::OfTasks, None);
    }
    let folder = debugfs();
    let of_host = folder.as_ref().ok().and_then(is_there);
    let decided = match of_host.unwrap_or_else(|| version().is_none_or(|version| version >= EEVDF)) {
        false if tried(Class::RealTime { priority: 1, inherited: false }) => Ok(Slices::Interrupted),
        false => Err(Lack::new(
            "timeslices end when a real-time task interrupts them on this kernel, and there may be none",
            "run as root, with the capability SYS_NICE",
        )),
        true => setting_in(folder).map(|_| Slices::OfHost),
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

/// Linux's version.
pub fn version() -> Option<(u32, u32)> {
    version_in(&rustix::system::uname().release().to_string_lossy())
}

fn version_in(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Reads the setting, where one decides.
pub fn of_host() -> Option<RealDuration> {
    setting_here().ok()?.read().ok()
}

/// Has all tasks of this machine have slices of this length. `id` is the run's.
///
/// # Errors
///
/// [`Error::Machine`] if the setting cannot be written, or if another run holds slices of another length.
pub fn take(id: &str, slice: RealDuration) -> Result<Held, Error> {
    Held::take(id, setting_here()?, |_| slice)
}

/// Restores what a run that was killed had changed, unless another still holds it, and says what. Does nothing, and
/// needs no rights, if nothing is noted.
pub fn sweep() -> Result<Option<Change>, Error> {
    settings::sweep(&BASE_SLICE, || Ok(setting_here()?))
}

/// The runs that hold slices now, by their ids; none without the rights to see them.
pub fn holders() -> Vec<String> {
    settings::holders(&BASE_SLICE)
}

fn disagreed(other: &Holder, slice: RealDuration) -> Lack {
    let Holder { id, wants: theirs, process } = other;
    let what = format!(
        "timeslices of {slice} are wanted, and another run ({id}, pid {process}) has set {theirs} on the whole \
         machine, for this kernel has no slices per task (Linux 6.12)"
    );
    Lack::new(what, "wait for its end, or give both experiments a `lead` for which their timeslices are as long")
}

fn setting_here() -> Result<Setting, Lack> {
    setting_in(debugfs())
}

/// The setting, if it can be written.
fn setting_in(folder: std::io::Result<OwnedFd>) -> Result<Setting, Lack> {
    let folder = folder.map_err(|e| lacking(&format!("debugfs cannot be had: {e}")))?;
    let setting = Setting::of(&BASE_SLICE, folder);
    let lacks = |e| lacking(&format!("{} cannot be opened for writing: {e}", BASE_SLICE.path()));
    setting.writable().map_err(lacks).map(|()| setting)
}

/// Whether a folder has it; `None` if it has nothing that is known.
fn is_there(folder: &OwnedFd) -> Option<bool> {
    // A file that is locked down cannot be opened, but looked for.
    let has = |name: &str| rustix::fs::statat(folder, name, AtFlags::empty()).is_ok();
    if has(&BASE_SLICE.name) { Some(true) } else { has(OF_CFS).then_some(false) }
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

/// The mode in force by the text of `/sys/kernel/security/lockdown`, unless that is none.
fn locked_down(text: &str) -> Option<&str> {
    let mode = text.split_once('[')?.1.split_once(']')?.0;
    (mode != "none").then_some(mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::testing::Scratch;

    #[test]
    fn kernels_are_told_apart_by_what_they_have() {
        assert_eq!(is_there(&Scratch::with_setting().folder()), Some(true));
        let cfs = Scratch::new();
        assert_eq!(is_there(&cfs.folder()), None);
        std::fs::write(cfs.0.join(OF_CFS), "12000000\n").unwrap();
        assert_eq!(is_there(&cfs.folder()), Some(false));
    }

    #[test]
    fn a_setting_that_cannot_be_written_is_named() {
        let lack = setting_in(Ok(Scratch::new().folder())).unwrap_err();
        assert!(lack.what.contains("sched/base_slice_ns cannot be opened"), "{lack}");
    }

    #[test]
    fn who_wants_other_slices_is_told_whose_are_set() {
        let us = |us: u64| RealDuration::from_nanos(us * 1_000);
        let said = disagreed(&Holder { id: "a-1".into(), wants: us(200), process: 7 }, us(100)).to_string();
        assert!(said.contains("a-1, pid 7") && said.contains("200µs") && said.contains("lead"), "{said}");
    }

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
