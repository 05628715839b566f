//! Flows that exist only in the network, against what can be worked out by hand.

use scale::{RealDuration, RealInstant, RealRate};
use traffic::{Pattern, Shape};

use crate::links::frame::tests::ipv4;
use crate::{
    DEFAULT_MTU, FlowChange, FlowInterval, FlowSpec, LinkSpec, Load, Network, NetworkSpec, PipeChange, PipeConfig,
    PortId, Queue,
};

fn ms(ms: f64) -> RealDuration {
    RealDuration::from_secs_f64(ms / 1e3)
}

fn at(after: f64) -> RealInstant {
    RealInstant::from_nanos(5_000_000_000) + ms(after)
}

fn load(frame: usize, shape: Shape, packets: Option<u64>) -> Load {
    Load { frame, pattern: Pattern { shape, packets } }
}

fn every(interval_ms: f64) -> Shape {
    Shape::Constant { interval: interval_ms / 1e3, noise: false }
}

/// `a` – `s` – `b`, with hosts `h1`, `h2`, … at `s`, which are switches. Each pipe takes 1 ms for a frame of 125 bytes,
/// travels for 5 ms and holds 10 frames.
fn network(hosts: usize, flows: Vec<FlowSpec>) -> Network {
    let pipe = PipeConfig {
        rate: Some(RealRate::from_bits_per_s(1e6)),
        delay: ms(5.0),
        queue: Queue::packets(10),
        ..Default::default()
    };
    let link = |a: &str| LinkSpec {
        name: format!("{a}--s"),
        a: a.into(),
        b: "s".into(),
        ab: pipe.clone(),
        ba: pipe.clone(),
        mtu: DEFAULT_MTU,
        tso: true,
    };
    let hosts: Vec<String> = (1..=hosts).map(|n| format!("h{n}")).collect();
    let links = ["a", "b"].into_iter().map(link).chain(hosts.iter().map(|h| link(h))).collect();
    let switches = std::iter::once("s".to_owned()).chain(hosts).collect();
    let nodes = vec!["a".into(), "b".into()];
    let mut network =
        Network::new(NetworkSpec { nodes, switches, links, flows, ..Default::default() }, 7).expect("a tree");
    network.start_series(at(0.0), ms(100.0));
    network
}

fn flow(ways: &[(&str, &str)], load: Load) -> FlowSpec {
    let ways = ways.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
    FlowSpec { name: "flow".into(), ways, load, seed: 3 }
}

fn run(network: &mut Network, until: f64) -> Vec<FlowInterval> {
    network.advance(at(until), |delivery| panic!("{delivery:?}"));
    network.flow_intervals()
}

#[test]
fn packets_take_their_part_of_pipes_and_reach_no_node() {
    let mut n = network(1, vec![flow(&[("h1", "a")], load(125, every(10.0), Some(15)))]);
    assert_eq!(run(&mut n, 150.0), []);
    n.change_flows(at(150.0), &[(0, FlowChange::Start)]).unwrap();
    // Two pipes, each 1 ms to transmit and 5 ms to travel.
    let seen = run(&mut n, 450.0);
    let told: Vec<_> = seen.iter().map(|i| (i.from, i.grew.sent, i.grew.arrived, i.grew.lost)).collect();
    assert_eq!(told, [(at(100.0), 5, 4, 0), (at(200.0), 10, 10, 0), (at(300.0), 0, 1, 0)]);
    assert!(seen.iter().all(|i| i.grew.delay == i.grew.arrived * 12_000_000), "{seen:?}");
    let charged = n.pipe_counters(n.pipe("a--s/ba").unwrap());
    assert_eq!((charged.packets, charged.bytes), (15, 15 * 125));
    assert_eq!((n.inside(), n.next_deadline()), (0, None));
}

#[test]
fn frames_of_nodes_wait_behind_them() {
    let mut n = network(1, vec![flow(&[("h1", "b")], load(1250, every(1000.0), None))]);
    n.change_flows(at(0.0), &[(0, FlowChange::Start)]).unwrap();
    // At 15 ms the packet has come to the pipe to `b`, which it takes until 25 ms.
    let to = n.ports_of("b").next().unwrap().address;
    n.advance(at(9.5), |_| ());
    n.inject(PortId(0), at(9.5), ipv4(125, to, 0));
    let mut exits = Vec::new();
    n.advance(at(60.0), |delivery| exits.push(delivery.exit));
    assert_eq!(exits, [at(31.0)], "10 ms after it came there, with 1 of its own and 5 of travel");
}

