//! Packets of nodes, compared: how many, how large, how many were sent again or lost, how long they took.
//!
//! The network's level of a comparison of test beds (*Virtually the Same: Comparing Physical and Virtual Testbeds*,
//! SAND2019-1949C, section 3). Flows of both are matched by their two nodes, protocol and port of the server, and are
//! summed.

use std::collections::BTreeMap;

use counters::{Carried, ObservedPackets, PacketCounters, Spread, Way};
use record::{Run, Series};
use serde::Serialize;

use super::chance::{NO_CHANCE, chance};
use super::{calls, error_percent};
use crate::statistics::median;

const SEED: u64 = 0x5eed_0e7f;
/// Differences that are no chance, and smaller than this, are not worth a word: %.
const SMALL: f64 = 1.0;
/// Where no chance is known, it takes so much to be told as a difference: %.
const LARGE: f64 = 10.0;

/// The packets of the base and of the other, over all pairs of runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NetworkComparison {
    /// Requests: the metric whose samples are counted as such, and how many there were; `None` if no metric has enough.
    pub requests: Option<(String, [usize; 2])>,
    /// Flows from one node to another by one protocol and port, those first that differ most.
    pub ways: Vec<WayComparison>,
    /// How many entries, arrivals and losses of packets were not seen.
    pub missed: [u64; 2],
}

/// Flows of the base and of the other that went one way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WayComparison {
    /// Their protocol.
    pub protocol: String,
    /// The node that sends.
    pub from: String,
    /// The node that they are for.
    pub to: String,
    /// The port of the one that is asked.
    pub server_port: Option<u16>,
    /// Whether the one that sends has opened them.
    pub asks: bool,
    /// How many flows.
    pub flows: [u64; 2],
    /// How many packets.
    pub packets: [u64; 2],
    /// The bytes of their frames.
    pub bytes: [u64; 2],
    /// Measures of them, that first which differs most; none of ways that only one of the two has.
    pub measures: Vec<Measure>,
}

/// Something that was measured of packets in the base and in the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its values; `None` where there was nothing to measure.
    pub values: [Option<f64>; 2],
    /// By how much that of the other is off; `None` where it would be infinite.
    pub error_percent: Option<f64>,
    /// In which part of draws of their intervals from both together they are as far apart: small, if they differ by
    /// more than chance within a run. `None` if that is not known.
    pub chance: Option<f64>,
}

impl Measure {
    /// Whether they differ by more than chance, as far as that is known, and by enough to speak of.
    pub fn differs(&self) -> bool {
        let [Some(base), Some(other)] = self.values else { return false };
        let most = match self.chance {
            Some(chance) if chance >= NO_CHANCE => return false,
            Some(_) => SMALL,
            None => LARGE,
        };
        base != other && self.error_percent.is_none_or(|error| error.abs() > most)
    }

    /// How far they are apart, of all: 1 if one of them is nothing.
    fn apart(&self) -> f64 {
        let [Some(base), Some(other)] = self.values else { return 0.0 };
        (other - base).abs() / (base.abs() + other.abs()).max(f64::MIN_POSITIVE)
    }
}

impl WayComparison {
    /// The measures that differ.
    pub fn differences(&self) -> impl Iterator<Item = &Measure> {
        self.measures.iter().filter(|measure| measure.differs())
    }
}

/// A sum over a sum, in some unit.
struct Ratio {
    name: &'static str,
    unit: &'static str,
    scale: f64,
    parts: fn(&PacketCounters) -> [u64; 2],
}

const RATIOS: [Ratio; 8] = [
    Ratio { name: "payload", unit: "B/packet", scale: 1.0, parts: |c| [c.payload_bytes, c.packets] },
    Ratio { name: "retransmissions", unit: "% of segments", scale: 100.0, parts: |c| [c.retransmissions, c.segments] },
    Ratio { name: "dropped", unit: "% of packets", scale: 100.0, parts: |c| [c.dropped() + c.damaged, c.packets] },
    Ratio { name: "duplicates", unit: "% of arrivals", scale: 100.0, parts: |c| [c.duplicates, c.delivered] },
    Ratio { name: "out-of-order", unit: "% of arrivals", scale: 100.0, parts: |c| [c.out_of_order, c.delivered] },
    Ratio { name: "delay", unit: "ms", scale: 1e-6, parts: |c| [c.delay_ns, c.delays] },
    Ratio { name: "jitter", unit: "ms", scale: 1e-6, parts: |c| [c.jitter_ns, c.jitters] },
    Ratio { name: "round-trip", unit: "ms", scale: 1e-6, parts: |c| [c.round_trip_ns, c.round_trips] },
];

/// A value of how something is spread, in some unit; of several runs, the middle one.
struct Quantile {
    name: &'static str,
    unit: &'static str,
    scale: f64,
    spread: fn(&Carried) -> Option<Spread>,
    value: fn(&Spread) -> u64,
}

