//! The stream of bytes that one end of a TCP connection sends: what of it was sent again, came twice, and how long
//! acknowledgements took.

use std::collections::VecDeque;

use scale::{VirtualDuration, VirtualInstant};

use super::headers::{ACK, FIN, RST, SYN, Segment};

/// How many segments that wait for their acknowledgement are remembered; others give no sample.
const MOST_WAITING: usize = 1024;
/// How many pieces that came before what is missing between them are remembered.
const MOST_PIECES: usize = 128;

/// A segment's place in the stream, when it entered the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// Whether it has a place in the stream.
    pub counts: bool,
    /// Whether some of it had been sent before.
    pub again: bool,
    /// How many bytes of data had.
    pub bytes_again: u32,
}

/// The bytes that one end has sent, and the other has received of them.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Behind the last byte that was sent.
    end: Option<u32>,
    waiting: VecDeque<Waiting>,
    /// Behind the last byte up to which all has come.
    received: Option<u32>,
    /// Pieces that have come behind that, in order, apart from one another.
    pieces: Vec<[u32; 2]>,
    /// The scale of its windows, as its SYN says.
    window_scale: Option<Option<u8>>,
    /// Whether it has ended.
    pub ended: bool,
}

/// A segment that has not been acknowledged.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    start: u32,
    end: u32,
    sent: VirtualInstant,
    /// Whether it was sent more than once: nobody knows which of them is acknowledged (Karn and Partridge 1987).
    again: bool,
}

impl Stream {
    /// A segment of it entered the network.
    pub fn sent(&mut self, segment: &Segment, payload: u32, at: VirtualInstant) -> Sent {
        let (start, length) = (segment.sequence, taken(segment, payload));
        self.ended |= segment.has(FIN | RST);
        if segment.has(SYN) {
            self.window_scale = Some(segment.window_scale);
            self.received.get_or_insert(start);
        }
        if length == 0 {
            return Sent::default();
        }
        let end = start.wrapping_add(length);
        let before = self.end.filter(|known| is_after(*known, start));
        if self.end.is_none_or(|known| is_after(end, known)) {
            self.end = Some(end);
        }
        if let Some(before) = before {
            let again = before.wrapping_sub(start).min(length);
            for waiting in &mut self.waiting {
                waiting.again |= is_after(waiting.end, start) && is_after(end, waiting.start);
            }
            return Sent { counts: true, again: true, bytes_again: again.min(payload) };
        }
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(Waiting { start, end, sent: at, again: false });
        }
        Sent { counts: true, ..Sent::default() }
    }

    /// A segment of it arrived; whether all that it takes up in the stream had come before.
    pub fn arrived(&mut self, segment: &Segment, payload: u32) -> bool {
        let length = taken(segment, payload);
        let (start, end) = (segment.sequence, segment.sequence.wrapping_add(length));
        let received = *self.received.get_or_insert(start);
        if length == 0 {
            return false;
        }
        let covers = |piece: &[u32; 2]| !is_after(piece[0], start) && !is_after(end, piece[1]);
        if !is_after(end, received) || self.pieces.iter().any(covers) {
            return true;
        }
        let mut piece = [start, end];
        self.pieces.retain(|other| {
            let apart = is_after(other[0], piece[1]) || is_after(piece[0], other[1]);
            if !apart {
                piece[0] = if is_after(piece[0], other[0]) { other[0] } else { piece[0] };
                piece[1] = if is_after(other[1], piece[1]) { other[1] } else { piece[1] };
            }
            apart
        });
        if !is_after(piece[0], received) {
            self.received = Some(piece[1]);
        } else if self.pieces.len() < MOST_PIECES {
            let at = self.pieces.partition_point(|other| is_after(piece[0], other[0]));
            self.pieces.insert(at, piece);
        }
        false
    }

    /// A segment of the other end arrived at this one: a sample of the round-trip time, if it is the first that
    /// acknowledges exactly up to the end of a segment, and nothing of what it acknowledges was sent twice.
    pub fn acknowledged(&mut self, segment: &Segment, at: VirtualInstant) -> Option<VirtualDuration> {
        if !segment.has(ACK) {
            return None;
        }
        let (mut last, mut again) = (None, false);
        while let Some(first) = self.waiting.front().copied().filter(|w| !is_after(w.end, segment.acknowledges)) {
            self.waiting.pop_front();
            again |= first.again;
            last = Some(first);
        }
        let last = last.filter(|last| !again && last.end == segment.acknowledges)?;
        Some(at.since(last.sent))
    }

    /// The window that a segment of this end offers, in bytes; `None` if its scale is not known, or it offers none.
    pub fn window(&self, other: &Stream, segment: &Segment) -> Option<u64> {
        if !segment.has(ACK) || segment.has(SYN | RST) {
            return None;
        }
        // Scales count only where both ends have said one.
        let bits = match (self.window_scale?, other.window_scale?) {
            (Some(bits), Some(_)) => bits,
            _ => 0,
        };
        Some(u64::from(segment.window) << bits)
    }

    /// Whether a segment opens a connection anew, after an earlier one between the same ports.
    pub fn opens_anew(&self, segment: &Segment) -> bool {
        segment.has(SYN) && self.end.is_some() && self.ended
    }
}

