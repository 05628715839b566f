//! Names of pipes, ports and places of a network in here: numbers, in the order of the links.

use serde::{Deserialize, Serialize};

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PipeId(pub(crate) u32);

/// A node's end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PortId(pub(crate) u32);

impl PipeId {
    /// Its place among [`Network::pipe_names`](crate::Network::pipe_names).
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The link that it is a direction of, by its place in the specification.
    pub fn link(self) -> usize {
        self.index() / 2
    }

    /// Whether it leads from the link's end `a` to its end `b`.
    pub fn is_ab(self) -> bool {
        self.0.is_multiple_of(2)
    }

    /// The other direction of the same link.
    pub(crate) fn reverse(self) -> PipeId {
        PipeId(self.0 ^ 1)
    }
}

impl PortId {
    /// All members of a LAN but the one that sends: where a broadcast goes.
    pub(crate) const ALL: PortId = PortId(u32::MAX);

    /// Destination of a packet that only exists here, of the source with this number.
    pub(crate) fn source(number: u32) -> PortId {
        PortId(SOURCES | number)
    }

    /// The number of that source; `None` for a port.
    pub(crate) fn of_source(self) -> Option<u32> {
        (self.0 & SOURCES != 0 && self != PortId::ALL).then_some(self.0 & !SOURCES)
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Numbers from this one on are not those of ports: there are not so many addresses.
const SOURCES: u32 = 1 << 31;

/// A node or a switch: nodes first, in the order of the specification.
pub(crate) type Vertex = usize;

/// By vertex: pipes out, in the order of the links, with where they lead.
pub(crate) type Edges = Vec<Vec<(PipeId, Vertex)>>;
