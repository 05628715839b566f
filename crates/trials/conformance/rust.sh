# program: Rust
# packages: rustc-web
cat >w.rs <<'R'
use std::sync::{mpsc, Condvar, Mutex};
use std::time::{Duration, Instant};
fn wait(name: &str, f: impl FnOnce(Duration)) {
    let s = Instant::now();
    f(Duration::from_millis(200));
    println!("200 {} {name}", s.elapsed().as_millis());
}
fn main() {
    wait("thread::sleep", |d| std::thread::sleep(d));
    wait("Condvar", |d| {
        let (m, c) = (Mutex::new(()), Condvar::new());
        let _ = c.wait_timeout(m.lock().unwrap(), d).is_ok();
    });
    wait("recv_timeout", |d| { let (_s, r) = mpsc::channel::<()>(); let _ = r.recv_timeout(d); });
    wait("park_timeout", |d| std::thread::park_timeout(d));
}
R
# Ubuntu's newer releases are not on PATH.
PATH="$PATH$(printf ':%s' /usr/lib/rust-*/bin)"
rustc -O -o w w.rs && echo - && exec ./w
