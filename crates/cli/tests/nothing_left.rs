//! A run may be ended at any moment and in any way: nothing of it stays.

use std::os::unix::fs::DirBuilderExt;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::support::{ECHO, Lab, PATIENCE, TinyDisk, left_behind, on_two_cores, wait_until};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

/// Moments that are spread evenly, in an order that differs from signal to signal.
fn moments(n: usize, over: Duration, salt: u64) -> Vec<Duration> {
    (0..n as u64).map(|k| over * ((k * 7 + salt * 3) % n as u64) as u32 / n as u32).collect()
}

fn send(run: &Child, signal: Signal) {
    // It may have ended already; then there is nothing to do.
    let _ = kill_process(Pid::from_child(run), signal);
}

/// Whether a program has a handler for a signal.
pub fn hears(run: &Child, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", run.id())).unwrap_or_default();
    let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:")).unwrap_or("0");
    u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (signal.as_raw() - 1) != 0
}

/// How long a run takes from its first instruction until all its nodes are ready, on this machine as it is now.
fn time_to_get_going(lab: &Lab, args: &[&str]) -> Duration {
    let started = Instant::now();
    let mut run = lab.start(args);
    lab.wait_for_event("echo/scaled", "all-ready");
    let took = started.elapsed();
    send(&run, Signal::TERM);
    assert_eq!(run.wait().unwrap().code(), Some(130), "{}", lab.said());
    took
}

/// Ends runs at moments from their first instruction to well after virtual zero, `each` of them by each signal.
fn ended(signals: &[Signal], each: usize, salt: u64) {
    // Fast machines: a perl that takes a second to start is no other moment than one that takes a tenth.
    let faster = ECHO.replace("speed: 0.4", "speed: 3").replace("speed: 0.1", "speed: 1");
    let lab = Lab::new(&faster.replace("for (1..5)", "for (1..500)"));
    let args = ["run", "lab", "--tdf", "10"];
    let going = time_to_get_going(&lab, &args);
    // As many as signals are an odd number of moments apart, so that each has moments all over that time.
    for (moment, &signal) in moments(each * signals.len(), going * 4 / 3, salt).into_iter().zip(signals.iter().cycle())
    {
        let mut run = lab.start(&args);
        std::thread::sleep(moment);
        let heard = hears(&run, signal);
        // A process without its handlers of signals has made nothing yet.
        let before = if heard || signal == Signal::KILL { Vec::new() } else { left_behind(true) };
        send(&run, signal);
        let told = Instant::now();
        let code = run.wait().unwrap().code();
        if signal == Signal::KILL {
            assert_eq!(code, None);
            // Processes, mounts and interfaces go with the engine (in less time than they took to be made); groups and
            // files with the next command.
            wait_until(&format!("all gone after KILL at {moment:?}"), going.max(Duration::from_secs(2)), || {
                left_behind(false).is_empty()
            });
        } else {
            assert!(before.is_empty(), "{moment:?}: there is no handler yet, and already {before:?}");
            assert!(code == Some(130) || (code.is_none() && !heard), "{moment:?}: {code:?}: {}", lab.said());
            let limit = Duration::from_secs(20).max(going * 5);
            assert!(told.elapsed() < limit, "{moment:?}: took {:?}", told.elapsed());
            assert!(left_behind(true).is_empty(), "{moment:?}: {:?}", left_behind(true));
        }
    }
    // The next command removes what the kernel could not.
    assert_eq!(
        lab.diorama(&["run", "lab", "--tdf", "10", "--set", "ends.limit=100ms", "--set", "measure=0s..90ms"]).code,
        1
    );
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
}

#[test]
fn signals_are_heard_before_anything_is_made() {
    let lab = Lab::new(&ECHO.replace("for (1..5)", "for (1..500)"));
    // A run is registered before anything is made for it, under this lock.
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create("/run/diorama").unwrap();
    let registry = std::fs::File::create("/run/diorama/lock").unwrap();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        flock(&registry, FlockOperation::LockExclusive).unwrap();
        let mut run = lab.start(&["run", "lab"]);
        wait_until("a handler", PATIENCE, || hears(&run, signal));
        send(&run, signal);
        flock(&registry, FlockOperation::Unlock).unwrap();
        assert_eq!(run.wait().unwrap().code(), Some(130), "{signal:?}: {}", lab.said());
        assert!(left_behind(true).is_empty(), "{signal:?}: {:?}", left_behind(true));
    }
}

#[test]
fn what_was_measured_until_an_interrupt_is_kept() {
    let lab = Lab::new(&ECHO.replace("for (1..5)", "for (1..500)"));
    let run = lab.start(&["run", "lab", "--variant", "baseline"]);
    lab.wait_for_event("echo/baseline", "all-ready");
    std::thread::sleep(Duration::from_millis(1500));
    send(&run, Signal::INT);
    assert_eq!({ run }.wait().unwrap().code(), Some(130));
    let result = lab.result("echo/baseline");
    assert!(result.why.unwrap().contains("interrupted"));
    assert!(result.virtual_seconds > 1.0);
    assert!(lab.read("runs/echo/baseline/events.jsonl").contains("all-ready"));
}

