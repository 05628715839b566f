//! A hundred nodes, and nothing left of them. Needs root. Alone in its process: it counts descriptors and threads.

mod support;

use std::net::UdpSocket;
use std::time::Duration;

use diorama_net::PipeConfig;
use support::{Testbed, star, wait_until};

fn entries(directory: &str) -> usize {
    std::fs::read_dir(directory).expect("/proc is there").count()
}

/// Whether the interface of the calling thread's namespace has a carrier; `None` if it is not there.
fn carrier(name: &str) -> Option<bool> {
    let shown =
        std::process::Command::new("ip").args(["-o", "link", "show", name]).output().expect("iproute2 is there");
    shown.status.success().then(|| !String::from_utf8_lossy(&shown.stdout).contains("NO-CARRIER"))
}

#[test]
fn a_hundred_nodes_work_and_leave_nothing_behind() {
    let before = (entries("/proc/self/fd"), entries("/proc/self/task"));
    let mut bed = Testbed::start(star(100, &PipeConfig::default()), 0);
    for (from, to) in [(1, 100), (100, 1), (37, 64), (64, 65)] {
        let (from, to) = (format!("n{from}"), format!("n{to}"));
        let server = bed.spaces[&to].run(|| UdpSocket::bind(("0.0.0.0", 7000)).expect("the port is free"));
        server.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out can be set");
        let address = bed.address(&from, &to);
        bed.spaces[&from].run(|| {
            let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("a socket");
            socket.send_to(b"hello", (address, 7000)).expect("there is a route");
        });
        let (_, peer) = server.recv_from(&mut [0; 16]).expect("the datagram arrives");
        assert_eq!(peer.ip(), bed.address(&to, &from));
    }
    // One neighbour, the gateway, however many others the node talks to: the kernel's table is shared and small.
    let neighbours = bed.spaces["n64"].run(|| {
        (1..=100).filter(|n| *n != 64).for_each(|n| {
            let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("a socket");
            socket.send_to(b"hello", (bed.address("n64", &format!("n{n}")), 7001)).expect("there is a route");
        });
        std::fs::read_to_string("/proc/thread-self/net/arp").expect("/proc is there").lines().count() - 1
    });
    assert_eq!(neighbours, 1);

    assert_eq!(bed.spaces["n1"].run(|| carrier("eth0")), Some(true));
    let spaces = std::mem::take(&mut bed.spaces);
    drop(bed);
    // An interface stays as long as its namespace does, but nothing is behind it any more.
    let state = spaces["n1"].run(|| carrier("eth0"));
    assert_eq!(state, Some(false));
    drop(spaces);
    // A thread that has been joined is listed for a moment longer.
    let now = || (entries("/proc/self/fd"), entries("/proc/self/task"));
    wait_until("descriptors and threads are as before", || now() == before);
}
