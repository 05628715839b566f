//! One direction of a link.
//!
//! A frame that enters at `t` starts to be transmitted when the one before it has been, takes `8 · length / rate`, and
//! then travels for `delay`, give or take the jitter. All of that is known on entering, so the pipe only remembers when
//! each frame leaves. What chance decides depends on the frame's ordinal number on the pipe and on nothing else.

pub(crate) mod backlog;
pub(crate) mod draws;
pub(crate) mod gauge;
pub(crate) mod jitter;
pub(crate) mod loss;
pub(crate) mod red;

use std::collections::VecDeque;

use scale::link::Queue;
use scale::{RealDuration, RealInstant};

use self::backlog::Backlog;
use self::draws::{Draws, Purpose};
use self::loss::LossState;
use self::red::{Found, RedState};
use crate::links::counters::PipeCounters;
use crate::links::frame::{Frame, Pool};
use crate::links::ids::PortId;
use crate::links::spec::{PipeChange, PipeConfig};

#[derive(Debug)]
pub(crate) struct Packet {
    pub frame: Frame,
    /// Where the frame goes in the end.
    pub to: PortId,
    /// Its ordinal number on the pipe, which a copy shares.
    ticket: Ticket,
    /// When its last bit has been transmitted; the queue holds it until then.
    sent: RealInstant,
    /// When it leaves the pipe.
    pub exit: RealInstant,
}

/// Result of a frame's entry into a pipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// How many frames the pipe holds more than before.
    pub held: usize,
    /// Whether it should have got a copy, for which there was no room.
    pub uncopied: bool,
}

/// Name by which chance knows a frame.
#[derive(Clone, Copy, Debug)]
struct Ticket {
    /// The ordinal number on the pipe, counted from 1.
    n: u64,
    /// Whether it is the copy of the frame with that number.
    copy: bool,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub config: PipeConfig,
    pub counters: PipeCounters,
    draws: Draws,
    /// Frames offered so far.
    offered: u64,
    loss: LossState,
    red: RedState,
    /// Everything inside, in the order of leaving.
    line: VecDeque<Packet>,
    /// Part of it that is not transmitted yet.
    pub backlog: Backlog,
    /// When the transmitter has finished all that it was given.
    free_at: RealInstant,
    /// The latest that any frame that has left was sent.
    last_sent: RealInstant,
    /// When a frame last came, or the pipe was changed.
    latest: RealInstant,
}

impl Pipe {
    /// `largest`: the longest frame that can come, in bytes.
    pub fn new(config: PipeConfig, draws: Draws, largest: usize) -> Self {
        Pipe {
            config,
            counters: PipeCounters::default(),
            draws,
            offered: 0,
            loss: LossState::since(0),
            red: RedState::new(largest),
            line: VecDeque::new(),
            backlog: Backlog::default(),
            free_at: RealInstant::ZERO,
            last_sent: RealInstant::ZERO,
            latest: RealInstant::ZERO,
        }
    }

    /// When a frame enters that was sent at `sent`: then, or when the one before it entered, if it was sent earlier but
    /// comes later. What the pipe has decided is not decided anew.
    pub fn in_turn(&mut self, sent: RealInstant) -> RealInstant {
        self.latest = self.latest.max(sent);
        self.latest
    }

    /// When the last frame entered.
    pub fn latest(&self) -> RealInstant {
        self.latest
    }

    /// Takes a frame in at `now`, and its copy if it gets one and there is `room`; what is dropped goes to the pool and
    /// is counted.
    pub fn enter(&mut self, now: RealInstant, frame: Frame, to: PortId, pool: &mut Pool, room: bool) -> Entry {
        self.offered += 1;
        let n = self.offered;
        let lost = self.loss.is_lost(&self.config.loss, &self.draws, n);
        if !self.config.up || lost {
            let counter = if lost && self.config.up { &mut self.counters.lost } else { &mut self.counters.down_drops };
            *counter += 1;
            pool.give(frame);
            return Entry::default();
        }
        let copied = self.draws.happens(Purpose::Duplicate, n, self.config.duplicate);
        if copied && room {
            return Entry { held: self.enter_twice(now, frame, to, n, pool), uncopied: false };
        }
        Entry { held: usize::from(self.admit(now, frame, to, Ticket { n, copy: false }, pool)), uncopied: copied }
    }

    /// Lets a frame and a copy of it into the queue; how many of them are in.
    #[cold]
    fn enter_twice(&mut self, now: RealInstant, frame: Frame, to: PortId, n: u64, pool: &mut Pool) -> usize {
        let mut twin = pool.copy(&frame);
        twin.mark.is_copy = true;
        self.counters.duplicated += 1;
        let first = self.admit(now, frame, to, Ticket { n, copy: false }, pool);
        let second = self.admit(now, twin, to, Ticket { n, copy: true }, pool);
        usize::from(first) + usize::from(second)
    }

    /// Lets a frame into the queue, or drops it; whether it is in.
    #[inline(always)]
    fn admit(&mut self, now: RealInstant, mut frame: Frame, to: PortId, ticket: Ticket, pool: &mut Pool) -> bool {
        let len = frame.len();
        self.backlog.settle(now);
        if self.red_drops(now, len, ticket) {
            self.counters.red_drops += 1;
            pool.give(frame);
            return false;
        }
        if !self.backlog.admits(self.config.queue.limit(), len) {
            self.counters.queue_drops += 1;
            pool.give(frame);
            return false;
        }
        if self.draws.happens(Purpose::Corrupt, ticket.n, self.config.corrupt) {
            // A copy is one of the damaged frame.
            let flipped = frame.flip_bit(self.draws.bits(Purpose::Bit, ticket.n));
            self.counters.corrupted += u64::from(flipped);
        }
        let sent = now.max(self.free_at) + self.transmission(len);
        self.free_at = sent;
        if sent > now {
            self.backlog.push(sent, len);
        }
        let exit = self.exit(sent, ticket);
        self.insert(Packet { frame, to, ticket, sent, exit });
        true
    }

