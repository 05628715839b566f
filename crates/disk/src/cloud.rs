//! A volume that a cloud provider rents out.
//!
//! Nobody knows the machinery behind it, but the promise is: so many requests and bytes per second, some more as long
//! as there are credits, and a latency. A request is let in when both buckets have what it costs, and takes a latency
//! that is drawn from a distribution then. What is complete is durable: it has been written in several places.

mod bucket;
mod parameters;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use scale::{VirtualDuration, VirtualInstant};

pub use self::parameters::{CloudParameters, Latency, Rate};

use self::bucket::Bucket;
use crate::disk::Counters;
use crate::ledger::Ledger;
use crate::outbox::Outbox;
use crate::request::{Event, EventKind, Lost, Op, Request};
use crate::slots::Slots;

/// The 99th percentile of the normal distribution with mean 0 and variance 1.
const NORMAL_P99: f64 = 2.326_347_874;

#[derive(Debug)]
pub(crate) struct Cloud {
    parameters: CloudParameters,
    requests: Bucket,
    bytes: Bucket,
    random: Xoshiro256PlusPlus,
    pub(crate) ledger: Ledger,
    outbox: Outbox,
    pub(crate) counters: Counters,
    slots: Slots,
    now: VirtualInstant,
}

impl Cloud {
    pub fn new(parameters: &CloudParameters, random: Xoshiro256PlusPlus) -> Cloud {
        Cloud {
            requests: Bucket::new(parameters.requests),
            bytes: Bucket::new(parameters.bytes),
            parameters: parameters.clone(),
            random,
            ledger: Ledger::default(),
            outbox: Outbox::default(),
            counters: Counters::default(),
            slots: Slots::new(parameters.queue_depth),
            now: VirtualInstant::ZERO,
        }
    }

    pub fn submit(&mut self, at: VirtualInstant, request: Request) -> VirtualInstant {
        self.now = self.now.max(at);
        self.ledger.open(&request);
        if let Some(request) = self.slots.arrive(request) {
            self.take(request, at);
        }
        at
    }

    fn take(&mut self, request: Request, at: VirtualInstant) {
        let done = match request.op {
            // Complete writes are durable, and others are no matter of a flush.
            Op::Flush => at + self.draw(self.parameters.flush),
            Op::Trim => at + self.draw(self.parameters.write),
            op => {
                let counted = request.length.div_ceil(self.parameters.request_bytes);
                let one = self.requests.take(at, counted as f64);
                let other = self.bytes.take(at, request.length as f64);
                let latency = if op == Op::Read { self.parameters.read } else { self.parameters.write };
                one.max(other) + self.draw(latency)
            }
        };
        self.outbox.put(done, request.id, EventKind::Completed);
    }

    /// A latency: its logarithm is distributed normally.
    fn draw(&mut self, latency: Latency) -> VirtualDuration {
        let sigma = (latency.p99_ms / latency.median_ms).ln() / NORMAL_P99;
        // Box and Muller, *A Note on the Generation of Random Normal Deviates*, 1958.
        let (u, v) = (1.0 - self.random.random::<f64>(), self.random.random::<f64>());
        let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        let drawn = latency.median_ms * (sigma * normal).exp();
        VirtualDuration::from_secs_f64(drawn.max(latency.least_ms) / 1e3)
    }

    pub fn next_event(&mut self) -> Option<VirtualInstant> {
        self.outbox.next()
    }

    pub fn advance(&mut self, to: VirtualInstant, events: &mut Vec<Event>) {
        while let Some(event) = self.outbox.take(to) {
            self.now = self.now.max(event.at);
            if self.ledger.writes(event.id) {
                let durable = Event { kind: EventKind::Durable, ..event };
                self.ledger.told(&durable);
                events.push(durable);
            }
            self.ledger.told(&event);
            events.push(event);
            if let Some(request) = self.slots.complete() {
                self.take(request, self.now);
            }
        }
        self.now = self.now.max(to);
    }

    /// Cuts the power of the machine that uses the volume: what is not complete may be lost.
    pub fn cut_power(&mut self, at: VirtualInstant) -> Vec<Lost> {
        self.now = self.now.max(at);
        self.slots.clear();
        self.outbox.clear();
        self.ledger.cut()
    }
}
