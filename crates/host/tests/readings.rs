//! Readings of this very machine. Needs root, for a network namespace.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread;

use diorama_host::cgroup::Tree;
use diorama_host::foreign::Foreign;
use diorama_host::{NetNamespace, tcp};
use scale::{RealDuration, RealInstant};

#[test]
fn each_network_namespace_has_counters_of_its_own() {
    let netns = NetNamespace::create().expect("this test needs root, to make a network namespace");
    let count = || tcp::counters(netns.as_fd()).unwrap();
    let inside = || {
        let before = count();
        let up =
            Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("this test needs `ip` (iproute2)");
        assert!(up.success());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"hello").unwrap();
        server.read_exact(&mut [0; 5]).unwrap();
        let after = count();
        assert_eq!(after.waiting, Some(0), "all is acknowledged");
        // Two small writes, and a reader that answers neither: Nagle keeps the second back until the delayed
        // acknowledgement of the first, 40 ms later.
        let waited = (0..20).any(|_| {
            client.write_all(b"one").unwrap();
            client.write_all(b"two").unwrap();
            let waiting = count().waiting.unwrap();
            server.read_exact(&mut [0; 6]).unwrap();
            server.write_all(b"answer").unwrap();
            client.read_exact(&mut [0; 6]).unwrap();
            waiting > 0
        });
        assert!(waited, "a sender that waits is seen");
        (before, after)
    };
    let (before, after) = netns.enter(inside).unwrap();
    assert_eq!(before.in_segs, 0, "a new namespace has counted nothing");
    assert!((4..20).contains(&after.in_segs), "handshake and data: {after:?}");
    assert_eq!(after.syn_retrans, 0);
    // From outside, by its descriptor alone, the same is seen.
    let seen = thread::scope(|scope| scope.spawn(count).join()).unwrap();
    assert!(seen.in_segs >= after.in_segs, "{seen:?}");
}

#[test]
fn namespaces_are_told_apart() {
    let [one, other] = [(); 2].map(|()| NetNamespace::create().expect("this test needs root"));
    assert!(one.cookie().unwrap() != 0 && one.cookie().unwrap() == one.clone().cookie().unwrap());
    assert_ne!(one.cookie().unwrap(), other.cookie().unwrap());
    let interfaces = || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap().lines().count() - 2;
    assert_eq!(one.enter(interfaces).unwrap(), 1, "`lo` and no other");
}

#[test]
fn foreign_are_all_processes_but_the_runs_own() {
    let mut other = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let at = |s: u64| RealInstant::from_nanos(s * 1_000_000_000);
    let foreign = Foreign::new(Tree::of("no-such-run").unwrap(), Vec::new()).list(at(1));
    other.kill().unwrap();
    other.wait().unwrap();
    let found = foreign.iter().find(|t| t.pid == other.id()).expect("`sleep` is foreign");
    assert_eq!((found.name.as_str(), found.tid), ("sleep", found.pid));
    assert!(found.ns > 0, "starting took some CPU time: {found:?}");
    assert!(foreign.iter().all(|t| t.pid != std::process::id()), "this process is the run's own");
}

#[test]
fn they_are_not_listed_twice_in_a_second() {
    let mut foreign = Foreign::new(Tree::of("no-such-run").unwrap(), Vec::new());
    let start = RealInstant::from_nanos(1);
    assert!(!foreign.list(start).is_empty());
    assert!(foreign.list(start + RealDuration::from_nanos(999_999_999)).is_empty());
    assert!(!foreign.list(start + RealDuration::from_nanos(1_000_000_000)).is_empty());
}
