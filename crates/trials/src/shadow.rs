//! `diorama-trials shadow`: the tests of system calls that belong to the simulator Shadow and run on plain Linux, too,
//! natively and dilated.
//!
//! They are read from Shadow's own CMake files: `add_linux_tests` names them, `add_executable` their C sources. Those
//! in Rust are built by cargo.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::choice::Choice;
use crate::driver::Driver;
use crate::failure::Failure;
use crate::page::Page;
use crate::suite::{Counts, How, Suite, Test, place};

/// Below Shadow's directory: the workspace of its Rust code, and its tests.
const WORKSPACE: &str = "src/Cargo.toml";
const TESTS: &str = "src/test";
/// The package of the tests in Rust.
const PACKAGE: &str = "shadow-tests";
/// The file that tests in C are linked with, from where make is run.
const LOGGER: &str = "crates/trials/conformance/shadow-logger.c";
/// Where they are built, from where make is run.
const BUILT: &str = "target/shadow";
/// Where Shadow's own build has them, from the directory of a test.
const ELSEWHERE: [&str; 3] = ["../", "target/debug/", "./"];

/// Arguments of `diorama-trials shadow`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Shadow's source tree
    #[arg(long, value_name = "DIRECTORY")]
    path: PathBuf,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    page: Page,
}

/// Runs the verb. A test that does not end as it does natively is a failure of this command, unless a limit is known to
/// be why.
pub fn main(args: Args) -> Result<(), Failure> {
    let driver = Driver::new()?;
    let choice = Choice::read("shadow.txt")?;
    let root = place(&args.path, WORKSPACE, "give Shadow's source tree, a clone of github.com/shadow/shadow")?;
    let built = fs::create_dir_all(BUILT).and_then(|()| Path::new(BUILT).canonicalize());
    let built = built.map_err(|e| Failure::failed(format!("{BUILT}: {e}")))?;
    cargo(&root, &built)?;
    let (mut tests, mut programs, mut unbuilt) = (Vec::new(), Vec::new(), Vec::new());
    for file in files(&root.join(TESTS)).map_err(|e| Failure::failed(format!("{}: {e}", root.display())))? {
        let text = fs::read_to_string(&file).map_err(|e| Failure::failed(format!("{}: {e}", file.display())))?;
        let read = read(&text, &root);
        let directory = file.parent().expect("a file is in a directory");
        for (name, sources) in read.executables {
            match compile(&root, directory, &sources, &built.join(&name)) {
                Ok(()) => programs.push(name),
                Err(why) => unbuilt.push((name, why)),
            }
        }
        tests.extend(read.tests);
    }
    tests.retain(|test: &Test| !unbuilt.iter().any(|(program, _)| needs(test, program)));
    for word in tests.iter_mut().flat_map(|test| &mut test.command) {
        *word = found(word, &programs, &built);
    }
    tests.sort_by(|a, b| a.name.cmp(&b.name));
    let suite = Suite {
        name: "shadow",
        version: format!("Shadow {}", version(&root)),
        tests,
        choice,
        programs: vec![built.clone(), built.join("debug")],
        environment: vec![("RUST_BACKTRACE", "1".into())],
        count,
        absent: unbuilt.into_iter().map(|(program, why)| format!("`{program}` ({why})")).collect(),
    };
    suite.publish("Shadow", &args.how, &args.page, &driver)
}

/// Builds the tests in Rust.
fn cargo(root: &Path, built: &Path) -> Result<(), Failure> {
    let mut cargo = Command::new("scripts/cargo");
    cargo.arg("build").arg("--manifest-path").arg(root.join(WORKSPACE)).args(["--package", PACKAGE, "--bins"]);
    let status = cargo.arg("--target-dir").arg(built).status();
    match status.map_err(|e| Failure::input(format!("scripts/cargo: {e}: run this in Diorama's own directory")))? {
        status if status.success() => Ok(()),
        _ => Err(Failure::failed("Shadow's tests in Rust do not build; cargo's message is above")),
    }
}

