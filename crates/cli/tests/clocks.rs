//! Nodes whose dates are off against the others', by their description and by events. Needs root, two cores and crun or
//! runc, as every run does, and gcc.

use crate::support::Lab;

/// By a static program: REALTIME less MONOTONIC by the C library and by a system call, and how late the date of a file
/// that was just written is; then what is not so.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
static long long ns(struct timespec t) { return t.tv_sec * 1000000000ll + t.tv_nsec; }
static long long of(int clock, int raw)
{
	struct timespec t;
	if (raw) syscall(SYS_clock_gettime, clock, &t); else clock_gettime(clock, &t);
	return ns(t);
}
int main(void)
{
	long long last = 0;
	setvbuf(stdout, 0, _IOLBF, 0);
	for (int i = 0; i < 25; i++) {
		long long mono = of(CLOCK_MONOTONIC, 0), date = of(CLOCK_REALTIME, 0), after = of(CLOCK_MONOTONIC, 0);
		long long raw = of(CLOCK_REALTIME, 1), late = of(CLOCK_MONOTONIC, 1);
		struct timeval tv;
		struct stat st;
		gettimeofday(&tv, 0);
		long long us = tv.tv_sec * 1000000ll + tv.tv_usec;
		int fd = open("/out/stamp", O_CREAT | O_WRONLY | O_TRUNC, 0600);
		fstat(fd, &st);
		close(fd);
		printf("%lld %lld %lld %lld %lld\n", mono, date - mono, raw - late, us * 1000 - mono, ns(st.st_mtim) - date);
		if (mono < last || after < mono)
			printf("MONOTONIC ran backwards\n");
		last = after;
		/* Until a date. */
		struct timespec until = { (date + 100000000) / 1000000000, (date + 100000000) % 1000000000 };
		clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, 0);
		long long woke = of(CLOCK_REALTIME, 0), slept = of(CLOCK_MONOTONIC, 0) - mono;
		if (woke < ns(until) && woke > date)
			printf("woke %lld ns before the date\n", ns(until) - woke);
		if (slept < 90000000 || slept > 200000000)
			printf("slept for %lld ns\n", slept);
	}
	return 0;
}
"#;

const OFF: &str = r#"
name: off
tdf: 5
# Dates of files are the run's, and a node is ahead of the run by up to a timeslice / speed: with whole CPUs, by little.
machines: { m: { speed: 1, memory: 64MiB } }
nodes:
  right: { machine: m, run: /prog, files: { /prog: prog } }
  ahead: { machine: m, run: /prog, files: { /prog: prog }, clock: { offset: 250ms, drift: 1000ppm } }
  stepped: { machine: m, run: /prog, files: { /prog: prog } }
events:
  - { at: 1s, node: stepped, do: clock, offset: -3s }
  - { at: 1.5s, node: ahead, do: clock, drift: 0ppm }
ends: { exited: ["*"], limit: 20s }
"#;

/// Each line of a node: its MONOTONIC, and the rest, in ms.
fn readings(lab: &Lab, node: &str) -> Vec<Vec<f64>> {
    let log = lab.read(&format!("runs/off/nodes/{node}/stdout.log"));
    let number = |word: &str| word.parse::<f64>().unwrap_or_else(|_| panic!("{node}: {log}")) * 1e-6;
    log.lines().map(|line| line.split(' ').map(number).collect()).collect()
}

#[test]
fn dates_of_nodes_are_off_as_their_file_and_events_say() {
    let lab = Lab::new(OFF);
    lab.compile(PROGRAM, "prog", &["-O1", "-static"]);
    let run = lab.diorama(&["run", "lab", "--out", "runs/off"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let all = ["right", "ahead", "stepped"].map(|node| readings(&lab, node));
    assert!(all.iter().all(|readings| readings.len() == 25), "{all:?}");
    let [right, ahead, stepped] = &all;
    let zero = right[0][0];
    let (base, at) = (right[0][1], |reading: &[f64]| reading[0] - zero);
    // How long a reading may take on a busy machine, in virtual ms.
    const SLACK: f64 = 3.0;
    let is_off = |reading: &[f64], by: f64| {
        let [mono, date, raw, us, file] = reading[..] else { panic!("{reading:?}") };
        for (what, seen) in [("date", date), ("raw", raw), ("gettimeofday", us)] {
            let off = seen - base - by;
            assert!((-SLACK..SLACK).contains(&off), "{what} at {mono}: {off} ms more than {by}");
        }
        assert!((-SLACK..SLACK).contains(&file), "a file's date is {file} ms after the clock's");
    };
    right.iter().for_each(|reading| is_off(reading, 0.0));
    for reading in stepped {
        // A reading just as the event happens has either date.
        match at(reading) {
            ..900.0 => is_off(reading, 0.0),
            1100.0.. => is_off(reading, -3000.0),
            _ => {}
        }
    }
    for reading in ahead {
        match at(reading) {
            ..1400.0 => is_off(reading, 250.0 + at(reading) * 1e-3),
            1600.0.. => is_off(reading, 251.5),
            _ => {}
        }
    }
    // A drift of a thousandth is seen as that: between the first and the last reading until it ends.
    let drifting: Vec<_> = ahead.iter().filter(|reading| at(reading) < 1400.0).collect();
    let (first, last) = (drifting[0], drifting[drifting.len() - 1]);
    let drift = (last[1] - first[1]) / (last[0] - first[0]);
    assert!((0.9e-3..1.1e-3).contains(&drift), "{drift}");
    let events = lab.read("runs/off/events.jsonl");
    assert_eq!(events.lines().filter(|line| line.contains("\"event\":\"clock\"")).count(), 3, "{events}");
}
