//! Frames: buffers that are used again and again, and what the emulator reads in them.

use scale::RealDuration;

use crate::links::headers::{IPV4, IPV6};
use crate::links::ipv6;
use scale::link::{DEFAULT_MTU, ETHERNET_HEADER as ETHERNET, largest_frame};

/// The length of IPv6's header. What other headers come behind it counts as carried.
const HEADER_OF_6: usize = 40;

/// Groups of the link alone begin so (RFC 4291, section 2.7).
const LINK_LOCAL_GROUPS: [u8; 2] = [0xff, 0x02];

/// The largest frame of a usual link: an IP packet of 1500 bytes and 14 bytes of Ethernet header.
pub const MAX_FRAME: usize = largest_frame(DEFAULT_MTU);

/// An Ethernet frame in a buffer of its own.
#[derive(Debug)]
pub struct Frame {
    buffer: Box<[u8]>,
    len: usize,
    /// Whether it goes where its hardware address says and not its IP address: to a member of the LAN that it was sent
    /// into, or to all. It arrives as it was sent.
    pub(crate) switched: bool,
    /// By how much it has entered pipes later than it should, since others had entered meanwhile.
    pub(crate) pushed: RealDuration,
    /// Whether somebody wants to know of it. It means nothing where nobody observes anything.
    pub(crate) mark: Mark,
}

/// Marks of a frame that is observed: so few bytes that a frame is no longer for them, where nobody observes anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Which of all observed frames it is; 0: nobody observes it.
    pub number: u32,
    /// Whether the node that it entered by only forwards it.
    pub is_forwarded: bool,
    /// Whether the port that it goes to is of the node that it is for.
    pub ends: bool,
    /// Whether a link made it, as a copy of another.
    pub is_copy: bool,
}

impl Frame {
    fn new(capacity: usize) -> Self {
        let (pushed, mark) = (RealDuration::ZERO, Mark::default());
        Frame { buffer: vec![0; capacity].into(), len: 0, switched: false, pushed, mark }
    }

