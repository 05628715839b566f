//! The pure half of the network cannot reach the machine, and no two files need each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// By module, as `links::pipe::red`: the text of its file without comments and tests.
fn modules() -> BTreeMap<String, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut found, mut open) = (BTreeMap::new(), vec![source.clone()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("the source is there") {
            let path = entry.expect("the source is there").path();
            if path.is_dir() && !path.ends_with("tests") {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
                found.insert(module(&source, &path), code(&fs::read_to_string(&path).expect("it can be read")));
            }
        }
    }
    found
}

fn module(source: &Path, file: &Path) -> String {
    let inside: PathBuf = file.strip_prefix(source).expect("it was found there").with_extension("");
    inside.to_str().expect("names are ASCII").replace('/', "::")
}

fn code(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines.windows(2).position(|w| w[0] == "#[cfg(test)]" && w[1].ends_with("mod tests {"));
    let product = &lines[..tests.unwrap_or(lines.len())];
    product.iter().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The paths that begin with `root` in a text, each name in braces a path of its own.
fn paths(text: &str, root: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(root) {
        let rest = &text[at + root.len()..];
        let path = |s: &str| s.chars().take_while(|c| c.is_alphanumeric() || "_:".contains(*c)).collect::<String>();
        let first = path(rest);
        match rest[first.len()..].strip_prefix('{').and_then(|list| list.split('}').next()) {
            Some(list) => found.extend(list.split(',').map(|item| first.clone() + &path(item.trim()))),
            None => found.push(first),
        }
    }
    found
}

/// By module: the others that it names.
fn needs(modules: &BTreeMap<String, String>) -> BTreeMap<&str, BTreeSet<&str>> {
    let of = |path: &str| {
        let parts: Vec<&str> = path.split("::").collect();
        let longest = (1..=parts.len()).rev().map(|n| parts[..n].join("::"));
        longest.filter_map(|p| modules.get_key_value(&p)).map(|(name, _)| name.as_str()).next()
    };
    let needed = |name: &String, text: &String| {
        let inside = paths(text, "self::").into_iter().map(|p| format!("{name}::{p}"));
        let all: BTreeSet<&str> = paths(text, "crate::").into_iter().chain(inside).filter_map(|p| of(&p)).collect();
        all.into_iter().filter(|other| other != name).collect()
    };
    modules.iter().map(|(name, text)| (name.as_str(), needed(name, text))).collect()
}

#[test]
fn no_two_files_need_each_other() {
    let modules = modules();
    let mut left = needs(&modules);
    assert!(left["links::network"].contains("links::pipe") && left["links::pipe"].contains("links::pipe::red"));
    // Whoever needs nobody that is left cannot be in a circle.
    while let Some(free) = left.iter().find(|(_, needs)| needs.iter().all(|n| !left.contains_key(n))) {
        let free = *free.0;
        left.remove(free);
    }
    assert!(left.is_empty(), "these need one another: {left:#?}");
}

#[test]
fn the_links_know_nothing_of_the_host() {
    let modules = modules();
    let needs = needs(&modules);
    let links: Vec<&String> = modules.keys().filter(|name| name.starts_with("links")).collect();
    assert!(links.len() > 10, "{links:?}");
    for name in links {
        let reached = needs[name.as_str()].iter().find(|other| other.starts_with("host"));
        assert_eq!(reached, None, "{name} is to be pure");
        for forbidden in
            ["host::", "rustix", "libc", "std::fs", "std::io", "std::os", "std::process", "std::thread", "std::time"]
        {
            assert!(!modules[name].contains(forbidden), "{name} is to make no system call, and has {forbidden}");
        }
        let addresses = |what: &String| ["Ipv4Addr", "Ipv6Addr"].contains(&what.as_str());
        assert!(paths(&modules[name], "std::net::").iter().all(addresses), "{name} opens a socket");
        assert!(!modules[name].contains("super::"), "{name}: write `crate::`, which this test reads");
    }
}
