//! System calls of programs: the same natively, in baseline and scaled runs, and told where they differ.

use std::collections::BTreeMap;
use std::fs;

use record::RunDir;
use rustix::process::{Pid, Signal, kill_process};

use crate::nothing_left::hears;
use crate::support::{Lab, PATIENCE, left_behind, wait_until};

/// Reads 8 KiB in pieces, writes 100 bytes, sleeps and polls, 300 times.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <poll.h>
int main(int argc, char **argv)
{
	char bytes[8192];
	int piece = atoi(argv[1]), zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
	for (int i = 0; i < 300; i++) {
		for (int left = 8192; left > 0; left -= piece)
			if (read(zero, bytes, piece) != piece)
				return 1;
		if (write(null, bytes, 100) != 100)
			return 2;
		struct timespec pause = { 0, 10 * 1000 * 1000 };
		nanosleep(&pause, 0);
		poll(0, 0, 2);
		close(-1);
	}
	return argc != 2;
}
"#;

const CALLS: &str = r#"
name: calls
tdf: 4
machines: { m: { cpus: 1, speed: 0.3, memory: 64MiB } }
nodes:
  a: { machine: m, run: /srv/pieces 8192, files: { /srv/pieces: pieces }, observe: { calls: true } }
  b: { machine: m, run: sleep 3 }
links: [{ from: a, to: b, bandwidth: 10Mbit/s, delay: 1ms }]
ends: { exited: [a], limit: 60s }
"#;

/// How often a program of a record made each call, gave back an error, and how many bytes it moved.
fn counted(lab: &Lab, dir: &str, node: &str) -> BTreeMap<String, [u64; 3]> {
    let calls = RunDir::at(lab.path().join(dir)).calls(node).unwrap().unwrap_or_else(|| panic!("no calls in {dir}"));
    let program = calls.programs.iter().find(|program| program.program == "pieces");
    let program = program.unwrap_or_else(|| panic!("no program `pieces` in {calls:?}"));
    program.calls.iter().map(|call| (call.call.clone(), [call.made, call.errors, call.bytes])).collect()
}

