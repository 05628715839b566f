//! Tests of the queue: no clock, no device.

use counters::Answered;
use disk::{Disk, Op, Parameters};
use scale::{DiskClock, RealDuration, RealInstant, Tdf, VirtualDuration};
use serde_json::json;

use super::*;

const ZERO: RealInstant = RealInstant::from_nanos(5_000_000_000);

fn at(us: u64) -> RealInstant {
    ZERO + RealDuration::from_nanos(us * 1_000)
}

fn model(name: &str, changes: serde_json::Value) -> Disk {
    Disk::new(&Parameters::like(name, changes.as_object().unwrap()).unwrap(), 1).unwrap()
}

fn begun(model: Disk, tdf: u64, spent_us: u64) -> Queue {
    let mut queue = Queue::new(model);
    let spent = RealDuration::from_nanos(spent_us * 1_000);
    queue.begin(DiskClock::new(ZERO, Tdf::new(tdf, 1).unwrap(), spent, RealDuration::ZERO));
    queue
}

/// Goes on until a request is answered; says when.
fn until_answered(queue: &mut Queue, id: RequestId) -> RealInstant {
    from_on(queue, RealInstant::ZERO, id)
}

/// Goes on from an instant, before which nothing is done.
fn from_on(queue: &mut Queue, from: RealInstant, id: RequestId) -> RealInstant {
    answer_from(queue, from, id).0
}

/// When a request is answered that nothing is done for before `from`, and when its answer comes.
fn answer_from(queue: &mut Queue, from: RealInstant, id: RequestId) -> (RealInstant, Option<RealInstant>) {
    for _ in 0..1000 {
        let now = queue.next_event().expect("something is under way").max(from);
        let mut answers = Vec::new();
        queue.advance(now, &mut answers);
        if let Some((_, comes)) = answers.iter().find(|(answered, _)| *answered == id) {
            return (now, *comes);
        }
    }
    panic!("never answered")
}

/// Goes on to `now`, and adds the requests that are answered.
fn advance(queue: &mut Queue, now: RealInstant, answers: &mut Vec<RequestId>) {
    let mut all = Vec::new();
    queue.advance(now, &mut all);
    answers.extend(all.into_iter().map(|(id, _)| id));
}

/// How long the model says that a read takes that comes at virtual zero.
fn modelled(offset: u64) -> VirtualDuration {
    let mut disk = model("hdd-7200", json!({}));
    let zero = scale::VirtualInstant::ZERO;
    disk.submit(zero, Request { id: 1, op: Op::Read, offset, length: 4096 }).unwrap();
    let mut events = Vec::new();
    while let Some(next) = disk.next_event() {
        disk.advance(next, &mut events);
        if let Some(event) = events.iter().find(|e| e.kind == EventKind::Completed) {
            return event.at.since(zero);
        }
    }
    panic!("never complete")
}

#[test]
fn a_request_takes_tdf_times_what_the_model_says_less_what_it_was_on_its_way() {
    let alone = modelled(1 << 30).as_nanos();
    assert!(alone > 1_000_000, "it has to seek and turn");
    for (tdf, spent_us) in [(1, 0), (10, 0), (10, 130), (3, 77)] {
        let mut queue = begun(model("hdd-7200", json!({})), tdf, spent_us);
        let id = queue.arrive(ZERO, Op::Read, 1 << 30, 4096).unwrap();
        queue.done(id, at(5));
        let answered = until_answered(&mut queue, id).since(ZERO).as_nanos();
        assert_eq!(answered, alone * tdf - spent_us * 1_000, "TDF {tdf}");
        let counted = queue.counters(at(1_000_000));
        let took = VirtualDuration::from_nanos(alone);
        assert_eq!(counted.reads, Answered { count: 1, bytes: 4096, took, ..Answered::default() });
        assert_eq!((counted.busy, counted.latest, counted.lateness[0]), (took, VirtualDuration::ZERO, 1));
    }
}

