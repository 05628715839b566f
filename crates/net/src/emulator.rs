//! The emulator's thread: carries frames between the nodes' interfaces and the [`Network`], in real time.
//!
//! It sleeps until shortly before the next deadline and then polls without sleeping, so that a frame leaves within a
//! microsecond or so of the instant computed for it, whatever the scheduler's timers are worth.

use std::any::Any;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;
use scale::{RealDuration, RealInstant};

use crate::awake::Awake;
use crate::capture::{Capture, CaptureFile, Sniffer, Stamp};
use crate::lateness::{Lateness, Recorder};
use crate::network::{Delivery, Network, PortCounters};
use crate::observation::{Observation, PipeObservation, PortObservation};
use crate::pipe::PipeCounters;
use crate::series::PipeInterval;
use crate::spec::PipeChange;
use crate::tap::Tap;
use crate::topology::{PipeId, PortId};
use crate::{Error, realtime};

/// How long before a deadline the thread stops sleeping: more than a wake-up takes, and enough to fetch again into the
/// caches what others have driven out. With 15 µs one frame in ten left 10 µs late; more takes the core from the
/// harness's other threads.
const SPIN: RealDuration = RealDuration::from_nanos(30_000);
/// A wait that took longer than this was one for a frame; any other found it there.
const WOKEN: RealDuration = RealDuration::from_nanos(5_000);
/// The most that a look at the ports which finds nothing takes by itself.
const LONGEST_ROUND: RealDuration = RealDuration::from_nanos(5_000);
/// Frames read from one port before the others have their turn.
const BATCH: usize = 32;
/// The event that stands for a command; all others are port numbers.
const COMMAND: u64 = u64::MAX;

/// How the emulator runs.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The core that its thread is bound to; it should have that core for itself, and keeps it from sleeping, so it
    /// shows as fully used. `None`: any core, and no care for its sleep.
    pub core: Option<usize>,
    /// Looks at the interfaces this often instead of being woken by what arrives there. `None`: is woken.
    pub polling: Option<RealDuration>,
}

/// A running emulator. When this value is dropped the thread ends, and the interfaces lead nowhere.
#[derive(Debug)]
pub struct Emulator {
    taps: Arc<Vec<Tap>>,
    pipe_names: Vec<String>,
    ports: Vec<(String, String)>,
    commands: Sender<Command>,
    wake: Arc<OwnedFd>,
    /// Why the thread has ended without being told to.
    epitaph: Arc<OnceLock<String>>,
    thread: Option<JoinHandle<()>>,
    _awake: Option<Awake>,
}

#[derive(Debug)]
enum Command {
    Set { changes: Vec<(PipeId, PipeChange)>, reply: Sender<Result<RealInstant, Error>> },
    Observe { ends_series: bool, reply: Sender<Snapshot> },
    StartSeries { from: RealInstant, every: RealDuration },
    Sniff { sniffer: Option<Sniffer>, reply: Sender<Option<Sniffer>> },
    Stop,
}

/// What the thread itself knows of an [`Observation`].
#[derive(Debug)]
struct Snapshot {
    at: RealInstant,
    pipes: Vec<PipeCounters>,
    ports: Vec<(PortCounters, u64)>,
    intervals: Vec<PipeInterval>,
    lateness: Lateness,
    cpu: RealDuration,
    spun: RealDuration,
}

impl Emulator {
    /// Starts the thread. `taps` are the interfaces of all ports of `network`, in any order.
    ///
    /// Fails with [`Error::Machine`] if the thread may not run in real time or not on that core.
    pub fn start(network: Network, mut taps: Vec<Tap>, options: Options) -> Result<Emulator, Error> {
        taps.sort_by_key(Tap::port);
        let ports: Vec<_> = network.ports().iter().map(|p| (p.node.clone(), p.name.clone())).collect();
        if !taps.iter().map(Tap::port).eq(network.ports().iter().map(|p| p.id)) {
            return Err(Error::Input(format!(
                "the emulator was given {} interfaces for the {} ports of its network; each port needs its own",
                taps.len(),
                ports.len()
            )));
        }
        let taps = Arc::new(taps);
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = Arc::new(wake.map_err(|e| Error::system("cannot make an eventfd")(e.into()))?);
        let (commands, inbox) = channel();
        let (ready, started) = channel();
        let epitaph = Arc::new(OnceLock::new());
        let pipe_names = network.pipe_names().to_vec();

        let awake = options.core.map(Awake::keep).transpose()?;
        let (thread_taps, thread_wake, thread_epitaph) = (taps.clone(), wake.clone(), epitaph.clone());
        let body = move || {
            let life = AssertUnwindSafe(|| {
                let looped = realtime::enter(options.core)
                    .and_then(|()| Loop::new(network, thread_taps, &thread_wake, inbox, options.polling))
                    .map_err(|e| drop(ready.send(Err(e))));
                let Ok(mut looped) = looped else { return };
                drop(ready.send(Ok(())));
                if let Err(e) = looped.run() {
                    drop(thread_epitaph.set(e.to_string()));
                }
            });
            if let Err(panic) = catch_unwind(life) {
                drop(thread_epitaph.set(said(&*panic)));
            }
            // Whoever asks for the reason waits for one, so there always is one.
            drop(thread_epitaph.set("its thread has ended".into()));
        };
        let thread = thread::Builder::new().name("emulator".into()).spawn(body);
        let thread = Some(thread.map_err(Error::system("cannot start the emulator's thread"))?);
        let emulator = Emulator { taps, pipe_names, ports, commands, wake, epitaph, thread, _awake: awake };
        started.recv().unwrap_or_else(|_| Err(emulator.died()))?;
        Ok(emulator)
    }

