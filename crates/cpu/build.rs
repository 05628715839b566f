//! Compiles the BPF program with clang, the compiler that has that target.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed=../scale/include");
    println!("cargo::rerun-if-env-changed=CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // libbpf's headers come with its sources, and libbpf-sys says where.
    let headers = env::var("DEP_BPF_INCLUDE").expect("libbpf-sys tells its include directory");
    compile(Path::new("bpf/node_clock.bpf.c"), &headers, &out.join("node_clock.bpf.o"));
}

fn compile(source: &Path, headers: &str, output: &Path) {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let flags = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"];
    let status = Command::new(&clang).args(flags).args(["-I", headers, "-c", "-o"]).arg(output).arg(source).status();
    match status {
        Ok(status) if status.success() => (),
        Ok(status) => panic!("{clang} could not build {}: {status}", source.display()),
        Err(e) => panic!("{clang} cannot be run ({e}): install it (apt install clang), or name one in CLANG"),
    }
}
