//! Which address each port has, and which port has an address.

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;

use crate::Error;
use crate::links::address::{self, BLOCKS, MAX_PORTS};
use crate::links::ids::PortId;
use crate::links::port::Port;
use crate::links::prefix::{GIVEN_OUT, Prefix};
use crate::links::spec::NetworkSpec;

/// The first of the addresses that are left for gateways.
const GATEWAYS: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);
/// The place of an address that no port has.
const NOBODY: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct Addresses {
    /// By place: the port to which it was given out.
    by_place: Vec<u32>,
    /// Those that were asked for.
    chosen: HashMap<[u8; 4], PortId>,
    /// By port.
    all: Vec<Ipv4Addr>,
}

/// By port, the address that was asked for.
pub(crate) fn given(spec: &NetworkSpec, ports: &[Port]) -> Result<Vec<Option<Ipv4Addr>>, Error> {
    let mut given = vec![None; ports.len()];
    if spec.addresses.is_empty() {
        return Ok(given);
    }
    let link = |port: &Port| spec.links[port.pipe.link()].name.as_str();
    let places: HashMap<(&str, &str), usize> =
        ports.iter().enumerate().map(|(i, p)| ((link(p), p.node.as_str()), i)).collect();
    for wanted in &spec.addresses {
        let (address, wrong) = (wanted.address, |what: &str| Err(Error::Input(format!("{}: {what}", wanted.address))));
        let Some(port) = places.get(&(wanted.link.as_str(), wanted.node.as_str())) else {
            return wrong(&format!("`{}` is no node at an end of the link `{}`", wanted.node, wanted.link));
        };
        let [first, ..] = address.octets();
        if !(1..224).contains(&first) || first == 127 || address::is_gateway(address) {
            return wrong("no interface can have this address; 10.128.0.0/9 is the emulator's own");
        }
        if given[*port].replace(address).is_some() {
            return wrong(&format!("`{}` has another address on the link `{}`", wanted.node, wanted.link));
        }
    }
    Ok(given)
}

impl Addresses {
    /// Gives each port the address asked for, or a free one. `lan_of` says, by port, which LAN it is on. The second
    /// answer is the blocks of the LANs.
    pub fn give(
        spec: &NetworkSpec,
        ports: &[Port],
        lan_of: &[Option<usize>],
        given: &[Option<Ipv4Addr>],
    ) -> Result<(Addresses, Vec<Prefix>), Error> {
        let mut a = Addresses { all: vec![Ipv4Addr::UNSPECIFIED; ports.len()], ..Addresses::default() };
        for (port, address) in given.iter().enumerate().filter_map(|(p, a)| Some((p, (*a)?))) {
            a.choose(port, address, ports)?;
        }
        let block = |address: &Ipv4Addr| GIVEN_OUT.holds(*address).then(|| address.to_bits() >> 8 & (BLOCKS - 1));
        let mut taken: BTreeSet<u32> = given.iter().flatten().filter_map(block).collect();
        for subnet in spec.lans.iter().filter_map(|l| l.subnet) {
            taken.extend((0..blocks(subnet)).filter_map(|n| block(&Ipv4Addr::from_bits(nth(subnet, n)))));
        }
        let mut next = 0;
        for port in (0..ports.len()).filter(|p| given[*p].is_none() && lan_of[*p].is_none()) {
            while taken.contains(&block_of(next)) {
                next = (block_of(next) + 1) as usize * PER_BLOCK;
            }
            a.give_out(port, next)?;
            next += 1;
        }
        let mut free = block_of(next + PER_BLOCK - 1);
        let mut subnets: Vec<Prefix> = Vec::new();
        for (lan, spec) in spec.lans.iter().enumerate() {
            let members: Vec<usize> = (0..ports.len()).filter(|p| lan_of[*p] == Some(lan)).collect();
            let first = members.iter().find_map(|m| given[*m]);
            let subnet = match (spec.subnet, first) {
                (Some(subnet), _) => subnet,
                (None, Some(address)) => Prefix { address: Ipv4Addr::from_bits(address.to_bits() & !0xff), length: 24 },
                (None, None) => {
                    let size = (members.len().div_ceil(PER_BLOCK).max(1) as u32).next_power_of_two();
                    let mut at = free.next_multiple_of(size);
                    while taken.range(at..at + size).next().is_some() {
                        at += size;
                    }
                    free = at + size;
                    if free > BLOCKS {
                        return Err(too_many());
                    }
                    let address = Ipv4Addr::from_bits(GIVEN_OUT.address.to_bits() | at << 8);
                    Prefix { address, length: 24 - size.ilog2() as u8 }
                }
            };
            let wrong = |what: String| Err(Error::Input(format!("the LAN `{}`: {what}", spec.name)));
            let overlaps = subnet.holds(GATEWAYS) || address::is_gateway(subnet.address);
            if subnet.length > 30 || host_bits(subnet) != 0 || overlaps {
                return wrong(format!("{}/{} is no block for it", subnet.address, subnet.length));
            }
            if let Some(other) = subnets.iter().find(|s| s.holds(subnet.address) || subnet.holds(s.address)) {
                return wrong(format!("its block {}/{} is also another LAN's", other.address, other.length));
            }
            let mut hosts = (0..).map_while(|n| subnet.host(n));
            for member in members {
                match given[member] {
                    Some(address) if subnet.holds(address) => {}
                    Some(address) => {
                        return wrong(format!("{address} is not in its block {}/{}", subnet.address, subnet.length));
                    }
                    None => {
                        // Some programs take 0 and 255 for a network and a broadcast address whatever the prefix.
                        let usable = |h: &Ipv4Addr| !matches!(h.octets()[3], 0 | 255);
                        let free = hosts.find(|h| usable(h) && a.port(h.octets()).is_none());
                        let Some(address) = free else {
                            return wrong(format!(
                                "its block {}/{} has fewer addresses than it has members",
                                subnet.address, subnet.length
                            ));
                        };
                        match address::place_of(address.octets()) {
                            Some(place) if spec.subnet.is_none() && first.is_none() => a.give_out(member, place)?,
                            _ => a.choose(member, address, ports)?,
                        }
                    }
                }
            }
            subnets.push(subnet);
        }
        for (port, address) in a.all.iter().enumerate() {
            // Members have a route of its own to an interface of a link that has an address of their LAN's block.
            let stranger = |(lan, s): &(usize, &Prefix)| {
                let taken = lan_of[port].is_some() || is_end(**s, *address);
                s.holds(*address) && lan_of[port] != Some(*lan) && taken
            };
            if let Some((lan, subnet)) = subnets.iter().enumerate().find(stranger) {
                return Err(Error::Input(format!(
                    "{address} of `{}` is in the block {}/{} of the LAN `{}`, or stands for all of it, and that \
                     interface is not on it",
                    ports[port].node, subnet.address, subnet.length, spec.lans[lan].name
                )));
            }
        }
        Ok((a, subnets))
    }

