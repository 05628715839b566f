//! Costs of the models. Not judged: they depend on the machine, and on what else it does.
//!
//! `cargo run --release -p diorama-disk --example cost`

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use common::*;
use diorama_disk::{Op, catalogue};

fn main() {
    println!(
        "{:22} {:>10} {:>12} {:>14} {:>14} {:>12}",
        "ns per request", "read 4 KiB", "write 4 KiB", "read 128 KiB", "write 128 KiB", "write 1 MiB"
    );
    for name in catalogue::names() {
        let mut row = format!("{name:22}");
        for (op, length) in
            [(Op::Read, 4 * KIB), (Op::Write, 4 * KIB), (Op::Read, 128 * KIB), (Op::Write, 128 * KIB), (Op::Write, MIB)]
        {
            let mut disk = disk(name);
            let end = disk.capacity_bytes() / MIB * MIB;
            let count = 5_000;
            // The first time its tables are made; the best of the others is the least disturbed.
            let times = (0..8).map(|n| {
                let since = Instant::now();
                closed(&mut disk, at_ms(f64::from(n) * 1e7), 32, count, at_random(op, 0, end, length, 2));
                since.elapsed().as_nanos() as f64 / count as f64
            });
            row += &format!(" {:12.0}", times.skip(1).fold(f64::INFINITY, f64::min));
        }
        println!("{row}");
    }
}
