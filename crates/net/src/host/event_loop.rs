//! The emulator's thread: carries frames between the nodes' interfaces and the [`Network`], in real time.
//!
//! It sleeps until shortly before the next deadline and then polls without sleeping, so that a frame leaves within a
//! microsecond or so of the instant computed for it, whatever the scheduler's timers are worth.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use host::node_clock::NodeState;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;
use scale::{RealDuration, RealInstant};

use crate::Error;
use crate::host::clocks::Clocks;
use crate::host::crossings::Crossings;
use crate::host::lateness::{Lateness, Recorder};
use crate::host::queues::QueueWatch;
use crate::host::tap::Tap;
use crate::host::throttle::Throttle;
use crate::host::traffic::Traffic;
use crate::links::counters::{PipeCounters, PortCounters};
use crate::links::flow::{FlowChange, FlowInterval};
use crate::links::frame::Frame;
use crate::links::ids::{PipeId, PortId};
use crate::links::network::{Delivery, Network};
use crate::links::passages::Watcher;
use crate::links::series::PipeInterval;
use crate::links::sniffer::Sniffer;
use crate::links::spec::PipeChange;
use crate::links::stamp::{self, Sent};
use crate::links::stream::SeenBy;
use crate::links::{answers, icmp, stream, tcp_probe};

/// How long before a deadline the thread stops sleeping: more than a wake-up takes, and enough to fetch again into the
/// caches what others have driven out. With 15 µs one frame in ten left 10 µs late; more takes the core from the
/// harness's other threads.
const SPIN: RealDuration = RealDuration::from_nanos(30_000);
/// After so long without a frame the loop no longer polls: the next frame wakes it, which costs its sender a little
/// once, and until then the core is free for others.
const QUIET: RealDuration = RealDuration::from_nanos(50_000_000);
/// A wait that took longer than this was one for a frame; any other found it there.
const WOKEN: RealDuration = RealDuration::from_nanos(5_000);
/// The most that a look at the ports which finds nothing takes by itself.
const LONGEST_ROUND: RealDuration = RealDuration::from_nanos(5_000);
/// The date is set by others at most so long before frames bear it.
const DATE_LASTS: RealDuration = RealDuration::from_nanos(1_000_000);
/// A machine is asked no more often who listens there: one that boots finds all questions waiting.
const BETWEEN_KNOCKS: RealDuration = RealDuration::from_nanos(100_000_000);
/// Frames read from one port before the others have their turn.
const BATCH: usize = 32;
/// The events that stand for queues of a port's node, together with the port's number.
const QUEUES: u64 = 1 << 32;
/// The event that stands for a command; all others are port numbers.
const COMMAND: u64 = u64::MAX;

/// Requests to the thread, with where the answer goes.
#[derive(Debug)]
pub(crate) enum Command {
    Set { changes: Vec<(PipeId, PipeChange)>, reply: Sender<Result<RealInstant, Error>> },
    Cut { pairs: Vec<[usize; 2]>, reply: Sender<()> },
    SetFlows { changes: Vec<(usize, FlowChange)>, reply: Sender<Result<(), Error>> },
    Observe { ends_series: bool, reply: Sender<Snapshot> },
    StartSeries { from: RealInstant, every: RealDuration },
    ShowDates(Dates),
    Knock { port: PortId, tcp: u16, reply: Sender<bool> },
    Sniff { sniffer: Option<Sniffer>, reply: Sender<Option<Sniffer>> },
    Watch { watcher: Option<Watcher>, reply: Sender<Option<Watcher>> },
    Stop,
}

/// Date that the nodes' clocks show at an instant.
pub(crate) struct Dates(pub Box<dyn Fn(RealInstant) -> u64 + Send>);

impl std::fmt::Debug for Dates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dates")
    }
}

/// The thread's own part of an [`Observation`].
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub at: RealInstant,
    pub pipes: Vec<PipeCounters>,
    pub ports: Vec<(PortCounters, u64)>,
    pub intervals: Vec<PipeInterval>,
    pub flows: Vec<FlowInterval>,
    pub lateness: Lateness,
    pub clocks: Option<Crossings>,
    pub cpu: RealDuration,
    pub spun: RealDuration,
}