    /// The port with an address.
    pub fn port(&self, address: [u8; 4]) -> Option<PortId> {
        let place = address::place_of(address);
        match place.and_then(|place| self.by_place.get(place)) {
            Some(&port) if port != NOBODY => Some(PortId(port)),
            _ if self.chosen.is_empty() => None,
            _ => self.chosen.get(&address).copied(),
        }
    }

    /// The address of a port.
    pub fn of(&self, port: PortId) -> Ipv4Addr {
        self.all[port.index()]
    }

    /// Whether all are among those that are given out.
    pub fn all_given_out(&self) -> bool {
        self.chosen.keys().all(|a| GIVEN_OUT.holds(Ipv4Addr::from(*a)))
    }

    fn choose(&mut self, port: usize, address: Ipv4Addr, ports: &[Port]) -> Result<(), Error> {
        self.all[port] = address;
        match self.chosen.insert(address.octets(), PortId(port as u32)) {
            None => Ok(()),
            Some(other) => {
                let [a, b] = [other.index(), port].map(|p| &ports[p].node);
                Err(Error::Input(format!("`{a}` and `{b}` both have the address {address}")))
            }
        }
    }

    fn give_out(&mut self, port: usize, place: usize) -> Result<(), Error> {
        if place >= MAX_PORTS {
            return Err(too_many());
        }
        if self.by_place.len() <= place {
            self.by_place.resize(place + 1, NOBODY);
        }
        self.by_place[place] = port as u32;
        self.all[port] = address::of_place(place);
        Ok(())
    }
}

/// How many places a block has.
const PER_BLOCK: usize = MAX_PORTS / BLOCKS as usize;

fn too_many() -> Error {
    Error::Input(format!("the emulator has addresses for {MAX_PORTS} interfaces"))
}

fn block_of(place: usize) -> u32 {
    (place / PER_BLOCK) as u32
}

/// How many blocks of 256 addresses a prefix touches.
fn blocks(prefix: Prefix) -> u32 {
    1 << 24u8.saturating_sub(prefix.length.max(9))
}

/// An address in the n-th block that a prefix touches.
fn nth(prefix: Prefix, n: u32) -> u32 {
    prefix.address.to_bits().wrapping_add(n << 8)
}

/// Whether an address stands for a whole block, or for all in it.
fn is_end(block: Prefix, address: Ipv4Addr) -> bool {
    let hosts = u32::MAX.checked_shr(block.length.into()).unwrap_or(0);
    [0, hosts].contains(&(address.to_bits() & hosts))
}

/// The part behind the prefix that is not zero.
fn host_bits(prefix: Prefix) -> u32 {
    prefix.address.to_bits() & u32::MAX.checked_shr(prefix.length.into()).unwrap_or(0)
}
