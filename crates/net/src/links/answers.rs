//! Answers to programs that have an interface to themselves, as a guest's kernel has: nobody else is there whom they
//! could ask who has an address, or which one is theirs.
//!
//! On a link that is no LAN every address is behind the [gateway](crate::links::address::gateway), which does not
//! exist: who asks by ARP (RFC 826) for any is told its hardware address. Whoever asks by DHCP (RFC 2131) for an
//! address is given that of his port, for ever. Both take no time, and pass no pipe.

use std::net::Ipv4Addr;

use crate::links::address;
use crate::links::frame::Frame;
use crate::links::headers::{ARP, IPV4, UDP, checksum};
use crate::links::port::Port;
use crate::links::prefix::netmask;
use crate::links::tcp_probe;
use scale::link::ETHERNET_HEADER as ETHERNET;

/// Of an ARP packet about IPv4 on Ethernet: kinds and lengths of its addresses, and that it asks.
const ASKS: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
const ARP_LENGTH: usize = 28;

const SERVER: u16 = 67;
const CLIENT: u16 = 68;
/// Headers of IP and UDP before a message of DHCP.
const HEADERS: usize = 20 + 8;
/// Where the options of a message begin, after the cookie that says there are some.
const OPTIONS: usize = 240;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Some clients take no shorter message (RFC 1542).
const SHORTEST: usize = 300;
/// The shortest MTU with which there is room for an answer.
const LEAST_MTU: u16 = 400;

/// The length of the network prefix that the program is to believe in, where it is on no LAN.
const BELIEVED: u8 = 8;

/// Kinds of a message, option 53.
const DISCOVER: u8 = 1;
const OFFER: u8 = 2;
const REQUEST: u8 = 3;
const ACK: u8 = 5;
const NAK: u8 = 6;
const INFORM: u8 = 8;

impl Port {
    /// The netmask for a program that has the interface to itself.
    pub fn believed_mask(&self) -> Ipv4Addr {
        self.lan.map_or_else(|| netmask(BELIEVED), |lan| lan.subnet.mask())
    }

    /// Its next hop for everything else; none on a LAN, and behind an interface that is not the main one.
    pub fn believed_router(&self) -> Option<Ipv4Addr> {
        // Any address of the block does, as long as nobody has it: all are answered for.
        (self.lan.is_none() && self.main.is_some()).then(|| tcp_probe::asker(self))
    }
}

/// Turns a frame that the program at `port` has sent into the answer to it; false if it is for somebody else.
pub(crate) fn answer(frame: &mut Frame, port: &Port) -> bool {
    match frame.bytes().get(12..ETHERNET) {
        Some(kind) if kind == ARP => answer_arp(frame, port),
        Some(kind) if kind == IPV4 => answer_dhcp(frame, port).is_some(),
        _ => false,
    }
}

fn answer_arp(frame: &mut Frame, port: &Port) -> bool {
    let Some(asked) = frame.bytes().get(ETHERNET..ETHERNET + ARP_LENGTH) else { return false };
    // Who asks for his own address wants to hear that nobody else has it. The members of a LAN answer for themselves.
    let of_asker = asked[24..28] == tcp_probe::asker(port).octets();
    if asked[..8] != ASKS || port.lan.is_some() && !of_asker || asked[24..28] == port.address.octets() {
        return false;
    }
    let gateway = address::mac(port.gateway);
    let bytes = frame.space();
    let asker: [u8; 10] = std::array::from_fn(|i| bytes[ETHERNET + 8 + i]);
    let of: [u8; 4] = std::array::from_fn(|i| bytes[ETHERNET + 24 + i]);
    bytes[..6].copy_from_slice(&asker[..6]);
    bytes[6..12].copy_from_slice(&gateway);
    let told = &mut bytes[ETHERNET..ETHERNET + ARP_LENGTH];
    told[7] = 2;
    told[8..14].copy_from_slice(&gateway);
    told[14..18].copy_from_slice(&of);
    told[18..28].copy_from_slice(&asker);
    true
}

/// A client's question.
struct Asked {
    kind: u8,
    transaction: [u8; 4],
    flags: [u8; 2],
    has: [u8; 4],
    wants: Option<[u8; 4]>,
}