    /// Whether the queue is a RED queue that drops a frame of `len` bytes.
    fn red_drops(&mut self, now: RealInstant, len: usize, ticket: Ticket) -> bool {
        let Queue::Red(red) = &self.config.queue else { return false };
        let found = if self.backlog.is_empty() {
            let idle = now.since(self.free_at).as_secs_f64();
            let one = self.config.rate.map(|r| r.transmission(red.packet as usize).as_secs_f64());
            Found::Idle(one.map_or(f64::INFINITY, |one| idle / one))
        } else {
            Found::Queued(self.backlog.measured_as(red.limit) as f64)
        };
        let purpose = if ticket.copy { Purpose::CopyRed } else { Purpose::Red };
        self.red.drops(red, found, len, || self.draws.unit(purpose, ticket.n))
    }

    /// Puts a packet into the line by its exit, behind those that leave at the same instant.
    fn insert(&mut self, packet: Packet) {
        if self.line.back().is_none_or(|last| last.exit <= packet.exit) {
            return self.line.push_back(packet);
        }
        let behind = self.line.iter().rev().take_while(|p| p.exit > packet.exit).count();
        self.line.insert(self.line.len() - behind, packet);
    }

    /// When the next frame leaves.
    pub fn head(&self) -> Option<RealInstant> {
        self.line.front().map(|p| p.exit)
    }

    /// Takes the next frame out.
    pub fn leave(&mut self) -> Option<Packet> {
        let packet = self.line.pop_front()?;
        self.counters.packets += 1;
        self.counters.bytes += packet.frame.len() as u64;
        if packet.sent < self.last_sent {
            self.counters.reordered += 1;
        }
        self.last_sent = self.last_sent.max(packet.sent);
        Some(packet)
    }

    /// Applies a change at `now` and gives the packets that it cost.
    pub fn change(&mut self, now: RealInstant, change: &PipeChange) -> Vec<Packet> {
        self.latest = self.latest.max(now);
        let after = self.config.with(change);
        let before = std::mem::replace(&mut self.config, after);
        if change.loss.is_some() {
            self.loss = LossState::since(self.offered);
        }
        let in_force = &self.config;
        if std::mem::discriminant(&before.queue.limit()) != std::mem::discriminant(&in_force.queue.limit()) {
            // The average was one of something else.
            self.red.begin_again();
        }
        if !in_force.up {
            self.counters.down_drops += self.line.len() as u64;
            self.backlog.clear(now);
            self.free_at = now;
            self.red.begin_again();
            return self.line.drain(..).collect();
        }
        if (before.rate, before.delay, before.jitter) != (in_force.rate, in_force.delay, in_force.jitter) {
            self.reschedule(now, &before);
        }
        Vec::new()
    }

    /// Works out anew when the frames leave that are not transmitted yet: the part of the first one that is still to be
    /// sent, and all after it, go at the new rate.
    fn reschedule(&mut self, now: RealInstant, before: &PipeConfig) {
        let (mut waiting, travelling): (Vec<Packet>, Vec<Packet>) = self.line.drain(..).partition(|p| p.sent > now);
        waiting.sort_by_key(|p| p.sent);
        self.line.extend(travelling);
        self.backlog.clear(now);
        // If nothing waits, the transmitter has been free for as long as before: RED asks.
        self.free_at = self.free_at.min(now);
        for (i, mut packet) in waiting.into_iter().enumerate() {
            let len = packet.frame.len();
            let mut needs = self.transmission(len);
            if i == 0 {
                let needed = before.rate.map_or(RealDuration::ZERO, |r| r.transmission(len));
                let left = packet.sent.since(now).as_nanos() as f64 / needed.as_nanos().max(1) as f64;
                needs = RealDuration::from_nanos((needs.as_nanos() as f64 * left.min(1.0)).ceil() as u64);
            }
            self.free_at = self.free_at + needs;
            packet.sent = self.free_at;
            packet.exit = self.exit(packet.sent, packet.ticket);
            if packet.sent > now {
                self.backlog.push(packet.sent, len);
            }
            self.insert(packet);
        }
    }

    fn transmission(&self, len: usize) -> RealDuration {
        self.config.rate.map_or(RealDuration::ZERO, |r| r.transmission(len))
    }

    /// When a frame leaves that has been transmitted at `sent`, after all that are in the line. Unless the jitter lets
    /// it, it does not overtake any of them, not even after a shorter delay has been set.
    fn exit(&self, sent: RealInstant, ticket: Ticket) -> RealInstant {
        let PipeConfig { delay, jitter, .. } = &self.config;
        let mut travel = *delay;
        if jitter.spread > RealDuration::ZERO {
            let purpose = if ticket.copy { Purpose::CopyJitter } else { Purpose::Jitter };
            travel = jitter::travel(jitter, *delay, self.draws.unit(purpose, ticket.n));
        }
        let alone = sent + travel;
        match self.line.back() {
            Some(last) if !jitter.reorder => alone.max(last.exit),
            _ => alone,
        }
    }
}
