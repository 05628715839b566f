//! Behaviour of a drive with platters, and why.

use crate::common::*;
use diorama_disk::{Disk, EventKind, Op};
use scale::VirtualInstant;
use serde_json::json;

/// One without caches.
fn bare(more: serde_json::Value) -> Disk {
    let mut changes = json!({
        "track-cache": {"segments": 0, "segment-bytes": 0, "read-ahead-bytes": 0},
        "write-cache": {"bytes": 0},
    });
    for (name, value) in more.as_object().unwrap() {
        changes[name] = value.clone();
    }
    like("hdd-7200", changes)
}

const TURN_MS: f64 = 60_000.0 / 7200.0;

#[test]
fn the_same_sector_again_is_a_turn_away_without_a_cache() {
    let mut disk = bare(json!({}));
    let seen = closed(&mut disk, VirtualInstant::ZERO, 1, 20, |_| (Op::Read, 40 * GIB, 4096));
    for again in &seen.response_ms[1..] {
        near("a turn", *again, TURN_MS, 0.01);
    }
    let mut cached = disk_7200();
    let seen = closed(&mut cached, VirtualInstant::ZERO, 1, 3, |_| (Op::Read, 40 * GIB, 4096));
    assert!(seen.response_ms[1] < 0.2, "with a cache it is not: {:?}", seen.response_ms);
}

fn disk_7200() -> Disk {
    disk("hdd-7200")
}

#[test]
fn the_platter_turns_on_while_nobody_asks() {
    // A sector that is half a turn away is so after any number of turns.
    let mut disk = bare(json!({"read-overhead-ms": 0.0}));
    let first = closed(&mut disk, VirtualInstant::ZERO, 1, 1, |_| (Op::Read, 0, 4096));
    for turns in [1.5, 7.5, 10_000.5] {
        let mut twin = bare(json!({"read-overhead-ms": 0.0}));
        closed(&mut twin, VirtualInstant::ZERO, 1, 1, |_| (Op::Read, 0, 4096));
        let again = alone(&mut twin, first.until + ms(turns * TURN_MS), Op::Read, 0, 4096);
        near("half a turn", again, TURN_MS / 2.0, 0.01);
    }
}

#[test]
fn outer_tracks_are_faster_by_their_length() {
    let rate = |begin| closed(&mut disk_7200(), at_ms(0.0), 1, 400, in_order(Op::Read, begin, MIB)).mb_per_s();
    let last = disk_7200().capacity_bytes() / MIB * MIB - 400 * MIB;
    let (outer, inner) = (rate(0), rate(last));
    near("outer over inner", outer / inner, 175.0 / 83.0, 3.0);
}

#[test]
fn reading_ahead_serves_who_reads_in_order() {
    // Half a millisecond between small reads: the head has been there in time.
    let reader = |disk: &mut Disk| {
        let (mut now, mut sum) = (at_ms(20.0), 0.0);
        alone(disk, at_ms(0.0), Op::Read, 4 * GIB, 16 * KIB);
        for n in 1..100 {
            let took = alone(disk, now, Op::Read, 4 * GIB + n * 16 * KIB, 16 * KIB);
            sum += took;
            now = now + ms(took + 0.5);
        }
        sum / 99.0
    };
    let (with, without) = (reader(&mut disk_7200()), reader(&mut bare(json!({}))));
    assert!(with < 0.2, "from the cache: {with} ms");
    near("a turn, less the pause", without, TURN_MS - 0.5, 1.0);
}

#[test]
fn each_of_several_readers_finds_what_was_read_ahead_for_it() {
    let mut disk = disk_7200();
    let mut late = 0;
    for n in 0..400 {
        let (reader, step) = (n % 4, n / 4);
        let took = alone(&mut disk, at_ms(n as f64 * 30.0), Op::Read, reader * 900 * GIB + step * 64 * KIB, 64 * KIB);
        late += u32::from(took > 1.0);
    }
    // A megabyte is read ahead: sixteen reads in seventeen find theirs.
    assert!((20..30).contains(&late), "{late} of 400 had to wait for the platter");
}

#[test]
fn the_cache_takes_a_burst_of_writes_and_then_as_much_as_the_platter() {
    let mut disk = disk_7200();
    let seen = closed(&mut disk, VirtualInstant::ZERO, 1, 1_000, in_order(Op::Write, 0, 256 * KIB));
    // 32 MiB go at the speed of the bus, and some of them have been written meanwhile.
    let burst = seen.response_ms.iter().take_while(|ms| **ms < 0.7).count();
    assert!((128..220).contains(&burst), "{burst} writes of 256 KiB found room");
    let after: f64 = seen.response_ms[300..].iter().sum::<f64>() / 1e3;
    near("then it is the platter's rate", 700.0 * 0.262144 / after, 175.0, 4.0);
}