/// Reads what a client asks; none if the frame is no message of one with this hardware address.
fn asked(frame: &[u8], mac: [u8; 6]) -> Option<Asked> {
    let ip = &frame[ETHERNET..];
    let head = usize::from(ip.first()? & 0x0f) * 4;
    let whole = ip.get(6..8)? == [0, 0] || ip.get(6..8)? == [0x40, 0];
    let udp = ip.get(head..)?;
    let ports = [udp.get(..2)?, udp.get(2..4)?].map(|port| u16::from_be_bytes([port[0], port[1]]));
    if ip[0] >> 4 != 4 || !whole || *ip.get(9)? != UDP || ports != [CLIENT, SERVER] {
        return None;
    }
    let message = udp.get(8..)?;
    let is_request = message.get(..3)? == [1, 1, 6] && message.get(28..34)? == mac;
    if !is_request || message.get(OPTIONS - 4..OPTIONS)? != COOKIE {
        return None;
    }
    let option = |code: u8| {
        let mut rest = message.get(OPTIONS..)?;
        loop {
            match *rest.first()? {
                0 => rest = &rest[1..],
                255 => return None,
                found => {
                    let value = rest.get(2..)?.get(..usize::from(*rest.get(1)?))?;
                    if found == code {
                        return Some(value);
                    }
                    rest = &rest[2 + value.len()..];
                }
            }
        }
    };
    Some(Asked {
        kind: *option(53)?.first()?,
        transaction: *message.get(4..)?.first_chunk()?,
        flags: *message.get(10..)?.first_chunk()?,
        has: *message.get(12..)?.first_chunk()?,
        wants: option(50).and_then(|value| value.first_chunk().copied()),
    })
}

fn answer_dhcp(frame: &mut Frame, port: &Port) -> Option<()> {
    let asked = asked(frame.bytes(), port.mac)?;
    let own = port.address.octets();
    let wanted = asked.wants.or((asked.has != [0; 4]).then_some(asked.has));
    let kind = match asked.kind {
        DISCOVER => OFFER,
        REQUEST if wanted.is_some_and(|wanted| wanted != own) => NAK,
        REQUEST | INFORM => ACK,
        _ => return None,
    };
    let router = port.believed_router();
    let server = router.unwrap_or(port.gateway).octets();
    let mut message = vec![0; OPTIONS];
    message[..3].copy_from_slice(&[2, 1, 6]);
    message[4..8].copy_from_slice(&asked.transaction);
    message[10..12].copy_from_slice(&asked.flags);
    message[12..16].copy_from_slice(&asked.has);
    if kind != NAK {
        message[16..20].copy_from_slice(&own);
    }
    message[28..34].copy_from_slice(&port.mac);
    message[OPTIONS - 4..].copy_from_slice(&COOKIE);
    let mut add = |code: u8, value: &[u8]| {
        message.extend([code, value.len() as u8]);
        message.extend(value);
    };
    add(53, &[kind]);
    add(54, &server);
    if kind != NAK {
        if asked.kind != INFORM {
            add(51, &u32::MAX.to_be_bytes());
        }
        add(1, &port.believed_mask().octets());
        add(26, &port.mtu.to_be_bytes());
        // A node's name is a DNS label, of at most 63 bytes.
        add(12, &port.node.as_bytes()[..port.node.len().min(63)]);
        if let Some(router) = router {
            add(3, &router.octets());
        }
    }
    message.push(255);
    message.resize(message.len().max(SHORTEST), 0);
    write(frame, port, server, &message)
}

