//! The disks of the catalogue against what is published of them: in order, at random, and at several queue depths.
//! `docs/notebook/2026-11-disks.md` has the table that `cargo test -p diorama-disk --test published -- --nocapture`
//! prints.

use crate::common::*;
use diorama_disk::{Disk, Op};
use scale::VirtualInstant;
use serde_json::json;

const START: VirtualInstant = VirtualInstant::ZERO;

/// A line of the table, and whether the model is as close as it should be.
#[track_caller]
fn line(disk: &str, what: &str, is: f64, published: f64, unit: &str, percent: f64) {
    let round = |value: f64| if value < 100.0 { (value * 100.0).round() / 100.0 } else { value.round() };
    let off = 100.0 * (is / published - 1.0);
    println!("| {disk} | {what} | {} {unit} | {} {unit} | {off:+.1} % |", round(published), round(is));
    near(&format!("{disk}, {what}"), is, published, percent);
}

fn end(disk: &Disk) -> u64 {
    disk.capacity_bytes() / MIB * MIB
}

/// The rate of a program that reads or writes in order, with so many requests outstanding, in MB/s.
fn in_sequence(disk: &mut Disk, op: Op, begin: u64, depth: usize, count: usize, length: u64) -> f64 {
    closed(disk, START, depth, count, in_order(op, begin, length)).mb_per_s()
}

/// Requests per second of 4 KiB at places all over the disk.
fn all_over(disk: &mut Disk, op: Op, depth: usize, count: usize) -> f64 {
    let end = end(disk);
    closed(disk, START, depth, count, at_random(op, 0, end, 4096, 17)).per_s()
}

#[test]
fn platters_in_order() {
    // Sustained rates of the manuals, outermost and innermost: sources in `catalogue/hdd.rs`. Zones are made from
    // them, so what is tested is that switches and skews leave what was asked for.
    let drives = [("hdd-7200", 175.0, 83.0), ("hdd-15k", 204.0, 122.0), ("seagate-cheetah-15k6", 171.0, 112.0)];
    for (name, outer, inner) in drives {
        for op in [Op::Read, Op::Write] {
            let new = || disk(name);
            let last = end(&new()) - 2_000 * MIB;
            let word = if op == Op::Read { "read" } else { "write" };
            let is = in_sequence(&mut new(), op, 0, 4, 2_000, MIB);
            line(name, &format!("{word} in order, outer tracks"), is, outer, "MB/s", 2.0);
            let is = in_sequence(&mut new(), op, last, 4, 2_000, MIB);
            line(name, &format!("{word} in order, inner tracks"), is, inner, "MB/s", 2.0);
        }
    }
    let is = in_sequence(&mut disk("seagate-exos-x16"), Op::Read, 0, 4, 2_000, MIB);
    line("seagate-exos-x16", "read in order, outer tracks", is, 261.0, "MB/s", 2.0);
}

#[test]
fn platters_at_random() {
    // One at a time: average seek, half a turn, the controller's overhead, and hardly any transfer.
    let bare = json!({"write-cache": {"bytes": 0}});
    let drives = [
        ("hdd-7200", 8.5, 9.5, 4.167, 0.2, 0.1),
        ("hdd-15k", 3.4, 3.9, 2.0, 0.2, 0.1),
        ("seagate-cheetah-15k6", 3.4, 3.9, 2.0, 0.2, 0.1),
    ];
    for (name, read, write, half, before_read, before_write) in drives {
        let is = 1e3 / all_over(&mut disk(name), Op::Read, 1, 4_000);
        line(name, "read at random, one at a time", is, read + half + before_read, "ms", 2.0);
        let is = 1e3 / all_over(&mut like(name, bare.clone()), Op::Write, 1, 4_000);
        line(name, "write at random, without a cache", is, write + half + before_write, "ms", 2.0);
    }
    // Exos X16 Data Sheet (Seagate DS2011).
    let is = all_over(&mut disk("seagate-exos-x16"), Op::Read, 16, 4_000);
    line("seagate-exos-x16", "read 4 KiB at random, depth 16", is, 170.0, "/s", 8.0);
    // A drive of the class: no figure of its own is published.
    let is = all_over(&mut disk("hdd-7200"), Op::Read, 16, 4_000);
    line("hdd-7200", "read 4 KiB at random, depth 16 (of the X16)", is, 170.0, "/s", 10.0);
}

