//! Behaviour of a drive of flash memory, and why.

use crate::common::*;
use diorama_disk::{Disk, EventKind, Op};
use scale::VirtualInstant;
use serde_json::json;

const START: VirtualInstant = VirtualInstant::ZERO;

#[test]
fn reads_at_random_scale_with_the_queue_until_the_dies_are_busy() {
    let per_s = |dies: u32, depth: usize| {
        let changes = json!({"flash": {"channels": dies, "dies-per-channel": 1, "read-spread": 0.0}});
        let mut disk = like("nvme", changes);
        closed(&mut disk, START, depth, 20_000, at_random(Op::Read, 0, 800 * GIB, 4096, 1)).per_s()
    };
    let alone = per_s(16, 1);
    near("two at a time, which rarely meet", per_s(16, 2) / alone, 2.0, 5.0);
    // The rate of sixteen dies whose reads take 70 µs each, and 10 to send 4 KiB.
    let most = 16.0 / 80.2e-6;
    let deep = per_s(16, 256);
    assert!((0.9..1.0).contains(&(deep / most)), "{deep} of {most}");
    near("half the dies", per_s(8, 256) / deep, 0.5, 4.0);
}

#[test]
fn channels_bound_what_their_dies_can_send() {
    let changes = json!({"flash": {"channels": 2, "dies-per-channel": 32}, "link-bytes-per-s": 1e10});
    let mut disk = like("nvme", changes);
    let seen = closed(&mut disk, START, 64, 8_000, at_random(Op::Read, 0, 800 * GIB, 64 * KIB, 1));
    near("two channels of 400 MB/s", seen.mb_per_s(), 800.0, 2.0);
}

#[test]
fn the_cache_takes_a_burst_of_writes_and_then_as_much_as_the_dies() {
    let mut disk = like("nvme", json!({"state": "fresh", "cache": {"bytes": 64 * MIB}}));
    let seen = closed(&mut disk, START, 1, 4_000, in_order(Op::Write, 0, 128 * KIB));
    let link = seen.response_ms[..400].iter().sum::<f64>() / 1e3;
    near("the burst goes at the speed of the link and the overhead", 400.0 / link, 1e6 / (1.5 + 17.0 + 41.0), 3.0);
    let after = seen.response_ms[2_000..].iter().sum::<f64>() / 1e3;
    near("then it is what 24 dies program", 2_000.0 * 0.131072 / after, 24.0 * 0.032768 / 1.3e-3, 3.0);
}

#[test]
fn garbage_collection_slows_writes_down_by_what_it_costs() {
    let rate = |state: &str, spare: f64| {
        let mut disk = like("nvme", json!({"state": state, "spare": spare}));
        let seen = closed(&mut disk, START, 64, 60_000, at_random(Op::Write, 0, 800 * GIB, 4096, 4));
        // Without the burst that the cache takes.
        let slow: f64 = seen.response_ms[20_000..].iter().sum::<f64>() / 64.0;
        (40_000.0 / slow * 1e3, disk.counters())
    };
    let (fresh, new) = rate("fresh", 0.12);
    let (steady, used) = rate("steady", 0.12);
    near("nothing is copied", new.written_to_medium as f64 / new.written as f64, 1.0, 1.0);
    // 1 / (1 − u), where u = exp(−1.12 (1 − u)): see `crates/disk/src/ssd/mirror.rs`.
    let cost = used.written_to_medium as f64 / used.written as f64;
    near("each page costs what the analytic result says", cost, 4.76, 5.0);
    // Reading what is copied, and erasing, come on top.
    near("and is slower by it", fresh / steady, cost, 12.0);
    assert!(rate("steady", 0.4).0 > 2.0 * steady, "with more to spare less is copied");
}

#[test]
fn reads_wait_for_programming_unless_it_can_be_suspended() {
    let reads = |suspend: serde_json::Value| {
        let mut disk = like("nvme", json!({"state": "fresh", "flash": {"suspend-us": suspend}}));
        let mut writes = in_order(Op::Write, 0, 128 * KIB);
        let mut read = at_random(Op::Read, 500 * GIB, 800 * GIB, 4096, 8);
        let mut times = Vec::new();
        // Writes, and a read while they are programmed.
        for n in 0..2_000 {
            let begin = at_ms(n as f64 * 4.0);
            closed(&mut disk, begin, 8, 12, |k| writes(n * 12 + k));
            times.push(alone(&mut disk, begin + ms(1.5), Op::Read, read(0).1, 4096));
        }
        times.sort_by(f64::total_cmp);
        (times[1_000], times[1_980])
    };
    let (with, without) = (reads(json!(40.0)), reads(json!(null)));
    assert!(with.1 < 0.3, "p99 {} ms", with.1);
    assert!((0.9..1.6).contains(&without.1), "p99 {} ms: as long as programming", without.1);
}

