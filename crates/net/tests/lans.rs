//! A shared segment of real kernels: they ask for one another's hardware addresses, and hear what one says to all.

mod support;

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use diorama_net::{LanSpec, NetworkSpec, PipeConfig};
use support::{PATIENCE, Testbed, link, ms, wait_until};

const PORT: u16 = 7000;

/// A LAN of `members` nodes `n1`, …, and a node `far` behind `n1`.
fn office(members: usize) -> NetworkSpec {
    let mut nodes: Vec<String> = (1..=members).map(|i| format!("n{i}")).collect();
    let config = PipeConfig { delay: ms(1), ..Default::default() };
    let mut links: Vec<_> = nodes.iter().map(|n| link(n, "office", &config)).collect();
    links.push(link("n1", "far", &config));
    nodes.push("far".into());
    NetworkSpec { nodes, lans: vec![LanSpec { name: "office".into(), subnet: None }], links, ..Default::default() }
}

fn socket(bed: &Testbed, node: &str, address: Ipv4Addr) -> UdpSocket {
    let socket = bed.spaces[node].run(|| UdpSocket::bind((address, PORT)).expect("the port is free"));
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
    socket
}

/// Output of `ip` in a node.
fn ip(bed: &Testbed, node: &str, arguments: &[&str]) -> String {
    bed.spaces[node].run(|| {
        let output = Command::new("ip").args(arguments).output().expect("ip starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    })
}

fn says(from: &UdpSocket, to: Ipv4Addr, word: &str, hearers: &[&UdpSocket]) {
    from.send_to(word.as_bytes(), (to, PORT)).expect("the kernel takes the datagram");
    for hearer in hearers {
        let mut buffer = [0; 100];
        let len = hearer.recv(&mut buffer).expect("all hear it");
        assert_eq!(&buffer[..len], word.as_bytes(), "{to}");
    }
}

#[test]
fn members_ask_for_hardware_addresses_and_all_hear_broadcast_and_multicast() {
    let bed = Testbed::start(office(4), 0);
    let sockets: Vec<_> = (1..=4).map(|i| socket(&bed, &format!("n{i}"), Ipv4Addr::UNSPECIFIED)).collect();
    let group = Ipv4Addr::new(239, 1, 2, 3);
    for (i, socket) in sockets.iter().enumerate() {
        socket.set_broadcast(true).expect("any socket may");
        let own = bed.address(&format!("n{}", i + 1), &format!("n{}", i + 1));
        socket.join_multicast_v4(&group, &own).expect("a group can be joined");
        socket.set_multicast_loop_v4(false).expect("it need not hear itself");
    }
    let [first, others @ ..] = &sockets[..] else { panic!("there are four") };
    let others: Vec<&UdpSocket> = others.iter().collect();
    says(first, bed.address("n1", "n2"), "to one", &others[..1]);
    let neighbours = ip(&bed, "n1", &["neigh", "show", "dev", "eth0"]);
    let asked = format!("{} lladdr 02:00:", bed.address("n1", "n2"));
    assert!(neighbours.contains(&asked), "n1 asked who has that address: {neighbours}");
    says(first, Ipv4Addr::BROADCAST, "to all here", &others);
    // n1 hears its own broadcasts, as any host does.
    first.recv(&mut [0; 100]).expect("it hears itself");
    let [a, b, c, _] = bed.address("n1", "n1").octets();
    says(first, Ipv4Addr::new(a, b, c, 255), "to all of the block", &others);
    says(first, group, "to the group", &others);
    for other in &others {
        other.set_read_timeout(Some(Duration::from_millis(50))).expect("a time-out can be set");
        assert!(other.recv(&mut [0; 100]).is_err(), "nothing was said twice");
    }
    let seen = bed.emulator.stop().expect("it lives");
    assert_eq!((seen.unroutable(), seen.ring_drops()), (0, 0), "{:?}", seen.ports);
}

#[test]
fn what_lies_beyond_the_lan_is_reached_through_the_member_that_leads_there() {
    let bed = Testbed::start(office(3), 0);
    let near = socket(&bed, "n3", Ipv4Addr::UNSPECIFIED);
    let far = socket(&bed, "far", Ipv4Addr::UNSPECIFIED);
    says(&near, bed.address("n3", "far"), "there", &[&far]);
    says(&far, bed.address("far", "n3"), "and back", &[&near]);
    assert_eq!(bed.counters("n1--far/ab").packets, 1, "n1 forwarded it");
}

#[test]
fn a_hundred_members_hear_one_another_without_filling_the_kernels_table() {
    let bed = Testbed::start(office(100), 0);
    let sockets: Vec<_> = (1..=100).map(|i| socket(&bed, &format!("n{i}"), Ipv4Addr::UNSPECIFIED)).collect();
    sockets[0].set_broadcast(true).expect("any socket may");
    says(&sockets[0], Ipv4Addr::BROADCAST, "to all", &sockets.iter().skip(1).collect::<Vec<_>>());
    says(&sockets[99], bed.address("n100", "n7"), "to one", &[&sockets[6]]);
    let neighbours = ip(&bed, "n100", &["-4", "neigh", "show", "dev", "eth0", "nud", "all"]);
    assert_eq!(neighbours.lines().count(), 1, "only the gateway, for good: {neighbours}");
    // Whoever asks is answered all the same.
    ip(&bed, "n100", &["route", "add", "10.0.1.1/32", "dev", "eth0"]);
    let n1 = bed.address("n100", "n1");
    let route = ["route", "replace", &format!("{n1}/32"), "dev", "eth0"].map(str::to_owned);
    ip(&bed, "n100", &route.iter().map(String::as_str).collect::<Vec<_>>());
    says(&sockets[99], n1, "asked for", &[]);
    wait_until("n1 answers", || ip(&bed, "n100", &["neigh", "show", "dev", "eth0"]).contains(&format!("{n1} lladdr")));
}
