//! A small program on a plain machine: its calls are those that strace counts.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use diorama_observe::{Observed, Plain};

/// Writes and reads a pipe and a file in pieces of known sizes, fails some calls, has a child and a thread.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *closes_nothing(void *unused)
{
    for (int i = 0; i < 7; i++)
        close(-1);
    return unused;
}

int main(void)
{
    char bytes[4096] = { 0 };
    int ends[2], zero = open("/dev/zero", O_RDONLY);
    if (pipe(ends) || zero < 0)
        return 1;
    for (int i = 0; i < 100; i++)
        if (read(zero, bytes, 4096) != 4096 || write(ends[1], bytes, 100) != 100 || read(ends[0], bytes, 100) != 100)
            return 2;
    pthread_t thread;
    if (pthread_create(&thread, 0, closes_nothing, 0) || pthread_join(thread, 0))
        return 3;
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < 5; i++)
            getppid();
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status)
        return 4;
    for (int i = 0; i < 20; i++)
        usleep(1000);
    return 0;
}
"#;

fn compile(dir: &Path) -> std::path::PathBuf {
    let (source, program) = (dir.join("calls.c"), dir.join("calls"));
    std::fs::write(&source, PROGRAM).unwrap();
    let status = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).status().unwrap();
    assert!(status.success());
    program
}

/// One at a time: all that this process starts while one begins is counted.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn observe(command: &mut Command) -> Observed {
    let (plain, child) = Plain::start(command).unwrap();
    assert!(child.unwrap().wait().unwrap().success());
    plain.finish().unwrap()
}

/// How often strace has seen each call, with all children.
fn strace(program: &Path, dir: &Path) -> BTreeMap<String, (u64, u64)> {
    let summary = dir.join("strace");
    let status =
        Command::new("strace").args(["-f", "-c", "-U", "calls,errors,name", "-o"]).arg(&summary).arg(program).status();
    assert!(status.unwrap().success());
    let text = std::fs::read_to_string(summary).unwrap();
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [calls, name] => Some((name.to_owned(), (calls.parse().ok()?, 0))),
            [calls, errors, name] => Some((name.to_owned(), (calls.parse().ok()?, errors.parse().ok()?))),
            _ => None,
        }
    };
    text.lines().filter_map(row).filter(|(name, _)| name != "total").collect()
}

#[test]
fn calls_and_errors_are_those_that_strace_counts() {
    let (temp, _turn) = (tempfile::tempdir().unwrap(), turn());
    let program = compile(temp.path());
    let traced = strace(&program, temp.path());
    let observed = observe(Command::new(&program).stdin(Stdio::null()));
    let [calls] = &observed.calls.programs[..] else { panic!("{:?}", observed.calls) };
    assert_eq!((calls.program.as_str(), observed.calls.uncounted), ("calls", 0));
    let counted: BTreeMap<_, _> = calls.calls.iter().map(|one| (one.call.clone(), (one.made, one.errors))).collect();
    // Ends never come back, which strace leaves out; how often threads wait for one another is chance.
    let ends = |name: &str| matches!(name, "exit" | "exit_group" | "futex");
    let but_ends = |all: &BTreeMap<String, (u64, u64)>| -> BTreeMap<String, (u64, u64)> {
        all.iter().filter(|(name, _)| !ends(name)).map(|(name, count)| (name.clone(), *count)).collect()
    };
    assert_eq!(but_ends(&counted), but_ends(&traced));
}

#[test]
fn bytes_steps_and_times_are_those_of_the_program() {
    let (temp, _turn) = (tempfile::tempdir().unwrap(), turn());
    let program = compile(temp.path());
    let observed = observe(&mut Command::new(&program));
    let [calls] = &observed.calls.programs[..] else { panic!("{:?}", observed.calls) };
    let of = |name: &str| calls.calls.iter().find(|call| call.call == name).unwrap_or_else(|| panic!("no {name}"));
    assert_eq!((of("write").made, of("write").bytes), (100, 10_000));
    // 64 to 127 bytes.
    assert_eq!((of("write").sizes[7], of("read").sizes[7], of("read").sizes[13]), (100, 100, 100));
    let step = |from: &str, to: &str| {
        let found = calls.steps.iter().find(|step| step.from.as_deref() == Some(from) && step.to == to);
        found.map_or(0, counters::Step::count)
    };
    assert_eq!((step("read", "write"), step("write", "read"), step("read", "read")), (100, 100, 99));
    assert_eq!(step("getppid", "getppid"), 4);
    // Twenty sleeps of a millisecond.
    let slept = of("clock_nanosleep");
    assert!(slept.made == 20 && slept.virtual_ns.as_nanos() >= 20_000_000, "{slept:?}");
    assert!(slept.virtual_ns.as_nanos() <= observed.lasted.as_nanos());
    assert!(calls.voluntary_switches >= 20 && calls.page_faults > 10 && calls.cpu_real_ns.as_nanos() > 0);
    assert_eq!((calls.image_calls, slept.trapped), (0, 0));
    let made: u64 = calls.calls.iter().map(|call| call.made).sum();
    assert_eq!(observed.taken.calls, made);
    assert!(observed.taken.for_each.as_nanos() > 0, "{:?}", observed.taken);
}
