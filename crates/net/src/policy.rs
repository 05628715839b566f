//! Given routes at a node with several links: policy routing, because they depend on where a packet comes from.
//!
//! Each interface that a given route leaves by has a routing table of its own, which sends everything out there; rules
//! send the packets concerned to it before the ordinary routes are asked. Packets of the node itself are told by having
//! come in by no interface, for their source address is only chosen with the route.

use std::io;
use std::mem::size_of;
use std::net::Ipv4Addr;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::address;
use crate::topology::{Port, Rule};

/// The tables of `eth0`, `eth1`, … begin here: above those that the kernel and users number.
const FIRST_TABLE: u32 = 100_000;
/// Before the ordinary tables, which have 32766, and after the node's own addresses, which have 0.
const PRIORITY: u32 = 1000;
// From <linux/rtnetlink.h> and <linux/fib_rules.h>.
const RTNH_F_ONLINK: u32 = 4;
const FR_ACT_TO_TBL: u8 = 1;
const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_TABLE: u16 = 15;
/// Room for the answers to one request.
const ANSWER: usize = 4096;

/// Sets the rules of `port` and the table that they send packets to, in the calling thread's network namespace.
pub(crate) fn install(port: &Port) -> io::Result<()> {
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let index = rustix::net::netdevice::name_to_index(&socket, &port.name)?;
    let number: u32 = port.name.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
    let table = FIRST_TABLE + number;
    let mut requests = vec![route(table, index, address::gateway(port.address))];
    requests.extend(port.rules.iter().map(|r| rule(table, r)));
    for (sequence, request) in (1u32..).zip(&mut requests) {
        request[8..12].copy_from_slice(&sequence.to_ne_bytes());
        rustix::net::sendto(&socket, request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        acknowledged(&socket)?;
    }
    Ok(())
}

/// Everything, out by the interface `index`.
fn route(table: u32, index: u32, gateway: Ipv4Addr) -> Vec<u8> {
    let mut m = message(libc::RTM_NEWROUTE);
    // struct rtmsg: the gateway is on the link, whatever other routes say.
    let [family, protocol, universe, unicast] =
        [libc::AF_INET as u8, libc::RTPROT_STATIC, libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST];
    m.extend([family, 0, 0, 0, libc::RT_TABLE_UNSPEC, protocol, universe, unicast]);
    m.extend((RTNH_F_ONLINK).to_ne_bytes());
    attribute(&mut m, libc::RTA_TABLE, &table.to_ne_bytes());
    attribute(&mut m, libc::RTA_OIF, &index.to_ne_bytes());
    attribute(&mut m, libc::RTA_GATEWAY, &gateway.octets());
    finished(m)
}

fn rule(table: u32, rule: &Rule) -> Vec<u8> {
    let mut m = message(libc::RTM_NEWRULE);
    // struct fib_rule_hdr.
    let from_bits = if rule.from.is_some() { 32 } else { 0 };
    m.extend([libc::AF_INET as u8, 32, from_bits, 0, libc::RT_TABLE_UNSPEC, 0, 0, FR_ACT_TO_TBL]);
    m.extend(0u32.to_ne_bytes());
    attribute(&mut m, FRA_DST, &rule.to.octets());
    match rule.from {
        Some(from) => attribute(&mut m, FRA_SRC, &from.octets()),
        None => attribute(&mut m, FRA_IIFNAME, b"lo\0"),
    }
    attribute(&mut m, FRA_PRIORITY, &PRIORITY.to_ne_bytes());
    attribute(&mut m, FRA_TABLE, &table.to_ne_bytes());
    finished(m)
}

/// The head of a request to add something, without its length and number.
fn message(kind: u16) -> Vec<u8> {
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let mut m = vec![0; size_of::<libc::nlmsghdr>()];
    m[4..6].copy_from_slice(&kind.to_ne_bytes());
    m[6..8].copy_from_slice(&(flags as u16).to_ne_bytes());
    m
}

fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend((4 + value.len() as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

fn finished(mut message: Vec<u8>) -> Vec<u8> {
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message
}

/// Waits for the kernel's verdict: an error message, whose number is 0 if all is well.
fn acknowledged(socket: impl std::os::fd::AsFd) -> io::Result<()> {
    let mut answer = [0u8; ANSWER];
    let (got, _) = rustix::net::recv(socket, &mut answer, RecvFlags::empty())?;
    let kind = answer[..got].get(4..6).and_then(|b| Some(u16::from_ne_bytes(*b.first_chunk()?)));
    let code = answer[..got].get(16..20).and_then(|b| Some(i32::from_ne_bytes(*b.first_chunk()?)));
    match (kind.map(i32::from), code) {
        (Some(libc::NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(libc::NLMSG_ERROR), Some(code)) => Err(io::Error::from_raw_os_error(-code)),
        _ => Err(Errno::PROTO.into()),
    }
}
