//! Observation of a program on a plain machine, without any experiment: a command, or a process that is there.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use counters::NodeCalls;
use scale::{RealDuration, RealInstant, Tdf, VirtualDuration, VirtualInstant};

use crate::calls::{Calls, Scope, Taken};
use crate::error::Error;

/// The time of an interval.
const INTERVAL: Duration = Duration::from_secs(1);

/// Counters of one program on this machine, and of all that it starts.
#[derive(Debug)]
pub struct Plain {
    calls: Calls,
    begun: RealInstant,
    /// How many have ended.
    intervals: u32,
}

/// How a plain observation went.
#[derive(Debug)]
pub struct Observed {
    /// The calls.
    pub calls: NodeCalls,
    /// The cost of counting them.
    pub taken: Taken,
    /// How long it went on.
    pub lasted: RealDuration,
}

impl Plain {
    /// Starts a command, counted from its `execve` on.
    ///
    /// # Errors
    ///
    /// If nothing can be counted. That the command cannot be started is the second error.
    pub fn start(command: &mut Command) -> Result<(Plain, std::io::Result<Child>), Error> {
        let calls = Calls::start(&Scope::default())?;
        // This process starts nothing else meanwhile, which would count, too.
        let own = std::process::id();
        calls.follow(own, 0, false)?;
        let begun = host::now();
        let child = command.spawn();
        calls.leave(own)?;
        Ok((Plain { calls, begun, intervals: 0 }, child))
    }

    /// Counts a process that is there, with all of its descendants, from now on.
    ///
    /// # Errors
    ///
    /// If it is not there, or nothing can be counted.
    pub fn follow(pid: u32) -> Result<Plain, Error> {
        let gone = |source| Error::Process { what: format!("the process {pid}"), source };
        fs::metadata(format!("/proc/{pid}/task")).map_err(gone)?;
        let calls = Calls::start(&Scope::default())?;
        let begun = host::now();
        let mut found = vec![pid];
        while let Some(one) = found.pop() {
            calls.follow(one, 0, true)?;
            found.extend(children(one));
        }
        Ok(Plain { calls, begun, intervals: 0 })
    }

    /// Ends an interval, if it is time: to be called a few times a second.
    pub fn look(&mut self) -> Result<(), Error> {
        let now = host::now();
        if Duration::from(now.since(self.begun)) < INTERVAL * (self.intervals + 1) {
            return Ok(());
        }
        self.intervals += 1;
        self.calls.look(since(self.begun, now))
    }

    /// Ends counting.
    pub fn finish(self) -> Result<Observed, Error> {
        let now = host::now();
        let (mut calls, taken) = self.calls.finish(since(self.begun, now), Tdf::ONE)?;
        Ok(Observed { calls: calls.pop().unwrap_or_default(), taken, lasted: now.since(self.begun) })
    }
}

/// The file that a process executes, if it is there.
pub fn program_of(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// Whether a process is there, and has not ended: one that its parent has not noticed yet has.
pub fn is_there(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which may hold anything.
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// Real time is virtual time here.
fn since(begun: RealInstant, now: RealInstant) -> VirtualInstant {
    let passed: VirtualDuration = Tdf::ONE.to_virtual(now.since(begun));
    VirtualInstant::ZERO + passed
}

/// The processes that one has started, of all of its threads; none, if it is gone.
fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let of = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).unwrap_or_default();
    let all: Vec<String> = threads.flatten().map(of).collect();
    all.iter().flat_map(|text| text.split_whitespace()).filter_map(|pid| pid.parse().ok()).collect()
}