    /// The whole buffer, to read a frame into; call [`Frame::set_len`] after.
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.buffer[..]
    }

    /// How many bytes of [`Frame::space`] are the frame; more than there is room for counts as full.
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(self.buffer.len());
    }

    /// The frame's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// Its length in bytes: what a pipe charges, and what tcpdump prints.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the frame holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn set_destination_mac(&mut self, mac: [u8; 6]) {
        self.buffer[..6].copy_from_slice(&mac);
    }

    pub(crate) fn set_source_mac(&mut self, mac: [u8; 6]) {
        self.buffer[6..12].copy_from_slice(&mac);
    }

    /// The hardware address that the frame says it comes from, if it is long enough to say so.
    pub(crate) fn source_mac(&self) -> Option<[u8; 6]> {
        self.bytes().get(6..12)?.first_chunk().copied()
    }

    /// Flips one bit, chosen by `which`, of what the frame's IP packet carries: the checksum of its transport protocol
    /// then fails. False if it carries nothing: a damaged IP header would be believed by the pipes and switches that
    /// the frame still has to pass.
    pub(crate) fn flip_bit(&mut self, which: u64) -> bool {
        let Some((header, total)) = self.packet() else { return false };
        if header >= total {
            return false;
        }
        let bit = which % ((total - header) as u64 * 8);
        self.buffer[ETHERNET + header + (bit / 8) as usize] ^= 1 << (bit % 8);
        // Whose it is can no longer be told by its headers.
        self.mark.number = 0;
        true
    }

    /// How long the IP header is by its own words, and how long the packet, of which no more than there is.
    fn packet(&self) -> Option<(usize, usize)> {
        let ip = self.bytes().get(ETHERNET..)?;
        let length = |at: usize| Some(usize::from(u16::from_be_bytes(*ip.get(at..)?.first_chunk()?)));
        let (header, total) = match self.protocol()? {
            IPV6 => (HEADER_OF_6, HEADER_OF_6 + length(4)?),
            _ => (usize::from(ip.first()? & 0x0f) * 4, length(2)?),
        };
        Some((header, total.min(ip.len())))
    }

    /// The protocol that the frame says it carries.
    fn protocol(&self) -> Option<[u8; 2]> {
        self.bytes().get(12..ETHERNET)?.first_chunk().copied()
    }

    /// The hardware address that the frame is for.
    pub(crate) fn destination_mac(&self) -> Result<[u8; 6], Refused> {
        self.bytes().get(..ETHERNET).and_then(|head| head.first_chunk()).copied().ok_or(Refused::Malformed)
    }

    /// The IPv4 address that the frame is for, or that whose [twin](ipv6) it is for.
    ///
    /// A node may send any bytes at all, so nothing is believed that has not been looked at.
    pub(crate) fn destination(&self) -> Result<[u8; 4], Refused> {
        match self.protocol().ok_or(Refused::Malformed)? {
            IPV4 => self.destination_of_4(),
            IPV6 => self.destination_of_6(),
            _ => Err(Refused::Unroutable),
        }
    }

    fn destination_of_4(&self) -> Result<[u8; 4], Refused> {
        let ip = &self.bytes()[ETHERNET..];
        if ip.len() < 20 {
            return Err(Refused::Malformed);
        }
        let header = usize::from(ip[0] & 0x0f) * 4;
        let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        if ip[0] >> 4 != 4 || header < 20 || total < header || total > ip.len() {
            return Err(Refused::Malformed);
        }
        Ok([ip[16], ip[17], ip[18], ip[19]])
    }

    fn destination_of_6(&self) -> Result<[u8; 4], Refused> {
        let ip = &self.bytes()[ETHERNET..];
        let (Some(length), Some(to)) = (ip.get(4..6), ip.get(24..HEADER_OF_6)) else { return Err(Refused::Malformed) };
        let total = HEADER_OF_6 + usize::from(u16::from_be_bytes([length[0], length[1]]));
        if ip[0] >> 4 != 6 || total > ip.len() {
            return Err(Refused::Malformed);
        }
        if to.starts_with(&LINK_LOCAL_GROUPS) {
            return Err(Refused::Unheard);
        }
        to.first_chunk().and_then(ipv6::of_twin).ok_or(Refused::Unroutable)
    }

    /// Whether it carries an IP packet, of either version.
    pub(crate) fn carries_packet(&self) -> bool {
        matches!(self.protocol(), Some(IPV4 | IPV6))
    }

    /// The IPv4 address that the frame says it comes from, or that whose twin it does. Only for a frame that has a
    /// destination.
    pub(crate) fn source(&self) -> Option<[u8; 4]> {
        let ip = self.bytes().get(ETHERNET..)?;
        match self.protocol()? {
            IPV6 => ipv6::of_twin(ip.get(8..24)?.first_chunk()?),
            _ => ip.get(12..16)?.first_chunk().copied(),
        }
    }
}

/// Why a frame goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Too short, or an IP header that contradicts itself.
    Malformed,
    /// Not IP, or for an address that no port has.
    Unroutable,
    /// For a group of IPv6 on the link alone: kernels say by themselves which of these they are in.
    Unheard,
}

/// Buffers that are not in use; once the network has warmed up, no packet allocates.
#[derive(Debug)]
pub(crate) struct Pool {
    free: Vec<Frame>,
    capacity: usize,
}

impl Default for Pool {
    fn default() -> Self {
        Pool::of(DEFAULT_MTU)
    }
}

