//! Frames that bear their node's clock: ahead of the run's, behind it, and beside frames that bear none.

use scale::{RealDuration, RealInstant};

use super::pipes::{A, arrivals, at, chain, change, slow, us};
use crate::links::frame::tests::{ipv4, ipv6};
use crate::links::headers::ACK;
use crate::links::pipe::draws::{Draws, Purpose};
use crate::links::stream::tests::tcp;
use crate::{
    Frame, Jitter, LinkSpec, Network, NetworkSpec, PipeChange, PipeConfig, PipeCounters, PipeId, PortId, Queue, Red,
};

const ON_TIME: RealDuration = RealDuration::ZERO;

/// Both directions take this long.
fn delayed(delay: RealDuration) -> Network {
    let mut n = chain(&PipeConfig { delay, ..Default::default() }, 1, 0);
    let back = PipeChange { delay: Some(delay), ..Default::default() };
    n.set(RealInstant::ZERO, &[(PipeId(1), back)]).expect("it is valid");
    n
}

/// A frame of `a` for `b`.
fn frame(n: &Network, mark: u8) -> Frame {
    ipv4(125, n.ports()[1].address, mark)
}

/// Has `a` send at `sent` by its clock what is read at `now`.
fn send(n: &mut Network, now: RealInstant, sent: RealInstant, mark: u8) -> RealDuration {
    let frame = frame(n, mark);
    n.inject_sent(A, now, sent, frame)
}

#[test]
fn a_frame_that_is_ahead_is_held_until_its_instant() {
    let mut n = delayed(us(100));
    assert_eq!(send(&mut n, at(10), at(500), 1), ON_TIME);
    assert_eq!((n.next_deadline(), n.inside()), (Some(at(600)), 1), "until then nothing comes of it");
    assert_eq!(arrivals(&mut n, at(499)), []);
    assert_eq!(arrivals(&mut n, at(599)), []);
    assert_eq!(n.next_deadline(), Some(at(600)));
    assert_eq!(arrivals(&mut n, at(600)), [(600, 1)]);
    assert_eq!((n.next_deadline(), n.inside()), (None, 0));
    // However late the thread comes to see to it.
    send(&mut n, at(700), at(800), 2);
    assert_eq!(arrivals(&mut n, at(5_000)), [(900, 2)]);
}

#[test]
fn a_frame_that_is_behind_leaves_as_if_it_had_been_seen_in_time() {
    let mut n = chain(&slow(us(500)), 1, 0);
    assert_eq!(send(&mut n, at(300), at(100), 1), ON_TIME);
    assert_eq!(send(&mut n, at(300), at(250), 2), ON_TIME);
    assert_eq!(arrivals(&mut n, at(5_000)), [(1_600, 1), (2_600, 2)]);
    assert_eq!(n.pipe_counters(PipeId(0)).reordered, 0);
}

#[test]
fn one_that_should_have_left_leaves_at_once_and_is_late() {
    let mut n = delayed(us(50));
    assert_eq!(send(&mut n, at(300), at(100), 1), ON_TIME, "a later link may make up for it");
    assert_eq!(n.next_deadline(), Some(at(150)));
    assert_eq!(arrivals(&mut n, at(300)), [(150, 1)]);
}

#[test]
fn one_that_is_behind_does_not_undo_what_its_pipe_has_done_since() {
    let mut n = chain(&slow(us(500)), 1, 0);
    let unstamped = frame(&n, 1);
    n.inject(A, at(200), unstamped);
    assert_eq!(send(&mut n, at(300), at(150), 2), us(50), "so much later it enters");
    assert_eq!(arrivals(&mut n, at(5_000)), [(1_700, 1), (2_700, 2)]);
    // Nor what was changed.
    change(&mut n, at(6_000), PipeChange { delay: Some(us(100)), rate: Some(None), ..Default::default() });
    assert_eq!(send(&mut n, at(6_050), at(5_900), 3), us(100));
    assert_eq!(arrivals(&mut n, at(7_000)), [(6_100, 3)]);
}