/// Builds a test in C.
fn compile(root: &Path, directory: &Path, sources: &[String], program: &Path) -> Result<(), String> {
    if let Some(odd) = sources.iter().find(|source| !source.ends_with(".c")) {
        return Err(format!("{odd} is not C"));
    }
    let glib = Command::new("pkg-config").args(["--cflags", "--libs", "glib-2.0"]).output();
    let glib = glib.ok().filter(|out| out.status.success()).ok_or("no glib: libglib2.0-dev")?;
    let mut cc = Command::new("cc");
    cc.args([
        "-std=gnu99",
        "-g",
        "-w",
        "-fPIC",
        "-fno-strict-aliasing",
        "-U_FORTIFY_SOURCE",
        "-D_GNU_SOURCE",
        "-DDEBUG",
    ]);
    cc.arg("-I").arg(root.join("src")).arg("-o").arg(program);
    cc.args(sources.iter().map(|source| directory.join(source))).arg(LOGGER);
    cc.args(String::from_utf8_lossy(&glib.stdout).split_whitespace()).args(["-pthread", "-lrt", "-ldl", "-lm"]);
    let out = cc.stdin(Stdio::null()).output().map_err(|e| format!("cc: {e}"))?;
    match out.status.success() {
        true => Ok(()),
        false => {
            eprintln!("{}: {}", program.display(), String::from_utf8_lossy(&out.stderr));
            Err("does not compile".into())
        }
    }
}

/// A command, or a word of one, with the programs by their whole path: some start one another without looking for them.
fn found(command: &str, programs: &[String], built: &Path) -> String {
    let path = |word: &str| match programs.iter().any(|program| program == word) {
        true => built.join(word).display().to_string(),
        false => word.to_owned(),
    };
    command.split(' ').map(path).collect::<Vec<_>>().join(" ")
}

/// Whether a test's command names a program.
fn needs(test: &Test, program: &str) -> bool {
    test.command.iter().flat_map(|words| words.split_whitespace()).any(|word| word == program)
}

