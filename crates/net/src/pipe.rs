//! One direction of a link.
//!
//! A frame that enters at `t` starts to be transmitted when the one before it has been, takes `8 · length / rate`, and
//! then travels for `delay`. All of that is known on entering, so the pipe only remembers when each frame leaves.

use std::collections::VecDeque;

use scale::{RealDuration, RealInstant};

use crate::frame::Frame;
use crate::loss::LossStream;
use crate::spec::{PipeChange, PipeConfig};
use crate::topology::PortId;

/// What has happened on one pipe since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipeCounters {
    /// Frames that left at the far end.
    pub packets: u64,
    /// Their bytes, as charged.
    pub bytes: u64,
    /// Frames lost at random, as the pipe's loss says.
    pub lost: u64,
    /// Frames that found the queue full.
    pub queue_drops: u64,
    /// Frames that met the pipe down, or were in it when it went down.
    pub down_drops: u64,
}

#[derive(Debug)]
pub(crate) struct Packet {
    pub frame: Frame,
    /// Where the frame goes in the end.
    pub to: PortId,
    /// When its last bit has been transmitted; the queue holds it until then.
    sent: RealInstant,
    /// When it leaves the pipe.
    pub exit: RealInstant,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub config: PipeConfig,
    pub counters: PipeCounters,
    fates: LossStream,
    /// Everything inside, in the order of leaving.
    line: VecDeque<Packet>,
    /// How many at the front of `line` were found to have been transmitted.
    transmitted: usize,
    /// When the transmitter has finished all that it was given.
    free_at: RealInstant,
}

impl Pipe {
    pub fn new(config: PipeConfig, fates: LossStream) -> Self {
        Pipe {
            config,
            counters: PipeCounters::default(),
            fates,
            line: VecDeque::new(),
            transmitted: 0,
            free_at: RealInstant::ZERO,
        }
    }

    /// Takes a frame in at `now`, or gives it back dropped and counted.
    pub fn enter(&mut self, now: RealInstant, frame: Frame, to: PortId) -> Result<(), Frame> {
        let lost = self.fates.is_lost(self.config.loss);
        if !self.config.up {
            self.counters.down_drops += 1;
            return Err(frame);
        }
        if lost {
            self.counters.lost += 1;
            return Err(frame);
        }
        if self.queued(now) >= self.config.queue {
            self.counters.queue_drops += 1;
            return Err(frame);
        }
        let sent = now.max(self.free_at) + self.transmission(frame.len());
        self.free_at = sent;
        let exit = self.exit(sent, self.line.back());
        self.line.push_back(Packet { frame, to, sent, exit });
        Ok(())
    }

    /// When the next frame leaves.
    pub fn head(&self) -> Option<RealInstant> {
        self.line.front().map(|p| p.exit)
    }

    /// Takes the next frame out.
    pub fn leave(&mut self) -> Option<Packet> {
        let packet = self.line.pop_front()?;
        self.transmitted = self.transmitted.saturating_sub(1);
        self.counters.packets += 1;
        self.counters.bytes += packet.frame.len() as u64;
        Some(packet)
    }

    /// Applies a change at `now` and gives the frames that it cost.
    pub fn change(&mut self, now: RealInstant, change: &PipeChange) -> Vec<Frame> {
        let after = change.applied_to(&self.config);
        let before = std::mem::replace(&mut self.config, after);
        if !self.config.up {
            self.counters.down_drops += self.line.len() as u64;
            self.transmitted = 0;
            self.free_at = now;
            return self.line.drain(..).map(|p| p.frame).collect();
        }
        if before.rate != self.config.rate || before.delay != self.config.delay {
            self.reschedule(now, &before);
        }
        Vec::new()
    }

    /// Works out anew when the frames leave that are not transmitted yet: the part of the first one that is still to be
    /// sent, and all after it, go at the new rate.
    fn reschedule(&mut self, now: RealInstant, before: &PipeConfig) {
        let first = self.line.len() - self.queued(now);
        let mut free_at = now;
        for i in first..self.line.len() {
            let len = self.line[i].frame.len();
            let mut needs = self.transmission(len);
            if i == first {
                let needed = before.rate.map_or(RealDuration::ZERO, |r| r.transmission(len));
                let left = self.line[i].sent.since(now).as_nanos() as f64 / needed.as_nanos().max(1) as f64;
                needs = RealDuration::from_nanos((needs.as_nanos() as f64 * left.min(1.0)).ceil() as u64);
            }
            free_at = free_at + needs;
            let exit = self.exit(free_at, i.checked_sub(1).map(|before| &self.line[before]));
            self.line[i].sent = free_at;
            self.line[i].exit = exit;
        }
        self.free_at = free_at;
    }

    /// How many frames wait or are being transmitted.
    fn queued(&mut self, now: RealInstant) -> usize {
        while self.line.get(self.transmitted).is_some_and(|p| p.sent <= now) {
            self.transmitted += 1;
        }
        self.line.len() - self.transmitted
    }

    fn transmission(&self, len: usize) -> RealDuration {
        self.config.rate.map_or(RealDuration::ZERO, |r| r.transmission(len))
    }

    /// After a shorter delay has been set, a frame still does not overtake the one before it.
    fn exit(&self, sent: RealInstant, previous: Option<&Packet>) -> RealInstant {
        (sent + self.config.delay).max(previous.map_or(RealInstant::ZERO, |p| p.exit))
    }
}
