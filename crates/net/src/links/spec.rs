//! What a network is made of: links in real time, as [`scale::link`] has them, and who is joined by them.

use scale::Real;
use scale::link::{self, Link, Pipe};
use serde::{Deserialize, Serialize};

/// A link as the emulator builds it.
pub type LinkSpec = Link<Real>;
/// One direction of a link as the emulator builds it.
pub type PipeConfig = Pipe<Real>;
/// A change of a pipe at run time.
pub type PipeChange = link::PipeChange<Real>;
/// Variation of the delay of a pipe, from packet to packet.
pub type Jitter = link::Jitter<Real>;

/// Nodes and switches, and the links between them, by which every one must reach every other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkSpec {
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Names of the switches: they forward at no cost.
    pub switches: Vec<String>,
    /// The links, in the order in which addresses are given out.
    pub links: Vec<LinkSpec>,
    /// Routes that take the place of the shortest ones.
    pub routes: Vec<RouteSpec>,
}

/// The way of all packets that one node sends to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteSpec {
    /// The node that sends.
    pub from: String,
    /// The node that the packets are for.
    pub to: String,
    /// The names of the links to be passed, in order.
    pub links: Vec<String>,
}
