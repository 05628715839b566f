//! Programs that use a disk, and what they see of it.
#![allow(dead_code)]

use std::collections::HashMap;

use diorama_disk::{Disk, Event, EventKind, Op, Parameters, Request, catalogue};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use scale::{VirtualDuration, VirtualInstant};
use serde_json::Value;

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

pub fn disk(name: &str) -> Disk {
    Disk::new(&catalogue::named(name).unwrap(), 1).unwrap()
}

/// A disk of the catalogue with some parameters changed.
pub fn like(name: &str, changes: Value) -> Disk {
    Disk::new(&Parameters::like(name, changes.as_object().unwrap()).unwrap(), 1).unwrap()
}

pub fn ms(ms: f64) -> VirtualDuration {
    VirtualDuration::from_secs_f64(ms / 1e3)
}

pub fn at_ms(at: f64) -> VirtualInstant {
    VirtualInstant::ZERO + ms(at)
}

pub fn request(id: u64, op: Op, offset: u64, length: u64) -> Request {
    Request { id, op, offset, length }
}

/// Observations of a program: response times in ms in the order of completion, and how long all took, in s.
#[derive(Debug)]
pub struct Seen {
    pub response_ms: Vec<f64>,
    pub took_s: f64,
    pub bytes: u64,
    pub until: VirtualInstant,
}

impl Seen {
    pub fn per_s(&self) -> f64 {
        self.response_ms.len() as f64 / self.took_s
    }

    pub fn mb_per_s(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.took_s
    }

    pub fn mean_ms(&self) -> f64 {
        self.response_ms.iter().sum::<f64>() / self.response_ms.len() as f64
    }

    pub fn quantile_ms(&self, part: f64) -> f64 {
        let mut sorted = self.response_ms.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[((sorted.len() - 1) as f64 * part) as usize]
    }
}

/// A program that keeps `depth` requests outstanding, from `begin` on, until `count` have been made: the next one is
/// made as soon as one is complete.
pub fn closed(
    disk: &mut Disk,
    begin: VirtualInstant,
    depth: usize,
    count: usize,
    mut next: impl FnMut(u64) -> (Op, u64, u64),
) -> Seen {
    let (mut made, mut now) = (0, begin);
    let mut outstanding: HashMap<u64, (VirtualInstant, u64)> = HashMap::new();
    let mut seen = Seen { response_ms: Vec::new(), took_s: 0.0, bytes: 0, until: begin };
    let mut events: Vec<Event> = Vec::new();
    let first = begin.as_nanos() << 20;
    loop {
        while made < count && outstanding.len() < depth {
            let (op, offset, length) = next(made as u64);
            let id = first + made as u64;
            disk.submit(now, request(id, op, offset, length)).unwrap();
            outstanding.insert(id, (now, length));
            made += 1;
        }
        if outstanding.is_empty() {
            break;
        }
        now = disk.next_event().expect("something is outstanding");
        disk.advance(now, &mut events);
        for event in events.drain(..).filter(|event| event.kind == EventKind::Completed) {
            if let Some((came, bytes)) = outstanding.remove(&event.id) {
                seen.response_ms.push(event.at.since(came).as_secs_f64() * 1e3);
                seen.bytes += bytes;
                seen.until = event.at;
            }
        }
    }
    seen.took_s = seen.until.since(begin).as_secs_f64();
    seen
}

/// Places of a range, all equally likely, aligned to the length.
pub fn at_random(op: Op, begin: u64, end: u64, length: u64, seed: u64) -> impl FnMut(u64) -> (Op, u64, u64) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    move |_| (op, (begin / length + random.random_range(0..(end - begin) / length)) * length, length)
}

/// One place after the other.
pub fn in_order(op: Op, begin: u64, length: u64) -> impl FnMut(u64) -> (Op, u64, u64) {
    move |n| (op, begin + n * length, length)
}

/// Runs one request alone; how long it takes, in ms.
pub fn alone(disk: &mut Disk, at: VirtualInstant, op: Op, offset: u64, length: u64) -> f64 {
    closed(disk, at, 1, 1, |_| (op, offset, length)).response_ms[0]
}

/// Has the disk do all that it has to do from an instant on; when it has.
pub fn settle(disk: &mut Disk, from: VirtualInstant) -> VirtualInstant {
    let mut now = from;
    let mut events = Vec::new();
    while let Some(next) = disk.next_event() {
        now = next;
        disk.advance(next, &mut events);
    }
    now
}

/// That a value is within so many percent of what it should be.
#[track_caller]
pub fn near(what: &str, is: f64, should: f64, percent: f64) {
    let off = (is / should - 1.0) * 100.0;
    assert!(off.abs() <= percent, "{what}: {is:.4}, {off:+.1} % from {should:.4}, and {percent} % are allowed");
}
