//! Nodes that are cut off from others: by whose packets are lost, and what is not a packet of theirs.

use scale::{RealDuration, RealInstant};

use super::shapes::spec;
use crate::links::frame::tests::ipv4;
use crate::links::headers::{ARP, IPV4};
use crate::{Frame, LanSpec, Network, NetworkSpec, Port};

fn port(n: &Network, node: &str) -> Port {
    n.ports_of(node).next().expect("the node has an interface").clone()
}

/// Whether a packet from one node reaches another; over links between them it is sent from `by`.
fn reaches(n: &mut Network, from: &str, by: &str, to: &str) -> bool {
    let [source, entry, target] = [from, by, to].map(|node| port(n, node));
    let mut frame = ipv4(60, target.address, 0);
    frame.space()[26..30].copy_from_slice(&source.address.octets());
    frame.space()[..6].copy_from_slice(&target.mac);
    !arrivals(n, &entry, frame).is_empty()
}

fn arrivals(n: &mut Network, entry: &Port, frame: Frame) -> Vec<String> {
    let names: Vec<String> = n.ports().iter().map(|p| p.node.clone()).collect();
    let now = RealInstant::from_nanos(1_000_000_000);
    n.inject(entry.id, now, frame);
    let mut got = Vec::new();
    n.advance(now + RealDuration::from_nanos(1_000_000_000), |d| got.push(names[d.port.index()].clone()));
    got
}

fn lan() -> NetworkSpec {
    let mut spec = spec(&["a-L", "b-L", "c-L"]);
    spec.switches.clear();
    spec.lans = vec![LanSpec { name: "L".into(), subnet: None }];
    spec
}

#[test]
fn packets_are_lost_in_the_directions_that_are_cut_and_in_no_other() {
    for spec in [spec(&["a-S", "b-S", "c-S"]), lan()] {
        let mut n = Network::new(spec, 0).expect("a network");
        n.set_cut(&[[0, 1]]);
        let ways = |n: &mut Network| ["ab", "ba", "ac", "bc"].map(|way| reaches(n, &way[..1], &way[..1], &way[1..]));
        assert_eq!(ways(&mut n), [false, true, true, true]);
        let a = port(&n, "a").id;
        assert_eq!((n.port_counters(a).cut, n.port_counters(a).unroutable), (1, 0));
        n.set_cut(&[]);
        assert_eq!(ways(&mut n), [true; 4]);
    }
}

#[test]
fn who_forwards_is_not_who_sends() {
    let mut n = Network::new(spec(&["a-r", "r-c", "S-r"]), 0).expect("a network");
    let places: Vec<&str> = vec!["a", "r", "c"];
    let place = |name: &str| places.iter().position(|p| *p == name).expect("it is there");
    n.set_cut(&[[place("r"), place("c")]]);
    let by_r = n.ports_of("r").nth(1).expect("its port to c").clone();
    let (a, c) = (port(&n, "a"), port(&n, "c"));
    let mut forwarded = ipv4(60, c.address, 0);
    forwarded.space()[26..30].copy_from_slice(&a.address.octets());
    assert_eq!(arrivals(&mut n, &by_r, forwarded), ["c"]);
    let mut own = ipv4(60, c.address, 0);
    own.space()[26..30].copy_from_slice(&by_r.address.octets());
    assert_eq!(arrivals(&mut n, &by_r, own), [""; 0]);
}

#[test]
fn neighbours_are_found_and_groups_of_a_lan_are_not_heard() {
    let mut n = Network::new(lan(), 0).expect("a network");
    n.set_cut(&[[0, 1]]);
    let a = port(&n, "a");
    let mut all = |kind: [u8; 2]| {
        let mut frame = ipv4(60, [10, 255, 255, 255].into(), 0);
        frame.space()[..6].copy_from_slice(&[0xff; 6]);
        frame.space()[12..14].copy_from_slice(&kind);
        arrivals(&mut n, &a, frame)
    };
    assert_eq!(all(ARP), ["b", "c"]);
    assert_eq!(all(IPV4), ["c"]);
}
