//! System calls of programs, compared: how often each was made, and the Markov chain of which followed which.
//!
//! The operating system's level of a comparison of test beds, after *Virtually the Same: Comparing Physical and Virtual
//! Testbeds* (SAND2019-1949C, sections 3 and 4), which drops the edges of a chain that are lighter than 0.001. How far
//! two chains are apart is one number here: the Jensen–Shannon distance between the shares that steps have of all (Lin,
//! *Divergence measures based on the Shannon entropy*, IEEE Transactions on Information Theory 37, 1991; its root is a
//! metric, Endres and Schindelin 2003). 0: alike, 1: no step in common.

use std::collections::BTreeMap;

use counters::{CallUse, NodeCalls, ProgramCalls, Step};
use record::Run;
use serde::Serialize;

use super::chance::chance;
use super::error_percent;

/// Steps of a smaller share are left out of what is shown: the paper's.
pub const LIGHTEST: f64 = 0.001;
const SEED: u64 = 0x5eed_ca11;
/// A metric counts requests if it has so many samples.
const FEWEST_REQUESTS: usize = 10;

/// A program in the base and in the other, over all nodes and pairs of runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProgramComparison {
    /// The name of its file.
    pub program: String,
    /// How often it called the kernel.
    pub made: [u64; 2],
    /// The distance of the shares of their steps, from 0 to 1; `None` if one of them made no call.
    pub distance: Option<f64>,
    /// In which part of draws of their intervals from both together they are as far apart: small, if they differ by
    /// more than chance within a run. `None` if there are too few intervals to say.
    pub chance: Option<f64>,
    /// Requests: the metric whose samples are counted as such, and how many there were; `None` if
    /// no metric has enough.
    pub requests: Option<(String, [usize; 2])>,
    /// Calls, those first that differ most by how often they are made.
    pub calls: Vec<CallComparison>,
    /// Steps that are not too light in one of the two, those first that differ most.
    pub steps: Vec<StepComparison>,
    /// Threads that waited, and that were put aside, for each thousand calls.
    pub voluntary_switches: [u64; 2],
    /// Likewise, that were put aside.
    pub involuntary_switches: [u64; 2],
    /// Page faults.
    pub page_faults: [u64; 2],
    /// CPU time, in s of a core of the machine.
    pub core_seconds: [f64; 2],
}

/// A call in the base and in the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallComparison {
    /// Its name.
    pub call: String,
    /// How often it was made.
    pub made: [u64; 2],
    /// For each request; without requests for each thousand calls of the program.
    pub rate: [f64; 2],
    /// By how much that of the other is off; `None` where the base made none.
    pub error_percent: Option<f64>,
    /// How often it gave back an error.
    pub errors: [u64; 2],
    /// Bytes that each moved, on average; `None` if it does not say, or none came back.
    pub bytes_each: [Option<f64>; 2],
    /// How long each took, with all waiting, in virtual µs; `None` if none came back.
    pub virtual_us_each: [Option<f64>; 2],
    /// How often dilation's image answered it.
    pub trapped: [u64; 2],
}

/// A step in the base and in the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepComparison {
    /// The call before; `None`: it was the first.
    pub from: Option<String>,
    /// The call.
    pub to: String,
    /// Its share of all steps of the program.
    pub share: [f64; 2],
    /// How often the one follows the other.
    pub probability: [f64; 2],
}

type Edge = (Option<String>, String);
type Counts = BTreeMap<Edge, f64>;

/// A program of one side: the sums of all nodes and runs.
#[derive(Default)]
struct Side {
    calls: BTreeMap<String, CallUse>,
    /// By interval, those of all nodes and runs one after the other.
    intervals: Vec<Counts>,
    voluntary_switches: u64,
    involuntary_switches: u64,
    page_faults: u64,
    core_seconds: f64,
}

/// All programs that the runs of both sides counted the calls of, those first that differ most.
pub(super) fn compare(base: &[&Run], other: &[&Run]) -> Vec<ProgramComparison> {
    let requests = requests(base, other);
    let [base, mut other] = [base, other].map(|runs| sides(runs.iter().flat_map(|run| run.calls.values())));
    let both = base.into_iter().filter_map(|(name, base)| Some((other.remove(&name)?, name, base)));
    let mut all: Vec<_> = both.map(|(other, name, base)| of_program(name, [&base, &other], requests.clone())).collect();
    all.sort_by(|a, b| b.distance.unwrap_or(0.0).total_cmp(&a.distance.unwrap_or(0.0)));
    all
}