#[test]
fn flash_in_order() {
    // Sources in `catalogue/ssd.rs`.
    let fresh = json!({"state": "fresh"});
    for (name, read, write) in [
        ("ssd-sata", 500.0, 490.0),
        ("nvme", 3_200.0, 600.0),
        ("samsung-850-evo", 540.0, 520.0),
        ("samsung-970-evo-plus", 3_500.0, 3_300.0),
    ] {
        let is = in_sequence(&mut like(name, fresh.clone()), Op::Read, 0, 32, 8_000, 128 * KIB);
        line(name, "read in order", is, read, "MB/s", 5.0);
        let is = in_sequence(&mut like(name, fresh.clone()), Op::Write, 0, 32, 60_000, 128 * KIB);
        line(name, "write in order", is, write, "MB/s", 5.0);
    }
    let mut full = like("samsung-970-evo-plus", json!({"fast": {"bytes": 0}}));
    let is = in_sequence(&mut full, Op::Write, 0, 32, 60_000, 128 * KIB);
    line("samsung-970-evo-plus", "write in order after 42 GB", is, 1_700.0, "MB/s", 5.0);
}

#[test]
fn flash_at_random() {
    let micros = |name: &str, op| 1e6 / all_over(&mut disk(name), op, 1, 10_000);
    line("ssd-sata", "read 4 KiB at random, depth 1", micros("ssd-sata", Op::Read), 110.0, "µs", 5.0);
    line("ssd-sata", "write 4 KiB at random, depth 1", micros("ssd-sata", Op::Write), 52.0, "µs", 5.0);
    line("nvme", "read 4 KiB at random, depth 1", micros("nvme", Op::Read), 85.0, "µs", 5.0);
    line("nvme", "write 4 KiB at random, depth 1", micros("nvme", Op::Write), 20.0, "µs", 5.0);
    for (name, op, depth, published, percent) in [
        ("ssd-sata", Op::Read, 32, 72_000.0, 5.0),
        ("nvme", Op::Read, 128, 279_500.0, 5.0),
        ("samsung-850-evo", Op::Read, 1, 10_000.0, 5.0),
        ("samsung-850-evo", Op::Write, 1, 40_000.0, 5.0),
        ("samsung-850-evo", Op::Read, 32, 98_000.0, 5.0),
        ("samsung-850-evo", Op::Write, 32, 90_000.0, 10.0),
        ("samsung-970-evo-plus", Op::Read, 1, 19_000.0, 5.0),
        ("samsung-970-evo-plus", Op::Write, 1, 60_000.0, 5.0),
        ("samsung-970-evo-plus", Op::Read, 128, 600_000.0, 5.0),
        ("samsung-970-evo-plus", Op::Write, 128, 550_000.0, 12.0),
    ] {
        let is = all_over(&mut disk(name), op, depth, 100_000);
        let word = if op == Op::Read { "read" } else { "write" };
        line(name, &format!("{word} 4 KiB at random, depth {depth}"), is, published, "/s", percent);
    }
    // In steady state, all over the drive; the burst that the cache takes is left out.
    for (name, depth, published, percent) in [("ssd-sata", 32, 33_000.0, 10.0), ("nvme", 128, 30_500.0, 10.0)] {
        let mut disk = disk(name);
        let end = end(&disk);
        let begin = closed(&mut disk, START, depth, 30_000, at_random(Op::Write, 0, end, 4096, 5)).until;
        let seen = closed(&mut disk, begin, depth, 100_000, at_random(Op::Write, 0, end, 4096, 6));
        line(name, &format!("write 4 KiB at random, steady, depth {depth}"), seen.per_s(), published, "/s", percent);
    }
}

#[test]
fn volumes() {
    for (name, requests, mib) in [("gp3", 3_000.0, 125.0), ("pd-ssd", 21_000.0, 480.0)] {
        let is = all_over(&mut disk(name), Op::Read, 64, 60_000);
        line(name, "read 4 KiB at random, depth 64", is, requests, "/s", 1.0);
        let is = in_sequence(&mut disk(name), Op::Read, 0, 64, 40_000, 256 * KIB) * 1e6 / MIB as f64;
        line(name, "read in order, depth 64", is, mib, "MiB/s", 1.0);
    }
    let is = all_over(&mut disk("gp2"), Op::Read, 64, 60_000);
    line("gp2", "read 4 KiB at random, burst", is, 3_000.0, "/s", 1.0);
    let is = all_over(&mut disk("azure-p10"), Op::Read, 64, 60_000);
    line("azure-p10", "read 4 KiB at random, burst", is, 3_500.0, "/s", 1.0);
}
