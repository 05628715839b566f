//! The timing of one pipe, through a network of two nodes, and of several in a row.

use std::net::Ipv4Addr;

use scale::{RealDuration, RealInstant, RealRate};

use crate::links::frame::tests::ipv4;
use crate::{LinkSpec, Loss, Network, NetworkSpec, PipeChange, PipeConfig, PipeCounters, PipeId, PortId, Queue};

pub(super) const A: PortId = PortId(0);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

pub(super) fn us(n: u64) -> RealDuration {
    RealDuration::from_nanos(n * 1000)
}

pub(super) fn at(us: u64) -> RealInstant {
    RealInstant::from_nanos(1_000_000_000 + us * 1000)
}

/// 1 Mbit/s: a frame of 125 bytes takes exactly 1 ms.
pub(super) fn slow(delay: RealDuration) -> PipeConfig {
    PipeConfig { rate: Some(RealRate::from_bits_per_s(1e6)), delay, ..Default::default() }
}

/// `a`, `b` and a chain of switches between them; every pipe from `a` to `b` is `config`.
pub(super) fn chain(config: &PipeConfig, hops: usize, seed: u64) -> Network {
    let mut spec = NetworkSpec { nodes: vec!["a".into(), "b".into()], ..Default::default() };
    spec.switches = (1..hops).map(|i| format!("s{i}")).collect();
    let stops: Vec<String> = [vec!["a".into()], spec.switches.clone(), vec!["b".into()]].concat();
    for ends in stops.windows(2) {
        let name = format!("{}--{}", ends[0], ends[1]);
        let (ab, ba) = (config.clone(), PipeConfig::default());
        spec.links.push(LinkSpec { name, a: ends[0].clone(), b: ends[1].clone(), ab, ba, mtu: 1500, tso: true });
    }
    Network::new(spec, seed).expect("a chain is a tree")
}

pub(super) fn send(network: &mut Network, now: RealInstant, len: usize, mark: u8) {
    let to = network.ports()[1].address;
    network.inject(A, now, ipv4(len, to, mark));
}

/// Advances to `now` in one step; what left, as (microseconds, mark).
pub(super) fn arrivals(network: &mut Network, now: RealInstant) -> Vec<(u64, u8)> {
    let mut seen = Vec::new();
    network.advance(now, |d| seen.push((d.exit.since(at(0)).as_nanos() / 1000, d.frame[34])));
    seen
}

pub(super) fn change(network: &mut Network, now: RealInstant, change: PipeChange) {
    network.set(now, &[(PipeId(0), change)]).expect("the change is valid");
}

#[test]
fn a_frame_waits_for_those_before_it_then_is_transmitted_then_travels() {
    let mut n = chain(&slow(us(10_000)), 1, 0);
    send(&mut n, at(0), 125, 1);
    send(&mut n, at(200), 250, 2);
    send(&mut n, at(9_000), 125, 3);
    assert_eq!(n.next_deadline(), Some(at(11_000)));
    assert_eq!(arrivals(&mut n, at(10_999)), []);
    assert_eq!(arrivals(&mut n, at(60_000)), [(11_000, 1), (13_000, 2), (20_000, 3)]);
    assert_eq!(n.next_deadline(), None);
    let expected = PipeCounters { packets: 3, bytes: 500, ..Default::default() };
    assert_eq!(n.pipe_counters(PipeId(0)), expected);
}

#[test]
fn hops_are_chained_in_computed_time_however_late_they_are_seen_to() {
    let config = slow(us(5_000));
    let (mut late, mut exact) = (chain(&config, 10, 0), chain(&config, 10, 0));
    for n in [&mut late, &mut exact] {
        send(n, at(0), 125, 1);
        send(n, at(0), 125, 2);
    }
    // Ten hops of 1 ms and 5 ms, and 1 ms behind the first frame, once.
    let expected = [(60_000, 1), (61_000, 2)];
    assert_eq!(arrivals(&mut late, at(10_000_000)), expected);
    let mut seen = Vec::new();
    while let Some(deadline) = exact.next_deadline() {
        seen.extend(arrivals(&mut exact, deadline));
    }
    assert_eq!(seen, expected);
}

