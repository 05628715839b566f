//! The series of what nodes use of their machines: a thread that looks at them from outside, at instants of virtual
//! time, and writes down what it saw.
//!
//! It reads words that are mapped, and files that are open, and no look allocates anything. Programs in nodes do not
//! notice: it runs on the harness's core, where it takes what it takes from whoever else is there but the emulator.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};

use cpu::CpuMeters;
use host::cgroup::MemoryUsed;
use host::storage::{DeviceCounters, DeviceWork};
use net::{PortTraffic, Traffic};
use record::{MOST_OF_NODES, NodeInterval, NodeLog, RunDir};
use scale::{RealDuration, RealInstant, VirtualDuration, VirtualInstant};
use site::{MonitorSetup, Monitored, Timeline};

use super::Prepared;
use super::background::Background;
use crate::error::Result;

/// How often rows are written out at least, in real time, for who looks at the run.
const WRITTEN_OUT: RealDuration = RealDuration::from_nanos(500_000_000);

/// The thread.
pub struct Monitor {
    thread: Background,
    /// Set when it ends.
    monitored: Arc<OnceLock<Monitored>>,
}

impl Monitor {
    /// Begins at virtual zero.
    pub fn begin(prepared: &Prepared, results: &RunDir, timeline: Timeline) -> Result<Monitor> {
        let MonitorSetup { every, .. } = prepared.setup.monitor;
        let log = results.node_log(MOST_OF_NODES)?;
        let watched = Watched::of(prepared)?;
        let monitored = Arc::new(OnceLock::new());
        let (stop, stopped) = channel();
        let body = {
            let monitored = monitored.clone();
            move || {
                let mut watched = watched;
                let look = |now, take: Take| watched.look(now, take);
                drop(monitored.set(look_again_and_again(look, log, timeline, every, &stopped)))
            }
        };
        Ok(Monitor { thread: Background::start("monitor", stop, body)?, monitored })
    }

    /// Ends it, with a last look.
    pub fn finish(self) -> Monitored {
        drop(self.thread);
        self.monitored.get().cloned().unwrap_or_default()
    }
}

/// Where it is read what nodes use.
struct Watched {
    cpu: CpuMeters,
    traffic: Traffic,
    nodes: Vec<WatchedNode>,
}

struct WatchedNode {
    name: String,
    memory: Option<MemoryUsed>,
    disk: Option<DeviceCounters>,
    ports: Vec<usize>,
    before: Used,
}

/// Counters of a node at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Used {
    /// How long one CPU would have worked for what all have done, real ns.
    cpu: Option<f64>,
    disk: Option<DeviceWork>,
    traffic: PortTraffic,
}

/// Takes what a node has used: the counters of the last look and of this one, and its memory. False: that is enough.
type Take<'a> = &'a mut dyn FnMut(&str, [&Used; 2], Option<u64>) -> bool;

impl Watched {
    fn of(prepared: &Prepared) -> Result<Watched> {
        let Prepared { setup, shares, network, disks, .. } = prepared;
        let device = |node| DeviceCounters::of(&disks.as_ref()?.of(node)?.device);
        let node = |(index, node): (usize, &site::NodeSetup)| WatchedNode {
            name: node.name.clone(),
            memory: MemoryUsed::of(&shares.container_path(&node.name)),
            disk: device(index),
            ports: network.emulator().ports_of(&node.name),
            before: Used::default(),
        };
        Ok(Watched {
            cpu: shares.meters(&setup.monitor.cores)?,
            traffic: network.emulator().traffic().clone(),
            nodes: setup.nodes.iter().enumerate().map(node).collect(),
        })
    }

    /// Looks at all nodes; what they have used since the last look goes to `take`, until that says that it is enough.
    fn look(&mut self, now: RealInstant, take: Take) {
        let Watched { cpu, traffic, nodes } = self;
        for (index, node) in nodes.iter_mut().enumerate() {
            let passed = node.ports.iter().map(|port| traffic.at(*port));
            let used = Used {
                cpu: cpu.read(index, now),
                disk: node.disk.as_ref().and_then(DeviceCounters::read),
                traffic: passed.fold(PortTraffic::default(), PortTraffic::plus),
            };
            let memory = node.memory.as_mut().and_then(MemoryUsed::read);
            let before = std::mem::replace(&mut node.before, used);
            if !take(&node.name, [&before, &used], memory) {
                return;
            }
        }
    }
}

