//! Trouble that is made on purpose while a run lasts: by threads of this process, which end when the guard is dropped
//! and, whatever happens, with the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use host::sched::{self, Class};
use scale::RealDuration;

use crate::Error;
use crate::cores::Cores;

/// A disturbance of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// An ordinary thread computes on the nodes' core.
    HogNodes,
    /// An ordinary thread computes on the harness core.
    HogHarness,
    /// An ordinary thread on the nodes' core goes through more memory than caches hold.
    StreamNodes,
    /// Streams through memory on the harness core: the last cache and the memory are shared.
    StreamHarness,
    /// A real-time thread takes a fifth of the nodes' core, as a hypervisor would.
    StolenTime,
    /// A real-time thread that goes before the emulator takes a tenth of the harness core.
    StarvedEmulator,
    /// A thread computes on the sibling hyper-thread of the nodes' core, every other second.
    SlowedCore,
}

/// A thread that computes for a part of each period and sleeps for the rest.
#[derive(Clone, Copy, Debug)]
struct Duty {
    core: usize,
    /// Of a real-time thread.
    priority: Option<u8>,
    /// Real time; equal to the period: it never sleeps.
    busy: Duration,
    period: Duration,
    /// Whether it goes through memory.
    streams: bool,
}

/// Above the emulator's (50), below what the kernel needs itself.
const BEFORE_THE_EMULATOR: u8 = 60;
/// Before every ordinary thread.
const BEFORE_NODES: u8 = 1;
/// More than the caches of a core hold, and most machines' last one.
const STREAMED_BYTES: usize = 64 << 20;
/// Bytes that one fetch from memory brings.
const LINE_BYTES: usize = 64;
/// How long a thread computes before it looks at the clock, in rounds of a loop: some microseconds.
const ROUNDS: u32 = 4000;

impl Trouble {
    pub const ALL: [Trouble; 7] = [
        Trouble::HogNodes,
        Trouble::HogHarness,
        Trouble::StreamNodes,
        Trouble::StreamHarness,
        Trouble::StolenTime,
        Trouble::StarvedEmulator,
        Trouble::SlowedCore,
    ];

    /// Those that this machine allows, and a sentence for each reason why it does not allow others.
    pub fn possible(cores: &Cores) -> (Vec<Trouble>, Vec<String>) {
        let no_sibling = sibling(cores).err();
        let alone = cpu::why_shared(&[cores.nodes]).is_none().then(|| {
            let core = cores.nodes;
            format!("nothing is done on core {core}, the nodes': while a run lasts, nobody else can be there")
        });
        let possible = |trouble: &Trouble| match trouble {
            Trouble::SlowedCore => no_sibling.is_none(),
            Trouble::HogNodes | Trouble::StreamNodes | Trouble::StolenTime => alone.is_none(),
            Trouble::HogHarness | Trouble::StreamHarness | Trouble::StarvedEmulator => true,
        };
        let all = Trouble::ALL.into_iter().filter(possible).collect();
        (all, no_sibling.into_iter().chain(alone).collect())
    }

    /// As rows call it.
    pub fn name(self) -> &'static str {
        match self {
            Trouble::HogNodes => "hog-nodes-core",
            Trouble::HogHarness => "hog-harness-core",
            Trouble::StreamNodes => "memory-nodes-core",
            Trouble::StreamHarness => "memory-harness-core",
            Trouble::StolenTime => "stolen-time",
            Trouble::StarvedEmulator => "starved-emulator",
            Trouble::SlowedCore => "slowed-core",
        }
    }

    /// Makes it until the guard is dropped.
    pub fn begin(self, cores: &Cores) -> Result<Guard, Error> {
        Guard::start(self.duty(cores)?)
    }

    fn duty(self, cores: &Cores) -> Result<Duty, Error> {
        let always = |core| {
            let forever = Duration::from_secs(1);
            Duty { core, priority: None, busy: forever, period: forever, streams: false }
        };
        let ms = Duration::from_millis;
        Ok(match self {
            Trouble::HogNodes => always(cores.nodes),
            Trouble::HogHarness => always(cores.harness),
            Trouble::StreamNodes => Duty { streams: true, ..always(cores.nodes) },
            Trouble::StreamHarness => Duty { streams: true, ..always(cores.harness) },
            Trouble::StolenTime => {
                Duty { priority: Some(BEFORE_NODES), busy: ms(2), period: ms(10), ..always(cores.nodes) }
            }
            Trouble::StarvedEmulator => {
                Duty { priority: Some(BEFORE_THE_EMULATOR), busy: ms(4), period: ms(40), ..always(cores.harness) }
            }
            Trouble::SlowedCore => {
                Duty { busy: ms(1000), period: ms(2000), ..always(sibling(cores).map_err(Error::machine)?) }
            }
        })
    }
}

/// The processor that shares the nodes' physical core and has nothing to do for the run; or why there is none.
fn sibling(cores: &Cores) -> Result<usize, String> {
    let siblings = host::cores::siblings(cores.nodes).map_err(|e| format!("no core is slowed: {e}"))?;
    let usable = host::cores::usable().map_err(|e| format!("no core is slowed: {e}"))?;
    let mut others = siblings.into_iter().filter(|core| *core != cores.nodes && usable.contains(core)).peekable();
    match others.peek() {
        None => Err(format!("no core is slowed: core {} has no sibling hyper-thread here", cores.nodes)),
        Some(_) => others.find(|core| *core != cores.harness).ok_or_else(|| {
            format!("no core is slowed: the sibling of core {} is the harness core, never idle", cores.nodes)
        }),
    }
}

