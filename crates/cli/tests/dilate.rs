//! `diorama dilate` as scripts use it: exit codes, signals, and nothing left behind.

use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::{EMPTIED, compile};

fn dilate(argv: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diorama"));
    command.args(["dilate", "--tdf", "10", "--"]).args(argv);
    command
}

fn output(argv: &[&str]) -> Output {
    dilate(argv).output().expect("diorama starts")
}

/// Starts a command that prints a line when it is ready, and waits for the line.
fn started(argv: &[&str]) -> (Child, BufReader<ChildStdout>, String) {
    let mut child = dilate(argv).stdout(Stdio::piped()).spawn().expect("diorama starts");
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    (child, out, line.trim().to_owned())
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: the child is not yet waited for, so the number is its own.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

/// Whether a process runs whose arguments contain `mark`.
fn runs(mark: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let own = std::process::id().to_string();
    entries.filter(|e| e.file_name().to_str() != Some(&own)).any(|e| {
        let arguments = std::fs::read(e.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).replace('\0', " ").contains(mark)
    })
}

fn gone_within(mark: &str, limit: Duration) {
    let start = Instant::now();
    while runs(mark) {
        assert!(start.elapsed() < limit, "a process with `{mark}` still runs after {limit:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_commands_own_code() {
    assert_eq!(output(&["sh", "-c", "exit 42"]).status.code(), Some(42));
    assert_eq!(output(&["sh", "-c", "kill -KILL $$"]).status.code(), Some(128 + 9));
    assert_eq!(output(&["no-such-command"]).status.code(), Some(127));
    assert_eq!(output(&["/etc/passwd"]).status.code(), Some(126));
}

#[test]
fn a_tenth_of_the_time() {
    let start = Instant::now();
    let out = output(&["bash", "-c", "s=$EPOCHREALTIME; sleep 0.1; e=$EPOCHREALTIME; echo $(( ${e/./} - ${s/./} ))"]);
    let real = start.elapsed();
    let us: u64 = String::from_utf8_lossy(&out.stdout).trim().parse().unwrap();
    assert!(us >= 100_000 && us * 10 <= real.as_micros() as u64, "{us} virtual us in {real:?}");
}

#[test]
fn the_factor_can_be_changed_while_the_command_runs() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("control").to_str().unwrap().to_owned();
    let diorama = |tdf: &str, rest: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_diorama"));
        command.args(["dilate", "--tdf", tdf, "--control", &socket]).args(rest);
        command
    };
    // Sleeps until it is told that the factor has changed, and twenty times since.
    let script = "echo; until read -t 0; do sleep 0.02; done; s=${EPOCHREALTIME/./}; \
                  for i in {1..20}; do sleep 0.02; done; e=${EPOCHREALTIME/./}; echo $((e - s))";
    let mut command = diorama("1", &["--", "bash", "-c", script]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let changed = diorama("5", &[]).output().unwrap();
    assert!(changed.status.success(), "{changed:?}");
    let start = Instant::now();
    drop(child.stdin.take());
    line.clear();
    out.read_line(&mut line).unwrap();
    let real = start.elapsed();
    let us: u64 = line.trim().parse().unwrap();
    assert!(child.wait().unwrap().success());
    // A fifth of the pace: 0.4 s of it take at least 2.
    assert!(us >= 400_000 && us * 5 <= real.as_micros() as u64, "{us} virtual us in {real:?}");
    assert!(!std::path::Path::new(&socket).exists(), "the socket goes with the command");
    let nobody = diorama("5", &[]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains(&socket), "{nobody:?}");
}

#[test]
fn the_time_stamp_counter_is_dilated_where_asked() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("tsc").to_str().unwrap().to_owned();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../clock/tests/programs/tsc.c");
    crate::support::compile(source, &program, &["-O1", "-pthread"]);
    // Cycles per ms of the clock that the program sees; of three, for it may lose the processor between its two looks.
    let cycles = |command: &mut Command| -> f64 {
        let mut three = [0; 3].map(|_: u8| {
            let out = command.output().unwrap();
            assert!(out.status.success(), "{out:?}");
            String::from_utf8_lossy(&out.stdout).split(' ').next().unwrap().parse().unwrap()
        });
        three.sort_by(f64::total_cmp);
        three[1]
    };
    let native = cycles(&mut Command::new(&program));
    let ratio = |tsc: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_diorama"));
        cycles(command.args(["dilate", "--tdf", "5", "--tsc", tsc, "--", &program])) / native
    };
    assert!((ratio("dilated") - 1.0).abs() < 0.02);
    assert!((ratio("native") - 5.0).abs() < 0.1);
}

#[test]
fn dilation_does_not_nest() {
    let out = output(&[env!("CARGO_BIN_EXE_diorama"), "dilate", "--tdf", "2", "--", "true"]);
    assert_eq!(out.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&out.stderr).contains("under dilation"), "{out:?}");
}

#[test]
fn what_traces_programs_from_their_start_is_told_to_attach() {
    let gdb = &["gdb", "-q", "-nx", "-batch", "-ex", "set startup-with-shell off", "-ex", "run", "/bin/true"];
    for argv in [&["strace", "-o", "/dev/null", "/bin/true"][..], gdb] {
        let ended = output(argv);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(125), "{said}");
        let sentence = format!("{} cannot trace a dilated program from its start: run the program alone", argv[0]);
        assert!(said.contains(&sentence) && said.contains("attach to it from outside"), "{said}");
    }
    // Somebody else's code is its own.
    let script = "strace -o /dev/null /bin/true 2>/dev/null; exit 7";
    assert_eq!(output(&["bash", "-c", script]).status.code(), Some(7));
}

