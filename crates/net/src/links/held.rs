//! Frames whose nodes are ahead of the run's clock: each waits for the instant at which it was sent.
//!
//! Frames of one port that bear its node's clock keep their order, since that clock never goes back. One that bears
//! none was sent by the kernel at the run's clock and goes before all that wait, but for those of its own stream: data
//! that the kernel sends on when an acknowledgement arrives would otherwise overtake what the program wrote before.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use scale::RealInstant;

use crate::links::frame::Frame;
use crate::links::ids::PortId;
use crate::links::stream::{self, Stream};

/// A frame that waits, and where it goes in the end.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub at: RealInstant,
    pub frame: Frame,
    pub to: PortId,
    stream: Stream,
}

#[derive(Debug)]
pub(crate) struct Held {
    /// By port, in the order of their instants.
    lines: Vec<VecDeque<Waiting>>,
    /// The first of each line that is not empty: nothing is ever put before it.
    heads: BinaryHeap<Reverse<(RealInstant, u32)>>,
}

impl Held {
    pub fn of(ports: usize) -> Held {
        Held { lines: (0..ports).map(|_| VecDeque::new()).collect(), heads: BinaryHeap::new() }
    }

    /// When the next frame has waited long enough.
    pub fn next(&self) -> Option<RealInstant> {
        self.heads.peek().map(|Reverse((at, _))| *at)
    }

    /// The instant before which a frame of `port` that bears its node's clock is not sent.
    pub fn last(&self, port: PortId) -> Option<RealInstant> {
        self.lines[port.index()].back().map(|last| last.at)
    }

    /// The instant of the last frame that one of `port` without a clock has to wait for, if there is one.
    pub fn ahead_of(&self, port: PortId, frame: &Frame) -> Option<RealInstant> {
        // Nearly always there is none.
        if self.heads.is_empty() || self.lines[port.index()].is_empty() {
            return None;
        }
        let (stream, out_of_turn) = stream::of(frame.bytes());
        let mut same = self.lines[port.index()].iter().rev().filter(|w| !out_of_turn && w.stream == stream);
        same.next().map(|waits| waits.at)
    }

    /// Has a frame of `port` wait until `at`, behind those of the port that wait as long.
    pub fn hold(&mut self, port: PortId, at: RealInstant, frame: Frame, to: PortId) {
        let (stream, _) = stream::of(frame.bytes());
        let line = &mut self.lines[port.index()];
        if line.is_empty() {
            self.heads.push(Reverse((at, port.0)));
        }
        let place = line.partition_point(|waits| waits.at <= at);
        debug_assert!(place > 0 || line.is_empty(), "the head of a line stays its head");
        line.insert(place, Waiting { at, frame, to, stream });
    }

    /// Takes out the frame that has waited long enough first, and the port that it is from.
    pub fn release(&mut self) -> Option<(PortId, Waiting)> {
        let Reverse((_, port)) = self.heads.pop()?;
        let line = &mut self.lines[port as usize];
        let waits = line.pop_front()?;
        if let Some(next) = line.front() {
            self.heads.push(Reverse((next.at, port)));
        }
        Some((PortId(port), waits))
    }
}
