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
use std::time::Duration;

use record::{LogStream, NodeLogs, RunDir};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{Mode, OFlags, fchmod, fcntl_setfl};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use site::{CutLog, NodeIndex};

use crate::error::{Error, Result};

/// How long the thread sleeps when it has read what there was.
const PAUSE: Duration = Duration::from_millis(10);
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
    kept: Mutex<Kept>,
}

/// Between a node and its log.
struct Pipe {
    /// Ours.
    read: File,
    /// That of which the node's ends are copies.
    write: OwnedFd,
}

struct Kept {
    logs: Vec<NodeLogs>,
    buffer: Vec<u8>,
    /// Why a log could not be written, until that is told. What nodes print is taken in all the same.
    failure: Option<Error>,
}

impl Logs {
    /// Makes the logs of these nodes, of each of which so many bytes are kept.
    pub fn begin<'a>(results: &RunDir, nodes: impl Iterator<Item = &'a str>, limit: u64) -> Result<Logs> {
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
        let kept = Mutex::new(Kept { logs, buffer: vec![0; PIECE], failure: None });
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

    /// The end of a log, at most `limit` bytes.
    pub fn end_of(&self, node: NodeIndex, stream: LogStream, limit: u64) -> io::Result<Vec<u8>> {
        let kept = self.shared.kept();
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
    fn kept(&self) -> MutexGuard<'_, Kept> {
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
            let mut kept = self.kept();
            let mut more = false;
            for event in events.iter().map(|event: &epoll::Event| event.data.u64()).filter(|event| *event != END) {
                more |= kept.drain(&self.pipes, event, TURN) >= TURN;
            }
            drop(kept);
            if !more {
                thread::sleep(PAUSE);
            }
        }
    }
}

impl Kept {
    /// Reads a pipe into its log until it is empty, or about so much has been read; how much that was.
    fn drain(&mut self, pipes: &[[Pipe; 2]], number: u64, most: usize) -> usize {
        let (node, which) = ((number / 2) as usize, (number % 2) as usize);
        let mut all = 0;
        while all < most {
            let read = match (&pipes[node][which].read).read(&mut self.buffer) {
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
