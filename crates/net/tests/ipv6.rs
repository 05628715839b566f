//! IPv6 through real interfaces: the twins of all addresses. Needs root.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use diorama_net::{AddressSpec, LanSpec, LinkSpec, NetworkSpec, PipeConfig, Prefix, RouteSpec, twin};
use support::{PATIENCE, Testbed, link, ms, wait_until};

const PORT: u16 = 7000;
/// Headers that IPv6 and UDP put before a datagram.
const HEADERS: usize = 48;

fn wire(a: &str, b: &str, delay: u64) -> LinkSpec {
    link(a, b, &PipeConfig { delay: ms(delay), ..Default::default() })
}

fn names(all: &str) -> Vec<String> {
    all.split_whitespace().map(String::from).collect()
}

fn address(bed: &Testbed, from: &str, to: &str) -> Ipv6Addr {
    twin(bed.address(from, to))
}

fn socket(bed: &Testbed, node: &str, port: u16) -> UdpSocket {
    let socket = bed.spaces[node].run(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)).expect("the port is free"));
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
    socket
}

/// Sends a datagram that makes a packet of `len` bytes, and has it sent back.
fn echo(bed: &Testbed, from: &str, to: &str, len: usize) -> Result<(), ErrorKind> {
    let (server, client) = (socket(bed, to, PORT), socket(bed, from, 0));
    client.send_to(&vec![7; len - HEADERS], (address(bed, from, to), PORT)).map_err(|e| e.kind())?;
    let mut buffer = vec![0; 10_000];
    let (got, peer) = server.recv_from(&mut buffer).map_err(|e| e.kind())?;
    server.send_to(&buffer[..got], peer).map_err(|e| e.kind())?;
    assert_eq!(client.recv(&mut buffer).map_err(|e| e.kind())?, len - HEADERS);
    Ok(())
}

/// Output of `ip -6` in a node.
fn ip(bed: &Testbed, node: &str, arguments: &str) -> String {
    bed.spaces[node].run(|| {
        let output = Command::new("ip").arg("-6").args(arguments.split(' ')).output().expect("iproute2 is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    })
}

#[test]
fn it_takes_the_ways_and_the_given_routes_of_ipv4() {
    // From a to b there are a wire, a wire as long by r, which forwards, and a short one by S; c lies behind S.
    let mut links = vec![wire("a", "b", 9), wire("a", "r", 5), wire("r", "b", 5), wire("a", "S", 1), wire("b", "S", 1)];
    links.push(wire("c", "S", 1));
    let to_b = RouteSpec { from: "a".into(), to: "b".into(), links: names("a--r r--b") };
    let spec =
        NetworkSpec { nodes: names("a b r c"), switches: names("S"), links, routes: vec![to_b], ..Default::default() };
    let bed = Testbed::start(spec, 0);
    echo(&bed, "a", "b", 100).expect("there by r, back by the short one");
    let used = ["a--r/ab", "r--b/ab", "b--S/ab", "a--S/ba"].map(|p| bed.counters(p).packets);
    assert_eq!((used, bed.counters("a--b/ab").packets), ([1; 4], 0));
    echo(&bed, "c", "r", 100).expect("by a or b, which forward");

    let listener = bed.spaces["c"].run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT)).expect("the port is free"));
    let sent = vec![5; 1 << 20];
    let got = thread::scope(|scope| {
        let got = scope.spawn(|| {
            let mut all = Vec::new();
            listener.accept().expect("somebody comes").0.read_to_end(&mut all).map(|_| all)
        });
        let to = address(&bed, "a", "c");
        let mut stream = bed.spaces["a"].run(|| TcpStream::connect((to, PORT)).expect("it listens"));
        stream.write_all(&sent).expect("it is taken");
        drop(stream);
        got.join().expect("it reads")
    });
    assert!(got.expect("all arrives") == sent);
    let seen = bed.emulator.stop().expect("it lives");
    assert_eq!(seen.ring_drops(), 0, "{:?}", seen.ports);
}

