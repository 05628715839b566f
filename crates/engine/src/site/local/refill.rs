//! Gives nodes back what they lose at the start of their turns.
//!
//! A thread lets turns of three lengths alternate and counts what each node gets done in each; what it makes of that is
//! [`cpu::refill`]'s. Between two rounds of the three, seldom, one node of each core has the longest turns that there
//! are. It touches neither the nodes nor the emulator: CPU time is in the kernel's counters, and so is
//! what passes a node's interfaces; where the processor counts instructions by control group, those say more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard};

use cpu::CpuGroups;
use cpu::refill::{
    Alternation, Candidate, Estimator, Factors, Guess, LENGTHS, Learned, Observed, Standing, Window, Windows, fit,
};
use host::perf::{Event, GroupCounter};
use net::Traffic;
use scale::{RealDuration, Turns};

use super::background::Background;
use crate::earlier_refills::Earlier;
use crate::error::{Error, Result};
use crate::site::{EarlierRefill, NodeRefill, NodeSetup, Setup};

/// Of what is usable of the core, refills may take what leaves nodes room for this many times that: the core may become
/// slower.
const ROOM_TO_SLOW_DOWN: f64 = 1.15;
/// What lasted longer than this many times what was planned was not a time with turns of one length.
const OVERSLEPT: f64 = 1.5;

/// What nodes get done, from their start on.
trait Progress: Send {
    /// By node, in any unit that only grows.
    fn read(&mut self) -> Vec<u64>;
}

impl Progress for Traffic {
    fn read(&mut self) -> Vec<u64> {
        self.bytes()
    }
}

/// By node, the instructions of its programs.
struct Instructions(Vec<GroupCounter>);

impl Instructions {
    /// `None` where the processor does not count them by control group.
    fn of(groups: &CpuGroups, setup: &Setup) -> Option<Instructions> {
        let of = |n: &NodeSetup| GroupCounter::open(&groups.container(&n.name), n.core, Event::Instructions);
        setup.nodes.iter().map(|n| of(n).ok()).collect::<Option<_>>().map(Instructions)
    }
}

impl Progress for Instructions {
    fn read(&mut self) -> Vec<u64> {
        self.0.iter().map(|counter| counter.read().unwrap_or(0)).collect()
    }
}

/// What is believed of a node before it has done anything.
pub struct Beginning {
    /// From the caches of its core.
    pub guess: Guess,
    /// From earlier runs.
    pub earlier: Option<Earlier>,
}

impl Beginning {
    fn estimator(&self, around: &Alternation) -> Estimator {
        let estimator = Estimator::new(self.guess, around);
        match &self.earlier {
            Some(Earlier { learned, age }) => estimator.with_earlier(learned.clone(), *age),
            None => estimator,
        }
    }
}

/// The thread, and what it knows.
pub struct Refills {
    known: Arc<Mutex<Known>>,
    _thread: Background,
}

#[derive(Default)]
struct Known {
    nodes: Vec<NodeRefill>,
    /// By node, what later runs may begin with; empty until the thread has ended.
    learned: Vec<Option<Learned>>,
    failed: Option<Error>,
}

impl Refills {
    /// Starts, at virtual zero. `beginnings` are by node.
    pub fn start(
        groups: Arc<Mutex<CpuGroups>>,
        setup: &Setup,
        traffic: Traffic,
        beginnings: &[Beginning],
    ) -> Result<Refills> {
        let shares: Vec<f64> = setup.nodes.iter().map(|n| n.share).collect();
        let progress: Box<dyn Progress> = match Instructions::of(&locked(&groups), setup) {
            Some(instructions) => Box::new(instructions),
            None => Box::new(traffic),
        };
        let smallest = shares.iter().copied().fold(1.0, f64::min);
        let around = Alternation::around(setup.terms.slice, smallest, setup.lasts);
        let longest = |n: &NodeSetup| locked(&groups).longest_turn(n.core);
        let own = |n: &NodeSetup| {
            let own = around.stretched(n.stretch);
            longest(n).map_or(own, |longest| own.with_windows_of(longest))
        };
        let turns: Vec<_> = setup.nodes.iter().map(own).collect();
        let begun = beginnings.iter().zip(&turns);
        let estimators: Vec<_> = begun.map(|(beginning, own)| beginning.estimator(own)).collect();
        let told = estimators.iter().zip(beginnings).zip(&turns);
        let earlier = told.map(|((estimator, beginning), own)| {
            let Earlier { learned, age } = beginning.earlier.as_ref()?;
            let (refill, error) = estimator.refill().of_turn(own.mean());
            Some(EarlierRefill { age: *age, rounds: learned.rounds, refill, error, rejected: false })
        });
        let earlier = earlier.collect();
        let known = Arc::new(Mutex::new(Known::default()));
        let (stop, stopped) = channel();
        let cores: Vec<usize> = setup.nodes.iter().map(|n| n.core).collect();
        // One that can have no longer turns learns nothing from a window, and has none.
        let candidate = |(n, own): (&NodeSetup, &Alternation)| {
            let window = longest(n).unwrap_or_default();
            Candidate { core: n.core, share: n.share, turn: own.mean(), window }
        };
        let candidates = setup.nodes.iter().zip(&turns).map(candidate);
        let windows = Windows::new(candidates, setup.lasts);
        let mut work = Work {
            groups,
            cores,
            shares,
            progress,
            around,
            turns,
            windows,
            estimators,
            earlier,
            known: known.clone(),
            stopped,
        };
        let factors = work.publish();
        let body = move || {
            if let Err(e) = work.go_on(factors) {
                locked(&work.known).failed = Some(e);
            }
            let learned = work.estimators.iter().map(Estimator::learned).collect();
            locked(&work.known).learned = learned;
        };
        Ok(Refills { known, _thread: Background::start("refill", stop, body)? })
    }

