//! The quick part of `make conformance`, and what becomes of it when it is interrupted. Needs root, and the `diorama`
//! beside `diorama-trials` (`cargo test --workspace` builds it).

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const TRIALS: &str = env!("CARGO_BIN_EXE_diorama-trials");
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until something is there.
fn until<T>(what: &str, mut there: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        match there() {
            Some(found) => return found,
            None if start.elapsed() > PATIENCE => panic!("{what} does not come"),
            None => sleep(Duration::from_millis(5)),
        }
    }
}

/// Whether a process lives; one that nobody has waited for does not.
fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// Runs a script in which a server is started and waited for, and gives the server's pid.
fn start(directory: &Path, script: &str) -> (Child, String) {
    let scripts = directory.join("crates/trials/conformance");
    fs::create_dir_all(&scripts).unwrap();
    fs::write(scripts.join("server.sh"), script).unwrap();
    let mut command = Command::new(TRIALS);
    command.args(["conformance", "server"]).current_dir(directory).env("PIDS", directory.join("pids"));
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0).spawn().unwrap();
    let pid = until("the server", || {
        let pids = fs::read_to_string(directory.join("pids")).ok()?;
        pids.strip_suffix('\n').map(str::to_owned)
    });
    assert!(lives(&pid));
    (child, pid)
}

/// Runs a verb as make does.
fn passes(arguments: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let run = Command::new(TRIALS).args(arguments).current_dir(root).stdin(Stdio::null()).output().unwrap();
    let said = [run.stdout, run.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(run.status.success(), "{arguments:?}: scripts/setup --tests installs what this needs\n{said}");
}

fn wait_as_they_should(programs: &[&str]) {
    passes(&[&["conformance", "--without-faketime"], programs].concat());
}

#[test]
fn interpreters_wait_as_they_should() {
    wait_as_they_should(&["shell", "python", "perl"]);
}

#[test]
fn static_programs_wait_as_they_should() {
    // Side by side: they do little but wait.
    thread::scope(|scope| {
        scope.spawn(|| wait_as_they_should(&["c-glibc-static"]));
        scope.spawn(|| wait_as_they_should(&["go-static"]));
    });
}

#[test]
fn cpythons_own_tests_end_as_natively() {
    passes(&["cpython", "test_time", "test_select", "test_epoll", "test_sched", "test_timeout"]);
}

fn interrupted(script: &str) {
    for signal in [Signal::INT, Signal::TERM] {
        let directory = tempfile::tempdir().unwrap();
        let (mut child, pid) = start(directory.path(), script);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let status = until("the end", || child.try_wait().unwrap());
        assert_eq!(status.code(), Some(130), "{signal:?}");
        until("the server's end", || (!lives(&pid)).then_some(()));
    }
}

#[test]
fn an_interruption_leaves_no_server_behind() {
    interrupted("sleep 1000 & echo $! >\"$PIDS\"; wait");
}

#[test]
fn nor_does_one_of_a_dilated_script() {
    // The first run is native; it ends at once. Inside, the pids are those of the outside.
    interrupted("[ -e \"$PIDS.once\" ] || { : >\"$PIDS.once\"; exit; }; sleep 1000 & echo $! >\"$PIDS\"; wait");
}
