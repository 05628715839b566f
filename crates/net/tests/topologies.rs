//! Rings, parallel links, given routes and MTUs through real interfaces. Needs root.

mod support;

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use diorama_net::{LinkSpec, NetworkSpec, PipeConfig, RouteSpec};
use scale::link::LARGEST_OF_INTERFACES;
use support::{PATIENCE, Testbed, link, ms, wait_until};

const PORT: u16 = 7000;

fn wire(a: &str, b: &str, delay: u64) -> LinkSpec {
    link(a, b, &PipeConfig { delay: ms(delay), ..Default::default() })
}

fn names(all: &str) -> Vec<String> {
    all.split_whitespace().map(String::from).collect()
}

/// Sends a datagram of `len` bytes from `from`, which `to` sends back. It is not fragmented.
fn echo(bed: &Testbed, from: &str, to: &str, len: usize) -> Result<(), ErrorKind> {
    echo_within(bed, from, to, len, PATIENCE)
}

/// Likewise, but it must come, there and back, within some time each.
fn echo_within(bed: &Testbed, from: &str, to: &str, len: usize, time: Duration) -> Result<(), ErrorKind> {
    let socket = |node: &str, port| bed.spaces[node].run(|| UdpSocket::bind(("0.0.0.0", port)).expect("a free port"));
    let (server, client) = (socket(to, PORT), socket(from, 0));
    for socket in [&server, &client] {
        let whole = libc::IP_PMTUDISC_DO;
        // SAFETY: the option's value is an int, which lives through the call.
        let set = unsafe {
            let value = (&raw const whole).cast();
            libc::setsockopt(std::os::fd::AsRawFd::as_raw_fd(socket), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, value, 4)
        };
        assert_eq!(set, 0);
        socket.set_read_timeout(Some(time)).expect("a time-out can be set");
    }
    let mut buffer = vec![0; 1 << 16];
    client.send_to(&vec![7; len], (bed.address(from, to), PORT)).map_err(|e| e.kind())?;
    let (got, peer) = server.recv_from(&mut buffer).map_err(|e| e.kind())?;
    server.send_to(&buffer[..got], peer).map_err(|e| e.kind())?;
    assert_eq!(client.recv(&mut buffer).map_err(|e| e.kind())?, len);
    Ok(())
}

fn packets(bed: &Testbed, pipe: &str) -> u64 {
    bed.counters(pipe).packets
}

#[test]
fn a_ring_carries_both_ways_by_its_shorter_side() {
    let links = vec![
        wire("a", "S", 1),
        wire("b", "T", 1),
        wire("c", "U", 1),
        wire("S", "T", 2),
        wire("T", "U", 2),
        wire("U", "S", 3),
    ];
    let spec = NetworkSpec { nodes: names("a b c"), switches: names("S T U"), links, ..Default::default() };
    let bed = Testbed::start(spec, 0);
    for (from, to) in [("a", "b"), ("a", "c"), ("b", "c"), ("c", "a")] {
        echo(&bed, from, to, 100).unwrap_or_else(|e| panic!("{from} to {to}: {e}"));
    }
    let all = ["S--T/ab", "S--T/ba", "T--U/ab", "T--U/ba", "U--S/ab", "U--S/ba"].map(|p| packets(&bed, p));
    assert_eq!(all, [1, 1, 1, 1, 2, 2]);
}

#[test]
fn parallel_wires_and_given_routes_are_taken_by_kernels_too() {
    // From a to b there are a wire, a wire as long by r, which forwards, and a short one by S.
    let mut links = vec![wire("a", "b", 9), wire("a", "r", 5), wire("r", "b", 5), wire("a", "S", 1), wire("b", "S", 1)];
    links.push(LinkSpec { name: "second".into(), ..wire("a", "b", 9) });
    let route = |from: &str, to: &str, links: &str| RouteSpec { from: from.into(), to: to.into(), links: names(links) };
    let routes = vec![route("a", "b", "a--r r--b"), route("b", "a", "second")];
    let spec = NetworkSpec { nodes: names("a b r"), switches: names("S"), links, routes, ..Default::default() };
    let bed = Testbed::start(spec, 0);
    echo(&bed, "a", "b", 100).expect("there by r, back by the second wire");
    let used = ["a--r/ab", "r--b/ab", "second/ba"].map(|p| packets(&bed, p));
    let others = ["a--b/ab", "a--b/ba", "a--S/ab", "b--S/ab", "second/ab", "a--r/ba", "r--b/ba"];
    assert_eq!((used, others.map(|p| packets(&bed, p))), ([1, 1, 1], [0; 7]));
    // r's own packets are not concerned, nor are those for r.
    echo(&bed, "r", "b", 100).expect("one wire there and back");
    echo(&bed, "r", "a", 100).expect("one wire there and back");
    assert_eq!(["r--b/ab", "r--b/ba", "a--r/ab", "a--r/ba"].map(|p| packets(&bed, p)), [2, 1, 2, 1]);
}

