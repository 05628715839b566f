//! Shared segments: who gets what, by which pipes, and which addresses members have.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use scale::{RealDuration, RealInstant};

use super::shapes::{all_pairs, refused, spec};
use crate::links::frame::tests::ipv4;
use crate::links::headers::{ARP, IPV4, IPV6};
use crate::{AddressSpec, Frame, LanSpec, Loss, Network, NetworkSpec, Port, PortId, Prefix};

const BROADCAST: [u8; 6] = [0xff; 6];

/// As [`spec`] has it, with those switches as LANs that are called `L…`.
fn lans(links: &[&str]) -> NetworkSpec {
    let mut spec = spec(links);
    let is_lan = |n: &String| n.starts_with('L');
    spec.lans = spec.switches.iter().filter(|n| is_lan(n)).map(|n| LanSpec { name: n.clone(), subnet: None }).collect();
    spec.switches.retain(|n| !is_lan(n));
    spec
}

fn port<'n>(n: &'n Network, node: &str) -> &'n Port {
    n.ports_of(node).next().expect("the node has an interface")
}

/// A frame of 60 bytes for a hardware address.
fn frame(to: [u8; 6], kind: [u8; 2]) -> Frame {
    let mut frame = ipv4(60, Ipv4Addr::new(10, 0, 0, 250), 9);
    frame.space()[..6].copy_from_slice(&to);
    frame.space()[12..14].copy_from_slice(&kind);
    frame
}

/// Sends a frame and gives who received it, with the hardware address that it had on arrival.
fn send(n: &mut Network, from: PortId, frame: Frame) -> Vec<(String, [u8; 6])> {
    let names: Vec<String> = n.ports().iter().map(|p| p.node.clone()).collect();
    let now = RealInstant::from_nanos(1_000_000_000);
    n.inject(from, now, frame);
    let mut got = Vec::new();
    n.advance(now + RealDuration::from_nanos(1_000_000_000), |d| {
        got.push((names[d.port.index()].clone(), d.frame[..6].try_into().expect("a frame has a destination")));
    });
    got.sort();
    got
}

