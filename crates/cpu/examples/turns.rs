//! Measures turns on this machine: what nodes get of what they are owed, and how long bursts of work take.
//!
//! `turns TURN_MS SECONDS TDF` puts a server of 0.5 of a core and four clients of 0.08, at that TDF, under limits with
//! turns of that length. It prints what each had over so many seconds in which all compute, over what it was owed, and
//! the median real time that bursts of work took in the server, from its wake-up on, beside what they would take on a
//! processor of the server's speed. Not by threads, as the tests do: those of one process cannot be in different groups
//! of version 2. Needs root.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use diorama_cpu::{Calibration, CpuGroups, NodeShare, Policy, Terms, fillers_main};
use scale::{RealDuration, RealInstant};

const CORE: usize = 0;
/// Of one core at TDF 1.
const SPEEDS: [f64; 5] = [0.5, 0.08, 0.08, 0.08, 0.08];
/// Bursts, in real ms of work, and how many of each.
const BURSTS: [(f64, usize); 2] = [(1.0, 40), (5.0, 12)];
/// A step of the clock longer than this is one in which something else ran. Emulated machines are slow.
const GAP: RealDuration = RealDuration::from_nanos(20_000);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["__fillers", ..] => fillers_main(args[1..].to_vec()),
        ["spin"] => spin(),
        ["bursts"] => bursts(),
        ["lengths"] => lengths(),
        [turn, seconds, tdf] => measure(number(turn), number(seconds), number(tdf)),
        _ => panic!("usage: turns TURN_MS SECONDS TDF"),
    }
}

fn number(text: &str) -> f64 {
    text.parse().expect("a number")
}

fn measure(turn_ms: f64, seconds: f64, tdf: f64) {
    let node = |(i, speed): (usize, f64)| NodeShare::new(format!("n{i}"), CORE, speed / tdf);
    let shares: Vec<_> = SPEEDS.into_iter().enumerate().map(node).collect();
    let terms = Terms { slice: RealDuration::from_secs_f64(turn_ms / 1e3), pace: None };
    let id = format!("turns-{}", std::process::id());
    let mut groups = CpuGroups::create(&id, &shares, Policy::Slots, terms).expect("groups");
    let helper = groups.helper().map(|mut command| command.spawn().expect("the fillers"));
    let found = groups.engage(helper).expect("limits");
    let Calibration { usable, grain, .. } = found[0];
    println!("turns of {turn_ms} ms, TDF {tdf}: usable {usable:.3}, measured {grain:?}");
    let within = |groups: &CpuGroups, node: usize, what: &str| {
        let joiner = groups.joiner(&format!("n{node}")).expect("a joiner");
        let mut command = Command::new("/proc/self/exe");
        command.arg(what).stdin(Stdio::piped()).stdout(Stdio::piped());
        // SAFETY: between fork and exec this makes system calls on open files only.
        unsafe { command.pre_exec(move || joiner.join()) };
        begun(command.spawn().expect("a process"))
    };
    let probe = |groups: &CpuGroups, siblings: &str| {
        let child = within(groups, 0, "bursts");
        for (line, (work, _)) in read(child).zip(BURSTS) {
            println!("  burst of {work} ms, siblings {siblings}: {line} ms; ideal {}", work * tdf / SPEEDS[0]);
        }
    };
    probe(&groups, "idle");
    let mut hogs: Vec<Child> = (1..SPEEDS.len()).map(|node| within(&groups, node, "spin")).collect();
    probe(&groups, "busy");
    for line in read(within(&groups, 0, "lengths")) {
        println!("  {line}");
    }
    hogs.push(within(&groups, 0, "spin"));
    sleep(Duration::from_secs(2));
    let before = groups.sample().expect("a sample");
    sleep(Duration::from_secs_f64(seconds));
    let after = groups.sample().expect("a sample");
    let got = shares.iter().zip(before.nodes.iter().zip(&after.nodes)).map(|(node, (a, b))| {
        let had = (b.container_ns - a.container_ns) as f64 / b.at.since(a.at).as_nanos() as f64;
        format!("{:.1}", 100.0 * had / node.share)
    });
    println!("  got, % of owed: {}", got.collect::<Vec<_>>().join(" "));
    for mut hog in hogs {
        hog.kill().expect("killed");
        hog.wait().expect("its end");
    }
    groups.release().expect("release");
}

/// After it has said that it is at work.
fn begun(mut child: Child) -> Child {
    let mut word = String::new();
    BufReader::with_capacity(1, child.stdout.as_mut().expect("a pipe")).read_line(&mut word).expect("a word");
    child
}

/// Lets a process go on, and gives what it says.
fn read(mut child: Child) -> impl Iterator<Item = String> {
    drop(child.stdin.take());
    let lines: Vec<_> = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok).collect();
    child.wait().expect("its end");
    lines.into_iter()
}

fn say_begun() {
    println!("begun");
    std::io::stdout().flush().expect("told");
}

fn spin() -> ! {
    say_begun();
    loop {
        std::hint::black_box(0);
    }
}

fn wait_for_go() {
    say_begun();
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// When so much work is done.
fn work(amount: RealDuration) -> RealInstant {
    let (mut done, mut last) = (RealDuration::ZERO, host::now());
    while done < amount {
        let next = host::now();
        let step = next.since(last);
        done = if step < GAP { done + step } else { done };
        last = next;
    }
    last
}

fn bursts() {
    wait_for_go();
    let mut phase = 0;
    for (ms, times) in BURSTS {
        let mut walls: Vec<f64> = Vec::new();
        for _ in 0..times {
            phase = (phase + 1_618_033) % 5_000_000;
            let start = host::now() + RealDuration::from_nanos(30_000_000 + phase);
            host::time::sleep_until(start);
            walls.push(work(RealDuration::from_secs_f64(ms / 1e3)).since(start).as_secs_f64() * 1e3);
        }
        walls.sort_by(f64::total_cmp);
        let at = |q: f64| walls[(q * (walls.len() - 1) as f64).round() as usize];
        println!("{:.2} ({:.2} to {:.2})", at(0.5), at(0.1), at(0.9));
    }
}

/// How long this process runs at a time, and does not, for some seconds.
fn lengths() {
    wait_for_go();
    let (mut ran, mut away) = (Vec::new(), Vec::new());
    let begin = host::now();
    let (mut since, mut last) = (begin, begin);
    while last.since(begin) < RealDuration::from_nanos(3_000_000_000) {
        let next = host::now();
        if next.since(last) > RealDuration::from_nanos(60_000) {
            ran.push(last.since(since).as_secs_f64() * 1e3);
            away.push(next.since(last).as_secs_f64() * 1e3);
            since = next;
        }
        last = next;
    }
    for (what, mut all) in [("ran", ran), ("away", away)] {
        all.sort_by(f64::total_cmp);
        let at = |q: f64| all[(q * (all.len() - 1) as f64).round() as usize];
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let [few, half, most, all_but] = [0.1, 0.5, 0.9, 0.99].map(at);
        println!(
            "server {what} {} times, ms: mean {mean:.3}, p10 {few:.3}, p50 {half:.3}, p90 {most:.3}, p99 {all_but:.3}",
            all.len()
        );
    }
}
