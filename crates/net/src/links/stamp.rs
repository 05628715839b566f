//! A node's clock at the instant when a frame was sent: a program in the kernel writes it into the frame, in the place
//! of the source's hardware address, which the network knows without it.
//!
//! Its lowest 46 bits in units of 16 ns, with one bit between the first seven and the others: the one that says that an
//! address is a group's, which a source never is. The highest of the seven says that it is none: behind the place
//! where that is written, nodes may have queues of their own that hold frames back (tc), by real time. Written there
//! instead is how far the node was ahead of the run's clock; a frame is sent as much later than it leaves the queue.

use scale::{RealDuration, RealInstant};

use crate::links::frame::Frame;

/// A unit is 2^4 ns.
const UNIT_BITS: u32 = 4;
const BITS: u32 = 46;
/// No clock is further from the run's, real time: whatever says so was written by somebody else.
const FURTHEST: RealDuration = RealDuration::from_nanos(10_000_000_000);

/// When a frame was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// By its node's clock, just before it was read.
    At(RealInstant),
    /// By a queue of its node's, which held it back.
    Queued(RealInstant),
}

/// When a frame read at `now` was sent, if it bears that; the hardware address `mac` of the interface that it left by
/// is then put back in its place.
pub(crate) fn take(frame: &mut Frame, mac: [u8; 6], now: RealInstant) -> Option<Sent> {
    let source = frame.source_mac()?;
    if source[0] & 1 == 0 {
        return None;
    }
    let [first, rest @ ..] = source;
    let low = rest.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    let value = u64::from(first >> 1) << 40 | low;
    let is_lead = value >> BITS == 1;
    let instant = if is_lead { later(now, signed(value)) } else { nearest(value, now) };
    if instant.since(now).max(now.since(instant)) > FURTHEST {
        return None;
    }
    frame.set_source_mac(mac);
    Some(if is_lead { Sent::Queued(instant) } else { Sent::At(instant) })
}

/// The instant nearest to `now` that has these lowest bits, in units.
fn nearest(low: u64, now: RealInstant) -> RealInstant {
    let units = now.as_nanos() >> UNIT_BITS;
    RealInstant::from_nanos(units.saturating_add_signed(signed(low.wrapping_sub(units))) << UNIT_BITS)
}

/// The lowest bits with their sign: moved to the top and back.
fn signed(value: u64) -> i64 {
    (value << (64 - BITS)) as i64 >> (64 - BITS)
}

/// The instant so many units after `now`.
fn later(now: RealInstant, units: i64) -> RealInstant {
    RealInstant::from_nanos(now.as_nanos().saturating_add_signed(units << UNIT_BITS))
}

/// Writes what a node's clock shows into a frame, as the program in the kernel does.
#[cfg(test)]
pub(crate) fn put(frame: &mut Frame, clock: RealInstant) {
    write(frame, (clock.as_nanos() >> UNIT_BITS) & ((1 << BITS) - 1));
}

/// Writes how far a node was ahead, as the program does where nodes have queues.
#[cfg(test)]
pub(crate) fn put_lead(frame: &mut Frame, ns: i64) {
    write(frame, ((ns >> UNIT_BITS) as u64 & ((1 << BITS) - 1)) | 1 << BITS);
}

#[cfg(test)]
fn write(frame: &mut Frame, value: u64) {
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
                assert_eq!(take(&mut frame, MAC, at(read)), Some(Sent::At(at(sent))), "{sent} read at {read}");
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
            assert_eq!(take(&mut frame, MAC, at(sent)), Some(Sent::At(at(sent / 16 * 16))));
        }
    }

    #[test]
    fn what_a_queue_has_held_back_is_sent_as_much_later_as_its_node_was_ahead() {
        for (lead, now) in [(14_000_000, 1u64 << 60), (-14_000_000, 1 << 52), (0, 1 << 52), (-16, 16)] {
            let mut frame = ipv4(100, Ipv4Addr::new(10, 0, 0, 2), 7);
            put_lead(&mut frame, lead);
            let sent = now.checked_add_signed(lead).unwrap();
            assert_eq!(take(&mut frame, MAC, at(now)), Some(Sent::Queued(at(sent))), "{lead} at {now}");
            assert_eq!(frame.source_mac(), Some(MAC));
        }
        let mut forged = ipv4(100, Ipv4Addr::new(10, 0, 0, 2), 7);
        put_lead(&mut forged, 10_000_000_016);
        assert_eq!(take(&mut forged, MAC, at(1 << 52)), None);
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