/// Puts a message to the program into the frame; none if there is no room for it.
fn write(frame: &mut Frame, port: &Port, from: [u8; 4], message: &[u8]) -> Option<()> {
    let length = HEADERS + message.len();
    if port.mtu < LEAST_MTU || frame.space().len() < ETHERNET + length {
        return None;
    }
    let bytes = frame.space();
    bytes[..6].copy_from_slice(&port.mac);
    bytes[6..12].copy_from_slice(&address::mac(port.gateway));
    bytes[12..ETHERNET].copy_from_slice(&IPV4);
    let ip = &mut bytes[ETHERNET..ETHERNET + length];
    ip[..HEADERS].fill(0);
    (ip[0], ip[8], ip[9]) = (0x45, 64, UDP);
    ip[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    ip[12..16].copy_from_slice(&from);
    ip[16..20].fill(255);
    let check = checksum(&ip[..20], 0);
    ip[10..12].copy_from_slice(&check);
    ip[20..22].copy_from_slice(&SERVER.to_be_bytes());
    ip[22..24].copy_from_slice(&CLIENT.to_be_bytes());
    // Without a checksum of UDP, as IPv4 allows.
    ip[24..26].copy_from_slice(&((8 + message.len()) as u16).to_be_bytes());
    ip[HEADERS..].copy_from_slice(message);
    frame.set_len(ETHERNET + length);
    Some(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::links::frame::Pool;
    use crate::links::ids::{PipeId, PortId};
    use crate::links::port::Lan;
    use crate::links::prefix::{GIVEN_OUT, Prefix};

    const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

    /// The interface of a machine that has it for itself.
    pub(crate) fn port() -> Port {
        Port {
            id: PortId(2),
            node: "vm".into(),
            name: "eth0".into(),
            address: OWN,
            prefix: 8,
            gateway: address::gateway(2),
            lan: None,
            main: Some(GIVEN_OUT),
            mac: address::mac(OWN),
            mtu: 1500,
            tso: true,
            routes: Vec::new(),
            rules: Vec::new(),
            forwards: false,
            pipe: PipeId(0),
            bare: true,
        }
    }

    fn frame(bytes: &[u8]) -> Frame {
        let mut frame = Pool::default().take();
        frame.space()[..bytes.len()].copy_from_slice(bytes);
        frame.set_len(bytes.len());
        frame
    }

    fn arp(of: [u8; 4]) -> Frame {
        let head = [&[255; 6], &address::mac(OWN)[..], &ARP, &ASKS].concat();
        frame(&[&head[..], &address::mac(OWN), &OWN.octets(), &[0; 6], &of].concat())
    }

    #[test]
    fn whoever_asks_for_an_address_is_told_the_gateways() {
        let mut asked = arp([10, 0, 0, 7]);
        assert!(answer(&mut asked, &port()));
        let gateway = address::mac(address::gateway(2));
        let told =
            [&address::mac(OWN)[..], &gateway, &ARP, &[0, 1, 8, 0, 6, 4, 0, 2], &gateway, &[10, 0, 0, 7]].concat();
        let told = [&told[..], &address::mac(OWN), &OWN.octets()].concat();
        assert_eq!(asked.bytes(), told);
        assert!(!answer(&mut arp(OWN.octets()), &port()), "nobody else has its own");
        assert!(!answer(&mut frame(&asked.bytes()[..30]), &port()), "cut short");
        let subnet = Prefix { address: OWN, length: 24 };
        let on_lan = Port { lan: Some(Lan { subnet, asks: true, first: true }), ..port() };
        assert!(!answer(&mut arp([10, 0, 0, 7]), &on_lan), "the members of a LAN answer themselves");
    }

    fn dhcp(kind: u8, options: &[u8]) -> Frame {
        let mut message = vec![0; OPTIONS];
        message[..3].copy_from_slice(&[1, 1, 6]);
        message[4..8].copy_from_slice(&[1, 2, 3, 4]);
        message[28..34].copy_from_slice(&address::mac(OWN));
        message[OPTIONS - 4..].copy_from_slice(&COOKIE);
        message.extend([0, 53, 1, kind]);
        message.extend(options);
        message.push(255);
        let mut ip = vec![0; HEADERS];
        (ip[0], ip[9]) = (0x45, UDP);
        ip[20..24].copy_from_slice(&[0, 68, 0, 67]);
        frame(&[&[255; 6], &address::mac(OWN)[..], &IPV4, &ip, &message].concat())
    }

    fn options(answer: &Frame) -> Vec<(u8, Vec<u8>)> {
        let mut rest = &answer.bytes()[ETHERNET + HEADERS + OPTIONS..];
        let mut found = Vec::new();
        while rest[0] != 255 {
            let end = 2 + usize::from(rest[1]);
            found.push((rest[0], rest[2..end].to_vec()));
            rest = &rest[end..];
        }
        found
    }

    #[test]
    fn whoever_asks_for_an_address_of_his_own_is_given_it() {
        let mut found = dhcp(DISCOVER, &[55, 2, 1, 3]);
        assert!(answer(&mut found, &port()));
        let bytes = found.bytes();
        assert_eq!(checksum(&bytes[ETHERNET..ETHERNET + 20], 0), [0, 0], "the checksum is right");
        let message = &bytes[ETHERNET + HEADERS..];
        assert_eq!((&message[4..8], &message[16..20]), (&[1, 2, 3, 4][..], &OWN.octets()[..]));
        assert!(bytes.len() >= ETHERNET + HEADERS + SHORTEST);
        let router = vec![10, 255, 255, 254];
        let told = options(&found);
        for expected in
            [(53, vec![OFFER]), (1, vec![255, 0, 0, 0]), (3, router), (26, vec![5, 220]), (12, b"vm".to_vec())]
        {
            assert!(told.contains(&expected), "{expected:?} in {told:?}");
        }
        let mut taken = dhcp(REQUEST, &[50, 4, 10, 0, 0, 3]);
        assert!(answer(&mut taken, &port()) && options(&taken).contains(&(53, vec![ACK])));
        let mut other = dhcp(REQUEST, &[50, 4, 10, 0, 0, 4]);
        assert!(answer(&mut other, &port()) && options(&other).contains(&(53, vec![NAK])));
        assert!(!answer(&mut dhcp(4, &[]), &port()), "it declines");
        assert!(!answer(&mut dhcp(DISCOVER, &[]), &Port { mac: [2; 6], ..port() }), "somebody behind it");
        assert!(!answer(&mut dhcp(DISCOVER, &[]), &Port { mtu: 300, ..port() }), "no room");
        let whole = dhcp(DISCOVER, &[]);
        for cut in ETHERNET..whole.len() - 1 {
            answer(&mut frame(&whole.bytes()[..cut]), &port());
        }
    }
}