#[test]
fn a_hangup_that_the_caller_ignores_ends_nothing() {
    // As `nohup` starts programs.
    let lab = Lab::new(&ECHO.replace("for (1..5)", "for (1..50)"));
    let words = "trap '' HUP; exec \"$0\" run lab --variant baseline";
    let mut command = std::process::Command::new("sh");
    let mut run = command.args(["-c", words, crate::support::DIORAMA]).current_dir(lab.path()).spawn().unwrap();
    lab.wait_for_event("echo/baseline", "all-ready");
    send(&run, Signal::HUP);
    assert_eq!(run.wait().unwrap().code(), Some(0));
}

#[test]
fn after_int_and_term() {
    ended(&[Signal::INT, Signal::TERM], 12, 1);
}

#[test]
fn after_kill() {
    ended(&[Signal::KILL], 20, 3);
}

#[test]
fn a_second_run_on_the_same_core_is_refused_and_does_not_touch_the_first() {
    let lab = Lab::new(ECHO);
    on_two_cores();
    let mut first = lab.start(&["run", "lab", "--keep"]);
    lab.wait_for_event("echo/scaled", "zero");
    let done = lab.diorama(&["run", "lab", "--variant", "baseline"]);
    assert_eq!(done.code, 3);
    assert!(done.stderr.contains("core 0 is in use by echo (scaled)"), "{}", done.stderr);
    assert!(done.stderr.contains("`--wait`"), "{}", done.stderr);
    assert!(!lab.path().join("runs/echo/baseline").exists());
    // Nor does one that would be called as the first is.
    let done = lab.diorama(&["run", "lab", "--repeat", "2"]);
    assert_eq!(done.code, 3);
    assert!(!lab.path().join("runs/echo/scaled.1").exists());
    wait_until("the results", PATIENCE, || lab.said().contains("kept until Ctrl-C"));
    send(&first, Signal::INT);
    assert_eq!(first.wait().unwrap().code(), Some(0), "{}", lab.said());
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
}

#[test]
fn a_run_that_waits_begins_when_the_first_has_ended() {
    let lab = Lab::new(ECHO);
    on_two_cores();
    let mut first = lab.start(&["run", "lab", "--keep"]);
    lab.wait_for_event("echo/scaled", "zero");
    let log = lab.path().join("second.log");
    let second = |args: &[&str]| {
        let file = std::fs::File::create(&log).unwrap();
        let mut command = lab.command(&[&["run", "lab", "--variant", "baseline", "--wait"], args].concat());
        command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap()
    };
    let waits = || std::fs::read_to_string(&log).unwrap().contains("waiting: core 0 is in use by echo (scaled), pid");
    // One that is told to end while it waits leaves nothing, not even a directory.
    let mut told_to_end = second(&[]);
    wait_until("a sentence", PATIENCE, waits);
    send(&told_to_end, Signal::INT);
    assert_eq!(told_to_end.wait().unwrap().code(), Some(130));
    assert!(!lab.path().join("runs/echo/baseline").exists());
    let mut waiting = second(&[]);
    wait_until("a sentence", PATIENCE, waits);
    assert!(!lab.path().join("runs/echo/baseline").exists());
    wait_until("the results", PATIENCE, || lab.said().contains("kept until Ctrl-C"));
    send(&first, Signal::INT);
    assert_eq!(first.wait().unwrap().code(), Some(0), "{}", lab.said());
    assert_eq!(waiting.wait().unwrap().code(), Some(0), "{}", std::fs::read_to_string(&log).unwrap());
    assert!(lab.path().join("runs/echo/baseline").join("plan.json").exists());
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
}

#[test]
fn whatever_a_node_has_written_is_removed() {
    // Deeper than a process may have files open, and than a path may be long.
    let deep = r#"for (1..3000) { mkdir "d"; chdir "d" } print "done=5\n"'"#;
    let lab = Lab::new(&ECHO.replace(r#"print "done=5\n"'"#, deep));
    assert_eq!(lab.diorama(&["run", "lab", "--variant", "baseline"]).code, 0);
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
}

#[test]
fn whatever_command_is_next_removes_what_a_killed_run_left() {
    let lab = Lab::new(&ECHO.replace("for (1..5)", "for (1..500)"));
    let mut run = lab.start(&["run", "lab"]);
    lab.wait_for_event("echo/scaled", "zero");
    send(&run, Signal::KILL);
    run.wait().unwrap();
    wait_until("processes", PATIENCE, || left_behind(false).is_empty());
    assert!(!left_behind(true).is_empty());
    lab.diorama(&["logs", "runs/echo/scaled"]);
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
}

#[test]
fn a_full_disk_fails_the_run_with_the_name_of_the_file() {
    let lab = Lab::new(ECHO);
    // Room for the first files of a run directory, and not for its last.
    for free in [0, 8 << 10, 24 << 10] {
        let disk = TinyDisk::with_free(lab.path(), free);
        let out = disk.0.join("out");
        let done = lab.diorama(&["run", "lab", "--variant", "baseline", "--out", out.to_str().unwrap()]);
        assert_eq!(done.code, 1, "{free} bytes free");
        assert!(
            done.stderr.contains(out.to_str().unwrap()) && done.stderr.contains("No space left"),
            "{}",
            done.stderr
        );
        assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
        drop(disk);
        std::fs::remove_dir(lab.path().join("tiny")).unwrap();
    }
}