#[test]
fn requests_are_answered_in_the_models_order() {
    // The far one comes second, and the drive goes to the two that are near each other first.
    let mut queue = begun(model("hdd-7200", json!({})), 10, 0);
    let ids: Vec<_> =
        [40 << 30, 900 << 30, (40 << 30) + (1 << 20)].map(|o| queue.arrive(ZERO, Op::Read, o, 4096).unwrap()).into();
    ids.iter().for_each(|id| queue.done(*id, at(1)));
    let mut order = Vec::new();
    while order.len() < 3 {
        let now = queue.next_event().unwrap();
        advance(&mut queue, now, &mut order);
    }
    assert_eq!(order.last(), Some(&ids[1]), "{order:?}");
    let counted = queue.counters(at(10_000_000));
    assert!(counted.queued > counted.busy, "three at once: {counted:?}");
}

#[test]
fn what_is_not_done_in_time_is_late() {
    let alone = modelled(1 << 30).as_nanos();
    let mut queue = begun(model("hdd-7200", json!({})), 2, 0);
    let id = queue.arrive(ZERO, Op::Read, 1 << 30, 4096).unwrap();
    let due = ZERO + RealDuration::from_nanos(2 * alone);
    let mut answers = Vec::new();
    advance(&mut queue, due, &mut answers);
    assert_eq!((answers.len(), queue.next_event()), (0, None), "nothing is to be done before its data is there");
    let done = due + RealDuration::from_nanos(600_000);
    queue.done(id, done);
    assert_eq!(queue.next_event(), Some(due));
    advance(&mut queue, done, &mut answers);
    assert_eq!(answers, [id]);
    let counted = queue.counters(done);
    let reads = counted.reads;
    assert_eq!((reads.late, reads.late_by.as_nanos(), counted.latest.as_nanos()), (1, 300_000, 300_000));
    assert_eq!(reads.behind, VirtualDuration::ZERO);
    let place = counted.lateness.iter().position(|n| *n == 1).unwrap();
    assert!(lateness_limit(place) >= counted.latest && lateness_limit(place - 1) < counted.latest);
}

#[test]
fn what_was_due_before_it_was_met_is_late_by_no_longer_way() {
    let mut queue = begun(model("nvme", json!({})), 1, 300);
    let id = queue.arrive(at(1_000), Op::Read, 1 << 30, 4096).unwrap();
    queue.done(id, at(1_020));
    let mut answers = Vec::new();
    advance(&mut queue, at(1_020), &mut answers);
    assert_eq!(answers, [id]);
    let reads = queue.counters(at(1_020)).reads;
    // 320 us after it was asked for, a way of 300 included.
    let late = VirtualDuration::from_nanos(320_000).saturating_sub(reads.took);
    assert_eq!((reads.late, reads.late_by, reads.behind), (1, late, VirtualDuration::ZERO));
    assert!(late > VirtualDuration::from_nanos(150_000), "{reads:?}");
    assert_eq!(queue.expected()[0].took.as_nanos(), 320_000, "as if the way was 300");
}

#[test]
fn whoever_answers_late_is_counted_apart_from_late_data() {
    let alone = modelled(1 << 30).as_nanos();
    let mut queue = begun(model("hdd-7200", json!({})), 10, 0);
    let id = queue.arrive(ZERO, Op::Read, 1 << 30, 4096).unwrap();
    queue.done(id, at(3));
    let mut answers = Vec::new();
    let now = ZERO + RealDuration::from_nanos(10 * alone + 50_000);
    advance(&mut queue, now, &mut answers);
    assert_eq!(answers, [id]);
    let counted = queue.counters(now);
    assert_eq!((counted.reads.late, counted.reads.behind.as_nanos()), (0, 5_000));
}

