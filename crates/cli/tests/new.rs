//! `diorama new` and `diorama explain`: what they write can be checked and run, and everything is explained.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::Lab;
use serde_json::Value;

const TEMPLATES: &[&str] = &["two-nodes", "web", "three-tiers", "cluster", "lan"];

fn diorama(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_diorama")).current_dir(dir).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_template_can_be_checked_and_nothing_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    for template in TEMPLATES {
        let made = diorama(dir.path(), &["new", template, "mine"]);
        assert_eq!(made.status.code(), Some(0), "{template}: {}", text(&made.stderr));
        assert!(text(&made.stdout).contains("mine/experiment.yaml\n"), "{}", text(&made.stdout));
        let checked = diorama(dir.path(), &["check", "mine", "--json"]);
        assert_eq!(checked.status.code(), Some(0), "{template}: {}", text(&checked.stderr));
        let plan: Value = serde_json::from_slice(&checked.stdout).unwrap();
        assert_eq!(plan["experiment"], "mine", "{template}");
        // Editors find the schema that its first line names.
        let file = fs::read_to_string(dir.path().join("mine/experiment.yaml")).unwrap();
        let schema = file.lines().next().unwrap().rsplit_once('=').unwrap().1;
        let schema: Value = serde_json::from_slice(&fs::read(dir.path().join("mine").join(schema)).unwrap()).unwrap();
        assert!(schema["properties"]["nodes"].is_object());

        fs::write(dir.path().join("mine/experiment.yaml"), "mine\n").unwrap();
        let refused = diorama(dir.path(), &["new", template, "mine"]);
        assert_eq!(refused.status.code(), Some(2), "{template}");
        assert!(text(&refused.stderr).contains("mine/experiment.yaml is there already"), "{}", text(&refused.stderr));
        assert_eq!(fs::read_to_string(dir.path().join("mine/experiment.yaml")).unwrap(), "mine\n");
        fs::remove_dir_all(dir.path().join("mine")).unwrap();
    }
    let unknown = diorama(dir.path(), &["new", "webs"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("three-tiers"), "{}", text(&unknown.stderr));
}

#[test]
fn the_first_template_runs_as_it_is() {
    let lab = Lab::new("");
    assert_eq!(lab.diorama(&["new"]).code, 0);
    let run = ["run", "two-nodes", "--variant", "baseline", "--set", "measure=0s..2s"];
    let done =
        lab.diorama(&[&run[..], &["--set", "nodes.client.run=python3 /srv/client.py http://server/GPL-3 2"]].concat());
    assert_eq!(done.code, 0, "{}", done.stderr);
    let latency = &lab.result("two-nodes/baseline").metrics["latency"].summary;
    // A handshake and a request are two round trips of 10 ms.
    assert!(latency.n > 5 && latency.p50 > 20.0, "{latency:?}");
}

#[test]
fn every_check_and_every_key_of_the_schema_is_explained() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let schema = fs::read_to_string(here.join("../../schema/experiment.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let mut words = BTreeSet::new();
    for (key, of) in schema["properties"].as_object().unwrap() {
        words.insert(key.clone());
        // The keys of what is in a list or a map of things: `links.delay`.
        let one = [&of["items"], &of["additionalProperties"]].into_iter().find_map(|one| one["$ref"].as_str());
        let Some(name) = one.and_then(|one| one.rsplit('/').next()) else { continue };
        let keys = schema["definitions"][name]["properties"].as_object().into_iter().flatten();
        words.extend(keys.map(|(inner, _)| format!("{key}.{inner}")));
    }
    collect(&schema, &mut words);
    assert!(words.len() > 150 && words.contains("links.delay") && words.contains("max_p"), "{words:?}");
    let explain = |word: &str| diorama(here, &["explain", word]);
    let missing: Vec<_> = words.iter().filter(|word| explain(word).status.code() != Some(0)).collect();
    assert!(missing.is_empty(), "docs explain no {missing:?}");

    let checks = include_str!("../../record/src/result.rs")
        .lines()
        .filter_map(|line| line.trim().strip_prefix("CheckName::")?.split_once("=> \"")?.1.strip_suffix("\","));
    let checks: Vec<_> = checks.collect();
    assert!(checks.len() > 10, "{checks:?}");
    for check in checks {
        let told = text(&explain(check).stdout);
        let (row, paragraph) = ("effect on times: ", format!("\n  {check}. "));
        assert!(told.contains(row) && told.contains(&paragraph), "{check}: {told}");
    }
    let unknown = explain("latenes");
    assert!(unknown.status.code() == Some(2) && unknown.stdout.is_empty(), "{}", text(&unknown.stdout));
}

/// All names of properties, however deep.
fn collect(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            let properties = object.get("properties").and_then(Value::as_object);
            into.extend(properties.into_iter().flatten().map(|(key, _)| key.clone()));
            object.values().for_each(|inner| collect(inner, into));
        }
        Value::Array(array) => array.iter().for_each(|inner| collect(inner, into)),
        _ => {}
    }
}
