//! Logs of the nodes: through pipes, which one thread reads for all of them, into files of the harness's own.
//!
//! A node never holds a file of the host: what it can do to its end of a pipe concerns nobody else. The thread runs on
//! the harness's cores, behind the emulator, and sleeps between two looks, so that nodes which print line by line wake
//! it a hundred times a second at most, all of them together.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use record::{LogStream, NodeLogs, RunDir};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{Mode, OFlags, fchmod, fcntl_setfl};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use scale::RealRate;
use site::{CutLog, NodeIndex};

use crate::error::{Error, Result};

/// How long the thread sleeps when it has read what there was.
const PAUSE: Duration = Duration::from_millis(10);
/// How many times as long as it has worked it sleeps at least: whatever nodes print, most of its core is others'.
const REST: u32 = 7;
/// The longest that it sleeps, however long the disk has kept it.
const LONGEST_REST: Duration = Duration::from_millis(100);
/// How much a pipe holds, so that a node prints without waiting for the thread; the kernel supplies it as it is used.
const PIPE: usize = 1 << 20;
/// How much is read at once.
const PIECE: usize = 1 << 16;
/// How much is read of one pipe before it is another's turn.
const TURN: usize = 1 << 18;
/// The mark, among those of pipes, that the thread is to end.
const END: u64 = u64::MAX;

/// The logs of all nodes of a run.
pub struct Logs {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    epoll: OwnedFd,
    ends: AtomicBool,
    /// An eventfd that wakes the thread for that.
    end: OwnedFd,
    pipes: Vec<[Pipe; 2]>,
    kept: Mutex<LogFiles>,
}

/// Between a node and its log.
struct Pipe {
    /// Ours.
    read: File,
    /// That of which the node's ends are copies.
    write: OwnedFd,
}

struct LogFiles {
    logs: Vec<NodeLogs>,
    /// Bytes that each node may print now, where that is limited.
    allowances: Vec<Option<Allowance>>,
    buffer: Vec<u8>,
    /// Why a log could not be written, until that is told. What nodes print is taken in all the same.
    failure: Option<Error>,
}

/// How much of what a node prints is read now, so that it prints no faster than at some rate.
#[derive(Clone, Debug)]
struct Allowance {
    bytes_per_s: f64,
    left: f64,
    at: Instant,
}

impl Allowance {
    fn new(rate: RealRate, now: Instant) -> Allowance {
        Allowance { bytes_per_s: rate.bits_per_s() / 8.0, left: 0.0, at: now }
    }

    /// How many bytes by now. What was not used for longer than a tenth of a second is lost.
    fn by(&mut self, now: Instant) -> usize {
        let most = (self.bytes_per_s / 10.0).max(1.0);
        self.left = (self.left + self.bytes_per_s * now.duration_since(self.at).as_secs_f64()).min(most);
        self.at = now;
        self.left as usize
    }
}

