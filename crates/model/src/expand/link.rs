//! Impairments and limits of a link: read, checked, and in the experiment's own types.

use scale::link::{Distribution, GilbertElliott, Limit, Loss, Queue, Red, largest_frame};

use crate::error::Problems;
use crate::file::{self, Length, WordOr};
use crate::link::{Jitter, PipeChange};
use crate::tree::{Span, Value};

/// The longest queue, in packets.
const MOST_PACKETS: u64 = 1_000_000;
/// The longest queue, in bytes.
const MOST_BYTES: u64 = 1 << 30;

/// The change written about one direction, in the map `at`, of a link with this MTU.
pub(super) fn change(read: &file::Direction, at: &Value, mtu: u16, problems: &mut Problems) -> PipeChange {
    let mut notes = Notes { at, largest: largest_frame(mtu) as u64, problems };
    PipeChange {
        rate: read.bandwidth.map(|b| b.0),
        delay: read.delay.map(|d| d.0),
        jitter: read.jitter.as_ref().and_then(|j| jitter(j, &mut notes)),
        loss: read.loss.as_ref().and_then(|l| loss(l, &mut notes)),
        duplicate: read.duplicate.map(|p| p.0),
        corrupt: read.corrupt.map(|p| p.0),
        queue: read.queue.as_ref().and_then(|q| queue(q, &mut notes)),
        up: read.up,
    }
}

/// Notes what is wrong at places below a map.
struct Notes<'a, 'p> {
    at: &'a Value,
    /// The longest frame, which every queue must hold, in bytes.
    largest: u64,
    problems: &'p mut Problems,
}

impl Notes<'_, '_> {
    /// Notes something about the value at a path of keys, or as near to it as there is any.
    fn add(&mut self, path: &[&str], what: impl Into<String>) {
        let mut place = self.at;
        for key in path {
            place = place.get(key).unwrap_or(place);
        }
        self.problems.add(place.span, what);
    }

    /// The place of an item of the list at a path.
    fn item(&self, path: &[&str; 2], i: usize) -> Span {
        self.at.get(path[0]).map_or(self.at.span, |map| super::item_span(map, path[1], i))
    }
}

fn jitter(read: &file::Jitter, notes: &mut Notes) -> Option<Jitter> {
    let map = match read {
        WordOr::Word(spread) => {
            return Some(Jitter { distribution: Distribution::Uniform, spread: spread.0, reorder: false });
        }
        WordOr::Map(map) => map,
    };
    let written =
        [(Distribution::Uniform, map.uniform), (Distribution::Normal, map.normal), (Distribution::Pareto, map.pareto)];
    let mut written = written.into_iter().filter_map(|(d, spread)| Some((d, spread?.0)));
    match (written.next(), written.next()) {
        (Some((distribution, spread)), None) => {
            Some(Jitter { distribution, spread, reorder: map.reorder.unwrap_or(false) })
        }
        _ => {
            let what =
                "a jitter has one distribution: write one of `uniform`, `normal` and `pareto`, such as { normal: 2ms }";
            notes.add(&["jitter"], what);
            None
        }
    }
}

fn loss(read: &file::Loss, notes: &mut Notes) -> Option<Loss> {
    let map = match read {
        WordOr::Word(p) => return Some(Loss::Random(p.0)),
        WordOr::Map(map) => map,
    };
    match (map.every, &map.packets, &map.gilbert_elliott) {
        (Some(0), None, None) => {
            notes.add(&["loss", "every"], "every 0th packet is none at all: write a number of at least 1");
            None
        }
        (Some(every), None, None) => Some(Loss::Every(every)),
        (None, Some(packets), None) => {
            if let Some(i) = packets.iter().position(|n| *n == 0) {
                let at = notes.item(&["loss", "packets"], i);
                notes.problems.add(at, "packets are counted from 1: write the number of one");
            }
            let mut packets = packets.clone();
            packets.sort_unstable();
            packets.dedup();
            Some(Loss::Packets(packets))
        }
        (None, None, Some(chain)) => Some(Loss::GilbertElliott(GilbertElliott {
            p: chain.p.0,
            r: chain.r.0,
            good: chain.good.map_or(0.0, |p| p.0),
            bad: chain.bad.map_or(1.0, |p| p.0),
        })),
        _ => {
            let what =
                "a loss has one pattern: write a probability, or one of `every`, `packets` and `gilbert-elliott`";
            notes.add(&["loss"], what);
            None
        }
    }
}

fn queue(read: &file::Queue, notes: &mut Notes) -> Option<Queue> {
    match read {
        WordOr::Word(length) => limit(*length, &["queue"], notes).map(Queue::DropTail),
        WordOr::Map(map) => red(&map.red, notes).map(Queue::Red),
    }
}

/// The most that a queue holds, if it makes sense.
fn limit(length: Length, place: &[&str], notes: &mut Notes) -> Option<Limit> {
    match length {
        Length::Packets(n) if (1..=MOST_PACKETS).contains(&n) => Some(Limit::Packets(n as u32)),
        Length::Packets(_) => {
            notes.add(place, format!("a queue is 1 to {MOST_PACKETS} packets: write a number such as 100"));
            None
        }
        Length::Bytes(n) if (notes.largest..=MOST_BYTES).contains(&n) => Some(Limit::Bytes(n)),
        Length::Bytes(_) => {
            let least = notes.largest;
            notes.add(place, format!("a queue is {least}B (one full packet) to 1GiB: write one such as 64KiB"));
            None
        }
    }
}

fn red(read: &file::Red, notes: &mut Notes) -> Option<Red> {
    let limit = limit(read.limit, &["queue", "red", "limit"], notes)?;
    let (min, max) = match (limit, read.min, read.max) {
        (Limit::Packets(_), Length::Packets(min), Length::Packets(max))
        | (Limit::Bytes(_), Length::Bytes(min), Length::Bytes(max)) => (min, max),
        _ => {
            let what = "`min`, `max` and `limit` of a RED queue are all packets, such as 5, or all bytes, such as 5kB";
            notes.add(&["queue", "red"], what);
            return None;
        }
    };
    if min >= max {
        notes.add(
            &["queue", "red", "max"],
            "`max` must be more than `min`; the paper's authors advise three times that",
        );
        return None;
    }
    let most = match limit {
        Limit::Packets(n) => u64::from(n),
        Limit::Bytes(n) => n,
    };
    if max > most {
        notes.add(&["queue", "red", "max"], "`max` is more than the queue holds: lower it, or raise `limit`");
        return None;
    }
    let max_p = read.max_p.map_or(0.1, |p| p.0);
    if max_p <= 0.0 {
        notes.add(&["queue", "red", "max_p"], "a RED queue that drops nothing at random is none: write such as `10%`");
        return None;
    }
    let weight = read.weight.unwrap_or(0.002);
    if !(weight > 0.0 && weight <= 1.0) {
        notes.add(&["queue", "red", "weight"], "a weight is above 0 and at most 1: write a number such as 0.002");
        return None;
    }
    let packet = read.packet.map_or(500, |data| data.0);
    if !(1..=notes.largest).contains(&packet) {
        let what = format!("a packet is 1B to {}B: write a size such as `500B`", notes.largest);
        notes.add(&["queue", "red", "packet"], what);
        return None;
    }
    Some(Red { min, max, limit, max_p, weight, packet, gentle: read.gentle.unwrap_or(false) })
}