fn look_again_and_again(
    mut look: impl FnMut(RealInstant, Take),
    mut log: NodeLog,
    timeline: Timeline,
    every: VirtualDuration,
    stopped: &Receiver<()>,
) -> Monitored {
    // Where sleeps end later, so do looks.
    let _ = host::time::precise_sleep();
    let (begun, cpu) = (host::now(), host::time::of_this_thread());
    let mut seen = Monitored { every, ..Monitored::default() };
    let (mut last, mut written_out) = (begun, begun);
    look(begun, &mut |_, _, _| true);
    loop {
        let step = longer(every, log.coarser());
        let due = following(timeline.at(host::now()), step);
        let wait = timeline.until(due, host::now());
        let goes_on = stopped.recv_timeout(wait.into()) == Err(RecvTimeoutError::Timeout);
        let now = host::now();
        let (from, to) = (timeline.at(last), timeline.at(now));
        if goes_on {
            seen.missed += to.since(due).as_nanos() / step.as_nanos().max(1);
        }
        let real_ns = now.since(last).as_nanos() as f64;
        last = now;
        let mut written = Ok(true);
        look(now, &mut |name, used, memory| {
            written = log.add(&grown(name, [from, to], real_ns, used, memory));
            matches!(written, Ok(true))
        });
        seen.samples += 1;
        if let Ok(true) = written
            && (!goes_on || now.since(written_out) >= WRITTEN_OUT)
        {
            written_out = now;
            written = log.flush().map(|()| true);
        }
        match written {
            Ok(true) if goes_on => note_coarser(&mut seen, to, longer(every, log.coarser())),
            Ok(true) => break,
            Ok(false) => {
                let flushed = log.flush().err().map(|e| e.to_string());
                seen.ended = Some((to, flushed.unwrap_or_else(|| "it is as long as it may become".into())));
                break;
            }
            Err(e) => {
                seen.ended = Some((to, e.to_string()));
                break;
            }
        }
    }
    seen.cpu = host::time::of_this_thread().saturating_sub(cpu);
    seen.lasted = host::now().since(begun);
    seen
}

/// Notes from when on intervals are longer, if they are.
fn note_coarser(seen: &mut Monitored, at: VirtualInstant, step: VirtualDuration) {
    let now = seen.coarser.last().map_or(seen.every, |(_, step)| *step);
    if step > now {
        seen.coarser.push((at, step));
    }
}

fn longer(every: VirtualDuration, times: u32) -> VirtualDuration {
    VirtualDuration::from_nanos(every.as_nanos().saturating_mul(u64::from(times)))
}

/// The next whole multiple of `step` after an instant.
pub(super) fn following(at: VirtualInstant, step: VirtualDuration) -> VirtualInstant {
    let step = step.as_nanos().max(1);
    VirtualInstant::from_nanos((at.as_nanos() / step + 1).saturating_mul(step))
}

