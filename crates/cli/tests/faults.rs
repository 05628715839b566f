//! Faults between nodes and of nodes, as a file has them happen: seen by programs that send one another datagrams all
//! the time. Needs root, two cores and crun or runc, as every run does, and gcc.

use std::fs;

use crate::support::Lab;
use record::{CheckName, RunDir};

/// Sends its name to all others every 10 ms, and prints when it did and when it heard from whom, in us.
const TALKER: &str = r#"
#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
int main(int argc, char **argv)
{
	struct sockaddr_in to[8] = { 0 }, own = { .sin_family = AF_INET, .sin_port = htons(9) };
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	bind(s, (void *)&own, sizeof own);
	setvbuf(stdout, 0, _IOLBF, 0);
	for (int i = 2; i < argc; i++) {
		struct hostent *host = gethostbyname(argv[i]);
		to[i] = own;
		memcpy(&to[i].sin_addr, host->h_addr, 4);
	}
	for (long long next = now();; next += 10000) {
		char from[9] = { 0 };
		printf("tick %lld\n", now());
		for (int i = 2; i < argc; i++)
			sendto(s, argv[1], 1, 0, (void *)&to[i], sizeof to[i]);
		for (; now() < next + 10000; usleep(1000))
			while (recv(s, from, 1, 0) > 0)
				printf("%s %lld\n", from, now());
		/* Time in which it was stopped is not made up for. */
		if (now() > next + 50000)
			next = now();
	}
}
"#;

const FAULTS: &str = r#"
name: faults
tdf: 5
machines: { m: { speed: 0.3, memory: 64MiB } }
nodes:
  a: { machine: m, run: /prog a b c, files: { /prog: prog } }
  b: { machine: m, run: /prog b a c, files: { /prog: prog } }
  c: { machine: m, run: /prog c a b, files: { /prog: prog } }
links: [{ from: a, to: s, delay: 1ms }, { from: b, to: s, delay: 1ms }, { from: c, to: s, delay: 1ms }]
switches: [s]
events:
  - { at: 0.5s, partition: [[a]], for: 500ms }
  - { at: 1.2s, partition: [[a], [b]], direction: to, for: 500ms }
  - { at: 1.9s, node: c, do: pause, for: 500ms }
  - { at: 2.6s, link: b--s, flap: { every: 400ms, down: 200ms }, for: 800ms }
  - { at: 3.5s, link: c--s, set: { loss: 100% }, for: 500ms }
  - { at: 4.2s, node: c, do: pause }
ends: { limit: 4.4s }
"#;

/// When a node did not hear of somebody for long: from when on, in ms of the clock that all share, and for how long.
fn gaps(lab: &Lab, node: &str, who: &str) -> Vec<(f64, f64)> {
    let log = lab.read(&format!("runs/faults/nodes/{node}/stdout.log"));
    let of = |line: &str| line.split_once(' ').filter(|(of, _)| *of == who)?.1.parse::<f64>().ok();
    let all: Vec<f64> = log.lines().filter_map(of).map(|us| us * 1e-3).collect();
    all.windows(2).map(|two| (two[0], two[1] - two[0])).filter(|(_, lasts)| *lasts > 100.0).collect()
}

