//! Compose files as Compose's own reader has them, compare `reference/main.go`.
//!
//! `reference/cases` has small Compose files by subject, and `reference/expected` what compose-go makes of each. So the
//! comparison needs no Go. `make conformance-compose` builds that reader, and sets COMPOSE_REFERENCE to it: then it is
//! asked again, and what it says must be what is kept. With COMPOSE_KEEP=1 it is kept instead.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use diorama_compose::{Options, project};
use serde_json::{Value, json};

/// Files that one takes and the other refuses, and why that is meant.
const MEANT: &[(&str, &str)] = &[
    ("no-services", "an experiment of nothing is none"),
    ("tag-unknown", "Compose drops a tag that it does not know without a word"),
];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference").join(name)
}

/// The cases of a subject, each in a folder of its name.
fn unpacked(text: &str, into: &Path) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut file: Option<(PathBuf, String)> = None;
    let write = |file: Option<(PathBuf, String)>| {
        if let Some((path, text)) = file {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    };
    for line in text.split_inclusive('\n') {
        let head = line.strip_prefix("-- ").and_then(|line| line.strip_suffix(" --\n"));
        match (head, &mut file) {
            (Some(path), _) => {
                let name = path.split('/').next().unwrap().to_owned();
                if names.last() != Some(&name) {
                    names.push(name);
                }
                write(file.take());
                file = Some((into.join(path), String::new()));
            }
            (None, Some((_, text))) => *text += line,
            (None, None) => panic!("`{line}` is in no file"),
        }
    }
    write(file);
    names
}

/// Converts a case with this crate, in the form of the reference.
fn ours(case: &Path) -> Value {
    let accounts = |_: &str| Err("nobody asks".to_owned());
    let options = Options { environment: &|_| None, profiles: &[], images: &|_| Ok(None), accounts: &accounts };
    match project(&[case.join("compose.yaml")], &options) {
        Ok(project) => {
            let text = project.to_string().replace(case.parent().unwrap().to_str().unwrap(), "/projects");
            sorted(serde_json::from_str(&text).unwrap())
        }
        Err(e) => json!({ "error": e.render() }),
    }
}

/// With numbers that are alike written alike.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let all: BTreeMap<String, Value> = map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            all.into_iter().collect()
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        Value::Number(number) => json!(number.as_f64()),
        other => other,
    }
}

fn asked(program: &str, cases: &[PathBuf]) -> BTreeMap<String, Value> {
    let out = Command::new(program).args(cases).env_clear().output().unwrap();
    assert!(out.status.success(), "{program}: {}", String::from_utf8_lossy(&out.stderr));
    let all: BTreeMap<String, Value> = serde_json::from_slice(&out.stdout).unwrap();
    all.into_iter().map(|(name, value)| (name, sorted(value))).collect()
}

/// Counts of comparisons.
#[derive(Default)]
struct Count {
    alike: usize,
    refused: usize,
    different: Vec<String>,
}

impl Count {
    fn compare(&mut self, case: &Path, expected: &Value) {
        let name = case.file_name().unwrap().to_str().unwrap();
        let ours = ours(case);
        let is_meant = MEANT.iter().any(|(case, _)| *case == name);
        match (expected.get("error"), ours.get("error")) {
            (Some(_), Some(_)) => self.refused += 1,
            (Some(_), None) | (None, Some(_)) if is_meant => {}
            (None, None) if ours == *expected => self.alike += 1,
            _ => self.different.push(format!("{name}:\n  Compose: {expected}\n  here:    {ours}")),
        }
    }
}

#[test]
fn compose_files_are_read_as_composes_own_reader_reads_them() {
    let reference = std::env::var("COMPOSE_REFERENCE").ok();
    let keep = std::env::var("COMPOSE_KEEP").is_ok_and(|keep| keep == "1");
    let mut count = Count::default();
    let mut subjects: Vec<PathBuf> =
        fs::read_dir(folder("cases")).unwrap().map(|entry| entry.unwrap().path()).collect();
    subjects.sort();
    for subject in subjects {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let names = unpacked(&fs::read_to_string(&subject).unwrap(), &root);
        let kept_in = folder("expected").join(subject.with_extension("json").file_name().unwrap());
        let kept = fs::read(&kept_in).ok().map(|text| serde_json::from_slice(&text).unwrap());
        let mut kept: BTreeMap<String, Value> = kept.unwrap_or_default();
        if let Some(program) = &reference {
            let said = asked(program, &names.iter().map(|name| root.join(name)).collect::<Vec<_>>());
            if keep {
                let lines: Vec<String> = said.iter().map(|(name, value)| format!("{}: {value}", json!(name))).collect();
                fs::write(&kept_in, format!("{{\n{}\n}}\n", lines.join(",\n"))).unwrap();
                kept = said.clone();
            }
            // Which of several mistakes it finds first is chance.
            let worded = |all: &BTreeMap<String, Value>| -> BTreeMap<String, Value> {
                let one = |value: &Value| if value.get("error").is_some() { json!("refused") } else { value.clone() };
                all.iter().map(|(name, value)| (name.clone(), sorted(one(value)))).collect()
            };
            assert_eq!(
                worded(&said),
                worded(&kept),
                "{}: COMPOSE_KEEP=1 keeps what the reference says now",
                kept_in.display()
            );
        }
        for name in names {
            let expected = kept.remove(&name).unwrap_or_else(|| panic!("{name}: nothing is kept"));
            count.compare(&root.join(&name), &sorted(expected));
        }
        assert!(kept.is_empty(), "{}: {:?} are no cases any more", kept_in.display(), kept.keys());
    }
    let Count { alike, refused, different } = count;
    println!("{alike} Compose files are alike, and {refused} are refused by both");
    assert!(different.is_empty(), "{} are different:\n{}", different.len(), different.join("\n"));
    assert!(alike >= 100 && refused >= 50);
}

#[test]
#[ignore = "asks a program in Go about files from elsewhere: make conformance-compose CASES=DIR"]
fn other_peoples_compose_files_are_read_alike() {
    let told = |name| std::env::var(name).unwrap_or_else(|_| panic!("{name} says where they are"));
    let (program, place) = (told("COMPOSE_REFERENCE"), told("COMPOSE_CASES"));
    let folders = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path().canonicalize().unwrap());
    let mut folders: Vec<PathBuf> = folders.filter(|folder| folder.join("compose.yaml").is_file()).collect();
    folders.sort();
    let said = asked(&program, &folders);
    let mut count = Count::default();
    for folder in folders {
        count.compare(&folder, &said[folder.file_name().unwrap().to_str().unwrap()]);
    }
    let Count { alike, refused, different } = count;
    println!("{alike} other Compose files are alike, and {refused} are refused by both");
    assert!(different.is_empty(), "{} are different:\n{}", different.len(), different.join("\n"));
}
