//! The rules, applied to this repository. Fast, and without root: `cargo test -p diorama-rules`.

use std::fs;
use std::path::{Path, PathBuf};

use diorama_rules::{Breach, modules, names, pages, paths, rooms, test_files, words};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The files below a directory, by their paths from the root, with their texts.
fn files(below: &str, wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let root = root();
    let mut found = Vec::new();
    let mut open = vec![root.join(below)];
    while let Some(place) = open.pop() {
        let path = place.strip_prefix(&root).unwrap().to_str().unwrap().to_string();
        if place.is_dir() {
            open.extend(fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()));
        } else if wanted(&path) {
            let text = fs::read_to_string(&place).unwrap_or_else(|e| panic!("{path}: {e}"));
            found.push((path, text));
        }
    }
    found.sort();
    assert!(!found.is_empty(), "there is nothing in {below}");
    found
}

/// Files that people write: programs, and not data or what is compared with.
fn is_source(path: &str) -> bool {
    !path.contains("/target/") && [".rs", ".c", ".h", ".S", ".sh", ".py", ".go"].iter().any(|end| path.ends_with(end))
}

fn none(found: Vec<Breach>) {
    let told: Vec<String> = found.iter().map(Breach::to_string).collect();
    assert!(told.is_empty(), "{} places break the rule:\n{}", told.len(), told.join("\n"));
}

fn holds(rule: fn(&str, &str) -> Vec<Breach>) {
    none(files("crates", is_source).iter().flat_map(|(path, text)| rule(path, text)).collect());
}

#[test]
fn crates_depend_only_on_those_below_them() {
    let members = rooms::members(&fs::read_to_string(root().join("Cargo.toml")).unwrap());
    assert!(members.len() > 5, "the root's Cargo.toml names each crate with its path: {members:?}");
    let manifests = files("crates", |path| path.ends_with("/Cargo.toml") && path.split('/').count() == 3);
    let of_room = |(path, text): &(String, String)| rooms::breaches(path.split('/').nth(1).unwrap(), text, &members);
    none(manifests.iter().flat_map(of_room).collect());
}

#[test]
fn every_file_of_tests_is_run() {
    let all = files("crates", |path| path.ends_with(".rs"));
    let crates = files("crates", |path| path.ends_with("/Cargo.toml") && path.split('/').count() == 3);
    none(
        crates
            .iter()
            .flat_map(|(path, text)| test_files::forgotten(path.split('/').nth(1).unwrap(), text, &all))
            .collect(),
    );
}

#[test]
fn no_crate_is_one_knot_of_modules() {
    let all = files("crates", |path| path.ends_with(".rs"));
    let crates = files("crates", |path| path.ends_with("/Cargo.toml") && path.split('/').count() == 3);
    none(crates.iter().flat_map(|(path, _)| modules::knots(path.split('/').nth(1).unwrap(), all.iter())).collect());
}

#[test]
fn only_host_names_control_groups() {
    holds(words::control_groups);
}

#[test]
fn only_scale_calculates_with_the_factor() {
    holds(words::dilation);
}

#[test]
fn only_record_names_the_files_of_a_run_directory() {
    holds(words::run_directories);
}

#[test]
fn only_the_clock_traces_programs() {
    holds(words::tracing);
}

#[test]
fn rooms_that_run_as_root_open_and_touch_no_more_files_by_their_paths() {
    holds(paths::opened);
    holds(paths::touched);
}

#[test]
fn no_line_is_longer_than_120_columns() {
    holds(words::columns);
    none(files("scripts", |_| true).iter().flat_map(|(path, text)| words::columns(path, text)).collect());
}

#[test]
fn comments_name_their_thing_first() {
    holds(words::beginnings);
}

#[test]
fn comments_cite_only_what_is_in_the_repository() {
    holds(words::citations);
}

#[test]
fn pages_are_short_enough_to_be_read() {
    let docs = files("docs", |path| path.ends_with(".md"));
    none(docs.iter().filter_map(|(path, text)| pages::length(path, text)).collect());
    none(docs.iter().flat_map(|(path, text)| pages::rows(path, text)).collect());
    none(docs.iter().flat_map(|(path, text)| pages::merges(path, text)).collect());
}

#[test]
fn what_the_documentation_names_is_there() {
    let root = root();
    let mut pages = files("docs", |path| path.ends_with(".md"));
    pages.extend(
        ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
            .map(|page| (page.into(), fs::read_to_string(root.join(page)).unwrap())),
    );
    none(pages.iter().flat_map(|(path, text)| names::breaches(path, text, &root)).collect());
}
