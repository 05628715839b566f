//! Packets of nodes, flow by flow, as the network carried them.

use std::net::IpAddr;

use scale::VirtualInstant;
use serde::{Deserialize, Serialize};

/// The packets of those nodes that are observed, as they stand in a record, too. All times are virtual.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObservedPackets {
    /// The nodes.
    pub nodes: Vec<String>,
    /// When the intervals end of [`Way::intervals`], in virtual ns. The first begins with the run.
    pub intervals_ns: Vec<VirtualInstant>,
    /// Flows between two nodes by the same protocol and port of the server, summed.
    pub ways: Vec<Way>,
    /// Directions of single flows: of those flows that had most packets.
    pub flows: Vec<Flow>,
    /// How many flows are in their ways only.
    pub unlisted: u64,
    /// Packets of flows for which there was no room.
    pub others: PacketCount,
    /// Frames that are of no flow: not IP, or for more than one node.
    pub flowless: PacketCount,
    /// How many entries, arrivals and losses of packets went by unseen.
    pub missed: u64,
}

/// Packets, and the bytes of their frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketCount {
    /// How many.
    pub packets: u64,
    /// Their bytes, as tcpdump shows the length of a frame.
    pub bytes: u64,
}

impl PacketCount {
    /// Adds a packet whose frame has so many bytes.
    pub fn add(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }
}

/// Flows from one node to another by one protocol and port of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Way {
    /// `tcp`, `udp`, `icmp`, or the number of another.
    pub protocol: String,
    /// The node that sends; an address, if it is of no node.
    pub from: String,
    /// The node that they are for, likewise.
    pub to: String,
    /// The port of the one that is asked; `None` where there are no ports.
    pub server_port: Option<u16>,
    /// Whether the one that sends has opened them.
    pub asks: bool,
    /// How many flows.
    pub flows: u64,
    /// All that was counted of them.
    #[serde(flatten)]
    pub carried: Carried,
    /// Their counters, interval by interval.
    pub intervals: Vec<PacketCounters>,
}

/// One direction of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// `tcp`, `udp`, `icmp`, or the number of another.
    pub protocol: String,
    /// The node that sends; an address, if it is of no node.
    pub from: String,
    /// The node that they are for, likewise.
    pub to: String,
    /// The sender's address,
    pub from_address: IpAddr,
    /// and the receiver's.
    pub to_address: IpAddr,
    /// Their ports; `None` where there are none.
    pub ports: Option<[u16; 2]>,
    /// Whether the one that sends has opened it.
    pub asks: bool,
    /// When the first packet of it was seen, and the last.
    pub seen_ns: [VirtualInstant; 2],
    /// All that was counted of it.
    #[serde(flatten)]
    pub carried: Carried,
}

/// Everything that is known of packets that went one way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Carried {
    /// Sums.
    #[serde(flatten)]
    pub counters: PacketCounters,
    /// How often a packet carried 0 bytes, 1, 2 to 3, 4 to 7, and so on, without the headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<u64>,
    /// How long packets were on their way, in virtual ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays_ns: Option<Spread>,
    /// From data that entered the network to its acknowledgement that arrived, in virtual ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips_ns: Option<Spread>,
    /// The windows that the sender of these packets offered, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<Spread>,
}

/// How values are spread: least and most are exact, the others within 2 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// How many.
    pub n: u64,
    /// The least.
    pub least: u64,
    /// The middle one.
    pub median: u64,
    /// The one that 1 % exceed.
    pub p99: u64,
    /// The most.
    pub most: u64,
}

macro_rules! sums {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name {
            $($(#[$field_doc])* #[serde(default, skip_serializing_if = "is_zero")] pub $field: u64,)*
        }

        impl $name {
            /// Adds others.
            pub fn add(&mut self, others: &Self) {
                $(self.$field = self.$field.saturating_add(others.$field);)*
            }
        }
    };
}

sums! {
    /// Counters of packets that went one way. What is left out of a record is zero.
    PacketCounters {
        /// Packets that entered the network.
        packets,
        /// The bytes of their frames.
        bytes,
        /// Bytes that they carried, without the headers.
        payload_bytes,
        /// TCP segments that take a place in the stream: with data, SYN or FIN.
        segments,
        /// Those of which some had been sent before.
        retransmissions,
        /// Bytes that had.
        retransmitted_bytes,
        /// Packets that arrived.
        delivered,
        /// Those that brought nothing new: copies that a link made, and TCP segments that had come before.
        duplicates,
        /// Packets that arrived after one that had been sent later (RFC 4737, section 3).
        out_of_order,
        /// Packets lost on a link, as its loss says.
        lost,
        /// Packets that found a queue full.
        queue_drops,
        /// Packets that RED dropped.
        red_drops,
        /// Packets that met a link down, or were in it when it went down.
        down_drops,
        /// Packets longer than a link allows.
        too_long,
        /// Packets in which a link flipped a bit; they are not followed any further.
        damaged,
        /// Copies that links made.
        copies,
        /// Packets whose delay is known,
        delays,
        /// and its sum, in virtual ns.
        delay_ns,
        /// Packets after another one of the flow whose delay is known,
        jitters,
        /// and the sum of the differences of the two, in virtual ns (RFC 3393).
        jitter_ns,
        /// Samples of the round-trip time,
        round_trips,
        /// and their sum, in virtual ns.
        round_trip_ns,
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl PacketCounters {
    /// Packets that a link dropped, for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.lost + self.queue_drops + self.red_drops + self.down_drops + self.too_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_of_every_field_and_zeros_take_no_room() {
        let one = PacketCounters { packets: 3, queue_drops: 1, round_trip_ns: 7, ..PacketCounters::default() };
        let mut sum = one;
        sum.add(&one);
        sum.add(&PacketCounters { lost: 5, ..PacketCounters::default() });
        let expected = PacketCounters { packets: 6, queue_drops: 2, round_trip_ns: 14, lost: 5, ..Default::default() };
        assert_eq!((sum, sum.dropped()), (expected, 7));
    }
}
