//! Numbers of protocols as frames bear them, and the checksum of Internet headers.

/// Types of a frame (EtherType), as its bytes say them.
pub(crate) const IPV4: [u8; 2] = [0x08, 0x00];
pub(crate) const ARP: [u8; 2] = [0x08, 0x06];
pub(crate) const IPV6: [u8; 2] = [0x86, 0xdd];

/// Protocols of an IP packet.
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// Flags of a TCP segment.
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const ACK: u8 = 0x10;

/// The checksum of words of 16 bits (RFC 1071), begun with the sum `start`.
pub(crate) fn checksum(bytes: &[u8], start: u32) -> [u8; 2] {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
    (!folded(start + words.sum::<u32>())).to_be_bytes()
}

/// A sum of words of 16 bits as one of them, with what was carried added again.
pub(crate) fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
