//! Hazards of packets on a pipe: jitter, loss, copies, damage and the kinds of queue, alone and together.

use scale::{RealDuration, RealInstant, RealRate};

use super::pipes::{A, arrivals, at, chain, change, send, slow, us};
use crate::links::frame::tests::ipv4;
use crate::{
    Distribution, GilbertElliott, Jitter, Limit, Loss, Network, PipeChange, PipeConfig, PipeCounters, PipeId,
    PortCounters, Queue, Red,
};

const PIPE: PipeId = PipeId(0);

fn counters(n: &Network) -> PipeCounters {
    n.pipe_counters(PIPE)
}

fn jitter(spread: RealDuration, reorder: bool) -> Jitter {
    Jitter { distribution: Distribution::Uniform, spread, reorder }
}

const RED: Red =
    Red { min: 5, max: 15, max_p: 0.1, weight: 0.02, limit: Limit::Packets(40), packet: 125, gentle: false };

/// The frames that arrive, in their order, of `count` frames of `len` bytes, sent `spacing` µs apart; each carries its
/// number, from 1, in place of its sender's hardware address, where no damage reaches it.
fn survivors(config: &PipeConfig, seed: u64, count: u32, spacing: u64, len: usize) -> (Vec<Vec<u8>>, PipeCounters) {
    let mut n = chain(config, 1, seed);
    let to = n.ports()[1].address;
    let mut all = Vec::new();
    for i in 1..=count {
        let now = at(u64::from(i) * spacing);
        n.advance(now, |d| all.push(d.frame.to_vec()));
        let mut frame = ipv4(len, to, 0);
        frame.space()[6..10].copy_from_slice(&i.to_be_bytes());
        n.inject(A, now, frame);
    }
    n.advance(at(1 << 50), |d| all.push(d.frame.to_vec()));
    let c = counters(&n);
    assert_eq!(c.packets + c.lost + c.queue_drops + c.red_drops + c.down_drops, u64::from(count) + c.duplicated);
    assert_eq!((all.len() as u64, n.inside(), n.next_deadline()), (c.packets, 0, None));
    (all, c)
}

/// The numbers of what arrived.
fn numbers(frames: &[Vec<u8>]) -> Vec<u32> {
    frames.iter().map(|f| u32::from_be_bytes([f[6], f[7], f[8], f[9]])).collect()
}

#[test]
fn jitter_without_reordering_delays_those_behind() {
    let config = PipeConfig { delay: us(10_000), jitter: jitter(us(5_000), false), ..Default::default() };
    let mut n = chain(&config, 1, 3);
    for i in 0..200 {
        send(&mut n, at(u64::from(i) * 100), 125, i);
    }
    let seen = arrivals(&mut n, at(1_000_000));
    assert!(seen.iter().map(|(_, mark)| *mark).eq(0..200), "in order: {seen:?}");
    assert!(seen.iter().all(|(t, mark)| (5_000..45_000).contains(&(t - u64::from(*mark) * 100))));
    assert!(seen.windows(2).any(|w| w[0].0 == w[1].0), "some wait for the one before");
    assert_eq!(counters(&n).reordered, 0);
}

#[test]
fn jitter_with_reordering_gives_each_frame_its_own_time() {
    let config = PipeConfig { delay: us(10_000), jitter: jitter(us(5_000), true), ..Default::default() };
    let mut n = chain(&config, 1, 3);
    for i in 0..200 {
        send(&mut n, at(u64::from(i) * 100), 125, i);
    }
    // The network is seen to at each of its deadlines, as the emulator does.
    let mut seen = Vec::new();
    while let Some(deadline) = n.next_deadline() {
        seen.extend(arrivals(&mut n, deadline));
    }
    assert_eq!(seen.len(), 200);
    assert!(seen.is_sorted_by_key(|(t, _)| *t), "handed out in the order of their instants");
    assert!(seen.iter().all(|(t, mark)| (5_000..=15_000).contains(&(t - u64::from(*mark) * 100))));
    // RFC 4737: a packet is reordered if one that was sent later has arrived before it.
    let marks: Vec<u8> = seen.iter().map(|(_, mark)| *mark).collect();
    let late = (1..marks.len()).filter(|i| marks[..*i].iter().max() > Some(&marks[*i])).count();
    assert!(late > 50);
    assert_eq!(counters(&n).reordered, late as u64);
}