#[test]
fn a_flush_waits_for_what_is_in_the_cache() {
    let mut disk = disk_7200();
    let written = closed(&mut disk, VirtualInstant::ZERO, 8, 200, at_random(Op::Write, 0, 3_000 * GIB, 4096, 3));
    assert!(written.quantile_ms(0.9) < 2.0, "they are in the cache");
    let flush = alone(&mut disk, written.until, Op::Flush, 0, 0);
    // Two hundred places, the nearest first.
    assert!((400.0..2_000.0).contains(&flush), "{flush} ms");
    assert_eq!(disk.at_risk(), [] as [u64; 0]);
    let again = alone(&mut disk, at_ms(10_000.0), Op::Flush, 0, 0);
    assert!(again < 0.2, "there is nothing left to flush: {again} ms");
}

#[test]
fn a_write_through_the_cache_takes_as_long_as_one_without_a_cache() {
    let (mut with, mut without) = (disk_7200(), bare(json!({})));
    let end = with.capacity_bytes();
    let through = closed(&mut with, VirtualInstant::ZERO, 1, 1_000, at_random(Op::WriteThrough, 0, end, 4096, 5));
    let plain = closed(&mut without, VirtualInstant::ZERO, 1, 1_000, at_random(Op::Write, 0, end, 4096, 5));
    near("mean", through.mean_ms(), plain.mean_ms(), 0.1);
    // Published: 9.5 ms to seek, half a turn.
    near("seek and half a turn", plain.mean_ms(), 9.5 + TURN_MS / 2.0, 4.0);
}

#[test]
fn a_drive_that_lies_flushes_at_once_and_loses_what_it_said_it_had() {
    let mut honest = disk_7200();
    let mut liar = like("hdd-7200", json!({"write-cache": {"ignores-flush": true}}));
    for (disk, lies) in [(&mut honest, false), (&mut liar, true)] {
        let mut events = Vec::new();
        disk.submit(at_ms(0.0), request(1, Op::Write, 3_000 * GIB, 4096)).unwrap();
        disk.submit(at_ms(0.5), request(2, Op::Flush, 0, 0)).unwrap();
        disk.advance(at_ms(1.0), &mut events);
        let flushed = events.iter().any(|event| event.id == 2 && event.kind == EventKind::Completed);
        assert_eq!(flushed, lies);
        let lost = disk.cut_power(at_ms(1.0), &mut events);
        assert_eq!((lost.len(), lost[0].id, lost[0].completed), (1, 1, true));
    }
}

#[test]
fn a_power_cut_leaves_a_write_torn_where_the_head_was() {
    let mut disk = bare(json!({}));
    let whole = alone(&mut bare(json!({})), at_ms(0.0), Op::Write, 0, 512 * KIB);
    let mut events = Vec::new();
    disk.submit(at_ms(0.0), request(1, Op::Write, 0, 512 * KIB)).unwrap();
    let lost = disk.cut_power(at_ms(whole - 1.0), &mut events);
    assert!(events.is_empty());
    let [torn] = &lost[..] else { panic!("one write is lost: {lost:?}") };
    assert!(!torn.completed);
    // A millisecond of 175 MB/s is missing.
    let missing = 512 * KIB - torn.kept[0].len();
    near("missing", missing as f64, 175e3 * 1.05, 8.0);
    // After the cut it works as before.
    assert!(alone(&mut disk, at_ms(1_000.0), Op::Read, 0, 4096) < 40.0);
}

#[test]
fn reordering_serves_more_than_first_come_first_served() {
    let per_s = |order: &str, depth: usize| {
        let mut disk = like("hdd-7200", json!({"queue": {"order": order}}));
        let end = disk.capacity_bytes();
        closed(&mut disk, VirtualInstant::ZERO, depth, 3_000, at_random(Op::Read, 0, end, 4096, 9)).per_s()
    };
    let alone = per_s("fifo", 1);
    near("a queue without reordering gains the overhead only", per_s("fifo", 32), alone, 4.0);
    let gains: Vec<f64> = [1, 2, 4, 8, 16, 32].map(|depth| per_s("shortest-positioning", depth) / alone).to_vec();
    println!("gains of reordering at depths 1 to 32: {gains:.2?}");
    assert!(gains.windows(2).all(|two| two[0] < two[1] + 0.01), "{gains:?}");
    // Exos X16 Data Sheet (Seagate DS2011): 170 reads a second at a depth of 16, where 8.5 + 4.16 ms make 79 alone.
    near("at a depth of 16", gains[4], 170.0 / 79.0, 12.0);
}

