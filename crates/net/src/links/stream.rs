//! Which frames somebody expects in the order in which they were sent: those of one connection, say.

use crate::links::headers::{ACK, ARP, IPV4, IPV6, RST, SYN, TCP, UDP};
use scale::link::ETHERNET_HEADER as ETHERNET;

/// How the hardware addresses of all nodes begin, and no group's.
const OF_A_NODE: [u8; 2] = [0x02, 0x00];
/// Flags of TCP that take a place in the order of the data, or end it: FIN, SYN, RST.
const IN_ORDER: u8 = 0b111;

/// Frames with the same addresses, protocol and ports; of what is not IP, all of the same type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stream {
    kind: [u8; 2],
    ends: [u8; 32],
    protocol: u8,
    /// None in fragments, of which only the first would have them.
    ports: [u8; 4],
}

impl Stream {
    /// Whether it is a connection, whose ends want all in order.
    pub fn is_tcp(&self) -> bool {
        self.protocol == TCP
    }
}

/// The stream that a frame belongs to, and whether it may come out of turn all the same: if it only acknowledges.
pub(crate) fn of(frame: &[u8]) -> (Stream, bool) {
    let (kind, packet) = packet_in(frame);
    let (stream, carried) = packet.unwrap_or_default();
    let mut stream = Stream { kind, ..stream };
    if matches!(stream.protocol, TCP | UDP) {
        stream.ports = carried.first_chunk().copied().unwrap_or_default();
    }
    (stream, stream.protocol == TCP && only_acknowledges(carried))
}

/// Who in a node can tell that a frame has come to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeenBy {
    /// No program: the kernel alone.
    Kernel,
    /// The thread that takes data out of it.
    Taker,
    /// Whoever looks, without taking anything: at an error, say.
    Anyone,
}

/// Who sees a frame that a node is handed.
pub(crate) fn seen_by(frame: &[u8]) -> SeenBy {
    let (kind, packet) = packet_in(frame);
    if kind == ARP {
        return SeenBy::Kernel;
    }
    let Some((stream, carried)) = packet.filter(|_| frame.starts_with(&OF_A_NODE)) else { return SeenBy::Anyone };
    match (stream.protocol, carried.get(13)) {
        (TCP, _) if only_acknowledges(carried) => SeenBy::Kernel,
        (TCP, Some(flags)) if flags & RST != 0 || flags & (SYN | ACK) == SYN | ACK => SeenBy::Anyone,
        (TCP, Some(flags)) if flags & SYN != 0 => SeenBy::Kernel,
        (TCP | UDP, _) => SeenBy::Taker,
        _ => SeenBy::Anyone,
    }
}

/// Reads a frame's type; of an IP packet also its addresses and protocol, and what it carries.
fn packet_in(frame: &[u8]) -> ([u8; 2], Option<(Stream, &[u8])>) {
    let kind = frame.get(12..ETHERNET).and_then(|kind| kind.first_chunk()).copied().unwrap_or_default();
    let ip = frame.get(ETHERNET..).unwrap_or_default();
    let packet = match kind {
        IPV4 => of_4(ip),
        IPV6 => of_6(ip),
        _ => None,
    };
    (kind, packet)
}

/// The addresses and the protocol of an IPv4 packet, and what it carries; nothing of a fragment.
fn of_4(ip: &[u8]) -> Option<(Stream, &[u8])> {
    let header = usize::from(ip.first()? & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes(*ip.get(2..)?.first_chunk()?));
    let fragment = u16::from_be_bytes(*ip.get(6..)?.first_chunk()?) & 0x3fff != 0;
    let mut stream = Stream { protocol: *ip.get(9)?, ..Default::default() };
    stream.ends[..8].copy_from_slice(ip.get(12..20)?);
    let carried = ip.get(header..total).filter(|_| !fragment).unwrap_or_default();
    Some((stream, carried))
}

/// Those of an IPv6 packet. One with more headers than the first has no ports.
fn of_6(ip: &[u8]) -> Option<(Stream, &[u8])> {
    let length = usize::from(u16::from_be_bytes(*ip.get(4..)?.first_chunk()?));
    let mut stream = Stream { protocol: *ip.get(6)?, ..Default::default() };
    stream.ends.copy_from_slice(ip.get(8..40)?);
    Some((stream, ip.get(40..40 + length).unwrap_or_default()))
}

