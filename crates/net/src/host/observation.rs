//! Observations of the emulator, for the run's record and its verdict.

use scale::{RealDuration, RealInstant};
use serde::{Deserialize, Serialize};

use crate::host::crossings::Crossings;
use crate::host::lateness::Lateness;
use crate::links::counters::{PipeCounters, PortCounters};
use crate::links::flow::FlowInterval;
use crate::links::ids::PortId;
use crate::links::series::PipeInterval;

/// Everything counted since the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// When the counters were read.
    pub at: RealInstant,
    /// Every pipe, in the order of the links.
    pub pipes: Vec<PipeObservation>,
    /// Every port, in the order of the links.
    pub ports: Vec<PortObservation>,
    /// Intervals of pipes that have ended since the last observation, if a series was started.
    pub intervals: Vec<PipeInterval>,
    /// Counters of flows of the network's own.
    pub flows: Vec<FlowInterval>,
    /// How late frames were delivered.
    pub lateness: Lateness,
    /// How far nodes' clocks were from the run's when frames crossed, if any node has a clock of its own.
    #[serde(default)]
    pub clocks: Option<Crossings>,
    /// CPU time that the emulator's thread has used.
    pub cpu: RealDuration,
    /// Of that, the time in which it looked for work, awake because something was soon due, and found none.
    pub spun: RealDuration,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipeObservation {
    /// `A--B/ab` or `A--B/ba`.
    pub name: String,
    /// Events on it.
    pub counters: PipeCounters,
}

/// A node's interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortObservation {
    /// Which port.
    pub port: PortId,
    /// Its node.
    pub node: String,
    /// Its name in the node, `eth0`.
    pub interface: String,
    /// Frames refused from it.
    pub refused: PortCounters,
    /// Deliveries that its kernel refused: the node has taken the interface down or changed its MTU.
    pub write_errors: u64,
    /// Frames that the node sent and the emulator never saw, because it did not read fast enough. `None` if the node
    /// has removed or renamed the interface.
    pub ring_drops: Option<u64>,
    /// Frames that the emulator delivered and the node's kernel dropped before its IP layer.
    pub receive_drops: Option<u64>,
}

/// Counters of a port beyond its [`PortCounters`].
const OF_THE_INTERFACE: [&str; 3] = ["write_errors", "ring_drops", "receive_drops"];

impl PortObservation {
    /// The names of all that is counted at a port, in the order in which files have it.
    pub const COLUMNS: &[&str] = &Self::columns();

    const fn columns() -> [&'static str; PortCounters::COLUMNS.len() + OF_THE_INTERFACE.len()] {
        let mut columns = [""; PortCounters::COLUMNS.len() + OF_THE_INTERFACE.len()];
        let (refused, own) = columns.split_at_mut(PortCounters::COLUMNS.len());
        refused.copy_from_slice(PortCounters::COLUMNS);
        own.copy_from_slice(&OF_THE_INTERFACE);
        columns
    }

    /// All that is counted at the port, in the order of [`Self::COLUMNS`]; `None` is not known, as the node has removed
    /// or renamed the interface.
    pub fn values(&self) -> [Option<u64>; Self::COLUMNS.len()] {
        let of_the_interface = [Some(self.write_errors), self.ring_drops, self.receive_drops];
        let mut all = self.refused.values().into_iter().map(Some).chain(of_the_interface);
        std::array::from_fn(|_| all.next().flatten())
    }

    /// Frames from and for this port that were lost, though no link was told to lose any: what the emulator did not
    /// read in time, had no memory for, or could not hand over. What the node's own kernel refused is not among them.
    pub fn missed(&self) -> u64 {
        self.ring_drops.unwrap_or(0) + self.receive_drops.unwrap_or(0) + self.no_memory()
    }

    /// Frames dropped for want of memory, counted in these too.
    pub fn no_memory(&self) -> u64 {
        self.refused.no_memory + self.refused.uncopied
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::lateness::Recorder;
    use crate::links::ids::PipeId;

    #[test]
    fn an_observation_is_read_as_it_was_written() {
        let at = RealInstant::from_nanos(u64::MAX);
        let mut recorder = Recorder::new(RealInstant::ZERO);
        (0..1_000).for_each(|n| recorder.delivered(RealInstant::from_nanos(n * n * n * 10), RealInstant::ZERO));
        recorder.seen(RealDuration::from_nanos(77));
        let mut crossings = Crossings { unstamped: 3, ..Default::default() };
        crossings.received(RealInstant::from_nanos(70), RealInstant::from_nanos(30));
        let counters = PipeCounters { packets: 3, reordered: 1 << 60, ..Default::default() };
        let interval = |utilisation| PipeInterval {
            pipe: PipeId(7),
            from: RealInstant::ZERO,
            to: at,
            utilisation,
            queue_mean: 0.1 + 0.2,
            queue_max: 9,
            grew: counters,
        };
        let port = PortObservation {
            port: PortId(2),
            node: "a".into(),
            interface: "eth0".into(),
            refused: PortCounters { uncopied: 4, ..Default::default() },
            write_errors: 5,
            ring_drops: Some(6),
            receive_drops: None,
        };
        let seen = Observation {
            at,
            pipes: vec![PipeObservation { name: "a--b/ab".into(), counters }],
            ports: vec![port],
            intervals: vec![interval(None), interval(Some(1.0 / 3.0))],
            flows: vec![FlowInterval {
                flow: 3,
                from: RealInstant::ZERO,
                to: at,
                whole: true,
                grew: Default::default(),
                frame: 60,
            }],
            lateness: recorder.record(),
            clocks: Some(crossings),
            cpu: RealDuration::from_nanos(8),
            spun: RealDuration::ZERO,
        };
        let text = serde_json::to_string(&seen).unwrap();
        assert_eq!(serde_json::from_str::<Observation>(&text).unwrap(), seen, "{text}");
    }

    #[test]
    fn what_is_missed_is_what_no_link_lost_and_no_node_refused() {
        let refused = PortCounters { unroutable: 1, malformed: 20, no_memory: 300, cut: 5, uncopied: 4000 };
        let mut port = PortObservation {
            port: PortId(0),
            node: "a".into(),
            interface: "eth0".into(),
            refused,
            write_errors: 50_000,
            ring_drops: Some(600_000),
            receive_drops: Some(7_000_000),
        };
        assert_eq!((port.missed(), port.no_memory()), (7_604_300, 4_300));
        assert_eq!(port.values(), [1, 20, 300, 5, 4_000, 50_000, 600_000, 7_000_000].map(Some));
        let columns = "unroutable malformed no_memory cut uncopied write_errors ring_drops receive_drops";
        assert_eq!(PortObservation::COLUMNS.join(" "), columns);
        // The node has removed its interface.
        (port.ring_drops, port.receive_drops) = (None, None);
        assert_eq!(port.missed(), 4_300);
        assert_eq!(port.values()[5..], [Some(50_000), None, None]);
    }
}