#[test]
fn an_mtu_holds_at_the_interface_at_a_switch_and_at_a_node_that_forwards() {
    // a and c have jumbo frames all the way; b's link has not; d lies behind r, whose kernel answers.
    let mut links = vec![wire("a", "S", 0), wire("c", "S", 0), wire("b", "S", 0), wire("r", "S", 0), wire("r", "d", 0)];
    for (link, mtu) in links.iter_mut().zip([9000, 9000, 1500, 9000, 1400]) {
        link.mtu = mtu;
    }
    let spec = NetworkSpec { nodes: names("a b c r d"), switches: names("S"), links, ..Default::default() };
    let bed = Testbed::start(spec, 0);
    // 28 bytes are headers.
    echo(&bed, "a", "c", 9000 - 28).expect("a jumbo frame crosses");
    assert!(echo(&bed, "a", "c", 9001 - 28).is_err(), "the kernel knows the interface's MTU");
    echo(&bed, "a", "b", 1500 - 28).expect("what fits everywhere crosses");
    assert_eq!(bed.counters("b--S/ba").too_long, 0);
    let vanishes = |to: &str, len: usize| echo_within(&bed, "a", to, len - 28, Duration::from_millis(500));
    assert!(matches!(vanishes("b", 1501), Err(ErrorKind::WouldBlock)), "a switch says nothing");
    wait_until("it is counted", || bed.counters("b--S/ba").too_long == 1);
    echo(&bed, "a", "d", 1400 - 28).expect("what fits everywhere crosses");
    // A router says that it must be fragmented, and the sender's kernel remembers.
    assert!(vanishes("d", 1401).is_err());
    wait_until("the route's MTU is known", || {
        vanishes("d", 1401).expect_err("it does not fit") != ErrorKind::WouldBlock
    });
}

#[test]
fn packets_as_long_as_there_are_cross_where_interfaces_take_them() {
    let mut links = vec![wire("a", "S", 0), wire("b", "S", 0), wire("c", "S", 0)];
    for (link, mtu) in links.iter_mut().zip([65535, 65535, 9500]) {
        link.mtu = mtu;
    }
    let spec = NetworkSpec { nodes: names("a b c"), switches: names("S"), links, ..Default::default() };
    let bed = Testbed::start(spec, 0);
    // A TAP interface has 14 bytes less than there are.
    let longest = usize::from(LARGEST_OF_INTERFACES);
    echo(&bed, "a", "b", longest - 28).expect("as long as interfaces take them");
    assert!(echo(&bed, "a", "b", longest - 27).is_err(), "the kernel knows the interface's MTU");
    echo(&bed, "a", "c", 9500 - 28).expect("as long as containerlab's links have them");
    assert_eq!(bed.counters("c--S/ba").too_long, 0);
}

#[test]
fn without_segmentation_offload_no_kernel_makes_bursts_for_a_link() {
    let mut wires = [wire("a", "b", 1), wire("b", "c", 1)];
    wires[0].tso = false;
    let bed = Testbed::start(
        NetworkSpec { nodes: names("a b c"), switches: vec![], links: wires.to_vec(), ..Default::default() },
        0,
    );
    let longest_burst = |node: &str, interface: &str| {
        let ip =
            || Command::new("ip").args(["-details", "link", "show", interface]).output().expect("iproute2 is there");
        let said = String::from_utf8(bed.spaces[node].run(ip).stdout).expect("it writes text");
        let segments = said.split_whitespace().skip_while(|word| *word != "gso_max_segs").nth(1);
        segments.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no segments in {said}"))
    };
    let all: [u32; 4] = [("a", "eth0"), ("b", "eth0"), ("b", "eth1"), ("c", "eth0")].map(|(n, i)| longest_burst(n, i));
    assert!(all[..2] == [1, 1] && all[2..].iter().all(|n| *n > 1), "{all:?}");
}