/// The metric of both that has most samples, and how many.
pub(super) fn requests(base: &[&Run], other: &[&Run]) -> Option<(String, [usize; 2])> {
    let count = |runs: &[&Run], name: &str| -> Option<usize> {
        runs.iter().map(|run| run.result.metrics.get(name).map(|metric| metric.summary.n)).sum()
    };
    let names = base.first()?.result.metrics.keys();
    let counted = names.filter_map(|name| Some((name.clone(), [count(base, name)?, count(other, name)?])));
    let most = counted.max_by_key(|(_, [of_base, _])| *of_base)?;
    most.1.iter().all(|n| *n >= FEWEST_REQUESTS).then_some(most)
}

fn sides<'a>(nodes: impl Iterator<Item = &'a NodeCalls>) -> BTreeMap<String, Side> {
    let mut all: BTreeMap<String, Side> = BTreeMap::new();
    for program in nodes.flat_map(|node| &node.programs) {
        all.entry(program.program.clone()).or_default().add(program);
    }
    all
}

impl Side {
    fn add(&mut self, program: &ProgramCalls) {
        for call in &program.calls {
            let sum = self.calls.entry(call.call.clone()).or_default();
            sum.made += call.made;
            sum.ended += call.ended;
            sum.virtual_ns = sum.virtual_ns + call.virtual_ns;
            sum.errors += call.errors;
            sum.trapped += call.trapped;
            sum.bytes += call.bytes;
            if !call.sizes.is_empty() {
                sum.sizes = call.sizes.clone();
            }
        }
        let intervals = program.steps.iter().map(|step| step.counts.len()).max().unwrap_or(0);
        let first = self.intervals.len();
        self.intervals.resize_with(first + intervals, Counts::new);
        for Step { from, to, counts } in &program.steps {
            for (interval, count) in self.intervals[first..].iter_mut().zip(counts).filter(|(_, count)| **count > 0) {
                *interval.entry((from.clone(), to.clone())).or_default() += *count as f64;
            }
        }
        self.voluntary_switches += program.voluntary_switches;
        self.involuntary_switches += program.involuntary_switches;
        self.page_faults += program.page_faults;
        self.core_seconds += program.cpu_real_ns.as_secs_f64();
    }

    fn made(&self) -> u64 {
        self.calls.values().map(|call| call.made).sum()
    }
}

fn of_program(program: String, sides: [&Side; 2], requests: Option<(String, [usize; 2])>) -> ProgramComparison {
    let made = sides.map(Side::made);
    let chains = sides.map(|side| sum(side.intervals.iter()));
    let busy = sides.map(|side| side.intervals.iter().filter(|counts| !counts.is_empty()).collect::<Vec<_>>());
    let distance = distance(&chains[0], &chains[1]);
    let chance = distance.and_then(|distance| chance_of(&busy, distance));
    let per = match &requests {
        Some((_, n)) => n.map(|n| n as f64),
        None => made.map(|made| made as f64 / 1_000.0),
    };
    ProgramComparison {
        program,
        made,
        distance,
        chance,
        requests,
        calls: calls(sides, per),
        steps: steps(&chains),
        voluntary_switches: sides.map(|side| side.voluntary_switches),
        involuntary_switches: sides.map(|side| side.involuntary_switches),
        page_faults: sides.map(|side| side.page_faults),
        core_seconds: sides.map(|side| side.core_seconds),
    }
}

fn calls(sides: [&Side; 2], per: [f64; 2]) -> Vec<CallComparison> {
    let none = CallUse::default();
    let mut names: Vec<&String> = sides.iter().flat_map(|side| side.calls.keys()).collect();
    names.sort();
    names.dedup();
    let one = |call: &String| {
        let [base, other] = sides.map(|side| side.calls.get(call).unwrap_or(&none));
        let both = [base, other];
        let rate = [0, 1].map(|side| both[side].made as f64 / per[side].max(f64::MIN_POSITIVE));
        let each = |value: f64, of: u64| (of > 0).then(|| value / of as f64);
        CallComparison {
            call: call.clone(),
            made: both.map(|side| side.made),
            rate,
            error_percent: error_percent(rate[0], rate[1]),
            errors: both.map(|side| side.errors),
            bytes_each: both.map(|side| match side.sizes.is_empty() {
                true => None,
                false => each(side.bytes as f64, side.ended.saturating_sub(side.errors)),
            }),
            virtual_us_each: both.map(|side| each(side.virtual_ns.as_secs_f64() * 1e6, side.ended)),
            trapped: both.map(|side| side.trapped),
        }
    };
    let mut all: Vec<CallComparison> = names.into_iter().map(one).collect();
    let differs = |call: &CallComparison| (call.rate[1] - call.rate[0]).abs();
    all.sort_by(|a, b| differs(b).total_cmp(&differs(a)).then_with(|| b.made.cmp(&a.made)));
    all
}

