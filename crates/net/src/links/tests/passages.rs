//! Notes of frames of observed nodes, from their entry to their end.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::{Consumer, RingBuffer};
use scale::{RealDuration, RealInstant};

use super::pipes::{A, at, chain, change, us};
use super::shapes::spec;
use crate::links::frame::tests::ipv4;
use crate::links::passages::Watcher;
use crate::{
    Distribution, Jitter, Loss, Network, Passage, Passed, PipeChange, PipeConfig, PipeCounters, PortId, Queue,
};

fn watch(network: &mut Network, nodes: &[bool], ring: usize) -> (Consumer<Passage>, Arc<AtomicU64>) {
    let (producer, consumer) = RingBuffer::new(ring);
    let missed = Arc::new(AtomicU64::new(0));
    assert!(network.watch(Some(Watcher::new(producer, nodes.to_vec(), missed.clone()))).is_none());
    (consumer, missed)
}

fn all(mut passages: Consumer<Passage>) -> Vec<Passage> {
    std::iter::from_fn(|| passages.pop().ok()).collect()
}

#[test]
fn every_frame_that_enters_is_accounted_for_and_its_delay_is_exact() {
    let spread = us(3_000);
    let config = PipeConfig {
        delay: us(10_000),
        loss: Loss::Random(0.1),
        duplicate: 0.1,
        corrupt: 0.05,
        jitter: Jitter { distribution: Distribution::Uniform, spread, reorder: true },
        queue: Queue::packets(8),
        ..super::pipes::slow(us(10_000))
    };
    let mut n = chain(&config, 3, 7);
    let to = n.ports()[1].address;
    let (passages, missed) = watch(&mut n, &[true, false], 1 << 14);
    let mut left = Vec::new();
    for i in 0..1_000u64 {
        n.advance(at(i * 950), |d| left.push(d.exit));
        n.inject(A, at(i * 950), ipv4(125, to, i as u8));
    }
    n.advance(at(3_000_000), |d| left.push(d.exit));
    assert_eq!((n.inside(), missed.load(Ordering::Relaxed)), (0, 0));

    let all = all(passages);
    let entered: BTreeMap<u32, RealInstant> =
        all.iter().filter(|p| p.what == Passed::Entered).map(|p| (p.number, p.at)).collect();
    assert_eq!(entered.len(), 1_000);
    let gone: Vec<&Passage> = all.iter().filter(|p| p.what == Passed::Left).collect();
    let fates: Vec<[u8; 7]> = all.iter().filter(|p| p.what == Passed::Fared).map(|p| p.fates).collect();
    let sum = |place: usize| fates.iter().map(|fates| u64::from(fates[place])).sum::<u64>();
    let of_pipes = |of: fn(&PipeCounters) -> u64| n.all_pipe_counters().map(|c| of(&c)).sum::<u64>();
    let (lost, full) = (of_pipes(|c| c.lost), of_pipes(|c| c.queue_drops));
    // Nobody follows a frame that is damaged, so what is lost of those later is not noted.
    let damaged = sum(5);
    assert!(sum(0) <= lost && lost <= sum(0) + damaged && sum(1) <= full && full <= sum(1) + damaged);
    assert!(damaged > 0 && sum(6) > 50 && sum(0) > 100 && sum(1) > 0, "{fates:?}");
    let dropped: u64 = (0..5).map(sum).sum();
    assert_eq!(1_000 + sum(6), gone.len() as u64 + dropped + damaged, "{:?}", [sum(0), sum(1), damaged, sum(6)]);
    for passage in gone {
        assert_eq!((passage.entered, passage.length), (entered[&passage.number], 125));
        assert!(left.contains(&passage.at) && passage.bytes().len() == 96);
        let delay = passage.at.since(passage.entered);
        assert!(delay >= us(3 * (1_000 + 10_000 - 3_000)) && delay <= us(3 * (9_000 + 10_000 + 3_000)), "{delay:?}");
    }
    assert!(all.iter().any(|p| p.is_copy));
}

#[test]
fn frames_of_others_are_not_noted_and_those_forwarded_are_known_as_such() {
    let mut n = Network::new(spec(&["a-r", "r-b", "c-r"]), 0).expect("a network");
    let port = |n: &Network, node: &str, place: usize| n.ports_of(node).nth(place).expect("an interface").clone();
    let (a, b, c) = (port(&n, "a", 0), port(&n, "b", 0), port(&n, "c", 0));
    let onward = port(&n, "r", 1);
    // Of a, r, b and c: b.
    let (passages, _) = watch(&mut n, &[false, false, true, false], 100);
    let frame = |from: Ipv4Addr, to: Ipv4Addr| {
        let mut frame = ipv4(100, to, 0);
        frame.space()[26..30].copy_from_slice(&from.octets());
        frame
    };
    let now = RealInstant::from_nanos(1_000_000_000);
    let mut arrived: Vec<PortId> = Vec::new();
    n.inject(a.id, now, frame(a.address, b.address));
    n.inject(c.id, now, frame(c.address, a.address));
    n.advance(now + RealDuration::from_nanos(1_000_000_000), |d| arrived.push(d.port));
    assert_eq!(arrived.len(), 2, "both are with the one who forwards");
    n.inject(onward.id, now + RealDuration::from_nanos(1_500_000_000), frame(a.address, b.address));
    n.advance(now + RealDuration::from_nanos(3_000_000_000), |d| arrived.push(d.port));
    assert_eq!(arrived[2], b.id);
    let all = all(passages);
    let what: Vec<Passed> = all.iter().map(|p| p.what).collect();
    assert_eq!(what, [Passed::Entered, Passed::LeftForwarded]);
}

#[test]
fn a_frame_in_a_link_that_goes_down_is_noted_and_a_full_ring_counts_what_it_misses() {
    let mut n = chain(&PipeConfig { delay: us(10_000), ..Default::default() }, 1, 0);
    let to = n.ports()[1].address;
    let (passages, missed) = watch(&mut n, &[false, true], 3);
    (0..2).for_each(|i| n.inject(A, at(i), ipv4(60, to, 0)));
    change(&mut n, at(5), PipeChange { up: Some(false), ..Default::default() });
    assert_eq!(missed.load(Ordering::Relaxed), 1);
    let all = all(passages);
    assert_eq!(all[2].what, Passed::Fared);
    assert_eq!(all[2].fates, [0, 0, 0, 1, 0, 0, 0]);
    assert!(n.watch(None).is_some());
}
