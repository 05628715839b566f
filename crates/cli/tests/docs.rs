//! The documentation as readers use it: every link inside the repository leads somewhere, every page is on the map, and
//! the page on the command line has what the program offers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// All Markdown files of the repository, relative to its root; not what builds and runs leave in it.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).expect("a readable folder").flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            let path = folder.join(&name);
            let built = ["target", "runs"].contains(&name.as_str());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !name.starts_with('.') && !built => folders.push(path),
                Ok(kind) if kind.is_file() && name.ends_with(".md") => pages.push(path),
                _ => {}
            }
        }
    }
    pages
}

/// The lines of a page that are text: without those between fences of code.
fn text_lines(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    page.lines().zip(1..).filter_map(move |(line, number)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((number, line))
    })
}

/// Where the links of a page lead, as `[text](target)` has it, with the line. Brackets in spans of code mean nothing; a
/// span may go over lines, and ends with its paragraph.
fn links_of(page: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    let mut in_code = false;
    for (number, line) in text_lines(page) {
        in_code &= !line.trim().is_empty();
        let mut text = String::new();
        for c in line.chars() {
            match c {
                '`' => in_code = !in_code,
                _ if in_code => {}
                _ => text.push(c),
            }
        }
        for (at, open) in text.match_indices("](") {
            let rest = &text[at + open.len()..];
            links.push((number, rest[..rest.find(')').unwrap_or(rest.len())].to_owned()));
        }
    }
    links
}

/// The anchors of a page's headings, made as GitHub makes them: in lower case, without punctuation, hyphens for spaces;
/// a second heading of the same name has `-1` behind it.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings = text_lines(page).filter_map(|(_, line)| {
        let text = line.trim_start_matches('#');
        (text.len() < line.len() && text.starts_with(' ')).then(|| text.trim())
    });
    headings
        .map(|heading| {
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            let name: String = kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect();
            let count = seen.entry(name.clone()).or_default();
            *count += 1;
            if *count == 1 { name } else { format!("{name}-{}", *count - 1) }
        })
        .collect()
}

/// A path without `.` and `..`; `None` if it leaves the repository.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop().then_some(())?;
            }
            _ => {}
        }
    }
    Some(plain)
}

/// The mistake in a link on `page`, if there is one.
fn broken(root: &Path, page: &Path, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = if file.is_empty() { page.to_owned() } else { page.parent()?.join(file) };
    let Some(target) = plain(&target) else { return Some("it leads out of the repository".into()) };
    let target = root.join(target);
    if !target.exists() {
        return Some("there is no such file".into());
    }
    let anchor = anchor?;
    let Ok(text) = fs::read_to_string(&target) else { return Some("what has no headings has no anchors".into()) };
    (!anchors(&text).contains(anchor)).then(|| format!("no heading there gives the anchor `{anchor}`"))
}

#[test]
fn every_link_leads_somewhere() {
    let root = root();
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in pages(&root) {
        let text = fs::read_to_string(root.join(&page)).expect("a page");
        for (line, link) in links_of(&text) {
            count += 1;
            let what = broken(&root, &page, &link);
            wrong.extend(what.map(|what| format!("{}:{line}: {link}: {what}", page.display())));
        }
    }
    assert!(count > 100, "only {count} links were found: does the test still see them?");
    assert!(wrong.is_empty(), "broken links:\n{}", wrong.join("\n"));
}

#[test]
fn every_page_is_on_the_map() {
    let root = root();
    // The notebook has a list of its own pages, to which the map leads.
    let of = |folder: &str| {
        let map = fs::read_to_string(root.join(folder).join("README.md")).expect("the map");
        let linked = links_of(&map).into_iter().filter_map(|(_, link)| plain(&Path::new(folder).join(link)));
        linked.collect::<BTreeSet<_>>()
    };
    let mut linked = of("docs");
    assert!(linked.contains(Path::new("docs/notebook/README.md")));
    linked.extend(of("docs/notebook"));
    let missing: Vec<_> = pages(&root)
        .into_iter()
        .filter(|page| page.starts_with("docs") && page != Path::new("docs/README.md") && !linked.contains(page))
        .collect();
    assert!(missing.is_empty(), "docs/README.md does not lead to {missing:?}");
}

#[test]
fn the_command_line_has_its_page() {
    let page = fs::read_to_string(root().join("docs/command-line.md")).expect("the page");
    let help = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_diorama")).args(args).output().expect("the program");
        String::from_utf8(output.stdout).expect("text")
    };
    let all = help(&["--help"]);
    let listed = all.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let verbs: Vec<&str> = listed.filter_map(|line| line.split_whitespace().next()).filter(|v| *v != "help").collect();
    assert!(verbs.contains(&"run"), "{all}");
    let mut missing = Vec::new();
    for verb in verbs {
        let Some((_, section)) = page.split_once(&format!("\n## `diorama {verb}`\n")) else {
            missing.push(verb.to_owned());
            continue;
        };
        let section = section.split("\n## ").next().unwrap_or_default();
        let help = help(&[verb, "--help"]);
        // Those that are explained, one a line; text that mentions others does not begin so.
        let options = help
            .lines()
            .filter_map(|line| line.split_whitespace().take(2).find(|w| w.starts_with("--") && *w != "--help"));
        missing.extend(options.filter(|option| !section.contains(option)).map(|option| format!("{verb} {option}")));
    }
    assert!(missing.is_empty(), "docs/command-line.md does not have {missing:?}");
}

#[test]
fn broken_links_are_seen() {
    let page = "# A page\n\n## The *x*, and `y`\n## Twice\n## Twice\n```\n# no heading\n```\n";
    let names = anchors(page);
    assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), ["a-page", "the-x-and-y", "twice", "twice-1"]);
    assert_eq!(links_of("[a](b.md#c) and `[x](y)`, [`d\ne`](f)\n"), [(1, "b.md#c".into()), (2, "f".into())]);
    let root = root();
    let here = Path::new("docs/README.md");
    assert_eq!(broken(&root, here, "architecture.md#the-rooms"), None);
    for link in ["nowhere.md", "architecture.md#nowhere", "#nowhere", "../../README.md"] {
        assert!(broken(&root, here, link).is_some(), "{link}");
    }
}