/// All CMake files of a tree.
fn files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                left.push(entry.path());
            } else if entry.file_name() == "CMakeLists.txt" {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The commit, if git knows it.
fn version(root: &Path) -> String {
    let said = Command::new("git").arg("-C").arg(root).args(["describe", "--always"]).stderr(Stdio::null()).output();
    let said =
        said.ok().filter(|out| out.status.success()).map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    said.unwrap_or_else(|| "of unknown version".into())
}

/// The content of a CMake file.
#[derive(Debug, Default, PartialEq)]
struct Read {
    tests: Vec<Test>,
    /// A program and its sources.
    executables: Vec<(String, Vec<String>)>,
}

/// Reads the calls that matter. Those of `foreach` are carried out for the loop's variable; those that are for certain
/// configurations only are left out, and those that name what is not known here.
fn read(text: &str, root: &Path) -> Read {
    let mut read = Read::default();
    let mut loops: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (function, mut arguments) in calls(text) {
        match function.as_str() {
            "foreach" if arguments.len() > 1 => drop(loops.insert(arguments.remove(0), arguments)),
            "add_executable" if arguments.len() > 1 => read.executables.push((arguments.remove(0), arguments)),
            "add_linux_tests" => {
                let arguments: Vec<String> =
                    arguments.iter().map(|a| a.replace("${CMAKE_SOURCE_DIR}", &root.to_string_lossy())).collect();
                let used = |variable: &str| arguments.iter().any(|a| a.contains(&format!("${{{variable}}}")));
                match loops.iter().find(|(variable, _)| used(variable)) {
                    None => read.tests.extend(test(&arguments)),
                    Some((variable, values)) => read.tests.extend(values.iter().filter_map(|value| {
                        let with = |a: &String| a.replace(&format!("${{{variable}}}"), value);
                        test(&arguments.iter().map(with).collect::<Vec<_>>())
                    })),
                }
            }
            _ => {}
        }
    }
    read
}

/// The test that the arguments `BASENAME name COMMAND words…` are about.
fn test(arguments: &[String]) -> Option<Test> {
    let at = |key: &str| arguments.iter().position(|argument| argument == key);
    let (name, command) = (arguments.get(at("BASENAME")? + 1)?, arguments.get(at("COMMAND")? + 1..)?);
    if at("CONFIGURATIONS").is_some() || arguments.iter().any(|argument| argument.contains("${")) {
        return None;
    }
    let end = command.iter().position(|word| word == "PROPERTIES").unwrap_or(command.len());
    let found = |word: &String| ELSEWHERE.iter().fold(word.clone(), |word, path| word.replace(path, ""));
    Some(Test { name: name.clone(), command: command[..end].iter().map(found).collect() })
}

/// The calls in a CMake file: a function and its arguments.
fn calls(text: &str) -> Vec<(String, Vec<String>)> {
    let mut calls = Vec::new();
    let mut letters = text.chars().peekable();
    let (mut word, mut call): (String, Option<(String, Vec<String>)>) = (String::new(), None);
    let mut depth = 0;
    while let Some(letter) = letters.next() {
        let flush = |word: &mut String, call: &mut Option<(String, Vec<String>)>| match call {
            Some((_, arguments)) if !word.is_empty() => arguments.push(std::mem::take(word)),
            _ => {}
        };
        match letter {
            '#' => drop(letters.by_ref().find(|&l| l == '\n')),
            '"' => {
                while let Some(letter) = letters.next().filter(|&l| l != '"') {
                    // A backslash at the end of a line joins it with the next.
                    match letter {
                        '\\' => word.extend(letters.next().filter(|&l| l != '\n')),
                        _ => word.push(letter),
                    }
                }
            }
            '(' if depth == 0 => {
                call = Some((std::mem::take(&mut word), Vec::new()));
                depth = 1;
            }
            '(' => depth += 1,
            ')' if depth == 1 => {
                flush(&mut word, &mut call);
                calls.extend(call.take());
                depth = 0;
            }
            ')' => depth -= i32::from(depth > 0),
            _ if letter.is_whitespace() && call.is_some() => flush(&mut word, &mut call),
            _ if letter.is_whitespace() => word.clear(),
            _ => word.push(letter),
        }
    }
    calls
}

/// The checks of a test: in Rust a line each that ends with a mark, in C one of glib's.
fn count(said: &str) -> Counts {
    let lines = |is: fn(&str) -> bool| said.lines().filter(|line| is(line)).count() as u64;
    let passed = lines(|line| line.ends_with('✓') || line.starts_with("ok "));
    let failed = lines(|line| line.contains('✗') || line.starts_with("not ok "));
    [("passed".to_owned(), passed), ("failed".to_owned(), failed)].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_read_from_cmake() {
        let text = r#"
            # add_linux_tests(BASENAME old COMMAND old)
            add_executable(test-udp test_udp.c ../test_common.c) # (two
            add_linux_tests(BASENAME udp COMMAND sh -c "\
                ../shadow-test-launcher test-udp client : test-udp server \
                ")
            foreach(Mode blocking iov)
                add_linux_tests(BASENAME tcp-${Mode} COMMAND ${CMAKE_SOURCE_DIR}/a.py test-tcp ${Mode})
                add_shadow_tests(BASENAME tcp-${Mode} ARGS (x))
            endforeach()
            add_linux_tests(BASENAME gc COMMAND ./gc CONFIGURATIONS extra PROPERTIES LABELS golang)
            add_linux_tests(BASENAME time COMMAND ../../../target/debug/test_time --libc-passing PROPERTIES A b)
        "#;
        let read = read(text, Path::new("/s"));
        assert_eq!(read.executables, [("test-udp".into(), vec!["test_udp.c".into(), "../test_common.c".into()])]);
        let tests: Vec<String> = read.tests.iter().map(|t| format!("{}: {}", t.name, t.command.join("|"))).collect();
        assert_eq!(tests.len(), 4, "{tests:?}");
        assert!(
            tests[0].starts_with("udp: sh|-c| ")
                && tests[0].contains(" shadow-test-launcher test-udp client : test-udp")
        );
        let others = [
            "tcp-blocking: /s/a.py|test-tcp|blocking",
            "tcp-iov: /s/a.py|test-tcp|iov",
            "time: test_time|--libc-passing",
        ];
        assert_eq!(tests[1..], others);
        let whole = found("test-udp x test-udp2", &["test-udp".into()], Path::new("/b"));
        assert_eq!(whole, "/b/test-udp x test-udp2");
        assert!(needs(&read.tests[0], "test-udp") && !needs(&read.tests[0], "test-ud"));
    }

    #[test]
    fn checks_are_counted() {
        let said = "Test a..., ✓\nTest b..., ✗ (no)\nok 1 /c\nnot ok /d\nok\n";
        assert_eq!(count(said), Counts::from([("passed".into(), 2), ("failed".into(), 2)]));
    }
}
