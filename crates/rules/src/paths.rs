//! Rooms that run as root open files of other people by descriptor, through `host::beneath`, and not by their paths;
//! nor do they make, move, remove, list or change anything by its path.
//!
//! Files that still do so are listed with the reason why they may, and both lists only shrink.

use crate::Breach;
use crate::text::lines;

/// The rooms of what runs as root and handles what nodes and other users of the machine have written.
const ROOMS: &[&str] = &[
    "crates/cli/src/",
    "crates/compose/src/",
    "crates/device/src/",
    "crates/dilate/src/",
    "crates/engine/src/",
    "crates/machine/src/",
    "crates/map/src/",
    "crates/model/src/",
    "crates/node/src/",
    "crates/ns/src/",
    "crates/plan/src/",
    "crates/queue/src/",
    "crates/record/src/",
    "crates/report/src/",
    "crates/run/src/",
    "crates/site/src/",
];

/// Calls that open a file by its path.
const OPENS: &[&str] = &[
    "File::open(",
    "File::create(",
    "File::options(",
    "OpenOptions::new(",
    "fs::read(",
    "fs::read_to_string(",
    "fs::write(",
    "fs::copy(",
];

/// Calls that do anything else with what is at a path. Whether there is something decides about nothing of its own.
const TOUCHES: &[&str] = &[
    "fs::rename(",
    "fs::remove_file(",
    "fs::remove_dir(",
    "fs::remove_dir_all(",
    "fs::create_dir(",
    "fs::create_dir_all(",
    "DirBuilder::new(",
    "fs::set_permissions(",
    "chown(",
    "symlink(",
    "fs::hard_link(",
    "fs::read_link(",
    "UnixListener::bind(",
    "UnixStream::connect(",
    "canonicalize(",
    "metadata(",
    "fs::stat(",
    "read_dir(",
    "xattr(",
    "(CWD, ",
    "libc::mkdir(",
];

/// Files that only root and the kernel can change: `/proc`, `/sys`, `/dev`.
const KERNEL: &str = "the kernel's own files";
/// Files that only root can change: below `/var/lib` and `/etc`, `/run/diorama`, and what is mounted in the enclosure.
const STATE: &str = "root's own directories";
/// Whoever calls this has taken the rights of who called root before (`host::rights::Rights`).
const CALLER: &str = "with the caller's rights";
/// Absolute paths to be shown, compared or written down; what is there is opened by `host::beneath` or by those rights.
const NAMES: &str = "for its name alone";
/// A thread whose root is the directory that it works in (`chroot`).
const INSIDE: &str = "in a root of its own";
/// Queries of a file that has been opened safely, or by `/proc/self/fd` of a directory that has.
const HELD: &str = "of what is open";
/// The mask only hides. What its owner moves while it is made, or later, shows no more than SECURITY.md says.
const HIDES: &str = "to hide, not to show";

/// The files of those rooms that open by path, and why they may.
const OPENING: &[(&str, &str)] = &[
    ("crates/device/src/blk_queue.rs", KERNEL),
    ("crates/device/src/image.rs", STATE),
    ("crates/device/src/loop_devices.rs", KERNEL),
    ("crates/device/src/ublk.rs", KERNEL),
    ("crates/machine/src/doctor/kernel.rs", KERNEL),
    ("crates/machine/src/doctor/machine.rs", KERNEL),
    ("crates/machine/src/doctor/timing.rs", KERNEL),
    ("crates/machine/src/images.rs", STATE),
    ("crates/machine/src/images/origin.rs", STATE),
    ("crates/machine/src/live.rs", STATE),
    ("crates/machine/src/local/counters.rs", STATE),
    ("crates/machine/src/places.rs", STATE),
    ("crates/machine/src/registry.rs", STATE),
    ("crates/machine/src/state_file.rs", STATE),
    ("crates/machine/src/suspended.rs", STATE),
    ("crates/model/src/paths.rs", CALLER),
    ("crates/node/src/image/host.rs", STATE),
    ("crates/node/src/image/save.rs", STATE),
    ("crates/node/src/kernel.rs", KERNEL),
    ("crates/node/src/life.rs", STATE),
    ("crates/node/src/own_files.rs", STATE),
    ("crates/node/src/prepare.rs", STATE),
    ("crates/ns/src/tclsh.rs", CALLER),
    ("crates/queue/src/lock.rs", CALLER),
    ("crates/queue/src/store.rs", CALLER),
    ("crates/run/src/outside_requests.rs", STATE),
];

