//! Headers of the packet in a frame, by the frame's first bytes.

use std::net::IpAddr;

const ETHERNET: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const HEADER_OF_6: usize = 40;
const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
const ICMP_OF_6: u8 = 58;

/// Flags of a TCP segment.
pub(super) const FIN: u8 = 0x01;
pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
pub(super) const ACK: u8 = 0x10;

/// The kinds of options of a TCP segment that matter here.
const END: u8 = 0;
const PADDING: u8 = 1;
const WINDOW_SCALE: u8 = 3;

/// An IP packet, by its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub protocol: u8,
    /// Where it comes from and where it goes.
    pub addresses: [IpAddr; 2],
    /// Its ports; `None` of a fragment, and of protocols that have none.
    pub ports: Option<[u16; 2]>,
    /// The bytes behind all headers.
    pub payload: u32,
    pub tcp: Option<Segment>,
}

/// A TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub sequence: u32,
    pub acknowledges: u32,
    pub flags: u8,
    pub window: u16,
    /// By how many bits its sender's windows are to be shifted, if a SYN says so.
    pub window_scale: Option<u8>,
}

impl Segment {
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Reads the packet in a frame of which only the first bytes may be there; `None` if there is none, or its headers
/// contradict themselves.
pub(super) fn read(frame: &[u8]) -> Option<Packet> {
    let ip = frame.get(ETHERNET..)?;
    let (protocol, addresses, header, total, is_fragment) = match *frame.get(12..ETHERNET)?.first_chunk()? {
        IPV4 => {
            let header = usize::from(ip.first()? & 0x0f) * 4;
            let address = |at: usize| Some(IpAddr::from(*ip.get(at..)?.first_chunk::<4>()?));
            let is_fragment = number(ip, 6)? & 0x3fff != 0;
            (*ip.get(9)?, [address(12)?, address(16)?], header, usize::from(number(ip, 2)?), is_fragment)
        }
        IPV6 => {
            let address = |at: usize| Some(IpAddr::from(*ip.get(at..)?.first_chunk::<16>()?));
            (*ip.get(6)?, [address(8)?, address(24)?], HEADER_OF_6, HEADER_OF_6 + usize::from(number(ip, 4)?), false)
        }
        _ => return None,
    };
    let carried = total.checked_sub(header)?;
    let mut packet = Packet { protocol, addresses, ports: None, payload: carried as u32, tcp: None };
    if is_fragment {
        return Some(packet);
    }
    let inner = ip.get(header..)?;
    let own = match protocol {
        TCP => {
            let own = usize::from(inner.get(12)? >> 4) * 4;
            let options = inner.get(20..own.min(inner.len())).unwrap_or_default();
            packet.tcp = Some(Segment {
                sequence: word(inner, 4)?,
                acknowledges: word(inner, 8)?,
                flags: *inner.get(13)?,
                window: number(inner, 14)?,
                window_scale: window_scale(options),
            });
            own
        }
        UDP | ICMP | ICMP_OF_6 => 8,
        _ => 0,
    };
    if matches!(protocol, TCP | UDP) {
        packet.ports = Some([number(inner, 0)?, number(inner, 2)?]);
    }
    packet.payload = carried.checked_sub(own)? as u32;
    Some(packet)
}

/// The name of a protocol in a record.
pub(super) fn name(protocol: u8) -> String {
    match protocol {
        TCP => "tcp".into(),
        UDP => "udp".into(),
        ICMP | ICMP_OF_6 => "icmp".into(),
        other => other.to_string(),
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn window_scale(mut options: &[u8]) -> Option<u8> {
    loop {
        options = match *options {
            [END, ..] | [] => return None,
            [PADDING, ref rest @ ..] => rest,
            [WINDOW_SCALE, 3, bits, ..] => return Some(bits.min(14)),
            [_, length, ..] => options.get(usize::from(length).max(2)..)?,
            [_] => return None,
        };
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A frame of TCP from `from` to `to`, which are the last bytes of their addresses, and ports.
    pub fn tcp(from: (u8, u16), to: (u8, u16), segment: Segment, payload: usize) -> Vec<u8> {
        let options: &[u8] = match segment.window_scale {
            Some(bits) => &[2, 4, 5, 0xb4, PADDING, WINDOW_SCALE, 3, bits],
            None => &[],
        };
        let length = 20 + 20 + options.len() + payload;
        let mut frame = vec![0; ETHERNET];
        frame[12..14].copy_from_slice(&IPV4);
        frame.extend([0x45, 0]);
        frame.extend((length as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, from.0, 10, 0, 0, to.0]);
        frame.extend(from.1.to_be_bytes());
        frame.extend(to.1.to_be_bytes());
        frame.extend(segment.sequence.to_be_bytes());
        frame.extend(segment.acknowledges.to_be_bytes());
        frame.extend([(5 + options.len() as u8 / 4) << 4, segment.flags]);
        frame.extend(segment.window.to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(options);
        frame.resize(ETHERNET + length, 7);
        frame
    }

    #[test]
    fn a_segment_is_read_from_its_first_bytes() {
        let segment =
            Segment { sequence: 0xfffffff0, acknowledges: 7, flags: SYN | ACK, window: 501, window_scale: Some(7) };
        let frame = tcp((1, 40_000), (2, 80), segment, 1_000);
        let read = read(&frame[..96]).unwrap();
        assert_eq!(read.tcp, Some(segment));
        assert_eq!((read.ports, read.payload), (Some([40_000, 80]), 1_000));
        assert_eq!(read.addresses, [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])]);
    }

    #[test]
    fn fragments_have_no_ports_and_whatever_contradicts_itself_is_no_packet() {
        let segment = Segment { sequence: 1, acknowledges: 0, flags: ACK, window: 1, window_scale: None };
        let whole = tcp((1, 1), (2, 2), segment, 100);
        let mut fragment = whole.clone();
        fragment[20] = 0x20;
        let read_as = read(&fragment).unwrap();
        assert_eq!((read_as.ports, read_as.tcp, read_as.payload), (None, None, 120));
        let mut padded = whole.clone();
        padded.resize(300, 0);
        assert_eq!(read(&padded).unwrap().payload, 100, "bytes behind the packet are none of it");
        let mut arp = whole.clone();
        arp[13] = 6;
        assert_eq!(read(&arp), None);
        let mut short = whole.clone();
        short[16..18].copy_from_slice(&30u16.to_be_bytes());
        assert_eq!(read(&short), None, "shorter than its headers");
        assert!((0..34).all(|len| read(&whole[..len]).is_none()));
        assert!((34..54).all(|len| read(&whole[..len]).is_none_or(|packet| packet.tcp.is_none() || len >= 50)));
        // Whatever bytes there are, nothing breaks.
        for at in 0..54 {
            for value in [0, 1, 0x4f, 0x60, 0xff] {
                let mut frame = whole.clone();
                frame[at] = value;
                let _ = read(&frame[..96]);
            }
        }
    }
}
