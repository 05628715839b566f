//! CUBIC by the program's own source, compiled for this machine: no kernel and no root.

use std::path::Path;
use std::process::Command;

fn check(what: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cubic.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cubic-{what}"));
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    // The source reads a socket's memory as the kernel does, as several types.
    let flags = ["-O1", "-fno-strict-aliasing", "-Wall", "-Werror", "-Wno-unused"];
    let built = Command::new(&clang).args(flags).arg("-o").args([&program, &source]).status();
    assert!(built.expect("clang, which builds the programs, is installed").success());
    let run = Command::new(&program).arg(what).output().expect("it was just built");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
}

/// Linux tells rounds from the first flight on ("tcp_cubic: fix incorrect HyStart round start detection", 6.14). One
/// who begins when the window has grown to 16 begins in the middle of a flight, and measures trains that are none.
#[test]
fn rounds_of_slow_start_begin_with_the_flights() {
    check("slow-start");
}

/// A kernel that does not run the program takes junk for the threshold, and sent a thousand packets at once.
#[test]
fn a_reduction_that_was_left_out_is_made_up() {
    check("left-out");
}