/// The files of those rooms that touch anything else by its path, and why they may.
const TOUCHING: &[(&str, &str)] = &[
    ("crates/cli/src/convert/images.rs", CALLER),
    ("crates/compose/src/load.rs", CALLER),
    ("crates/device/src/image.rs", STATE),
    ("crates/device/src/loop_devices.rs", KERNEL),
    ("crates/device/src/server.rs", STATE),
    ("crates/device/src/ublk.rs", KERNEL),
    ("crates/device/src/round_trip.rs", KERNEL),
    ("crates/dilate/src/control.rs", HELD),
    ("crates/machine/src/damaged_state.rs", STATE),
    ("crates/machine/src/images.rs", STATE),
    ("crates/machine/src/images/pull.rs", STATE),
    ("crates/machine/src/live.rs", STATE),
    ("crates/machine/src/local.rs", NAMES),
    ("crates/machine/src/local/counters.rs", STATE),
    ("crates/machine/src/local/nodes.rs", NAMES),
    ("crates/machine/src/local/packages.rs", STATE),
    ("crates/machine/src/logs.rs", NAMES),
    ("crates/machine/src/places.rs", STATE),
    ("crates/machine/src/registry.rs", STATE),
    ("crates/machine/src/state_file.rs", STATE),
    ("crates/machine/src/suspended.rs", STATE),
    ("crates/machine/src/sweep.rs", STATE),
    ("crates/model/src/load.rs", CALLER),
    ("crates/model/src/paths.rs", CALLER),
    ("crates/node/src/bundle.rs", KERNEL),
    ("crates/node/src/enclosure.rs", STATE),
    ("crates/node/src/image.rs", STATE),
    ("crates/node/src/image/save.rs", STATE),
    ("crates/node/src/image/source.rs", HELD),
    ("crates/node/src/kernel.rs", KERNEL),
    ("crates/node/src/layer/apply.rs", INSIDE),
    ("crates/node/src/layer/collect.rs", HELD),
    ("crates/node/src/layer/pax.rs", INSIDE),
    ("crates/node/src/life.rs", STATE),
    ("crates/node/src/host_view.rs", HIDES),
    ("crates/node/src/masked_paths.rs", KERNEL),
    ("crates/node/src/mount_namespace.rs", KERNEL),
    ("crates/node/src/own_files.rs", KERNEL),
    ("crates/node/src/prepare.rs", STATE),
    ("crates/node/src/remove.rs", STATE),
    ("crates/node/src/rootfs.rs", STATE),
    ("crates/node/src/runtime.rs", STATE),
    ("crates/node/src/volume.rs", STATE),
    ("crates/ns/src/tclsh.rs", CALLER),
    ("crates/queue/src/lock.rs", CALLER),
    ("crates/queue/src/store.rs", CALLER),
    ("crates/record/src/claim.rs", NAMES),
    ("crates/run/src/suspend.rs", NAMES),
];

/// Where a file opens another by its path; for a listed one, that it does not any more.
pub fn opened(path: &str, text: &str) -> Vec<Breach> {
    of(path, text, OPENS, OPENING)
}

/// Where a file does anything else with what is at a path; for a listed one, that it does not any more.
pub fn touched(path: &str, text: &str) -> Vec<Breach> {
    of(path, text, TOUCHES, TOUCHING)
}

fn of(path: &str, text: &str, words: &[&str], may: &[(&str, &str)]) -> Vec<Breach> {
    if !path.ends_with(".rs") || !ROOMS.iter().any(|room| path.starts_with(room)) {
        return Vec::new();
    }
    let found =
        lines(path, text).into_iter().enumerate().filter(|(_, line)| !line.test).filter_map(|(number, line)| {
            let word = words.iter().find(|word| line.code.contains(**word))?;
            let says = format!("says `{word}…)`: open a directory once and what is below it by host::beneath::Dir");
            Some(Breach::new(path, number + 1, says))
        });
    let found: Vec<_> = found.collect();
    match (may.iter().any(|(listed, _)| *listed == path), found.is_empty()) {
        (true, true) => {
            let says = "does nothing of the kind by a path any more: take it off the list in crates/rules/src/paths.rs";
            vec![Breach::new(path, 1, says)]
        }
        (true, false) => Vec::new(),
        (false, _) => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_opened_by_its_path_is_found() {
        let text = "let a = File::open(path)?;\n// File::open(path)\nlet b = \"fs::read(x)\";\nfs::write(a, b)";
        let at = |path: &str, text: &str| opened(path, text).iter().map(|b| b.line).collect::<Vec<_>>();
        assert_eq!(at("crates/record/src/x.rs", text), [1, 4]);
        assert_eq!(at("crates/fidelity/src/x.rs", text), [] as [usize; 0], "it is no room that runs as root");
        assert_eq!(at("crates/record/tests/x.rs", text), [] as [usize; 0]);
        assert_eq!(at(OPENING[0].0, text), [] as [usize; 0]);
        assert_eq!(at(OPENING[0].0, "dir.read(name)"), [1], "the list only shrinks");
    }

    #[test]
    fn a_path_that_is_touched_is_found() {
        let text = "std::fs::rename(a, b)?;\nlet c = a.canonicalize()?;\ndir.rename(a, b)?;\nmknodat(CWD, a, b, c)?;";
        let at = |path: &str, text: &str| touched(path, text).iter().map(|b| b.line).collect::<Vec<_>>();
        assert_eq!(at("crates/record/src/x.rs", text), [1, 2, 4]);
        assert_eq!(at(TOUCHING[0].0, text), [] as [usize; 0]);
        assert_eq!(at(TOUCHING[0].0, "dir.rename(a, b)?;"), [1], "the list only shrinks");
    }
}