const QUANTILES: [Quantile; 3] = [
    Quantile { name: "delay-p99", unit: "ms", scale: 1e-6, spread: |c| c.delays_ns, value: |s| s.p99 },
    Quantile { name: "round-trip-p99", unit: "ms", scale: 1e-6, spread: |c| c.round_trips_ns, value: |s| s.p99 },
    Quantile { name: "window-median", unit: "B", scale: 1.0, spread: |c| c.windows, value: |s| s.median },
];

/// Identity of flows in two runs.
type Key = (String, String, String, Option<u16>, bool);

/// Packets of all runs of one side that went one way.
#[derive(Default)]
struct Side<'a> {
    flows: u64,
    sum: PacketCounters,
    ways: Vec<&'a Way>,
}

/// The packets that the runs of both sides observed; or why there is nothing to compare.
pub(super) fn compare(base: &Series, other: &Series) -> Result<NetworkComparison, String> {
    let all = base.runs.values().chain(other.runs.values());
    if let Some(lacks) = all.into_iter().find(|run| run.packets.is_none()) {
        return Err(format!(
            "the packets of {} were not observed: write `observe: {{ packets: true }}` at a node, and run it again",
            lacks.dir.path().display()
        ));
    }
    let requests = calls::requests(&super::all(base), &super::all(other));
    let observed =
        [base, other].map(|series| series.runs.values().filter_map(|run: &Run| run.packets.as_ref()).collect());
    Ok(of_observed(observed, requests))
}

fn of_observed(observed: [Vec<&ObservedPackets>; 2], requests: Option<(String, [usize; 2])>) -> NetworkComparison {
    let missed = observed.each_ref().map(|runs| runs.iter().map(|run| run.missed).sum());
    let sides = observed.map(|runs| sides(&runs));
    let mut keys: Vec<&Key> = sides.iter().flat_map(|side| side.keys()).collect();
    keys.sort();
    keys.dedup();
    let none = Side::default();
    let n = requests.as_ref().map(|(_, n)| *n);
    let one = |key: &Key| of_way(key, [0, 1].map(|side| sides[side].get(key).unwrap_or(&none)), n);
    let mut ways: Vec<WayComparison> = keys.into_iter().map(one).collect();
    let apart = |way: &WayComparison| way.differences().map(Measure::apart).fold(0.0, f64::max);
    let packets = |way: &WayComparison| way.packets.iter().sum::<u64>();
    ways.sort_by(|a, b| apart(b).total_cmp(&apart(a)).then_with(|| packets(b).cmp(&packets(a))));
    NetworkComparison { requests, ways, missed }
}

fn sides<'a>(runs: &[&'a ObservedPackets]) -> BTreeMap<Key, Side<'a>> {
    let mut all: BTreeMap<Key, Side> = BTreeMap::new();
    for way in runs.iter().flat_map(|run| &run.ways) {
        let key = (way.protocol.clone(), way.from.clone(), way.to.clone(), way.server_port, way.asks);
        let side = all.entry(key).or_default();
        side.flows += way.flows;
        side.sum.add(&way.carried.counters);
        side.ways.push(way);
    }
    all
}

fn of_way(key: &Key, sides: [&Side; 2], requests: Option<[usize; 2]>) -> WayComparison {
    let (protocol, from, to, server_port, asks) = key.clone();
    let mut measures = Vec::new();
    if sides.iter().all(|side| !side.ways.is_empty()) {
        measures.extend(requests.map(|n| per_request(sides, n)));
        measures.extend(RATIOS.iter().map(|ratio| of_ratio(ratio, sides)));
        measures.extend(QUANTILES.iter().map(|quantile| of_quantile(quantile, sides)));
        measures.retain(|measure| measure.values.iter().any(Option::is_some));
        let is_known = |measure: &Measure| (measure.differs(), measure.apart());
        measures.sort_by(|a, b| {
            let ((a_differs, a_apart), (b_differs, b_apart)) = (is_known(a), is_known(b));
            b_differs.cmp(&a_differs).then_with(|| b_apart.total_cmp(&a_apart))
        });
    }
    WayComparison {
        protocol,
        from,
        to,
        server_port,
        asks,
        flows: sides.map(|side| side.flows),
        packets: sides.map(|side| side.sum.packets),
        bytes: sides.map(|side| side.sum.bytes),
        measures,
    }
}

fn measure(name: &'static str, unit: &'static str, values: [Option<f64>; 2], chance: Option<f64>) -> Measure {
    let error_percent = match values {
        [Some(base), Some(other)] => error_percent(base, other),
        _ => None,
    };
    Measure { name, unit, values, error_percent, chance }
}

fn per_request(sides: [&Side; 2], requests: [usize; 2]) -> Measure {
    let values = [0, 1].map(|side| Some(sides[side].sum.packets as f64 / requests[side].max(1) as f64));
    measure("packets", "for each request", values, None)
}

fn of_quantile(quantile: &Quantile, sides: [&Side; 2]) -> Measure {
    let values = sides.map(|side| {
        let spreads = side.ways.iter().filter_map(|way| (quantile.spread)(&way.carried));
        median(spreads.map(|spread| quantile.scale * (quantile.value)(&spread) as f64).collect())
    });
    measure(quantile.name, quantile.unit, values, None)
}

