//! Programs of all layouts have room for the image: those whose tools divide the addresses among themselves, too.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Dilation, compile, native};

/// Whether `how` the program's waits, of 0.05 s each, are as long as they should be, inside and outside.
fn check(dilation: &Dilation, how: &str, argv: &[&str]) {
    let ran = dilation.run(argv);
    assert!(ran.status.success(), "{how}: {ran:?}, {:?}", dilation.refusals.lock().unwrap());
    let waits: Vec<f64> = ran.stdout.lines().map(|line| line.split_once(' ').unwrap().0.parse().unwrap()).collect();
    assert!(waits.len() == 2 && waits.iter().all(|wait| *wait >= 0.05), "{how}: {ran:?}");
    assert!(ran.real.as_secs_f64() >= 3.0 * waits.iter().sum::<f64>(), "{how}: {ran:?}");
}

/// `programs/threads.c` with one of clang's sanitizers.
fn compile_by_clang(sanitizer: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/threads.c");
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("threads-clang-{sanitizer}"));
    let mut clang = Command::new("clang");
    clang.args(["-O1", "-pthread", &format!("-fsanitize={sanitizer}"), "-o"]).arg(&output).arg(source);
    let done = clang.status().expect("this test needs clang: apt install clang (make test does)").success();
    assert!(done, "this test needs clang's sanitizers: apt install libclang-rt-dev (make test does)");
    output
}

#[test]
fn programs_with_sanitizers_are_dilated() {
    let dilation = Dilation::new("3");
    let gcc = ["-fsanitize=thread", "-fsanitize=address", "-fsanitize=undefined", "-fsanitize=leak"];
    let position = ["-pie", "-no-pie"];
    let by_gcc = gcc.iter().flat_map(|sanitizer| position.map(|kind| compile("threads", &[sanitizer, kind])));
    let by_clang = ["thread", "memory", "address", "dataflow", "safe-stack", "scudo"].map(compile_by_clang);
    for program in by_gcc.chain(by_clang) {
        let program = program.to_str().unwrap();
        let native = native([program]);
        assert!(native.status.success(), "{program}: {native:?}");
        check(&dilation, program, &[program]);
        check(&dilation, &format!("{program} where nothing is random"), &["setarch", "-R", program]);
    }
}

#[test]
fn programs_of_every_layout_are_dilated() {
    let dilation = Dilation::new("3");
    for kind in ["-pie", "-no-pie", "-static", "-static-pie"] {
        let program = compile("threads", &[kind]);
        let program = program.to_str().unwrap();
        check(&dilation, kind, &[program]);
        check(&dilation, &format!("{kind}, nothing random"), &["setarch", "-R", program]);
        check(&dilation, &format!("{kind}, from the bottom up"), &["setarch", "-L", program]);
        // Fifty stacks of 256 KiB, and the C library's arenas.
        let limited = "ulimit -s 256; ulimit -v 4000000; exec \"$0\"";
        check(&dilation, &format!("{kind}, little memory"), &["bash", "-c", limited, program]);
    }
}

/// A program that finds the kernel's vDSO reads the host's clock by it, and no call traps.
#[test]
fn every_way_to_the_auxiliary_vector_leads_to_the_same_vdso() {
    for flags in [&[][..], &["-static"]] {
        let program = compile("auxv", flags);
        for (how, ran) in [("natively", native([&program])), ("dilated", Dilation::new("10").run([&program]))] {
            assert!(ran.status.success(), "{how}: {ran:?}");
            let rows: Vec<Vec<&str>> = ran.stdout.lines().map(|line| line.split(' ').collect()).collect();
            let row = |way: &str| rows.iter().find(|row| row[0] == way);
            let libc = row("libc").unwrap();
            assert!(libc[1] != "0", "{how}: {libc:?}");
            for way in ["file", "thread"] {
                assert_eq!(row(way).unwrap()[1..3], libc[1..], "{how}: {way}");
            }
            let Some(prctl) = row("prctl") else { continue };
            assert_eq!(prctl[1..3], libc[1..], "{how}");
            assert_eq!(
                (row("short").unwrap()[1..].to_vec(), row("nowhere").unwrap()[1]),
                (vec!["1", "0"], "-1"),
                "{how}"
            );
        }
    }
}
