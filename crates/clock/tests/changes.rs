//! The rate changes while programs read clocks and wait.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::Duration;

use common::{Dilation, compile};
use diorama_clock::{ClockPage, wait};

/// Two tests use it, and may run side by side.
fn naps() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| compile("naps", &[]));
    &PROGRAM
}

fn started(command: &mut Command) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut ready = String::new();
    out.read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    (child, out)
}

fn finish(mut child: Child, mut out: BufReader<std::process::ChildStdout>) -> String {
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    assert!(wait(&mut child).unwrap().success());
    text
}

fn turn_to(page: &ClockPage, tdf: &str) {
    page.set_tdf(tdf.parse().unwrap());
}

#[test]
fn time_never_runs_backwards() {
    let dilation = Dilation::new("1");
    let (child, out) = started(&mut dilation.command([compile("readers", &[]).as_os_str(), "1000".as_ref()]));
    for i in 0..2000 {
        turn_to(&dilation.page, ["1", "10", "1.5", "1000", "3"][i % 5]);
        sleep(Duration::from_micros(300));
    }
    turn_to(&dilation.page, "1");
    let text = finish(child, out);
    let numbers: Vec<i64> = text.split_whitespace().map(|n| n.parse().unwrap()).collect();
    let [reads, back] = numbers[..] else { panic!("{text}") };
    assert!(reads > 2_000_000, "only {reads} readings");
    assert_eq!(back, 0, "time ran back by {back} ns in {reads} readings");
}

#[test]
fn sleepers_notice_a_slow_down() {
    let dilation = Dilation::new("1");
    let (child, out) = started(&mut dilation.command([naps()]));
    sleep(Duration::from_millis(100));
    turn_to(&dilation.page, "4");
    let text = finish(child, out);
    assert_eq!(text.lines().count(), 11, "{text}");
    for line in text.lines() {
        let us: i64 = line.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(us >= 300_000, "{line}: early");
        assert!(us < 340_000, "{line}: late");
    }
}

#[test]
fn sleepers_are_late_after_a_speed_up_but_never_early() {
    let dilation = Dilation::new("4");
    let (child, out) = started(&mut dilation.command([naps()]));
    sleep(Duration::from_millis(200));
    turn_to(&dilation.page, "1");
    for line in finish(child, out).lines() {
        let us: i64 = line.split(' ').nth(1).unwrap().parse().unwrap();
        // 50 ms passed at TDF 4, the other 1000 real ms at 1.
        assert!((300_000..1_200_000).contains(&us), "{line}");
    }
}

#[test]
fn a_change_before_the_start_is_none() {
    let page = ClockPage::new("10".parse().unwrap()).unwrap();
    assert_eq!(page.set_tdf("2".parse().unwrap()).as_nanos(), 0);
    page.start();
    sleep(Duration::from_millis(50));
    let at = page.set_tdf("1".parse().unwrap()).as_secs_f64();
    assert!((0.005..0.05).contains(&at), "virtual {at} s after 50 ms at TDF 10");
    assert!(page.now().as_secs_f64() >= at);
}
