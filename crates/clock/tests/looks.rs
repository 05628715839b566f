//! Looks that find nothing, by a program whose node's clock is ahead of the run's, last until that is there; all others
//! are over at once.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use host::node_clock::NodeClock;
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, Signal, kill_process};
use scale::NodeRate;

use crate::common::{Dilation, compile, run};

/// Where the page of a clock says that threads take turns: `crowded` of `crates/scale/include/node_clock.h`.
const CROWDED: u64 = 112;

/// A clock that is ahead by so much, and stays so.
fn ahead_by(lead: Duration) -> NodeClock {
    clock(lead, false)
}

fn clock(lead: Duration, crowded: bool) -> NodeClock {
    let page = rustix::fs::memfd_create("clock", MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&page, 4096).unwrap();
    let now = host::now().as_nanos();
    // Sequence and state; then the real instant, what it showed then, its rate, and its floor.
    let words = [0, now, now + lead.as_nanos() as u64, NodeRate::UNIT.bits(), 0];
    rustix::io::pwrite(&page, &words.map(u64::to_le_bytes).concat(), 0).unwrap();
    rustix::io::pwrite(&page, &u32::from(crowded).to_le_bytes(), CROWDED).unwrap();
    NodeClock::new(page.as_fd(), page.try_clone().unwrap()).unwrap()
}

/// Per kind of look: its name, results and the shortest time of those that found nothing, and of the others.
fn looks(clock: &NodeClock, flags: &[&str]) -> Vec<(String, [i64; 4])> {
    let dilation = Dilation::new("1").on_one_core();
    let ran = run(dilation.command_in_node(clock, [compile("looks", flags)]));
    assert!(ran.status.success(), "{ran:?}");
    let line = |line: &str| {
        let (name, rest) = line.split_once(' ').unwrap();
        let numbers: Vec<i64> = rest.split(' ').map(|word| word.parse().expect(line)).collect();
        (name.to_owned(), numbers.try_into().expect("four numbers"))
    };
    ran.stdout.lines().map(line).collect()
}

const LEAD: Duration = Duration::from_millis(5);
/// `OFTEN` of the program.
const LOOKS: i64 = 12;

#[test]
fn a_look_that_finds_nothing_lasts_until_the_run_is_where_the_node_is() {
    for flags in [&[][..], &["-static"]] {
        let all = looks(&ahead_by(LEAD), flags);
        assert_eq!(all.len(), 9, "{all:?}");
        for (name, [quiet, shortest, ready, at_once]) in all {
            assert_eq!((quiet, ready), (0, LOOKS), "{name}");
            let lead = LEAD.as_nanos() as i64;
            let waited = shortest >= lead;
            assert_eq!(waited, name != "as-go-does", "{name} took {shortest} ns at least");
            assert!(at_once < lead, "{name} found something after {at_once} ns at least");
        }
    }
}

#[test]
fn where_the_node_is_not_ahead_no_look_lasts() {
    // Nor where it is by less than it takes to come back from a wait, or where another thread would have the core.
    let little = Duration::from_micros(150);
    for clock in [ahead_by(Duration::ZERO), ahead_by(little), clock(LEAD, true)] {
        for (name, [quiet, shortest, ready, _]) in looks(&clock, &[]) {
            assert_eq!((quiet, ready), (0, LOOKS), "{name}");
            assert!(shortest < little.as_nanos() as i64, "{name} took {shortest} ns at least");
        }
    }
}

/// Longer than any test waits for what it does itself.
const FAR_AHEAD: Duration = Duration::from_millis(900);

/// A program that looks at its standard input.
fn looking(dilation: &Dilation) -> (Child, BufReader<ChildStdout>) {
    let program = compile("looks", &[]);
    let mut command = dilation.command_in_node(&ahead_by(FAR_AHEAD), [program.as_os_str(), "once".as_ref()]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "looking\n");
    // So that it does.
    std::thread::sleep(Duration::from_millis(50));
    (child, said)
}

/// The end of its look: the result, ns, signals.
fn result(mut looking: (Child, BufReader<ChildStdout>)) -> [i64; 3] {
    let mut line = String::new();
    looking.1.read_line(&mut line).unwrap();
    assert!(diorama_clock::wait(&mut looking.0).unwrap().success());
    let numbers: Vec<i64> = line.split_whitespace().map(|word| word.parse().expect(&line)).collect();
    numbers.try_into().expect("three numbers")
}

#[test]
fn a_look_is_over_when_something_comes_or_a_signal_does() {
    let dilation = Dilation::new("1").on_one_core();
    let comes = looking(&dilation);
    comes.0.stdin.as_ref().unwrap().write_all(b"x").unwrap();
    let [found, took, _] = result(comes);
    assert_eq!(found, 1);
    assert!(took < FAR_AHEAD.as_nanos() as i64, "{took}");

    let interrupted = looking(&dilation);
    kill_process(Pid::from_child(&interrupted.0), Signal::USR1).unwrap();
    let [found, took, signals] = result(interrupted);
    // Not the error of a call that waits.
    assert_eq!((found, signals), (0, 1));
    assert!(took < FAR_AHEAD.as_nanos() as i64, "{took}");

    let [found, took, _] = result(looking(&dilation));
    assert_eq!(found, 0);
    assert!(took >= FAR_AHEAD.as_nanos() as i64, "{took}");
}
