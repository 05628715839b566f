//! Builds the guest image, the bootstrap and `dilate-exec` with the C compiler, and `layout.h` as Rust constants.
//!
//! Plain commands rather than a build crate: these are not libraries to link with, and their flags are the point.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// No libc, no floating point or vector registers, nothing that needs a run-time: the code runs in other people's
/// processes. `-march=x86-64` because a distribution's compiler may default to more.
const FREESTANDING: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-march=x86-64",
    "-mgeneral-regs-only",
    "-ffreestanding",
    "-fno-builtin",
    "-nostdlib",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-fno-tree-loop-distribute-patterns",
    "-Wl,--build-id=none",
    "-Wl,-s",
];

/// The unwind tables let exceptions and thread cancellation pass through the SIGSYS handler.
const IMAGE: &[&str] = &[
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-fasynchronous-unwind-tables",
    "-Wl,--hash-style=both",
    "-Wl,-soname,linux-vdso.so.1",
    "-Wl,-z,defs",
    "-Wl,-z,norelro",
    "-Wl,--eh-frame-hdr",
];

const EXEC: &[&str] = &["-static", "-no-pie", "-fno-pic", "-fno-asynchronous-unwind-tables"];

fn main() {
    println!("cargo::rerun-if-changed=guest");
    println!("cargo::rerun-if-changed=../scale/include");
    println!("cargo::rerun-if-env-changed=CC");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let guest = Path::new("guest");

    // Apart, and by a name that vdso.lds knows: what few programs use lies at the end of the image.
    let mut parts = sources(guest, "c");
    for source in sources(&guest.join("settings"), "c") {
        let name = source.file_stem().expect("a source file has a name").to_string_lossy();
        let object = out.join(format!("settings-{name}.o"));
        compile(FREESTANDING.iter().chain(IMAGE).copied().chain(["-c"]), &[source], &object);
        parts.push(object);
    }
    let script = format!("-Wl,-T,{}", guest.join("vdso.lds").display());
    compile(FREESTANDING.iter().chain(IMAGE).copied().chain([script.as_str()]), &parts, &out.join("image"));
    compile(FREESTANDING.iter().chain(EXEC).copied(), &sources(&guest.join("exec"), "c"), &out.join("dilate-exec"));
    compile(
        ["-nostdlib", "-static", "-no-pie", "-Wl,--oformat=binary", "-Wl,-Ttext=0", "-Wl,--build-id=none"].into_iter(),
        &[guest.join("bootstrap.S")],
        &out.join("bootstrap"),
    );
    fs::write(out.join("layout.rs"), constants(&guest.join("layout.h"))).expect("OUT_DIR is writable");
    let names = |file: &str| names_by_line(&guest.join("settings").join(file));
    let settings = format!(
        "const ATTRIBUTES: &[(u64, &str)] = &[{}];\nconst SYSCTLS: &[(u64, &str)] = &[{}];\n",
        names("attributes.h"),
        names("sysctls.h")
    );
    fs::write(out.join("settings.rs"), settings).expect("OUT_DIR is writable");
}

fn sources(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("a directory entry").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == extension));
    files.sort();
    files
}

fn compile<'a>(flags: impl Iterator<Item = &'a str>, sources: &[PathBuf], output: &Path) {
    let cc = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(&cc).args(flags).arg("-o").arg(output).args(sources).status();
    match status {
        Ok(status) if status.success() => (),
        Ok(status) => panic!("{cc} could not build {}: {status}", output.display()),
        Err(e) => panic!("{cc} cannot be run ({e}): install a C compiler (apt install gcc), or name one in CC"),
    }
}

/// `#define DIORAMA_NAME NUMBER` as `pub const NAME: u64 = NUMBER;`.
fn constants(header: &Path) -> String {
    let text = fs::read_to_string(header).unwrap_or_else(|e| panic!("{}: {e}", header.display()));
    let define = |line: &str| {
        let mut words = line.strip_prefix("#define DIORAMA_")?.split_whitespace();
        let (name, value) = (words.next()?, words.next()?);
        Some(format!("#[allow(dead_code, missing_docs)]\npub const {name}: u64 = {value};\n"))
    };
    text.lines().filter_map(define).collect()
}

/// By the number of its line, how a person is told of the setting that a line of a table is about: in the words that it
/// has for that, or by its name. By that number the image names it.
fn names_by_line(table: &Path) -> String {
    let text = fs::read_to_string(table).unwrap_or_else(|e| panic!("{}: {e}", table.display()));
    let entry = |(i, line): (usize, &str)| {
        let (of, rest) = line.strip_suffix(')')?.split_once('(')?;
        let words = || rest.split(", ");
        let name = match of {
            "STUCK" | "STUCK_NAME" | "STUCK_MESSAGES" | "NOTED_NAME" | "NOTED_FIELD" => {
                rest[..rest.len() - 1].rsplit_once('"')?.1
            }
            "SYSCTL" => words().next()?.trim_matches('"'),
            "FIELD" | "WIDE" => words().nth(2)?,
            "VALUE" | "BIG" | "DEFAULT" => words().nth(1)?,
            _ => return None,
        };
        Some(format!("({}, {name:?}), ", i + 1))
    };
    text.lines().enumerate().filter_map(entry).collect()
}