#[test]
fn transmission_times_do_not_drift() {
    // 10 Mbit/s, 1514 bytes: 1.2112 ms each; the thousandth leaves a thousand times later, to the nanosecond.
    let config =
        PipeConfig { rate: Some(RealRate::from_bits_per_s(1e7)), queue: Queue::packets(1000), ..Default::default() };
    let mut n = chain(&config, 1, 0);
    (0..1000).for_each(|_| send(&mut n, at(0), 1514, 0));
    let mut last = at(0);
    n.advance(at(10_000_000), |d| last = d.exit);
    assert_eq!(last.since(at(0)), RealDuration::from_nanos(1_211_200_000));
}

#[test]
fn a_full_queue_drops_the_newcomer_and_counts_packets_not_yet_transmitted() {
    let config = PipeConfig { queue: Queue::packets(3), ..slow(us(50_000)) };
    let mut n = chain(&config, 1, 0);
    (0..5).for_each(|i| send(&mut n, at(0), 125, i));
    assert_eq!(n.pipe_counters(PipeId(0)).queue_drops, 2);
    // At 1 ms one has been transmitted: it travels, and its place is free though it has not arrived.
    send(&mut n, at(1_000), 125, 5);
    send(&mut n, at(1_000), 125, 6);
    let marks: Vec<u8> = arrivals(&mut n, at(100_000)).into_iter().map(|(_, mark)| mark).collect();
    assert_eq!(marks, [0, 1, 2, 5]);
    assert_eq!(n.pipe_counters(PipeId(0)).queue_drops, 3);
}

#[test]
fn without_a_rate_nothing_queues() {
    let config = PipeConfig { queue: Queue::packets(1), delay: us(100), ..Default::default() };
    let mut n = chain(&config, 1, 0);
    (0..1000).for_each(|_| send(&mut n, at(0), 1514, 0));
    assert_eq!(arrivals(&mut n, at(100)).len(), 1000);
}

#[test]
fn which_packets_are_lost_depends_on_seed_and_number_only() {
    let lossy = PipeConfig { loss: Loss::Random(0.3), ..Default::default() };
    let survivors = |seed: u64, spacing: u64, len: usize| {
        let mut n = chain(&lossy, 1, seed);
        let mut marks = Vec::new();
        for i in 0..200 {
            let now = at(u64::from(i) * spacing);
            send(&mut n, now, len, i);
            marks.extend(arrivals(&mut n, now).into_iter().map(|(_, mark)| mark));
        }
        let counters = n.pipe_counters(PipeId(0));
        assert_eq!(counters.lost + counters.packets, 200);
        marks
    };
    let base = survivors(1, 1, 64);
    assert!((110..170).contains(&base.len()), "{} of 200 at 30 % loss", base.len());
    assert_eq!(base, survivors(1, 1000, 1514));
    assert_ne!(base, survivors(2, 1, 64));
}

#[test]
fn going_down_loses_what_is_inside_and_coming_up_starts_afresh() {
    let mut n = chain(&slow(us(10_000)), 1, 0);
    (0..3).for_each(|i| send(&mut n, at(0), 125, i));
    assert_eq!(arrivals(&mut n, at(11_000)), [(11_000, 0)]);
    change(&mut n, at(11_000), PipeChange { up: Some(false), ..Default::default() });
    assert_eq!(n.next_deadline(), None);
    send(&mut n, at(12_000), 125, 9);
    change(&mut n, at(20_000), PipeChange { up: Some(true), ..Default::default() });
    send(&mut n, at(20_000), 125, 4);
    assert_eq!(arrivals(&mut n, at(90_000)), [(31_000, 4)]);
    let counters = n.pipe_counters(PipeId(0));
    assert_eq!((counters.packets, counters.down_drops), (2, 3));
}

#[test]
fn a_new_rate_holds_for_what_is_not_transmitted_yet() {
    let mut n = chain(&slow(us(0)), 1, 0);
    (0..3).for_each(|i| send(&mut n, at(0), 125, i));
    // Half of the first is out; the other half takes 0.05 ms at ten times the rate, the others 0.1 ms each.
    let faster = PipeChange { rate: Some(Some(RealRate::from_bits_per_s(1e7))), ..Default::default() };
    change(&mut n, at(500), faster);
    send(&mut n, at(500), 125, 3);
    assert_eq!(arrivals(&mut n, at(90_000)), [(550, 0), (650, 1), (750, 2), (850, 3)]);
}

