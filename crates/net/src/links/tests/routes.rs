//! Which way frames go: the shortest, ties, parallel links, given routes, and what a smaller MTU does.

use std::net::Ipv4Addr;

use scale::{RealDuration, RealInstant};

use super::shapes::{all_pairs, ip, refused, spec};
use crate::links::frame::tests::ipv4;
use crate::{LinkSpec, Network, NetworkSpec, PipeConfig, PipeId, PortCounters, Prefix, RouteSpec, Rule};

/// Like [`spec`]; each link is followed by its delay in ms: `a-S 3`. A second link between the same two is called
/// `S--T.2`.
fn net(links: &[&str]) -> NetworkSpec {
    let (ends, delays): (Vec<&str>, Vec<&str>) = links.iter().filter_map(|l| l.split_once(' ')).unzip();
    let mut spec = spec(&ends);
    for (i, delay) in delays.iter().enumerate() {
        let delay = RealDuration::from_nanos(delay.parse::<u64>().expect("a number of ms") * 1_000_000);
        let config = PipeConfig { delay, ..Default::default() };
        (spec.links[i].ab, spec.links[i].ba) = (config.clone(), config);
        if spec.links[..i].iter().any(|l| l.name == spec.links[i].name) {
            spec.links[i].name += ".2";
        }
    }
    spec
}

fn given(mut spec: NetworkSpec, from: &str, to: &str, links: &[&str]) -> NetworkSpec {
    let links = links.iter().map(|l| (*l).to_owned()).collect();
    spec.routes.push(RouteSpec { from: from.into(), to: to.into(), links });
    spec
}

fn network(spec: NetworkSpec) -> Network {
    Network::new(spec, 0).expect("a network")
}

/// The links of the route, and of the way that a frame really takes: where it is not the same, this fails.
fn way(n: &mut Network, from: &str, to: &str) -> Vec<String> {
    let route = n.route(from, to).expect("there is a route");
    let address = n.hosts_seen_by(from).into_iter().find(|h| h.0 == to).expect("it has an address").1;
    let first = n.ports_of(from).find(|p| p.pipe == route[0]).expect("it begins at an interface of the node").clone();
    let before: Vec<u64> = n.all_pipe_counters().map(|c| c.packets).collect();
    let mut frame = ipv4(60, address, 0);
    frame.space()[26..30].copy_from_slice(&first.address.octets());
    n.inject(first.id, RealInstant::ZERO, frame);
    // Nodes forward by the same routes, which a kernel does elsewhere; here a frame goes as far as the next node.
    let mut at = None;
    n.advance(RealInstant::from_nanos(u64::MAX), |d| at = Some(d.port));
    let passed: Vec<usize> =
        n.all_pipe_counters().enumerate().filter(|(i, c)| c.packets > before[*i]).map(|(i, _)| i).collect();
    let mut expected: Vec<usize> = route.iter().map(|p| p.index()).collect();
    let end = n.ports()[at.expect("it arrives").index()].clone();
    if end.node == to {
        expected.sort_unstable();
        assert_eq!((passed, end.address), (expected, address), "the frame takes another way than {route:?}");
    }
    route.iter().map(|p| n.pipe_names()[p.index()].trim_end_matches("/ab").trim_end_matches("/ba").to_owned()).collect()
}

/// The length of the longest prefix that holds an address.
fn longest(routes: &[Prefix], address: Ipv4Addr) -> Option<u8> {
    let differs = |r: &Prefix| (r.address.to_bits() ^ address.to_bits()).checked_shr(32 - u32::from(r.length));
    routes.iter().filter(|r| differs(r).unwrap_or(0) == 0).map(|r| r.length).max()
}

#[test]
fn a_ring_is_crossed_by_its_shorter_side() {
    let ring = net(&["a-S 1", "b-T 1", "c-U 1", "S-T 5", "T-U 5", "U-S 9"]);
    let n = &mut network(ring);
    assert_eq!(way(n, "a", "b"), ["a--S", "S--T", "b--T"]);
    assert_eq!(way(n, "a", "c"), ["a--S", "U--S", "c--U"]);
    assert_eq!(way(n, "c", "a"), ["c--U", "U--S", "a--S"]);
    let longer = &mut network(net(&["a-S 1", "b-T 1", "c-U 1", "S-T 5", "T-U 5", "U-S 11"]));
    assert_eq!(way(longer, "a", "c"), ["a--S", "S--T", "T--U", "c--U"]);
}