#[test]
fn a_frame_that_overtakes_all_the_others_is_not_late() {
    // Sent far apart, but for one that is slow: the deadline must move to those that overtake it.
    let config = PipeConfig { delay: us(10_000), jitter: jitter(us(10_000), true), ..Default::default() };
    let mut n = chain(&config, 3, 1);
    let mut due = Vec::new();
    for i in 0..100u8 {
        let now = at(u64::from(i) * 777);
        while let Some(deadline) = n.next_deadline().filter(|d| *d <= now) {
            due.extend(arrivals(&mut n, deadline).into_iter().map(|(t, _)| (t, deadline)));
        }
        send(&mut n, now, 125, i);
    }
    while let Some(deadline) = n.next_deadline() {
        due.extend(arrivals(&mut n, deadline).into_iter().map(|(t, _)| (t, deadline)));
    }
    assert_eq!(due.len(), 100);
    assert!(due.iter().all(|(t, deadline)| *t == deadline.since(at(0)).as_nanos() / 1000), "{due:?}");
}

#[test]
fn jitter_comes_after_transmission_and_takes_no_place_in_the_queue() {
    let config = PipeConfig { jitter: jitter(us(50_000), true), queue: Queue::packets(2), ..slow(us(100_000)) };
    let mut n = chain(&config, 1, 1);
    (0..20).for_each(|i| send(&mut n, at(u64::from(i) * 1_000), 125, i));
    assert_eq!(arrivals(&mut n, at(1_000_000)).len(), 20, "each has been transmitted before the next comes");
}

/// Every chance of a packet's fate but those of a queue, which depend on the times.
fn hard_life() -> PipeConfig {
    let chain = GilbertElliott { p: 0.02, r: 0.2, good: 0.01, bad: 0.7 };
    PipeConfig { loss: Loss::GilbertElliott(chain), duplicate: 0.05, corrupt: 0.1, ..Default::default() }
}

#[test]
fn the_fate_of_the_nth_packet_is_the_same_whatever_the_times_rates_and_delays() {
    let base = survivors(&hard_life(), 1, 3_000, 1, 100);
    let c = base.1;
    assert!(c.lost > 100 && c.duplicated > 50 && c.corrupted > 200, "{c:?}");
    let slow = PipeConfig { rate: Some(RealRate::from_bits_per_s(1e6)), delay: us(70_000), ..hard_life() };
    let slow = PipeConfig { queue: Queue::packets(100_000), jitter: jitter(us(100), false), ..slow };
    for other in [survivors(&hard_life(), 1, 3_000, 9_999, 100), survivors(&slow, 1, 3_000, 13, 100)] {
        assert!(base == other);
    }
    let shuffled = PipeConfig { jitter: jitter(us(10_000), true), ..slow };
    let mut shuffled = survivors(&shuffled, 1, 3_000, 13, 100).0;
    let mut ordered = base.0.clone();
    assert!(shuffled != ordered);
    shuffled.sort();
    ordered.sort();
    assert!(shuffled == ordered, "the same packets with the same damage, in another order");
    assert!(numbers(&base.0) != numbers(&survivors(&hard_life(), 2, 3_000, 1, 100).0));
}