/// The thread's own state.
pub(crate) struct Loop<'a> {
    network: Network,
    ports: Ports,
    epoll: OwnedFd,
    wake: &'a OwnedFd,
    inbox: Receiver<Command>,
    polling: Option<RealDuration>,
    /// If that is not the host's.
    dates: Option<Dates>,
    /// When a frame was last read.
    heard: RealInstant,
    throttle: Throttle,
    /// How long it has looked, awake, and found nothing to do.
    spun: RealDuration,
    /// By port.
    appetites: Vec<Appetite>,
    /// By port: what is known of a machine that has been asked who listens there.
    knocks: Vec<Knock>,
    /// How often the thread has looked at its ports.
    round: u32,
}

/// How many frames to read from a port before the others get their turn.
///
/// A port that sends now and then has one frame at a time, and looking for a second costs a system call for nothing.
/// One that sends a stream has many, and each frame that is left for the next wait costs a system call, too.
#[derive(Clone, Copy, Debug)]
struct Appetite {
    frames: usize,
    /// When it was last read.
    round: u32,
}

impl Appetite {
    const FIRST: Appetite = Appetite { frames: 1, round: 0 };

    /// `frames` were read in `round`; it had no more if that is fewer than were wanted.
    fn after(self, round: u32, frames: usize) -> Appetite {
        let frames = match () {
            () if frames < self.frames => frames.max(1),
            () if self.round == round.wrapping_sub(1) => (2 * self.frames).min(BATCH),
            () => self.frames,
        };
        Appetite { frames, round }
    }
}

/// The state of a machine that has been asked who listens there.
#[derive(Clone, Copy, Debug, Default)]
struct Knock {
    /// A TCP port on which somebody does.
    listens: Option<u16>,
    /// When it was last asked.
    at: RealInstant,
}

/// The interfaces, and what is recorded when a frame is handed to one.
struct Ports {
    taps: Arc<Vec<Tap>>,
    write_errors: Vec<u64>,
    traffic: Traffic,
    recorder: Recorder,
    /// If there are any.
    clocks: Option<NodeClocks>,
}

/// The nodes' own clocks, and what is recorded of them.
struct NodeClocks {
    clocks: Clocks,
    /// By port: the hardware address that a stamp is written over.
    macs: Vec<[u8; 6]>,
    /// By port: when the last frame that a queue had held back was sent.
    queued: Vec<RealInstant>,
    /// By port: what is heard of queues.
    queues: Vec<Option<QueueWatch>>,
    /// By port: whether a program takes out frames, and nobody has dated them.
    bare: Vec<bool>,
    crossings: Crossings,
    /// By how much the host's date is ahead of real instants, and when that was looked at.
    date_ns: u64,
    dated: RealInstant,
}

impl NodeClocks {
    /// When the node of `port` sent a frame that is read at `now`, by the clock of the node's that the frame bears; the
    /// frame is then as it was before. No kernel has stamped one that comes from a program: it has just been sent.
    fn sent(&mut self, port: PortId, now: RealInstant, frame: &mut Frame) -> Option<RealInstant> {
        let clock = self.clocks.of(port)?;
        if self.bare[port.index()] {
            let sent = clock.when_asked(now);
            self.crossings.sent(now, sent);
            return Some(sent);
        }
        let sent = match stamp::take(frame, self.macs[port.index()], now) {
            Some(Sent::At(sent)) => Some(sent),
            // Frames keep the order in which they leave a queue, though the node may have been further ahead before.
            Some(Sent::Queued(sent)) => {
                let last = &mut self.queued[port.index()];
                *last = sent.max(*last);
                Some(*last)
            }
            None => None,
        };
        match sent {
            Some(sent) => self.crossings.sent(now, sent),
            None => self.crossings.unstamped += 1,
        }
        sent
    }

