//! Compiles BPF programs with clang, the compiler that has that target: for build scripts of crates that load them.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Headers of all programs.
const SHARED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");

/// Compiles `bpf/NAME.bpf.c` of the crate that is being built to `NAME.bpf.o` in its output directory, for each name.
///
/// # Panics
/// If clang is missing or refuses a program; cargo shows why.
pub fn compile(names: &[&str]) {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed={SHARED}");
    println!("cargo::rerun-if-env-changed=CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // libbpf's headers come with its sources, and libbpf-sys says where to crates that depend on it.
    let headers = env::var("DEP_BPF_INCLUDE").expect("a dependency on libbpf-sys");
    for name in names {
        let source = Path::new("bpf").join(name).with_extension("bpf.c");
        compile_one(&source, &headers, &out.join(name).with_extension("bpf.o"));
    }
}

fn compile_one(source: &Path, headers: &str, output: &Path) {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let flags = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"];
    let status = Command::new(&clang)
        .args(flags)
        .args(["-I", SHARED, "-I", headers, "-c", "-o"])
        .arg(output)
        .arg(source)
        .status();
    match status {
        Ok(status) if status.success() => (),
        Ok(status) => panic!("{clang} could not build {}: {status}", source.display()),
        Err(e) => panic!("{clang} cannot be run ({e}): install it (apt install clang), or name one in CLANG"),
    }
}