#[test]
fn the_fate_of_the_nth_packet_does_not_depend_on_what_else_is_switched_on() {
    let whole = survivors(&hard_life(), 1, 3_000, 1, 100);
    let mut once = numbers(&whole.0);
    once.dedup();
    let alone = PipeConfig { duplicate: 0.0, corrupt: 0.0, ..hard_life() };
    assert!(numbers(&survivors(&alone, 1, 3_000, 1, 100).0) == once, "other losses");
    // Without losses, copies and damage befall the same packets, and others.
    let lossless = survivors(&PipeConfig { loss: Loss::NONE, ..hard_life() }, 1, 3_000, 1, 100);
    let twice = |frames: &[Vec<u8>]| -> Vec<u32> {
        numbers(frames).windows(2).filter(|w| w[0] == w[1]).map(|w| w[0]).collect()
    };
    let copies = twice(&lossless.0);
    assert!(twice(&whole.0).iter().all(|n| copies.binary_search(n).is_ok()));
    assert!(whole.0.iter().all(|frame| lossless.0.contains(frame)), "the same damage");
}

#[test]
fn chances_are_binomial() {
    for (p, n) in [(0.001, 200_000u32), (0.3, 20_000)] {
        let c = survivors(&PipeConfig { duplicate: p, corrupt: p, ..Default::default() }, 1, n, 1, 64).1;
        let within = |count: u64, n: f64| (count as f64 - n * p).abs() < 4.0 * (n * p * (1.0 - p)).sqrt();
        assert!(within(c.duplicated, f64::from(n)), "{c:?}");
        // A copy of a damaged frame is damaged, too.
        let damaged = c.corrupted as f64 / (f64::from(n) + c.duplicated as f64) * f64::from(n);
        assert!(within(damaged.round() as u64, f64::from(n)), "{c:?}");
    }
}

#[test]
fn a_copy_follows_its_original_and_costs_what_it_costs() {
    let config = PipeConfig { duplicate: 1.0, queue: Queue::packets(5), ..slow(us(0)) };
    let mut n = chain(&config, 1, 0);
    (1..=3).for_each(|i| send(&mut n, at(0), 125, i));
    assert_eq!(arrivals(&mut n, at(9_000)), [(1_000, 1), (2_000, 1), (3_000, 2), (4_000, 2), (5_000, 3)]);
    let c = counters(&n);
    assert_eq!((c.duplicated, c.queue_drops, c.packets, c.bytes), (3, 1, 5, 625));
}

#[test]
fn copies_of_copies_do_not_fill_the_memory() {
    // Twenty hops that each double a packet would make a million of one; the network holds a quarter of that. Each hop
    // takes a second, so that all copies are on the same one.
    let hop = PipeConfig { duplicate: 1.0, delay: us(1_000_000), ..Default::default() };
    let mut n = chain(&hop, 20, 0);
    let (to, there) = (n.ports()[1].address, n.ports()[1].id);
    send(&mut n, at(0), 64, 1);
    let (mut before, mut missing) = (n.inside(), 0);
    for hop in 1..20 {
        n.advance(at(hop * 1_000_000), |_| ());
        assert_eq!(n.inside(), 1 << (hop + 1).min(18), "after hop {hop}");
        // Copies that were not made are counted where they were to go.
        let uncopied = n.port_counters(there).uncopied as usize;
        assert_eq!(n.inside() + uncopied - missing, 2 * before, "after hop {hop}");
        (before, missing) = (n.inside(), uncopied);
    }
    assert!(missing > 0, "two hops were full");
    // There is no room for a newcomer either; what goes nowhere needs none.
    n.inject(A, at(19_000_000), ipv4(64, to, 1));
    n.inject(A, at(19_000_000), ipv4(64, [10, 0, 0, 77].into(), 1));
    assert_eq!(n.port_counters(A), PortCounters { no_memory: 1, unroutable: 1, ..Default::default() });
}

#[test]
fn damage_flips_one_bit_behind_the_ip_header() {
    let (frames, c) = survivors(&PipeConfig { corrupt: 1.0, ..Default::default() }, 1, 500, 1, 64);
    assert_eq!(c.corrupted, 500);
    let mut hit = [false; 64];
    for (i, frame) in frames.iter().enumerate() {
        let mut sent = ipv4(64, [10, 0, 0, 2].into(), 0);
        sent.space()[6..10].copy_from_slice(&(i as u32 + 1).to_be_bytes());
        let differs: Vec<usize> = (6..64).filter(|b| frame[*b] != sent.bytes()[*b]).collect();
        let [at] = differs[..] else { panic!("{differs:?}") };
        assert_eq!((frame[at] ^ sent.bytes()[at]).count_ones(), 1);
        hit[at] = true;
    }
    assert!(!hit[..34].contains(&true) && !hit[34..].contains(&false), "{hit:?}");
}

