//! IPv6 of an interface: the [twins](crate::links::ipv6) of its addresses, routes and rules.
//!
//! Nothing is found out by itself, for that would take packets and real time: no router is asked for, no address is
//! made up but that of the link itself on a LAN, and none is tried out before it is used. As with IPv4, routes go
//! through a gateway that does not exist, and only on a LAN whose members are few do they ask for one another.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::host::netlink::{Netlink, ONLINK, Request};
use crate::host::rules;
use crate::links::address;
use crate::links::ipv6::{LEAST_MTU, block, twin};
use crate::links::port::{Port, Rule};
use crate::links::prefix::Prefix;

// From <linux/if_addr.h> and <linux/neighbour.h>.
const IFA_F_NODAD: u32 = 0x02;
const IFA_F_NOPREFIXROUTE: u32 = 0x200;
const IFA_FLAGS: u16 = 8;
const NUD_PERMANENT: u16 = 0x80;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// From <linux/if_link.h>: an interface makes no address of its own.
const ADDR_GEN_MODE_NONE: &str = "1";
/// The bits of a whole address.
const WHOLE: u8 = 128;

/// IPv6 on the interface of a port, in the calling thread's network namespace.
pub(super) struct Ipv6<'a> {
    port: &'a Port,
    /// `/proc/sys/net/ipv6/conf/INTERFACE`.
    settings: PathBuf,
}

impl Ipv6<'_> {
    /// `None` where there is none: the kernel has none, or the link's MTU is too short for it.
    pub fn of(port: &Port) -> Option<Ipv6<'_>> {
        let settings = PathBuf::from("/proc/sys/net/ipv6/conf").join(&port.name);
        (port.mtu >= LEAST_MTU && settings.exists()).then_some(Ipv6 { port, settings })
    }

    /// Settings that must be made before the interface is up.
    pub fn prepare(&self) -> io::Result<()> {
        let set = |name: &str, value| fs::write(self.settings.join(name), value);
        set("disable_ipv6", "0")?;
        set("accept_ra", "0")?;
        set("router_solicitations", "0")?;
        set("accept_dad", "0")?;
        if self.port.lan.is_none() { set("addr_gen_mode", ADDR_GEN_MODE_NONE) } else { Ok(()) }
    }

    /// Addresses, forwarding, routes and rules of an interface that is up. `table`: the routing table of the rules.
    pub fn install(&self, netlink: &Netlink, table: u32) -> io::Result<()> {
        let port = self.port;
        let index = netlink.index(&port.name)?;
        netlink.ask(of_address(port, index))?;
        if port.forwards {
            fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")?;
        }
        netlink.ask(neighbour(port, index))?;
        if port.forwards {
            // The kernel refuses a gateway to which, by another route, another interface leads: that of a wide block
            // may. (For IPv4 it believes what it is told.)
            let gateway = Prefix { address: port.gateway, length: 32 };
            netlink.ask(route(port, index, Some(gateway), false).request())?;
        }
        let asked = port.lan.filter(|lan| lan.asks).map(|lan| route(port, index, Some(lan.subnet), false));
        let unasked = port.lan.filter(|lan| !lan.asks).map(|lan| lan.subnet);
        let through_gateway = port.main.into_iter().chain(unasked).chain(port.routes.iter().copied());
        let all = asked.into_iter().chain(through_gateway.map(|to| route(port, index, Some(to), true)));
        all.map(Route::request).try_for_each(|request| netlink.ask(request))?;
        if port.rules.is_empty() {
            return Ok(());
        }
        netlink.ask(Route { table, ..route(port, index, None, true) }.request())?;
        port.rules.iter().try_for_each(|r| netlink.ask(rule(table, r)))
    }
}

fn of_address(port: &Port, index: u32) -> Request {
    let mut m = Request::adding(libc::RTM_NEWADDR);
    // struct ifaddrmsg.
    m.head(&[libc::AF_INET6 as u8, WHOLE, 0, libc::RT_SCOPE_UNIVERSE]);
    m.head(&index.to_ne_bytes());
    m.attribute(libc::IFA_LOCAL, &twin(port.address).octets());
    m.attribute(IFA_FLAGS, &(IFA_F_NODAD | IFA_F_NOPREFIXROUTE).to_ne_bytes());
    m
}

/// Says once and for all which hardware address the gateway has.
fn neighbour(port: &Port, index: u32) -> Request {
    let mut m = Request::adding(libc::RTM_NEWNEIGH);
    // struct ndmsg.
    m.head(&[libc::AF_INET6 as u8, 0, 0, 0]);
    m.head(&index.to_ne_bytes());
    m.head(&NUD_PERMANENT.to_ne_bytes());
    m.head(&[0, libc::RTN_UNICAST]);
    m.attribute(NDA_DST, &twin(port.gateway).octets());
    m.attribute(NDA_LLADDR, &address::mac(port.gateway));
    m
}

/// A route out by an interface: for a block, or for everything; through the gateway, or to neighbours.
struct Route<'a> {
    port: &'a Port,
    index: u32,
    to: Option<Prefix>,
    through_gateway: bool,
    table: u32,
}

fn route(port: &Port, index: u32, to: Option<Prefix>, through_gateway: bool) -> Route<'_> {
    Route { port, index, to, through_gateway, table: libc::RT_TABLE_MAIN.into() }
}

impl Route<'_> {
    fn request(self) -> Request {
        let mut m = Request::adding(libc::RTM_NEWROUTE);
        let to = self.to.map(block);
        let bits = to.map_or(0, |(_, bits)| bits);
        // struct rtmsg.
        let [protocol, universe, unicast] = [libc::RTPROT_STATIC, libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST];
        m.head(&[libc::AF_INET6 as u8, bits, 0, 0, libc::RT_TABLE_UNSPEC, protocol, universe, unicast]);
        m.head(&if self.through_gateway { ONLINK } else { 0 }.to_ne_bytes());
        m.attribute(libc::RTA_TABLE, &self.table.to_ne_bytes());
        m.attribute(libc::RTA_OIF, &self.index.to_ne_bytes());
        if let Some((address, _)) = to {
            m.attribute(libc::RTA_DST, &address.octets());
        }
        if self.through_gateway {
            m.attribute(libc::RTA_GATEWAY, &twin(self.port.gateway).octets());
        }
        m
    }
}

fn rule(table: u32, rule: &Rule) -> Request {
    let octets = |address| twin(address).octets();
    rules::request(libc::AF_INET6, table, rule.from.map(octets).as_ref(), &octets(rule.to))
}