#[test]
fn chosen_addresses_may_make_a_wide_route_beside_which_a_gateway_is_found_all_the_same() {
    // Behind the LAN lies most of the network; all else is on the line, in one block with the other's gateway.
    let links =
        vec![wire("gate", "cellar", 1), wire("gate", "net", 1), wire("desk", "net", 1), wire("shelf", "net", 1)];
    let subnet = Prefix { address: [192, 168, 7, 0].into(), length: 24 };
    let lans = vec![LanSpec { name: "net".into(), subnet: Some(subnet) }];
    let chosen = |link: &str, node: &str, address: [u8; 4]| AddressSpec {
        link: link.into(),
        node: node.into(),
        address: address.into(),
    };
    let addresses = vec![
        chosen("gate--cellar", "gate", [10, 7, 0, 1]),
        chosen("gate--net", "gate", [192, 168, 7, 1]),
        chosen("desk--net", "desk", [192, 168, 7, 20]),
    ];
    let nodes = names("gate desk shelf cellar");
    let bed = Testbed::start(NetworkSpec { nodes, lans, links, addresses, ..Default::default() }, 0);
    echo(&bed, "desk", "cellar", 100).expect("by the gate, and back");
    echo(&bed, "gate", "shelf", 100).expect("on the LAN");
    let routes = ip(&bed, "gate", "route show");
    assert!(
        routes.lines().any(|r| r.contains("dev eth0") && r.contains("/97")),
        "not the case that this is for: {routes}"
    );
}

#[test]
fn a_node_that_forwards_says_what_is_too_long_and_a_short_link_has_none() {
    let mut links = vec![wire("a", "r", 0), wire("r", "d", 0), wire("a", "e", 0)];
    links[1].mtu = 1400;
    links[2].mtu = 1279;
    let spec = NetworkSpec { nodes: names("a r d e"), links, ..Default::default() };
    let bed = Testbed::start(spec, 0);
    echo(&bed, "a", "d", 1400).expect("it fits everywhere");
    let listener = bed.spaces["d"].run(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT)).expect("the port is free"));
    let to = address(&bed, "a", "d");
    // Longer datagrams are fragmented by the sender once it has been told.
    let client = socket(&bed, "a", 0);
    wait_until("the route's MTU is known", || {
        client.send_to(&[0; 1401 - HEADERS], (to, PORT)).expect("the kernel takes it");
        thread::sleep(Duration::from_millis(5));
        ip(&bed, "a", &format!("route get {to}")).contains("mtu 1400")
    });
    bed.spaces["a"].run(|| TcpStream::connect((to, PORT)).expect("it listens"));
    drop(listener);
    assert!(ip(&bed, "e", "addr show dev eth0").is_empty(), "IPv6 needs an MTU of 1280");
}

#[test]
fn members_of_a_lan_ask_for_one_another_and_hear_what_is_said_to_all() {
    let nodes = names("n1 n2 n3");
    let links = nodes.iter().map(|n| wire(n, "office", 1)).collect();
    let lans = vec![LanSpec { name: "office".into(), subnet: None }];
    let bed = Testbed::start(NetworkSpec { nodes, lans, links, ..Default::default() }, 0);
    echo(&bed, "n1", "n2", 100).expect("it is a neighbour");
    let (neighbours, asked) = (ip(&bed, "n1", "neigh show dev eth0"), address(&bed, "n1", "n2"));
    assert!(neighbours.contains(&format!("{asked} lladdr 02:00:")), "{neighbours}");
    let hearers = ["n2", "n3"].map(|n| socket(&bed, n, PORT));
    // All nodes on the link (RFC 4291, section 2.7.1), by its first interface.
    let all: Ipv6Addr = "ff02::1".parse().expect("it is an address");
    let speaker = socket(&bed, "n1", 0);
    let index = ip(&bed, "n1", "-o link show dev eth0");
    let index: u32 = index.split(':').next().and_then(|n| n.parse().ok()).expect("ip begins with it");
    let to = std::net::SocketAddrV6::new(all, PORT, 0, index);
    speaker.send_to(b"to all", to).expect("the kernel takes it");
    for hearer in &hearers {
        let mut buffer = [0; 100];
        let len = hearer.recv(&mut buffer).expect("all hear it");
        assert_eq!(&buffer[..len], b"to all");
    }
}

#[test]
fn a_hundred_members_leave_the_asking_to_the_emulator() {
    let nodes: Vec<String> = (1..=100).map(|i| format!("n{i}")).collect();
    let links = nodes.iter().map(|n| wire(n, "office", 0)).collect();
    let lans = vec![LanSpec { name: "office".into(), subnet: None }];
    let bed = Testbed::start(NetworkSpec { nodes, lans, links, ..Default::default() }, 0);
    for to in 1..100 {
        echo(&bed, "n100", &format!("n{to}"), 100).expect("every member answers");
    }
    let neighbours = ip(&bed, "n100", "neigh show dev eth0 nud all");
    let unicast = neighbours.lines().filter(|l| !l.starts_with("ff")).count();
    assert_eq!(unicast, 1, "only the gateway, for good: {neighbours}");
}
