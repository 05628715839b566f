//! Which networks are accepted, and which way each address lies.

use std::net::Ipv4Addr;

use scale::{RealDuration, RealInstant};

use crate::links::frame::tests::{ipv4, ipv6};
use crate::{DEFAULT_MTU, Error, LinkSpec, Network, NetworkSpec, PipeConfig, PortCounters, Prefix, Queue};

/// Nodes are lower case, switches are upper case; links are written `a-S`.
pub(super) fn spec(links: &[&str]) -> NetworkSpec {
    let mut spec = NetworkSpec::default();
    for link in links {
        let (a, b) = link.split_once('-').expect("a link is written a-b");
        for end in [a, b] {
            let list = if end == end.to_lowercase() { &mut spec.nodes } else { &mut spec.switches };
            if !list.iter().any(|n| n == end) {
                list.push(end.into());
            }
        }
        let (ab, ba) = (PipeConfig::default(), PipeConfig::default());
        let name = format!("{a}--{b}");
        spec.links.push(LinkSpec { name, a: a.into(), b: b.into(), ab, ba, mtu: DEFAULT_MTU, tso: true });
    }
    spec
}

pub(super) fn refused(spec: NetworkSpec) -> String {
    match Network::new(spec, 0).expect_err("this is no network") {
        Error::Input(message) => message,
        other => panic!("{other:?}"),
    }
}

pub(super) fn ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, last)
}

#[test]
fn a_link_from_a_place_to_itself_and_an_impossible_mtu_are_refused() {
    assert!(refused(spec(&["a-a"])).contains("`a--a` joins a node or switch with itself"));
    let mut small = spec(&["a-S"]);
    small.links[0].mtu = 67;
    assert!(refused(small).contains("`a--S`: an MTU of 67"));
}

#[test]
fn unknown_names_and_doubles_are_refused() {
    let mut double = spec(&["a-S", "b-S"]);
    double.nodes.push("S".into());
    assert!(refused(double).contains("two nodes or switches are called `S`"));
    let mut unknown = spec(&["a-S"]);
    unknown.links[0].b = "nowhere".into();
    assert!(refused(unknown).contains("link `a--S`: there is no node or switch called `nowhere`"));
    let mut double = spec(&["a-S", "b-S"]);
    double.links[1].name = "a--S".into();
    assert!(refused(double).contains("two links are called `a--S`"));
    let mut queue = spec(&["a-S", "b-S"]);
    queue.links[1].ba.queue = Queue::packets(0);
    assert!(refused(queue).contains("`b--S/ba`: a queue of 0"));
}

#[test]
fn nodes_without_any_network_are_fine() {
    let network = Network::new(NetworkSpec { nodes: vec!["a".into(), "b".into()], ..Default::default() }, 0);
    let network = network.expect("no links, no network");
    assert!(network.ports().is_empty() && network.hosts_seen_by("a").is_empty());
}

#[test]
fn addresses_follow_the_order_of_the_links() {
    let n = Network::new(spec(&["a-S", "r-S", "r-b"]), 0).expect("a network");
    let all: Vec<_> = n.ports().iter().map(|p| (p.node.as_str(), p.name.as_str(), p.address, p.forwards)).collect();
    let expected = [
        ("a", "eth0", ip(1), false),
        ("r", "eth0", ip(2), true),
        ("r", "eth1", ip(3), true),
        ("b", "eth0", ip(4), false),
    ];
    assert_eq!(all, expected);
}

#[test]
fn an_interior_node_routes_by_the_interface_and_a_leaf_sends_everything_one_way() {
    // r joins S (with a, b and, beyond T, c and d) and, by a direct link, x.
    let n = Network::new(spec(&["x-r", "r-S", "a-S", "b-S", "S-T", "c-T", "d-T"]), 0).expect("a network");
    let ports: Vec<_> = n.ports_of("r").map(|p| (p.prefix, p.routes.clone())).collect();
    assert_eq!(ports, [(32, vec![Prefix { address: ip(0), length: 30 }]), (8, vec![])]);
    assert!(n.ports_of("a").all(|p| p.prefix == 8 && p.routes.is_empty()));
}

#[test]
fn a_node_with_two_interfaces_is_known_by_the_one_that_faces() {
    let n = Network::new(spec(&["a-r", "r-b"]), 0).expect("a network");
    let name = |s: &str| s.to_owned();
    assert_eq!(n.hosts_seen_by("a"), [(name("a"), ip(1)), (name("r"), ip(2)), (name("b"), ip(4))]);
    assert_eq!(n.hosts_seen_by("b"), [(name("a"), ip(1)), (name("r"), ip(3)), (name("b"), ip(4))]);
}

#[test]
fn the_route_lists_the_pipes_in_order() {
    let n = Network::new(spec(&["a-S", "b-T", "S-T"]), 0).expect("a network");
    let names: Vec<_> = n.route("a", "b").expect("joined").iter().map(|p| &n.pipe_names()[p.index()]).collect();
    assert_eq!(names, ["a--S/ab", "S--T/ab", "b--T/ba"]);
    assert_eq!(n.pipe("S--T/ba").map(|p| p.index()), Some(5));
    assert!(n.route("a", "zz").is_none());
}

