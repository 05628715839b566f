//! Rooms that run as root open files of other people by descriptor, through `host::beneath`, and not by their paths.
//!
//! Files that still open something by its path are listed with the reason why they may, and the list only shrinks.

use crate::Breach;
use crate::text::lines;

/// The rooms of what runs as root and handles what nodes and other users of the machine have written.
const ROOMS: &[&str] = &[
    "crates/cli/src/",
    "crates/compose/src/",
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
const BY_PATH: &[&str] = &[
    "File::open(",
    "File::create(",
    "File::options(",
    "OpenOptions::new(",
    "fs::read(",
    "fs::read_to_string(",
    "fs::write(",
    "fs::copy(",
];

/// Files that only root and the kernel can change: `/proc`, `/sys`, `/dev`.
const KERNEL: &str = "the kernel's own files";
/// Files that only root can change: `/var/lib/diorama`, `/run/diorama`, `/etc`, and what is mounted in the enclosure.
const STATE: &str = "root's own directories";
/// Whoever calls this has taken the rights of who called root before (`host::rights::Rights`).
const CALLER: &str = "with the caller's rights";

/// The files of those rooms that do so, and why they may.
const STILL: &[(&str, &str)] = &[
    ("crates/cli/src/batch.rs", CALLER),
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
    ("crates/model/src/load.rs", CALLER),
    ("crates/node/src/image/host.rs", STATE),
    ("crates/node/src/image/save.rs", STATE),
    ("crates/node/src/kernel.rs", KERNEL),
    ("crates/node/src/life.rs", STATE),
    ("crates/node/src/own_files.rs", STATE),
    ("crates/node/src/prepare.rs", STATE),
    ("crates/ns/src/tclsh.rs", CALLER),
    ("crates/queue/src/held.rs", CALLER),
    ("crates/queue/src/store.rs", CALLER),
    ("crates/queue/src/sweep.rs", CALLER),
    ("crates/run/src/desk.rs", STATE),
];

/// Where a file opens another by its path; for a listed one, that it does not any more.
pub fn opened(path: &str, text: &str) -> Vec<Breach> {
    if !path.ends_with(".rs") || !ROOMS.iter().any(|room| path.starts_with(room)) {
        return Vec::new();
    }
    let found =
        lines(path, text).into_iter().enumerate().filter(|(_, line)| !line.test).filter_map(|(number, line)| {
            let word = BY_PATH.iter().find(|word| line.code.contains(**word))?;
            let says = format!("says `{word}…)`: open a directory once and what is below it by host::beneath::Dir");
            Some(Breach::new(path, number + 1, says))
        });
    let found: Vec<_> = found.collect();
    match (STILL.iter().any(|(still, _)| *still == path), found.is_empty()) {
        (true, true) => {
            let says = "opens nothing by its path any more: take it off the list in crates/rules/src/paths.rs";
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
        assert_eq!(at(STILL[0].0, text), [] as [usize; 0]);
        assert_eq!(at(STILL[0].0, "dir.read(name)"), [1], "the list only shrinks");
    }
}
