//! Given routes at a node with several links: policy routing, because they depend on where a packet comes from.
//!
//! Each interface that a given route leaves by has a routing table of its own, which sends everything out there; rules
//! send the packets concerned to it before the ordinary routes are asked. Packets of the node itself are told by having
//! come in by no interface, for their source address is only chosen with the route.

use std::io;
use std::net::Ipv4Addr;

use crate::host::netlink::{Netlink, ONLINK, Request};
use crate::links::port::{Port, Rule};

/// The tables of `eth0`, `eth1`, … begin here: above those that the kernel and users number.
const FIRST_TABLE: u32 = 100_000;
/// Before the ordinary tables, which have 32766, and after the node's own addresses, which have 0.
const PRIORITY: u32 = 1000;
// From <linux/fib_rules.h>.
const FR_ACT_TO_TBL: u8 = 1;
const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_TABLE: u16 = 15;

/// The table that the rules of `port` send packets to.
pub(super) fn table(port: &Port) -> u32 {
    let number: u32 = port.name.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
    FIRST_TABLE + number
}

/// Sets the rules of `port` and the table that they send packets to, in the calling thread's network namespace.
pub(super) fn install(netlink: &Netlink, port: &Port) -> io::Result<()> {
    let index = netlink.index(&port.name)?;
    let table = table(port);
    netlink.ask(route(table, index, port.gateway))?;
    port.rules.iter().try_for_each(|r| netlink.ask(rule(table, r)))
}

/// Everything, out by the interface `index`.
fn route(table: u32, index: u32, gateway: Ipv4Addr) -> Request {
    let mut m = Request::adding(libc::RTM_NEWROUTE);
    // struct rtmsg: the gateway is on the link, whatever other routes say.
    let [family, protocol, universe, unicast] =
        [libc::AF_INET as u8, libc::RTPROT_STATIC, libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST];
    m.head(&[family, 0, 0, 0, libc::RT_TABLE_UNSPEC, protocol, universe, unicast]);
    m.head(&ONLINK.to_ne_bytes());
    m.attribute(libc::RTA_TABLE, &table.to_ne_bytes());
    m.attribute(libc::RTA_OIF, &index.to_ne_bytes());
    m.attribute(libc::RTA_GATEWAY, &gateway.octets());
    m
}

fn rule(table: u32, rule: &Rule) -> Request {
    let octets = |address: Ipv4Addr| address.octets();
    request(libc::AF_INET, table, rule.from.map(octets).as_ref(), &octets(rule.to))
}

/// A rule for packets to an address, and from one or from the node itself, of a family whose addresses have N bytes.
pub(super) fn request<const N: usize>(family: i32, table: u32, from: Option<&[u8; N]>, to: &[u8; N]) -> Request {
    let mut m = Request::adding(libc::RTM_NEWRULE);
    // struct fib_rule_hdr.
    let whole = 8 * N as u8;
    let from_bits = if from.is_some() { whole } else { 0 };
    m.head(&[family as u8, whole, from_bits, 0, libc::RT_TABLE_UNSPEC, 0, 0, FR_ACT_TO_TBL]);
    m.head(&0u32.to_ne_bytes());
    m.attribute(FRA_DST, to);
    match from {
        Some(from) => m.attribute(FRA_SRC, from),
        None => m.attribute(FRA_IIFNAME, b"lo\0"),
    }
    m.attribute(FRA_PRIORITY, &PRIORITY.to_ne_bytes());
    m.attribute(FRA_TABLE, &table.to_ne_bytes());
    m
}