    /// What is known of each node by now. Fails if the thread has.
    pub fn known(&self) -> Result<Vec<NodeRefill>> {
        let mut known = locked(&self.known);
        known.failed.take().map_or(Ok(known.nodes.clone()), Err)
    }

    /// Ends, and tells by node what later runs may begin with.
    pub fn finish(self) -> Vec<Option<Learned>> {
        let known = self.known.clone();
        drop(self);
        std::mem::take(&mut locked(&known).learned)
    }
}

/// What the thread has.
struct Work {
    groups: Arc<Mutex<CpuGroups>>,
    /// By node, the core that it is on.
    cores: Vec<usize>,
    shares: Vec<f64>,
    progress: Box<dyn Progress>,
    around: Alternation,
    /// By node, its own turns, which change together with all others.
    turns: Vec<Alternation>,
    windows: Windows,
    estimators: Vec<Estimator>,
    /// By node, what it began with.
    earlier: Vec<Option<EarlierRefill>>,
    known: Arc<Mutex<Known>>,
    stopped: Receiver<()>,
}

/// All counters at one instant.
struct Counted {
    at: scale::RealInstant,
    /// By node, what a node with all of its core wanted.
    wanted_ns: Vec<u64>,
    cpu_ns: Vec<u64>,
    progress: Vec<u64>,
}

