//! Two namespaces and one link between them, and ways to send through it.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use net::{
    Capture, CaptureFile, DEFAULT_MTU, Emulator, LinkSpec, Network, NetworkSpec, Options, PipeChange, PipeConfig,
    PipeId, Port, Tap,
};
use node::NetNamespace;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use scale::{RealDuration, RealInstant};

use super::patient;
use crate::failure::Failure;

const PORT: u16 = 7000;

/// Which core does what.
#[derive(Clone, Copy)]
pub struct Cores {
    /// Senders and receivers, as the nodes of a run.
    pub nodes: usize,
    /// The emulator.
    pub harness: usize,
}

impl Cores {
    /// The first and the last core that this process may use.
    pub fn find() -> Result<Cores, Failure> {
        let allowed = sched_getaffinity(None).map_err(Failure::machine)?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|c| allowed.is_set(*c));
        match (cores.next(), cores.next_back()) {
            (Some(nodes), Some(harness)) => Ok(Cores { nodes, harness }),
            _ => Err(Failure::machine("the network cannot be measured on one core; allow this command two (taskset)")),
        }
    }
}

/// Binds the calling thread to a core.
pub fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    // The core came from this process's own set.
    let _ = sched_setaffinity(None, &set);
}

/// A thread that keeps a core awake and yields to everything else.
pub struct Filler(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Filler {
    pub fn start(core: usize) -> Result<Filler, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let spin = move || {
            pin(core);
            let parameters = libc::sched_param { sched_priority: 0 };
            // SAFETY: `parameters` is a valid sched_param; 0 is the calling thread.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) };
            while !seen.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        let thread = thread::Builder::new().name("filler".into()).spawn(spin).map_err(Failure::failed)?;
        Ok(Filler(stop, Some(thread)))
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.1.take() {
            // It cannot panic.
            let _ = thread.join();
        }
    }
}

/// Nodes `a` and `b` joined by one link.
pub struct Bed {
    pub emulator: Emulator,
    pub spaces: [NetNamespace; 2],
    addresses: [Ipv4Addr; 2],
    pipes: [PipeId; 2],
    cores: Cores,
}

fn spec(config: &PipeConfig) -> NetworkSpec {
    let (ab, ba) = (config.clone(), PipeConfig::default());
    let link = LinkSpec { name: "a--b".into(), a: "a".into(), b: "b".into(), ab, ba, mtu: DEFAULT_MTU, tso: true };
    NetworkSpec { nodes: vec!["a".into(), "b".into()], links: vec![link], ..Default::default() }
}

/// A star; both directions of each link are `config`.
pub fn star(nodes: usize, config: &PipeConfig) -> NetworkSpec {
    let nodes: Vec<String> = (1..=nodes).map(|i| format!("n{i}")).collect();
    let link = |n: &String| {
        let (ab, ba) = (config.clone(), config.clone());
        LinkSpec { name: format!("{n}--core"), a: n.clone(), b: "core".into(), ab, ba, mtu: DEFAULT_MTU, tso: true }
    };
    NetworkSpec { links: nodes.iter().map(link).collect(), nodes, switches: vec!["core".into()], routes: Vec::new() }
}

fn interfaces(network: &Network) -> Result<([NetNamespace; 2], Vec<Tap>), Failure> {
    let space = || NetNamespace::create().map_err(Failure::machine);
    let spaces = [space()?, space()?];
    let tap = |(space, port): (&NetNamespace, _)| Tap::create(space.as_fd(), port).map_err(Failure::machine);
    let taps = spaces.iter().zip(network.ports()).map(tap).collect::<Result<_, _>>()?;
    Ok((spaces, taps))
}

impl Bed {
    /// `config` is the direction from `a` to `b`; the other is perfect. Nothing is left to chance, or to always the same one.
    pub fn start(config: &PipeConfig, cores: &Cores, polling: Option<RealDuration>) -> Result<Bed, Failure> {
        Bed::seeded(config, cores, polling, 1)
    }

    /// The same, for a link that leaves something to chance.
    pub fn seeded(
        config: &PipeConfig,
        cores: &Cores,
        polling: Option<RealDuration>,
        seed: u64,
    ) -> Result<Bed, Failure> {
        let network = Network::new(spec(config), seed).map_err(Failure::failed)?;
        let (spaces, taps) = interfaces(&network)?;
        let addresses = [network.ports()[0].address, network.ports()[1].address];
        let pipes = [network.ports()[0].pipe, network.ports()[1].pipe];
        let options = Options { core: Some(cores.harness), polling };
        let emulator = Emulator::start(network, taps, options).map_err(Failure::machine)?;
        pin(cores.nodes);
        Ok(Bed { emulator, spaces, addresses, pipes, cores: *cores })
    }

    pub fn set_both(&self, change: &PipeChange) -> Result<(), Failure> {
        let changes = self.pipes.map(|pipe| (pipe, change.clone()));
        self.emulator.set(changes.to_vec()).map(drop).map_err(Failure::failed)
    }

    /// A socket in `a`, connected to one in `b`.
    pub fn sockets(&self) -> Result<(UdpSocket, UdpSocket), Failure> {
        sockets(&self.spaces, self.addresses)
    }

    /// Puts the calling thread where the nodes of a run are.
    pub fn join_nodes(&self) {
        pin(self.cores.nodes);
    }

    /// Records the frames of both directions. As in a run, who writes them shares the emulator's core.
    pub fn capture(&self, path: PathBuf, snap: usize) -> Result<Capture, Failure> {
        pin(self.cores.harness);
        let file = CaptureFile { path, pipes: self.pipes.to_vec(), snap };
        let capture = self.emulator.capture(vec![file], Box::new(RealInstant::as_nanos));
        pin(self.cores.nodes);
        capture.map_err(Failure::failed)
    }
}

/// A socket in the first namespace, connected to one in the second.
pub fn sockets(spaces: &[NetNamespace; 2], addresses: [Ipv4Addr; 2]) -> Result<(UdpSocket, UdpSocket), Failure> {
    let bound = |space: &NetNamespace| {
        let socket = space.enter(|| UdpSocket::bind(("0.0.0.0", PORT))).map_err(Failure::failed)?;
        patient(socket.map_err(Failure::failed)?)
    };
    let (from, to) = (bound(&spaces[0])?, bound(&spaces[1])?);
    from.connect((addresses[1], PORT)).map_err(Failure::failed)?;
    to.connect((addresses[0], PORT)).map_err(Failure::failed)?;
    Ok((from, to))
}

/// A bulk transfer from the first namespace to the second.
pub fn tcp(spaces: &[NetNamespace; 2], addresses: [Ipv4Addr; 2], time: Duration) -> Result<(), Failure> {
    let listener = spaces[1].enter(|| TcpListener::bind(("0.0.0.0", PORT))).map_err(Failure::failed)?;
    let listener = listener.map_err(Failure::failed)?;
    let to = (addresses[1], PORT);
    let stream = spaces[0].enter(|| TcpStream::connect(to)).map_err(Failure::failed)?;
    let mut stream = stream.map_err(Failure::failed)?;
    let (mut sink, _) = listener.accept().map_err(Failure::failed)?;
    for s in [&stream, &sink] {
        s.set_write_timeout(Some(Duration::from_secs(3))).map_err(Failure::failed)?;
        s.set_read_timeout(Some(Duration::from_secs(3))).map_err(Failure::failed)?;
    }
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut buffer = vec![0; 1 << 17];
            while sink.read(&mut buffer)? > 0 {}
            Ok::<_, std::io::Error>(())
        });
        let start = Instant::now();
        while start.elapsed() < time {
            stream.write_all(&[0; 16384]).map_err(Failure::failed)?;
        }
        drop(stream);
        reader.join().map_err(|_| Failure::failed("the reader panicked"))?.map_err(Failure::failed)
    })
}

