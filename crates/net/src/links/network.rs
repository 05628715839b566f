//! The emulated network: frames in, frames out, at times that are computed and not measured.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashSet};
use std::net::Ipv4Addr;

use scale::link::{DEFAULT_MTU, largest_frame};
use scale::{RealDuration, RealInstant};

use crate::Error;
use crate::links::background::{self, Background, Departure};
use crate::links::counters::{PipeCounters, PortCounters};
use crate::links::early_frames::{EarlyFrames, Waiting};
use crate::links::flow::{FlowChange, FlowInterval};
use crate::links::frame::{Frame, Pool, Refused};
use crate::links::ids::{PipeId, PortId, Vertex};
use crate::links::impairments::Impairments;
use crate::links::passages::Watcher;
use crate::links::pipe::draws::Draws;
use crate::links::pipe::{Entry, Packet, Pipe};
use crate::links::port::Port;
use crate::links::series::{PipeInterval, Series};
use crate::links::sniffer::Sniffer;
use crate::links::spec::{NetworkSpec, PipeChange, PipeConfig};
use crate::links::topology::{Aim, End, Topology};

/// The most bytes of buffers that may be inside all pipes together, 262,144 frames of the usual MTU: a node that floods
/// a long pipe without a rate must not take the harness's memory.
const MAX_INSIDE: usize = 1536 << 18;

/// A frame that leaves the network.
#[derive(Debug)]
pub struct Delivery<'a> {
    /// The port of the node that gets it.
    pub port: PortId,
    /// The instant at which it should arrive.
    pub exit: RealInstant,
    /// How much of that is since it was seen late, and entered pipes after others that were sent later.
    pub pushed: RealDuration,
    /// Its bytes, with the port's hardware address as their destination.
    pub frame: &'a [u8],
}

/// Nodes, switches and LANs joined by pipes.
///
/// A frame walks from pipe to pipe in *computed* time: it enters the next pipe at the instant at which it left the one
/// before, whenever [`Network::advance`] comes to see to it, so being late does not add up over hops.
///
/// Per frame it costs O(log P), P being the pipes in use: each pipe is a queue, and a heap holds their heads.
#[derive(Debug)]
pub struct Network {
    topology: Topology,
    pipes: Vec<Pipe>,
    counters: Vec<PortCounters>,
    background: Background,
    /// When the first frame of each pipe that holds any leaves it; also of some frames that were first once, until that
    /// instant.
    heads: BinaryHeap<Reverse<(RealInstant, u32)>>,
    /// Frames sent ahead of the run's clock.
    held: EarlyFrames,
    /// The least time between a frame's entry into the network and anything that comes of it.
    lookahead: RealDuration,
    pool: Pool,
    /// Frames in pipes, and those held.
    inside: usize,
    /// The most frames inside.
    room: usize,
    /// Pairs of nodes of which the first cannot reach the second.
    cut: HashSet<[Vertex; 2]>,
    /// By link: the largest frame.
    largest: Vec<usize>,
    series: Option<Series>,
    flow_intervals: Vec<FlowInterval>,
    sniffer: Option<Sniffer>,
    watcher: Option<Watcher>,
}