#[test]
fn of_equal_delays_fewer_links_win_and_then_the_order_of_the_links() {
    let n = &mut network(net(&["a-S 0", "b-T 0", "S-X 2", "X-T 2", "S-T 4"]));
    assert_eq!(way(n, "a", "b"), ["a--S", "S--T", "b--T"]);
    let n = &mut network(net(&["a-S 0", "b-T 0", "S-Y 2", "S-X 2", "X-T 2", "Y-T 2"]));
    assert_eq!(way(n, "a", "b"), ["a--S", "S--Y", "Y--T", "b--T"]);
    // From the other side the first link of T counts, which leads to X.
    assert_eq!(way(n, "b", "a"), ["b--T", "X--T", "S--X", "a--S"]);
    // Without any delay it is the number of links alone, and there is no going round.
    let n = &mut network(net(&["a-S 0", "S-T 0", "T-U 0", "U-V 0", "V-S 0", "b-V 0"]));
    assert_eq!(way(n, "a", "b"), ["a--S", "V--S", "b--V"]);
}

#[test]
fn every_pair_of_a_mesh_takes_a_shortest_way_and_each_step_agrees() {
    // Eight switches, every two of which are joined with some other delay, and a node at each.
    let names = ["S", "T", "U", "V", "W", "X", "Y", "Z"];
    let mut links: Vec<String> = names.iter().map(|s| format!("{}-{s} 1", s.to_lowercase())).collect();
    let mut delays = [[u64::MAX / 4; 8]; 8];
    for (i, a) in names.iter().enumerate() {
        for (j, b) in names.iter().enumerate().skip(i + 1) {
            let delay = (i * 7 + j * 13) as u64 % 23 + 1;
            links.push(format!("{a}-{b} {delay}"));
            (delays[i][j], delays[j][i]) = (delay, delay);
        }
    }
    // Floyd and Warshall, which knows nothing of how the routes are found.
    let mut least = delays;
    for k in 0..8 {
        for i in 0..8 {
            for j in 0..8 {
                least[i][j] = least[i][j].min(least[i][k] + least[k][j]);
            }
        }
    }
    let links: Vec<&str> = links.iter().map(String::as_str).collect();
    let n = &mut network(net(&links));
    for (i, from) in names.iter().map(|s| s.to_lowercase()).enumerate() {
        let sums = n.route_sums(i, |pipe| n.config(pipe).delay.as_nanos() / 1_000_000);
        for (j, to) in names.iter().map(|s| s.to_lowercase()).enumerate().filter(|(j, _)| *j != i) {
            way(n, &from, &to);
            let route = n.route(&from, &to).expect("there is a route");
            let length: u64 = route.iter().map(|p| n.config(*p).delay.as_nanos() / 1_000_000).sum();
            assert_eq!(length, least[i][j] + 2, "{from} to {to}");
            // The mesh is the same in both directions, and so are the sums.
            assert_eq!(sums[j], Some(length));
        }
        assert_eq!(sums[i], None);
    }
}

#[test]
fn of_parallel_links_the_quicker_one_is_taken_and_each_address_has_its_own() {
    let n = &mut network(net(&["a-S 1", "b-T 1", "S-T 5", "S-T 3"]));
    assert_eq!(way(n, "a", "b"), ["a--S", "S--T.2", "b--T"]);
    // Two wires between the same nodes: an address is reached by the wire that it is on.
    let n = &mut network(net(&["a-b 4", "a-b 2"]));
    assert_eq!(way(n, "a", "b"), ["a--b.2"]);
    let addresses: Vec<_> = n.ports_of("b").map(|p| p.address).collect();
    assert_eq!(n.hosts_seen_by("a")[1].1, addresses[1]);
    let a: Vec<_> = n.ports_of("a").cloned().collect();
    let way_to = |to: Ipv4Addr| {
        let holds = |r: &Prefix| (r.address.to_bits() ^ to.to_bits()).checked_shr(32 - u32::from(r.length)) == Some(0);
        let routed = a.iter().find(|p| p.routes.iter().any(holds));
        routed.or(a.iter().find(|p| p.prefix == 8)).map(|p| p.name.as_str())
    };
    assert_eq!((way_to(addresses[0]), way_to(addresses[1])), (Some("eth0"), Some("eth1")));
}

