//! The emulator's side of a capture: copies frames into the ring.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::Producer;
use rtrb::chunks::WriteChunk;
use scale::RealInstant;

use crate::links::ids::PipeId;
use crate::links::impairments::Impairments;

/// Header of a frame in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// When it came to the pipe: real ns.
    pub at: u64,
    pub pipe: u32,
    /// Frames of this pipe since its last record that were not recorded.
    pub missed: u32,
    /// Its length, and how much of it follows.
    pub len: u16,
    pub kept: u16,
    pub impairments: Impairments,
}

pub(crate) const HEADER: usize = 21;
/// The impairments is known only when the frame has been handed on, so it comes last and is filled in then.
const IMPAIRMENTS_AT: usize = HEADER - 1;

impl Header {
    fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&self.at.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.pipe.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.missed.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.len.to_le_bytes());
        bytes[18..20].copy_from_slice(&self.kept.to_le_bytes());
        bytes[IMPAIRMENTS_AT] = self.impairments.0;
        bytes
    }

    pub fn from_bytes(b: [u8; HEADER]) -> Header {
        Header {
            at: u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]),
            pipe: u32::from_le_bytes([b[8], b[9], b[10], b[11]]),
            missed: u32::from_le_bytes([b[12], b[13], b[14], b[15]]),
            len: u16::from_le_bytes([b[16], b[17]]),
            kept: u16::from_le_bytes([b[18], b[19]]),
            impairments: Impairments(b[IMPAIRMENTS_AT]),
        }
    }
}

/// Records frames as they come to pipes.
#[derive(Debug)]
pub(crate) struct Sniffer {
    ring: Producer<u8>,
    /// By pipe: how much of a frame is kept; `None`: it is not recorded.
    snaps: Vec<Option<u16>>,
    /// By pipe: frames missed since the last record.
    gaps: Vec<u32>,
    /// By pipe: frames missed at all, for the writer.
    missed: Arc<Vec<AtomicU64>>,
}

impl Sniffer {
    pub fn new(ring: Producer<u8>, snaps: Vec<Option<u16>>, missed: Arc<Vec<AtomicU64>>) -> Self {
        Sniffer { ring, gaps: vec![0; snaps.len()], snaps, missed }
    }

    /// Copies a frame that comes to a pipe; [`Record::finish`] hands the copy over. `None` if the pipe is not recorded,
    /// or the writer is too far behind, or has given up.
    pub fn copy(&mut self, pipe: PipeId, now: RealInstant, frame: &[u8]) -> Option<Record<'_>> {
        let kept = usize::from(self.snaps[pipe.index()]?).min(frame.len());
        let gap = &mut self.gaps[pipe.index()];
        let Ok(mut chunk) = self.ring.write_chunk(HEADER + kept) else {
            *gap = gap.saturating_add(1);
            self.missed[pipe.index()].fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let header = Header {
            at: now.as_nanos(),
            pipe: pipe.0,
            missed: std::mem::take(gap),
            len: frame.len() as u16,
            kept: kept as u16,
            impairments: Impairments::default(),
        };
        let rest = put(&mut chunk, 0, &header.to_bytes());
        put(&mut chunk, rest, &frame[..kept]);
        Some(Record(chunk))
    }
}

/// A frame in the ring that has not been handed over yet.
pub(crate) struct Record<'a>(WriteChunk<'a, u8>);

impl Record<'_> {
    pub fn finish(mut self, impairments: Impairments) {
        put(&mut self.0, IMPAIRMENTS_AT, &[impairments.0]);
        self.0.commit_all();
    }
}

/// Copies `bytes` to place `at` of a chunk, which may be in two pieces; gives the place after.
fn put(chunk: &mut WriteChunk<u8>, at: usize, bytes: &[u8]) -> usize {
    let (first, second) = chunk.as_mut_slices();
    let into_first = first.len().saturating_sub(at).min(bytes.len());
    let (head, tail) = bytes.split_at(into_first);
    if !head.is_empty() {
        first[at..][..head.len()].copy_from_slice(head);
    }
    if !tail.is_empty() {
        second[(at + into_first) - first.len()..][..tail.len()].copy_from_slice(tail);
    }
    at + bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtrb::RingBuffer;

    fn counted(pipes: usize) -> Arc<Vec<AtomicU64>> {
        Arc::new((0..pipes).map(|_| AtomicU64::new(0)).collect())
    }

    #[test]
    fn records_survive_the_end_of_the_ring_and_say_what_was_missed_before_them() {
        let (ring, mut consumer) = RingBuffer::new(100);
        let missed = counted(2);
        let mut sniffer = Sniffer::new(ring, vec![Some(30), None], missed.clone());
        let (frame, at) = ([7; 60], RealInstant::from_nanos(1 << 40));
        assert!(sniffer.copy(PipeId(1), at, &frame).is_none(), "nobody asked for this one");
        // 51 bytes a record: one fits, a second does not. Seven times over, the ring's end falls everywhere in a
        // record.
        for round in 0..7 {
            sniffer.copy(PipeId(0), at, &frame).expect("there is room").finish(Impairments(1));
            assert!(sniffer.copy(PipeId(0), at, &frame).is_none());
            let (mut header, mut data) = ([0; HEADER], [0; 30]);
            consumer.pop_entire_slice(&mut header).unwrap();
            consumer.pop_entire_slice(&mut data).unwrap();
            let gap = u32::from(round > 0);
            let expected = Header { at: 1 << 40, pipe: 0, missed: gap, len: 60, kept: 30, impairments: Impairments(1) };
            assert_eq!((Header::from_bytes(header), data), (expected, [7; 30]), "round {round}");
            assert_eq!(consumer.slots(), 0);
        }
        assert_eq!(missed.iter().map(|m| m.load(Ordering::Relaxed)).collect::<Vec<_>>(), [7, 0]);
    }
}
