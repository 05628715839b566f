//! Real programs, unmodified, at TDF 10. Each prints lines "ELAPSED NOMINAL" in virtual seconds.

use std::path::Path;
use std::process::Command;

use crate::common::{Dilation, Ran, compile};

fn check(name: &str, ran: &Ran) {
    assert!(ran.status.success(), "{name}: {:?}\n{}", ran.status, ran.stdout);
    let mut nominal_sum = 0.0;
    for line in ran.stdout.lines() {
        let (elapsed, nominal) = line.split_once(' ').unwrap_or_else(|| panic!("{name}: {line}"));
        let (elapsed, nominal): (f64, f64) = (elapsed.parse().expect(line), nominal.parse().expect(line));
        // Node counts whole milliseconds; a loaded machine may add some.
        assert!(elapsed >= nominal - 0.001, "{name} was early: {line}");
        assert!(elapsed < nominal + 0.1 + ran.noise.as_secs_f64() / 10.0, "{name} was late: {line}");
        nominal_sum += nominal;
    }
    assert!(nominal_sum > 0.0, "{name} printed nothing");
    assert!(ran.real.as_secs_f64() >= 10.0 * nominal_sum, "{name} was not dilated: {:?}", ran.real);
}

fn need(program: &str, package: &str) {
    let found = Command::new("sh").args(["-c", "command -v \"$0\"", program]).output().expect("sh");
    assert!(found.status.success(), "this test needs {program}: apt install {package} (make test does)");
}

fn script(package: &str, argv: &[&str]) {
    need(argv[0], package);
    check(package, &Dilation::new("10").run(argv));
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
    script("python3", &["python3", "-c", text]);
}

#[test]
fn perl() {
    let text =
        "use Time::HiRes qw(time sleep); for (1..3) { my $s = time; sleep 0.03; printf \"%.6f 0.03\\n\", time - $s }
        my $s = time; select undef, undef, undef, 0.03; printf \"%.6f 0.03\\n\", time - $s";
    script("perl", &["perl", "-e", text]);
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
    script("nodejs", &["node", "-e", text]);
}

#[test]
fn a_static_go_program() {
    need("go", "golang-go");
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
    assert!(build.expect("go").success());
    check("Go", &Dilation::new("10").run([&output]));
}

#[test]
fn a_static_multithreaded_c_program() {
    check("C threads", &Dilation::new("10").run([compile("threads", &["-static"])]));
}

#[test]
fn nginx_under_h2load() {
    let dir = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let root = dir.path().display();
    let conf = format!(
        "daemon off; user root; worker_processes 1; pid {root}/pid; error_log stderr crit; events {{}}\n\
         http {{ access_log off; client_body_temp_path {root}/b; proxy_temp_path {root}/p;\n\
         fastcgi_temp_path {root}/f; uwsgi_temp_path {root}/u; scgi_temp_path {root}/s; gzip on;\n\
         gzip_min_length 1; gzip_types text/plain;\n\
         server {{ listen 127.0.0.1:{port}; location / {{ return 200 hello; }} }} }}\n"
    );
    std::fs::write(dir.path().join("nginx.conf"), conf).unwrap();
    // 20 requests, 100 a second: 0.19 s at least. h2load says "finished in 190.50ms, …".
    let text = format!(
        "nginx -p {root} -c {root}/nginx.conf & \
         until (exec 9<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.001; done; \
         h2load --h1 -c 1 -n 20 --rps 100 http://127.0.0.1:{port}/ | \
         awk '/^finished in/ {{ t = $3; u = t; sub(/ms,/, \"\", u); sub(/s,/, \"\", t); \
                               print (t ~ /m$/ ? u / 1000 : t), 0.19 }} \
              /^requests:/ && $8 != 20 {{ print \"requests failed:\", $0 }}'; kill %1; wait"
    );
    need("nginx", "nginx-light");
    need("h2load", "nghttp2-client");
    check("nginx and h2load", &Dilation::new("10").run(["bash", "-c", &text]));
}