#[test]
fn a_sequential_reader_finds_its_pages_read_ahead() {
    let mean = |ahead: u64| {
        let mut disk = like("ssd-sata", json!({"read-ahead-bytes": ahead}));
        let seen = closed(&mut disk, START, 1, 4_000, in_order(Op::Read, GIB, 4096));
        seen.mean_ms() * 1e3
    };
    let (with, without) = (mean(256 * KIB), mean(0));
    // Intel's specification of the S4500: 36 µs in order, 110 at random.
    near("in order", with, 36.0, 25.0);
    near("without reading ahead, as at random", without, 110.0, 8.0);
}

#[test]
fn a_flush_costs_a_program_unless_the_cache_is_protected() {
    let sync = |name: &str| {
        let mut disk = disk(name);
        let mut write = at_random(Op::Write, 0, 800 * GIB, 4096, 1);
        let seen = closed(&mut disk, START, 1, 400, |n| if n % 2 == 0 { write(n) } else { (Op::Flush, 0, 0) });
        let flushes: Vec<f64> = seen.response_ms.iter().skip(1).step_by(2).copied().collect();
        flushes.iter().sum::<f64>() / flushes.len() as f64
    };
    assert!(sync("ssd-sata") < 0.06, "protected: {} ms", sync("ssd-sata"));
    let open = sync("samsung-850-evo");
    assert!((0.4..0.6).contains(&open), "a program of the fast flash takes 0.4 ms: {open}");
    let mut through = disk("samsung-850-evo");
    let seen = closed(&mut through, START, 1, 200, at_random(Op::WriteThrough, 0, 800 * GIB, 4096, 1));
    assert!((0.4..0.6).contains(&seen.mean_ms()), "{}", seen.mean_ms());
}

#[test]
fn what_is_in_the_cache_is_lost_unless_it_was_flushed_or_is_protected() {
    let cut = |name: &str, flush: bool| {
        let mut disk = disk(name);
        let seen = closed(&mut disk, START, 1, 5, at_random(Op::Write, 0, 800 * GIB, 4096, 1));
        let mut events = Vec::new();
        let mut now = seen.until;
        if flush {
            now = closed(&mut disk, now, 1, 1, |_| (Op::Flush, 0, 0)).until;
        }
        assert_eq!(disk.at_risk().len(), if flush || name == "nvme" { 0 } else { 5 });
        disk.cut_power(now, &mut events).len()
    };
    assert_eq!((cut("samsung-850-evo", false), cut("samsung-850-evo", true), cut("nvme", false)), (5, 0, 0));
}

#[test]
fn what_waits_in_the_cache_is_written_after_a_while_anyway() {
    let mut disk = disk("samsung-970-evo-plus");
    let mut events = Vec::new();
    disk.submit(START, request(1, Op::Write, 0, 4096)).unwrap();
    disk.advance(at_ms(1.0), &mut events);
    assert_eq!(disk.at_risk(), [1]);
    disk.advance(at_ms(10.0), &mut events);
    assert_eq!(events.last().unwrap().kind, EventKind::Durable);
    assert_eq!((disk.at_risk(), disk.next_event()), (vec![], None));
}

#[test]
fn the_fast_flash_memory_fills_and_is_emptied_in_pauses() {
    let mut disk = like("samsung-970-evo-plus", json!({"fast": {"bytes": 4 * GIB}, "cache": {"bytes": 4 * MIB}}));
    let rate = |disk: &mut Disk, begin: VirtualInstant, from: u64| {
        let seen = closed(disk, begin, 32, 1_000, in_order(Op::Write, from * MIB, MIB));
        (seen.mb_per_s(), seen.until)
    };
    let (first, until) = rate(&mut disk, START, 0);
    near("at first", first, 3_300.0, 3.0);
    let (_, until) = rate(&mut disk, until, 1_000);
    let (_, until) = rate(&mut disk, until, 2_000);
    let (_, until) = rate(&mut disk, until, 3_000);
    let (_, until) = rate(&mut disk, until, 4_000);
    let (full, until) = rate(&mut disk, until, 5_000);
    near("when it is full", full, 1_700.0, 3.0);
    let (rested, _) = rate(&mut disk, until + ms(2_000.0), 6_000);
    near("after a pause", rested, 3_300.0, 3.0);
}

#[test]
fn no_more_requests_are_taken_at_a_time_than_the_queue_holds() {
    let mut disk = like("ssd-sata", json!({"queue-depth": 1}));
    let seen = closed(&mut disk, START, 8, 2_000, at_random(Op::Read, 0, 800 * GIB, 4096, 1));
    near("as one at a time", seen.per_s(), 1e6 / 110.0, 6.0);
}