fn of_ratio(ratio: &Ratio, sides: [&Side; 2]) -> Measure {
    let values = sides.map(|side| quotient((ratio.parts)(&side.sum)));
    let intervals = sides.map(|side| {
        let all = side.ways.iter().flat_map(|way| &way.intervals).map(|interval| (ratio.parts)(interval));
        all.filter(|[_, of]| *of > 0).collect::<Vec<_>>()
    });
    let chance = match values {
        [Some(base), Some(other)] => chance(&intervals, SEED, |drawn| are_as_far(drawn, (other - base).abs())),
        _ => None,
    };
    measure(ratio.name, ratio.unit, values.map(|value| value.map(|value| ratio.scale * value)), chance)
}

fn quotient([part, of]: [u64; 2]) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// Whether the quotients of drawn intervals are as far apart as that, but for what is lost in rounding.
fn are_as_far(drawn: [&[&[u64; 2]]; 2], apart: f64) -> bool {
    let sum = |of: &[&[u64; 2]]| of.iter().fold([0, 0], |sum, [part, of]| [sum[0] + part, sum[1] + of]);
    matches!(drawn.map(|of| quotient(sum(of))), [Some(a), Some(b)] if (a - b).abs() >= apart * (1.0 - 1e-12))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A way of so many intervals of about a hundred packets each, of which some are sent again, and their delay in us.
    fn way(again: [u64; 8], delay_us: u64) -> Way {
        let wobble = |n: usize| [3, 0, 5, 1, 4, 2, 6, 0][n];
        let interval = |(n, again): (usize, u64)| PacketCounters {
            packets: 100 + wobble(n),
            payload_bytes: 100_000 + 1_000 * wobble(n),
            segments: 100,
            retransmissions: again,
            delivered: 100,
            delays: 100,
            delay_ns: 100 * 1_000 * (delay_us + wobble(n)),
            ..PacketCounters::default()
        };
        let intervals: Vec<_> = again.into_iter().enumerate().map(interval).collect();
        let mut counters = PacketCounters::default();
        intervals.iter().for_each(|interval| counters.add(interval));
        let carried = Carried { counters, ..Carried::default() };
        let (protocol, from, to) = ("tcp".into(), "server".into(), "client".into());
        Way { protocol, from, to, server_port: Some(80), asks: false, flows: 3, carried, intervals }
    }

    fn compared(base: Way, other: Way) -> NetworkComparison {
        let [base, other] = [base, other].map(|way| ObservedPackets { ways: vec![way], ..Default::default() });
        of_observed([vec![&base], vec![&other]], Some(("latency".into(), [80, 80])))
    }

    #[test]
    fn runs_that_are_alike_do_not_differ() {
        let same = compared(way([2, 3, 1, 2, 0, 4, 2, 1], 5_000), way([1, 2, 4, 2, 2, 0, 3, 2], 5_002));
        let way = &same.ways[0];
        assert_eq!(way.differences().count(), 0, "{way:?}");
        let again = way.measures.iter().find(|m| m.name == "retransmissions").unwrap();
        assert!(again.chance.unwrap() > 0.3 && again.values[0] == Some(1.875), "{again:?}");
    }

    #[test]
    fn what_differs_is_found_and_stands_first() {
        let lossy = compared(way([0; 8], 5_000), way([2, 3, 1, 2, 1, 4, 2, 1], 5_002));
        let first = &lossy.ways[0].measures[0];
        assert_eq!((first.name, first.chance, first.error_percent), ("retransmissions", Some(0.0), None));
        assert_eq!(lossy.ways[0].differences().count(), 1, "{lossy:?}");
        let slow = compared(way([1; 8], 5_000), way([1; 8], 6_000));
        let first = &slow.ways[0].measures[0];
        assert_eq!((first.name, first.unit, first.chance), ("delay", "ms", Some(0.0)));
        assert!((first.error_percent.unwrap() - 20.0).abs() < 0.1 && first.differs());
    }

    #[test]
    fn ways_that_only_one_has_are_told_and_few_intervals_say_nothing_of_chance() {
        let other = Way { server_port: Some(81), ..way([0; 8], 5_000) };
        let apart = compared(way([0; 8], 5_000), other);
        assert_eq!(apart.ways.len(), 2);
        assert!(apart.ways.iter().all(|way| way.measures.is_empty() && way.flows.contains(&0)), "{apart:?}");
        let short = |again| {
            let mut short = way([again; 8], 5_000);
            short.intervals.truncate(2);
            short
        };
        let few = compared(short(0), short(5));
        let first = &few.ways[0].measures[0];
        assert_eq!((first.name, first.chance, first.differs()), ("retransmissions", None, true));
    }

    #[test]
    fn packets_are_counted_for_each_request() {
        let twice = compared(way([0; 8], 5_000), {
            let mut twice = way([0; 8], 5_000);
            twice.carried.counters.packets *= 2;
            twice
        });
        let first = twice.ways[0].measures.iter().find(|m| m.unit == "for each request").unwrap();
        assert_eq!((first.values[0], first.values[1]), (Some(821.0 / 80.0), Some(1642.0 / 80.0)));
        assert!(first.differs());
    }
}
