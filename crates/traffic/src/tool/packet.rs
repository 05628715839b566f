//! Header of a packet of traffic.

use std::time::{SystemTime, UNIX_EPOCH};

/// How long that is, in bytes.
pub(crate) const HEADER: usize = 16;

const LAST: u16 = 1 << 15;

/// The beginning of a packet; what follows is of no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Which life of the source it is of: 15 bits.
    pub life: u16,
    /// Whether the source sends no more.
    pub last: bool,
    /// All of it, in bytes.
    pub length: u16,
    /// Its number in that life, from 0 on.
    pub number: u32,
    /// When it was sent, in ns since 1970.
    pub sent: u64,
}

impl Packet {
    pub fn write(&self, to: &mut [u8]) {
        let life = self.life & !LAST | if self.last { LAST } else { 0 };
        to[..2].copy_from_slice(&life.to_be_bytes());
        to[2..4].copy_from_slice(&self.length.to_be_bytes());
        to[4..8].copy_from_slice(&self.number.to_be_bytes());
        to[8..16].copy_from_slice(&self.sent.to_be_bytes());
    }

    /// None if these are too few bytes to be one.
    pub fn read(from: &[u8]) -> Option<Packet> {
        let (life, rest) = from.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (sent, _) = rest.split_first_chunk()?;
        let life = u16::from_be_bytes(*life);
        Some(Packet {
            life: life & !LAST,
            last: life & LAST != 0,
            length: u16::from_be_bytes(*length),
            number: u32::from_be_bytes(*number),
            sent: u64::from_be_bytes(*sent),
        })
    }
}

/// The date, in ns since 1970.
pub(super) fn date() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// A number for a life that begins now: another than for those before and after it.
pub(super) fn life() -> u16 {
    (date() >> 20) as u16 & !LAST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_as_written() {
        let packet = Packet { life: 0x7abc, last: true, length: 65507, number: 0xdead_beef, sent: 1 << 60 };
        let mut bytes = [0xff; 20];
        packet.write(&mut bytes);
        assert_eq!(Packet::read(&bytes), Some(packet));
        let other = Packet { last: false, ..packet };
        other.write(&mut bytes);
        assert_eq!(Packet::read(&bytes), Some(other));
        assert_eq!(Packet::read(&bytes[..HEADER - 1]), None);
    }
}
