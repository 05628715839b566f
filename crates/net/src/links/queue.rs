//! The kinds of queue that a pipe may have.

use crate::links::limit::Limit;
use crate::links::pipe::red::Red;

/// How a pipe's queue is kept short.
#[derive(Clone, Debug, PartialEq)]
pub enum Queue {
    /// A packet that finds it full is dropped.
    DropTail(Limit),
    /// Packets are dropped at random before it is full.
    Red(Red),
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