#[test]
fn frames_go_in_the_order_of_their_nodes_clock() {
    let mut n = delayed(us(100));
    send(&mut n, at(10), at(500), 1);
    send(&mut n, at(11), at(500), 2);
    // Another thread of a node with several CPUs, which has not worked for so long.
    send(&mut n, at(12), at(300), 3);
    send(&mut n, at(13), at(5), 4);
    assert_eq!(n.inside(), 4);
    assert_eq!(arrivals(&mut n, at(5_000)), [(105, 4), (400, 3), (600, 1), (600, 2)]);
}

#[test]
fn what_the_kernel_sends_goes_before_what_is_held_but_not_within_a_connection() {
    for make in [ipv4, ipv6] {
        let mut n = delayed(us(100));
        let to = n.ports()[1].address;
        let bare = if make(54, to, 0).bytes()[12] == 0x86 { 74 } else { 54 };
        // The first byte of the ports is what tells frames apart here.
        let of = |port: u8, len| {
            let mut frame = make(len, to, 0);
            tcp(&mut frame, [port, 80, 0, 7], ACK);
            frame
        };
        n.inject_sent(A, at(10), at(500), of(1, 200));
        n.inject_sent(A, at(10), at(700), of(2, 200));
        n.inject(A, at(20), of(3, 200));
        n.inject(A, at(21), of(1, bare));
        n.inject(A, at(22), of(1, 201));
        n.inject(A, at(23), of(2, 201));
        n.inject(A, at(24), of(1, 202));
        let mut seen = Vec::new();
        n.advance(at(5_000), |d| {
            let port = d.frame[if bare == 74 { 54 } else { 34 }];
            seen.push((d.exit.since(at(0)).as_nanos() / 1000, port, d.frame.len()));
        });
        let sent_by_the_run_s_clock = [(120, 3, 200), (121, 1, bare)];
        let held = [(600, 1, 200), (600, 1, 201), (600, 1, 202), (800, 2, 200), (800, 2, 201)];
        assert_eq!(seen, [&sent_by_the_run_s_clock[..], &held].concat());
        assert_eq!((n.inside(), n.next_deadline()), (0, None));
    }
}

#[test]
fn what_is_held_meets_its_link_as_it_is_then() {
    let mut n = delayed(us(100));
    send(&mut n, at(10), at(500), 1);
    send(&mut n, at(10), at(900), 2);
    arrivals(&mut n, at(400));
    change(&mut n, at(400), PipeChange { up: Some(false), ..Default::default() });
    arrivals(&mut n, at(800));
    change(&mut n, at(800), PipeChange { up: Some(true), ..Default::default() });
    assert_eq!(arrivals(&mut n, at(5_000)), [(1_000, 2)]);
    assert_eq!(
        n.pipe_counters(PipeId(0)),
        PipeCounters { packets: 1, bytes: 125, down_drops: 1, ..Default::default() }
    );
}

#[test]
fn what_is_held_is_seen_to_before_its_link_can_let_it_out() {
    let mut n = chain(&PipeConfig { delay: us(100), ..Default::default() }, 1, 0);
    send(&mut n, at(10), at(500), 1);
    let deadline = |n: &mut Network, change_to: PipeChange| {
        change(n, at(20), change_to);
        n.next_deadline()
    };
    // The other direction, which the other node sends into, lets everything out at once.
    assert_eq!(n.next_deadline(), Some(at(500)));
    n.set(at(20), &[(PipeId(1), PipeChange { delay: Some(us(300)), ..Default::default() })]).expect("it is valid");
    assert_eq!(n.next_deadline(), Some(at(600)));
    assert_eq!(deadline(&mut n, PipeChange { delay: Some(us(50)), ..Default::default() }), Some(at(550)));
    let jitter = Jitter { spread: us(10), ..Default::default() };
    assert_eq!(deadline(&mut n, PipeChange { jitter: Some(jitter), ..Default::default() }), Some(at(500)));
}

