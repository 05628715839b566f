//! Frames that wait at a pipe for transmission.

use std::collections::VecDeque;

use scale::RealInstant;
use scale::link::Limit;

use crate::links::pipe::gauge::Gauge;

/// Frames that wait for transmission or are being transmitted.
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
    pub fn measured_as(&self, limit: Limit) -> u64 {
        match limit {
            Limit::Packets(_) => self.waiting.len() as u64,
            Limit::Bytes(_) => self.bytes as u64,
        }
    }

    /// Whether a packet of `len` bytes still fits.
    pub fn admits(&self, limit: Limit, len: usize) -> bool {
        match limit {
            Limit::Packets(most) => self.waiting.len() < most as usize,
            Limit::Bytes(most) => (self.bytes + len) as u64 <= most,
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