/// How many numbers of the stream a segment takes up.
fn taken(segment: &Segment, payload: u32) -> u32 {
    payload + u32::from(segment.has(SYN)) + u32::from(segment.has(FIN))
}

/// Whether one number of a stream is behind another.
fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(sequence: u32, flags: u8, acknowledges: u32) -> Segment {
        Segment { sequence, acknowledges, flags, window: 500, window_scale: None }
    }

    fn at(ms: u64) -> VirtualInstant {
        VirtualInstant::from_nanos(ms * 1_000_000)
    }

    const FRESH: Sent = Sent { counts: true, again: false, bytes_again: 0 };

    /// A stream of which a SYN has been sent and has come; numbers wrap soon.
    fn opened() -> Stream {
        let mut stream = Stream::default();
        let syn = segment(u32::MAX - 149, SYN, 0);
        assert_eq!(stream.sent(&syn, 0, at(0)), FRESH);
        assert!(!stream.arrived(&syn, 0));
        assert_eq!(stream.acknowledged(&segment(0, ACK, u32::MAX - 148), at(7)), Some(at(7).since(at(0))));
        stream
    }

    fn data(n: u32) -> Segment {
        segment((u32::MAX - 148).wrapping_add(100 * n), ACK, 0)
    }

    #[test]
    fn what_is_sent_again_is_a_retransmission_and_gives_no_sample() {
        let mut stream = opened();
        assert_eq!((0..3).map(|n| stream.sent(&data(n), 100, at(10 + u64::from(n)))).collect::<Vec<_>>(), [FRESH; 3]);
        // The first is lost; it comes again, with half of the second.
        let again = stream.sent(&data(0), 150, at(50));
        assert_eq!(again, Sent { counts: true, again: true, bytes_again: 150 });
        assert_eq!(stream.acknowledged(&segment(0, ACK, data(3).sequence), at(60)), None, "Karn");
        // Later segments give samples again, the last that is acknowledged.
        stream.sent(&data(3), 100, at(70));
        stream.sent(&data(4), 100, at(71));
        assert_eq!(stream.acknowledged(&segment(0, ACK, data(4).sequence + 50), at(79)), None, "a part of a segment");
        assert_eq!(stream.acknowledged(&segment(0, ACK, data(5).sequence), at(80)), Some(at(80).since(at(71))));
        assert_eq!(stream.acknowledged(&segment(0, ACK, data(5).sequence), at(90)), None, "once");
        // A keep-alive asks without data, and an acknowledgement takes up nothing.
        assert_eq!(stream.sent(&segment(data(5).sequence - 1, ACK, 0), 0, at(99)), Sent::default());
        // One that repeats the end and goes on has some that is new.
        let longer = stream.sent(&data(4), 180, at(120));
        assert_eq!(longer, Sent { counts: true, again: true, bytes_again: 100 });
        assert_eq!(stream.sent(&segment(data(5).sequence + 80, ACK | FIN, 0), 0, at(130)), FRESH);
        assert!(stream.ended);
    }

    #[test]
    fn what_comes_twice_is_a_duplicate_and_holes_are_filled_in_any_order() {
        let mut stream = opened();
        assert!(!stream.arrived(&data(0), 100));
        for n in [5, 2, 3, 7] {
            assert!(!stream.arrived(&data(n), 100), "{n}");
        }
        for n in [0, 2, 3, 5, 7] {
            assert!(stream.arrived(&data(n), 100), "{n}, again");
        }
        assert!(!stream.arrived(&data(1), 100));
        assert!(stream.arrived(&data(1), 300) && !stream.arrived(&data(3), 200));
        assert!(!stream.arrived(&data(6), 100));
        assert!(stream.arrived(&data(0), 800) && stream.pieces.is_empty(), "{stream:?}");
        assert!(!stream.arrived(&data(8), 0), "an acknowledgement is none");
    }

    #[test]
    fn windows_are_scaled_where_both_ends_say_so() {
        let (mut a, mut b) = (Stream::default(), Stream::default());
        let offers = segment(1, ACK, 1);
        assert_eq!(a.window(&b, &offers), None, "nobody saw it begin");
        let scaled = |bits| Segment { window_scale: bits, ..segment(0, SYN, 0) };
        a.sent(&scaled(Some(7)), 0, at(0));
        b.sent(&Segment { flags: SYN | ACK, ..scaled(Some(2)) }, 0, at(0));
        assert_eq!([a.window(&b, &offers), b.window(&a, &offers)], [Some(500 << 7), Some(500 << 2)]);
        b.window_scale = Some(None);
        assert_eq!(a.window(&b, &offers), Some(500));
        assert_eq!(a.window(&b, &Segment { flags: RST | ACK, ..offers }), None);
    }
}