impl Pool {
    /// Buffers for a network with this MTU at most. There is room for more, so that a frame that is too long is seen to
    /// be so.
    pub fn of(mtu: u16) -> Pool {
        Pool { free: Vec::new(), capacity: (largest_frame(mtu) + 1).next_multiple_of(64) }
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    pub fn take(&mut self) -> Frame {
        self.free.pop().unwrap_or_else(|| Frame::new(self.capacity))
    }

    /// A frame like `original`.
    pub fn copy(&mut self, original: &Frame) -> Frame {
        let mut copy = self.take();
        copy.buffer[..original.len].copy_from_slice(original.bytes());
        copy.len = original.len;
        copy.switched = original.switched;
        copy.pushed = original.pushed;
        copy.mark = original.mark;
        copy
    }

    pub fn give(&mut self, mut frame: Frame) {
        frame.len = 0;
        frame.switched = false;
        frame.pushed = RealDuration::ZERO;
        self.free.push(frame);
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.free.len()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::links::headers::ARP;
    use crate::links::pipe::draws::{Draws, Purpose};
    use std::net::Ipv4Addr;

    /// An IPv4 frame of `len` bytes for `to`, marked with `mark`.
    pub fn ipv4(len: usize, to: Ipv4Addr, mark: u8) -> Frame {
        let mut frame = Frame::new(len.max(1536));
        let b = frame.space();
        b[12..14].copy_from_slice(&IPV4);
        b[14] = 0x45;
        b[16..18].copy_from_slice(&((len - ETHERNET) as u16).to_be_bytes());
        b[30..34].copy_from_slice(&to.octets());
        b[33 + 1] = mark;
        frame.set_len(len);
        frame
    }

    /// An IPv6 frame of `len` bytes for the twin of `to`, marked with `mark`.
    pub fn ipv6(len: usize, to: Ipv4Addr, mark: u8) -> Frame {
        let mut frame = Frame::new(len.max(1536));
        let b = frame.space();
        b[12..14].copy_from_slice(&IPV6);
        b[14] = 0x60;
        b[18..20].copy_from_slice(&((len - ETHERNET - HEADER_OF_6) as u16).to_be_bytes());
        b[38..54].copy_from_slice(&ipv6::twin(to).octets());
        b[54] = mark;
        frame.set_len(len);
        frame
    }

    fn changed_6(edit: impl FnOnce(&mut Frame)) -> Result<[u8; 4], Refused> {
        let mut frame = ipv6(100, Ipv4Addr::new(10, 0, 0, 3), 0);
        edit(&mut frame);
        frame.destination()
    }

    #[test]
    fn a_frame_of_ipv6_names_the_address_of_its_twin() {
        assert_eq!(changed_6(|_| ()), Ok([10, 0, 0, 3]));
        assert_eq!(changed_6(|f| f.space()[18..20].copy_from_slice(&[0, 0])), Ok([10, 0, 0, 3]));
        for len in [15, 19, 53, 99] {
            assert_eq!(changed_6(|f| f.set_len(len)), Err(Refused::Malformed), "length {len}");
        }
        assert_eq!(changed_6(|f| f.space()[14] = 0x45), Err(Refused::Malformed));
        assert_eq!(changed_6(|f| f.space()[18] = 1), Err(Refused::Malformed));
        // Groups of the link, other groups, and addresses of its own choice.
        assert_eq!(changed_6(|f| f.space()[38..40].copy_from_slice(&[0xff, 2])), Err(Refused::Unheard));
        assert_eq!(changed_6(|f| f.space()[38..40].copy_from_slice(&[0xff, 5])), Err(Refused::Unroutable));
        assert_eq!(changed_6(|f| f.space()[49] = 1), Err(Refused::Unroutable));
    }

    #[test]
    fn the_header_of_ipv6_stays_whole_and_all_behind_it_can_be_hit() {
        let original = ipv6(70, Ipv4Addr::new(10, 0, 0, 3), 7);
        let mut flipped = [0u8; 70];
        for which in 0..(70 - 54) * 8 {
            let mut frame = Pool::default().copy(&original);
            assert!(frame.flip_bit(which));
            let changed: Vec<usize> = (0..70).filter(|i| frame.bytes()[*i] != original.bytes()[*i]).collect();
            let [at] = changed[..] else { panic!("{changed:?}") };
            flipped[at] |= frame.bytes()[at] ^ original.bytes()[at];
        }
        assert!(flipped[..54].iter().all(|f| *f == 0) && flipped[54..].iter().all(|f| *f == 0xff));
        assert!((0..500).all(|which| !ipv6(54, Ipv4Addr::new(10, 0, 0, 3), 0).flip_bit(which)));
    }

    fn changed(edit: impl FnOnce(&mut Frame)) -> Result<[u8; 4], Refused> {
        let mut frame = ipv4(100, Ipv4Addr::new(10, 0, 0, 3), 0);
        edit(&mut frame);
        frame.destination()
    }

    #[test]
    fn a_good_frame_names_its_address() {
        assert_eq!(changed(|_| ()), Ok([10, 0, 0, 3]));
        // Bytes after the IP packet (a padded frame) are carried, not a fault.
        assert_eq!(changed(|f| f.space()[16..18].copy_from_slice(&[0, 60])), Ok([10, 0, 0, 3]));
    }

    #[test]
    fn anything_else_is_refused_with_its_reason() {
        for len in [0, 1, 13, 14, 33] {
            assert_eq!(changed(|f| f.set_len(len)), Err(Refused::Malformed), "length {len}");
        }
        for (at, byte) in [(14, 0x65), (14, 0x44), (14, 0x4f), (16, 0xff), (17, 19)] {
            let cut = if byte == 0x4f { 40 } else { 100 };
            let got = changed(|f| {
                f.space()[at] = byte;
                f.set_len(cut);
            });
            assert_eq!(got, Err(Refused::Malformed), "byte {at} = {byte:#x}");
        }
        for kind in [ARP, [0x81, 0x00], [0, 46]] {
            assert_eq!(changed(|f| f.space()[12..14].copy_from_slice(&kind)), Err(Refused::Unroutable), "{kind:x?}");
        }
    }

    #[test]
    fn every_bit_that_the_packet_carries_can_be_flipped_and_no_other() {
        let original = ipv4(60, Ipv4Addr::new(10, 0, 0, 3), 7);
        let mut flipped = [0u8; 60];
        for which in 0..(60 - 34) * 8 {
            let mut frame = Pool::default().copy(&original);
            // A padded frame: what lies behind the IP packet is not part of it.
            frame.set_len(70);
            assert!(frame.flip_bit(which));
            let changed: Vec<usize> = (0..60).filter(|i| frame.bytes()[*i] != original.bytes()[*i]).collect();
            let [at] = changed[..] else { panic!("{changed:?}") };
            flipped[at] |= frame.bytes()[at] ^ original.bytes()[at];
        }
        assert!(flipped[..34].iter().all(|f| *f == 0) && flipped[34..].iter().all(|f| *f == 0xff));
    }

    #[test]
    fn a_packet_that_carries_nothing_stays_whole() {
        for len in [34, 35, 60] {
            let mut empty = ipv4(len, Ipv4Addr::new(10, 0, 0, 3), 0);
            // Bytes behind the IP packet (a padded frame) are none of it.
            empty.space()[16..18].copy_from_slice(&20u16.to_be_bytes());
            let before = empty.bytes().to_vec();
            assert!((0..500).all(|which| !empty.flip_bit(which)), "length {len}");
            assert_eq!(empty.bytes(), before);
        }
    }

    #[test]
    fn whatever_the_header_says_at_most_one_bit_behind_it_is_flipped() {
        let draws = Draws::new(1, "any bytes");
        let mut flipped = 0;
        for n in 0..100_000u64 {
            let random = |at: u64| draws.bits(Purpose::Bit, 16 * n + at).to_le_bytes();
            let mut frame = Frame::new(256);
            (0..8).for_each(|at| frame.space()[8 * at..][..8].copy_from_slice(&random(at as u64)));
            if n % 2 == 0 {
                // Nearly a frame for somebody: the lengths in its header are short, and some are right.
                frame.space()[12..15].copy_from_slice(&[0x08, 0x00, 0x45 + random(8)[0] % 4]);
                frame.space()[16] = 0;
                frame.space()[30..33].copy_from_slice(&[10, 0, 0]);
            }
            frame.set_len(usize::from(random(8)[1] % 65));
            let before = frame.buffer.clone();
            let destination = frame.destination();
            let hit = frame.flip_bit(u64::from_le_bytes(random(9)));
            let changed: u32 = frame.buffer.iter().zip(&before).map(|(a, b)| (a ^ b).count_ones()).sum();
            assert_eq!(changed, u32::from(hit), "{before:?}");
            let behind = ETHERNET + usize::from(before[14] & 0x0f) * 4..frame.len();
            assert!((0..256).all(|at| frame.buffer[at] == before[at] || behind.contains(&at)), "{before:?}");
            if destination.is_ok() {
                assert_eq!(frame.destination(), destination, "{before:?}");
            }
            flipped += changed;
        }
        assert!(flipped > 10_000, "{flipped}");
    }
}
