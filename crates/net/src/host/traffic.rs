//! Packets and bytes at the nodes' interfaces, counted where other threads can read them at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of an interface in both directions, as its node sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortTraffic {
    /// Frames that the node was handed.
    pub packets_in: u64,
    /// Bytes of these.
    pub bytes_in: u64,
    /// Frames that the node has sent.
    pub packets_out: u64,
    /// Bytes of these.
    pub bytes_out: u64,
}

impl PortTraffic {
    /// That of both interfaces together.
    pub fn plus(self, other: PortTraffic) -> PortTraffic {
        PortTraffic {
            packets_in: self.packets_in + other.packets_in,
            bytes_in: self.bytes_in + other.bytes_in,
            packets_out: self.packets_out + other.packets_out,
            bytes_out: self.bytes_out + other.bytes_out,
        }
    }
}

/// The counters of all interfaces. Cloning gives another handle to the same.
#[derive(Clone, Debug)]
pub struct Traffic(Arc<[Counts]>);

/// Those of one, in a cache line of their own: the emulator's thread writes them for each frame.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counts {
    incoming: Direction,
    outgoing: Direction,
}

#[derive(Debug, Default)]
struct Direction {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Direction {
    /// One thread calls this, which is why no operation has to be atomic as a whole.
    fn count(&self, bytes: usize) {
        for (word, more) in [(&self.packets, 1), (&self.bytes, bytes as u64)] {
            word.store(word.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        }
    }

    fn read(&self) -> [u64; 2] {
        [&self.packets, &self.bytes].map(|word| word.load(Ordering::Relaxed))
    }
}

impl Traffic {
    pub(super) fn of(ports: usize) -> Traffic {
        Traffic((0..ports).map(|_| Counts::default()).collect())
    }

    /// Reads the counters of a port's interface; the port is one of the network's.
    pub fn at(&self, port: usize) -> PortTraffic {
        let Counts { incoming, outgoing } = &self.0[port];
        let ([packets_in, bytes_in], [packets_out, bytes_out]) = (incoming.read(), outgoing.read());
        PortTraffic { packets_in, bytes_in, packets_out, bytes_out }
    }

    pub(super) fn delivered(&self, port: usize, bytes: usize) {
        self.0[port].incoming.count(bytes);
    }

    pub(super) fn sent(&self, port: usize, bytes: usize) {
        self.0[port].outgoing.count(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_of_each_interface_is_counted_by_itself() {
        let traffic = Traffic::of(2);
        traffic.delivered(0, 98);
        traffic.delivered(0, 60);
        traffic.sent(1, 1514);
        let first = PortTraffic { packets_in: 2, bytes_in: 158, ..PortTraffic::default() };
        let second = PortTraffic { packets_out: 1, bytes_out: 1514, ..PortTraffic::default() };
        let reader = traffic.clone();
        assert_eq!([reader.at(0), reader.at(1)], [first, second]);
        assert_eq!(first.plus(second), PortTraffic { packets_out: 1, bytes_out: 1514, ..first });
    }
}
