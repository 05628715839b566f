//! Real programs, unmodified, at TDF 10. Each prints lines "ELAPSED NOMINAL" in virtual seconds.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Dilation, Ran, compile};

fn check(name: &str, ran: &Ran) {
    assert!(ran.status.success(), "{name}: {:?}\n{}", ran.status, ran.stdout);
    let mut nominal_sum = 0.0;
    for line in ran.stdout.lines() {
        let (elapsed, nominal) = line.split_once(' ').unwrap_or_else(|| panic!("{name}: {line}"));
        let (elapsed, nominal): (f64, f64) = (elapsed.parse().expect(line), nominal.parse().expect(line));
        // Node counts whole milliseconds; a loaded machine may add some.
        assert!(elapsed >= nominal - 0.001, "{name} was early: {line}");
        assert!(elapsed < nominal + 0.1, "{name} was late: {line}");
        nominal_sum += nominal;
    }
    assert!(nominal_sum > 0.0, "{name} printed nothing");
    assert!(ran.real.as_secs_f64() >= 10.0 * nominal_sum, "{name} was not dilated: {:?}", ran.real);
}

fn script(name: &str, argv: &[&str]) {
    let found = Command::new("sh").args(["-c", "command -v \"$0\"", argv[0]]).output().expect("sh");
    assert!(found.status.success(), "this test needs {name}: install `{}` (make test does)", argv[0]);
    check(name, &Dilation::new("10").run(argv));
}

#[test]
fn shell_and_coreutils() {
    let text = r#"
        s=$(date +%s.%N); sleep 0.05; e=$(date +%s.%N)
        echo "$(echo "$s $e" | awk '{ printf "%.6f", $2 - $1 }') 0.05"
        s=$EPOCHREALTIME; timeout 0.05 sleep 10; code=$?; e=$EPOCHREALTIME
        [ $code = 124 ] || exit 9
        echo "$(echo "$s $e" | awk '{ printf "%.6f", $2 - $1 }') 0.05"
        s=$EPOCHREALTIME; read -t 0.05 line < <(sleep 0.2); e=$EPOCHREALTIME
        echo "$(echo "$s $e" | awk '{ printf "%.6f", $2 - $1 }') 0.05"
    "#;
    script("bash", &["bash", "-c", text]);
}

#[test]
fn python() {
    let text = r#"
import asyncio, queue, select, signal, subprocess, threading, time

def timed(f, nominal=0.02):
    s = time.monotonic()
    f()
    print(time.monotonic() - s, nominal)

timed(lambda: time.sleep(0.02))
timed(lambda: threading.Event().wait(0.02))
timed(lambda: select.select([], [], [], 0.02))
timed(lambda: select.poll().poll(20))
timed(lambda: select.epoll().poll(0.02))
timed(lambda: asyncio.run(asyncio.sleep(0.02)))
timed(lambda: subprocess.run(["sleep", "0.02"], check=True))
timed(lambda: signal.sigtimedwait([signal.SIGUSR1], 0.02))
def empty():
    try:
        queue.Queue().get(timeout=0.02)
    except queue.Empty:
        pass
timed(empty)
def threads():
    ts = [threading.Thread(target=time.sleep, args=(0.02,)) for _ in range(20)]
    [t.start() for t in ts]
    [t.join() for t in ts]
timed(threads)
def alarm():
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    signal.pause()
timed(alarm)
"#;
    script("Python", &["python3", "-c", text]);
}

#[test]
fn perl() {
    let text =
        "use Time::HiRes qw(time sleep); for (1..3) { my $s = time; sleep 0.03; printf \"%.6f 0.03\\n\", time - $s }
        my $s = time; select undef, undef, undef, 0.03; printf \"%.6f 0.03\\n\", time - $s";
    script("Perl", &["perl", "-e", text]);
}

#[test]
fn node() {
    let text = r#"
        const { spawnSync } = require("child_process");
        const show = (s) => console.log((performance.now() - s) / 1000, 0.05);
        let s = performance.now();
        setTimeout(() => {
            show(s);
            s = performance.now();
            spawnSync("sleep", ["0.05"]);
            show(s);
            s = Date.now();
            Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
            console.log((Date.now() - s) / 1000, 0.05);
        }, 50);
    "#;
    script("Node", &["node", "-e", text]);
}

#[test]
fn a_static_go_program() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/static.go");
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("static-go");
    let build = Command::new("go")
        .args(["build", "-o"])
        .arg(&output)
        .arg(&source)
        .env("CGO_ENABLED", "0")
        .env("GO111MODULE", "off")
        .env("GOFLAGS", "")
        .status();
    assert!(build.expect("this test needs Go: apt install golang-go").success());
    check("Go", &Dilation::new("10").run([&output]));
}

#[test]
fn a_static_multithreaded_c_program() {
    check("C threads", &Dilation::new("10").run([compile("threads", &["-static"])]));
}
