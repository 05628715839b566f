//! Facts that a node's kernel has to be told of its end of a link.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::links::ids::{PipeId, PortId};
use crate::links::prefix::Prefix;

/// A node's end of a link, with all that its kernel has to be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Its number in the network.
    pub id: PortId,
    /// The node that it belongs to.
    pub node: String,
    /// The interface's name inside the node: `eth0`, `eth1`, … in the order of the links.
    pub name: String,
    /// The interface's address.
    pub address: Ipv4Addr,
    /// Length of the network prefix: that of the LAN's block; else 8 on the interface behind which most of the network
    /// lies, if its address was given out, and 32 on others.
    pub prefix: u8,
    /// The next hop of its routes, which does not exist.
    pub gateway: Ipv4Addr,
    /// The LAN that it is on, if it is on one.
    pub lan: Option<Lan>,
    /// Destinations that it is the way for where nothing else is said: all that have addresses, on the interface behind
    /// which most of the network lies.
    pub main: Option<Prefix>,
    /// The interface's hardware address.
    pub mac: [u8; 6],
    /// The longest IP packet of the link.
    pub mtu: u16,
    /// Whether TCP makes bursts of several segments for it.
    pub tso: bool,
    /// The addresses for which the interface is the way, besides those that the main interface has by itself: all for
    /// which no longer prefix is a route anywhere in the node.
    pub routes: Vec<Prefix>,
    /// Packets that leave by this interface whatever the routes say.
    pub rules: Vec<Rule>,
    /// Whether the node joins several links and so forwards between them with its own kernel.
    pub forwards: bool,
    /// The pipe into which the interface sends.
    pub pipe: PipeId,
    /// Whether a program sends and receives frames by it, and not the node's kernel, which has no address there.
    #[serde(default)]
    pub bare: bool,
}

/// Facts that a node's kernel has to be told of a LAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lan {
    /// Where the addresses of its members are.
    pub subnet: Prefix,
    /// Whether the kernel asks for the hardware addresses of other members. If not, it leaves them to the emulator, as
    /// on other links; it answers those who ask in any case.
    pub asks: bool,
    /// Whether broadcast and multicast that names no interface leaves by it.
    pub first: bool,
}

/// Packets that a given route concerns, at a node with several links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Where they come from; `None`: from the node itself.
    pub from: Option<Ipv4Addr>,
    /// Where they go.
    pub to: Ipv4Addr,
}