fn steps([base, other]: &[Counts; 2]) -> Vec<StepComparison> {
    let (totals, after) = ([base, other].map(total), [base, other].map(by_first));
    let mut edges: Vec<&Edge> = base.keys().chain(other.keys()).collect();
    edges.sort();
    edges.dedup();
    let one = |edge: &Edge| {
        let counts = [base, other].map(|chain| chain.get(edge).copied().unwrap_or(0.0));
        let part = |of: [f64; 2]| [0, 1].map(|side| if of[side] > 0.0 { counts[side] / of[side] } else { 0.0 });
        let of_first = [0, 1].map(|side| after[side].get(&edge.0).copied().unwrap_or(0.0));
        StepComparison { from: edge.0.clone(), to: edge.1.clone(), share: part(totals), probability: part(of_first) }
    };
    let mut all: Vec<StepComparison> = edges.into_iter().map(one).collect();
    all.retain(|step| step.share.iter().any(|share| *share >= LIGHTEST));
    let differs = |step: &StepComparison| (step.share[1] - step.share[0]).abs();
    all.sort_by(|a, b| differs(b).total_cmp(&differs(a)));
    all
}

fn total(chain: &Counts) -> f64 {
    chain.values().sum()
}

/// How often each call was followed by any.
fn by_first(chain: &Counts) -> BTreeMap<Option<String>, f64> {
    let mut sums = BTreeMap::new();
    for ((from, _), count) in chain {
        *sums.entry(from.clone()).or_default() += count;
    }
    sums
}

fn sum<'a>(intervals: impl Iterator<Item = &'a Counts>) -> Counts {
    let mut all = Counts::new();
    for (edge, count) in intervals.flatten() {
        *all.entry(edge.clone()).or_default() += count;
    }
    all
}

/// The Jensen–Shannon distance of two chains by the shares of their steps; `None` if one of them has none.
fn distance(a: &Counts, b: &Counts) -> Option<f64> {
    let edges: Vec<&Edge> = a.keys().chain(b.keys().filter(|edge| !a.contains_key(*edge))).collect();
    let counts = |chain: &Counts| edges.iter().map(|edge| chain.get(*edge).copied().unwrap_or(0.0)).collect::<Vec<_>>();
    apart(&counts(a), &counts(b))
}

/// Likewise, of counts of the same steps in the same order.
fn apart(a: &[f64], b: &[f64]) -> Option<f64> {
    let totals = [a, b].map(|counts| counts.iter().sum::<f64>());
    if totals.contains(&0.0) {
        return None;
    }
    let towards = |p: f64, middle: f64| if p > 0.0 { p * (p / middle).log2() } else { 0.0 };
    let divergence: f64 = a
        .iter()
        .zip(b)
        .map(|(a, b)| {
            let (p, q) = (a / totals[0], b / totals[1]);
            let middle = (p + q) / 2.0;
            (towards(p, middle) + towards(q, middle)) / 2.0
        })
        .sum();
    Some(divergence.clamp(0.0, 1.0).sqrt())
}

