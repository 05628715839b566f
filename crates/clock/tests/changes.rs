//! The rate changes while programs read clocks and wait.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{Dilation, Noise, compile};
use diorama_clock::{ClockPage, wait};
use scale::VirtualInstant;

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

fn turn_to(dilation: &Dilation, tdf: &str) -> VirtualInstant {
    let at = dilation.injector.set_tdf(tdf.parse().unwrap()).unwrap();
    assert_eq!(*dilation.refusals.lock().unwrap(), [""; 0]);
    at
}

/// Lines "NAME us": all of 300 virtual ms, and what the machine added.
fn assert_naps(text: &str, count: usize, noise: Noise, how: &str) {
    let noise = noise.end(Duration::from_millis(30)).as_micros() as i64;
    assert_eq!(text.lines().count(), count, "{how}: {text}");
    for line in text.lines() {
        let us: i64 = line.split(' ').nth(1).unwrap().parse().unwrap_or_else(|_| panic!("{how}: {line}"));
        assert!(us >= 300_000, "{how}: {line}: early");
        assert!(us < 300_000 + noise, "{how}: {line}: late; {noise} us are allowed");
    }
}

#[test]
fn time_never_runs_backwards() {
    const CHANGES: i64 = 2000;
    let dilation = Dilation::new("1");
    let (child, out) = started(&mut dilation.command([compile("readers", &[]).as_os_str(), "1000".as_ref()]));
    for i in 0..CHANGES as usize {
        // The page alone: the readers must not be stopped at the change, where it would be easy.
        dilation.page.set_tdf(["1", "10", "1.5", "1000", "3"][i % 5].parse().unwrap());
        sleep(Duration::from_micros(300));
    }
    dilation.page.set_tdf("1".parse().unwrap());
    let text = finish(child, out);
    let numbers: Vec<i64> = text.split_whitespace().map(|n| n.parse().unwrap()).collect();
    let [reads, back] = numbers[..] else { panic!("{text}") };
    assert!(reads > 100 * CHANGES, "only {reads} readings for {CHANGES} changes");
    assert_eq!(back, 0, "time ran back by {back} ns in {reads} readings");
}

/// Programs that wait 300 virtual ms, begun at one factor and ended at others, wait as long as at any.
fn wait_through_changes(program: &[&OsStr], count: usize) {
    for (first, then) in [("1", &["4"][..]), ("4", &["1"]), ("2", &["5", "1.5", "3"])] {
        let (dilation, noise) = (Dilation::new(first), Noise::begin());
        let (child, out) = started(&mut dilation.command(program));
        for tdf in then {
            // Some 50 virtual ms.
            sleep(Duration::from_millis(100));
            turn_to(&dilation, tdf);
        }
        assert_naps(&finish(child, out), count, noise, &format!("{first}, then {then:?}"));
    }
}

#[test]
fn sleepers_wait_through_changes() {
    wait_through_changes(&[compile("naps", &[]).as_os_str()], 11);
}

#[test]
fn the_kernels_timers_wait_through_changes() {
    wait_through_changes(&[compile("alarms", &[]).as_os_str()], 15);
}

#[test]
fn timers_of_a_process_that_cannot_be_stopped_wait_too() {
    wait_through_changes(&[compile("alarms", &[]).as_os_str(), "itimer-vfork".as_ref()], 1);
}

#[test]
fn the_page_alone_may_change_and_no_sleeper_is_early() {
    let (dilation, noise) = (Dilation::new("1"), Noise::begin());
    let (child, out) = started(&mut dilation.command([compile("naps", &["-static"])]));
    sleep(Duration::from_millis(100));
    dilation.page.set_tdf("4".parse().unwrap());
    assert_naps(&finish(child, out), 11, noise, "page alone");
}

#[test]
fn programs_start_and_end_while_the_rate_changes() {
    let dilation = Dilation::new("2");
    let script = "for i in $(seq 150); do /bin/true & sh -c 'exit 0' & (sleep 0.001) & done; wait; echo done";
    let mut child = dilation.command(["bash", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut last = VirtualInstant::ZERO;
    let mut changes = 0;
    while child.stdout.is_some() {
        let at = turn_to(&dilation, ["1", "3", "1.5"][changes % 3]);
        assert!(at > last, "{at:?} after {last:?}");
        (last, changes) = (at, changes + 1);
        sleep(Duration::from_millis(2));
        if dilation.injector.counters().injected >= 301 {
            let mut text = String::new();
            child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "done\n");
        }
    }
    assert!(wait(&mut child).unwrap().success());
    assert!(changes > 5, "only {changes} changes");
}

#[test]
fn a_change_before_the_start_is_none() {
    let page = ClockPage::new("10".parse().unwrap()).unwrap();
    assert_eq!(page.set_tdf("2".parse().unwrap()).as_nanos(), 0);
    let begun = Instant::now();
    page.start();
    sleep(Duration::from_millis(50));
    let at = page.set_tdf("1".parse().unwrap()).as_secs_f64();
    let most = begun.elapsed().as_secs_f64() / 10.0;
    assert!((0.005..=most).contains(&at), "virtual {at} s after {most} s at TDF 10");
    assert!(page.now().as_secs_f64() >= at);
}
