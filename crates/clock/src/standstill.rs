//! A change of the rate, made while no dilated thread runs.
//!
//! The page alone could change at any instant: every reading of a clock goes through it, and what sleeps looks at it
//! again. But timers that the kernel keeps (timerfd, POSIX timers, itimers) count the host's time. So all threads of
//! all processes that read this page are stopped with ptrace, the timers are taken down ([`crate::timers`]), the page
//! changes, and what was left of each is set up anew. Nothing can fire in between, or see half of it: after a slow-down
//! no timer is early, after a speed-up none is late. While they stand, virtual time passes; some 50 µs of real time for
//! each thread.
//!
//! It runs in the injector's admitting thread, at an instant at which no exec is under way.
//!
//! A thread that the kernel does not let stop, such as the parent of a vfork, which waits for its child to execute,
//! stops when it would run. Till then it is waited for without holding anybody up; then the timers of its process are
//! moved, if none of its threads had stopped, and it is let go.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::{Duration, Instant};

use libc::pid_t;
use scale::{Tdf, VirtualInstant};

use crate::ClockPage;
use crate::remote::{self, Remote, Stop};
use crate::timers::{Timers, Turn, posix_timers_are_listed};

/// How long to wait for threads to stop: far longer than those need that can.
const PATIENCE: Duration = Duration::from_millis(50);
/// How often to look for threads that were started meanwhile.
const ROUNDS: usize = 50;
const LOOK_AGAIN: Duration = Duration::from_micros(20);

/// Threads that stand, or are to.
#[derive(Debug, Default)]
pub(crate) struct Standstill {
    /// Those that stand, and their processes.
    still: HashMap<pid_t, pid_t>,
    /// Those that were told to stop, for this change or an earlier one, and have not been seen to.
    pending: HashMap<pid_t, pid_t>,
    /// The changes that the timers of a process missed, because none of its threads stood.
    owed: HashMap<pid_t, Vec<Turn>>,
}

impl Standstill {
    /// Changes the factor. The virtual instant of the change, and sentences about what could not be changed.
    pub fn change(&mut self, page: &ClockPage, tdf: Tdf) -> (VirtualInstant, Vec<String>) {
        let old = page.tdf_now();
        if !page.is_started() || old == tdf {
            return (page.set_tdf(tdf), Vec::new());
        }
        self.stop_all(page);
        let mut said = Vec::new();
        if !posix_timers_are_listed() {
            said.push(
                "POSIX timers (timer_create) keep the old factor: the kernel does not tell of them in \
                 /proc/PID/timers, for lack of CONFIG_CHECKPOINT_RESTORE"
                    .to_owned(),
            );
        }
        let lenders: HashMap<pid_t, pid_t> = self.still.iter().map(|(thread, process)| (*process, *thread)).collect();
        let missing: HashSet<pid_t> = self.pending.values().copied().filter(|p| !lenders.contains_key(p)).collect();
        let mut timers = Timers::default();
        for (process, thread) in &lenders {
            // A process that was killed has no timers.
            if let Ok(remote) = Remote::begin(*thread) {
                timers.take(*process, remote, self.owed.remove(process).unwrap_or_default());
            }
        }
        // Of processes that do not run, though they do not stand, these can be had.
        for process in lenders.keys().chain(&missing) {
            if let Err(e) = timers.take_descriptors(*process) {
                said.push(format!("timers of process {process} keep the old factor: {e}"));
            }
        }
        let at = page.set_tdf(tdf);
        let turn = Turn { old, new: tdf, changed: page.last_change() };
        timers.set_up(Some(turn));
        for process in missing {
            self.owed.entry(process).or_default().push(turn);
        }
        for (thread, _) in self.still.drain() {
            // It fails if the thread was killed, and then its end will be reported.
            let _ = remote::release(thread);
        }
        (at, said)
    }

    /// Lets those go that have stopped since, after moving what timers of theirs missed a change. Whether there may be
    /// more.
    pub fn release_left(&mut self) -> bool {
        loop {
            let (thread, status) = match next_stop() {
                Next::Stop(thread, status) => (thread, status),
                Next::NotYet => return true,
                Next::Nobody => {
                    *self = Standstill::default();
                    return false;
                }
            };
            self.take_note(thread, status);
            if remote::stop_of(status) != Stop::Still {
                continue;
            }
            if let Some(process) = self.still.remove(&thread)
                && let Some(owed) = self.owed.remove(&process)
                && let Ok(remote) = Remote::begin(thread)
            {
                let mut timers = Timers::default();
                timers.take(process, remote, owed);
                timers.set_up(None);
            }
            // As above.
            let _ = remote::release(thread);
        }
    }

    /// Until a look at all processes finds no thread that runs.
    fn stop_all(&mut self, page: &ClockPage) {
        let own = std::process::id() as pid_t;
        for _ in 0..ROUNDS {
            let mut told = HashSet::new();
            for process in numbers("/proc").filter(|p| *p != own) {
                if !page.is_read_by(process) {
                    continue;
                }
                for thread in numbers(&format!("/proc/{process}/task")) {
                    // It fails for a thread that has ended, and for one under a debugger, which stands or falls with
                    // that.
                    if !self.still.contains_key(&thread)
                        && !self.pending.contains_key(&thread)
                        && remote::seize(thread).is_ok()
                    {
                        self.pending.insert(thread, process);
                        told.insert(thread);
                    }
                }
            }
            if told.is_empty() {
                return;
            }
            self.settle(told);
        }
    }

    /// Waits until all stand that have been told to, but not for ever.
    fn settle(&mut self, mut told: HashSet<pid_t>) {
        let until = Instant::now() + PATIENCE;
        while !told.is_empty() {
            match next_stop() {
                Next::Stop(thread, status) => {
                    self.take_note(thread, status);
                    if !self.pending.contains_key(&thread) {
                        told.remove(&thread);
                    }
                }
                Next::NotYet if Instant::now() < until => std::thread::sleep(LOOK_AGAIN),
                Next::NotYet | Next::Nobody => return,
            }
        }
    }

    fn take_note(&mut self, thread: pid_t, status: i32) {
        match remote::stop_of(status) {
            Stop::Still => self.still.extend(self.pending.remove_entry(&thread)),
            // It fails if the thread was killed meanwhile.
            Stop::Signal(signal) => drop(remote::go_on(thread, signal)),
            Stop::Gone => {
                let process = self.pending.remove(&thread).or(self.still.remove(&thread));
                // The number may be given to another process.
                if let Some(process) = process
                    && !self.pending.values().chain(self.still.values()).any(|p| *p == process)
                {
                    self.owed.remove(&process);
                }
            }
        }
    }
}

enum Next {
    /// A thread and its status.
    Stop(pid_t, i32),
    NotYet,
    /// There is no thread to wait for.
    Nobody,
}

fn next_stop() -> Next {
    let mut status = 0;
    // SAFETY: `status` is a valid place to write to.
    match unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG) } {
        0 => Next::NotYet,
        thread @ 1.. => Next::Stop(thread, status),
        _ => Next::Nobody,
    }
}

/// The entries of a directory that are numbers.
fn numbers(directory: &str) -> impl Iterator<Item = pid_t> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
