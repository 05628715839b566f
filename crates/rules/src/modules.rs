//! Import cycles between the modules of a crate: a knot that is too large to be read at once.
//!
//! Between crates the compiler allows no cycle; between modules it does. Modules that all import one another, directly
//! or around a corner, can only be understood together. What a module takes from a re-export counts as taken from where
//! it is defined, so a crate's root may name what its modules offer. What it takes from a module that it lies in does
//! not count: it is a part of that one, which is read first.

use std::collections::{BTreeMap, BTreeSet};

use crate::Breach;
use crate::text::lines;

/// As many lines of code may be in one cycle, without tests and comments: three files of the usual size.
pub const LARGEST: usize = 1000;

/// A module by its path from the crate's root, which is the empty one.
type Module = Vec<String>;

/// A file of a crate, as far as its imports go.
struct File {
    path: String,
    /// Lines of code.
    size: usize,
    /// All paths that it names.
    named: Vec<Vec<String>>,
}

/// The cycles of modules in `crates/NAME` that are larger than [`LARGEST`]; `files` are all of the repository.
pub fn knots<'a>(name: &str, files: impl Iterator<Item = &'a (String, String)>) -> Vec<Breach> {
    let knots = cycles(name, files).into_iter().filter(|(size, _)| *size > LARGEST);
    let breach = |(size, modules): (usize, Vec<String>)| {
        let says = format!(
            "{} modules with {size} lines of code import one another in a circle, and {LARGEST} lines are the most: \
             {}; move what several need below all of them",
            modules.len(),
            modules.join(", ")
        );
        Breach::new(&format!("crates/{name}/src"), 1, says)
    };
    knots.map(breach).collect()
}

/// All cycles, each with its size and its modules, the largest first.
pub fn cycles<'a>(name: &str, files: impl Iterator<Item = &'a (String, String)>) -> Vec<(usize, Vec<String>)> {
    let src = format!("crates/{name}/src/");
    let mut modules: BTreeMap<Module, File> = BTreeMap::new();
    let mut exported: BTreeMap<(Module, String), Vec<String>> = BTreeMap::new();
    for (path, text) in files.filter(|(path, _)| path.starts_with(&src) && path.ends_with(".rs")) {
        let module = module_of(&path[src.len()..]);
        let code: Vec<String> = lines(path, text).into_iter().filter(|line| !line.test).map(|line| line.code).collect();
        let size = code.iter().filter(|line| !line.trim().is_empty()).count();
        let (imports, named) = paths_in(&code.join("\n"));
        for (public, import) in &imports {
            if let (true, Some(last)) = (*public, import.last()) {
                exported.insert((module.clone(), last.clone()), import.clone());
            }
        }
        let named = imports.into_iter().map(|(_, path)| path).chain(named).collect();
        let file = modules.entry(module).or_insert_with(|| File { path: path.clone(), size: 0, named: Vec::new() });
        file.size += size;
        file.named.extend::<Vec<_>>(named);
    }
    let edges: BTreeMap<&Module, BTreeSet<Module>> = modules
        .iter()
        .map(|(module, file)| {
            let targets = file.named.iter().filter_map(|path| target(module, path, &modules, &exported, 0));
            (module, targets.filter(|to| !module.starts_with(to)).collect())
        })
        .collect();
    let mut found: Vec<(usize, Vec<String>)> = Vec::new();
    let mut seen: BTreeSet<&Module> = BTreeSet::new();
    let reach: BTreeMap<&Module, BTreeSet<Module>> = edges.keys().map(|from| (*from, reached(from, &edges))).collect();
    for module in modules.keys() {
        let circle: Vec<&Module> =
            modules.keys().filter(|other| reach[module].contains(*other) && reach[*other].contains(module)).collect();
        if circle.len() > 1 && seen.insert(circle[0]) {
            let size = circle.iter().map(|module| modules[*module].size).sum();
            let shown = circle.iter().map(|module| modules[*module].path[src.len()..].to_string()).collect();
            found.push((size, shown));
        }
    }
    found.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    found
}

/// All modules that can be reached from one.
fn reached(from: &Module, edges: &BTreeMap<&Module, BTreeSet<Module>>) -> BTreeSet<Module> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&Module> = vec![from];
    while let Some(module) = open.pop() {
        for next in &edges[module] {
            if reached.insert(next.clone())
                && let Some((next, _)) = edges.get_key_value(next)
            {
                open.push(next);
            }
        }
    }
    reached
}

/// `a/b.rs` is `a::b`, and `a/mod.rs` is `a`.
fn module_of(file: &str) -> Module {
    let mut module: Module = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| last == "mod") || matches!(file, "lib.rs" | "main.rs") {
        module.pop();
    }
    module
}

/// The module in which a path that `module` names is defined; none if that is no module of the crate.
fn target(
    module: &Module,
    path: &[String],
    modules: &BTreeMap<Module, File>,
    exported: &BTreeMap<(Module, String), Vec<String>>,
    depth: usize,
) -> Option<Module> {
    let (mut at, mut rest) = match path.first()?.as_str() {
        "crate" => (Module::new(), &path[1..]),
        "self" => (module.clone(), &path[1..]),
        "super" => {
            let ups = path.iter().take_while(|word| *word == "super").count();
            (module.get(..module.len().checked_sub(ups)?)?.to_vec(), &path[ups..])
        }
        // A module below this one, by its name alone.
        child => {
            let below: Module = module.iter().cloned().chain([child.to_owned()]).collect();
            modules.contains_key(&below).then(|| (below, &path[1..]))?
        }
    };
    while let Some((next, after)) = rest.split_first() {
        let below: Module = at.iter().cloned().chain([next.clone()]).collect();
        if !modules.contains_key(&below) {
            break;
        }
        (at, rest) = (below, after);
    }
    let name = rest.first().filter(|_| depth < 8);
    match name.and_then(|name| exported.get(&(at.clone(), name.clone()))) {
        Some(other) => target(&at, other, modules, exported, depth + 1).or(Some(at)),
        None => Some(at),
    }
}