/// Trouble in progress.
#[derive(Debug)]
pub(super) struct Guard {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Guard {
    fn start(duty: Duty) -> Result<Guard, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (ready, begun) = std::sync::mpsc::channel();
        let work = move || {
            let class = match duty.priority {
                Some(priority) => Class::RealTime { priority, inherited: false },
                None => Class::Ordinary,
            };
            let placed = host::pin(duty.core).and_then(|()| sched::set(class));
            let began = placed.is_ok();
            let _ = ready.send(placed);
            if began {
                duty.work(&stopped);
            }
        };
        let thread = thread::Builder::new().name("trouble".into()).spawn(work).map_err(Error::failed)?;
        let guard = Guard { stop, thread: Some(thread) };
        match begun.recv() {
            Ok(Ok(())) => Ok(guard),
            Ok(Err(e)) => Err(Error::machine(format!("cannot make trouble on core {}: {e}", duty.core))),
            Err(_) => Err(Error::failed("the thread that makes trouble has ended")),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It cannot panic.
            let _ = thread.join();
        }
    }
}

impl Duty {
    fn work(&self, stop: &AtomicBool) {
        let mut memory = vec![1u8; if self.streams { STREAMED_BYTES } else { LINE_BYTES }];
        let (busy, period) = (RealDuration::from(self.busy), RealDuration::from(self.period));
        let mut begin = host::now();
        let mut place = 0;
        while !stop.load(Ordering::Relaxed) {
            let rest = begin + busy;
            while host::now() < rest && !stop.load(Ordering::Relaxed) {
                if self.streams {
                    place = stream(&mut memory, place);
                } else {
                    compute();
                }
            }
            begin = begin + period;
            if self.busy < self.period {
                host::time::sleep_until(begin);
            }
            // A thread that was itself kept from its core does not make up for it.
            begin = begin.max(host::now());
        }
    }
}

/// Changes one byte of each of the next lines of the memory; the place to go on from.
fn stream(memory: &mut [u8], from: usize) -> usize {
    let mut place = from;
    for _ in 0..ROUNDS / 16 {
        memory[place] = memory[place].wrapping_add(1);
        place = (place + LINE_BYTES) % memory.len();
    }
    place
}

fn compute() {
    let mut n = 0u64;
    for round in 0..ROUNDS {
        n = std::hint::black_box(n.wrapping_mul(3).wrapping_add(u64::from(round)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any_core() -> usize {
        host::cores::usable().unwrap()[0]
    }

    #[test]
    fn trouble_ends_with_its_guard() {
        let core = any_core();
        let threads = || {
            let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
            let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            tasks.map(name).filter(|name| name.trim() == "trouble").count()
        };
        for trouble in [Trouble::HogNodes, Trouble::StreamNodes] {
            let guard = trouble.begin(&Cores { nodes: core, harness: core }).unwrap();
            assert!(threads() >= 1, "{trouble:?}");
            drop(guard);
        }
        // A thread that was joined is in the list until the kernel has buried it.
        let patience = std::time::Instant::now() + Duration::from_secs(10);
        while threads() > 0 && std::time::Instant::now() < patience {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(threads(), 0);
        let nowhere = Cores { nodes: 100_000, harness: core };
        assert!(Trouble::HogNodes.begin(&nowhere).unwrap_err().to_string().contains("core 100000"));
    }

    #[test]
    fn a_part_of_each_period_is_taken() {
        let core = any_core();
        let cores = Cores { nodes: core, harness: core };
        for trouble in [Trouble::StolenTime, Trouble::StarvedEmulator] {
            let duty = trouble.duty(&cores).unwrap();
            assert!(duty.priority.is_some() && duty.busy < duty.period, "a real-time thread must leave time");
        }
        assert!(Trouble::StarvedEmulator.duty(&cores).unwrap().priority > Some(50), "goes before the emulator");
        let stolen = Trouble::StolenTime.duty(&cores).unwrap();
        assert_eq!(stolen.busy * 5, stolen.period);
    }

    #[test]
    fn a_core_without_an_idle_sibling_is_left_out_and_said() {
        let core = any_core();
        let (possible, why) = Trouble::possible(&Cores { nodes: core, harness: core });
        assert_eq!(possible.contains(&Trouble::SlowedCore), why.iter().all(|why| !why.contains("no core is slowed")));
        assert!(possible.contains(&Trouble::HogHarness) && possible.len() + 4 >= Trouble::ALL.len(), "{possible:?}");
    }

    #[test]
    fn memory_is_gone_through_line_by_line() {
        let mut memory = vec![0u8; 4 * LINE_BYTES];
        let place = stream(&mut memory, LINE_BYTES);
        assert_eq!(place % LINE_BYTES, 0);
        assert!(memory.iter().step_by(LINE_BYTES).all(|byte| *byte > 0) && memory[1] == 0);
    }
}