#[test]
fn before_zero_and_after_the_end_requests_are_answered_at_once() {
    let mut queue = Queue::new(model("hdd-7200", json!({})));
    let id = queue.arrive(at(0), Op::Write, 0, 1 << 20).unwrap();
    let mut answers = Vec::new();
    advance(&mut queue, at(1), &mut answers);
    assert!(answers.is_empty(), "not before it is done");
    queue.done(id, at(2));
    advance(&mut queue, at(2), &mut answers);
    assert_eq!((std::mem::take(&mut answers), queue.counters(at(3))), (vec![id], DiskCounters::default()));

    queue.answer_after(RealDuration::from_nanos(1_000_000));
    let id = queue.arrive(at(10), Op::Read, 0, 4096).unwrap();
    queue.done(id, at(11));
    assert_eq!(queue.next_event(), Some(at(1_010)));
    advance(&mut queue, at(1_017), &mut answers);
    assert_eq!(std::mem::take(&mut answers), [id]);
    assert_eq!(queue.waking(), [RealDuration::from_nanos(7_000)]);

    queue.begin(DiskClock::new(ZERO, Tdf::ONE, RealDuration::ZERO, RealDuration::ZERO));
    let id = queue.arrive(at(2_000), Op::Read, 1 << 30, 4096).unwrap();
    queue.done(id, at(2_001));
    advance(&mut queue, at(2_002), &mut answers);
    assert!(answers.is_empty());
    queue.pass(at(2_003));
    advance(&mut queue, at(2_003), &mut answers);
    assert_eq!(answers, [id]);
    assert_eq!(queue.next_event(), None);
}

#[test]
fn what_cannot_be_done_is_counted_and_forgotten() {
    let mut queue = begun(model("ssd-sata", json!({})), 10, 0);
    let capacity = queue.capacity_bytes();
    assert!(matches!(queue.arrive(ZERO, Op::Read, capacity, 512), Err(Refused::BehindTheEnd { .. })));
    let id = queue.arrive(ZERO, Op::Write, 0, 4096).unwrap();
    queue.fail(id);
    let mut answers = Vec::new();
    advance(&mut queue, at(1_000_000), &mut answers);
    let counted = queue.counters(at(1_000_000));
    assert_eq!((answers.len(), counted.failed, counted.all(|kind| kind.count)), (0, 1, 0));
}

#[test]
fn a_disk_one_request_at_a_time_does_what_its_model_does() {
    // Whoever asks sees each answer `spent` after it was given, and asks anew at once: the disk has no idle time.
    let (tdf, spent_us) = (10, 100);
    let run = |tdf: u64, spent_us: u64| {
        let mut queue = begun(model("hdd-7200", json!({"write-cache": {"bytes": 0}})), tdf, spent_us);
        let half = RealDuration::from_nanos(spent_us * 500);
        let mut asked = ZERO;
        for n in 0..50u64 {
            let met = asked + half;
            let id = queue.arrive(met, Op::Read, (n * 7_919 % 100) << 30, 4096).unwrap();
            queue.done(id, met);
            asked = until_answered(&mut queue, id) + half;
        }
        asked.since(ZERO).as_secs_f64() / tdf as f64
    };
    let (through, alone) = (run(tdf, spent_us), run(1, 0));
    assert!((through / alone - 1.0).abs() < 0.01, "{through} and {alone}");
}

#[test]
fn a_way_that_varies_makes_requests_no_slower_in_the_mean() {
    let (tdf, spent_us) = (10, 100);
    // How long the way back is: 50 us as measured, in the mean.
    let backs = [20, 80, 45, 55, 30, 70, 20, 40, 90];
    let mut queue = begun(model("nvme", json!({})), tdf, spent_us);
    let (mut asked, mut seen) = (at(1_000), RealDuration::ZERO);
    for n in 0..900u64 {
        let met = asked + RealDuration::from_nanos(50_000);
        let id = queue.arrive(met, Op::Read, n << 20, 4096).unwrap();
        queue.done(id, met);
        let back = RealDuration::from_nanos(backs[n as usize % backs.len()] * 1_000);
        let answer = until_answered(&mut queue, id) + back;
        seen = seen + answer.since(asked);
        asked = answer;
    }
    let took = queue.counters(asked).reads.took.as_nanos() * tdf;
    assert!(seen.as_nanos().abs_diff(took) < took / 500, "{seen:?} in place of {took} ns");
}