impl Network {
    /// Builds the network. `seed` decides, with a pipe's name and a packet's number on it, what befalls the packet
    /// there.
    ///
    /// Every frame takes the route given for its two nodes or else the shortest by delay, as the delays are now; equal
    /// ones differ by the number of links, then by the order of the links. Routes never change.
    ///
    /// Fails if a name is unknown or used twice, if a given route is none, or if a number is out of its range. Where
    /// the links do not join all nodes, frames for those that cannot be reached are dropped as unroutable.
    pub fn new(spec: NetworkSpec, seed: u64) -> Result<Network, Error> {
        let topology = Topology::new(&spec)?;
        let largest: Vec<usize> = spec.links.iter().map(|l| largest_frame(l.mtu)).collect();
        let pool = Pool::of(spec.links.iter().map(|l| l.mtu).max().unwrap_or(0).max(DEFAULT_MTU));
        let room = MAX_INSIDE / pool.capacity();
        let background = Background::new(&spec.flows, &topology, largest.iter().copied().max().unwrap_or(0))?;
        let configs =
            spec.links.into_iter().zip(&largest).flat_map(|(l, largest)| [(l.ab, *largest), (l.ba, *largest)]);
        let mut pipes = Vec::new();
        for ((config, largest), name) in configs.zip(&topology.pipe_names) {
            in_range(&config, name, largest)?;
            pipes.push(Pipe::new(config, Draws::new(seed, name), largest));
        }
        let counters = vec![PortCounters::default(); topology.ports.len()];
        let held = EarlyFrames::of(counters.len());
        let (series, flow_intervals, sniffer, watcher) = (None, Vec::new(), None, None);
        let lookahead = RealDuration::ZERO;
        let mut network = Network {
            topology,
            pipes,
            counters,
            background,
            heads: BinaryHeap::new(),
            held,
            lookahead,
            pool,
            inside: 0,
            room,
            cut: HashSet::new(),
            largest,
            series,
            flow_intervals,
            sniffer,
            watcher,
        };
        network.look_ahead();
        Ok(network)
    }

    /// All ports, in the order of their numbers.
    pub fn ports(&self) -> &[Port] {
        &self.topology.ports
    }

    /// The ports of a node: `eth0`, `eth1`, …
    pub fn ports_of(&self, node: &str) -> impl Iterator<Item = &Port> {
        self.topology.ports_of(node)
    }

    /// Every node's name with the address of its interface that faces `node`, for /etc/hosts; itself included.
    pub fn hosts_seen_by(&self, node: &str) -> Vec<(String, Ipv4Addr)> {
        self.topology.hosts_seen_by(node)
    }

    /// The pipes on the way from one node to another, in order; `None` if there is no such node or no way.
    pub fn route(&self, from: &str, to: &str) -> Option<Vec<PipeId>> {
        self.topology.route(from, to)
    }

    /// For each node, in the order of the specification, what `weight` says of the pipes on its route to the node
    /// number `to`, summed. `None` where there is no route, and for `to` itself. Takes time in the order of the
    /// network's size.
    pub fn route_sums(&self, to: usize, weight: impl Fn(PipeId) -> u64) -> Vec<Option<u64>> {
        self.topology.sums_to(to, weight)
    }

    /// The pipe called `A--B/ab` or `A--B/ba`.
    pub fn pipe(&self, name: &str) -> Option<PipeId> {
        self.topology.pipe(name)
    }

    /// The names of all pipes, in the order of their numbers.
    pub fn pipe_names(&self) -> &[String] {
        &self.topology.pipe_names
    }

    /// The properties of a pipe in force.
    pub fn config(&self, pipe: PipeId) -> &PipeConfig {
        &self.pipes[pipe.index()].config
    }

    /// Events on a pipe.
    pub fn pipe_counters(&self, pipe: PipeId) -> PipeCounters {
        self.pipes[pipe.index()].counters
    }

    pub(crate) fn all_pipe_counters(&self) -> impl Iterator<Item = PipeCounters> {
        self.pipes.iter().map(|p| p.counters)
    }

    /// Frames that a port refused.
    pub fn port_counters(&self, port: PortId) -> PortCounters {
        self.counters[port.index()]
    }

    /// An empty frame to fill and [`inject`](Network::inject); it must be given back that way or by
    /// [`recycle`](Network::recycle).
    pub fn buffer(&mut self) -> Frame {
        self.pool.take()
    }

    /// Takes back a frame that was not used.
    pub fn recycle(&mut self, frame: Frame) {
        self.pool.give(frame);
    }

    /// Takes a frame that the node of `port` sent at `now`. The network must have been advanced to `now`.
    pub fn inject(&mut self, port: PortId, now: RealInstant, frame: Frame) {
        let Some((frame, to)) = self.admit(port, frame) else { return };
        match self.held.ahead_of(port, &frame) {
            None => self.enter_first(port, now, frame, to),
            Some(at) => self.hold(port, at, frame, to),
        }
    }

