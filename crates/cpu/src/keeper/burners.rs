//! Idle burners: threads that burn what nodes leave of a core, and measure meanwhile how fast that is.
//!
//! They are threads of this process, or processes that share its memory where groups hold no single threads.

mod pause;
mod processes;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use host::cgroup::Group;
use host::cores;
use host::sched::{self, Class};
use rustix::process::{WaitOptions, waitpid};
use rustix::thread::{Pid, futex};
use scale::RealDuration;

pub(super) use self::pause::Pause;
use super::protocol::Job;
use crate::Error;
use crate::measure::yardstick::Laps;
use crate::share::layout::GroupLayout;

/// Slices of a burner over those of nodes: a node that wakes up then need not wait for the end of one.
const SLICES: f64 = 2.0;

/// The part of the time for which the burners of a run may be real-time tasks.
const PAUSES: f64 = 0.4;

/// A cache line, with what one burner has measured, and is asked.
#[repr(C, align(64))]
#[derive(Default, Debug)]
struct BurnerCounters {
    chunks: AtomicU64,
    cycles: AtomicU64,
    pause: Pause,
}

/// The counters of one burner, which are there until the process ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter(&'static BurnerCounters);

/// Chunks of the yardstick that were left alone, and the cycles that they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measured {
    pub chunks: u64,
    pub cycles: u64,
}

impl Meter {
    fn new() -> Meter {
        Meter(Box::leak(Box::default()))
    }

    /// Gives the pauses of the same burner.
    #[inline(always)]
    pub fn pause(self) -> &'static Pause {
        &self.0.pause
    }

    /// Adds a chunk that took `cycles`. Only one thread does, so this needs no locked instruction.
    #[inline(always)]
    fn add(self, cycles: u64) {
        let BurnerCounters { chunks, cycles: sum, .. } = self.0;
        chunks.store(chunks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        sum.store(sum.load(Ordering::Relaxed).wrapping_add(cycles), Ordering::Relaxed);
    }
}

impl Measured {
    /// Adds up the counters of a core's burners.
    pub fn of(meters: &[Meter]) -> Measured {
        meters.iter().fold(Measured::default(), |sum, Meter(line)| Measured {
            chunks: sum.chunks.wrapping_add(line.chunks.load(Ordering::Relaxed)),
            cycles: sum.cycles.wrapping_add(line.cycles.load(Ordering::Relaxed)),
        })
    }

    /// Gives what was measured since `before`.
    pub fn since(self, before: Measured) -> Measured {
        Measured { chunks: self.chunks.wrapping_sub(before.chunks), cycles: self.cycles.wrapping_sub(before.cycles) }
    }
}

/// A gate that opens once. Waiting makes system calls only: processes without thread-local storage can, too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gate(&'static AtomicU32);

impl Gate {
    fn closed() -> Gate {
        Gate(Box::leak(Box::default()))
    }

    pub fn open(self) {
        self.0.store(1, Ordering::Release);
        // Fails for a wrong address only.
        let _ = futex::wake(self.0, futex::Flags::PRIVATE, i32::MAX as u32);
    }

    pub fn wait(self) {
        while self.0.load(Ordering::Acquire) == 0 {
            // It is open by now, or a signal came: looked at again.
            let _ = futex::wait(self.0, futex::Flags::PRIVATE, 0, None);
        }
    }
}

/// The burners of all cores.
#[derive(Debug)]
pub(super) struct Burners {
    gate: Gate,
    /// By core.
    meters: Arc<[Vec<Meter>]>,
    /// Pauses of the job's burners, in their order.
    pauses: Vec<&'static Pause>,
    /// Those that are processes.
    processes: Vec<Pid>,
}

/// Where a burner belongs.
#[derive(Clone)]
struct Seat {
    group: Group,
    core: usize,
    slice: RealDuration,
}