#[test]
fn a_frame_that_goes_nowhere_is_counted_when_it_is_read() {
    let mut n = delayed(us(100));
    n.inject_sent(A, at(10), at(500), ipv4(125, std::net::Ipv4Addr::new(10, 9, 9, 9), 0));
    assert_eq!((n.port_counters(A).unroutable, n.inside(), n.next_deadline()), (1, 0, None));
}

/// Nodes around a switch; what they send has `delay` before it, and every queue is slow, and RED.
fn star(nodes: usize, delay: RealDuration) -> Network {
    let red = Red { min: 3, max: 9, max_p: 0.2, weight: 0.1, packet: 125, gentle: true, ..RED };
    let to_switch = PipeConfig { delay, loss: scale::link::Loss::Random(0.02), ..slow(delay) };
    let from_switch = PipeConfig { queue: Queue::Red(red), ..slow(us(0)) };
    let nodes: Vec<String> = (0..nodes).map(|i| format!("n{i}")).collect();
    let link = |n: &String| LinkSpec {
        name: format!("{n}--core"),
        a: n.clone(),
        b: "core".into(),
        ab: to_switch.clone(),
        ba: from_switch.clone(),
        mtu: 1500,
        tso: true,
    };
    let links = nodes.iter().map(link).collect();
    let spec = NetworkSpec { links, nodes, switches: vec!["core".into()], ..Default::default() };
    Network::new(spec, 5).expect("a star is a tree")
}

const RED: Red =
    Red { min: 0, max: 0, max_p: 0.0, weight: 0.0, limit: scale::link::Limit::Packets(40), packet: 0, gentle: false };

#[test]
fn within_the_delay_of_their_links_clocks_ahead_and_behind_make_no_difference() {
    const NODES: u64 = 6;
    let delay = us(2_000);
    let draws = Draws::new(9, "clocks");
    let random = |n: u64, most: u64| draws.bits(Purpose::Jitter, n) % most;
    // When each frame is sent, by which node, and when it is read: up to 1.9 ms after, or before. Frames of one node
    // are read in their order.
    let (mut sent, mut read) = (vec![0; NODES as usize], vec![0; NODES as usize]);
    let mut frames = Vec::new();
    for n in 0..4_000u64 {
        let node = random(3 * n, NODES) as usize;
        sent[node] = (sent[node] + 1 + random(3 * n + 1, 2_200)).max(2_000);
        read[node] = (sent[node] + random(3 * n + 2, 3_800) - 1_900).max(read[node]);
        assert!(read[node] <= sent[node] + 1_900);
        frames.push((read[node], sent[node], node, n));
    }
    let run = |network: &mut Network, frames: &[(u64, u64, usize, u64)], stamped: bool| {
        let mut seen = Vec::new();
        let mut note = |d: crate::Delivery| seen.push((d.exit, d.port, d.frame[35..43].to_vec()));
        for (read, sent, node, number) in frames {
            let to = network.ports()[(node + 1 + (*number % (NODES - 1)) as usize) % NODES as usize].address;
            let mut frame = ipv4(125, to, 0);
            frame.space()[35..43].copy_from_slice(&number.to_be_bytes());
            let now = at(if stamped { *read } else { *sent });
            network.advance(now, &mut note);
            let port = PortId(*node as u32);
            if stamped {
                assert_eq!(network.inject_sent(port, now, at(*sent), frame), ON_TIME);
            } else {
                network.inject(port, now, frame);
            }
        }
        network.advance(at(1 << 40), &mut note);
        assert_eq!((network.inside(), network.next_deadline()), (0, None));
        (seen, network.all_pipe_counters().collect::<Vec<_>>())
    };
    frames.sort_by_key(|(read, _, _, number)| (*read, *number));
    let stamped = run(&mut star(NODES as usize, delay), &frames, true);
    // In real order, each read as it is sent. The last thing that is left to chance is who of two is first.
    frames.sort_by_key(|(_, sent, node, _)| (*sent, *node));
    let exact = run(&mut star(NODES as usize, delay), &frames, false);
    assert!(exact.1.iter().map(|c| c.red_drops).sum::<u64>() > 50, "queues fill");
    assert_eq!(stamped.1, exact.1);
    assert_eq!(stamped.0, exact.0);
}