/// A path as its words.
type Words = Vec<String>;

/// The paths in some code: those that `use` imports, each with whether that is public, and all others.
fn paths_in(code: &str) -> (Vec<(bool, Words)>, Vec<Words>) {
    let words = words(code);
    let (mut imports, mut named) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < words.len() {
        if words[at] == "use" {
            let end = words[at..].iter().position(|word| *word == ";").map_or(words.len(), |n| at + n);
            let public = at > 0 && (words[at - 1] == "pub" || words[at - 1] == ")");
            let mut tree = Vec::new();
            expand(&words[at + 1..end], &mut Vec::new(), &mut tree);
            imports.extend(tree.into_iter().map(|path| (public, path)));
            at = end;
        } else if is_name(words[at]) && words.get(at + 1) == Some(&"::") && (at == 0 || words[at - 1] != "::") {
            let mut path = vec![words[at].to_string()];
            at += 1;
            while words.get(at) == Some(&"::") && words.get(at + 1).is_some_and(|word| is_name(word)) {
                path.push(words[at + 1].to_string());
                at += 2;
            }
            named.push(path);
            continue;
        }
        at += 1;
    }
    (imports, named)
}

/// The paths of a tree such as `a::{b, c::D as E}`, of which `before` is what stands in front.
fn expand(tree: &[&str], before: &mut Words, found: &mut Vec<Words>) {
    let mut depth = 0;
    for branch in tree.split(|word| {
        depth += i32::from(*word == "{") - i32::from(*word == "}");
        depth == 0 && *word == ","
    }) {
        let own = branch.iter().take_while(|word| **word != "{" && **word != "as");
        let own: Words = own.filter(|word| is_name(word)).map(|word| word.to_string()).collect();
        let length = before.len();
        before.extend(own.iter().cloned());
        match branch.iter().position(|word| *word == "{") {
            Some(open) => expand(&branch[open + 1..branch.len() - 1], before, found),
            None if !own.is_empty() => {
                // `a::{self}` is `a`.
                let kept = if before.len() > 1 && own == ["self"] { before.len() - 1 } else { before.len() };
                found.push(before[..kept].to_vec());
            }
            None => {}
        }
        before.truncate(length);
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::`, and all other characters one by one.
fn words(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            c if is_part(c) => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            c => c.len_utf8(),
        };
        found.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files: Vec<_> =
            files.iter().map(|(path, text)| (format!("crates/x/src/{path}"), (*text).to_string())).collect();
        cycles("x", files.iter()).into_iter().map(|(_, modules)| modules).collect()
    }

    #[test]
    fn modules_that_import_one_another_are_a_cycle() {
        let a = ("a.rs", "use crate::b::B;\npub struct A;");
        assert_eq!(found(&[a, ("b.rs", "pub struct B;")]), [[""; 0]; 0]);
        assert_eq!(found(&[a, ("b.rs", "fn f() { crate::a::f() }")]), [["a.rs", "b.rs"]]);
        assert_eq!(found(&[a, ("b.rs", "use std::{io, fs};\nuse super::{c, a::{self, A as X}};")]), [["a.rs", "b.rs"]]);
        let c = ("c.rs", "use crate::a;");
        assert_eq!(found(&[a, ("b.rs", "use crate::c::C;"), c]), [["a.rs", "b.rs", "c.rs"]]);
        assert_eq!(found(&[a, ("b.rs", "// crate::a\nconst B: &str = \"crate::a::A\";")]), [[""; 0]; 0]);
        assert_eq!(found(&[a, ("b.rs", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n")]), [[""; 0]; 0]);
    }

    #[test]
    fn a_root_may_name_what_its_modules_offer() {
        let root = ("lib.rs", "mod a;\nmod b;\npub use self::b::{B, deep as shallow};\npub use a::A;");
        let b = ("b.rs", "pub struct B;");
        assert_eq!(found(&[root, ("a.rs", "use crate::B;"), b]), [[""; 0]; 0]);
        let back = ("b.rs", "use crate::A;");
        assert_eq!(found(&[root, ("a.rs", "use crate::B;"), back]), [["a.rs", "b.rs"]]);
    }

    #[test]
    fn a_module_may_take_from_what_it_lies_in() {
        let parent = ("a.rs", "mod b;\nfn f() { b::g() }");
        assert_eq!(found(&[parent, ("a/b.rs", "fn g() {}")]), [[""; 0]; 0]);
        let child = ("a/b.rs", "use super::f;\nuse crate::c;");
        assert_eq!(found(&[parent, child]), [[""; 0]; 0], "it is a part of what it lies in");
        assert_eq!(found(&[parent, child, ("c.rs", "use crate::a::f;")]), [["a.rs", "a/b.rs", "c.rs"]]);
    }

    #[test]
    fn only_a_large_cycle_is_a_breach() {
        let many = "const X: u8 = 1;\n".repeat(LARGEST);
        let file = |path: &str, text: &str| (format!("crates/x/src/{path}.rs"), text.to_string());
        let small = [file("a", "use crate::b::B;"), file("b", "use crate::a::A;")];
        assert_eq!(knots("x", small.iter()), []);
        let large = [file("a", &format!("use crate::b::B;\n{many}")), file("b", "use crate::a::A;")];
        let told = knots("x", large.iter())[0].to_string();
        assert!(told.starts_with("crates/x/src:1: 2 modules with 1002 lines"), "{told}");
    }
}
