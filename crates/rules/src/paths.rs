//! Rooms that run as root open files of other people by descriptor, through `host::beneath`, and not by their paths.
//!
//! Files that still open something by its path are listed, and the list only shrinks: most of them open what is root's
//! own (`/proc`, `/run/diorama`, `/var/lib/diorama`).

use crate::Breach;
use crate::text::lines;

/// The rooms that handle what nodes and other users of the machine have written.
const ROOMS: &[&str] =
    &["crates/engine/src/", "crates/machine/src/", "crates/run/src/", "crates/node/src/", "crates/record/src/"];

/// What opens a file by its path.
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

/// The files of those rooms that do so.
const STILL: &[&str] = &[
    "crates/machine/src/doctor/kernel.rs",
    "crates/machine/src/doctor/machine.rs",
    "crates/machine/src/doctor/timing.rs",
    "crates/machine/src/images.rs",
    "crates/machine/src/images/origin.rs",
    "crates/machine/src/live.rs",
    "crates/machine/src/local/counters.rs",
    "crates/machine/src/local/nodes.rs",
    "crates/machine/src/places.rs",
    "crates/machine/src/registry.rs",
    "crates/machine/src/state_file.rs",
    "crates/machine/src/suspended.rs",
    "crates/node/src/image/host.rs",
    "crates/node/src/image/save.rs",
    "crates/node/src/image/source.rs",
    "crates/node/src/kernel.rs",
    "crates/node/src/life.rs",
    "crates/node/src/own_files.rs",
    "crates/node/src/prepare.rs",
    "crates/run/src/desk.rs",
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
    match (STILL.contains(&path), found.is_empty()) {
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
        assert_eq!(at(STILL[0], text), [] as [usize; 0]);
        assert_eq!(at(STILL[0], "dir.read(name)"), [1], "the list only shrinks");
    }
}