    /// The names of all pipes, in the order of their numbers.
    pub fn pipe_names(&self) -> &[String] {
        &self.pipe_names
    }

    /// Changes pipes, all at the same instant; returns when that has taken effect, with the instant.
    ///
    /// Fails with [`Error::Input`], changing nothing, if a number is out of its range.
    pub fn set(&self, changes: Vec<(PipeId, PipeChange)>) -> Result<RealInstant, Error> {
        self.ask(|reply| Command::Set { changes, reply })?
    }

    /// Everything counted since the start.
    pub fn observe(&self) -> Result<Observation, Error> {
        self.observation(false)
    }

    fn observation(&self, ends_series: bool) -> Result<Observation, Error> {
        let snapshot = self.ask(|reply| Command::Observe { ends_series, reply })?;
        let pipes = self.pipe_names.iter().zip(snapshot.pipes);
        let ports = self.taps.iter().zip(&self.ports).zip(snapshot.ports);
        Ok(Observation {
            at: snapshot.at,
            pipes: pipes.map(|(name, counters)| PipeObservation { name: name.clone(), counters }).collect(),
            ports: ports
                .map(|((tap, (node, interface)), (refused, write_errors))| {
                    let drops = tap.drops();
                    PortObservation {
                        port: tap.port(),
                        node: node.clone(),
                        interface: interface.clone(),
                        refused,
                        write_errors,
                        ring_drops: drops.map(|d| d.ring),
                        receive_drops: drops.map(|d| d.receive),
                    }
                })
                .collect(),
            intervals: snapshot.intervals,
            lateness: snapshot.lateness,
            cpu: snapshot.cpu,
            spun: snapshot.spun,
        })
    }

    /// Starts to record what each pipe does, in intervals of `every` from `from` on; [`Emulator::observe`] gives them.
    pub fn start_series(&self, from: RealInstant, every: RealDuration) {
        self.send(Command::StartSeries { from, every });
    }

    /// Ends that record, with everything counted until the same instant: the interval that is running is included, and is shorter.
    pub fn end_series(&self) -> Result<Observation, Error> {
        self.observation(true)
    }

    /// Records every frame that enters one of some pipes, from now on until [`Capture::finish`]. `stamp` says what date a frame bears.
    ///
    /// One at a time: a second one ends the first. Fails if a file cannot be made.
    pub fn capture(&self, files: Vec<CaptureFile>, stamp: Stamp) -> Result<Capture, Error> {
        let (capture, sniffer) = Capture::start(files, &self.pipe_names, stamp)?;
        self.ask(|reply| Command::Sniff { sniffer: Some(sniffer), reply })?;
        Ok(capture)
    }

    /// What was recorded until now goes to its files, and nothing more.
    pub(crate) fn end_capture(&self) -> Result<(), Error> {
        self.ask(|reply| Command::Sniff { sniffer: None, reply }).map(drop)
    }

    /// Ends the thread; what was counted until then. What is in the pipes is lost.
    pub fn stop(self) -> Result<Observation, Error> {
        self.observe()
    }

    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<T, Error> {
        let (reply, answer) = channel();
        self.send(command(reply));
        answer.recv().map_err(|_| self.died())
    }

    /// A command to a dead thread is lost: the answer, or its absence, tells.
    fn send(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            // The counter of an eventfd cannot overflow by ones, so this write does not fail.
            let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        }
    }

    /// A thread that dies drops its end of the channels first and leaves its reason last, so this waits for it.
    fn died(&self) -> Error {
        Error::Died(self.epitaph.wait().clone())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            // Its panic, if any, is in the epitaph.
            drop(thread.join());
        }
    }
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".into())
}

/// The thread's own state.
struct Loop<'a> {
    network: Network,
    ports: Ports,
    epoll: OwnedFd,
    wake: &'a OwnedFd,
    inbox: Receiver<Command>,
    polling: Option<RealDuration>,
    breaks: realtime::Breaks,
    /// How long it has looked, awake, and found nothing to do.
    spun: RealDuration,
    /// By port.
    appetites: Vec<Appetite>,
    /// How often the thread has looked at its ports.
    round: u32,
}

/// How many frames to read from a port before the others get their turn.
///
/// One that sends now and then has one frame at a time, and to look for a second costs a system call for nothing; one that
/// sends a stream has many, and to be told of each costs one too.
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

