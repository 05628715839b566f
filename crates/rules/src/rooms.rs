//! Which crate may depend on which.

use crate::Breach;

/// The crates of this workspace by the names of their directories, each with those that it may depend on.
///
/// `scale` and `host` are leaves (time, and this machine's kernel); the mechanisms know nothing of one another; only
/// the engine and the benchmark know all of them; the command line knows whom it asks.
const ROOMS: &[(&str, &[&str])] = &[
    ("scale", &[]),
    ("traffic", &[]),
    ("barrier", &[]),
    ("guest", &[]),
    ("model", &["scale", "disk", "guest", "traffic", "barrier"]),
    ("map", &["scale", "model"]),
    ("queue", &["host"]),
    ("compose", &["model"]),
    ("ns", &["model"]),
    ("counters", &["scale"]),
    ("host", &["scale", "counters"]),
    ("clock", &["scale", "host"]),
    ("net", &["scale", "host", "traffic"]),
    ("bpf-build", &[]),
    ("tcp", &["scale", "host", "bpf-build"]),
    ("cpu", &["scale", "counters", "host", "bpf-build"]),
    ("disk", &["scale"]),
    ("device", &["scale", "counters", "host", "disk"]),
    ("node", &["scale", "host"]),
    ("observe", &["scale", "counters", "host", "bpf-build"]),
    ("record", &["scale", "counters", "host"]),
    ("fidelity", &["record", "scale", "counters"]),
    ("report", &["record", "fidelity", "scale"]),
    ("site", &["scale", "counters", "record", "host", "net", "cpu", "disk", "device", "node", "guest"]),
    ("plan", &["scale", "model", "record", "site", "host", "net", "cpu", "clock", "tcp"]),
    (
        "run",
        &[
            "scale", "counters", "model", "record", "fidelity", "report", "site", "plan", "host", "net", "cpu",
            "device", "guest",
        ],
    ),
    (
        "machine",
        &[
            "scale", "counters", "model", "host", "clock", "net", "tcp", "cpu", "disk", "device", "node", "guest",
            "observe", "record", "fidelity", "traffic", "barrier", "site", "plan",
        ],
    ),
    ("dilate", &["scale", "host", "clock", "cpu", "machine"]),
    ("engine", &["scale", "model", "ns", "host", "observe", "record", "site", "plan", "run", "machine", "dilate"]),
    (
        "bench",
        &[
            "scale", "model", "host", "clock", "net", "tcp", "cpu", "disk", "device", "node", "record", "fidelity",
            "engine", "traffic",
        ],
    ),
    ("cli", &["map", "queue", "compose", "engine", "record", "fidelity", "report", "bench"]),
    ("trials", &["scale", "record", "fidelity", "report"]),
    ("rules", &[]),
];

/// Whom no test may need either: they stand at the top.
const TOPS: &[&str] = &["bench", "cli", "trials"];

/// The workspace's crates by the names that manifests use for them, from the root's `Cargo.toml`: `(name, directory)`.
pub fn members(root_manifest: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for line in root_manifest.lines() {
        let Some((name, value)) = line.split_once('=') else { continue };
        let Some((_, path)) = value.split_once("path = \"crates/") else { continue };
        let directory = path.split('"').next().unwrap_or_default();
        found.push((name.trim().to_string(), directory.to_string()));
    }
    found
}