#[test]
fn faults_begin_and_end_as_the_file_says() {
    let lab = Lab::new(FAULTS);
    lab.compile(TALKER, "prog", &["-O1"]);
    let run = lab.diorama(&["run", "lab", "--out", "runs/faults"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    // The first partition is where all times are counted from: programs start when the machine lets them.
    let zero = gaps(&lab, "a", "b")[0].0 - 500.0;
    let (apart, deaf, away, flaps, lost) =
        ((500.0, 500.0), (1200.0, 500.0), (1900.0, 500.0), [(2600.0, 200.0), (3000.0, 200.0)], (3500.0, 500.0));
    for (node, who, expected) in [
        ("a", "b", vec![apart, flaps[0], flaps[1]]),
        ("a", "c", vec![apart, away, lost]),
        ("b", "a", vec![apart, deaf, flaps[0], flaps[1]]),
        ("b", "c", vec![away, flaps[0], flaps[1], lost]),
        ("c", "a", vec![apart, away, lost]),
        ("c", "b", vec![away, flaps[0], flaps[1], lost]),
        // A node that is paused does nothing, and its clock goes on.
        ("c", "tick", vec![away]),
        ("b", "tick", vec![]),
    ] {
        let seen: Vec<_> = gaps(&lab, node, who).iter().map(|(at, lasts)| (at - zero, *lasts)).collect();
        // The last pause lasts until all nodes end.
        let seen: Vec<_> = seen.into_iter().filter(|(at, _)| *at < 4100.0).collect();
        let is_near = |((at, lasts), (from, long)): (&(f64, f64), &(f64, f64))| {
            (at - from).abs() < 60.0 && (lasts - long).abs() < 60.0
        };
        let right = seen.len() == expected.len() && seen.iter().zip(&expected).all(is_near);
        assert!(right, "{node} heard of {who} with gaps {seen:?}, and not {expected:?}");
    }
    let events = lab.read("runs/faults/events.jsonl");
    let times = |event: &str| events.lines().filter(|line| line.contains(&format!("\"event\":\"{event}\""))).count();
    let kinds = ["partition", "heal", "pause", "resume", "link", "no-effect"].map(times);
    assert_eq!(kinds, [2, 2, 2, 1, 6, 0], "{events}");
}

/// Events of one instant, of which the first starts what the second ends.
const AT_ONCE: &str = r#"
name: at-once
tdf: 2
machines: { m: { speed: 0.2, memory: 64MiB } }
nodes:
  a: { machine: m, run: [sleep, "100"] }
  b: { machine: m, run: [sleep, "100"] }
events:
  - { at: 100ms, node: a, do: kill }
  - { at: 500ms, node: a, do: start }
  - { at: 500ms, node: a, do: kill }
  - { at: 1s, node: b, do: start }
  - { at: 2s, do: end }
ends: { limit: 60s }
"#;

#[test]
fn events_of_one_instant_happen_in_their_order() {
    let lab = Lab::new(AT_ONCE);
    let run = lab.diorama(&["run", "lab", "--out", "runs/at-once"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let text = lab.read("runs/at-once/events.jsonl");
    let of_a = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let of_a: Vec<_> = of_a.filter(|event| event["target"] == "a").collect();
    let kinds: Vec<_> = of_a.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(kinds, ["start", "kill", "exit", "start", "kill", "exit"], "{text}");
    assert!(of_a[5]["virtual_s"].as_f64().unwrap() < 1.9, "it ended when it was killed, and not with the run: {text}");
}

const WHEN: &str = r#"
name: when
tdf: 2
machines: { m: { speed: 0.2, memory: 64MiB } }
nodes:
  a: { machine: m, run: [sh, -c, "sleep 0.3; echo leader 7 >&2; sleep 100"] }
  b: { machine: m, run: [sleep, "100"] }
events:
  - { when: { node: "*", log: 'leader \d', after: 500ms }, node: b, do: pause, for: 200ms }
  - { when: { node: b, log: never }, do: end }
  - { when: { node: a, log: leader, after: 1s }, do: end }
ends: { limit: 60s }
"#;

#[test]
fn an_event_follows_what_a_node_prints() {
    let lab = Lab::new(WHEN);
    let run = lab.diorama(&["run", "lab", "--out", "runs/when"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let text = lab.read("runs/when/events.jsonl");
    let events: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |what: &str| events.iter().filter(|e| e["event"] == what).collect::<Vec<_>>();
    let at = |event: &serde_json::Value| event["virtual_s"].as_f64().unwrap();
    let (met, [paused], [resumed]) = (of("when"), &of("pause")[..], &of("resume")[..]) else { panic!("{text}") };
    assert_eq!((met.len(), &met[0]["detail"]["log"], &met[0]["target"]), (2, &"leader 7".into(), &"a".into()));
    assert!(at(met[0]) >= 0.3 && at(paused) >= at(met[0]) + 0.48 && at(paused) < at(met[0]) + 0.7, "{text}");
    assert!(at(resumed) >= at(met[0]) + 0.68, "{text}");
}

/// Does the same work again and again, with a sleep in between if it is told so, and prints when it began, and how long
/// it took, in us.
const WORKER: &str = r#"
int main(int argc, char **argv)
{
	setvbuf(stdout, 0, _IOLBF, 0);
	for (;;) {
		long long from = now();
		for (volatile int i = 0; i < 4000000; i++)
			;
		printf("%lld %lld\n", from, now() - from);
		if (argc > 1)
			usleep(5000);
	}
}
"#;

const HARDWARE: &str = r#"
name: hardware
tdf: 5
machines: { m: { speed: 0.6, memory: 64MiB }, two: { cpus: 2, speed: 0.3, memory: 64MiB } }
nodes:
  a: { machine: m, run: /prog, files: { /prog: prog } }
  b: { machine: m, run: /prog sleeps, files: { /prog: prog } }
  c: { machine: m, run: /prog sleeps, files: { /prog: prog } }
  d: { machine: two, run: /prog, files: { /prog: prog } }
  e:
    machine: m
    run: [sh, /limits]
    files: { /limits: limits }
links:
  - { from: a, to: s, delay: 5ms }
  - { from: b, to: s, delay: 5ms }
  - { from: c, to: s, delay: 5ms }
  - { from: d, to: s, delay: 5ms }
  - { from: e, to: s, delay: 5ms }
switches: [s]
events:
  - { at: 1s, node: a, do: speed, factor: 0.25, for: 2s }
  - { at: 1s, node: b, do: speed, factor: 0.25, for: 2s }
  - { at: 1s, node: d, do: speed, factor: 0.25, for: 2s }
  - { at: 1s, node: e, do: memory, limit: 16MiB, for: 1s }
  - { at: 1.5s, node: e, do: kill, for: 0.1s }
ends: { limit: 4s }
"#;

#[test]
fn cpus_become_slower_and_memory_scarcer_for_a_while() {
    let lab = Lab::new(HARDWARE);
    let limits = "cd /sys/fs/cgroup; while :; do cat memory/memory.limit_in_bytes memory.max; sleep 0.1; done 2>&-";
    fs::write(lab.path().join("lab/limits"), limits).unwrap();
    lab.compile(WORKER, "prog", &["-O1"]);
    let run = lab.diorama(&["run", "lab", "--out", "runs/hardware"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let pieces = |node: &str| {
        let log = lab.read(&format!("runs/hardware/nodes/{node}/stdout.log"));
        let of = |line: &str| line.split_once(' ').and_then(|(at, took)| Some((at.parse().ok()?, took.parse().ok()?)));
        log.lines().filter_map(of).collect::<Vec<(f64, f64)>>()
    };
    let zero = ["a", "b", "c", "d"].map(|node| pieces(node)[0].0).into_iter().fold(f64::MAX, f64::min);
    // Each by itself, while it is slow and before and after that: a core's own speed is the same for all meanwhile.
    let slower = |node: &str| {
        let mean = |within: &dyn Fn(f64) -> bool| {
            let took: Vec<f64> =
                pieces(node).iter().filter(|(at, _)| within((at - zero) * 1e-6)).map(|(_, took)| *took).collect();
            assert!(took.len() > 2, "{node}: {took:?}");
            took.iter().sum::<f64>() / took.len() as f64
        };
        mean(&|at| (1.1..2.8).contains(&at)) / mean(&|at| !(0.9..=3.1).contains(&at))
    };
    let [a, b, c, d] = ["a", "b", "c", "d"].map(slower);
    assert!([a, b, d].iter().all(|ratio| (3.2..4.8).contains(&(ratio / c))), "{a} {b} {c} {d}");
    // As fast as what the core did for nodes: where its own speed jumps, shares follow late.
    let speed = |within: &dyn Fn(f64) -> bool| {
        let seconds = RunDir::at(lab.path().join("runs/hardware")).speed().unwrap();
        let did = seconds.iter().filter(|second| within(second.virtual_s));
        let did: Vec<f64> = did.filter_map(|second| Some(second.percent_of_reference? * second.k)).collect();
        did.iter().sum::<f64>() / did.len() as f64
    };
    let faster = speed(&|at| (0.5..2.5).contains(&at)) / speed(&|at| !(0.5..2.5).contains(&at));
    let c = if faster.is_nan() { c } else { c * faster };
    assert!((0.75..1.35).contains(&c), "who is not slowed goes on as before: {c}, the core {faster}");
    let mut limits: Vec<u64> =
        lab.read("runs/hardware/nodes/e/stdout.log").lines().map(|line| line.parse().unwrap()).collect();
    // It has been started again with as little.
    assert!(limits.iter().filter(|limit| **limit == 16 << 20).count() > 5, "{limits:?}");
    limits.dedup();
    let ends = limits.len() == 3 || limits.len() == 5;
    assert!(ends && limits[0] == 64 << 20 && limits[1] == 16 << 20 && limits.last() == Some(&(64 << 20)), "{limits:?}");
    let events = lab.read("runs/hardware/events.jsonl");
    let times = |event: &str| events.lines().filter(|line| line.contains(&format!("\"event\":\"{event}\""))).count();
    assert_eq!(["speed", "memory"].map(times), [6, 2], "{events}");
    let result = lab.result("hardware");
    let entitled = result.fidelity.check(CheckName::CpuEntitlement).unwrap();
    // Of seconds in which a node is slow it is not said that it had too little.
    assert!(entitled.value.is_none_or(|percent| (80.0..125.0).contains(&percent)), "{entitled:?}");
}