#[test]
fn what_is_dropped_is_counted_and_a_stopped_flow_leaves_nothing() {
    // Three times what the pipe to `a` takes.
    let ways = [("h1", "a"), ("h2", "a"), ("h3", "a")];
    let mut n = network(3, vec![flow(&ways, load(125, every(1.0), None))]);
    n.change_flows(at(0.0), &[(0, FlowChange::Start)]).unwrap();
    let seen = run(&mut n, 1000.0);
    let sum = |of: fn(&FlowInterval) -> u64| seen.iter().map(of).sum::<u64>();
    let (sent, arrived, lost) = (sum(|i| i.grew.sent), sum(|i| i.grew.arrived), sum(|i| i.grew.lost));
    assert!((2990..=3000).contains(&sent) && (980..=1000).contains(&arrived), "{sent} {arrived}");
    assert!((1960..=2000).contains(&lost), "{lost}");
    // Frames in the pipes when the link fails are lost, too.
    n.change_flows(at(1000.0), &[(0, FlowChange::Stop)]).unwrap();
    let down = PipeChange { up: Some(false), ..Default::default() };
    n.set(at(1000.0), &[(n.pipe("a--s/ba").unwrap(), down)]).unwrap();
    let last = run(&mut n, 1200.0);
    let more: u64 = last.iter().map(|i| i.grew.lost).sum();
    assert_eq!(sent, arrived + lost + more);
    assert_eq!((n.inside(), n.next_deadline()), (0, None));
}

#[test]
fn sources_are_out_of_step_and_a_change_holds_from_its_instant_on() {
    let ways: Vec<(String, String)> = (1..=50).map(|h| (format!("h{h}"), "b".into())).collect();
    let spec = FlowSpec { name: "crowd".into(), ways, load: load(25, every(100.0), None), seed: 1 };
    let mut n = network(50, vec![spec]);
    n.change_flows(at(0.0), &[(0, FlowChange::Start)]).unwrap();
    let mut previous = n.next_deadline().unwrap();
    let mut gaps = Vec::new();
    while previous < at(90.0) {
        n.advance(previous, |_| ());
        let next = n.next_deadline().unwrap();
        gaps.push(next.since(previous));
        previous = next;
    }
    assert!(gaps.iter().all(|gap| *gap < ms(20.0)), "{gaps:?}");
    let faster = load(50, every(50.0), None);
    n.advance(at(500.0), |_| ());
    n.change_flows(at(500.0), &[(0, FlowChange::Load(faster))]).unwrap();
    let seen = run(&mut n, 1000.0);
    let sent: Vec<u64> = seen.iter().map(|i| i.grew.sent).collect();
    assert_eq!(sent[1..5], [50; 4]);
    assert_eq!(sent[6..], [100; 4]);
    assert!(seen[9].grew.lost == 0 && seen[9].frame == 50, "{:?}", seen[9]);
}

#[test]
fn what_leads_nowhere_or_is_too_long_is_refused() {
    let wrong = |ways: &[(&str, &str)], frame| {
        let spec = NetworkSpec {
            nodes: vec!["a".into(), "b".into()],
            links: vec![LinkSpec {
                name: "a--b".into(),
                a: "a".into(),
                b: "b".into(),
                ab: PipeConfig::default(),
                ba: PipeConfig::default(),
                mtu: DEFAULT_MTU,
                tso: true,
            }],
            flows: vec![flow(ways, load(frame, every(1.0), None))],
            ..Default::default()
        };
        Network::new(spec, 0).map(drop).unwrap_err().to_string()
    };
    assert!(wrong(&[("a", "c")], 100).contains("no way from `a` to `c`"));
    assert!(wrong(&[("a", "a")], 100).contains("no way from `a` to `a`"));
    assert!(wrong(&[("a", "b")], 1515).contains("1515 bytes"));
}