#[test]
fn a_program_makes_the_same_calls_natively_and_dilated() {
    let lab = Lab::new(CALLS);
    lab.compile(PROGRAM, "pieces", &[]);
    let program = lab.path().join("lab/pieces");
    // The environment of a node: with cargo's, the loader looks for libraries in more places.
    let args = ["observe", "--out", "native", "--", program.to_str().unwrap(), "8192"];
    let native = lab.command(&args).env_clear().env("PATH", "/usr/bin:/bin").output().unwrap();
    let told = String::from_utf8_lossy(&native.stderr);
    assert!(native.status.success() && told.contains("pieces: ") && told.contains("record: "), "{told}");
    let natively = counted(&lab, "native", "program");
    assert_eq!(natively["close"], [302 - 300 + 300, 300, 0], "{natively:?}");
    assert_eq!((natively["write"], natively["poll"]), ([300, 0, 30_000], [300, 0, 0]));

    for (variant, where_it_is) in [("baseline", "runs/calls/baseline"), ("scaled", "runs/calls/scaled")] {
        let run = lab.diorama(&["run", "lab", "--variant", variant]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let in_node = counted(&lab, where_it_is, "a");
        for call in ["read", "write", "close", "openat", "mmap", "execve", "rt_sigprocmask"] {
            assert_eq!(in_node.get(call), natively.get(call), "{call}, {variant}: {in_node:?}");
        }
        // One that is woken a little early begins to wait again.
        for call in ["clock_nanosleep", "poll"] {
            let [made, errors, _] = in_node[call];
            assert!((300..=330).contains(&made) && errors == 0, "{call}, {variant}: {in_node:?}");
        }
        let record = RunDir::at(lab.path().join(where_it_is));
        assert!(record.calls("b").unwrap().is_none(), "nobody asked for it");
        let calls = record.calls("a").unwrap().unwrap();
        let [program] = &calls.programs[..] else { panic!("{calls:?}") };
        let sleeps = program.calls.iter().find(|call| call.call == "clock_nanosleep").unwrap();
        // 300 times 10 ms, in virtual time; what it waits for its core is in it.
        let slept = sleeps.virtual_ns.as_secs_f64();
        assert!((2.99..4.5).contains(&slept), "{variant}: {slept}");
        assert!(sleeps.trapped > 290 && program.image_calls > 590, "{program:?}");
        assert!(calls.intervals_ns.len() >= 3 && calls.uncounted == 0, "{:?}", calls.intervals_ns);
        let result = lab.result(where_it_is.strip_prefix("runs/").unwrap());
        let check = result.fidelity.check(record::CheckName::Observation).unwrap();
        assert!(check.value.is_some_and(|percent| percent < 50.0) && check.says.contains(" a made "), "{check:?}");
    }
    let alike = lab.diorama(&["compare", "runs/calls/baseline", "runs/calls/scaled"]);
    assert_eq!(alike.code, 0, "{}{}", alike.stdout, alike.stderr);
    assert!(alike.stdout.contains("system calls of pieces"), "{}", alike.stdout);

    // It reads in pieces of half the size: that is found, and named first, between runs and beside the plain machine.
    let run = lab.diorama(&["run", "lab", "--out", "pieces", "--set", "nodes.a.run=/srv/pieces 4096"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for base in ["runs/calls/scaled", "native"] {
        let told = lab.diorama(&["compare", base, "pieces", "--html", "page.html"]);
        assert_eq!(told.code, 0, "{}{}", told.stdout, told.stderr);
        let lines: Vec<&str> = told.stdout.lines().skip_while(|l| !l.contains("system calls of pieces")).collect();
        assert!(lines[1].trim_start().starts_with("read "), "{}", told.stdout);
        assert!(told.stdout.contains("read follows read in "), "{}", told.stdout);
        assert!(lab.read("page.html").contains("<svg class=\"chain\""));
    }
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
}

#[test]
fn a_process_that_is_there_is_observed_and_goes_on() {
    let lab = Lab::new(CALLS);
    let mut sleeper = std::process::Command::new("sh");
    let mut sleeper = sleeper.args(["-c", "while :; do sleep 0.05; done"]).spawn().unwrap();
    let observed = lab.diorama(&["observe", "--pid", &sleeper.id().to_string(), "--for", "1", "--out", "there"]);
    assert_eq!(observed.code, 0, "{}", observed.stderr);
    assert!(sleeper.try_wait().unwrap().is_none());
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let calls = RunDir::at(lab.path().join("there")).calls("program").unwrap().unwrap();
    let names: Vec<&str> = calls.programs.iter().map(|program| program.program.as_str()).collect();
    assert_eq!(names, ["sh", "sleep"]);
    let made = |program: usize, name: &str| {
        calls.programs[program].calls.iter().find(|call| call.call == name).map_or(0, |call| call.made)
    };
    assert!(made(0, "wait4") > 3 && made(1, "clock_nanosleep") > 3 && made(0, "execve") > 3, "{calls:?}");

    let gone = lab.diorama(&["observe", "--pid", &sleeper.id().to_string(), "--out", "gone"]);
    assert!(gone.code == 2 && gone.stderr.contains("the process"), "{}", gone.stderr);
    let none = lab.diorama(&["observe", "--", "/no/such/program"]);
    assert!(none.code == 2 && none.stderr.contains("/no/such/program"), "{}", none.stderr);
    let fails = lab.diorama(&["observe", "--out", "fails", "--", "sh", "-c", "exit 7"]);
    assert_eq!(fails.code, 7, "{}", fails.stderr);
    let killed = lab.diorama(&["observe", "--out", "killed", "--for", "0.3", "--", "sleep", "60"]);
    assert_eq!(killed.code, 128 + 15, "{}", killed.stderr);
    // An interrupt that has not come from a terminal reaches the command all the same, and what was counted is kept.
    let mut asked = lab.start(&["observe", "--out", "asked", "--", "sleep", "60"]);
    wait_until("a handler", PATIENCE, || hears(&asked, Signal::INT));
    kill_process(Pid::from_child(&asked), Signal::INT).unwrap();
    assert_eq!(asked.wait().unwrap().code(), Some(128 + 2), "{}", lab.said());
    assert!(RunDir::at(lab.path().join("asked")).calls("program").unwrap().is_some());
    // A record of another version is refused with what would help.
    let path = lab.path().join("fails/nodes/program/calls.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"version\":1", "\"version\":99")).unwrap();
    let other = lab.diorama(&["compare", "fails", "killed"]);
    assert!(other.code == 2 && other.stderr.contains("calls of version 99"), "{}", other.stderr);
}