    /// Tells the node that is handed a frame at `now` when it arrives.
    ///
    /// Whoever takes data out of the frame finds it dated. A clock that is raised loses the work that its node would
    /// have done until then, so that is done only for what can be seen without being taken.
    fn tell(&mut self, delivery: &Delivery, now: RealInstant) {
        let Some(clock) = self.clocks.of(delivery.port) else { return };
        clock.hand(delivery.exit, self.date_ns);
        if clock.state() == NodeState::Idle {
            self.crossings.to_idle += 1;
            return clock.raise(delivery.exit);
        }
        let is_bare = self.bare[delivery.port.index()];
        let seen_by = if is_bare { SeenBy::Anyone } else { stream::seen_by(delivery.frame) };
        if seen_by == SeenBy::Kernel {
            self.crossings.acknowledgements += 1;
            return;
        }
        self.crossings.received(now, clock.at(now));
        if seen_by == SeenBy::Taker && self.clocks.dater.is_some() {
            return;
        }
        clock.raise(delivery.exit);
    }

    /// Hears of queues that the node of `port` has made.
    fn hear(&mut self, port: PortId, now: RealInstant) {
        self.look_at_date(now);
        let Some(watch) = &mut self.queues[port.index()] else { return };
        if watch.heard(&self.clocks)
            && let Some(clock) = self.clocks.of(port)
        {
            clock.queue(self.date_ns);
        }
    }

    /// Looks how far the date is ahead of real instants, which may change when somebody sets it.
    fn look_at_date(&mut self, now: RealInstant) {
        if now.since(self.dated) >= DATE_LASTS {
            (self.dated, self.date_ns) = (now, host::time::unix_ns().wrapping_sub(host::now().as_nanos()));
        }
    }
}