#[test]
fn packets_that_carry_nothing_pass_pipes_that_damage_everything() {
    let mut n = chain(&PipeConfig { corrupt: 1.0, duplicate: 0.3, ..Default::default() }, 3, 1);
    let to = n.ports()[1].address;
    let (mut arrived, mut whole) = (0, 0);
    for i in 0..5_000u64 {
        // The least that IPv4 knows, with and without options, padded or not.
        let (header, padding) = (20 + 4 * (i as usize % 11), i as usize / 11 % 3 * 13);
        let mut sent = ipv4(14 + header + padding, to, 0);
        sent.space()[14] = 0x40 | (header / 4) as u8;
        sent.space()[16..18].copy_from_slice(&(header as u16).to_be_bytes());
        let bytes = sent.bytes()[6..].to_vec();
        n.inject(A, at(i), sent);
        n.advance(at(i), |d| {
            arrived += 1;
            whole += u64::from(d.frame[6..] == bytes);
        });
    }
    let counters: Vec<PipeCounters> = n.all_pipe_counters().step_by(2).collect();
    assert!(arrived > 5_000 && arrived == whole, "{whole} of {arrived}");
    assert!(counters.len() == 3 && counters.iter().all(|c| c.corrupted == 0), "{counters:?}");
}

#[test]
fn a_queue_in_bytes_takes_what_fits() {
    let config = PipeConfig { queue: Queue::DropTail(Limit::Bytes(2_000)), ..slow(us(0)) };
    let mut n = chain(&config, 1, 0);
    for (i, len) in [1_000, 900, 125, 100].into_iter().enumerate() {
        send(&mut n, at(0), len, i as u8);
    }
    // 125 bytes found no room, the 100 after it just fit; at 8 ms the first has been transmitted.
    send(&mut n, at(7_999), 200, 4);
    send(&mut n, at(8_000), 1_000, 5);
    let marks: Vec<u8> = arrivals(&mut n, at(100_000)).into_iter().map(|(_, mark)| mark).collect();
    assert_eq!(marks, [0, 1, 3, 5]);
    assert_eq!(counters(&n).queue_drops, 2);
}

#[test]
fn a_queue_in_bytes_holds_at_least_the_largest_frame_of_its_link() {
    for (mtu, largest) in [(576, 590), (1500, 1514), (9000, 9014)] {
        let network = |bytes| {
            let mut spec = super::shapes::spec(&["a-b"]);
            spec.links[0].mtu = mtu;
            spec.links[0].ab.queue = Queue::DropTail(Limit::Bytes(bytes));
            Network::new(spec, 0)
        };
        let refused = network(largest - 1).expect_err("it holds no frame").to_string();
        assert!(refused.contains(&format!("at least one frame of {largest}")), "{refused}");
        let mut n = network(largest).expect("it holds one");
        let to = |bytes| PipeChange { queue: Some(Queue::DropTail(Limit::Bytes(bytes))), ..Default::default() };
        n.set(at(0), &[(PIPE, to(largest + 1))]).expect("it holds one");
        assert!(n.allows(PIPE, &to(largest)).is_ok() && n.allows(PIPE, &to(largest - 1)).is_err());
        n.set(at(0), &[(PIPE, to(largest - 1))]).expect_err("it holds none");
        assert_eq!(n.config(PIPE).queue.limit(), Limit::Bytes(largest + 1));
    }
}