/// Sends a frame from each port to every address; gives (from, to, delivered at) port numbers.
pub(super) fn all_pairs(n: &mut Network) -> Vec<(usize, usize, usize)> {
    let mut now = RealInstant::from_nanos(1);
    let (addresses, mut got) = (n.ports().iter().map(|p| p.address).collect::<Vec<_>>(), Vec::new());
    for from in 0..addresses.len() {
        for (to, address) in addresses.iter().enumerate() {
            let port = n.ports()[from].id;
            n.inject(port, now, ipv4(60, *address, 0));
            now = now + RealDuration::from_nanos(1_000_000_000);
            n.advance(now, |d| got.push((from, to, d.port.index())));
        }
    }
    got
}

#[test]
fn every_leaf_of_a_tree_reaches_every_other_and_not_itself() {
    let mut n = Network::new(spec(&["a-S", "b-S", "S-T", "c-T", "T-U", "d-U", "e-U"]), 0).expect("a network");
    let expected: Vec<_> =
        (0..5).flat_map(|from| (0..5).filter(move |to| *to != from).map(move |to| (from, to, to))).collect();
    assert_eq!(all_pairs(&mut n), expected);
    assert!(n.ports().iter().all(|p| n.port_counters(p.id).unroutable == 1));
}

#[test]
fn parts_that_nothing_joins_are_networks_of_their_own() {
    // Ports: a 0, r 1 and 2, b 3; c 4, d 5, s 6 and 7, e 8. z has no link.
    let mut parts = spec(&["a-S", "r-S", "r-b", "c-T", "d-T", "s-T", "s-e"]);
    parts.nodes.push("z".into());
    let mut n = Network::new(parts, 0).expect("a network");
    let got = all_pairs(&mut n);
    assert!(got.iter().all(|(from, to, at)| (*from < 4) == (*to < 4) && (*from < 4) == (*at < 4)), "{got:?}");
    assert!([(0, 3, 1), (3, 0, 2), (4, 5, 5), (4, 8, 6)].iter().all(|one| got.contains(one)), "{got:?}");
    assert_eq!(n.port_counters(n.ports()[0].id).unroutable, 6, "itself, and five of the other part");
    assert!(n.route("a", "c").is_none() && n.route("a", "b").is_some() && n.route("a", "z").is_none());
    let sums = n.route_sums(0, |_| 1);
    assert_eq!(sums.iter().flatten().count(), 2, "r and b have a way to a: {sums:?}");
    // Names are known of all that have an address, as in /etc/hosts of any machine.
    let known: Vec<String> = n.hosts_seen_by("a").into_iter().map(|(name, _)| name).collect();
    assert_eq!(known, ["a", "r", "b", "c", "d", "s", "e"]);
    assert!(n.hosts_seen_by("z").iter().all(|(name, _)| name != "z"));
}

#[test]
fn a_frame_for_beyond_an_interior_node_is_handed_to_that_node() {
    // Ports: a 0, r 1 and 2, b 3.
    let mut n = Network::new(spec(&["a-S", "r-S", "r-b"]), 0).expect("a network");
    let got = all_pairs(&mut n);
    assert!(got.contains(&(0, 3, 1)), "a's frame for b goes to r's eth0: {got:?}");
    assert!(got.contains(&(0, 2, 1)), "and so does one for r's far address: {got:?}");
    assert!(got.contains(&(2, 3, 3)) && got.contains(&(1, 0, 0)));
    // r sends a frame for b into the wrong link: it goes nowhere and does not bounce.
    assert!(!got.iter().any(|g| g.0 == 1 && g.1 == 3));
}

#[test]
fn what_a_node_should_not_send_is_counted_and_goes_nowhere() {
    let mut n = Network::new(spec(&["a-S", "b-S"]), 0).expect("a network");
    let port = n.ports()[0].id;
    let now = RealInstant::from_nanos(1);
    for to in [Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 5), Ipv4Addr::LOCALHOST, ip(77), ip(1)] {
        n.inject(port, now, ipv4(60, to, 0));
    }
    n.inject(port, now, ipv6(60, ip(77), 0));
    let mut neither = ipv4(60, ip(2), 0);
    neither.space()[12..14].copy_from_slice(&[0x86, 0xdd]);
    n.inject(port, now, neither);
    let mut jumbo = n.buffer();
    jumbo.set_len(9_000);
    n.inject(port, now, jumbo);
    n.advance(now, |d| panic!("{d:?}"));
    assert_eq!(n.port_counters(port), PortCounters { unroutable: 6, malformed: 2, ..Default::default() });
}

#[test]
fn any_bytes_at_all_do_no_harm() {
    let mut n = Network::new(spec(&["a-S", "b-S"]), 0).expect("a network");
    let port = n.ports()[0].id;
    let (mut state, sent) = (1u64, 20_000);
    let mut delivered = 0;
    for i in 0..sent {
        let mut frame = n.buffer();
        for byte in &mut frame.space()[..60] {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *byte = (state >> 56) as u8;
        }
        if i % 2 == 0 {
            frame.space()[12..15].copy_from_slice(&[8, 0, 0x45]);
            frame.space()[30..34].copy_from_slice(&ip(2).octets());
        }
        frame.set_len((state >> 33) as usize % 61);
        n.inject(port, RealInstant::from_nanos(i), frame);
        n.advance(RealInstant::from_nanos(i), |_| delivered += 1);
    }
    let counters = n.port_counters(port);
    assert_eq!(delivered + counters.unroutable + counters.malformed, sent);
    assert!(counters.malformed > 0 && counters.unroutable > 0);
}