/// Sends `count` datagrams as fast as the kernel takes them, many a call.
pub fn blast(socket: &UdpSocket, payload: usize, count: usize) {
    let data = vec![0u8; payload];
    let mut part = libc::iovec { iov_base: data.as_ptr() as *mut _, iov_len: data.len() };
    // SAFETY: an mmsghdr is plain data and pointers, for which all bytes zero are a value.
    let mut messages: [libc::mmsghdr; 50] = unsafe { std::mem::zeroed() };
    for message in &mut messages {
        message.msg_hdr.msg_iov = &mut part;
        message.msg_hdr.msg_iovlen = 1;
    }
    let mut left = count;
    while left > 0 {
        let n = left.min(messages.len());
        // SAFETY: the messages and the one buffer that they share live until the call returns.
        let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), n as u32, 0) };
        left -= n.min(sent.max(1) as usize);
    }
}

/// Sends for `time`.
pub fn flood(socket: &UdpSocket, payload: usize, time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        blast(socket, payload, 200);
    }
}

/// Frames that the only TAP interface of the namespace has received.
pub fn received_frames(space: &NetNamespace) -> Result<u64, Failure> {
    let text = space.enter(|| fs::read_to_string("/proc/thread-self/net/dev")).map_err(Failure::failed)?;
    let text = text.map_err(Failure::failed)?;
    let frames =
        text.lines().find_map(|l| l.trim().strip_prefix("eth0:")?.split_ascii_whitespace().nth(1)?.parse().ok());
    frames.ok_or_else(|| Failure::failed("the interface has gone"))
}