/// A load of 125-byte frames, `spacing` µs apart (1000 is all that the link carries): the marks of what arrived.
fn load(n: &mut Network, from: u64, count: u64, spacing: u64) -> u64 {
    let mut arrived = 0;
    for i in 0..count {
        let now = at(from + i * spacing);
        arrived += arrivals(n, now).len() as u64;
        send(n, now, 125, 0);
    }
    arrived
}

#[test]
fn red_lets_bursts_pass_and_keeps_a_lasting_queue_short() {
    let red = PipeConfig { queue: Queue::Red(RED), ..slow(us(0)) };
    let mut n = chain(&red, 1, 1);
    // A burst of twelve, now and then, hardly moves the average.
    for round in 0..50 {
        load(&mut n, round * 100_000, 12, 1);
    }
    assert_eq!((counters(&n).red_drops, counters(&n).queue_drops), (0, 0));
    // An overload of a tenth for ten seconds: RED drops about as much as is too much, and the queue is never full.
    load(&mut n, 10_000_000, 11_000, 909);
    let c = counters(&n);
    assert!((700..1_100).contains(&c.red_drops), "{c:?}");
    assert_eq!(c.queue_drops, 0);
    // DropTail would have kept the queue full.
    let mut tail = chain(&PipeConfig { queue: Queue::packets(40), ..slow(us(0)) }, 1, 1);
    load(&mut tail, 10_000_000, 11_000, 909);
    let wait = |n: &mut Network| n.inside();
    assert!(wait(&mut n) <= 17 && wait(&mut tail) >= 39, "{} and {}", n.inside(), tail.inside());
}

#[test]
fn red_forgets_while_the_link_is_idle_in_proportion_to_its_rate() {
    // After an overload, the same burst at once meets a high average and is dropped; after an idle time it passes.
    let dropped_after = |idle: u64, rate: f64, changed: Option<PipeChange>| {
        let red = Red { weight: 0.01, packet: 125, ..RED };
        let mut n = chain(
            &PipeConfig { queue: Queue::Red(red), rate: Some(RealRate::from_bits_per_s(rate)), ..Default::default() },
            1,
            1,
        );
        let one = (1e9 / rate) as u64;
        load(&mut n, 0, 4_000, one * 10 / 12);
        let end = 4_000 * one * 10 / 12 + 20 * one;
        arrivals(&mut n, at(end));
        let before = counters(&n).red_drops;
        assert!(before > 100);
        if let Some(changed) = changed {
            change(&mut n, at(end + idle * one), changed);
        }
        load(&mut n, end + idle * one, 12, 1);
        counters(&n).red_drops - before
    };
    for rate in [1e6, 1e5] {
        assert!(dropped_after(0, rate, None) > 0, "the average is still high");
        assert_eq!(dropped_after(500, rate, None), 0, "500 packets could have been sent meanwhile");
        // The link has been idle, whatever else changes at the end of that time.
        for changed in [
            PipeChange { delay: Some(us(7_000)), ..Default::default() },
            PipeChange { jitter: Some(jitter(us(1), false)), ..Default::default() },
        ] {
            assert!(dropped_after(0, rate, Some(changed.clone())) > 0);
            assert_eq!(dropped_after(500, rate, Some(changed)), 0);
        }
    }
}

#[test]
fn red_on_a_link_without_a_rate_never_drops() {
    let mut n = chain(&PipeConfig { queue: Queue::Red(Red { weight: 1.0, ..RED }), ..Default::default() }, 1, 1);
    (0..1000).for_each(|i| send(&mut n, at(i / 100), 125, 0));
    assert_eq!((counters(&n).red_drops, arrivals(&mut n, at(100)).len()), (0, 1000));
}

