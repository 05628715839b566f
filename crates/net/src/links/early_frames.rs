//! Frames whose nodes are ahead of the run's clock: each waits for the instant at which it was sent.
//!
//! Frames that bear their node's clock go in the order of their instants: threads of a node with several CPUs send in
//! another one here than on their target. Those of one TCP connection keep the order in which they were sent. One that
//! bears none was sent by the kernel at the run's clock and goes before all that wait, but for those of its own stream:
//! data that the kernel sends on when an acknowledgement arrives would otherwise overtake what the program wrote
//! before.

use std::collections::{BTreeSet, VecDeque};

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
pub(crate) struct EarlyFrames {
    /// By port, in the order of their instants.
    lines: Vec<VecDeque<Waiting>>,
    /// The first of each line that is not empty.
    heads: BTreeSet<(RealInstant, u32)>,
}

impl EarlyFrames {
    pub fn of(ports: usize) -> EarlyFrames {
        EarlyFrames { lines: (0..ports).map(|_| VecDeque::new()).collect(), heads: BTreeSet::new() }
    }

    /// When the next frame has waited long enough.
    pub fn next(&self) -> Option<RealInstant> {
        self.heads.first().map(|(at, _)| *at)
    }

    /// The instant before which a frame of `port` that bears its node's clock is not sent: that of the last one of its
    /// connection.
    pub fn last(&self, port: PortId, frame: &Frame) -> Option<RealInstant> {
        self.last_of_stream(port, frame, |stream, _| stream.is_tcp())
    }

    /// The instant of the last frame that one of `port` without a clock has to wait for, if there is one.
    pub fn ahead_of(&self, port: PortId, frame: &Frame) -> Option<RealInstant> {
        self.last_of_stream(port, frame, |_, out_of_turn| !out_of_turn)
    }

    /// The instant of the last frame of the stream of this one that waits at `port`, if its order is one to `keep`:
    /// decided by the stream, and by whether the frame may come out of turn.
    fn last_of_stream(
        &self,
        port: PortId,
        frame: &Frame,
        keep: impl FnOnce(&Stream, bool) -> bool,
    ) -> Option<RealInstant> {
        let line = &self.lines[port.index()];
        // Nearly always nothing waits, anywhere.
        if self.heads.is_empty() || line.is_empty() {
            return None;
        }
        let (stream, out_of_turn) = stream::of(frame.bytes());
        if !keep(&stream, out_of_turn) {
            return None;
        }
        line.iter().rev().find(|waits| waits.stream == stream).map(|waits| waits.at)
    }

    /// Has a frame of `port` wait until `at`, behind those of the port that wait as long.
    pub fn hold(&mut self, port: PortId, at: RealInstant, frame: Frame, to: PortId) {
        let (stream, _) = stream::of(frame.bytes());
        let line = &mut self.lines[port.index()];
        let place = line.partition_point(|waits| waits.at <= at);
        if place == 0 {
            if let Some(second) = line.front() {
                self.heads.remove(&(second.at, port.0));
            }
            self.heads.insert((at, port.0));
        }
        line.insert(place, Waiting { at, frame, to, stream });
    }

    /// Takes out the frame that has waited long enough first, and the port that it is from.
    pub fn release(&mut self) -> Option<(PortId, Waiting)> {
        let (_, port) = self.heads.pop_first()?;
        let line = &mut self.lines[port as usize];
        let waits = line.pop_front()?;
        if let Some(next) = line.front() {
            self.heads.insert((next.at, port));
        }
        Some((PortId(port), waits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::frame::Pool;
    use crate::links::headers::IPV4;

    /// A frame of IPv4 with this protocol, between always the same ports.
    fn frame(pool: &mut Pool, protocol: u8) -> Frame {
        let mut bytes = vec![0; 60];
        bytes[12..14].copy_from_slice(&IPV4);
        bytes[14] = 0x45;
        bytes[16..18].copy_from_slice(&46u16.to_be_bytes());
        bytes[23] = protocol;
        bytes[46] = 0x50;
        let mut frame = pool.take();
        frame.space()[..60].copy_from_slice(&bytes);
        frame.set_len(60);
        frame
    }

    fn at(us: u64) -> RealInstant {
        RealInstant::from_nanos(us * 1_000)
    }

    #[test]
    fn threads_of_a_node_that_send_out_of_order_are_put_in_order() {
        let (mut held, mut pool, to) = (EarlyFrames::of(2), Pool::default(), PortId(0));
        for us in [30, 10, 20] {
            held.hold(PortId(1), at(us), frame(&mut pool, 17), to);
        }
        held.hold(PortId(0), at(15), frame(&mut pool, 17), to);
        assert_eq!(held.next(), Some(at(10)));
        let order: Vec<_> = std::iter::from_fn(|| held.release()).map(|(port, w)| (port.0, w.at)).collect();
        assert_eq!(order, [(1, at(10)), (0, at(15)), (1, at(20)), (1, at(30))]);
        assert_eq!(held.next(), None);
    }

    #[test]
    fn only_frames_of_a_connection_wait_for_one_another() {
        let (mut held, mut pool) = (EarlyFrames::of(1), Pool::default());
        let [tcp, udp] = [6, 17].map(|protocol| frame(&mut pool, protocol));
        let [more_tcp, more_udp] = [6, 17].map(|protocol| frame(&mut pool, protocol));
        assert_eq!(held.last(PortId(0), &tcp), None);
        held.hold(PortId(0), at(30), tcp, PortId(0));
        held.hold(PortId(0), at(40), udp, PortId(0));
        assert_eq!(held.last(PortId(0), &more_tcp), Some(at(30)));
        assert_eq!(held.last(PortId(0), &more_udp), None);
    }
}
