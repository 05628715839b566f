//! Reading the harness: the only part of observation that touches `/proc`.

use std::fs;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::{ClockId, clock_gettime};
use scale::RealInstant;

use crate::Error;
use crate::observe::{self, CoreTicks, TcpCounters};
use crate::watch::{Stranger, WINDOW};

/// The unit of times in `/proc/PID/stat`: USER_HZ is 100 on every x86-64 Linux, whatever the kernel's own tick.
const USER_TICK_NS: u64 = 10_000_000;

/// `/proc/stat`, by core number.
pub fn core_ticks() -> Result<Vec<CoreTicks>, Error> {
    let path = Path::new("/proc/stat");
    observe::core_ticks(&read(path)?).map_err(|what| Error::input(path, what))
}

/// TCP's counters of a network namespace.
///
/// The calling thread moves into the namespace and stays there, so give this work to a thread of its own; files
/// outside `/proc/thread-self/net` and `/sys` look the same from there.
pub fn tcp(netns: BorrowedFd<'_>) -> Result<TcpCounters, Error> {
    let dir = Path::new("/proc/thread-self/net");
    move_into_link_name_space(netns, Some(LinkNameSpaceType::Network))
        .map_err(|e| Error::io(Path::new("a node's network namespace"), "enter", e.into()))?;
    let (netstat, snmp) = (dir.join("netstat"), dir.join("snmp"));
    TcpCounters::parse(&read(&netstat)?, &read(&snmp)?).map_err(|what| Error::input(dir, what))
}

/// CPU time of this process, all threads, in ns. The engine adds it to its run's time on the harness core.
pub fn own_cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Looks now and then at which processes are there that are not the run's, so that a breach can name one.
#[derive(Clone, Debug)]
pub struct Lookout {
    groups: String,
    looked: Option<RealInstant>,
}

impl Lookout {
    /// `groups` is part of the path of all control groups of the run, such as `diorama-RUNID`.
    pub fn new(groups: &str) -> Lookout {
        Lookout { groups: groups.to_string(), looked: None }
    }

    /// The strangers, or nothing if the last look was less than a window ago: it costs some 20 µs a process.
    pub fn look(&mut self, now: RealInstant) -> Vec<Stranger> {
        if self.looked.is_some_and(|looked| now.since(looked) < WINDOW) {
            return Vec::new();
        }
        self.looked = Some(now);
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        // A process that ends while it is looked at is of no interest.
        pids.filter(|pid| *pid != std::process::id()).filter_map(|pid| self.stranger(pid)).collect()
    }

    fn stranger(&self, pid: u32) -> Option<Stranger> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        if groups.contains(&self.groups) {
            return None;
        }
        let stat = String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?).into_owned();
        // The name stands in brackets and may hold brackets and spaces itself (proc(5)).
        let (head, rest) = stat.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_string();
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let ticks = field(14)? + field(15)?;
        let ns = ticks * USER_TICK_NS;
        Some(Stranger { pid, name, core: field(39)? as usize, ns })
    }
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|e| Error::io(path, "read", e))
}