impl Logs {
    /// Makes the logs of these nodes, of each of which so many bytes are kept, and which print at most at `rate`.
    pub fn begin<'a>(
        results: &RunDir,
        nodes: impl Iterator<Item = &'a str>,
        limit: u64,
        rate: Option<RealRate>,
    ) -> Result<Logs> {
        let failed = |e: rustix::io::Errno| Error::io("the pipes of the nodes' logs")(e);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed)?;
        epoll::add(&epoll, &end, EventData::new_u64(END), EventFlags::IN).map_err(failed)?;
        let (mut pipes, mut logs) = (Vec::new(), Vec::new());
        for name in nodes {
            logs.push(NodeLogs::make(results, name, limit)?);
            let first = 2 * pipes.len() as u64;
            let both = [LogStream::Stdout, LogStream::Stderr].map(|stream| Pipe::make(&epoll, first + stream as u64));
            let [stdout, stderr] = both;
            pipes.push([stdout.map_err(failed)?, stderr.map_err(failed)?]);
        }
        let allowances = vec![rate.map(|rate| Allowance::new(rate, Instant::now())); logs.len()];
        let kept = Mutex::new(LogFiles { logs, allowances, buffer: vec![0; PIECE], failure: None });
        let shared = Arc::new(Shared { epoll, ends: AtomicBool::new(false), end, pipes, kept });
        let thread = thread::Builder::new().name("logs".into()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.follow()
        });
        let thread = thread.map_err(Error::io("the thread that reads the nodes' logs"))?;
        Ok(Logs { shared, thread: Some(thread) })
    }

    /// Copies of the pipes for a program's standard output and error.
    pub fn ends(&self, node: NodeIndex) -> Result<[File; 2]> {
        let copy = |pipe: &Pipe| pipe.write.try_clone().map(File::from).map_err(Error::io("a pipe of a node's log"));
        let [stdout, stderr] = &self.shared.pipes[node];
        Ok([copy(stdout)?, copy(stderr)?])
    }

    /// Takes in all that has been printed and puts the logs in order: what had to be cut out of them.
    pub fn settle(&self) -> Result<Vec<CutLog>> {
        let mut kept = self.shared.kept();
        for pipe in 0..2 * self.shared.pipes.len() as u64 {
            // Output that comes meanwhile, and that may be without an end, is of later.
            kept.drain(&self.shared.pipes, pipe, PIPE);
        }
        if let Some(failure) = kept.failure.take() {
            return Err(failure);
        }
        let mut cuts = Vec::new();
        for (node, logs) in kept.logs.iter_mut().enumerate() {
            let of_node = [LogStream::Stdout, LogStream::Stderr].into_iter().zip(logs.settle()?);
            cuts.extend(of_node.filter(|(_, bytes)| *bytes > 0).map(|(log, bytes)| CutLog { node, log, bytes }));
        }
        Ok(cuts)
    }

    /// Reads a log from a place on, at most `limit` bytes.
    pub fn read(&self, node: NodeIndex, stream: LogStream, offset: u64, limit: u64) -> io::Result<Vec<u8>> {
        self.shared.kept().logs[node].read(stream, offset, limit)
    }

    /// The end of a log, at most `limit` bytes, with all that has been printed.
    pub fn end_of(&self, node: NodeIndex, stream: LogStream, limit: u64) -> io::Result<Vec<u8>> {
        let mut kept = self.shared.kept();
        kept.drain(&self.shared.pipes, 2 * node as u64 + stream as u64, PIPE);
        let logs = &kept.logs[node];
        logs.read(stream, logs.length(stream).saturating_sub(limit), limit)
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        let _ = rustix::io::write(&self.shared.end, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // The last output of nodes. There is nobody left to tell what goes wrong.
        let _ = self.settle();
    }
}

impl Pipe {
    fn make(epoll: &OwnedFd, number: u64) -> rustix::io::Result<Pipe> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&read, OFlags::NONBLOCK)?;
        // A program that opens /dev/stdout may be any user of its node.
        fchmod(&write, Mode::from_raw_mode(0o666))?;
        // Without the right to more, it is less.
        let _ = fcntl_setpipe_size(&write, PIPE);
        epoll::add(epoll, &read, EventData::new_u64(number), EventFlags::IN)?;
        Ok(Pipe { read: read.into(), write })
    }
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, LogFiles> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread's life.
    fn follow(&self) {
        let mut events = Vec::with_capacity(64);
        while !self.ends.load(Ordering::Relaxed) {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // Nothing that was set up here fails so.
                Err(_) => return,
            }
            let since = Instant::now();
            let mut kept = self.kept();
            let mut more = false;
            for event in events.iter().map(|event: &epoll::Event| event.data.u64()).filter(|event| *event != END) {
                more |= kept.turn(&self.pipes, event, since) >= TURN;
            }
            drop(kept);
            // Who prints without an end waits for it, as for a slow console.
            let rest = since.elapsed() * REST;
            thread::sleep(if more { rest.min(LONGEST_REST) } else { rest.clamp(PAUSE, LONGEST_REST) });
        }
    }
}

impl LogFiles {
    /// Reads of a pipe what its node may print by now, at most for a turn; how much that was.
    fn turn(&mut self, pipes: &[[Pipe; 2]], number: u64, now: Instant) -> usize {
        let node = (number / 2) as usize;
        let allowed = self.allowances[node].as_mut().map_or(TURN, |allowance| allowance.by(now).min(TURN));
        let read = self.drain(pipes, number, allowed);
        if let Some(allowance) = &mut self.allowances[node] {
            allowance.left -= read as f64;
        }
        read
    }