    /// Takes a frame that is read at `now` and was sent by the node of `port` at `sent`, by the node's clock; gives how
    /// much later than that it enters its pipe. The network must have been advanced to `now`.
    ///
    /// One that is ahead is held until then. One that is behind enters at that instant, or with the last that entered
    /// before it was read. What it should have left by now it leaves at once, and enters the next at that instant.
    pub fn inject_sent(&mut self, port: PortId, now: RealInstant, sent: RealInstant, frame: Frame) -> RealDuration {
        let Some((frame, to)) = self.admit(port, frame) else { return RealDuration::ZERO };
        let sent = self.held.last(port, &frame).map_or(sent, |last| sent.max(last));
        if sent > now {
            self.hold(port, sent, frame, to);
            return RealDuration::ZERO;
        }
        self.enter_first(port, sent, frame, to);
        self.pipes[self.topology.ports[port.index()].pipe.index()].latest().since(sent)
    }

    /// Where a frame goes in the end; one that goes nowhere is counted, and is gone.
    fn admit(&mut self, port: PortId, mut frame: Frame) -> Option<(Frame, PortId)> {
        let pipe = self.topology.ports[port.index()].pipe;
        let aim = self.topology.aim(port, &frame);
        let is_cut = !self.cut.is_empty() && aim.as_ref().is_ok_and(|aim| self.is_cut(port, aim.to, &frame));
        let counters = &mut self.counters[port.index()];
        match aim {
            _ if frame.len() > self.largest[pipe.index() / 2] => counters.malformed += 1,
            Ok(_) if is_cut => counters.cut += 1,
            Ok(Aim { to, switched }) => {
                if self.inside < self.room {
                    frame.switched = switched;
                    return Some((frame, to));
                }
                counters.no_memory += 1;
            }
            Err(Refused::Unroutable) => counters.unroutable += 1,
            Err(Refused::Malformed) => counters.malformed += 1,
            Err(Refused::Unheard) => (),
        }
        self.pool.give(frame);
        None
    }

    /// Which nodes cannot reach which others from now on, by their places in the specification: pairs of a sender and a
    /// receiver, and no others. What is under way arrives.
    pub fn set_cut(&mut self, pairs: &[[usize; 2]]) {
        self.cut = pairs.iter().copied().collect();
    }

    /// Whether a frame that came in by `port` and goes to the port `to` is between nodes that are cut off: by its
    /// addresses, for nodes forward what others have sent. Only what carries packets, so that neighbours stay known.
    #[cold]
    fn is_cut(&self, port: PortId, to: PortId, frame: &Frame) -> bool {
        let Ok(destination) = frame.destination() else { return false };
        let from = frame.source().and_then(|source| self.topology.node_at(source));
        let from = from.unwrap_or_else(|| self.topology.owner(port));
        let known = || (to != PortId::ALL).then(|| self.topology.owner(to));
        let to = self.topology.node_at(destination).or_else(known);
        to.is_some_and(|to| self.cut.contains(&[from, to]))
    }

    /// Has a frame wait until `at`.
    #[cold]
    fn hold(&mut self, port: PortId, at: RealInstant, frame: Frame, to: PortId) {
        self.held.hold(port, at, frame, to);
        self.inside += 1;
    }

    /// Lets the frame in that has been held long enough first.
    fn release(&mut self) {
        let Some((port, Waiting { at, frame, to, .. })) = self.held.release() else { return };
        self.inside -= 1;
        self.enter_first(port, at, frame, to);
    }

