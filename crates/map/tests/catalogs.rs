//! Catalogs in YAML and Emulab's files: what is read of them, and what is said of those that are wrong.

#[path = "../../model/tests/stored/mod.rs"]
mod stored;

use std::path::{Path, PathBuf};

use crate::families::TERMS;
use diorama_map::{
    Error, Harness, Kind, Way, Weights, catalog_schema, harness_of_user, load_harness, load_reachable, load_top, map,
};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name)
}

/// A file of its own for a test.
fn written(dir: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn rendered<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().render()
}

#[test]
fn a_catalog_is_read() {
    let lab: Harness = load_harness(&file("lab.yaml")).unwrap();
    let names: Vec<&str> = lab.places.iter().map(|place| place.name.as_str()).collect();
    assert_eq!(names, ["pc-1", "pc-2", "pc-3", "pc-4", "big", "rack-a", "rack-b"]);
    let (pc, big) = (&lab.places[1], &lab.places[4]);
    assert_eq!((pc.slots, pc.memory_bytes, pc.cpu.unwrap().cores), (Some(3), Some(4 << 30), 2));
    assert_eq!((big.slots, big.inside_bits_per_s), (None, Some(2e10)));
    let features: Vec<_> = big.features.iter().map(|f| (f.name.as_str(), f.value, f.used_up)).collect();
    assert_eq!(features, [("ssd", 0.5, false), ("gpus", 2.0, true)]);
    let cables: Vec<_> = lab.cables.iter().map(|cable| (cable.name.as_str(), cable.bits_per_s)).collect();
    assert_eq!(cables[..3], [("pc-1--rack-a/1", 1e9), ("pc-1--rack-a/2", 1e9), ("pc-2--rack-a/1", 1e9)]);
    assert_eq!(cables[8..], [("big--rack-b", 1e10), ("rack-a--rack-b", 2e10)], "trunks are used as one");
    assert_eq!(lab.type_limits, [("pc".to_owned(), 5)]);
}

#[test]
fn all_that_is_wrong_with_a_catalog_is_told_with_its_place() {
    let message = rendered(load_harness(&file("wrong.yaml")));
    assert!(message.starts_with("the catalog cannot be used"), "{message}");
    for part in [
        "wrong.yaml:2:26",
        "`cores` is at least 1",
        "`a b` cannot be a name",
        "a speed is that of cores",
        "`3` is out of range",
        "wrong.yaml:4:11",
        "did you mean `slots`?",
        "called `fast` already",
        "`pd-*` matches no machine or switch",
        "there is no machine or switch `nowhere`",
        "wrong.yaml:11:5",
        "`u--s` closes a circle of switches (u, t, s)",
        "`s` is a switch: paths are between machines",
        "wrong.yaml:15:5",
        "is there already: remove one",
        "no machine has the type `pc`",
    ] {
        assert!(message.contains(part), "no {part} in\n{message}");
    }
    let dir = tempfile::tempdir().unwrap();
    for (text, part) in [
        ("[]", "a catalog is a map"),
        ("switches: [s]", "the key `machines` is missing"),
        ("machines: {}", "`machines` is empty"),
        ("machines: { a: {} }\ncable: []", "did you mean `cables`?"),
        ("machines: { a: {} }\nswitches:", "`switches` has no value"),
        ("machines: { a: { count: 20000 } }", "more than 10000 machines"),
        ("machines: { a: {} }\ncables: [{ from: a, to: a, bandwidth: 1Gbit/s }]", "joins `a` with itself"),
        (
            "machines: { a: {} }\nswitches: [s, t]\ncables: [{ from: s, to: t, bandwidth: 1Gbit/s }, \
             { from: t, to: s, bandwidth: 1Gbit/s }]",
            "with `count: 2` if they are bundled",
        ),
        ("machines: { a: { memory: 4 } }", "has no unit"),
    ] {
        let message = rendered(load_harness(&written(&dir, "x.yaml", text)));
        assert!(message.contains(part), "{text}: no {part} in\n{message}");
    }
    let message = rendered(load_harness(&dir.path().join("none.yaml")));
    assert!(message.contains("none.yaml") && message.contains("--machines names the catalog"), "{message}");
}

