//! Who waits for an acknowledgement, looked for more often than counters are read.
//!
//! A sender that waits for an acknowledgement which a timer of the kernel's delays shows at the moment of a look only
//! (`host::tcp`). In a run of a few virtual seconds one look in each would miss it now and then.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use counters::TcpCounters;
use host::NetNamespace;
use scale::{Tdf, VirtualDuration};

use super::background::Background;
use crate::error::Result;

/// How often is looked, on average.
const EVERY: VirtualDuration = VirtualDuration::from_nanos(100_000_000);
/// A look must not take a larger part of the harness core than one in so many: the kernel goes through its whole table
/// of connections, for each node.
const PART: u32 = 50;
/// The part of an interval by which each look is later in the interval than the last one, so that they are spread
/// evenly over whatever comes at regular times.
const GOLDEN: f64 = 0.618_033_988_749_895;

/// The thread that looks.
pub struct Senders {
    seen: Arc<Seen>,
    _thread: Background,
}

#[derive(Default)]
struct Seen {
    /// Whether anybody wants to know.
    wanted: AtomicBool,
    /// How often was looked since it was last told,
    looks: AtomicU64,
    /// and how many senders that waited were met, by node.
    met: Vec<AtomicU64>,
}

impl Senders {
    /// Begins, in these network namespaces, as soon as an acknowledgement was delayed.
    pub fn start(namespaces: Vec<NetNamespace>, tdf: Tdf) -> Result<Senders> {
        let met = namespaces.iter().map(|_| AtomicU64::new(0)).collect();
        let seen = Arc::new(Seen { met, ..Seen::default() });
        let (stop, stopped) = channel();
        let body = {
            let seen = seen.clone();
            move || look_again_and_again(&namespaces, tdf, &seen, &stopped)
        };
        Ok(Senders { seen, _thread: Background::start("senders", stop, body)? })
    }

    /// Adds those that were met since this was last called to those that the nodes' counters tell of; how many looks
    /// that were.
    pub fn add_to(&self, counters: &mut [Option<TcpCounters>]) -> u64 {
        // Where no acknowledgement is delayed nobody waits for one.
        if counters.iter().flatten().any(|counted| counted.delayed_acks > 0) {
            self.seen.wanted.store(true, Ordering::Relaxed);
        }
        for (counted, met) in counters.iter_mut().zip(&self.seen.met) {
            let met = met.swap(0, Ordering::Relaxed);
            if let Some(waiting) = counted.as_mut().and_then(|counted| counted.waiting.as_mut()) {
                *waiting += met;
            }
        }
        self.seen.looks.swap(0, Ordering::Relaxed)
    }
}

fn look_again_and_again(namespaces: &[NetNamespace], tdf: Tdf, seen: &Seen, stopped: &Receiver<()>) {
    let every = Duration::from_nanos(tdf.to_real(EVERY).as_nanos());
    let (mut place, mut pause) = (0.0, every);
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let (last, now) = (place, Instant::now());
        place = (place + GOLDEN) % 1.0;
        pause = every.mul_f64(1.0 + place - last);
        if !seen.wanted.load(Ordering::Relaxed) {
            continue;
        }
        for (namespace, met) in namespaces.iter().zip(&seen.met) {
            // One that cannot be looked through is told of with its counters.
            let found = host::tcp::waiting_senders(namespace.as_fd()).unwrap_or(0);
            met.fetch_add(found, Ordering::Relaxed);
        }
        seen.looks.fetch_add(1, Ordering::Relaxed);
        pause = pause.max(now.elapsed() * PART);
    }
}
