//! Whether somebody listens on a TCP port of a machine whose kernel cannot be asked: the first segment of a connection
//! is sent to it, from an address that nobody has, and what it answers says so. The connection is then refused.
//!
//! That takes no time, and passes no pipe.

use std::net::Ipv4Addr;

use crate::links::address;
use crate::links::frame::Frame;
use crate::links::headers::{ACK, IPV4, RST, SYN, TCP, checksum};
use crate::links::port::Port;
use scale::link::ETHERNET_HEADER as ETHERNET;

/// Lengths of the headers of IP and TCP, without options.
const IP: usize = 20;
const HEADERS: usize = IP + 20;
/// The port that asks: no program is given it by itself.
const OWN: u16 = 7;

/// The address that asks: on a LAN the last of its block, else that of the router that does not exist.
pub(crate) fn asker(port: &Port) -> Ipv4Addr {
    match port.lan {
        Some(lan) => {
            let hosts = !lan.subnet.mask().to_bits();
            Ipv4Addr::from_bits((lan.subnet.address.to_bits() | hosts) - 1)
        }
        None => {
            let [first, ..] = port.address.octets();
            Ipv4Addr::new(first, 255, 255, 254)
        }
    }
}

/// Makes of `frame` the question whether somebody listens on `tcp` of the machine at `port`.
pub(crate) fn ask(frame: &mut Frame, port: &Port, tcp: u16) {
    segment(frame, port, tcp, [0, 0], SYN);
}

/// A machine's answer to a question: the TCP port, and whether somebody listens there; the frame then refuses
/// the connection. `None` if it is for somebody else.
pub(crate) fn heard(frame: &mut Frame, port: &Port) -> Option<(u16, bool)> {
    let bytes = frame.bytes();
    let ip = bytes.get(ETHERNET..)?;
    let (from, to) = (port.address.octets(), asker(port).octets());
    // Nearly every frame is something else, and that is seen by the first of these.
    if ip.get(16..IP)? != to || bytes[12..ETHERNET] != IPV4 || ip[9] != TCP || ip[12..16] != from {
        return None;
    }
    let tcp = ip.get(usize::from(ip[0] & 0x0f) * 4..)?;
    let word = |at: usize| Some(u16::from_be_bytes(*tcp.get(at..)?.first_chunk()?));
    let (source, destination, flags) = (word(0)?, word(2)?, *tcp.get(13)?);
    if destination != OWN {
        return None;
    }
    let acknowledged = u32::from_be_bytes(*tcp.get(8..)?.first_chunk()?);
    let listens = flags & (SYN | ACK | RST) == SYN | ACK;
    segment(frame, port, source, [acknowledged, 0], RST);
    Some((source, listens))
}

fn segment(frame: &mut Frame, port: &Port, tcp: u16, [sequence, acknowledged]: [u32; 2], flags: u8) {
    let (from, to) = (asker(port).octets(), port.address.octets());
    let bytes = frame.space();
    bytes[..6].copy_from_slice(&port.mac);
    bytes[6..12].copy_from_slice(&address::mac(port.gateway));
    bytes[12..ETHERNET].copy_from_slice(&IPV4);
    let packet = &mut bytes[ETHERNET..ETHERNET + HEADERS];
    packet.fill(0);
    (packet[0], packet[8], packet[9]) = (0x45, 64, TCP);
    packet[2..4].copy_from_slice(&(HEADERS as u16).to_be_bytes());
    packet[12..16].copy_from_slice(&from);
    packet[16..IP].copy_from_slice(&to);
    let check = checksum(&packet[..IP], 0);
    packet[10..12].copy_from_slice(&check);
    packet[20..22].copy_from_slice(&OWN.to_be_bytes());
    packet[22..24].copy_from_slice(&tcp.to_be_bytes());
    packet[24..28].copy_from_slice(&sequence.to_be_bytes());
    packet[28..32].copy_from_slice(&acknowledged.to_be_bytes());
    (packet[32], packet[33]) = (5 << 4, flags);
    packet[34..36].copy_from_slice(&1024u16.to_be_bytes());
    // The addresses, the protocol and the length count, too.
    let check = checksum(&packet[12..], u32::from(TCP) + (HEADERS - IP) as u32);
    packet[36..38].copy_from_slice(&check);
    frame.set_len(ETHERNET + HEADERS);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::answers::tests::port;
    use crate::links::frame::Pool;

    /// A kernel's answer to a question: with these flags.
    fn answered(asked: &Frame, flags: u8) -> Frame {
        let mut frame = Pool::default().take();
        let mut bytes = asked.bytes().to_vec();
        for (a, b) in [(ETHERNET + 12, ETHERNET + 16), (ETHERNET + 14, ETHERNET + 18), (ETHERNET + 20, ETHERNET + 22)] {
            for i in 0..2 {
                bytes.swap(a + i, b + i);
            }
        }
        bytes[ETHERNET + 28..ETHERNET + 32].copy_from_slice(&1u32.to_be_bytes());
        bytes[ETHERNET + 33] = flags;
        frame.space()[..bytes.len()].copy_from_slice(&bytes);
        frame.set_len(bytes.len());
        frame
    }

    #[test]
    fn who_listens_is_told_from_who_does_not() {
        let mut asked = Pool::default().take();
        ask(&mut asked, &port(), 80);
        let ip = &asked.bytes()[ETHERNET..];
        assert_eq!(checksum(&ip[..IP], 0), [0, 0], "the checksums are right");
        assert_eq!(checksum(&ip[12..], u32::from(TCP) + 20), [0, 0]);
        assert_eq!((&ip[12..16], &ip[16..20]), (&[10, 255, 255, 254][..], &[10, 0, 0, 3][..]));
        let mut listens = answered(&asked, SYN | ACK);
        assert_eq!(heard(&mut listens, &port()), Some((80, true)));
        let refusal = &listens.bytes()[ETHERNET..];
        assert_eq!((refusal[33], &refusal[22..28]), (RST, &[0, 80, 0, 0, 0, 1][..]), "it refuses the connection");
        assert_eq!(heard(&mut answered(&asked, RST | ACK), &port()), Some((80, false)));
        assert_eq!(heard(&mut asked, &port()), None, "no answer");
        let answer = answered(&asked, SYN | ACK);
        for cut in 0..answer.len() {
            let mut short = answered(&asked, SYN | ACK);
            short.set_len(cut);
            heard(&mut short, &port());
        }
    }
}