#[test]
fn a_node_with_two_links_is_reached_by_the_nearer_one() {
    // m has a leg on either side of a wide ring.
    let n = &mut network(net(&["m-S 1", "m-U 1", "a-S 1", "c-U 1", "S-T 9", "T-U 9"]));
    assert_eq!(way(n, "a", "m"), ["a--S", "m--S"]);
    assert_eq!(way(n, "c", "m"), ["c--U", "m--U"]);
    // It is also the shortest way between the two, and forwards.
    assert_eq!(way(n, "a", "c"), ["a--S", "m--S", "m--U", "c--U"]);
    let m: Vec<_> = n.ports_of("m").map(|p| p.address).collect();
    assert_eq!((n.hosts_seen_by("a")[0].1, n.hosts_seen_by("c")[0].1), (m[0], m[1]));
}

#[test]
fn no_frame_is_sent_back_and_all_others_arrive_whatever_interface_they_leave_by() {
    let mut n = network(net(&["m-S 1", "m-U 1", "a-S 1", "c-U 1", "S-T 0", "T-U 0"]));
    // Ports: m 0 and 1, a 2, c 3. By its leg on U, m reaches a the long way round; a's own way to c is by S, T and U.
    let got = all_pairs(&mut n);
    assert!(got.contains(&(1, 2, 2)) && got.contains(&(0, 2, 2)), "{got:?}");
    assert!(got.contains(&(2, 3, 3)), "{got:?}");
    assert!(!got.iter().any(|(from, to, _)| from == to || (*from < 2 && *to < 2)), "{got:?}");
}

const SQUARE: [&str; 8] = ["a-S 1", "b-U 1", "c-S 1", "S-T 1", "T-U 1", "S-V 5", "V-U 5", "S-U 20"];

#[test]
fn a_given_route_holds_for_its_two_nodes_and_its_direction_only() {
    let n = &mut network(given(net(&SQUARE), "a", "b", &["a--S", "S--V", "V--U", "b--U"]));
    assert_eq!(way(n, "a", "b"), ["a--S", "S--V", "V--U", "b--U"]);
    assert_eq!(way(n, "b", "a"), ["b--U", "T--U", "S--T", "a--S"]);
    assert_eq!(way(n, "c", "b"), ["c--S", "S--T", "T--U", "b--U"]);
    let delay = |n: &Network, p: PipeId| n.config(p).delay.as_nanos() / 1_000_000;
    assert_eq!(n.route_sums(1, |p| delay(n, p)), [Some(12), None, Some(4)]);
}

#[test]
fn given_routes_that_are_none_are_refused() {
    let wrong = |from, to, links: &[&str]| refused(given(net(&SQUARE), from, to, links));
    assert!(wrong("a", "b", &["a--S", "V--U"]).contains("`V--U` does not begin where the one before it ends"));
    assert!(wrong("a", "b", &["a--S", "S--T", "T--U", "V--U", "S--V"]).contains("a place that it has passed"));
    assert!(wrong("a", "b", &["a--S", "S--U"]).contains("its links do not lead there"));
    assert!(wrong("a", "b", &["a--S", "S--W"]).contains("no link called `S--W`"));
    assert!(wrong("a", "S", &["a--S"]).contains("no node called `S`"));
    let twice = given(net(&SQUARE), "a", "b", &["a--S", "S--U", "b--U"]);
    assert!(refused(given(twice, "a", "b", &["a--S", "S--U", "b--U"])).contains("another route"));
}