#[test]
fn whoever_answers_late_does_not_make_the_next_request_later() {
    let (tdf, spent_us, late_us) = (2, 100, 40);
    let mut queue = begun(model("nvme", json!({})), tdf, spent_us);
    let mut asked = ZERO;
    let mut took = 0;
    for n in 0..20 {
        // Those who ask are usually as far away as was measured, and 40 of these 100 us are for waking up.
        let met = asked + RealDuration::from_nanos(30_000);
        let id = queue.arrive(met, Op::Read, n << 20, 4096).unwrap();
        queue.done(id, met);
        let mut answers = Vec::new();
        let mut at = met;
        while answers.is_empty() {
            at = queue.next_event().unwrap() + RealDuration::from_nanos(late_us * 1_000);
            advance(&mut queue, at, &mut answers);
        }
        asked = at + RealDuration::from_nanos(30_000);
        took = queue.counters(at).reads.took.as_nanos();
    }
    let all = asked.since(ZERO).as_nanos();
    assert!(all.abs_diff(took * tdf) < all / 1000, "{all} ns in place of {}", took * tdf);
}

#[test]
fn a_disk_that_is_slowed_down_takes_so_many_times_as_long() {
    let alone = modelled(1 << 30).as_nanos();
    let mut queue = begun(model("hdd-7200", json!({})), 10, 0);
    queue.slow_down(ZERO, 3.0);
    let id = queue.arrive(ZERO, Op::Read, 1 << 30, 4096).unwrap();
    queue.done(id, at(5));
    assert_eq!(until_answered(&mut queue, id).since(ZERO).as_nanos(), 30 * alone);
    let counted = queue.counters(at(10_000_000));
    assert_eq!((counted.reads.took.as_nanos(), counted.busy.as_nanos()), (3 * alone, 3 * alone));
    assert_eq!(counted.latest, VirtualDuration::ZERO);
    // And as long as before again: where the platters are then is another matter.
    let later = at(20_000_000);
    queue.slow_down(later, 1.0);
    let id = queue.arrive(later, Op::Write, 1 << 30, 4096).unwrap();
    queue.done(id, later);
    let took = until_answered(&mut queue, id).since(later).as_nanos();
    assert!(took < 10 * alone, "it is in its cache: {took}");
}

#[test]
fn what_is_longer_on_its_way_came_earlier_and_long_reads_are_answered_sooner() {
    let took = |op, length, way: Ways| {
        let mut queue = begun(model("nvme", json!({})), 10, 100);
        queue.set_way(way);
        let id = queue.arrive(at(1_000), op, 1 << 30, length).unwrap();
        queue.done(id, at(1_000));
        let answered = until_answered(&mut queue, id).since(at(1_000)).as_nanos();
        let counted = queue.counters(at(1_000_000));
        assert_eq!(counted.latest, VirtualDuration::ZERO, "nothing was late");
        assert!(queue.sooner.is_empty());
        answered
    };
    let us = |us: u64| RealDuration::from_nanos(us * 1_000);
    let short = Ways { spent: us(100), read: us(100), write: us(100), flush: us(100), ..Ways::default() };
    let way = Ways { read_mib: us(80), write_mib: us(256), ..short };
    let shorter = |op, length, way| took(op, length, short) - took(op, length, way);
    assert_eq!((shorter(Op::Read, 1 << 20, way), shorter(Op::Read, 1 << 18, way)), (80_000, 20_000));
    assert_eq!((shorter(Op::Write, 1 << 20, way), shorter(Op::Write, 4096, way)), (256_000, 1_000));
    // And each kind by its own way, where they are not alike.
    let way = Ways { read: us(103), write: us(120), flush: us(107), ..way };
    assert_eq!((shorter(Op::Read, 1 << 20, way), shorter(Op::Write, 4096, way)), (83_000, 21_000));
    assert_eq!(shorter(Op::Flush, 0, way), 7_000);
}

