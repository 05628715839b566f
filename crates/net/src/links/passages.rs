//! The emulator's side of observed packets: what happens to a frame on its way, as records in a ring.
//!
//! A frame of which somebody wants to know is marked when it enters the network. Its first bytes are then
//! copied into the ring when it enters, leaves, or fares ill on the way; an ordinary thread makes sense of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::Producer;
use scale::RealInstant;

use crate::links::counters::PipeCounters;
use crate::links::frame::{Frame, Mark};
use crate::links::ids::PortId;
use crate::links::topology::Topology;

/// How much of a frame is kept: all headers of IPv6 and TCP, without most options.
const KEPT: usize = 96;
/// Of how many frames it is known when they entered: twice as many as there can be in all pipes.
const REMEMBERED: usize = 1 << 19;

/// Something that happened to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Passage {
    /// When, as the emulator computed it.
    pub at: RealInstant,
    /// When it had entered the network, if it left; `at`, if nobody knows, or it did not leave.
    pub entered: RealInstant,
    /// Which of all observed frames it is. It begins again after 2³² of them.
    pub number: u32,
    /// Its length in bytes.
    pub length: u16,
    /// How many bytes of it are here.
    kept: u8,
    /// Its kind.
    pub what: Passed,
    /// How often each, if it fared in a pipe: lost, queue full, dropped by RED, link down, too long, damaged, copied.
    pub fates: [u8; 7],
    /// Whether it is a copy that a link made.
    pub is_copy: bool,
    bytes: [u8; KEPT],
}

/// Kinds of passages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// It entered the network, at the node that it comes from.
    Entered,
    /// It entered, and is for several nodes.
    EnteredForSeveral,
    /// It left, at the node that it is for.
    Left,
    /// It left there, and had been forwarded by another node, or entered too long ago to be remembered.
    LeftForwarded,
    /// A pipe dropped, damaged or copied it.
    Fared,
}

impl Passage {
    /// One of no frame.
    pub(crate) const BLANK: Passage = Passage {
        at: RealInstant::ZERO,
        entered: RealInstant::ZERO,
        number: 0,
        length: 0,
        kept: 0,
        what: Passed::Fared,
        fates: [0; 7],
        is_copy: false,
        bytes: [0; KEPT],
    };

    /// The frame's first bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.kept)]
    }

    fn of(what: Passed, at: RealInstant, frame: &Frame) -> Passage {
        let kept = frame.len().min(KEPT);
        let mut bytes = [0; KEPT];
        bytes[..kept].copy_from_slice(&frame.bytes()[..kept]);
        let Mark { number, is_copy, .. } = frame.mark;
        let (length, kept) = (frame.len() as u16, kept as u8);
        Passage { at, entered: at, number, length, kept, what, fates: [0; 7], is_copy, bytes }
    }
}

/// Notes what happens to frames.
#[derive(Debug)]
pub(crate) struct Watcher {
    ring: Producer<Passage>,
    /// By node: whether frames from it and for it are observed.
    observed: Vec<bool>,
    last: u32,
    /// By the last bits of their numbers: frames, and when they entered.
    entered: Vec<(u32, RealInstant)>,
    missed: Arc<AtomicU64>,
}

impl Watcher {
    pub fn new(ring: Producer<Passage>, observed: Vec<bool>, missed: Arc<AtomicU64>) -> Watcher {
        Watcher { ring, observed, last: 0, entered: vec![(0, RealInstant::ZERO); REMEMBERED], missed }
    }

    /// Marks a frame that enters the network by the port `from` on its way to `to`, and notes it, if it is one of an
    /// observed node's.
    #[cold]
    pub fn enters(&mut self, topology: &Topology, from: PortId, to: PortId, at: RealInstant, frame: &mut Frame) {
        let sender = topology.owner(from);
        let source = frame.source().and_then(|address| topology.node_at(address));
        let last = (to != PortId::ALL).then(|| topology.owner(to));
        let destination = frame.destination().ok().and_then(|address| topology.node_at(address)).or(last);
        // Where nobody has an address, it is that of the one who sends.
        let is_forwarded = source.is_some_and(|source| source != sender);
        let is_observed = |node: usize| self.observed.get(node) == Some(&true);
        frame.mark = Mark::default();
        if !is_observed(source.unwrap_or(sender)) && !destination.is_some_and(is_observed) {
            return;
        }
        // Zero is no mark.
        self.last = self.last.wrapping_add(1).max(1);
        let ends = last.is_some() && last == destination;
        frame.mark = Mark { number: self.last, is_forwarded, ends, is_copy: false };
        self.entered[self.last as usize % REMEMBERED] = (self.last, at);
        let for_several = to == PortId::ALL;
        if !is_forwarded {
            let what = if for_several { Passed::EnteredForSeveral } else { Passed::Entered };
            self.note(Passage::of(what, at, frame));
        }
        if for_several {
            frame.mark.number = 0;
        }
    }

    /// Notes a frame that is handed to a port, on its way to another or at its end.
    #[cold]
    pub fn leaves(&mut self, topology: &Topology, [port, to]: [PortId; 2], at: RealInstant, frame: &Frame) {
        let mark = &frame.mark;
        if mark.number == 0 || !mark.ends || topology.owner(port) != topology.owner(to) {
            return;
        }
        let (number, entered) = self.entered[mark.number as usize % REMEMBERED];
        let is_known = !mark.is_forwarded && number == mark.number;
        let what = if is_known { Passed::Left } else { Passed::LeftForwarded };
        let entered = if is_known { entered } else { at };
        self.note(Passage { entered, ..Passage::of(what, at, frame) });
    }

    /// A frame that comes to a pipe, as it is before; `None` if nobody observes it.
    #[cold]
    pub fn comes(&self, at: RealInstant, frame: &Frame) -> Option<Passage> {
        (frame.mark.number != 0).then(|| Passage::of(Passed::Fared, at, frame))
    }

    /// Notes how it fared, by what its entry counted.
    #[cold]
    pub fn fared(&mut self, frame: Passage, entry: &PipeCounters) {
        let PipeCounters { lost, queue_drops, red_drops, down_drops, too_long, corrupted, duplicated, .. } = *entry;
        let fates = [lost, queue_drops, red_drops, down_drops, too_long, corrupted, duplicated].map(|n| n as u8);
        if fates != [0; 7] {
            self.note(Passage { fates, ..frame });
        }
    }

    /// Notes a frame that was in a pipe when that went down.
    pub fn cut_off(&mut self, at: RealInstant, frame: &Frame) {
        if let Some(frame) = self.comes(at, frame) {
            self.fared(frame, &PipeCounters { down_drops: 1, ..PipeCounters::default() });
        }
    }

    fn note(&mut self, passage: Passage) {
        if self.ring.push(passage).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}
