//! What is read from this very machine. Needs root, for a network namespace.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread;

use diorama_fidelity::host::{self, Lookout};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use scale::{RealDuration, RealInstant};

#[test]
fn each_network_namespace_has_counters_of_its_own() {
    let (netns, before, after) = thread::spawn(|| {
        // SAFETY: only the network namespace of this thread changes; no memory or descriptor table is unshared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("this test needs root, to make a network namespace");
        let netns = File::open("/proc/thread-self/ns/net").unwrap();
        let before = host::tcp(netns.as_fd()).unwrap();
        let up =
            Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("this test needs `ip` (iproute2)");
        assert!(up.success());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"hello").unwrap();
        server.read_exact(&mut [0; 5]).unwrap();
        let after = host::tcp(netns.as_fd()).unwrap();
        assert_eq!(after.waiting, Some(0), "all is acknowledged");
        // Two small writes, and a reader that answers neither: Nagle keeps the second back until the delayed
        // acknowledgement of the first, 40 ms later.
        let waited = (0..20).any(|_| {
            client.write_all(b"one").unwrap();
            client.write_all(b"two").unwrap();
            let waiting = host::tcp(netns.as_fd()).unwrap().waiting.unwrap();
            server.read_exact(&mut [0; 6]).unwrap();
            server.write_all(b"answer").unwrap();
            client.read_exact(&mut [0; 6]).unwrap();
            waiting > 0
        });
        assert!(waited, "a sender that waits is seen");
        (netns, before, after)
    })
    .join()
    .unwrap();
    assert_eq!(before.in_segs, 0, "a new namespace has counted nothing");
    assert!((4..20).contains(&after.in_segs), "handshake and data: {after:?}");
    assert_eq!(after.syn_retrans, 0);
    // From outside, by its descriptor alone, the same is seen.
    let seen = thread::spawn(move || host::tcp(netns.as_fd()).unwrap()).join().unwrap();
    assert!(seen.in_segs >= after.in_segs, "{seen:?}");
}

#[test]
fn strangers_are_all_processes_but_the_runs_own() {
    let mut other = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let at = |s: u64| RealInstant::from_nanos(s * 1_000_000_000);
    let strangers = Lookout::new("diorama-no-such-run").look(at(1));
    let mine = fs_cgroup();
    let none_of_mine = Lookout::new(&mine).look(at(1));
    other.kill().unwrap();
    other.wait().unwrap();
    let found = strangers.iter().find(|s| s.pid == other.id()).expect("`sleep` is a stranger");
    assert_eq!((found.name.as_str(), found.tid), ("sleep", found.pid));
    assert!(found.ns > 0, "starting took some CPU time: {found:?}");
    assert!(strangers.iter().all(|s| s.pid != std::process::id()), "this process is the run's own");
    assert!(none_of_mine.iter().all(|s| s.pid != other.id()), "what is in the run's groups is the run's own");
}

#[test]
fn the_lookout_does_not_look_twice_in_a_second() {
    let mut lookout = Lookout::new("diorama-no-such-run");
    let start = RealInstant::from_nanos(1);
    assert!(!lookout.look(start).is_empty());
    assert!(lookout.look(start + RealDuration::from_nanos(999_999_999)).is_empty());
    assert!(!lookout.look(start + RealDuration::from_nanos(1_000_000_000)).is_empty());
}

#[test]
fn cores_and_own_time_are_counted() {
    assert!(host::core_ticks().unwrap().iter().any(|core| core.total > 0));
    let before = host::own_cpu_ns();
    let sum: u64 = std::hint::black_box((0..2_000_000).sum());
    assert!(host::own_cpu_ns() > before, "{sum}");
}

/// The last line of this process's groups: children inherit it.
fn fs_cgroup() -> String {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    groups.lines().next().unwrap().to_string()
}