    /// Moves everything that is due by `now` and hands out, in the order of their instants, the frames that leave.
    pub fn advance(&mut self, now: RealInstant, mut deliver: impl FnMut(Delivery)) {
        loop {
            // An interval ends before whatever happens at its end.
            let due = self.next_event().map_or(now, |event| event.min(now));
            if self.series.as_ref().is_some_and(|s| s.ends() <= due) {
                self.end_intervals(due);
            }
            if self.background.next().is_some_and(|next| next <= due) {
                self.depart();
                continue;
            }
            // Frames that leave at the instant at which another is sent leave before it.
            let sent = self.held.next().filter(|next| *next <= now);
            let Some((pipe, Packet { mut frame, to, exit, .. })) = self.leave(sent.unwrap_or(now)) else {
                match sent {
                    Some(_) => self.release(),
                    None => return,
                }
                continue;
            };
            if let Some(source) = to.of_source() {
                match self.background.hop(source, exit, &mut frame) {
                    Some(next) => self.enter(next, exit, frame, to),
                    None => self.pool.give(frame),
                }
                continue;
            }
            match self.topology.ends[pipe as usize] {
                End::Switch(at) if frame.switched && to == PortId::ALL => self.flood(at, PipeId(pipe), exit, frame),
                End::Switch(_) if frame.switched => self.enter(self.topology.down(to), exit, frame, to),
                End::Switch(at) => {
                    let next = self.topology.next(at, to, || frame.source());
                    self.enter(next, exit, frame, to);
                }
                End::Port(port) => {
                    if !frame.switched {
                        frame.set_destination_mac(self.topology.ports[port.index()].mac);
                    }
                    if let Some(watcher) = &mut self.watcher {
                        watcher.leaves(&self.topology, [port, to], exit, &frame);
                    }
                    deliver(Delivery { port, exit, pushed: frame.pushed, frame: frame.bytes() });
                    self.pool.give(frame);
                }
            }
        }
    }

    /// Starts to record what every pipe does, in intervals of `every` counted from `from`. If that has passed, what
    /// happened since then is not in the record.
    pub fn start_series(&mut self, from: RealInstant, every: RealDuration) {
        let mut series = Series::new(from, every, self.all_pipe_counters().collect());
        // Events recorded until now belong to no interval.
        self.note_all(&mut series, from);
        series.take();
        self.flow_intervals.clear();
        self.series = Some(series);
    }

    /// The intervals that have ended, by the instant to which the network has been advanced, and that no earlier call
    /// gave.
    pub fn intervals(&mut self) -> Vec<PipeInterval> {
        self.series.as_mut().map_or(Vec::new(), Series::take)
    }

    /// Ends the series at `now`, to which the network must have been advanced: the intervals not given yet, with the
    /// last one, which is shorter.
    pub fn end_series(&mut self, now: RealInstant) -> Vec<PipeInterval> {
        let Some(mut series) = self.series.take() else { return Vec::new() };
        self.note_all(&mut series, now);
        series.take()
    }

    /// Has every frame that enters a pipe of the sniffer's recorded from now on; gives the sniffer used until now.
    pub(crate) fn sniff(&mut self, sniffer: Option<Sniffer>) -> Option<Sniffer> {
        std::mem::replace(&mut self.sniffer, sniffer)
    }

    /// Has frames of observed nodes noted from now on; gives the watcher used until now.
    pub(crate) fn watch(&mut self, watcher: Option<Watcher>) -> Option<Watcher> {
        std::mem::replace(&mut self.watcher, watcher)
    }

    /// Changes flows of the network's own at `now`, to which it must have been advanced.
    ///
    /// Fails, changing nothing, if there is no such flow, or frames would be longer than those of a usual link.
    pub fn change_flows(&mut self, now: RealInstant, changes: &[(usize, FlowChange)]) -> Result<(), Error> {
        let most = self.largest.iter().copied().max().unwrap_or(0);
        changes.iter().try_for_each(|(flow, change)| self.background.allows(*flow, change, most))?;
        changes.iter().for_each(|(flow, change)| self.background.change(*flow, now, *change));
        Ok(())
    }

    /// Counters of flows of the network's own in the intervals of the series, as [`Network::intervals`].
    pub fn flow_intervals(&mut self) -> Vec<FlowInterval> {
        std::mem::take(&mut self.flow_intervals)
    }

    /// Sends the packet of the network's own that is due next.
    fn depart(&mut self) {
        let Some(Departure { at, pipe, to, frame: length }) = self.background.depart() else { return };
        if self.inside < self.room {
            let mut frame = self.pool.take();
            background::fill(&mut frame, length, at);
            self.enter(pipe, at, frame, to);
        } else if let Some(source) = to.of_source() {
            self.background.lost(source);
        }
    }

