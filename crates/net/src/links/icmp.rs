//! Answers of a node's kernel to who asks it for the time by ICMP (RFC 792): it knows the host's date only, so that is
//! replaced by the date that the node's clocks show.

use crate::links::frame::Frame;
use crate::links::headers::{ICMP, IPV4, folded};
use scale::link::ETHERNET_HEADER as ETHERNET;

const TIMESTAMP_REPLY: u8 = 14;
/// Type, code, checksum, identifier, number, and three times: when it was asked, when that came, when this left.
const LENGTH: usize = 20;
const CHECKSUM: usize = 2;
const TIMES: [usize; 2] = [12, 16];

const DAY_MS: u64 = 86_400_000;
/// An answer that is further from the host's date was made by a program, which knows the node's.
const NEAR_MS: u64 = 5_000;

/// Milliseconds since midnight UTC, of a date in ns since 1970.
fn of_day(unix_ns: u64) -> u64 {
    unix_ns / 1_000_000 % DAY_MS
}

/// Where in a frame such an answer begins.
fn timestamp_reply(frame: &[u8]) -> Option<usize> {
    // Nearly every frame is something else, and that is seen by the first two of these.
    let of_ip = frame.get(12..14)? == IPV4 && *frame.get(ETHERNET + 9)? == ICMP;
    let at = ETHERNET + 4 * usize::from(frame.get(ETHERNET)? & 0xf);
    // The first piece of a packet, or all of it: later ones have no header.
    let first = of_ip && frame[ETHERNET + 6] & 0x1f == 0 && frame[ETHERNET + 7] == 0;
    (first && *frame.get(at)? == TIMESTAMP_REPLY && frame.len() >= at + LENGTH).then_some(at)
}

/// If `frame` is a kernel's answer, made at the host's date `host`, it says `shown` from now on. Both in ns since 1970.
pub(crate) fn show_date(frame: &mut Frame, dates: impl FnOnce() -> (u64, u64)) {
    let Some(at) = timestamp_reply(frame.bytes()) else { return };
    let (host, shown) = dates();
    let (host, shown) = (of_day(host), of_day(shown));
    let bytes = frame.space();
    let mut sum = !u32::from(u16::from_be_bytes([bytes[at + CHECKSUM], bytes[at + CHECKSUM + 1]])) & 0xffff;
    for time in TIMES {
        let place = at + time..at + time + 4;
        let Ok(old) = <[u8; 4]>::try_from(&bytes[place.clone()]) else { return };
        let said = u64::from(u32::from_be_bytes(old));
        let apart = said.abs_diff(host);
        if apart.min(DAY_MS.saturating_sub(apart)) > NEAR_MS {
            return;
        }
        // The date of the node's clocks is behind the host's by as much as it was then.
        let new = ((shown + said + DAY_MS - host) % DAY_MS) as u32;
        // RFC 1624: the checksum goes along with what has changed.
        for (old, new) in old.chunks(2).zip(new.to_be_bytes().chunks(2)) {
            let word = |pair: &[u8]| u32::from(u16::from_be_bytes([pair[0], pair[1]]));
            sum += (!word(old) & 0xffff) + word(new);
        }
        bytes[place].copy_from_slice(&new.to_be_bytes());
    }
    bytes[at + CHECKSUM..][..2].copy_from_slice(&(!folded(sum)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::frame::Pool;
    use crate::links::headers::checksum;

    fn frame(bytes: &[u8]) -> Frame {
        let mut frame = Pool::default().take();
        frame.space()[..bytes.len()].copy_from_slice(bytes);
        frame.set_len(bytes.len());
        frame
    }

    /// An answer that says `ms` twice, with a right checksum.
    fn answer(kind: u8, ms: u32) -> Frame {
        let mut bytes = vec![0; ETHERNET + 20 + LENGTH];
        bytes[12..14].copy_from_slice(&IPV4);
        bytes[ETHERNET] = 0x45;
        bytes[ETHERNET + 9] = ICMP;
        let at = ETHERNET + 20;
        bytes[at] = kind;
        bytes[at + 8..at + 12].copy_from_slice(&77u32.to_be_bytes());
        for time in TIMES {
            bytes[at + time..][..4].copy_from_slice(&ms.to_be_bytes());
        }
        let check = checksum(&bytes[at..], 0);
        bytes[at + CHECKSUM..][..2].copy_from_slice(&check);
        frame(&bytes)
    }

    fn times(frame: &Frame) -> [u32; 3] {
        [8, TIMES[0], TIMES[1]].map(|t| {
            let at = ETHERNET + 20 + t;
            u32::from_be_bytes(frame.bytes()[at..at + 4].try_into().unwrap())
        })
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn a_kernels_answer_says_the_nodes_date() {
        let mut frame = answer(TIMESTAMP_REPLY, 50_000_000);
        // It is read 3 ms after it was made, 40 s later than the node's clocks show.
        show_date(&mut frame, || (50_000_003 * MS, 49_960_003 * MS));
        assert_eq!(times(&frame), [77, 49_960_000, 49_960_000]);
        assert_eq!(checksum(&frame.bytes()[ETHERNET + 20..], 0), [0, 0], "the checksum is right");
        let mut midnight = answer(TIMESTAMP_REPLY, DAY_MS as u32 - 1);
        show_date(&mut midnight, || (2 * DAY_MS * MS, (2 * DAY_MS - 100) * MS));
        assert_eq!(times(&midnight)[1], DAY_MS as u32 - 101);
    }

    #[test]
    fn nothing_else_is_touched() {
        for (kind, ms) in [(TIMESTAMP_REPLY, 10_000_000), (13, 50_000_000), (0, 50_000_000)] {
            let mut frame = answer(kind, ms);
            show_date(&mut frame, || (50_000_003 * MS, 49_960_003 * MS));
            assert_eq!(times(&frame), [77, ms, ms], "type {kind}");
        }
        for len in 0..ETHERNET + 20 + LENGTH {
            let whole = answer(TIMESTAMP_REPLY, 50_000_000);
            let mut cut = frame(&whole.bytes()[..len]);
            show_date(&mut cut, || unreachable!("{len} bytes are not all of it"));
        }
    }
}
