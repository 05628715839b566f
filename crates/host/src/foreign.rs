//! The threads of processes that are not a run's own: whose work disturbs it.

use std::fs;

use counters::ForeignThread;
use scale::{RealDuration, RealInstant};

use crate::cgroup::Tree;
use crate::sched;

/// How often they are listed: it costs some 40 µs a thread.
const EVERY: RealDuration = RealDuration::from_nanos(1_000_000_000);

/// Lists the threads that are not the run's, so that who disturbed it can be named.
#[derive(Clone, Debug)]
pub struct Foreign {
    own: Tree,
    helpers: Vec<u32>,
    listed: Option<RealInstant>,
}

impl Foreign {
    /// The run's own are this process, those in its control groups, and these.
    pub fn new(own: Tree, helpers: Vec<u32>) -> Foreign {
        Foreign { own, helpers, listed: None }
    }

    /// The threads, or nothing if they were listed less than a second ago.
    pub fn list(&mut self, now: RealInstant) -> Vec<ForeignThread> {
        if self.listed.is_some_and(|listed| now.since(listed) < EVERY) {
            return Vec::new();
        }
        self.listed = Some(now);
        let own = std::process::id();
        let foreign = |pid: &u32| *pid != own && !self.helpers.contains(pid) && !self.own.contains(*pid);
        // A thread that ends meanwhile is of no interest.
        numbers("/proc").filter(foreign).flat_map(|pid| threads(pid).collect::<Vec<_>>()).collect()
    }
}

fn threads(pid: u32) -> impl Iterator<Item = ForeignThread> {
    let dir = format!("/proc/{pid}/task");
    numbers(&dir).filter_map(move |tid| {
        let stat = String::from_utf8_lossy(&fs::read(format!("{dir}/{tid}/stat")).ok()?).into_owned();
        // The name stands in brackets and may hold brackets and spaces itself (proc(5)).
        let (head, rest) = stat.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_string();
        // The last core is field 39 of the line, the first after the name is field 3.
        let core = rest.split_whitespace().nth(39 - 3)?.parse().ok()?;
        let sched::ThreadTimes { ran, waited, .. } = sched::times_of(tid).ok()?;
        Some(ForeignThread { pid, tid, name, core, ns: ran.as_nanos(), waited_ns: waited.as_nanos() })
    })
}

/// The entries of a directory that are numbers.
fn numbers(dir: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}