#[test]
fn a_small_part_of_a_large_drive_has_short_seeks_and_its_fastest_tracks() {
    let mut small = like("hdd-7200", json!({"capacity-bytes": 20 * GIB}));
    let seen = closed(&mut small, VirtualInstant::ZERO, 1, 1_000, at_random(Op::Read, 0, 20 * GIB, 4096, 4));
    // Half a turn, the overhead, and seeks within a two-hundredth of the cylinders.
    assert!((5.0..7.0).contains(&seen.mean_ms()), "{} ms", seen.mean_ms());
    let rate = closed(&mut small, seen.until, 1, 400, in_order(Op::Read, 19 * GIB, MIB)).mb_per_s();
    near("the outermost tracks", rate, 175.0, 2.0);
}

#[test]
fn no_request_waits_much_longer_than_the_age_limit() {
    let mut disk = like("hdd-7200", json!({"queue": {"age-limit-ms": 150.0}}));
    // One far away, and 31 others that are always near one another.
    let mut random = at_random(Op::Read, 0, GIB, 4096, 2);
    let seen = closed(&mut disk, VirtualInstant::ZERO, 32, 2_000, |n| match n % 400 {
        100 => (Op::Read, 3_700 * GIB, 4096),
        _ => random(n),
    });
    assert!(seen.quantile_ms(1.0) < 400.0, "the longest took {} ms", seen.quantile_ms(1.0));
}

#[test]
fn a_flush_comes_to_an_end_whose_writes_wait_in_the_queue() {
    // A write through the cache takes the place of what is there, and waits behind many reads for longer than the flush
    // may.
    for order in ["shortest-positioning", "fifo"] {
        let mut disk = like("hdd-7200", json!({"queue": {"age-limit-ms": 50.0, "order": order}}));
        let mut far = at_random(Op::Read, 0, 3_000 * GIB, 4096, 6);
        let mut events = Vec::new();
        for id in 0..20 {
            let (op, offset, length) = far(id);
            disk.submit(at_ms(0.0), request(id, op, offset, length)).unwrap();
        }
        disk.submit(at_ms(1.0), request(20, Op::Write, 7 * GIB, 4096)).unwrap();
        disk.submit(at_ms(2.0), request(21, Op::Flush, 0, 0)).unwrap();
        disk.submit(at_ms(3.0), request(22, Op::WriteThrough, 7 * GIB, 4096)).unwrap();
        disk.advance(at_ms(2_000.0), &mut events);
        let completed = events.iter().filter(|event| event.kind == EventKind::Completed);
        assert_eq!(completed.count(), 23, "{order}: {events:?}");
        assert_eq!(disk.next_event(), None);
    }
}

#[test]
fn a_flush_and_what_is_in_the_cache_have_their_turn_however_many_reads_wait() {
    for order in ["shortest-positioning", "fifo"] {
        let mut disk = like("hdd-7200", json!({"queue": {"age-limit-ms": 300.0, "order": order}}));
        let mut random = at_random(Op::Read, 0, 3_000 * GIB, 4096, 2);
        let mut places = at_random(Op::Write, 0, 3_000 * GIB, 4096, 3);
        // Without a flush: what is in the cache is written although reads wait, as soon as it is old.
        let seen = closed(&mut disk, VirtualInstant::ZERO, 16, 400, |n| if n < 8 { places(n) } else { random(n) });
        assert!(seen.took_s > 2.0, "the arm has had much to do: {} s", seen.took_s);
        assert_eq!(disk.at_risk(), [] as [u64; 0], "{order}");
        // With one: it is done long before the reads are that wait already.
        for id in 1_000..1_300 {
            let (op, offset, length) = if id < 1_008 { places(id) } else { random(id) };
            disk.submit(seen.until, request(id, op, offset, length)).unwrap();
            if id == 1_031 {
                disk.submit(seen.until, request(2_000, Op::Flush, 0, 0)).unwrap();
            }
        }
        let mut events = Vec::new();
        disk.advance(seen.until + ms(30_000.0), &mut events);
        let completed: Vec<_> = events.iter().filter(|event| event.kind == EventKind::Completed).collect();
        let before = completed.iter().position(|event| event.id == 2_000).unwrap();
        assert!(completed.len() == 301 && before < 150, "{order}: {before} of {} were before it", completed.len());
    }
}

#[test]
fn what_was_written_is_read_from_the_cache() {
    let mut disk = disk_7200();
    alone(&mut disk, at_ms(0.0), Op::Write, 2_000 * GIB, 64 * KIB);
    assert!(alone(&mut disk, at_ms(1.0), Op::Read, 2_000 * GIB + 4096, 8192) < 0.2);
    settle(&mut disk, at_ms(1.0));
    assert!(alone(&mut disk, at_ms(500.0), Op::Read, 2_000 * GIB, 4096) < 0.2, "also when it is on the platter");
    assert_eq!(disk.counters().cache_hits, 2);
}