#[test]
fn without_limit_everything_waiting_leaves_at_once() {
    let mut n = chain(&slow(us(100)), 1, 0);
    (0..3).for_each(|i| send(&mut n, at(0), 125, i));
    change(&mut n, at(500), PipeChange { rate: Some(None), ..Default::default() });
    assert_eq!(arrivals(&mut n, at(90_000)), [(600, 0), (600, 1), (600, 2)]);
}

#[test]
fn a_shorter_delay_lets_no_frame_overtake() {
    let mut n = chain(&slow(us(50_000)), 1, 0);
    send(&mut n, at(0), 125, 1);
    send(&mut n, at(0), 125, 2);
    // The first has been transmitted and travels for 50 ms; the second is still being transmitted.
    change(&mut n, at(1_500), PipeChange { delay: Some(us(1_000)), ..Default::default() });
    send(&mut n, at(60_000), 125, 3);
    assert_eq!(arrivals(&mut n, at(90_000)), [(51_000, 1), (51_000, 2), (62_000, 3)]);
}

#[test]
fn a_bad_change_is_refused_and_changes_nothing() {
    let mut n = chain(&slow(us(0)), 1, 0);
    let before = n.config(PipeId(0)).clone();
    for bad in [
        PipeChange { loss: Some(Loss::Random(1.5)), ..Default::default() },
        PipeChange { loss: Some(Loss::Random(f64::NAN)), ..Default::default() },
        PipeChange { queue: Some(Queue::packets(0)), ..Default::default() },
    ] {
        let message = n.set(at(0), &[(PipeId(0), bad)]).expect_err("out of range").to_string();
        assert!(message.contains("a--b/ab"), "{message}");
    }
    assert_eq!(*n.config(PipeId(0)), before);
}

#[test]
fn frames_of_two_senders_share_a_pipe_in_the_order_of_arrival() {
    let nodes = ["a", "b", "c"].map(String::from).to_vec();
    let mut spec = NetworkSpec { nodes, switches: vec!["s".into()], ..Default::default() };
    let far = PipeConfig { delay: us(700), ..Default::default() };
    for (name, ab, ba) in [
        ("a", far, PipeConfig::default()),
        ("b", PipeConfig::default(), slow(us(0))),
        ("c", PipeConfig::default(), PipeConfig::default()),
    ] {
        spec.links.push(LinkSpec {
            name: format!("{name}--s"),
            a: name.into(),
            b: "s".into(),
            ab,
            ba,
            mtu: 1500,
            tso: true,
        });
    }
    let mut n = Network::new(spec, 0).expect("a star is a tree");
    n.inject(PortId(0), at(0), ipv4(125, B, 1));
    n.inject(PortId(2), at(100), ipv4(125, B, 2));
    assert_eq!(arrivals(&mut n, at(10_000)), [(1_100, 2), (2_100, 1)]);
}

#[test]
fn no_buffer_is_lost() {
    // Buffers return, whatever a frame's fate: the pool ends as large as the most frames ever inside at once.
    let config = PipeConfig { loss: Loss::Random(0.2), queue: Queue::packets(5), ..slow(us(3_000)) };
    let mut n = chain(&config, 3, 0);
    for i in 0..5_000u64 {
        let now = at(i * 300);
        n.advance(now, |_| ());
        let mut frame = n.buffer();
        let model = ipv4(125, if i % 7 == 0 { Ipv4Addr::BROADCAST } else { n.ports()[1].address }, 0);
        frame.space()[..125].copy_from_slice(model.bytes());
        frame.set_len(125);
        n.inject(A, now, frame);
        if i % 1000 == 500 {
            change(&mut n, now, PipeChange { up: Some(i % 2000 == 500), ..Default::default() });
        }
    }
    n.advance(at(100_000_000), |_| ());
    assert_eq!(n.inside(), 0);
    assert!(n.idle_buffers() <= 3 * (5 + 4) + 1, "{} buffers", n.idle_buffers());
    assert_eq!(n.port_counters(A).unroutable, 5_000_u64.div_ceil(7));
}