impl Burners {
    /// Starts them, each in its group and on its core, where they wait at the gate.
    ///
    /// Beside those of the job each core has one in the group by which slices are ended.
    pub fn start(layout: &GroupLayout, job: &Job) -> Result<Burners, Error> {
        let (gate, mut meters, mut processes) = (Gate::closed(), vec![Vec::new(); job.cores.len()], Vec::new());
        let mut pauses = Vec::new();
        let long = RealDuration::from_secs_f64(job.slice.as_secs_f64() * SLICES);
        for (place, _) in &job.burners {
            // Where this cannot be, burners sleep while their weights change.
            let _ = layout.at(place).grant_real_time(PAUSES / job.burners.len() as f64, PAUSES);
        }
        let of_cores = (0..job.cores.len()).map(|core| (layout.reschedule(), core, job.slice));
        let of_job = job.burners.iter().map(|(place, core)| (layout.at(place), *core, long));
        for (group, place, slice) in of_cores.chain(of_job) {
            let (seat, meter) = (Seat { group, core: job.cores[place], slice }, Meter::new());
            meters[place].push(meter);
            pauses.push(meter.pause());
            if seat.group.holds_threads() {
                let body = move || {
                    gate.wait();
                    burn(meter, slice)
                };
                super::start_thread("burner", move || seat.take(None, meter), body)?;
            } else {
                let process = processes::start(gate, meter, slice).map_err(Error::io("start a process"))?;
                processes.push(process);
                seat.take(Some(process), meter)?;
            }
        }
        let pauses = pauses.split_off(job.cores.len());
        Ok(Burners { gate, meters: meters.into(), pauses, processes })
    }

    pub fn gate(&self) -> Gate {
        self.gate
    }

    /// The counters of all burners, by core.
    pub fn meters(&self) -> Arc<[Vec<Meter>]> {
        Arc::clone(&self.meters)
    }

    /// Gives the pauses of the job's burners, in their order.
    pub fn pauses(&self) -> &[&'static Pause] {
        &self.pauses
    }

    /// Fails if one that is a process has ended. (A thread that is killed takes all of this process along.)
    pub fn all_alive(&self) -> Result<(), Error> {
        match waitpid(None, WaitOptions::NOHANG) {
            Ok(Some(_)) => Err(Error::Keeper("a burner was killed".into())),
            _ => Ok(()),
        }
    }

    /// Ends those that are processes, and waits until they have.
    pub fn end(&self) {
        for process in &self.processes {
            // One that has ended already needs no end.
            let _ = rustix::process::kill_process(*process, rustix::process::Signal::KILL);
        }
        for process in &self.processes {
            let _ = waitpid(Some(*process), WaitOptions::empty());
        }
    }
}

impl Seat {
    /// Puts a process, or else the calling thread, on its core, into its group and under its scheduling; tries how it
    /// may pause.
    fn take(&self, process: Option<Pid>, meter: Meter) -> Result<(), Error> {
        let pin = || cores::pin_other(process, self.core);
        // First, if that can be: load that a group once had on another core would lower its weight here for a while. It
        // cannot where the core belongs to the run's groups alone, of which none has been entered yet.
        let _ = pin();
        match process {
            Some(process) => self.group.admit(process.as_raw_nonzero().get().unsigned_abs())?,
            None => self.group.thread_joiner()?.join().map_err(Error::io("enter a control group"))?,
        }
        // Entering a group that the cpuset controller knows undoes it (Linux 6.1).
        pin().map_err(Error::io(format!("run on core {}", self.core)))?;
        // A group may have been granted no time for real-time tasks.
        if sched::set_other(process, pause::ASIDE).is_ok() {
            meter.pause().keeps_core();
        }
        sched::set_other(process, Class::Slices(self.slice)).map_err(Error::io("set a timeslice"))
    }
}

/// Burns the core for ever with the yardstick, and writes down how fast that goes: in user mode, without a system call
/// and without PAUSE (hypervisors take a loop of PAUSEs for a lock and deschedule the whole virtual CPU). It has five
/// cache lines, so that it takes next to nothing of a node's.
fn burn(meter: Meter, slice: RealDuration) -> ! {
    let mut laps = Laps::start();
    loop {
        if let Some(cycles) = laps.lap() {
            meter.add(cycles);
        }
        meter.pause().if_asked(slice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meters_add_up() {
        let meters = [Meter::new(), Meter::new()];
        meters[0].add(10_000);
        let before = Measured::of(&meters);
        meters[1].add(12_000);
        meters[1].add(11_000);
        assert_eq!(Measured::of(&meters), Measured { chunks: 3, cycles: 33_000 });
        assert_eq!(Measured::of(&meters).since(before), Measured { chunks: 2, cycles: 23_000 });
        assert_eq!(Measured::of(&[]), Measured::default());
    }

    #[test]
    fn a_gate_opens_for_all_who_wait() {
        let gate = Gate::closed();
        std::thread::scope(|threads| {
            (0..3).for_each(|_| drop(threads.spawn(|| gate.wait())));
            gate.open();
        });
        gate.wait();
    }
}