#[test]
fn a_way_that_has_become_longer_is_taken_for_that() {
    let us = |us: u64| RealDuration::from_nanos(us * 1_000);
    let ways = Ways { spent: us(100), read: us(100), write: us(120), flush: us(110), ..Ways::default() };
    let mut queue = begun(model("nvme", json!({})), 10, 100);
    queue.set_way(ways);
    let mut next = 1_000;
    let mut took = |queue: &mut Queue, op| {
        next += 100_000;
        let id = queue.arrive(at(next), op, 0, 4096).unwrap();
        queue.done(id, at(next));
        until_answered(queue, id).since(at(next)).as_nanos() as i64
    };
    let before = took(&mut queue, Op::Flush);
    for (longer_us, sooner_us) in [(7, 7), (-4, 3), (400, 28), (-40, 3)] {
        queue.change_way(Change { kind: Kind::Flush, longer_ns: longer_us * 1_000 });
        assert_eq!(before - took(&mut queue, Op::Flush), sooner_us * 1_000, "at most a quarter at a time");
    }
    // The expectation is what whoever asks sees, whatever the way.
    let expected = queue.expected();
    assert_eq!((expected[0].count, expected[1].count, expected[2].count), (0, 0, 5));
    assert_eq!(expected[2].took.as_nanos(), queue.counters(at(next)).flushes.took.as_nanos() * 10);
}

#[test]
fn who_watches_sees_each_request_as_its_model_does() {
    let mut queue = begun(model("hdd-7200", json!({})), 10, 0);
    let read = |queue: &mut Queue, us| {
        let id = queue.arrive(at(us), Op::Read, 1 << 30, 4096).unwrap();
        queue.done(id, at(us));
        until_answered(queue, id)
    };
    let end = read(&mut queue, 0);
    assert_eq!(queue.watch(), [], "nobody watched yet");
    let begin = end.since(ZERO).as_nanos() / 1_000 + 1;
    let end = read(&mut queue, begin);
    let [seen] = queue.watch()[..] else { panic!("one request was answered") };
    assert_eq!((seen.op, seen.offset, seen.length), (Op::Read, 1 << 30, 4096));
    assert_eq!(seen.complete.since(seen.arrived).as_nanos(), (end.since(at(begin)).as_nanos()) / 10);
    assert_eq!(queue.watch(), []);
}

/// The times that whoever asks sees and that the model says, in the mean: `clients` that ask anew at once, whose ways
/// there and back take half of `spent_us` in the mean and vary by as much.
fn closed_loop(name: &str, clients: u64, spent_us: u64, count: u64) -> (f64, f64) {
    let mut queue = begun(model(name, json!({})), 10, spent_us);
    queue.watch();
    let mut random = 1u64;
    let mut leg = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        RealDuration::from_nanos((random >> 33) % (spent_us * 1_000))
    };
    let mut place = 0u64;
    // Who is met when, and when it was asked for.
    let mut coming: BTreeSet<(RealInstant, u64, RealInstant)> =
        (0..clients).map(|client| (at(1_000) + leg(), client, at(1_000))).collect();
    let mut under_way = HashMap::new();
    let (mut seen, mut ended) = (0, 0);
    while ended < count {
        let next = queue.next_event();
        let met = coming.first().map(|(met, ..)| *met);
        if let Some((now, client, asked)) = coming.first().copied().filter(|_| next.is_none_or(|next| met < Some(next)))
        {
            coming.pop_first();
            place += 1;
            let id = queue.arrive(now, Op::Read, (place * 7_919 % 30_000) << 12, 4096).unwrap();
            queue.done(id, now);
            under_way.insert(id, (client, asked));
            continue;
        }
        let now = next.unwrap();
        let mut answers = Vec::new();
        advance(&mut queue, now, &mut answers);
        for id in answers {
            let (client, asked) = under_way.remove(&id).unwrap();
            let answer = now + leg();
            seen += answer.since(asked).as_nanos();
            ended += 1;
            coming.insert((answer + leg(), client, answer));
        }
    }
    let watched = queue.watch();
    let says: u64 = watched.iter().map(|one| one.complete.since(one.arrived).as_nanos() * 10).sum();
    (seen as f64 / count as f64, says as f64 / watched.len() as f64)
}