/// The [chance] that intervals of one program are as far apart as these two are.
fn chance_of(busy: &[Vec<&Counts>; 2], distance: f64) -> Option<f64> {
    let mut places: BTreeMap<&Edge, usize> = BTreeMap::new();
    for edge in busy.iter().flatten().flat_map(|counts| counts.keys()) {
        let next = places.len();
        places.entry(edge).or_insert(next);
    }
    let placed = |counts: &&Counts| counts.iter().map(|(edge, n)| (places[edge], *n)).collect::<Vec<_>>();
    let intervals = busy.each_ref().map(|intervals| intervals.iter().map(placed).collect());
    chance(&intervals, SEED, |drawn| {
        let [a, b] = drawn.map(|intervals| {
            let mut counts = vec![0.0; places.len()];
            for (place, count) in intervals.iter().copied().flatten() {
                counts[*place] += count;
            }
            counts
        });
        apart(&a, &b).is_some_and(|drawn| drawn >= distance)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(steps: &[(&str, &str, &[u64])]) -> ProgramCalls {
        let step = |(from, to, counts): &(&str, &str, &[u64])| Step {
            from: (!from.is_empty()).then(|| (*from).into()),
            to: (*to).into(),
            counts: counts.to_vec(),
        };
        let steps: Vec<Step> = steps.iter().map(step).collect();
        let mut calls: BTreeMap<String, CallUse> = BTreeMap::new();
        for step in &steps {
            let call = calls.entry(step.to.clone()).or_default();
            *call = CallUse { call: step.to.clone(), made: call.made + step.count(), ended: 1, ..CallUse::default() };
        }
        ProgramCalls { program: "nginx".into(), calls: calls.into_values().collect(), steps, ..ProgramCalls::default() }
    }

    fn compared(base: &ProgramCalls, other: &ProgramCalls) -> ProgramComparison {
        let side = |program: &ProgramCalls| {
            let mut side = Side::default();
            side.add(program);
            side
        };
        of_program("nginx".into(), [&side(base), &side(other)], None)
    }

    /// Eight intervals of a loop of three calls, with some more or less in each.
    const LOOP: [(&str, &str, &[u64]); 3] = [
        ("write", "epoll_wait", &[100, 110, 90, 105, 95, 100, 102, 98]),
        ("epoll_wait", "read", &[100, 108, 92, 104, 96, 101, 101, 98]),
        ("read", "write", &[100, 109, 91, 105, 95, 100, 102, 98]),
    ];

    #[test]
    fn a_program_is_at_no_distance_of_itself_and_of_one_that_does_it_half_as_often() {
        let base = program(&LOOP);
        let half = LOOP.map(|(from, to, counts)| (from, to, counts.iter().map(|n| n / 2).collect::<Vec<_>>()));
        let half = half.each_ref().map(|(from, to, counts)| (*from, *to, counts.as_slice()));
        let (same, slow) = (compared(&base, &base), compared(&base, &program(&half)));
        assert!(same.distance.unwrap() < 1e-6 && same.chance == Some(1.0), "{same:?}");
        assert!(slow.distance.unwrap() < 0.01 && slow.chance.unwrap() > 0.05, "{slow:?}");
        assert_eq!((same.made, slow.made[1] * 2 > slow.made[0] - 20), ([2_400; 2], true));
    }

    #[test]
    fn what_is_called_otherwise_is_found_and_stands_first() {
        let base = program(&LOOP);
        // It reads in two pieces.
        let pieces = program(&[
            LOOP[0],
            ("epoll_wait", "read", &[100, 108, 92, 104, 96, 101, 101, 98]),
            ("read", "read", &[100, 108, 92, 104, 96, 101, 101, 98]),
            ("read", "write", &[100, 109, 91, 105, 95, 100, 102, 98]),
        ]);
        let found = compared(&base, &pieces);
        assert!(found.distance.unwrap() > 0.3 && found.chance == Some(0.0), "{found:?}");
        let first = &found.steps[0];
        assert_eq!((first.from.as_deref(), first.to.as_str()), (Some("read"), "read"));
        assert!(first.share[0] == 0.0 && (first.probability[1] - 0.5).abs() < 0.01, "{first:?}");
        // Of a thousand calls, a half reads, which had been a third.
        let read = &found.calls[0];
        assert_eq!(read.call, "read");
        assert!((read.rate[0] - 333.0).abs() < 2.0 && (read.rate[1] - 500.0).abs() < 2.0, "{read:?}");
        // As far apart as can be.
        let other = program(&[("", "getppid", &[1, 2, 3, 4])]);
        assert_eq!(compared(&base, &other).distance, Some(1.0));
        assert_eq!(compared(&base, &program(&[])).distance, None);
    }

    #[test]
    fn few_intervals_say_nothing_of_chance_and_light_steps_are_not_shown() {
        let heavy = ("read", "write", &[10_000, 10_000, 10_000][..]);
        let found = compared(&program(&[heavy]), &program(&[heavy, ("write", "close", &[1, 1, 1])]));
        assert_eq!(found.chance, None);
        assert_eq!(found.steps.len(), 1, "{:?}", found.steps);
    }
}
