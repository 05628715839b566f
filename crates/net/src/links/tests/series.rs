//! Series of a pipe, against what can be worked out by hand.

use scale::{RealDuration, RealInstant, RealRate};

use crate::links::frame::tests::ipv4;
use crate::{
    DEFAULT_MTU, LinkSpec, Network, NetworkSpec, PipeChange, PipeConfig, PipeCounters, PipeId, PipeInterval, PortId,
    Queue,
};

const AB: PipeId = PipeId(0);

fn at(ms: u64) -> RealInstant {
    RealInstant::from_nanos(5_000_000_000 + ms * 1_000_000)
}

/// A link whose direction from `a` to `b` transmits a frame of 125 bytes in 10 ms; intervals of 100 ms from 0 ms on.
fn started(queue: u32, delay_ms: u64) -> Network {
    let delay = RealDuration::from_nanos(delay_ms * 1_000_000);
    let ab = PipeConfig {
        rate: Some(RealRate::from_bits_per_s(1e5)),
        queue: Queue::packets(queue),
        delay,
        ..Default::default()
    };
    let ba = PipeConfig::default();
    let link = LinkSpec { name: "a--b".into(), a: "a".into(), b: "b".into(), ab, ba, mtu: DEFAULT_MTU, tso: true };
    let nodes = vec!["a".into(), "b".into()];
    let mut network =
        Network::new(NetworkSpec { nodes, links: vec![link], ..Default::default() }, 0).expect("a link is a tree");
    network.start_series(at(0), RealDuration::from_nanos(100_000_000));
    network
}

fn send(network: &mut Network, ms: u64, port: u32, frames: usize) {
    network.advance(at(ms), |_| ());
    let to = network.ports()[1 - port as usize].address;
    (0..frames).for_each(|_| network.inject(PortId(port), at(ms), ipv4(125, to, 0)));
}

fn intervals(network: &mut Network, ms: u64) -> Vec<PipeInterval> {
    network.advance(at(ms), |_| ());
    network.intervals()
}

#[track_caller]
fn assert_close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-9, "{a} is not {b}");
}

#[test]
fn a_busy_interval_is_told_from_an_idle_one_by_its_integral() {
    let mut n = started(100, 0);
    // Four frames at 20 ms: 4, 3, 2 and 1 of them for 10 ms each.
    send(&mut n, 20, 0, 4);
    let seen = intervals(&mut n, 250);
    let [only] = &seen[..] else { panic!("the idle interval has a row: {seen:?}") };
    assert_eq!((only.pipe, only.from, only.to), (AB, at(0), at(100)));
    assert_close(only.utilisation.unwrap(), 0.4);
    assert_close(only.queue_mean, 1.0);
    assert_eq!(only.queue_max, 4);
    assert_eq!(only.grew, PipeCounters { packets: 4, bytes: 500, ..Default::default() });
    assert_eq!(intervals(&mut n, 260), [], "nothing is given twice");
}

#[test]
fn a_queue_that_outlives_its_interval_counts_in_both() {
    // One step across both ends, a delay that keeps frames inside long after they were transmitted, and a full queue.
    let mut n = started(5, 300);
    send(&mut n, 90, 0, 7);
    let seen = intervals(&mut n, 600);
    let parts: Vec<_> = seen.iter().map(|i| (i.from, i.queue_max, i.grew.queue_drops, i.grew.packets)).collect();
    assert_eq!(parts, [(at(0), 5, 2, 0), (at(100), 4, 0, 0), (at(400), 0, 0, 5)]);
    assert_close(seen[0].utilisation.unwrap(), 0.1);
    assert_close(seen[0].queue_mean, 0.5);
    assert_close(seen[1].utilisation.unwrap(), 0.4);
    assert_close(seen[1].queue_mean, (4.0 + 3.0 + 2.0 + 1.0) / 10.0);
}

#[test]
fn how_often_the_network_is_looked_at_changes_nothing() {
    let series = |steps: u64| {
        let mut n = started(20, 3);
        let mut seen = Vec::new();
        for burst in 0..10 {
            send(&mut n, burst * 37, 0, (burst as usize * 5) % 11);
            for step in 0..steps {
                seen.extend(intervals(&mut n, burst * 37 + step * 37 / steps));
            }
        }
        seen.extend(intervals(&mut n, 1000));
        seen
    };
    let often = series(37);
    for (a, b) in often.iter().zip(&series(1)) {
        assert_eq!((a.from, a.queue_max, a.grew), (b.from, b.queue_max, b.grew));
        assert_close(a.queue_mean, b.queue_mean);
        assert_close(a.utilisation.unwrap(), b.utilisation.unwrap());
    }
    assert!(often.len() >= 4 && often.iter().all(|i| (0.0..=1.0).contains(&i.utilisation.unwrap())), "{often:?}");
}

#[test]
fn a_wire_without_a_rate_has_no_utilisation_and_the_last_interval_is_as_long_as_it_was() {
    let mut n = started(100, 0);
    send(&mut n, 130, 1, 2);
    n.advance(at(150), |_| ());
    let last = n.end_series(at(150));
    let [ba] = &last[..] else { panic!("{last:?}") };
    assert_eq!((ba.from, ba.to, ba.utilisation, ba.queue_max), (at(100), at(150), None, 0));
    assert_eq!(ba.grew.packets, 2);
    send(&mut n, 160, 1, 1);
    assert_eq!(intervals(&mut n, 500), [], "it has ended");
}

#[test]
fn a_link_that_goes_down_empties_its_queue() {
    let mut n = started(100, 0);
    send(&mut n, 0, 0, 10);
    n.advance(at(25), |_| ());
    n.set(at(25), &[(AB, PipeChange { up: Some(false), ..Default::default() })]).expect("it may go down");
    let seen = intervals(&mut n, 200);
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_close(seen[0].utilisation.unwrap(), 0.25);
    assert_close(seen[0].queue_mean, (10.0 * 10.0 + 9.0 * 10.0 + 8.0 * 5.0) / 100.0);
    assert_eq!(seen[0].grew, PipeCounters { packets: 2, bytes: 250, down_drops: 8, ..Default::default() });
}