/// The interfaces, and what is recorded when a frame is handed to one.
struct Ports {
    taps: Arc<Vec<Tap>>,
    write_errors: Vec<u64>,
    recorder: Recorder,
}

impl Ports {
    fn deliver(&mut self, delivery: Delivery) {
        // The receiver's protocol processing happens inside the write, so the clock is read before it.
        self.recorder.delivered(realtime::now(), delivery.exit);
        let port = delivery.port.index();
        if rustix::io::write(&self.taps[port], delivery.frame).is_err() {
            self.write_errors[port] += 1;
        }
    }
}

impl<'a> Loop<'a> {
    fn new(
        network: Network,
        taps: Arc<Vec<Tap>>,
        wake: &'a OwnedFd,
        inbox: Receiver<Command>,
        polling: Option<RealDuration>,
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
        let now = realtime::now();
        let ports = Ports { write_errors: vec![0; taps.len()], taps, recorder: Recorder::new(now) };
        let appetites = vec![Appetite::FIRST; ports.taps.len()];
        let breaks = realtime::Breaks::new(now);
        let spun = RealDuration::ZERO;
        Ok(Loop { network, ports, epoll, wake, inbox, polling, breaks, spun, appetites, round: 0 })
    }

    fn run(&mut self) -> Result<(), Error> {
        let mut events = Vec::with_capacity(256);
        let mut looked = realtime::now();
        loop {
            let now = realtime::now();
            let due = self.network.next_deadline().is_some_and(|deadline| deadline <= now);
            self.network.advance(now, |delivery| self.ports.deliver(delivery));
            let tired = realtime::now();
            let now = self.breaks.consider(tired, self.spun);
            self.ports.recorder.looked(now, now.since(looked));

            // Zero when the deadline is near: the loop then spins, looking at the ports all the time.
            let sleep = self.network.next_deadline().map(|deadline| deadline.since(now + SPIN));
            let idle = events.is_empty() && !due && now == tired && sleep == Some(RealDuration::ZERO);
            events.clear();
            self.wait(sleep, &mut events)?;
            let previous = std::mem::replace(&mut looked, realtime::now());
            if idle && events.is_empty() {
                // Such a round takes a microsecond. One that took longer was interrupted, and that was no CPU time of this thread.
                self.spun = self.spun + looked.since(previous).min(LONGEST_ROUND);
            }
            // One who was woken was so by the frame, or else the time since the last look is the most that it can have waited.
            let woken = self.polling.is_none() && looked.since(now) > WOKEN;
            let gap = if woken { RealDuration::ZERO } else { looked.since(previous) };
            self.round = self.round.wrapping_add(1);
            for event in &events {
                match event.data.u64() {
                    COMMAND => {
                        if !self.obey() {
                            return Ok(());
                        }
                    }
                    port => self.read(PortId(port as u32), gap),
                }
            }
        }
    }

    /// Waits for frames and commands, for `longest` at most. One who polls sleeps where no frame can find it.
    fn wait(&self, longest: Option<RealDuration>, events: &mut Vec<epoll::Event>) -> Result<(), Error> {
        let mut timeout = longest;
        if let Some(interval) = self.polling {
            timeout = Some(RealDuration::ZERO);
            let nap = longest.map_or(interval, |longest| longest.min(interval));
            if nap > RealDuration::ZERO {
                realtime::nap(nap);
            }
        }
        match epoll::wait(&self.epoll, spare_capacity(events), timeout.map(realtime::timespec).as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
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
                let now = realtime::now();
                // What is due leaves first: pipes must see frames in the order of their instants.
                self.network.advance(now, |delivery| self.ports.deliver(delivery));
                self.network.inject(port, now, frame);
                self.ports.recorder.seen(gap);
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
                Command::Observe { ends_series, reply } => {
                    let now = self.catch_up();
                    let ended = ends_series.then(|| self.network.end_series(now));
                    drop(reply.send(self.snapshot(ended)));
                }
                Command::StartSeries { from, every } => {
                    self.catch_up();
                    self.network.start_series(from, every);
                }
                // The caller gives back the memory of what was used until now.
                Command::Sniff { sniffer, reply } => drop(reply.send(self.network.sniff(sniffer))),
            }
        }
        true
    }

    /// Brings the network up to now.
    fn catch_up(&mut self) -> RealInstant {
        let now = realtime::now();
        self.network.advance(now, |delivery| self.ports.deliver(delivery));
        now
    }

    /// `intervals`: those to report, or `None` for all that have ended.
    fn snapshot(&mut self, intervals: Option<Vec<PipeInterval>>) -> Snapshot {
        let intervals = intervals.unwrap_or_else(|| self.network.intervals());
        let refused = self.network.ports().iter().map(|p| self.network.port_counters(p.id));
        Snapshot {
            intervals,
            at: realtime::now(),
            pipes: self.network.all_pipe_counters().collect(),
            ports: refused.zip(self.ports.write_errors.iter().copied()).collect(),
            lateness: self.ports.recorder.record(),
            cpu: realtime::cpu_time(),
            spun: self.spun,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
