//! Reading the harness: the only part of observation that touches `/proc`.

use std::fs;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::{ClockId, clock_gettime};
use scale::{RealDuration, RealInstant};

use crate::Error;
use crate::observe::{self, CoreTicks, TcpCounters};
use crate::waiting;
use crate::watch::Stranger;

/// How often strangers are looked at: it costs some 40 µs a thread.
const LOOK: RealDuration = RealDuration::from_nanos(1_000_000_000);

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
    let counters = TcpCounters::parse(&read(&netstat)?, &read(&snmp)?).map_err(|what| Error::input(dir, what))?;
    Ok(TcpCounters { waiting: waiting_senders().ok(), ..counters })
}

/// How many TCP sockets of the calling thread's namespace keep a small segment back at this instant.
fn waiting_senders() -> Result<u64, String> {
    let why = |e: rustix::io::Errno| e.to_string();
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::SOCK_DIAG)).map_err(why)?;
    send(&socket, &waiting::request(), SendFlags::empty()).map_err(why)?;
    let mut buffer = vec![0; 32 * 1024];
    let mut count = 0;
    loop {
        let (length, _) = recv(&socket, buffer.as_mut_slice(), RecvFlags::empty()).map_err(why)?;
        let part = waiting::read(&buffer[..length])?;
        count += part.waiting;
        if part.last {
            return Ok(count);
        }
    }
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

    /// The strangers, or nothing if the last look was less than a second ago.
    pub fn look(&mut self, now: RealInstant) -> Vec<Stranger> {
        if self.looked.is_some_and(|looked| now.since(looked) < LOOK) {
            return Vec::new();
        }
        self.looked = Some(now);
        let own = std::process::id();
        let strange = |pid: &u32| *pid != own && !self.is_ours(*pid);
        // What ends while it is looked at is of no interest.
        numbers("/proc").filter(strange).flat_map(|pid| threads(pid).collect::<Vec<_>>()).collect()
    }

    fn is_ours(&self, pid: u32) -> bool {
        fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|groups| groups.contains(&self.groups))
    }
}

fn threads(pid: u32) -> impl Iterator<Item = Stranger> {
    let dir = format!("/proc/{pid}/task");
    numbers(&dir).filter_map(move |tid| {
        let stat = String::from_utf8_lossy(&fs::read(format!("{dir}/{tid}/stat")).ok()?).into_owned();
        // The name stands in brackets and may hold brackets and spaces itself (proc(5)).
        let (head, rest) = stat.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_string();
        // The last core is field 39 of the line, the first after the name is field 3.
        let core = rest.split_whitespace().nth(39 - 3)?.parse().ok()?;
        let schedstat = fs::read_to_string(format!("{dir}/{tid}/schedstat")).ok()?;
        let mut times = schedstat.split_whitespace().map_while(|t| t.parse::<u64>().ok());
        Some(Stranger { pid, tid, name, core, ns: times.next()?, waited_ns: times.next()? })
    })
}

/// The entries of a directory that are numbers.
fn numbers(dir: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|e| Error::io(path, "read", e))
}