    fn end_intervals(&mut self, until: RealInstant) {
        let Some(mut series) = self.series.take() else { return };
        while series.ends() <= until {
            let end = series.ends();
            self.note_all(&mut series, end);
            series.turn(end);
        }
        self.series = Some(series);
    }

    fn note_all(&mut self, series: &mut Series, to: RealInstant) {
        for (index, pipe) in self.pipes.iter_mut().enumerate() {
            pipe.backlog.settle(to);
            let queued = pipe.backlog.len();
            series.note(index, to, (pipe.counters, &mut pipe.backlog.gauge, queued), pipe.config.rate.is_some());
        }
        self.background.note(series.begins(), to, &mut self.flow_intervals);
    }

    /// By when [`advance`](Network::advance) has to be called for nothing to be late. A frame that is held need not be
    /// seen to until it can have left its first pipe.
    pub fn next_deadline(&self) -> Option<RealInstant> {
        let released = self.held.next().map(|at| at + self.lookahead);
        self.next_exit().into_iter().chain(self.background.next()).chain(released).min()
    }

    /// When something happens next.
    fn next_event(&self) -> Option<RealInstant> {
        self.next_exit().into_iter().chain(self.background.next()).chain(self.held.next()).min()
    }

    fn next_exit(&self) -> Option<RealInstant> {
        self.heads.peek().map(|Reverse((exit, _))| *exit)
    }

    /// Works out how long a frame takes at least on the first pipe of its way, whichever that is.
    fn look_ahead(&mut self) {
        let least = |config: &PipeConfig| match config.jitter.spread {
            RealDuration::ZERO => config.delay,
            _ => RealDuration::ZERO,
        };
        let first = self.topology.ports.iter().map(|port| least(&self.pipes[port.pipe.index()].config));
        self.lookahead = first.min().unwrap_or(RealDuration::ZERO);
    }

    /// Whether a change of a pipe would be taken; what is wrong with it if not.
    pub fn allows(&self, pipe: PipeId, change: &PipeChange) -> Result<(), Error> {
        let (name, largest) = (&self.topology.pipe_names[pipe.index()], self.largest[pipe.link()]);
        in_range(&self.pipes[pipe.index()].config.with(change), name, largest)
    }

