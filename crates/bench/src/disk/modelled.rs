//! What the model says of a load's requests: of those that reached the device, which are parts of what was asked for.

use std::collections::HashMap;

use device::Watched;
use disk::Op;
use scale::VirtualInstant;

/// How long each request of so many bytes takes by the model, virtual s, and each flush.
///
/// The kernel makes several requests of a long one: it takes from when the first comes until the last is complete.
pub(super) fn modelled(watched: &[Watched], bytes: u64) -> (Vec<f64>, Vec<f64>) {
    struct Parts {
        arrived: VirtualInstant,
        complete: VirtualInstant,
        bytes: u64,
    }
    let (mut requests, mut flushes) = (Vec::new(), Vec::new());
    // By kind and place: at one place, one request is under way at a time, or two that take as long.
    let mut parts: HashMap<(Op, u64), Parts> = HashMap::new();
    for part in watched {
        if part.op == Op::Flush {
            flushes.push(part.complete.since(part.arrived).as_secs_f64());
            continue;
        }
        let place = (part.op, part.offset / bytes);
        let whole = parts.entry(place).or_insert(Parts { arrived: part.arrived, complete: part.complete, bytes: 0 });
        whole.arrived = whole.arrived.min(part.arrived);
        whole.complete = whole.complete.max(part.complete);
        whole.bytes += part.length;
        if whole.bytes >= bytes {
            requests.push(whole.complete.since(whole.arrived).as_secs_f64());
            parts.remove(&place);
        }
    }
    (requests, flushes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_request_are_one() {
        let at = |us: u64| VirtualInstant::from_nanos(us * 1_000);
        let part = |op, offset, length, from, to| Watched { op, offset, length, arrived: at(from), complete: at(to) };
        let (requests, flushes) = modelled(
            &[
                part(Op::Read, 65_536, 4096, 5, 20),
                part(Op::Read, 0, 65_536, 0, 30),
                part(Op::Flush, 0, 0, 30, 34),
                part(Op::Read, 69_632, 61_440, 6, 46),
            ],
            65_536,
        );
        let us = |values: &[f64]| values.iter().map(|s| (s * 1e6).round()).collect::<Vec<_>>();
        assert_eq!((us(&requests), us(&flushes)), (vec![30.0, 41.0], vec![4.0]));
    }
}
