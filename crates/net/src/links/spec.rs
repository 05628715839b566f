//! Parts of a network: links in real time, as [`scale::link`] has them, and who is joined by them.

use std::net::Ipv4Addr;

use scale::Real;
use scale::link::{self, Link, Pipe};
use serde::{Deserialize, Serialize};

use crate::links::flow::FlowSpec;
use crate::links::prefix::Prefix;

/// A link as the emulator builds it.
pub type LinkSpec = Link<Real>;
/// One direction of a link as the emulator builds it.
pub type PipeConfig = Pipe<Real>;
/// A change of a pipe at run time.
pub type PipeChange = link::PipeChange<Real>;
/// Variation of the delay of a pipe, from packet to packet.
pub type Jitter = link::Jitter<Real>;

/// Nodes and switches, and the links between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkSpec {
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Names of the switches: they forward at no cost.
    pub switches: Vec<String>,
    /// Shared segments: switches that also forward by hardware address, and hand broadcasts to all their members. Every
    /// link of one joins it to a node.
    pub lans: Vec<LanSpec>,
    /// The links, in the order in which addresses are given out.
    pub links: Vec<LinkSpec>,
    /// Routes that take the place of the shortest ones.
    pub routes: Vec<RouteSpec>,
    /// Addresses that take the place of those given out.
    pub addresses: Vec<AddressSpec>,
    /// Flows that exist only in the emulator.
    pub flows: Vec<FlowSpec>,
    /// Those of the nodes in which a program sends and receives frames in the place of the kernel.
    #[serde(default)]
    pub bare: Vec<String>,
}

impl NetworkSpec {
    /// The names of all places: nodes, switches, LANs.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.nodes.iter().chain(&self.switches).chain(self.lans.iter().map(|l| &l.name))
    }
}

/// A shared segment. Its members are the nodes at the other ends of its links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LanSpec {
    /// Its name, of which links are told.
    pub name: String,
    /// The block of which its members have addresses; `None`: one that nobody else has.
    pub subnet: Option<Prefix>,
}

/// The address of a node's end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressSpec {
    /// The link.
    pub link: String,
    /// The node at one of its ends.
    pub node: String,
    /// The address of the node's interface there.
    pub address: Ipv4Addr,
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
