//! The least that can join two nodes: the reference for what the emulator costs.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use host::NetNamespace;
use host::sched::{self, Class};
use net::{Network, PipeConfig, Port, Tap};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::bed::{interfaces, pair};
use crate::Error;
use crate::cores::{Cores, pin};

/// Two nodes whose interfaces are joined by a real-time thread that only reads and writes.
pub struct BareBed {
    pub spaces: Vec<NetNamespace>,
    taps: Vec<Tap>,
    ports: Vec<Port>,
}

/// Counts of the copying thread.
#[derive(Default)]
pub struct Copied {
    /// Frames written, to either side.
    pub frames: u64,
    /// Time spent in those writes, if it was measured.
    pub writing: Duration,
}

impl BareBed {
    pub fn new() -> Result<BareBed, Error> {
        let network = Network::new(pair(&PipeConfig::default()), 1).map_err(Error::failed)?;
        let (spaces, taps) = interfaces(&network)?;
        Ok(BareBed { spaces, taps, ports: network.ports().to_vec() })
    }

    pub fn addresses(&self) -> Vec<Ipv4Addr> {
        self.ports.iter().map(|port| port.address).collect()
    }

    /// Lets `traffic` run while frames are copied; `TIMED` measures the writes, which costs a little.
    pub fn copy<const TIMED: bool, T>(
        &self,
        cores: &Cores,
        traffic: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(T, Copied), Error> {
        let stop = AtomicBool::new(false);
        pin(cores.nodes);
        thread::scope(|scope| {
            let copying = scope.spawn(|| {
                pin(cores.harness);
                sched::set(Class::RealTime { priority: 50, inherited: true }).map_err(Error::machine)?;
                let mut copied = Copied::default();
                while !stop.load(Ordering::Relaxed) {
                    self.turn::<TIMED>(&mut copied);
                }
                Ok::<_, Error>(copied)
            });
            let done = traffic();
            stop.store(true, Ordering::Relaxed);
            let copied = copying.join().map_err(|_| Error::failed("the copying thread panicked"))?;
            Ok((done?, copied?))
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