/// Two nodes whose interfaces are joined by a real-time thread that only reads and writes.
pub struct BareBed {
    pub spaces: [NetNamespace; 2],
    taps: Vec<Tap>,
    ports: Vec<Port>,
}

/// What the copying thread did.
#[derive(Default)]
pub struct Copied {
    /// Frames written, to either side.
    pub frames: u64,
    /// Time spent in those writes, if it was measured.
    pub writing: Duration,
}

impl BareBed {
    pub fn new() -> Result<BareBed, Failure> {
        let network = Network::new(spec(&PipeConfig::default()), 1).map_err(Failure::failed)?;
        let (spaces, taps) = interfaces(&network)?;
        Ok(BareBed { spaces, taps, ports: network.ports().to_vec() })
    }

    pub fn addresses(&self) -> [Ipv4Addr; 2] {
        [0, 1].map(|i: usize| self.ports[i].address)
    }

    /// Lets `traffic` run while frames are copied; `TIMED` measures the writes, which costs a little.
    pub fn copy<const TIMED: bool, T>(
        &self,
        cores: &Cores,
        traffic: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<(T, Copied), Failure> {
        let stop = AtomicBool::new(false);
        pin(cores.nodes);
        thread::scope(|scope| {
            let copying = scope.spawn(|| {
                pin(cores.harness);
                let parameters = libc::sched_param { sched_priority: 50 };
                // SAFETY: `parameters` is a valid sched_param; 0 is the calling thread.
                unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) };
                let mut copied = Copied::default();
                while !stop.load(Ordering::Relaxed) {
                    self.turn::<TIMED>(&mut copied);
                }
                copied
            });
            let done = traffic();
            stop.store(true, Ordering::Relaxed);
            let copied = copying.join().map_err(|_| Failure::failed("the copying thread panicked"))?;
            Ok((done?, copied))
        })
    }

    /// Waits for frames and copies a batch from each side that has any.
    fn turn<const TIMED: bool>(&self, copied: &mut Copied) {
        let mut ready = [0, 1].map(|i: usize| PollFd::new(&self.taps[i], PollFlags::IN));
        // A time-out, so that the thread sees when it is to stop. Errors show on reading.
        let _ = poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 }));
        let mut frame = [0; 2048];
        for side in [0, 1] {
            if ready[side].revents().is_empty() {
                continue;
            }
            for _ in 0..64 {
                let Ok(len) = rustix::io::read(&self.taps[side], &mut frame) else { break };
                frame[..6].copy_from_slice(&self.ports[1 - side].mac);
                let before = TIMED.then(Instant::now);
                // A frame that the other side refuses is as good as delivered here.
                let _ = rustix::io::write(&self.taps[1 - side], &frame[..len]);
                copied.writing += before.map_or(Duration::ZERO, |b| b.elapsed());
                copied.frames += 1;
            }
        }
    }
}