#[test]
fn many_at_a_time_are_no_slower_for_the_way_in_the_mean() {
    for name in ["ssd-sata", "nvme", "gp3"] {
        for clients in [1, 2, 8, 32] {
            let (seen, says) = closed_loop(name, clients, 80, 2_000);
            assert!((seen / says - 1.0).abs() < 0.003, "{name}, {clients} at a time: {seen} in place of {says} ns");
        }
    }
    // An arm that has begun to move does not turn back for what is told a little too late.
    let (seen, says) = closed_loop("hdd-7200", 8, 80, 500);
    assert!((seen / says - 1.0).abs() < 0.003, "{seen} in place of {says} ns");
}

#[test]
fn a_request_of_a_node_that_is_ahead_enters_when_the_runs_clock_is_there() {
    let disk = || begun(model("hdd-7200", json!({})), 10, 0);
    let (mut queue, ahead) = (disk(), at(5_000));
    let id = queue.ask(ZERO, ahead, Op::Read, 1 << 30, 4096).unwrap();
    queue.done(id, ZERO);
    assert_eq!(queue.next_event(), Some(ahead), "until then it is held");
    let mut alone = disk();
    let same = alone.arrive(ahead, Op::Read, 1 << 30, 4096).unwrap();
    alone.done(same, ahead);
    assert_eq!(until_answered(&mut queue, id), until_answered(&mut alone, same), "it takes as long as from there on");
    assert!(queue.is_idle());
}

#[test]
fn what_a_node_waited_for_its_core_is_no_time_of_its_disk() {
    let behind = RealDuration::from_nanos(3_000_000);
    for (disk, back) in [("hdd-7200", true), ("nvme", false)] {
        let (met, asked) = (at(5_000), at(5_000) - behind);
        let begun = || begun(model(disk, json!({})), 1, 100);
        let (mut queue, mut alone) = (begun(), begun());
        let id = queue.ask(met, asked, Op::Read, 500 << 30, 4096).unwrap();
        queue.done(id, met);
        let (answered, comes) = answer_from(&mut queue, met, id);
        let same = alone.arrive(asked, Op::Read, 500 << 30, 4096).unwrap();
        alone.done(same, asked);
        let (in_time, comes_in_time) = answer_from(&mut alone, asked, same);
        assert!(comes.is_some());
        assert_eq!(comes, comes_in_time, "{disk}: it comes as if its node had not been behind");
        // One that was complete before it was met is given at once.
        assert_eq!(answered, if back { in_time } else { met }, "{disk}");
        let now = at(1_000_000);
        let [late, count] = [&mut queue, &mut alone].map(|queue| queue.counters(now).reads);
        assert_eq!(late, count, "{disk}: nor is it late");
        let took = [&queue, &alone].map(|queue| queue.expected()[0].took);
        let took_less = answered.since(met) + RealDuration::from_nanos(100_000);
        assert_eq!(took[0], took_less, "{disk}: {took:?}, as the kernel counts it");
    }
    // And by how much a node was ahead, the kernel counts more.
    let mut queue = begun(model("hdd-7200", json!({})), 1, 100);
    let id = queue.ask(ZERO, at(700), Op::Read, 500 << 30, 4096).unwrap();
    queue.done(id, ZERO);
    let answered = until_answered(&mut queue, id).since(ZERO);
    assert_eq!(queue.expected()[0].took, answered + RealDuration::from_nanos(100_000));
}

#[test]
fn what_is_held_is_answered_when_the_disk_takes_no_time_any_more_and_forgotten_when_its_power_is_cut() {
    let disk = || begun(model("hdd-7200", json!({})), 10, 0);
    let mut queue = disk();
    let id = queue.ask(ZERO, at(5_000), Op::Read, 1 << 30, 4096).unwrap();
    assert!(queue.ask(ZERO, at(5_000), Op::Read, queue.capacity_bytes(), 4096).is_err(), "checked when it comes");
    queue.done(id, ZERO);
    queue.pass(at(10));
    let mut answers = Vec::new();
    advance(&mut queue, at(10), &mut answers);
    assert_eq!(answers, [id]);
    let mut queue = disk();
    queue.ask(ZERO, at(5_000), Op::Write, 0, 4096).unwrap();
    assert!(queue.cut_power(at(10)).is_empty(), "the drive never had it");
    assert!(queue.next_event().is_none() && queue.is_idle());
}