fn only_acknowledges(tcp: &[u8]) -> bool {
    match tcp.get(12..14) {
        Some(&[offset, flags]) => flags & IN_ORDER == 0 && usize::from(offset >> 4) * 4 == tcp.len(),
        _ => false,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::links::frame::Frame;
    use crate::links::frame::tests::{ipv4, ipv6};

    /// Makes a frame one of TCP: between these ports, with these flags, and as much data as there is room for.
    pub fn tcp(frame: &mut Frame, ports: [u8; 4], flags: u8) {
        let six = frame.bytes()[12..14] == IPV6;
        let (protocol, at) = if six { (20, 54) } else { (23, 34) };
        let b = frame.space();
        b[protocol] = TCP;
        b[at..at + 4].copy_from_slice(&ports);
        b[at + 12..at + 14].copy_from_slice(&[5 << 4, flags]);
    }

    const TO: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    #[test]
    fn frames_of_one_connection_are_one_stream_and_others_are_others() {
        for make in [ipv4, ipv6] {
            let with = |to, ports| {
                let mut frame = make(200, to, 0);
                tcp(&mut frame, ports, ACK);
                of(frame.bytes()).0
            };
            assert_eq!(with(TO, [0, 80, 4, 1]), with(TO, [0, 80, 4, 1]));
            assert_ne!(with(TO, [0, 80, 4, 1]), with(TO, [0, 80, 4, 2]));
            assert_ne!(with(TO, [0, 80, 4, 1]), with(Ipv4Addr::new(10, 0, 0, 3), [0, 80, 4, 1]));
        }
        assert_ne!(of(ipv4(100, TO, 0).bytes()).0, of(ipv6(100, TO, 0).bytes()).0);
    }

    #[test]
    fn data_are_seen_by_who_takes_them_and_ends_of_connections_by_anyone() {
        let of = |len, flags| {
            let mut frame = ipv4(len, TO, 0);
            frame.space()[..2].copy_from_slice(&OF_A_NODE);
            tcp(&mut frame, [0, 80, 4, 1], flags);
            seen_by(frame.bytes())
        };
        assert_eq!([of(100, ACK), of(54, ACK | 1)], [SeenBy::Taker; 2], "data, and their end");
        assert_eq!([of(54, ACK), of(54, SYN)], [SeenBy::Kernel; 2], "an acknowledgement, and a wish to connect");
        assert_eq!([of(54, SYN | ACK), of(54, RST), of(54, RST | ACK)], [SeenBy::Anyone; 3]);
        let mut datagram = ipv4(100, TO, 0);
        datagram.space()[..2].copy_from_slice(&OF_A_NODE);
        datagram.space()[23] = UDP;
        assert_eq!(seen_by(datagram.bytes()), SeenBy::Taker);
        datagram.space()[0] = 1;
        assert_eq!(seen_by(datagram.bytes()), SeenBy::Anyone, "a group's");
        datagram.space()[12..14].copy_from_slice(&ARP);
        assert_eq!(seen_by(datagram.bytes()), SeenBy::Kernel);
    }

    #[test]
    fn only_what_has_no_place_among_the_data_may_come_out_of_turn() {
        for (make, header) in [(ipv4 as fn(_, _, _) -> _, 54), (ipv6, 74)] {
            let bare = |len, flags| {
                let mut frame = make(len, TO, 0);
                tcp(&mut frame, [0, 80, 4, 1], flags);
                of(frame.bytes()).1
            };
            assert!(bare(header, ACK), "an acknowledgement");
            assert!(!bare(header + 1, ACK), "a byte of data");
            assert!([1, 2, 4].iter().all(|flag| !bare(header, ACK | flag)), "the ends of a connection");
        }
        // A short frame is padded behind the packet.
        let mut padded = ipv4(54, TO, 0);
        tcp(&mut padded, [0, 80, 4, 1], ACK);
        padded.set_len(60);
        assert!(of(padded.bytes()).1);
        assert!(!of(ipv4(54, TO, 0).bytes()).1, "no TCP");
    }

    #[test]
    fn fragments_stay_together_and_any_bytes_are_some_stream() {
        let fragment = |offset: u16, mark| {
            let mut frame = ipv4(200, TO, mark);
            frame.space()[23] = UDP;
            frame.space()[20..22].copy_from_slice(&offset.to_be_bytes());
            of(frame.bytes()).0
        };
        assert_eq!(fragment(0x2000, 1), fragment(100, 2));
        assert_ne!(fragment(0, 1), fragment(0, 2), "these are whole, and from different ports");
        let whole = ipv6(100, TO, 0);
        (0..100).for_each(|len| assert!(!of(&whole.bytes()[..len]).1));
        let mut arp = ipv4(60, TO, 1);
        arp.space()[12..14].copy_from_slice(&[0x08, 0x06]);
        assert_eq!(of(arp.bytes()), (Stream { kind: [0x08, 0x06], ..Default::default() }, false));
    }
}
