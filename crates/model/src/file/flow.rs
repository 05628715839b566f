//! How flows of traffic, and changes of them, are written.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::units::{Bandwidth, Data, Start, Time};

/// A structure with keys of its own and all those that say what a flow's packets are like.
macro_rules! with_packets {
    ($(#[$doc:meta])* $name:ident { $($own:tt)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            $($own)*
            /// Payload of its packets per second, while they leave; for `poisson` in the mean
            pub(crate) rate: Option<Bandwidth>,
            /// In place of `rate`: the time from one packet to the next; for `poisson` and `telnet` in the mean
            pub(crate) interval: Option<Time>,
            /// Payload of a packet; without it 1000B
            pub(crate) packet: Option<Data>,
            /// How long bursts of `exponential` and `pareto` are in the mean; without it 500ms
            pub(crate) on: Option<Time>,
            /// How long the pauses between them are in the mean; without it 500ms
            pub(crate) off: Option<Time>,
            /// How heavy the tails of `pareto` are: the shape of the distribution; without it 1.5
            pub(crate) shape: Option<f64>,
            /// Whether the intervals of `cbr` vary by up to a half of them; without it false
            pub(crate) noise: Option<bool>,
            /// After so many packets it ends
            pub(crate) packets: Option<u64>,
            /// Of all that is drawn; without it by the name of the flow
            pub(crate) seed: Option<u64>,
        }
    };
}

with_packets! {
    /// A flow of packets from one node to another
    Flow {
        /// The node that sends, or something simulated
        pub(crate) from: String,
        /// The node that receives, or something simulated
        pub(crate) to: String,
        /// Whether it exists only in the emulator: its packets take their part of links, and no node sends or
        /// receives them. `from` or `to` may then be a pattern, for as many sources as it matches. So it is with every
        /// flow from or to something simulated
        pub(crate) background: Option<bool>,
        /// How its packets follow one another
        pub(crate) kind: FlowKind,
        /// The transport; without it `tcp` for `ftp` and `telnet`, and `udp` for the others
        pub(crate) over: Option<Transport>,
        /// The port on which it is received; without it one that no other flow has, from 7001 on
        #[schemars(range(min = 1))]
        pub(crate) port: Option<u16>,
        /// When it starts, or `event` if only an event starts it; without it, as soon as the node that sends
        pub(crate) start: Option<Start>,
        /// When it stops; without it, at the end of the run
        pub(crate) stop: Option<Time>,
    }
}

with_packets! {
    /// The changes of a flow; the rest stays as it is
    FlowChange {}
}

impl Flow {
    /// Its keys about packets, as a change.
    pub(crate) fn packets(&self) -> FlowChange {
        let Flow { rate, interval, packet, on, off, shape, noise, packets, seed, .. } = *self;
        FlowChange { rate, interval, packet, on, off, shape, noise, packets, seed }
    }
}

/// How packets follow one another
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FlowKind {
    Cbr,
    Poisson,
    Exponential,
    Pareto,
    Telnet,
    Ftp,
}

/// The transport of packets
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    Udp,
    Tcp,
}
