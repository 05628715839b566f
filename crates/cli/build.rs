//! Says which version this is: the package's and, of a release build, the commit and the compiler that it comes of.
//!
//! A debug build names no commit: that would compile all tests of this crate again with each one.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let told = |name| std::env::var(name).unwrap_or_default();
    let version = told("CARGO_PKG_VERSION");
    let build = match told("PROFILE").as_str() {
        "release" => release(&told("RUSTC")),
        profile => format!("{profile} build"),
    };
    println!("cargo:rustc-env=DIORAMA_VERSION={version} ({build})");
}

fn release(rustc: &str) -> String {
    let root = PathBuf::from("../..");
    // Any of these, once changed, makes another program.
    for part in ["crates", "docs", "schema", "Cargo.toml", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={}", root.join(part).display());
    }
    let compiler = output(Command::new(rustc).arg("--version"));
    let compiler = compiler.and_then(|text| text.split(' ').nth(1).map(|version| format!(", rustc {version}")));
    let commit = commit(&root).unwrap_or_else(|| "of no known commit".into());
    format!("{commit}; release build{}", compiler.unwrap_or_default())
}

/// The commit that these sources are of, where git knows it. A copy that was unpacked somewhere in a tree of another
/// project is of none.
fn commit(root: &Path) -> Option<String> {
    let git = |words: &[&str]| {
        // Root may build what is somebody else's.
        output(Command::new("git").args(["-c", "safe.directory=*"]).args(words).current_dir(root))
    };
    let top = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    for file in ["HEAD", "logs/HEAD"] {
        let path = root.join(git(&["rev-parse", "--git-path", file])?);
        if path.exists() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    let commit = git(&["show", "--no-patch", "--abbrev=12", "--format=%h of %cs", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(commit + if changed.is_empty() { "" } else { ", with changes" })
}

/// The output of a command, if it succeeds.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_string())
}