    /// Changes pipes at `now`, all at the same instant; the network must have been advanced to `now`.
    ///
    /// Fails, changing nothing, if a number is out of its range.
    pub fn set(&mut self, now: RealInstant, changes: &[(PipeId, PipeChange)]) -> Result<(), Error> {
        changes.iter().try_for_each(|(pipe, change)| self.allows(*pipe, change))?;
        for (pipe, change) in changes {
            for packet in self.pipes[pipe.index()].change(now, change) {
                self.inside -= 1;
                if let Some(source) = packet.to.of_source() {
                    self.background.lost(source);
                } else if let Some(watcher) = &mut self.watcher {
                    watcher.cut_off(now, &packet.frame);
                }
                self.pool.give(packet.frame);
            }
        }
        let heads = self.pipes.iter().enumerate().filter_map(|(i, p)| Some(Reverse((p.head()?, i as u32))));
        self.heads = heads.collect();
        self.look_ahead();
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn inside(&self) -> usize {
        self.inside
    }

    #[cfg(test)]
    pub(crate) fn idle_buffers(&self) -> usize {
        self.pool.len()
    }

    /// Takes out the frame that leaves its pipe next, if it does so by `now`.
    fn leave(&mut self, now: RealInstant) -> Option<(u32, Packet)> {
        loop {
            let mut top = self.heads.peek_mut()?;
            let Reverse((exit, pipe)) = *top;
            if exit > now {
                return None;
            }
            let from = &mut self.pipes[pipe as usize];
            if from.head() != Some(exit) {
                // A frame that was overtaken has left already, by the entry made for the one that overtook it.
                PeekMut::pop(top);
                continue;
            }
            let packet = from.leave().expect("the pipe has a head");
            match from.head() {
                Some(next) => *top = Reverse((next, pipe)),
                None => drop(PeekMut::pop(top)),
            }
            self.inside -= 1;
            return Some((pipe, packet));
        }
    }

    /// Whether the copy of a frame that came to a LAN by a pipe and is for all of it is not for the node of `to`.
    #[cold]
    fn is_cut_on(&self, from: PipeId, to: PortId, frame: &Frame) -> bool {
        let is_cut = |port| self.cut.contains(&[self.topology.owner(port), self.topology.owner(to)]);
        frame.carries_packet() && self.topology.sender(from).is_some_and(is_cut)
    }

    /// Hands a frame that came to the LAN `at` by the pipe `from` to all its other members.
    fn flood(&mut self, at: Vertex, from: PipeId, now: RealInstant, frame: Frame) {
        let mut n = 0;
        while let Some((pipe, port)) = self.topology.member(at, n) {
            n += 1;
            if pipe == from.reverse() || (!self.cut.is_empty() && self.is_cut_on(from, port, &frame)) {
                continue;
            }
            if self.inside + 1 < self.room {
                let copy = self.pool.copy(&frame);
                self.enter(pipe, now, copy, port);
            } else {
                self.counters[port.index()].uncopied += 1;
            }
        }
        self.pool.give(frame);
    }

    /// Has a frame of a node enter the network.
    fn enter_first(&mut self, port: PortId, sent: RealInstant, mut frame: Frame, to: PortId) {
        let pipe = self.topology.ports[port.index()].pipe;
        if let Some(watcher) = &mut self.watcher {
            let at = self.pipes[pipe.index()].latest().max(sent);
            watcher.enters(&self.topology, port, to, at, &mut frame);
        }
        self.enter(pipe, sent, frame, to);
    }

    fn enter(&mut self, pipe: PipeId, now: RealInstant, mut frame: Frame, to: PortId) {
        let entered = &mut self.pipes[pipe.index()];
        let sent = now;
        let now = entered.in_turn(sent);
        frame.pushed = frame.pushed + now.since(sent);
        let counted = entered.counters;
        // A buffer that is no frame of anybody's has no bytes to look at.
        let sniffer = self.sniffer.as_mut().filter(|_| to.of_source().is_none());
        let record = sniffer.and_then(|s| s.copy(pipe, now, frame.bytes()));
        let watcher = self.watcher.as_ref().filter(|_| to.of_source().is_none());
        let observed = watcher.and_then(|watcher| watcher.comes(now, &frame));
        if frame.len() > self.largest[pipe.index() / 2] {
            entered.counters.too_long += 1;
            self.pool.give(frame);
            if let Some(source) = to.of_source() {
                self.background.lost(source);
            }
        } else {
            let before = entered.head();
            let room = self.inside + 1 < self.room;
            let Entry { held, uncopied } = entered.enter(now, frame, to, &mut self.pool, room);
            self.inside += held;
            if let Some(source) = to.of_source() {
                if held == 0 {
                    self.background.lost(source);
                }
            } else if uncopied {
                let concerned = if to == PortId::ALL { self.topology.sender(pipe) } else { Some(to) };
                self.counters[concerned.unwrap_or(PortId(0)).index()].uncopied += 1;
            }
            // The head is another one if the pipe was empty, or if the frame overtakes all that is in it.
            if let Some(head) = entered.head().filter(|head| before != Some(*head)) {
                self.heads.push(Reverse((head, pipe.0)));
            }
        }
        if let Some(record) = record {
            record.finish(Impairments::of(&entered.counters.since(&counted)));
        }
        if let (Some(watcher), Some(observed)) = (&mut self.watcher, observed) {
            watcher.fared(observed, &entered.counters.since(&counted));
        }
    }
}

/// Fails if a number of `pipe` is not in its range, for a link whose largest frame has this many bytes.
fn in_range(config: &PipeConfig, pipe: &str, largest: usize) -> Result<(), Error> {
    config.wrong(largest).map_or(Ok(()), |wrong| Err(Error::Input(format!("pipe `{pipe}`: {wrong}"))))
}
