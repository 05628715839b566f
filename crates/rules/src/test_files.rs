//! Files of tests that nobody would run: where several are one program, each must be a module of it.

use crate::Breach;

/// The files `crates/NAME/tests/*.rs` that are neither a program of tests nor a module of one, where cargo does not
/// look for them by itself. `manifest` is the crate's, and `files` are all there are, by their paths.
pub fn forgotten(name: &str, manifest: &str, files: &[(String, String)]) -> Vec<Breach> {
    if !manifest.lines().any(|line| line.trim() == "autotests = false") {
        return Vec::new();
    }
    let of_crate = format!("crates/{name}/tests/");
    let here: Vec<(&str, &str)> =
        files.iter().filter_map(|(path, text)| Some((stem(path, &of_crate)?, &**text))).collect();
    let programs: Vec<&str> = manifest.split("[[test]]").skip(1).filter_map(name_of).collect();
    let is_module = |file: &str| {
        let declared = format!("mod {file};");
        here.iter().any(|(stem, text)| programs.contains(stem) && text.lines().any(|line| line.trim() == declared))
    };
    let forgotten = here.iter().map(|(stem, _)| *stem).filter(|stem| !programs.contains(stem) && !is_module(stem));
    let says = |stem: &str| {
        let what = format!("is never run: say `mod {stem};` in one of {}", programs.join(".rs, ") + ".rs");
        Breach::new(&format!("{of_crate}{stem}.rs"), 1, what)
    };
    forgotten.map(says).collect()
}

/// The name of a file beside each other's, without its ending.
fn stem<'a>(path: &'a str, below: &str) -> Option<&'a str> {
    path.strip_prefix(below)?.strip_suffix(".rs").filter(|stem| !stem.contains('/'))
}

/// The name of a program, in the lines after `[[test]]`.
fn name_of(section: &str) -> Option<&str> {
    section.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_module_of_a_program_is_found() {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let files = [
            file("crates/a/tests/pure.rs", "mod one;\n// mod two;\n"),
            file("crates/a/tests/one.rs", "mod three;\n"),
            file("crates/a/tests/two.rs", ""),
            file("crates/a/tests/three.rs", ""),
            file("crates/a/tests/alone.rs", ""),
            file("crates/a/tests/one/inner.rs", ""),
            file("crates/b/tests/two.rs", ""),
        ];
        let manifest = "[package]\nautotests = false\n\n[[test]]\nname = \"pure\"\n\n[[test]]\nname = \"alone\"\n";
        let found = forgotten("a", manifest, &files);
        let paths: Vec<&str> = found.iter().map(|breach| &*breach.path).collect();
        assert_eq!(paths, ["crates/a/tests/two.rs", "crates/a/tests/three.rs"]);
        assert!(found[0].says.contains("`mod two;` in one of pure.rs, alone.rs"), "{}", found[0].says);
        assert_eq!(forgotten("a", "[package]\n", &files), []);
    }
}