#[test]
fn signals_reach_the_command() {
    for (number, name) in [(libc::SIGTERM, "TERM"), (libc::SIGINT, "INT"), (libc::SIGUSR1, "USR1")] {
        let text = format!("trap 'echo {name}; exit 3' {name}; echo ready; while :; do sleep 0.01; done");
        let (mut child, mut out, ready) = started(&["bash", "-c", &text]);
        assert_eq!(ready, "ready");
        signal(&child, number);
        assert_eq!(child.wait().unwrap().code(), Some(3), "{name}");
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), name);
    }
    let (mut child, _out, _) = started(&["sh", "-c", "echo ready; exec sleep 1000"]);
    signal(&child, libc::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(128 + libc::SIGTERM));
}

#[test]
fn what_the_command_leaves_is_ended() {
    let mark = "31415.926001";
    let text = format!("setsid sleep {mark} & (sleep {mark} &) ; sleep 0.01; echo done");
    let out = output(&["bash", "-c", &text]);
    assert_eq!(out.stdout, b"done\n");
    assert!(!runs(mark), "the command has ended, and something of it runs on");
}

#[test]
fn killing_diorama_ends_everything() {
    let mark = "31415.926002";
    let text = format!("setsid sleep {mark} & sleep {mark} & echo ready; sleep {mark}");
    let (mut child, _out, _) = started(&["bash", "-c", &text]);
    assert!(runs(mark));
    signal(&child, libc::SIGKILL);
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    gone_within(mark, Duration::from_secs(20));
}

#[test]
fn killing_the_reaper_ends_everything() {
    let mark = "31415.926003";
    let text = format!("echo $PPID; setsid sleep {mark} & sleep {mark}");
    let (mut child, _out, reaper) = started(&["bash", "-c", &text]);
    let reaper: i32 = reaper.parse().unwrap();
    assert_ne!(reaper, child.id() as i32);
    // SAFETY: it is the parent of a process that runs, so the number is its own.
    assert_eq!(unsafe { libc::kill(reaper, libc::SIGKILL) }, 0);
    assert_eq!(child.wait().unwrap().code(), Some(125));
    gone_within(mark, Duration::from_secs(20));
}

#[test]
fn nobody_can_dilate() {
    // The binary may lie where others cannot go: an open descriptor leads there all the same.
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("diorama");
    std::fs::copy(env!("CARGO_BIN_EXE_diorama"), &copy).unwrap();
    use std::os::unix::fs::PermissionsExt;
    for path in [dir.path(), &copy] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(&copy);
    command.args(["dilate", "--tdf", "10", "--", "sh", "-c", "id -u; sleep 0.01; exec true"]);
    let out = command.uid(65534).gid(65534).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    assert_eq!(out.stdout, b"65534\n");
    let limited =
        Command::new(&copy).args(["dilate", "--tdf", "10", "--cpu", "--", "true"]).uid(65534).output().unwrap();
    assert_eq!(limited.status.code(), Some(125), "{limited:?}");
    assert!(String::from_utf8_lossy(&limited.stderr).contains("root"), "{limited:?}");
}

#[test]
fn what_keeps_others_out_is_told_why_it_cannot_execute() {
    let script = "import ctypes, os\nctypes.CDLL(None).prctl(4, 0)\nos.execv('/bin/true', ['true'])";
    let mut command = dilate(&["python3", "-c", script]);
    let root = command.output().unwrap();
    assert!(root.status.success(), "root may look into it: {root:?}");
    let out = command.uid(65534).gid(65534).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("PermissionError"), "{out:?}");
    assert!(said.contains("PR_SET_DUMPABLE") && said.contains("run diorama as root"), "{out:?}");
}

#[test]
fn descriptors_pass_through() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "through\n").unwrap();
    // As systemd hands over sockets, and make its jobserver: from 3 on.
    let script = "exec 3<\"$0\" 4<&3 7<&3; \"$@\" sh -c 'cat <&3; exec ls /proc/self/fd'";
    let seen = |launcher: &[&str]| {
        let out = Command::new("sh").args(["-c", script]).arg(&file).args(launcher).output().unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let (natively, dilated) = (seen(&[]), seen(&[env!("CARGO_BIN_EXE_diorama"), "dilate", "--tdf", "10", "--"]));
    assert!(natively.starts_with("through\n0\n1\n"), "{natively}");
    assert_eq!(dilated, natively);
}

#[test]
fn standard_streams_pass_through() {
    let mut command = dilate(&["sh", "-c", "cat; echo oops >&2"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"through\n").unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!((&out.stdout[..], &out.stderr[..]), (&b"through\n"[..], &b"oops\n"[..]));
}

#[test]
fn what_takes_away_what_dilates_it_ends_with_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("emptied");
    compile(EMPTIED, &program, &["-static"]);
    let program = program.to_str().unwrap();
    for how in ["over", "traced"] {
        let ended = output(&[program, how]);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(125), "{how}: {said}");
        assert!(said.contains("the command has failed because emptied takes away"), "{how}: {said}");
    }
    let goes_on = output(&[program, "parts"]);
    assert!(goes_on.status.success() && goes_on.stderr.is_empty(), "{goes_on:?}");
    // Somebody else's code is its own.
    let script = format!("{program} over; exit 0");
    assert_eq!(output(&["bash", "-c", &script]).status.code(), Some(0));
}