impl Work {
    /// Until it is stopped. It begins with these factors.
    fn go_on(&mut self, mut factors: Vec<Factors>) -> Result<()> {
        let begun = self.count()?;
        let mut round = [const { None }; LENGTHS];
        for n in 0.. {
            let dwell = self.around.dwell(n);
            let as_planned = self.set(dwell.turn, &[], &factors, |_, f| f.by_turn[dwell.which])?;
            let Some([before, after]) = self.count_both(dwell.wash_out, dwell.counted)? else { return Ok(()) };
            let as_planned = as_planned && locked(&self.groups).keeps_slice()?;
            round[dwell.which] = if as_planned { observed(&before, &after, dwell.counted) } else { None };
            if dwell.ends_round {
                self.observe(std::mem::take(&mut round));
                factors = self.publish();
                let used: Vec<_> = grown(&begun.cpu_ns, &after.cpu_ns).map(RealDuration::from_nanos).collect();
                let window = self.windows.next(after.at.since(begun.at), &used);
                let stopped = window.map_or(Ok(false), |window| self.is_stopped_in(&window, &factors))?;
                if stopped {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Some nodes have the longest turns, and all others those of middle length. Returns whether it is to stop.
    fn is_stopped_in(&mut self, window: &Window, factors: &[Factors]) -> Result<bool> {
        let middle = LENGTHS / 2;
        let of = |node, f: &Factors| if window.nodes.contains(&node) { f.long } else { f.by_turn[middle] };
        self.set(self.around.turns()[middle], &window.nodes, factors, of)?;
        let Some([before, after]) = self.count_both(window.wash_out, window.counted)? else { return Ok(true) };
        let seen = observed(&before, &after, window.counted);
        for node in &window.nodes {
            match &seen {
                Some(seen) => self.estimators[*node].observe_long(seen[*node]),
                None => self.estimators[*node].missed(),
            }
        }
        Ok(false)
    }

    /// Turns have this length from now on, but for those nodes that have the longest, and each node has its share times
    /// `factor`. Returns whether they have: two runs that share slices of the whole machine have turns of one length,
    /// and their nodes the mean of their factors.
    fn set(
        &self,
        turn: RealDuration,
        longest: &[usize],
        factors: &[Factors],
        factor: impl Fn(usize, &Factors) -> f64,
    ) -> Result<bool> {
        let mut groups = locked(&self.groups);
        let as_planned = groups.set_slices(turn, longest)? == turn;
        let of = |(node, f)| if as_planned { factor(node, f) } else { f.mean() };
        groups.raise(&factors.iter().enumerate().map(of).collect::<Vec<_>>())?;
        Ok(as_planned)
    }

    /// What has been counted after the first time, and after the second; `None` if it is stopped before.
    fn count_both(&mut self, wash_out: RealDuration, counted: RealDuration) -> Result<Option<[Counted; 2]>> {
        if self.stops_within(wash_out) {
            return Ok(None);
        }
        let before = self.count()?;
        if self.stops_within(counted) {
            return Ok(None);
        }
        Ok(Some([before, self.count()?]))
    }

    /// What all nodes did in the times of a round. One that lacks one of them says nothing.
    fn observe(&mut self, round: [Option<Vec<Observed>>; LENGTHS]) {
        if round.iter().any(Option::is_none) {
            return self.estimators.iter_mut().for_each(Estimator::missed);
        }
        let round = round.map(Option::unwrap_or_default);
        for (node, estimator) in self.estimators.iter_mut().enumerate() {
            estimator.observe(std::array::from_fn(|which| round[which][node]));
        }
    }

    fn stops_within(&self, time: RealDuration) -> bool {
        self.stopped.recv_timeout(time.into()) != Err(RecvTimeoutError::Timeout)
    }

    fn count(&mut self) -> Result<Counted> {
        let sample = locked(&self.groups).sample()?;
        let progress = self.progress.read();
        // With shares of time nothing is known of a core's pace.
        let wanted_ns = self.cores.iter().map(|core| sample.work_of(*core).map_or(0, |work| work.wanted_ns)).collect();
        let cpu_ns = sample.nodes.iter().map(|n| n.container_ns).collect();
        Ok(Counted { at: sample.at, wanted_ns, cpu_ns, progress })
    }

    /// Tells what is known by now, and returns by how much shares are to be raised.
    fn publish(&self) -> Vec<Factors> {
        let estimates: Vec<_> = self.estimators.iter().map(Estimator::refill).collect();
        let wanted: Vec<_> = estimates.iter().zip(&self.turns).map(|(estimate, own)| estimate.factors(own)).collect();
        let mut factors = vec![Factors::ONE; wanted.len()];
        let groups = locked(&self.groups);
        for core in groups.cores() {
            let room = groups.usable(*core) / ROOM_TO_SLOW_DOWN;
            fit_core(*core, &self.cores, &self.shares, &wanted, room, &mut factors);
        }
        drop(groups);
        let begun = self.earlier.iter().zip(&self.estimators);
        let known = estimates.iter().zip(&self.turns).zip(&factors).zip(begun);
        let known = known.map(|(((estimate, own), factors), (earlier, estimator))| {
            let rejected = estimator.standing() == Standing::Rejected;
            let earlier = earlier.map(|earlier| EarlierRefill { rejected, ..earlier });
            let turn = own.mean();
            let (refill, error) = estimate.of_turn(turn);
            let (factor, capped) = (factors.mean(), factors.capped);
            let (rounds, windows) = (estimate.rounds, estimate.windows);
            NodeRefill { refill, error, turn, factor, capped, rounds, windows, earlier }
        });
        locked(&self.known).nodes = known.collect();
        factors
    }
}

/// Fits the factors of the nodes of one core into the room that there is.
fn fit_core(core: usize, cores: &[usize], shares: &[f64], wanted: &[Factors], room: f64, fitted: &mut [Factors]) {
    let on: Vec<usize> = (0..cores.len()).filter(|node| cores[*node] == core).collect();
    let shares: Vec<f64> = on.iter().map(|node| shares[*node]).collect();
    let wanted: Vec<Factors> = on.iter().map(|node| wanted[*node]).collect();
    on.into_iter().zip(fit(&shares, &wanted, room)).for_each(|(node, factors)| fitted[node] = factors);
}

/// What each node did between two counts; `None` if too long a time was between them.
fn observed(before: &Counted, after: &Counted, counted: RealDuration) -> Option<Vec<Observed>> {
    let passed = after.at.since(before.at);
    if passed.as_secs_f64() > OVERSLEPT * counted.as_secs_f64() {
        return None;
    }
    // What nodes are owed of a core that is slow grows by as much as their programs slow down.
    let speed = |owed: u64| if owed == 0 { 1.0 } else { passed.as_nanos() as f64 / owed as f64 };
    let cpu = grown(&before.cpu_ns, &after.cpu_ns);
    let all = cpu.zip(grown(&before.progress, &after.progress)).zip(grown(&before.wanted_ns, &after.wanted_ns));
    let each = |((cpu, progress), owed): ((u64, u64), u64)| Observed {
        cpu: RealDuration::from_nanos(cpu),
        speed: speed(owed),
        progress: progress as f64,
    };
    Some(all.map(each).collect())
}

/// By how much each counter grew.
fn grown<'a>(before: &'a [u64], after: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
    after.iter().zip(before).map(|(after, before)| after.saturating_sub(*before))
}

/// What is guessed of each node before the run, from what its core forgets between two turns of it. The cores have to
/// have nothing else to do; takes up to a third of a second for each length of that gap on one core.
pub fn guesses(setup: &Setup) -> Vec<Guess> {
    // To a power of two: nodes of one class share a measurement, and finer is not worth one.
    let gap = |n: &NodeSetup| {
        let turn = Turns::stretched(setup.terms.slice, n.stretch).as_secs_f64();
        (turn / n.share * 1e3).clamp(0.5, 16.0).log2().round() as i32
    };
    let on_core = |core: usize| {
        let gaps: BTreeSet<i32> = setup.nodes.iter().filter(|n| n.core == core).map(gap).collect();
        let aways: Vec<_> = gaps.iter().map(|gap| RealDuration::from_secs_f64(2f64.powi(*gap) / 1e3)).collect();
        let found = cpu::caches::measure(core, &aways).unwrap_or_default();
        gaps.into_iter()
            .zip(found.into_iter().map(Guess::of))
            .map(|(gap, guess)| ((core, gap), guess))
            .collect::<Vec<_>>()
    };
    let guesses: BTreeMap<(usize, i32), Guess> = std::thread::scope(|threads| {
        let all: Vec<_> = setup.cores.nodes.iter().map(|core| threads.spawn(|| on_core(*core))).collect();
        // One that could not measure has found nothing.
        all.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    setup.nodes.iter().map(|n| guesses.get(&(n.core, gap(n))).copied().unwrap_or(Guess::NONE)).collect()
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Who panicked in the middle was only reading counters or writing weights, of which each stands for itself.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use scale::RealInstant;

    use super::*;

    fn counted(at_ms: u64, wanted_ms: u64, cpu: &[u64], progress: &[u64]) -> Counted {
        Counted {
            at: RealInstant::from_nanos(at_ms * 1_000_000),
            wanted_ns: vec![wanted_ms * 1_000_000; cpu.len()],
            cpu_ns: cpu.to_vec(),
            progress: progress.to_vec(),
        }
    }

    fn planned() -> RealDuration {
        RealDuration::from_nanos(600_000_000)
    }

    #[test]
    fn what_nodes_did_is_what_counters_grew_by() {
        let before = counted(1_000, 1_000, &[10, 20], &[100, 200]);
        let seen = observed(&before, &counted(1_600, 1_900, &[15, 20], &[180, 190]), planned()).unwrap();
        let of = |o: &Observed| (o.cpu.as_nanos(), o.progress);
        assert_eq!(seen.iter().map(of).collect::<Vec<_>>(), [(5, 80.0), (0, 0.0)], "a counter that went back is none");
        assert!(seen.iter().all(|o| (o.speed - 600.0 / 900.0).abs() < 1e-9));
        let unpaced = observed(&before, &counted(1_600, 1_000, &[15, 20], &[180, 190]), planned()).unwrap();
        assert_eq!(unpaced[0].speed, 1.0);
    }

    #[test]
    fn each_node_is_as_fast_as_its_core() {
        let before = counted(1_000, 1_000, &[10, 20], &[100, 200]);
        let mut after = counted(1_600, 1_600, &[15, 25], &[180, 280]);
        after.wanted_ns[1] = 2_200_000_000;
        let seen = observed(&before, &after, planned()).unwrap();
        assert!((seen[0].speed - 1.0).abs() < 1e-9 && (seen[1].speed - 0.5).abs() < 1e-9);
    }

    #[test]
    fn each_core_has_room_of_its_own() {
        let wanted = Factors { by_turn: [1.5; LENGTHS], long: 1.5, capped: false };
        let mut fitted = vec![Factors::ONE; 3];
        let (cores, shares) = ([0, 2, 0], [0.1, 0.8, 0.1]);
        for core in [0, 2] {
            fit_core(core, &cores, &shares, &[wanted; 3], 0.86, &mut fitted);
        }
        let means: Vec<f64> = fitted.iter().map(Factors::mean).collect();
        assert!((means[0] - 1.5).abs() < 1e-9 && means[2] == means[0], "{means:?}");
        assert!((means[1] - 0.86 / 0.8).abs() < 1e-9 && fitted[1].capped, "{means:?}");
    }

    #[test]
    fn a_window_that_lasted_too_long_does_not_count() {
        let before = counted(1_000, 1_000, &[10], &[100]);
        assert!(observed(&before, &counted(2_000, 2_000, &[15], &[180]), planned()).is_none());
    }
}