/// Faults of the dependencies in the manifest of the crate in `crates/DIRECTORY`.
pub fn breaches(directory: &str, manifest: &str, members: &[(String, String)]) -> Vec<Breach> {
    let path = format!("crates/{directory}/Cargo.toml");
    let Some((_, allowed)) = ROOMS.iter().find(|(room, _)| *room == directory) else {
        let says = "a crate that no rule knows: say in crates/rules/src/rooms.rs what it may depend on, and in \
                    docs/architecture.md what it is for";
        return vec![Breach::new(&path, 1, says)];
    };
    let mut found = Vec::new();
    let mut section = String::new();
    for (number, line) in manifest.lines().enumerate() {
        let line = line.trim();
        let dependency = if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']').to_string();
            // [dependencies.NAME], also of one target only.
            let Some((table, name)) = section.clone().rsplit_once('.').map(|(t, n)| (t.to_string(), n.to_string()))
            else {
                continue;
            };
            if !table.ends_with("dependencies") {
                continue;
            }
            section = table;
            name
        } else if section.ends_with("dependencies") && !line.starts_with('#') {
            line.split(['=', '.', ' ']).next().unwrap_or_default().trim_matches('"').to_string()
        } else {
            continue;
        };
        let Some((_, room)) = members.iter().find(|(name, _)| *name == dependency) else { continue };
        let for_tests = section.ends_with("dev-dependencies");
        let may = allowed.contains(&room.as_str()) || (for_tests && !TOPS.contains(&room.as_str()));
        if !may {
            let says = match for_tests {
                true => format!("the tests of `{directory}` may not need `{room}`, which stands above all others"),
                false => format!(
                    "`{directory}` may not depend on `{room}`, only on {}: what it needs of it belongs into one of \
                     these, or is handed to it by the engine",
                    listed(allowed)
                ),
            };
            found.push(Breach::new(&path, number + 1, says));
        }
    }
    found
}

fn listed(rooms: &[&str]) -> String {
    match rooms {
        [] => "no crate of the workspace".into(),
        _ => format!("`{}`", rooms.join("`, `")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "[workspace.dependencies]\nscale = { package = \"diorama-scale\", path = \"crates/scale\" }\n\
        net = { package = \"diorama-net\", path = \"crates/net\" }\nclock = { path = \"crates/clock\" }\n\
        engine = { path = \"crates/engine\" }\nbench = { path = \"crates/bench\" }\nclap = { version = \"4\" }\n";

    fn lines(directory: &str, manifest: &str) -> Vec<usize> {
        breaches(directory, manifest, &members(ROOT)).iter().map(|b| b.line).collect()
    }

    #[test]
    fn members_are_read_from_the_roots_manifest() {
        assert_eq!(members(ROOT)[1], ("net".to_string(), "net".to_string()));
        assert_eq!(members(ROOT).len(), 5);
    }

    #[test]
    fn a_mechanism_knows_no_other() {
        assert_eq!(lines("net", "[dependencies]\nscale.workspace = true\nclap.workspace = true\n"), []);
        assert_eq!(lines("net", "[dependencies]\nscale.workspace = true\nclock = { workspace = true }\n"), [3]);
        assert_eq!(lines("net", "[dependencies.clock]\nworkspace = true\n"), [1]);
        assert_eq!(lines("net", "[target.'cfg(unix)'.dependencies]\n# clock\nclock.workspace = true\n"), [3]);
        assert_eq!(lines("net", "[build-dependencies]\nclock.workspace = true\n"), [2]);
        assert_eq!(lines("net", "[package]\nclock = \"x\"\n"), []);
        let one = &breaches("net", "[dependencies]\nclock.workspace = true", &members(ROOT))[0];
        let text = one.to_string();
        assert!(text.starts_with("crates/net/Cargo.toml:2: `net` may not depend on `clock`, only on `scale`, `host`"));
    }

    #[test]
    fn tests_may_need_more_but_not_the_top() {
        assert_eq!(lines("net", "[dev-dependencies]\nclock.workspace = true\nbench.workspace = true\n"), [3]);
        assert_eq!(lines("cli", "[dependencies]\nengine.workspace = true\nbench.workspace = true\n"), []);
        assert_eq!(lines("engine", "[dependencies]\nhost.workspace = true\nbench.workspace = true\n"), [3]);
    }

    #[test]
    fn a_new_crate_needs_a_rule() {
        assert!(breaches("attic", "[package]\n", &[])[0].says.contains("no rule knows"));
    }
}
