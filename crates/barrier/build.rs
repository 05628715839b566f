//! Builds the program that runs in nodes: one static file, so that it runs over any image.
//!
//! Cargo cannot link one program of a workspace statically and the others not, so its compiler is called once more.
//! That program uses nothing but the standard library, and its modules are also this library's, which is how they are
//! checked and tested.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=src");
    let given = |name: &str| env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    let output = PathBuf::from(given("OUT_DIR")).join("barrier");
    let rustc = given("RUSTC");
    let mut command = Command::new(&rustc);
    command.args(["--crate-name=barrier", "--crate-type=bin", "--edition=2024", "--cap-lints=allow"]);
    command.args(["-Copt-level=s", "-Cpanic=abort", "-Cstrip=symbols", "-Ctarget-feature=+crt-static"]);
    command.arg("--target").arg(given("TARGET")).arg("-o").arg(&output).arg("src/program.rs");
    match command.status() {
        Ok(status) if status.success() => (),
        Ok(status) => panic!("{rustc} could not build the program of barriers: {status} (is libc6-dev installed?)"),
        Err(e) => panic!("{rustc} cannot be run: {e}"),
    }
}
