//! A node's clock at the instant when a frame was sent: a program in the kernel writes it into the frame, in the place
//! of the source's hardware address, which the network knows without it.
//!
//! Its lowest 47 bits in units of 16 ns, with one bit between the first seven and the others: the one that says that an
//! address is a group's, which a source never is.

use scale::{RealDuration, RealInstant};

use crate::links::frame::Frame;

/// A unit is 2^4 ns.
const UNIT_BITS: u32 = 4;
const BITS: u32 = 47;
/// No clock is further from the run's, real time: whatever says so was written by somebody else.
const FURTHEST: RealDuration = RealDuration::from_nanos(10_000_000_000);

/// The instant that a frame read at `now` bears, if it bears one; the hardware address `mac` of the interface that it
/// left by is then put back in its place.
pub(crate) fn take(frame: &mut Frame, mac: [u8; 6], now: RealInstant) -> Option<RealInstant> {
    let source = frame.source_mac()?;
    if source[0] & 1 == 0 {
        return None;
    }
    let [first, rest @ ..] = source;
    let low = rest.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    let instant = nearest(u64::from(first >> 1) << 40 | low, now);
    if instant.since(now).max(now.since(instant)) > FURTHEST {
        return None;
    }
    frame.set_source_mac(mac);
    Some(instant)
}

/// The instant nearest to `now` that has these lowest bits, in units.
fn nearest(low: u64, now: RealInstant) -> RealInstant {
    let units = now.as_nanos() >> UNIT_BITS;
    // The difference with its sign: its bits moved to the top and back.
    let ahead = (low.wrapping_sub(units) << (64 - BITS)) as i64 >> (64 - BITS);
    RealInstant::from_nanos(units.saturating_add_signed(ahead) << UNIT_BITS)
}

/// Writes what a node's clock shows into a frame, as the program in the kernel does.
#[cfg(test)]
pub(crate) fn put(frame: &mut Frame, clock: RealInstant) {
    let value = (clock.as_nanos() >> UNIT_BITS) & ((1 << BITS) - 1);
    let [_, _, _, low @ ..] = value.to_be_bytes();
    frame.set_source_mac([(((value >> 40) << 1) | 1) as u8, low[0], low[1], low[2], low[3], low[4]]);
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::links::frame::tests::{ipv4, ipv6};

    const MAC: [u8; 6] = [2, 0, 10, 0, 0, 1];

    fn at(ns: u64) -> RealInstant {
        RealInstant::from_nanos(ns)
    }

    #[test]
    fn a_stamp_is_taken_out_whatever_the_run_s_clock_shows_by_then() {
        let wrap = 1u64 << (BITS + UNIT_BITS);
        let days = 86_400_000_000_000;
        for sent in [0, 16, 1_000_000_000, 30 * days, wrap - 16, wrap, wrap + 32, 5 * wrap - 160, u64::MAX / 32 * 16] {
            for read in [sent, sent.saturating_sub(9_999_999_999), sent + 9_999_999_999, sent.saturating_sub(1)] {
                let mut frame = ipv4(100, Ipv4Addr::new(10, 0, 0, 2), 7);
                let before = frame.bytes().to_vec();
                put(&mut frame, at(sent));
                assert_eq!(take(&mut frame, MAC, at(read)), Some(at(sent)), "{sent} read at {read}");
                assert_eq!(frame.source_mac(), Some(MAC));
                assert_eq!((&frame.bytes()[..6], &frame.bytes()[12..]), (&before[..6], &before[12..]));
            }
        }
    }

    #[test]
    fn an_instant_is_known_to_16_ns_and_never_later_than_it_was() {
        for sent in 5_000_000_000..5_000_000_100 {
            let mut frame = ipv6(100, Ipv4Addr::new(10, 0, 0, 2), 7);
            put(&mut frame, at(sent));
            assert_eq!(take(&mut frame, MAC, at(sent)), Some(at(sent / 16 * 16)));
        }
    }

    #[test]
    fn frames_without_one_stay_as_they_are() {
        let now = at(1 << 40);
        for source in [MAC, [0; 6], [0xfe; 6]] {
            let mut frame = ipv4(100, Ipv4Addr::new(10, 0, 0, 2), 7);
            frame.set_source_mac(source);
            assert_eq!(take(&mut frame, [9; 6], now), None);
            assert_eq!(frame.source_mac(), Some(source));
        }
        let mut short = ipv4(100, Ipv4Addr::new(10, 0, 0, 2), 7);
        short.set_source_mac([0xff; 6]);
        short.set_len(11);
        assert_eq!(take(&mut short, MAC, now), None);
        // A group's address that some program wrote: no clock was ever so far off.
        for far in [(1 << 40) + 10_000_000_016, (1 << 40) - 10_000_000_016] {
            let mut forged = ipv4(100, Ipv4Addr::new(10, 0, 0, 2), 7);
            put(&mut forged, at(far));
            let source = forged.source_mac();
            assert_eq!((take(&mut forged, MAC, now), forged.source_mac()), (None, source));
        }
    }
}