/// A node's use between two looks.
fn grown<'a>(
    node: &'a str,
    [from, to]: [VirtualInstant; 2],
    real_ns: f64,
    [before, used]: [&Used; 2],
    memory_bytes: Option<u64>,
) -> NodeInterval<'a> {
    let disk = |of: fn(&DeviceWork) -> u64| {
        // A device that has gone has done nothing that is known.
        used.disk.as_ref().map(|now| before.disk.as_ref().map_or(0, |before| of(now).saturating_sub(of(before))))
    };
    let port = |of: fn(&PortTraffic) -> u64| of(&used.traffic).saturating_sub(of(&before.traffic));
    let cpus = used.cpu.zip(before.cpu).map(|(now, before)| (now - before).max(0.0) / real_ns.max(1.0));
    NodeInterval {
        from_s: from.as_secs_f64(),
        to_s: to.as_secs_f64(),
        node,
        cpus,
        memory_bytes,
        reads: disk(|d| d.reads),
        read_bytes: disk(|d| d.read_bytes),
        writes: disk(|d| d.writes),
        written_bytes: disk(|d| d.written_bytes),
        packets_in: port(|p| p.packets_in),
        bytes_in: port(|p| p.bytes_in),
        packets_out: port(|p| p.packets_out),
        bytes_out: port(|p| p.bytes_out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> VirtualInstant {
        VirtualInstant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn looks_are_at_whole_multiples_of_the_interval() {
        let step = VirtualDuration::from_nanos(100_000_000);
        assert_eq!([0, 99, 100, 250].map(|at| following(ms(at), step)), [100, 100, 200, 300].map(ms));
        let mut seen = Monitored { every: step, ..Monitored::default() };
        for (at, times) in [(100, 1), (200, 2), (400, 2), (600, 4)] {
            note_coarser(&mut seen, ms(at), longer(step, times));
        }
        assert_eq!(seen.coarser, [(ms(200), longer(step, 2)), (ms(600), longer(step, 4))]);
    }

    #[test]
    fn an_interval_is_what_counters_grew_by() {
        let disk = |reads, read_bytes| DeviceWork { reads, read_bytes, ..DeviceWork::default() };
        let traffic = |packets_in, bytes_in| PortTraffic { packets_in, bytes_in, ..PortTraffic::default() };
        let before = Used { cpu: Some(4e6), disk: Some(disk(10, 8_192)), traffic: traffic(7, 700) };
        let after = Used { cpu: Some(9e6), disk: Some(disk(12, 12_288)), traffic: traffic(9, 898) };
        let found = grown("a", [ms(1), ms(2)], 10e6, [&before, &after], Some(77));
        assert_eq!(
            (found.cpus, found.memory_bytes, found.reads, found.read_bytes),
            (Some(0.5), Some(77), Some(2), Some(4_096))
        );
        assert_eq!((found.packets_in, found.bytes_in, found.packets_out), (2, 198, 0));
        // Its disk is there for the first time, and its meter cannot be read.
        let (diskless, unmetered) = (Used { disk: None, ..before }, Used { cpu: None, ..after });
        let new = grown("a", [ms(1), ms(2)], 10e6, [&diskless, &unmetered], None);
        assert_eq!((new.cpus, new.reads, new.memory_bytes), (None, Some(0), None));
        let gone = grown("a", [ms(1), ms(2)], 10e6, [&before, &Used { disk: None, ..after }], None);
        assert_eq!(gone.reads, None);
    }

    /// Looks at one node every millisecond of real time, until `stop` says so.
    fn series(log: NodeLog, stop: impl FnOnce(std::sync::mpsc::Sender<()>) + Send) -> Monitored {
        let zero = site::Zero { real: host::now(), from: VirtualInstant::ZERO, unix_ns: 0 };
        let timeline = Timeline::new(zero, scale::Tdf::ONE);
        let (sender, stopped) = channel();
        let mut used = Used { cpu: Some(0.0), ..Used::default() };
        let look = |_, take: Take| {
            let before = used;
            used.traffic.packets_in += 1;
            take("a", [&before, &used], Some(4_096));
        };
        std::thread::scope(|scope| {
            scope.spawn(|| stop(sender));
            look_again_and_again(look, log, timeline, VirtualDuration::from_nanos(1_000_000), &stopped)
        })
    }

    #[test]
    fn looks_go_on_until_the_end_and_leave_no_time_out() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::prepare(temp.path(), []).unwrap();
        let seen = series(dir.node_log(1 << 20).unwrap(), |stop| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            drop(stop);
        });
        let (mut rows, mut last) = (0, 0.0);
        dir.each_node_interval(|row| {
            assert!(rows == 0 || row.from_s == last, "{row:?} follows {last}");
            (rows, last) = (rows + 1, row.to_s);
            assert_eq!((row.packets_in, row.cpus), (1, Some(0.0)));
            Ok(())
        })
        .unwrap();
        assert!(rows > 1 && rows == seen.samples && seen.ended.is_none(), "{rows}: {seen:?}");
        assert!(last >= 0.05 && seen.lasted.as_secs_f64() >= 0.05, "{last}: {seen:?}");
    }

    #[test]
    fn a_series_that_cannot_be_written_ends_and_says_why() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let seen = series(NodeLog::begin("nodes.csv", full, 1 << 20), drop);
        let (_, why) = seen.ended.unwrap();
        assert!(why.contains("nodes.csv") && why.contains("No space left"), "{why}");
        let temp = tempfile::tempdir().unwrap();
        let log = RunDir::prepare(temp.path(), []).unwrap().node_log(700).unwrap();
        // Nobody stops it.
        let (keep, kept) = channel();
        let seen = series(log, |stop| keep.send(stop).unwrap());
        drop(kept);
        assert!(seen.ended.is_some_and(|(_, why)| why.contains("as long as it may become")));
    }
}