impl Ports {
    /// Hands a frame to the interface of port number `port`.
    fn hand(&mut self, port: usize, frame: &[u8]) {
        match rustix::io::write(&self.taps[port], frame) {
            Ok(_) => self.traffic.delivered(port, frame.len()),
            Err(e) if self.taps[port].note(e) => {}
            Err(_) => self.write_errors[port] += 1,
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        // The receiver's protocol processing happens inside the write, so the clock is read before it.
        let now = host::now();
        self.recorder.delivered(now, delivery.exit);
        if let Some(clocks) = &mut self.clocks {
            clocks.look_at_date(now);
            clocks.crossings.pushed(delivery.pushed);
            clocks.tell(&delivery, now);
        }
        let port = delivery.port.index();
        self.hand(port, delivery.frame);
    }
}

impl<'a> Loop<'a> {
    /// `taps`, and what is heard of their `queues`, are in the order of the network's ports.
    #[expect(clippy::too_many_arguments, reason = "they are handed over once, by the one who made them all")]
    pub fn new(
        network: Network,
        taps: Arc<Vec<Tap>>,
        queues: Vec<Option<QueueWatch>>,
        traffic: Traffic,
        wake: &'a OwnedFd,
        inbox: Receiver<Command>,
        polling: Option<RealDuration>,
        clocks: Clocks,
    ) -> Result<Self, Error> {
        let failed = |what: String| move |e: Errno| Error::system(what)(e.into());
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed("cannot make an epoll".into()))?;
        let watch = |fd: rustix::fd::BorrowedFd, data| {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(data), epoll::EventFlags::IN)
        };
        watch(wake.as_fd(), COMMAND).map_err(failed("cannot watch for commands".into()))?;
        for tap in taps.iter() {
            watch(tap.as_fd(), u64::from(tap.port().0))
                .map_err(failed(format!("{}: cannot be watched", tap.label())))?;
        }
        for (tap, queues) in taps.iter().zip(&queues) {
            let Some(queues) = queues else { continue };
            watch(queues.as_fd(), QUEUES | u64::from(tap.port().0))
                .map_err(failed(format!("{}: its queues cannot be watched", tap.label())))?;
        }
        let now = host::now();
        let macs = network.ports().iter().map(|port| port.mac).collect();
        let bare = network.ports().iter().map(|port| port.bare).collect();
        let clocks = (!clocks.none()).then(|| NodeClocks {
            clocks,
            macs,
            queued: vec![RealInstant::ZERO; taps.len()],
            queues,
            bare,
            crossings: Crossings::default(),
            date_ns: 0,
            dated: RealInstant::ZERO,
        });
        let ports = Ports { write_errors: vec![0; taps.len()], taps, traffic, recorder: Recorder::new(now), clocks };
        let appetites = vec![Appetite::FIRST; ports.taps.len()];
        let throttle = Throttle::new(now);
        let spun = RealDuration::ZERO;
        Ok(Loop {
            network,
            ports,
            epoll,
            wake,
            inbox,
            polling,
            dates: None,
            heard: now,
            throttle,
            spun,
            knocks: vec![Knock::default(); appetites.len()],
            appetites,
            round: 0,
        })
    }

    /// Carries frames until told to stop.
    pub fn run(&mut self) -> Result<(), Error> {
        let mut events = Vec::with_capacity(256);
        let mut looked = host::now();
        loop {
            let now = host::now();
            let due = self.network.next_deadline().is_some_and(|deadline| deadline <= now);
            self.network.advance(now, |delivery| self.ports.deliver(delivery));
            let tired = host::now();
            let now = self.throttle.sleep_if_due(tired, self.spun);
            self.ports.recorder.looked(now, now.since(looked));

            // Zero when the deadline is near: the loop then spins, looking at the ports all the time.
            let sleep = self.network.next_deadline().map(|deadline| deadline.since(now + SPIN));
            let idle = events.is_empty() && !due && now == tired && sleep == Some(RealDuration::ZERO);
            events.clear();
            let polled = self.wait(sleep, &mut events)?;
            let previous = std::mem::replace(&mut looked, host::now());
            if idle && events.is_empty() {
                // A round that finds nothing takes a microsecond. In one that took longer the thread was interrupted,
                // and the rest of the time was not its own.
                self.spun = self.spun + looked.since(previous).min(LONGEST_ROUND);
            }
            // If the thread slept until a frame woke it, the frame has not waited. Otherwise it may have waited since
            // the last look.
            let woken = !polled && looked.since(now) > WOKEN;
            let gap = if woken { RealDuration::ZERO } else { looked.since(previous) };
            self.round = self.round.wrapping_add(1);
            for event in &events {
                match event.data.u64() {
                    COMMAND => {
                        if !self.obey() {
                            return Ok(());
                        }
                    }
                    queues if queues & QUEUES != 0 => {
                        if let Some(clocks) = &mut self.ports.clocks {
                            clocks.hear(PortId(queues as u32), host::now());
                        }
                    }
                    port => self.read(PortId(port as u32), gap),
                }
            }
        }
    }

    /// Waits for frames and commands, for `longest` at most. If the loop polls now, which it tells, it sleeps without
    /// being woken by frames.
    fn wait(&self, longest: Option<RealDuration>, events: &mut Vec<epoll::Event>) -> Result<bool, Error> {
        let mut timeout = longest;
        let polling = self.polling.filter(|_| host::now().since(self.heard) < QUIET);
        if let Some(interval) = polling {
            timeout = Some(RealDuration::ZERO);
            let nap = longest.map_or(interval, |longest| longest.min(interval));
            if nap > RealDuration::ZERO {
                host::time::nap(nap);
            }
        }
        match epoll::wait(&self.epoll, spare_capacity(events), timeout.map(host::time::timespec).as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(polling.is_some()),
            Err(e) => Err(Error::system("epoll_pwait2")(e.into())),
        }
    }

    /// Takes what the node of `port` has sent, a batch at most. None of it was there `gap` ago.
    fn read(&mut self, port: PortId, gap: RealDuration) {
        let appetite = self.appetites[port.index()];
        let read = (0..appetite.frames).take_while(|_| self.read_one(port, gap)).count();
        self.appetites[port.index()] = appetite.after(self.round, read);
    }

    /// Takes a frame if there is one.
    fn read_one(&mut self, port: PortId, gap: RealDuration) -> bool {
        let mut frame = self.network.buffer();
        match rustix::io::read(&self.ports.taps[port.index()], frame.space()) {
            Ok(len) => {
                frame.set_len(len);
                self.ports.traffic.sent(port.index(), len);
                if self.network.ports()[port.index()].bare && self.answer(port, &mut frame) {
                    self.network.recycle(frame);
                    return true;
                }
                let now = host::now();
                self.heard = now;
                // Due frames leave first: pipes must see frames in the order of their instants.
                self.network.advance(now, |delivery| self.ports.deliver(delivery));
                let sent = self.ports.clocks.as_mut().and_then(|clocks| clocks.sent(port, now, &mut frame));
                if let Some(dates) = &self.dates {
                    icmp::show_date(&mut frame, || (host::time::unix_ns(), dates.0(sent.unwrap_or(now))));
                }
                match sent {
                    None => {
                        self.network.inject(port, now, frame);
                        self.ports.recorder.seen(gap);
                    }
                    Some(sent) => self.inject_sent(port, now, sent, frame, gap),
                }
                true
            }
            Err(e) => {
                self.network.recycle(frame);
                if !matches!(e, Errno::AGAIN | Errno::INTR) {
                    // The node has removed its interface. It would be reported as ready for ever.
                    let _ = epoll::delete(&self.epoll, &self.ports.taps[port.index()]);
                }
                false
            }
        }
    }

    /// Answers what a program with an interface of its own has sent; false if it is for somebody else.
    fn answer(&mut self, port: PortId, frame: &mut Frame) -> bool {
        let facts = &self.network.ports()[port.index()];
        let heard = tcp_probe::heard(frame, facts);
        if let Some((tcp, true)) = heard {
            self.knocks[port.index()].listens = Some(tcp);
        }
        let answered = heard.is_some() || answers::answer(frame, facts);
        if answered {
            self.ports.hand(port.index(), frame.bytes());
        }
        answered
    }

    /// Whether somebody has been found to listen on a TCP port of the machine at `port` since this was last said; if
    /// not, asks once more after a while.
    fn knock(&mut self, port: PortId, tcp: u16) -> bool {
        let (knock, now) = (&mut self.knocks[port.index()], host::now());
        if knock.listens.take() == Some(tcp) {
            return true;
        }
        if now.since(knock.at) < BETWEEN_KNOCKS {
            return false;
        }
        knock.at = now;
        let mut frame = self.network.buffer();
        tcp_probe::ask(&mut frame, &self.network.ports()[port.index()], tcp);
        self.ports.hand(port.index(), frame.bytes());
        self.network.recycle(frame);
        false
    }

    /// Takes a frame that bears the instant at which it was sent: that nobody saw it for a while matters only as far as
    /// it is late for that.
    fn inject_sent(&mut self, port: PortId, now: RealInstant, sent: RealInstant, frame: Frame, gap: RealDuration) {
        let late = self.network.inject_sent(port, now, sent, frame);
        self.ports.recorder.seen(gap.min(late));
    }

    /// Carries out what has been asked for; false if that was to end.
    fn obey(&mut self) -> bool {
        // Non-blocking, and one read empties it.
        let _ = rustix::io::read(self.wake, &mut [0; 8]);
        while let Ok(command) = self.inbox.try_recv() {
            match command {
                Command::Stop => return false,
                Command::Set { changes, reply } => {
                    let now = self.catch_up();
                    drop(reply.send(self.network.set(now, &changes).map(|()| now)));
                }
                Command::Cut { pairs, reply } => {
                    self.catch_up();
                    self.network.set_cut(&pairs);
                    let _ = reply.send(());
                }
                Command::SetFlows { changes, reply } => {
                    let now = self.catch_up();
                    drop(reply.send(self.network.change_flows(now, &changes)));
                }
                Command::Observe { ends_series, reply } => {
                    let now = self.catch_up();
                    let ended = ends_series.then(|| self.network.end_series(now));
                    drop(reply.send(self.snapshot(ended)));
                }
                Command::StartSeries { from, every } => {
                    self.catch_up();
                    self.network.start_series(from, every);
                }
                Command::ShowDates(dates) => self.dates = Some(dates),
                Command::Knock { port, tcp, reply } => {
                    let listens = self.knock(port, tcp);
                    let _ = reply.send(listens);
                }
                // The caller gives back the memory of what was used until now.
                Command::Sniff { sniffer, reply } => drop(reply.send(self.network.sniff(sniffer))),
                Command::Watch { watcher, reply } => drop(reply.send(self.network.watch(watcher))),
            }
        }
        true
    }

    /// Brings the network up to now.
    fn catch_up(&mut self) -> RealInstant {
        let now = host::now();
        self.network.advance(now, |delivery| self.ports.deliver(delivery));
        now
    }

    /// `intervals`: those to report, or `None` for all that have ended.
    fn snapshot(&mut self, intervals: Option<Vec<PipeInterval>>) -> Snapshot {
        let intervals = intervals.unwrap_or_else(|| self.network.intervals());
        let flows = self.network.flow_intervals();
        let refused = self.network.ports().iter().map(|p| self.network.port_counters(p.id));
        Snapshot {
            intervals,
            flows,
            at: host::now(),
            pipes: self.network.all_pipe_counters().collect(),
            ports: refused.zip(self.ports.write_errors.iter().copied()).collect(),
            lateness: self.ports.recorder.record(),
            clocks: self.ports.clocks.as_ref().map(|c| c.crossings.clone()),
            cpu: host::time::of_this_thread(),
            spun: self.spun,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use host::node_clock::NodeClock;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;
    use crate::links::frame::tests::ipv4;
    use crate::links::headers::ACK;
    use crate::links::stream::tests::tcp;

    #[test]
    fn a_busy_node_is_told_of_what_its_programs_see() {
        let page = memfd_create("clock", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&page, 4096).unwrap();
        // struct node_clock: a node that waits, and whose clock stands at 0.
        rustix::io::pwrite(&page, &1u32.to_ne_bytes(), 4).unwrap();
        let clock = NodeClock::new(page.as_fd(), page.try_clone().unwrap()).unwrap();
        let clocks = Clocks { of_ports: vec![Some(clock.clone()), None], ..Clocks::default() };
        let (macs, crossings, dated) = (vec![[0; 6]; 3], Crossings::default(), RealInstant::ZERO);
        let (queued, queues) = (vec![RealInstant::ZERO; 3], vec![None, None, None]);
        let mut all = NodeClocks { clocks, macs, queued, queues, bare: vec![false; 3], crossings, date_ns: 0, dated };
        let at = RealInstant::from_nanos;
        let tell = |all: &mut NodeClocks, port, length, exit, now| {
            let mut frame = ipv4(length, Ipv4Addr::new(10, 0, 0, 1), 0);
            frame.set_destination_mac([2, 0, 0, 0, 0, 1]);
            tcp(&mut frame, [0; 4], ACK);
            let pushed = RealDuration::ZERO;
            all.tell(&Delivery { port: PortId(port), exit: at(exit), pushed, frame: frame.bytes() }, at(now));
            clock.last()
        };
        assert_eq!(tell(&mut all, 0, 54, 500, 600), at(0), "an acknowledgement");
        assert_eq!(tell(&mut all, 1, 100, 500, 600), at(0), "somebody else has no clock");
        assert_eq!(tell(&mut all, 2, 100, 500, 600), at(0), "nor has this one");
        assert_eq!(tell(&mut all, 0, 100, 500, 600), at(500));
        assert_eq!(tell(&mut all, 0, 100, 300, 450), at(500), "no clock goes back");
        // Where frames are dated, who takes data out of them knows by that.
        all.clocks.dater = Some(page.try_clone().unwrap());
        assert_eq!(tell(&mut all, 0, 100, 600, 650), at(500));
        all.bare[0] = true;
        assert_eq!(tell(&mut all, 0, 100, 620, 650), at(620), "a program takes out frames as they come");
        all.bare[0] = false;
        rustix::io::pwrite(&page, &0u32.to_ne_bytes(), 4).unwrap();
        assert_eq!(tell(&mut all, 0, 54, 700, 700), at(700), "it has nothing to do");
        let seen = all.crossings;
        assert_eq!((seen.acknowledgements, seen.to_idle, seen.lead.len(), seen.lag.len()), (1, 1, 4, 4));
        assert_eq!((seen.lead.max(), seen.lag.max() / 10), (50, 60));
    }

    #[test]
    fn a_stream_is_read_in_batches_and_single_frames_one_by_one() {
        let all = |a: Appetite| a.frames;
        let mut port = Appetite::FIRST;
        for round in [3, 9, 20] {
            port = port.after(round, all(port));
            assert_eq!(port.frames, 1, "it sends one now and then");
        }
        for round in 21..40 {
            port = port.after(round, all(port));
        }
        assert_eq!(port.frames, BATCH);
        port = port.after(40, 5);
        assert_eq!(port.frames, 5);
        port = port.after(41, 0);
        assert_eq!(port.frames, 1);
    }
}