#[test]
fn emulabs_files_are_read_and_mapped() {
    let harness = load_harness(&file("lab.ptop")).unwrap();
    let (m1, sw) = (&harness.places[0], &harness.places[3]);
    assert_eq!((m1.slots, m1.inside_bits_per_s, m1.switch), (Some(3), Some(4e8), false));
    assert!(sw.switch && sw.types[0].always && sw.types[0].slots.is_none());
    assert!(harness.places[2].unique);
    assert_eq!(harness.cables[2].bits_per_s, 1e9);
    assert_eq!(harness.cables[2].kinds, ["ethernet"]);
    assert_eq!(harness.type_limits, [("pcvm".to_owned(), 5)]);
    assert!(harness.notes[0].contains("how many links a cable takes"), "{:?}", harness.notes);

    let request = load_top(&file("lab.top")).unwrap();
    let [a, .., d, segment] = &request.nodes[..] else { panic!("{request:?}") };
    assert_eq!((a.kind.clone(), &a.wants[..]), (Kind::Type("pcvm".into()), &[("ram".to_owned(), 900.0)][..]));
    assert_eq!((d.kind.clone(), d.on.as_deref()), (Kind::Class(0), Some("m3")));
    assert_eq!(segment.kind, Kind::Type("lan".into()));
    assert_eq!(request.nodes[2].hint.as_deref(), Some("m1"));
    let [ab, .., ds] = &request.links[..] else { panic!("{request:?}") };
    assert_eq!((ab.bits_per_s, ab.shares, ab.inside, ab.kind.as_deref()), (Some(8e7), true, true, Some("ethernet")));
    assert_eq!((ds.shares, ds.inside, ds.kind.as_deref()), (true, false, None));

    let plan = map(&request, &harness, &TERMS, Weights::default(), 1).unwrap();
    assert!(plan.fits, "{:?}", plan.violations);
    let on = |node: &str| plan.nodes[node].machine.as_str();
    // Two of the three have room for their memory on one machine, and those with the fastest link are together.
    assert_eq!((on("a"), on("b"), on("c")), ("m2", "m2", "m1"), "who wants what is fast has it");
    assert_eq!((on("d"), on("segment")), ("m3", "sw"));
    assert_eq!(plan.links["d-segment"], ["m3-sw"]);
    assert!(!plan.links.contains_key("a-b"), "inside a machine");
}

#[test]
fn what_is_wrong_with_emulabs_files_is_told_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    for (text, parts) in [
        ("node a pc\n", &["x.ptop:1:8", "write TYPE:COUNT"][..]),
        ("node a pc:1 - fast\n", &["x.ptop:1:15", "write NAME:NUMBER"]),
        ("node a pc:1 - - slow\n", &["there is no flag `slow`"]),
        ("node a pc:1\nlink l a b 100 0 0\n", &["x.ptop:2:10", "there is no node `b`"]),
        ("node a pc:1\nnode b pc:1\nlink l a b 100 0\n", &["x.ptop:3:16", "a loss is missing"]),
        ("node a pc:1\nnode b pc:1\nlink l a b fast 0 0\n", &["x.ptop:3:12", "`fast` is not a bandwidth in kbit/s"]),
        ("node a pc:1\nnode a pc:1\n", &["x.ptop:2:6", "called `a` already"]),
        ("nod a pc:1\n", &["x.ptop:1:1", "did you mean `node`?"]),
        ("# nothing\n", &["no line begins with `node`"]),
        (
            "node a switch:1\nnode b switch:1\nnode c switch:1\nlink x a b 9 0 0\nlink y b c 9 0 0\nlink z c a 9 0 0\n",
            &["x.ptop:6:1", "`z` closes a circle of switches (c, b, a)"],
        ),
    ] {
        let message = rendered(load_harness(&written(&dir, "x.ptop", text)));
        parts.iter().for_each(|part| assert!(message.contains(part), "{text}: no {part} in\n{message}"));
    }
    for (text, parts) in [
        ("node a\n", &["x.top:1:6", "its type is missing"][..]),
        ("node a pc:x\n", &["TYPE:SLOTS"]),
        ("node a pc ram\n", &["x.top:1:11", "is no feature"]),
        ("node a pc\nfix-node b m\n", &["x.top:2:10", "there is no node `b`"]),
        ("node a pc\nnode b pc\nlink l a b 1 0 0 ethernet emulatd\n", &["x.top:3:27", "there is no flag `emulatd`"]),
        ("make-vclass c 1\nnode a c\n", &["x.top:1:13", "at least one type"]),
    ] {
        let message = rendered(load_top(&written(&dir, "x.top", text)));
        parts.iter().for_each(|part| assert!(message.contains(part), "{text}: no {part} in\n{message}"));
    }
    // Two trunks between two switches are no circle there: such files list each cable.
    let text = "node m pc:1\nnode a switch:1\nnode b switch:1\nlink x a b 9 0 0\nlink y b a 9 0 0\n";
    let harness = load_harness(&written(&dir, "y.ptop", text)).unwrap();
    assert_eq!((harness.cables.len(), harness.cables[0].bits_per_s), (1, 18e3));
    assert!(harness.notes[0].contains("taken as one"), "{:?}", harness.notes);
}

#[test]
fn a_harness_file_says_how_each_machine_is_reached() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"
machines:
  a: { ssh: root@a.lab, cores: 7 }
  b: { command: [docker, exec, -i, x, diorama, site] }
  v6: { ssh: "fe80::1%eth0" }