#[test]
fn every_property_can_be_changed_at_run_time() {
    let mut n = chain(&slow(us(1_000)), 1, 1);
    let mut now = 0;
    let mut step = |n: &mut Network, changed: PipeChange, len: usize| {
        change(n, at(now), changed);
        let before = counters(n);
        let start = now;
        (0..10).for_each(|i| send(n, at(start), len, i));
        now += 1_000_000;
        let seen: Vec<(u64, u8)> = arrivals(n, at(now)).into_iter().map(|(t, mark)| (t - start, mark)).collect();
        (seen, before, counters(n))
    };
    let none = PipeChange::default;
    let (seen, ..) = step(&mut n, none(), 125);
    assert_eq!(seen, (0..10).map(|i| (2_000 + 1_000 * u64::from(i), i)).collect::<Vec<_>>());
    let (seen, ..) = step(&mut n, PipeChange { jitter: Some(jitter(us(900), false)), ..none() }, 125);
    assert!(seen.len() == 10 && seen[0].0 != 2_000 && (1_100..2_900).contains(&seen[0].0));
    let no_jitter = PipeChange { jitter: Some(Jitter::default()), loss: Some(Loss::Every(3)), ..none() };
    let (seen, ..) = step(&mut n, no_jitter, 125);
    assert_eq!(seen.iter().map(|s| s.1).collect::<Vec<_>>(), [0, 1, 3, 4, 6, 7, 9]);
    let (seen, ..) = step(&mut n, PipeChange { loss: Some(Loss::Packets(vec![2, 10])), ..none() }, 125);
    assert_eq!(seen.iter().map(|s| s.1).collect::<Vec<_>>(), [0, 2, 3, 4, 5, 6, 7, 8]);
    let chain = GilbertElliott { p: 1.0, r: 1.0, good: 0.0, bad: 1.0 };
    let (seen, ..) = step(&mut n, PipeChange { loss: Some(Loss::GilbertElliott(chain)), ..none() }, 125);
    assert_eq!(seen.iter().map(|s| s.1).collect::<Vec<_>>(), [1, 3, 5, 7, 9], "bad and good in turn");
    let (_, b, a) = step(&mut n, PipeChange { loss: Some(Loss::NONE), duplicate: Some(1.0), ..none() }, 125);
    assert_eq!((a.packets - b.packets, a.duplicated - b.duplicated, a.lost), (20, 10, b.lost));
    let (_, b, a) = step(&mut n, PipeChange { duplicate: Some(0.0), corrupt: Some(1.0), ..none() }, 125);
    assert_eq!((a.packets - b.packets, a.corrupted - b.corrupted), (10, 10));
    let bytes = Queue::DropTail(Limit::Bytes(1_514));
    let (_, b, a) = step(&mut n, PipeChange { corrupt: Some(0.0), queue: Some(bytes), ..none() }, 500);
    assert_eq!((a.packets - b.packets, a.queue_drops - b.queue_drops), (3, 7));
    let red = Queue::Red(Red { min: 1, max: 2, weight: 1.0, ..RED });
    let (_, b, a) = step(&mut n, PipeChange { queue: Some(red), ..none() }, 500);
    assert_eq!((a.packets - b.packets, a.red_drops - b.red_drops, a.queue_drops), (2, 8, b.queue_drops));
    let (_, b, a) = step(&mut n, PipeChange { queue: Some(Queue::packets(4)), ..none() }, 500);
    assert_eq!((a.packets - b.packets, a.queue_drops - b.queue_drops), (4, 6));
}

#[test]
fn a_change_keeps_each_waiting_frames_own_jitter() {
    // Changing the rate of a pipe whose frames may overtake one another moves each by what its transmission moved.
    let config = PipeConfig { jitter: jitter(us(40_000), true), ..slow(us(50_000)) };
    let run = |faster: bool| {
        let mut n = chain(&config, 1, 5);
        (0..8).for_each(|i| send(&mut n, at(0), 125, i));
        if faster {
            let rate = Some(Some(RealRate::from_bits_per_s(1e7)));
            change(&mut n, at(2_000), PipeChange { rate, ..Default::default() });
        }
        let mut seen = arrivals(&mut n, at(1_000_000));
        seen.sort_by_key(|(_, mark)| *mark);
        seen
    };
    let (slow, fast) = (run(false), run(true));
    for ((before, mark), (after, _)) in slow.iter().zip(&fast) {
        // The first two are out; the i-th takes 0.1 ms in place of 1 ms.
        let saved = u64::from(mark.saturating_sub(1)) * 900;
        assert!(before.abs_diff(after + saved) <= 1, "{mark}: {before} and {after}");
    }
}