    /// Reads a pipe into its log until it is empty, or so much has been read; how much that was.
    fn drain(&mut self, pipes: &[[Pipe; 2]], number: u64, most: usize) -> usize {
        let (node, which) = ((number / 2) as usize, (number % 2) as usize);
        let mut all = 0;
        while all < most {
            let piece = self.buffer.len().min(most - all);
            let read = match (&pipes[node][which].read).read(&mut self.buffer[..piece]) {
                Ok(0) | Err(_) => break,
                Ok(read) => read,
            };
            all += read;
            let stream = [LogStream::Stdout, LogStream::Stderr][which];
            if let Err(e) = self.logs[node].write(stream, &self.buffer[..read]) {
                self.failure.get_or_insert(e.into());
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::PathBuf;

    use super::*;

    /// CPU time of the threads of this name, s. Another test's does little.
    fn cpu_s(name: &str) -> f64 {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten().map(|entry| entry.path());
        let ours = tasks.filter(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(|c| c.trim() == name));
        let of_task =
            |task: PathBuf| std::fs::read_to_string(task.join("schedstat")).ok()?.split(' ').next()?.parse().ok();
        ours.filter_map(of_task).map(|ns: f64| ns / 1e9).sum()
    }

    #[test]
    fn a_flood_of_lines_leaves_most_of_the_harness_core_to_others() {
        let temp = tempfile::tempdir().unwrap();
        let results = RunDir::prepare(temp.path(), ["a", "b"]).unwrap();
        let logs = Logs::begin(&results, ["a", "b"].into_iter(), 1 << 20, None).unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let floods = [0, 1].map(|node| {
            let (mut ends_of_node, ends) = (logs.ends(node).unwrap(), Arc::clone(&ends));
            thread::spawn(move || {
                let (line, mut printed) = (b"a line without an end \n".repeat(2000), 0);
                while !ends.load(Ordering::Relaxed) {
                    printed += ends_of_node[0].write(&line).unwrap();
                }
                printed
            })
        });
        let (since, before) = (Instant::now(), cpu_s("logs"));
        // While they print all the time, the thread has its part of the time and no more.
        while since.elapsed() < Duration::from_secs(2) {
            thread::sleep(PAUSE);
        }
        let part = (cpu_s("logs") - before) / since.elapsed().as_secs_f64();
        ends.store(true, Ordering::Relaxed);
        let printed: usize = floods.map(|flood| flood.join().unwrap()).iter().sum();
        assert!(printed > 8 << 20, "the thread goes on reading: {printed} bytes were printed");
        assert!(part < 0.25, "the thread had {part:.3} of a core, and is to have an eighth at most");
        let cut: u64 = logs.settle().unwrap().iter().map(|cut| cut.bytes).sum();
        assert!(cut > 0, "what is not kept is told");
    }

    #[test]
    fn a_node_prints_no_faster_than_it_may() {
        let temp = tempfile::tempdir().unwrap();
        let results = RunDir::prepare(temp.path(), ["a"]).unwrap();
        let rate = RealRate::from_bits_per_s(8.0 * 1e6);
        let logs = Logs::begin(&results, ["a"].into_iter(), 64 << 20, Some(rate)).unwrap();
        let [mut stdout, _] = logs.ends(0).unwrap();
        let since = Instant::now();
        // Bytes in the pipe at the end have been printed, too.
        let (text, held) = (vec![b'x'; 3 << 20], PIPE as f64);
        stdout.write_all(&text).unwrap();
        let (took, through) = (since.elapsed().as_secs_f64(), text.len() as f64 - held);
        assert!(took > through / 1e6 * 0.9, "{through} bytes went through in {took} s");
        logs.settle().unwrap();
        assert_eq!(logs.end_of(0, LogStream::Stdout, u64::MAX).unwrap().len(), text.len(), "and nothing is lost");
    }

    #[test]
    fn an_allowance_is_used_or_lost() {
        let start = Instant::now();
        let mut allowance = Allowance::new(RealRate::from_bits_per_s(8000.0), start);
        assert_eq!(allowance.by(start), 0);
        assert_eq!(allowance.by(start + Duration::from_millis(50)), 50);
        assert_eq!(allowance.by(start + Duration::from_secs(60)), 100);
        let mut slow = Allowance::new(RealRate::from_bits_per_s(1.0), start);
        assert_eq!(slow.by(start + Duration::from_secs(60)), 1, "however slow, one after another comes");
    }
}