switches: [s]
"#;
    let file = written(&dir, "lab.yaml", text);
    let lab = load_reachable(&file).unwrap();
    let ways: Vec<_> = lab.places.iter().map(|place| place.way.as_ref().map(Way::argv)).collect();
    let ssh = |host: &str| {
        let words = "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=2 --";
        Some(words.split(' ').chain([host, "diorama site"]).map(String::from).collect::<Vec<_>>())
    };
    let command = Some(["docker", "exec", "-i", "x", "diorama", "site"].map(String::from).to_vec());
    assert_eq!(ways, [ssh("root@a.lab"), command, ssh("fe80::1%eth0"), None]);
    // It is a catalog, too.
    assert_eq!(load_harness(&file).unwrap(), lab);
}

#[test]
fn all_that_is_wrong_with_a_harness_file_is_told_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    for (machines, at, part) in [
        ("a: { cores: 2 }", "2:3", "there is no way to `a`: add `ssh: user@host`"),
        ("a: { ssh: h, command: [x] }", "2:25", "here are `ssh` and `command`: remove one"),
        ("a: { ssh: h }\n  a: { ssh: i }", "3:3", "`a`"),
        ("a: { ssh: u@h }\n  b: { ssh: u@h }", "3:13", "this is the way to `a` already"),
        ("a: { command: [x, y] }\n  b: { command: [x, y] }", "3:17", "this is the way to `a` already"),
        ("\"a b\": { ssh: h }", "2:3", "`a b` cannot be a name"),
        ("a: { count: 2, ssh: h }", "2:15", "without `count`"),
        ("a: { ssh: \"-oProxyCommand=x\" }", "2:13", "names no host for ssh"),
        ("a: { ssh: \"-l@h\" }", "2:13", "names no host for ssh"),
        ("a: { ssh: \"u@h;reboot\" }", "2:13", "names no host for ssh"),
        ("a: { ssh: \"@h\" }", "2:13", "names no host for ssh"),
        ("a: { ssh: [h] }", "2:13", "this is a list: write text"),
        ("a: { command: diorama site }", "2:17", "write a list, such as [diorama site]"),
        ("a: { command: [] }", "2:17", "a command has a word at least"),
        ("a: { command: [\"\", x] }", "2:18", "the first word of a command names a program"),
        ("a: { command: [x, \"\\0\"] }", "2:21", "NUL"),
        ("a: { kubernetes: { context: c, namespace: n, selector: l=v } }", "2:20", "pods cannot be sites yet"),
        ("a: { kubernetes: { pod: c } }", "2:22", "there is no key `pod` here"),
        ("a: { shh: h }", "2:8", "did you mean `ssh`?"),
    ] {
        let message = rendered(load_reachable(&written(&dir, "h.yaml", &format!("machines:\n  {machines}\n"))));
        assert!(message.starts_with("the harness file cannot be used"), "{message}");
        assert!(message.contains(&format!("h.yaml:{at}")), "{machines}: not at {at}:\n{message}");
        assert!(message.contains(part), "{machines}: no {part} in\n{message}");
    }
    let message = rendered(load_reachable(&dir.path().join("none.yaml")));
    assert!(message.contains("--harness names the file"), "{message}");
    let message = rendered(load_reachable(&written(&dir, "h.ptop", "node a pc:1\n")));
    assert!(message.contains("h.ptop") && message.contains("no way to a machine"), "{message}");
}

#[test]
fn the_users_configuration_names_a_harness() {
    let dir = tempfile::tempdir().unwrap();
    let message = rendered(harness_of_user(dir.path()));
    assert!(message.contains("config.yaml") && message.contains("write `harness: FILE`"), "{message}");
    written(&dir, "config.yaml", "harness: labs/one.yaml\n");
    assert_eq!(harness_of_user(dir.path()).unwrap(), dir.path().join("labs/one.yaml"));
    written(&dir, "config.yaml", "harness: /etc/lab.yaml\n");
    assert_eq!(harness_of_user(dir.path()).unwrap(), Path::new("/etc/lab.yaml"));
    written(&dir, "config.yaml", "harnes: x\n");
    let message = rendered(harness_of_user(dir.path()));
    assert!(message.contains("config.yaml:1:1") && message.contains("did you mean `harness`?"), "{message}");
}

/// The schema for editors is generated from the types that the file is read into.
#[test]
fn the_schema_of_catalogs_is_current() {
    let keys = ["machines", "switches", "cables", "paths", "limits"];
    stored::must_be_current(
        "catalog.schema.json",
        &catalog_schema(),
        &keys,
        "-p diorama-map --test catalogs the_schema_of_catalogs_is_current",
    );
}
