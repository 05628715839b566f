//! What the emulator has seen, for the run's record and its verdict.

use scale::{RealDuration, RealInstant};

use crate::lateness::Lateness;
use crate::network::PortCounters;
use crate::pipe::PipeCounters;
use crate::series::PipeInterval;
use crate::topology::PortId;

/// Everything counted since the start.
#[derive(Clone, Debug)]
pub struct Observation {
    /// When the counters were read.
    pub at: RealInstant,
    /// Every pipe, in the order of the links.
    pub pipes: Vec<PipeObservation>,
    /// Every port, in the order of the links.
    pub ports: Vec<PortObservation>,
    /// What pipes did in the intervals that have ended since the last observation, if a series was started.
    pub intervals: Vec<PipeInterval>,
    /// How late frames were delivered.
    pub lateness: Lateness,
    /// CPU time that the emulator's thread has used.
    pub cpu: RealDuration,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipeObservation {
    /// `A--B/ab` or `A--B/ba`.
    pub name: String,
    /// What has happened on it.
    pub counters: PipeCounters,
}

/// A node's interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortObservation {
    /// Which port.
    pub port: PortId,
    /// Its node.
    pub node: String,
    /// Its name in the node, `eth0`.
    pub interface: String,
    /// What was refused from it.
    pub refused: PortCounters,
    /// Deliveries that its kernel refused: the node has taken the interface down or changed its MTU.
    pub write_errors: u64,
    /// Frames that the node sent and the emulator never saw, because it did not read fast enough. `None` if the node
    /// has removed or renamed the interface.
    pub ring_drops: Option<u64>,
    /// Frames that the emulator delivered and the node's kernel dropped before its IP layer.
    pub receive_drops: Option<u64>,
}

impl Observation {
    /// Frames that the emulator never saw, over all ports.
    pub fn ring_drops(&self) -> u64 {
        self.ports.iter().filter_map(|p| p.ring_drops).sum()
    }

    /// Frames that were for nowhere or no frames at all, over all ports.
    pub fn unroutable(&self) -> u64 {
        self.ports.iter().map(|p| p.refused.unroutable + p.refused.malformed).sum()
    }
}
