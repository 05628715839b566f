//! The queue at the beginning of a pipe.

use serde::{Deserialize, Serialize};

/// How a pipe's queue is kept short.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Queue {
    /// A packet that finds it full is dropped.
    DropTail(Limit),
    /// Packets are dropped at random before it is full.
    Red(Red),
}

/// How much may wait or be in transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// This many packets, at least 1.
    Packets(u32),
    /// This many bytes, as charged; at least one of the link's largest frames.
    Bytes(u64),
}

impl Queue {
    /// A DropTail queue of this many packets.
    pub const fn packets(n: u32) -> Queue {
        Queue::DropTail(Limit::Packets(n))
    }

    /// The point at which everything is dropped.
    pub fn limit(&self) -> Limit {
        match self {
            Queue::DropTail(limit) => *limit,
            Queue::Red(red) => red.limit,
        }
    }

    /// A complaint about a number on a link whose largest frame has this many bytes; none if all are in their range.
    pub fn wrong(&self, largest: usize) -> Option<String> {
        let limit = match self.limit() {
            Limit::Packets(0) => {
                Some("a queue of 0 packets; it counts the packet in transmission, so it must be at least 1".into())
            }
            Limit::Bytes(n) if n < largest as u64 => {
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

impl Default for Queue {
    /// DropTail, 100 packets.
    fn default() -> Self {
        Queue::packets(100)
    }
}

/// The parameters of a RED queue; thresholds count packets or bytes, as the limit does.
///
/// Floyd and Jacobson: *Random early detection gateways for congestion avoidance*, IEEE/ACM Transactions on Networking
/// 1(4), 1993; `min_th` and the like are the paper's names.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Red {
    /// `min_th`: below this average length nothing is dropped.
    pub min: u64,
    /// `max_th`: from this average length on everything is dropped.
    pub max: u64,
    /// The queue itself: it is never longer than this.
    pub limit: Limit,
    /// `max_p`: the probability of dropping just below `max`, for a packet that follows upon a drop.
    pub max_p: f64,
    /// `w_q`: how much the average follows each new length.
    pub weight: f64,
    /// The size, in bytes, of the packets that are thought to be transmitted while the queue is empty.
    pub packet: u64,
    /// Whether the probability grows on from `max_p` to 1 between `max` and twice that, in place of a jump (Floyd:
    /// *Recommendation on using the "gentle" variant of RED*, 2000).
    pub gentle: bool,
}

impl Red {
    /// A complaint about a number; none if all are in their range.
    fn wrong(&self) -> Option<String> {
        let Red { min, max, max_p, weight, packet, .. } = *self;
        if min >= max {
            return Some(format!("a RED queue from {min} to {max}; the first must be the lower"));
        }
        if !(max_p > 0.0 && max_p <= 1.0) {
            return Some(format!("a RED queue whose max_p is {max_p}; it must be above 0 and at most 1"));
        }
        if !(weight > 0.0 && weight <= 1.0) {
            return Some(format!("a RED queue whose weight is {weight}; it must be above 0 and at most 1"));
        }
        (packet == 0).then(|| "a RED queue with packets of 0 bytes; they must have at least 1".into())
    }
}