#[test]
fn a_bad_change_says_what_is_wrong_and_changes_nothing() {
    let mut n = chain(&slow(us(0)), 1, 0);
    let before = n.config(PIPE).clone();
    let chain = GilbertElliott { p: 0.1, r: 1.5, good: 0.0, bad: 1.0 };
    for (bad, part) in [
        (PipeChange { loss: Some(Loss::GilbertElliott(chain)), ..Default::default() }, "r is 1.5"),
        (PipeChange { loss: Some(Loss::Every(0)), ..Default::default() }, "at least every 1st"),
        (PipeChange { loss: Some(Loss::Packets(vec![3, 2])), ..Default::default() }, "in order"),
        (PipeChange { duplicate: Some(-0.1), ..Default::default() }, "duplication of -0.1"),
        (PipeChange { corrupt: Some(f64::NAN), ..Default::default() }, "corruption of NaN"),
        (PipeChange { queue: Some(Queue::DropTail(Limit::Bytes(1_000))), ..Default::default() }, "frame of 1514"),
        (PipeChange { queue: Some(Queue::Red(Red { max: 5, ..RED })), ..Default::default() }, "from 5 to 5"),
        (PipeChange { queue: Some(Queue::Red(Red { weight: 0.0, ..RED })), ..Default::default() }, "weight is 0"),
        (PipeChange { queue: Some(Queue::Red(Red { max_p: 1.1, ..RED })), ..Default::default() }, "max_p is 1.1"),
    ] {
        let message = n.set(at(0), &[(PIPE, bad)]).expect_err("out of range").to_string();
        assert!(message.contains("a--b/ab") && message.contains(part), "{message}");
    }
    assert_eq!(*n.config(PIPE), before);
}

#[test]
fn several_pipes_change_at_one_instant_or_not_at_all() {
    let mut n = chain(&slow(us(1_000)), 3, 0);
    let pipes: Vec<PipeId> = n.pipe_names().iter().map(|name| n.pipe(name).expect("it was listed")).collect();
    send(&mut n, at(0), 125, 1);
    let delay = |us| PipeChange { delay: Some(us), ..Default::default() };
    let mut changes: Vec<_> = pipes.iter().map(|pipe| (*pipe, delay(us(20_000)))).collect();
    changes.push((pipes[5], PipeChange { duplicate: Some(2.0), ..Default::default() }));
    n.set(at(500), &changes).expect_err("the last is out of range");
    assert!(pipes.iter().all(|pipe| n.config(*pipe).delay < us(20_000)));
    changes.pop();
    n.set(at(500), &changes).expect("all are in their range");
    assert!(pipes.iter().all(|pipe| n.config(*pipe).delay == us(20_000)));
    assert_eq!(arrivals(&mut n, at(1_000_000)), [(63_000, 1)]);
    // A second change of the same pipe at the same instant comes after the first.
    n.set(at(1_000_000), &[(PIPE, delay(us(1))), (PIPE, delay(us(2)))]).expect("both are in their range");
    assert_eq!(n.config(PIPE).delay, us(2));
}

#[test]
fn down_loses_what_has_been_shuffled_too() {
    let config = PipeConfig { jitter: jitter(us(5_000), true), duplicate: 0.5, ..slow(us(10_000)) };
    let mut n = chain(&config, 2, 1);
    for i in 0..50u64 {
        let now = at(i * 1_000);
        n.advance(now, |_| ());
        send(&mut n, now, 125, 0);
    }
    change(&mut n, at(50_000), PipeChange { up: Some(false), ..Default::default() });
    n.advance(RealInstant::from_nanos(u64::MAX / 2), |_| ());
    assert_eq!((n.inside(), n.next_deadline()), (0, None));
}