#[test]
fn nodes_on_a_given_route_are_told_by_rules() {
    // From a by r, which has two links, to b; a has two links itself.
    let links = ["a-S 1", "a-b 1", "r-S 1", "r-T 1", "b-T 1"];
    let n = network(given(net(&links), "a", "b", &["a--S", "r--S", "r--T", "b--T"]));
    let rules = |node| n.ports_of(node).map(|p| p.rules.clone()).collect::<Vec<_>>();
    let b: Vec<_> = n.ports_of("b").map(|p| p.address).collect();
    let a: Vec<_> = n.ports_of("a").map(|p| p.address).collect();
    let own: Vec<_> = b.iter().map(|to| Rule { from: None, to: *to }).collect();
    assert_eq!(rules("a"), [own, vec![]]);
    let passing: Vec<_> = a.iter().flat_map(|f| b.iter().map(|t| Rule { from: Some(*f), to: *t })).collect();
    assert_eq!(rules("r"), [vec![], passing]);
    assert!(n.ports_of("b").all(|p| p.rules.is_empty()));
}

#[test]
fn a_frame_too_long_for_the_next_link_is_dropped_and_counted_there() {
    let mut links = net(&["a-S 0", "S-T 0", "b-T 0"]);
    for (link, mtu) in links.links.iter_mut().zip([9000, 4000, 9000]) {
        link.mtu = mtu;
    }
    let mut n = network(links);
    let port = n.ports()[0].clone();
    assert_eq!(port.mtu, 9000);
    for len in [9014, 9015, 4014, 4015] {
        n.inject(port.id, RealInstant::ZERO, ipv4(len, ip(2), 0));
    }
    let mut lengths = Vec::new();
    n.advance(RealInstant::ZERO, |d| lengths.push(d.frame.len()));
    assert_eq!(lengths, [4014]);
    let counters = |name: &str| n.pipe_counters(n.pipe(name).expect("it is there"));
    assert_eq!((counters("a--S/ab").packets, counters("S--T/ab").too_long, counters("S--T/ab").packets), (3, 2, 1));
    // Longer than its own link's MTU is no frame at all.
    assert_eq!(n.port_counters(port.id), PortCounters { malformed: 1, ..Default::default() });
    assert_eq!((n.inside(), n.idle_buffers()), (0, 4));
}

#[test]
fn a_thousand_nodes_and_three_thousand_pipes_need_little() {
    // 500 nodes of one link and 500 of two around a mesh of 100 switches: 1,500 links to nodes and 400 between.
    let mut spec = NetworkSpec {
        switches: (0..100).map(|i| format!("s{i}")).collect(),
        nodes: (0..1000).map(|i| format!("n{i}")).collect(),
        ..Default::default()
    };
    let mut link = |a: String, b: String, delay: usize| {
        let config = PipeConfig { delay: RealDuration::from_nanos(delay as u64), ..Default::default() };
        spec.links.push(LinkSpec {
            name: format!("{a}--{b}"),
            a,
            b,
            ab: config.clone(),
            ba: config,
            mtu: 1500,
            tso: true,
        });
    };
    for i in 0..1000 {
        link(format!("n{i}"), format!("s{}", i % 100), 1000);
        if i % 2 == 1 {
            link(format!("n{i}"), format!("s{}", (i * 7 + 1) % 100), 1000);
        }
    }
    for i in 0..100 {
        for step in [1, 3, 17, 40] {
            link(format!("s{i}"), format!("s{}", (i + step) % 100), 50 + step);
        }
    }
    let n = network(spec);
    assert_eq!(n.pipe_names().len(), 3800);
    for (from, to) in [("n0", "n999"), ("n501", "n3"), ("n77", "n78")] {
        assert!(n.route(from, to).is_some_and(|r| !r.is_empty()));
    }
    let routes: usize = n.ports().iter().map(|p| p.routes.len()).sum();
    // Routes as they would be by address: one for each that lies another way than by the interface with prefix 8.
    let mut by_address = 0;
    for node in (1..1000).step_by(2).map(|i| format!("n{i}")) {
        let own: Vec<_> = n.ports_of(&node).collect();
        for to in n.ports().iter().filter(|to| to.node != node) {
            let way = own.iter().max_by_key(|port| longest(&port.routes, to.address)).expect("it has two interfaces");
            by_address += usize::from(longest(&way.routes, to.address).is_some() && way.prefix != 8);
        }
    }
    assert!(2 * routes < by_address, "{routes} routes, and {by_address} by address");
}
