//! A change of the rate, made while nobody runs.
//!
//! The page alone could change at any instant: every reading of a clock goes through it, and what sleeps looks at it again.
//! But timers that the kernel keeps (timerfd, POSIX timers, itimers) count the host's time. So all threads of all processes that
//! read this page are stopped with ptrace, the timers are taken down ([`crate::timers`]), the page changes, and what was left of
//! each is set up anew. Nothing can fire in between, or see half of it: after a slow-down no timer is early, after
//! a speed-up none is late. While they stand, virtual time passes; some 50 µs of real time for each thread.
//!
//! It runs in the injector's thread, at an instant at which no exec is under way.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::{Duration, Instant};

use libc::pid_t;
use scale::{Tdf, VirtualInstant};

use crate::ClockPage;
use crate::remote::{self, Remote, Stop};
use crate::timers::Timers;

/// How long to wait for threads that the kernel does not let stop, such as the parent of a vfork, which waits for its child to execute.
/// They run nothing meanwhile, and stop for a moment when they would.
const PATIENCE: Duration = Duration::from_millis(50);
/// How often to look for threads that were started meanwhile.
const ROUNDS: usize = 50;
const LOOK_AGAIN: Duration = Duration::from_micros(20);

/// Changes the factor. The virtual instant of the change, and sentences about what could not be changed.
pub(crate) fn change(page: &ClockPage, tdf: Tdf) -> (VirtualInstant, Vec<String>) {
    let old = page.tdf_now();
    if !page.is_started() || old == tdf {
        return (page.set_tdf(tdf), Vec::new());
    }
    let mut still = Still::default();
    still.stop_all(page);
    let mut said = Vec::new();
    let mut timers = Timers::default();
    for (process, thread) in still.one_of_each() {
        // A process that was killed has no timers.
        if let Ok(remote) = Remote::begin(thread)
            && let Err(e) = timers.take(process, remote)
        {
            said.push(format!("timers of process {process} keep the old factor: {e}"));
        }
    }
    let at = page.set_tdf(tdf);
    timers.set_up(old, tdf, page.last_change());
    still.release();
    (at, said)
}

#[derive(Debug, Default)]
struct Still {
    /// Thread to process.
    threads: HashMap<pid_t, pid_t>,
    /// Told to stop, and not seen to.
    pending: HashSet<pid_t>,
}

impl Still {
    /// Until a look at all processes finds no thread that runs.
    fn stop_all(&mut self, page: &ClockPage) {
        let own = std::process::id() as pid_t;
        let until = Instant::now() + PATIENCE;
        for _ in 0..ROUNDS {
            let mut found = false;
            for process in numbers("/proc").filter(|p| *p != own) {
                if !page.is_read_by(process) {
                    continue;
                }
                for thread in numbers(&format!("/proc/{process}/task")) {
                    // It fails for a thread that has ended, and for one under a debugger, which stands or falls with that.
                    if !self.threads.contains_key(&thread) && remote::seize(thread).is_ok() {
                        self.threads.insert(thread, process);
                        self.pending.insert(thread);
                        found = true;
                    }
                }
            }
            if !found {
                return;
            }
            self.settle(until);
        }
    }

    /// Waits until all stand that were told to, or `until`.
    fn settle(&mut self, until: Instant) {
        while !self.pending.is_empty() {
            let mut status = 0;
            // SAFETY: `status` is a valid place to write to.
            let thread = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG) };
            if thread == 0 && Instant::now() < until {
                std::thread::sleep(LOOK_AGAIN);
                continue;
            }
            if thread <= 0 {
                return;
            }
            match remote::stop_of(status) {
                Stop::Still => drop(self.pending.remove(&thread)),
                Stop::Signal(signal) => drop(remote::go_on(thread, signal)),
                Stop::Gone => {
                    self.pending.remove(&thread);
                    self.threads.remove(&thread);
                }
            }
        }
    }

    /// A thread that stands for each process that has one.
    fn one_of_each(&self) -> HashMap<pid_t, pid_t> {
        let still = self.threads.iter().filter(|(thread, _)| !self.pending.contains(thread));
        still.map(|(thread, process)| (*process, *thread)).collect()
    }

    /// Lets all go that stand; the injector lets the others go when they stop.
    fn release(self) {
        for thread in self.threads.keys().filter(|thread| !self.pending.contains(thread)) {
            // It fails if the thread was killed, and then its end will be reported.
            let _ = remote::release(*thread);
        }
    }
}

/// The entries of a directory that are numbers.
fn numbers(directory: &str) -> impl Iterator<Item = pid_t> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