fn names(got: &[(String, [u8; 6])]) -> Vec<&str> {
    got.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn a_broadcast_reaches_every_member_but_the_one_that_sends_and_nobody_else() {
    let mut n = Network::new(lans(&["a-L", "b-L", "r-L", "r-S", "c-S", "d-L"]), 0).expect("a network");
    let from = port(&n, "b").id;
    for to in [BROADCAST, [0x01, 0, 0x5e, 0, 0, 5], [0x33, 0x33, 0, 0, 0, 1]] {
        for kind in [ARP, IPV4, IPV6, [0x88, 0xb5]] {
            let got = send(&mut n, from, frame(to, kind));
            assert_eq!(names(&got), ["a", "d", "r"], "{to:x?} {kind:x?}");
            assert!(got.iter().all(|(_, arrived)| *arrived == to), "it arrives as it was sent: {got:x?}");
        }
    }
    // On another link it goes nowhere, as before.
    let other = port(&n, "c").id;
    assert_eq!(send(&mut n, other, frame(BROADCAST, ARP)), []);
    assert_eq!((n.port_counters(other).unroutable, n.port_counters(from).unroutable), (1, 0));
}

#[test]
fn a_frame_for_a_member_goes_there_whatever_it_carries_and_one_for_nobody_is_looked_for_everywhere() {
    let mut n = Network::new(lans(&["a-L", "b-L", "c-L"]), 0).expect("a network");
    let [a, b] = ["a", "b"].map(|node| port(&n, node).clone());
    for kind in [ARP, IPV4, [0x12, 0x34]] {
        assert_eq!(send(&mut n, a.id, frame(b.mac, kind)), [("b".to_owned(), b.mac)], "{kind:x?}");
    }
    let stranger = [0x52, 0x54, 0, 1, 2, 3];
    assert_eq!(names(&send(&mut n, a.id, frame(stranger, ARP))), ["b", "c"]);
    assert_eq!(send(&mut n, a.id, frame(a.mac, ARP)), [], "nobody sends to himself over a switch");
    let mut short = frame(b.mac, ARP);
    short.set_len(13);
    assert_eq!(send(&mut n, a.id, short), []);
    let counters = n.port_counters(a.id);
    assert_eq!((counters.unroutable, counters.malformed), (1, 1));
}

#[test]
fn what_is_for_the_gateway_goes_by_its_ip_address_also_beyond_the_lan() {
    // a is on the LAN; c lies behind r.
    let mut n = Network::new(lans(&["a-L", "r-L", "r-c", "b-L"]), 0).expect("a network");
    let gateway = |p: &Port| crate::links::address::mac(p.gateway);
    let a = port(&n, "a").clone();
    let (to_c, to_b) = (port(&n, "c").address, port(&n, "b").clone());
    let mut beyond = ipv4(60, to_c, 0);
    beyond.space()[..6].copy_from_slice(&gateway(&a));
    let r = n.ports_of("r").find(|p| p.lan.is_some()).expect("r is on the LAN").clone();
    assert_eq!(send(&mut n, a.id, beyond), [("r".to_owned(), r.mac)], "r forwards it with its own kernel");
    let mut near = ipv4(60, to_b.address, 0);
    near.space()[..6].copy_from_slice(&gateway(&a));
    assert_eq!(send(&mut n, a.id, near), [("b".to_owned(), to_b.mac)]);
}

#[test]
fn every_copy_meets_its_own_pipe() {
    let mut spec = lans(&["a-L", "b-L", "c-L", "d-L"]);
    // From the LAN to b all is lost; to c it takes longer; a's way into the LAN takes 5 ms.
    spec.links[0].ab.delay = RealDuration::from_nanos(5_000_000);
    spec.links[1].ba.loss = Loss::Random(1.0);
    spec.links[2].ba.delay = RealDuration::from_nanos(7_000_000);
    let mut n = Network::new(spec, 0).expect("a network");
    let a = port(&n, "a").id;
    n.inject(a, RealInstant::from_nanos(0), frame(BROADCAST, ARP));
    let (mut got, ports) = (Vec::new(), n.ports().iter().map(|p| p.node.clone()).collect::<Vec<_>>());
    n.advance(RealInstant::from_nanos(1 << 40), |d| got.push((ports[d.port.index()].clone(), d.exit.as_nanos())));
    assert_eq!(got, [("d".to_owned(), 5_000_000), ("c".to_owned(), 12_000_000)]);
    let counted = |name: &str| n.pipe_counters(n.pipe(name).expect("a pipe"));
    assert_eq!((counted("a--L/ab").packets, counted("a--L/ba").packets), (1, 0));
    assert_eq!((counted("b--L/ba").lost, counted("c--L/ba").packets, counted("d--L/ba").packets), (1, 1, 1));
    assert_eq!(n.inside(), 0);
}

#[test]
fn a_flood_of_broadcasts_takes_no_more_memory_than_there_is_and_is_counted() {
    let members: Vec<String> = (0..100).map(|i| format!("n{i}-L")).collect();
    let mut spec = lans(&members.iter().map(String::as_str).collect::<Vec<_>>());
    for link in &mut spec.links {
        link.ba.delay = RealDuration::from_nanos(1_000_000_000);
    }
    let mut n = Network::new(spec, 0).expect("a network");
    let (from, sent) = (port(&n, "n0").id, 3000);
    for i in 0..sent {
        let mut buffer = n.buffer();
        buffer.space()[..6].copy_from_slice(&BROADCAST);
        buffer.set_len(60);
        n.inject(from, RealInstant::from_nanos(i), buffer);
        n.advance(RealInstant::from_nanos(i), |d| panic!("{d:?}"));
    }
    let mut delivered = 0;
    n.advance(RealInstant::from_nanos(1 << 40), |_| delivered += 1);
    let uncopied: u64 = n.ports().iter().map(|p| n.port_counters(p.id).uncopied).sum();
    assert_eq!(delivered + uncopied, sent * 99);
    assert!(uncopied > 0 && n.inside() == 0, "{uncopied}");
}

#[test]
fn each_lan_has_a_block_of_its_own_behind_the_links() {
    let n = Network::new(lans(&["a-L1", "b-L1", "b-c", "c-L2", "d-L2"]), 0).expect("a network");
    let all: Vec<String> = n.ports().iter().map(|p| format!("{} {}/{}", p.node, p.address, p.prefix)).collect();
    let expected = ["a 10.0.1.1/24", "b 10.0.1.2/24", "b 10.0.0.1/8", "c 10.0.0.2/8", "c 10.0.2.1/24", "d 10.0.2.2/24"];
    assert_eq!(all, expected);
    let many: Vec<String> = (0..300).map(|i| format!("n{i}-L")).collect();
    let n = Network::new(lans(&many.iter().map(String::as_str).collect::<Vec<_>>()), 0).expect("a network");
    let lan = n.ports()[0].lan.expect("it is on a LAN");
    assert_eq!(lan.subnet, Prefix { address: Ipv4Addr::new(10, 0, 0, 0), length: 23 });
    assert_eq!(n.ports()[299].address, Ipv4Addr::new(10, 0, 1, 46));
    assert!(!lan.asks, "three hundred would fill the kernel's table of neighbours");
    let addresses: BTreeSet<_> = n.ports().iter().map(|p| p.address).collect();
    assert!(addresses.len() == 300 && addresses.iter().all(|a| lan.subnet.holds(*a)));
}

#[test]
fn chosen_addresses_are_kept_and_the_rest_keep_clear_of_them() {
    let mut spec = lans(&["a-L", "b-L", "c-L", "c-d", "d-e"]);
    let mut choose = |link: &str, node: &str, address: [u8; 4]| {
        spec.addresses.push(AddressSpec { link: link.into(), node: node.into(), address: address.into() });
    };
    choose("a--L", "a", [192, 168, 7, 1]);
    choose("c--L", "c", [192, 168, 7, 3]);
    choose("c--d", "c", [10, 0, 0, 1]);
    let mut n = Network::new(spec.clone(), 0).expect("a network");
    let all: Vec<String> = n.ports().iter().map(|p| format!("{} {}", p.node, p.address)).collect();
    // 10.0.0 is somebody's choice, so the next block is given out.
    let expected =
        ["a 192.168.7.1", "b 192.168.7.2", "c 192.168.7.3", "c 10.0.0.1", "d 10.0.1.1", "d 10.0.1.2", "e 10.0.1.3"];
    assert_eq!(all, expected);
    assert!(n.ports().iter().all(|p| p.main.is_none_or(|all| all.length == 0)), "not all addresses begin with 10");
    let pairs = all_pairs(&mut n);
    let reach = |from: usize, to: usize| pairs.iter().any(|(f, t, _)| (*f, *t) == (from, to));
    assert!((0..6).all(|to| reach(6, to)), "e reaches every address: {pairs:?}");
    for (change, message) in [
        (("d--e", "e", [10, 0, 0, 1]), "`c` and `e` both have the address 10.0.0.1"),
        (("d--e", "e", [192, 168, 7, 255]), "is in the block 192.168.7.0/24 of the LAN `L`"),
        (("b--L", "b", [192, 168, 8, 9]), "192.168.8.9 is not in its block 192.168.7.0/24"),
        (("b--L", "c", [192, 168, 7, 9]), "`c` is no node at an end of the link `b--L`"),
        (("b--L", "b", [10, 200, 7, 9]), "the emulator's own"),
        (("b--L", "b", [224, 0, 7, 9]), "no interface can have this address"),
        (("a--L", "a", [192, 168, 7, 9]), "`a` has another address on the link `a--L`"),
    ] {
        let mut wrong = spec.clone();
        let (link, node, address) = change;
        wrong.addresses.push(AddressSpec { link: link.into(), node: node.into(), address: address.into() });
        let said = refused(wrong);
        assert!(said.contains(message), "{said}");
    }
}

#[test]
fn an_address_of_a_lans_block_on_a_link_has_a_route_of_its_own_at_the_members() {
    let mut spec = lans(&["a-L", "b-L", "b-c", "c-d"]);
    for (link, node, last) in [("a--L", "a", 1), ("b--L", "b", 2), ("c--d", "c", 8), ("c--d", "d", 9)] {
        let address = [10, 1, 1, last].into();
        spec.addresses.push(AddressSpec { link: link.into(), node: node.into(), address });
    }
    let mut n = Network::new(spec, 0).expect("a network");
    // Ports: a 0, b 1 and 2, c 3 and 4, d 5.
    let single = |last| Prefix { address: [10, 1, 1, last].into(), length: 32 };
    let strangers: Vec<Vec<Prefix>> = n.ports().iter().map(|p| p.routes.clone()).collect();
    assert_eq!(strangers[0], [single(8), single(9)], "a is on the LAN alone");
    assert!([8, 9].iter().all(|last| strangers[2].contains(&single(*last))), "by b's link to c: {strangers:?}");
    assert_eq!(strangers[1], []);
    let gateway = |p: &Port| crate::links::address::mac(p.gateway);
    let a = port(&n, "a").clone();
    let mut to_d = ipv4(60, [10, 1, 1, 9].into(), 0);
    to_d.space()[..6].copy_from_slice(&gateway(&a));
    assert_eq!(names(&send(&mut n, a.id, to_d)), ["b"], "which forwards it");
}

#[test]
fn a_block_that_is_none_or_too_small_or_another_lans_is_refused() {
    let with = |subnets: &[(&str, [u8; 4], u8)]| {
        let mut spec = lans(&["a-L1", "b-L1", "c-L1", "c-L2", "d-L2"]);
        for (lan, address, length) in subnets {
            let lan = spec.lans.iter_mut().find(|l| l.name == *lan).expect("there is such a LAN");
            lan.subnet = Some(Prefix { address: (*address).into(), length: *length });
        }
        spec
    };
    Network::new(with(&[("L1", [192, 168, 1, 0], 29), ("L2", [192, 168, 1, 8], 30)]), 0).expect("they fit");
    for (subnets, message) in [
        (vec![("L1", [192, 168, 1, 0], 30)], "`L1`: its block 192.168.1.0/30 has fewer addresses than it has members"),
        (vec![("L1", [192, 168, 1, 1], 24)], "192.168.1.1/24 is no block"),
        (vec![("L1", [192, 168, 1, 0], 31)], "192.168.1.0/31 is no block"),
        (vec![("L1", [10, 0, 0, 0], 8)], "10.0.0.0/8 is no block"),
        (vec![("L1", [172, 16, 0, 0], 16), ("L2", [172, 16, 9, 0], 24)], "172.16.0.0/16 is also another LAN's"),
    ] {
        let said = refused(with(&subnets));
        assert!(said.contains(message), "{said}");
    }
}

#[test]
fn members_are_nodes() {
    let said = refused(lans(&["a-L", "b-L", "S-L"]));
    assert!(said.contains("`S--L`: the members of a LAN are nodes"), "{said}");
}

#[test]
fn a_neighbour_on_the_lan_is_reached_over_it_and_given_routes_still_win_elsewhere() {
    // a and r are also joined by a link with no delay, while the LAN is slow.
    let mut spec = lans(&["a-r", "a-L", "r-L", "b-L", "r-c"]);
    spec.links[1].ab.delay = RealDuration::from_nanos(1_000_000);
    let n = Network::new(spec, 0).expect("a network");
    let routes: Vec<_> = n.ports_of("a").map(|p| (p.name.as_str(), p.main.is_some(), p.routes.len())).collect();
    // The LAN's own block needs no route; what lies behind r goes by the fast link.
    assert_eq!(routes, [("eth0", true, 0), ("eth1", false, 0)], "{:?}", n.ports());
}
