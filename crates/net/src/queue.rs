//! What waits at a pipe for transmission, and how much of it may.

use std::collections::VecDeque;

use scale::RealInstant;

use crate::red::Red;
use crate::series::Gauge;

/// How a pipe's queue is kept short.
#[derive(Clone, Debug, PartialEq)]
pub enum Queue {
    /// A packet that finds it full is dropped.
    DropTail(Limit),
    /// Packets are dropped at random before it is full.
    Red(Red),
}

/// How much may wait or be in transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// This many packets, at least 1.
    Packets(usize),
    /// This many bytes, as charged; at least one of the link's largest frames.
    Bytes(usize),
}

impl Queue {
    /// A DropTail queue of this many packets.
    pub const fn packets(n: usize) -> Queue {
        Queue::DropTail(Limit::Packets(n))
    }

    /// The point at which everything is dropped.
    pub fn limit(&self) -> Limit {
        match self {
            Queue::DropTail(limit) => *limit,
            Queue::Red(red) => red.limit,
        }
    }

    /// What is wrong with a number on a link whose largest frame has this many bytes; none if all are in their range.
    pub(crate) fn wrong(&self, largest: usize) -> Option<String> {
        let limit = match self.limit() {
            Limit::Packets(0) => {
                Some("a queue of 0 packets; it counts the packet in transmission, so it must be at least 1".into())
            }
            Limit::Bytes(n) if n < largest => {
                Some(format!("a queue of {n} bytes; it must hold at least one frame of {largest}"))
            }
            _ => None,
        };
        match self {
            Queue::DropTail(_) => limit,
            Queue::Red(red) => limit.or_else(|| red.wrong()),
        }
    }
}

/// What waits for transmission or is being transmitted.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// When the last bit of each has been transmitted, and its length in bytes.
    waiting: VecDeque<(RealInstant, usize)>,
    bytes: usize,
    /// How many packets there were, over time.
    pub gauge: Gauge,
}

impl Backlog {
    /// Forgets what has been transmitted by `now`.
    pub fn settle(&mut self, now: RealInstant) {
        while let Some((sent, len)) = self.waiting.front().filter(|(sent, _)| *sent <= now) {
            self.gauge.held(self.waiting.len(), *sent);
            self.bytes -= len;
            self.waiting.pop_front();
        }
        self.gauge.held(self.waiting.len(), now);
    }

    /// Notes a packet that will have been transmitted at `sent`, after all the others.
    pub fn push(&mut self, sent: RealInstant, len: usize) {
        self.waiting.push_back((sent, len));
        self.bytes += len;
        self.gauge.grown_to(self.waiting.len());
    }

    /// Forgets everything at `now`.
    pub fn clear(&mut self, now: RealInstant) {
        self.settle(now);
        self.waiting.clear();
        self.bytes = 0;
    }

    /// Whether nothing waits and nothing is being transmitted.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many packets wait or are being transmitted.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How much there is, in the unit of `limit`.
    pub fn measured_as(&self, limit: Limit) -> usize {
        match limit {
            Limit::Packets(_) => self.waiting.len(),
            Limit::Bytes(_) => self.bytes,
        }
    }

    /// Whether a packet of `len` bytes still fits.
    pub fn admits(&self, limit: Limit, len: usize) -> bool {
        match limit {
            Limit::Packets(most) => self.waiting.len() < most,
            Limit::Bytes(most) => self.bytes + len <= most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_counts_what_is_not_transmitted_yet() {
        let at = RealInstant::from_nanos;
        let mut backlog = Backlog::default();
        backlog.push(at(10), 100);
        backlog.push(at(20), 1000);
        let (packets, bytes) = (Limit::Packets(2), Limit::Bytes(1600));
        assert_eq!((backlog.measured_as(packets), backlog.measured_as(bytes)), (2, 1100));
        assert!(!backlog.admits(packets, 1) && backlog.admits(bytes, 500) && !backlog.admits(bytes, 501));
        backlog.settle(at(10));
        assert_eq!((backlog.measured_as(packets), backlog.measured_as(bytes)), (1, 1000));
        assert!(backlog.admits(packets, 5000));
        backlog.settle(at(20));
        assert!(backlog.is_empty() && backlog.measured_as(bytes) == 0);
    }
}
