//! Pages of the manual and completions, which packages bring along; and the version that the program tells.

use std::fs;
use std::process::Command;

fn diorama(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_diorama")).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn verbs() -> Vec<String> {
    let help = diorama(&["--help"]);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let verbs = listed.filter_map(|line| line.split_whitespace().next()).filter(|verb| *verb != "help");
    verbs.map(String::from).collect()
}

#[test]
fn every_verb_has_a_page_of_the_manual_and_every_shell_its_completions() {
    let dir = tempfile::tempdir().unwrap();
    diorama(&["__pages", dir.path().to_str().unwrap()]);
    let read = |file: &str| fs::read_to_string(dir.path().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
    let verbs = verbs();
    assert!(verbs.len() > 15 && !verbs.contains(&"__pages".into()), "{verbs:?}");
    for verb in &verbs {
        let page = read(&format!("man/man1/diorama-{verb}.1"));
        assert!(page.contains(".TH ") && page.contains(".SH SYNOPSIS"), "{verb}: {page}");
    }
    let run = read("man/man1/diorama-run.1");
    for option in ["variant", "tdf", "junit"] {
        assert!(run.contains(&format!("\\-\\-{option}")), "{option}: {run}");
    }
    assert!(read("man/man1/diorama-swap-out.1").contains("swap out"));
    assert!(read("man/man1/diorama.1").contains("diorama\\-run(1)"));
    let shells = [
        "bash-completion/completions/diorama",
        "zsh/vendor-completions/_diorama",
        "fish/vendor_completions.d/diorama.fish",
    ];
    for file in shells {
        let text = read(file);
        let missing: Vec<_> = verbs.iter().filter(|verb| !text.contains(verb.as_str())).collect();
        assert!(missing.is_empty() && text.contains("junit"), "{file}: {missing:?}");
    }
}

#[test]
fn completions_of_bash_complete() {
    let dir = tempfile::tempdir().unwrap();
    diorama(&["__pages", dir.path().to_str().unwrap()]);
    let file = dir.path().join("bash-completion/completions/diorama");
    let complete = |line: &str| {
        let words = line.split(' ').count();
        let script = format!(
            "source {}; COMP_WORDS=({line}); COMP_CWORD={}; _diorama diorama \"${{COMP_WORDS[-1]}}\" \
             \"${{COMP_WORDS[-2]}}\"; echo \"${{COMPREPLY[@]}}\"",
            file.display(),
            words - 1
        );
        let output = Command::new("bash").args(["--norc", "-c", &script]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    };
    assert_eq!(complete("diorama expl"), "explain");
    assert_eq!(complete("diorama run --varia"), "--variant");
    assert_eq!(complete("diorama new three"), "three-tiers");
}

#[test]
fn the_version_names_the_build() {
    let version = diorama(&["--version"]);
    let package = env!("CARGO_PKG_VERSION");
    assert!(version.starts_with(&format!("diorama {package} (")) && version.contains(" build"), "{version}");
    assert_eq!(diorama(&["-V"]), format!("diorama {package}\n"));
}
