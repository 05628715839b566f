//! The model's answer to a load: to the requests that reached the device, which are parts of those that fio made.

use std::collections::HashMap;

use device::Watched;
use disk::Op;
use scale::VirtualInstant;

use super::fio::Load;

/// How long each request of a load takes by the model, virtual s, and each flush; but for the requests
/// [whose end fio does not see](Load::unseen), those that were under way when the last one was made.
///
/// The kernel makes several requests of a long one: it takes from when the first comes until the last is complete.
pub(super) fn modelled(watched: &[Watched], load: Load) -> (Vec<f64>, Vec<f64>) {
    struct Parts {
        arrived: VirtualInstant,
        complete: VirtualInstant,
        bytes: u64,
    }
    let bytes = load.bytes;
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
            requests.push((whole.arrived, whole.complete));
            parts.remove(&place);
        }
    }
    let last = requests.iter().map(|(arrived, _)| *arrived).max();
    let seen = requests.iter().filter(|(_, complete)| load.unseen() == 0 || Some(*complete) <= last);
    (seen.map(|(arrived, complete)| complete.since(*arrived).as_secs_f64()).collect(), flushes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::fio::Pattern;

    fn part(op: Op, offset: u64, length: u64, from_us: u64, to_us: u64) -> Watched {
        let [arrived, complete] = [from_us, to_us].map(|us| VirtualInstant::from_nanos(us * 1_000));
        Watched { op, offset, length, arrived, complete }
    }

    fn load(depth: u32, bytes: u64) -> Load {
        Load { pattern: Pattern::ReadAtRandom, depth, bytes, count: 1, limit_s: 1 }
    }

    fn us(values: &[f64]) -> Vec<f64> {
        values.iter().map(|s| (s * 1e6).round()).collect()
    }

    #[test]
    fn what_is_under_way_when_the_last_is_made_does_not_count() {
        let watched =
            [(0, 5), (1, 40), (5, 12), (12, 30)].map(|(from, to)| part(Op::Read, from * 4096, 4096, from, to));
        assert_eq!(us(&modelled(&watched, load(2, 4096)).0), [5.0, 7.0]);
        assert_eq!(us(&modelled(&watched, load(1, 4096)).0), [5.0, 39.0, 7.0, 18.0]);
        assert!(modelled(&[], load(2, 4096)).0.is_empty());
    }

    #[test]
    fn parts_of_a_request_are_one() {
        let (requests, flushes) = modelled(
            &[
                part(Op::Read, 65_536, 4096, 5, 20),
                part(Op::Read, 0, 65_536, 0, 30),
                part(Op::Flush, 0, 0, 30, 34),
                part(Op::Read, 69_632, 61_440, 6, 46),
            ],
            load(1, 65_536),
        );
        assert_eq!((us(&requests), us(&flushes)), (vec![30.0, 41.0], vec![4.0]));
    }
}
