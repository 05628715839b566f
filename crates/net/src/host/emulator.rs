//! The running emulator, as the rest of the program sees it: a thread that takes commands.

use std::any::Any;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use host::Awake;
use rustix::event::{EventfdFlags, eventfd};
use scale::{RealDuration, RealInstant};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::host::capture::{Capture, CaptureFile, Captured, Stamp};
use crate::host::clocks::Clocks;
use crate::host::event_loop::{Command, Dates, Loop};
use crate::host::observation::{Observation, PipeObservation, PortObservation};
use crate::host::passages::Passages;
use crate::host::realtime;
use crate::host::tap::Tap;
use crate::host::traffic::Traffic;
use crate::links::flow::FlowChange;
use crate::links::ids::{PipeId, PortId};
use crate::links::network::Network;
use crate::links::spec::PipeChange;

/// How the emulator runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    traffic: Traffic,
    commands: Sender<Command>,
    wake: Arc<OwnedFd>,
    /// Why the thread has ended without being told to.
    epitaph: Arc<OnceLock<String>>,
    thread: Option<JoinHandle<()>>,
    _awake: Option<Awake>,
}

impl Emulator {
    /// Starts the thread. `taps` are the interfaces of all ports of `network`, in any order, made with these `clocks`.
    ///
    /// Fails with [`Error::Machine`] if the thread may not run in real time or not on that core.
    pub fn start(network: Network, mut taps: Vec<Tap>, options: Options, clocks: Clocks) -> Result<Emulator, Error> {
        taps.sort_by_key(Tap::port);
        let ports: Vec<_> = network.ports().iter().map(|p| (p.node.clone(), p.name.clone())).collect();
        if !taps.iter().map(Tap::port).eq(network.ports().iter().map(|p| p.id)) {
            return Err(Error::Input(format!(
                "the emulator was given {} interfaces for the {} ports of its network; each port needs its own",
                taps.len(),
                ports.len()
            )));
        }
        let queues = taps.iter_mut().map(Tap::queues).collect();
        let taps = Arc::new(taps);
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = Arc::new(wake.map_err(|e| Error::system("cannot make an eventfd")(e.into()))?);
        let (commands, inbox) = channel();
        let (ready, started) = channel();
        let epitaph = Arc::new(OnceLock::new());
        let pipe_names = network.pipe_names().to_vec();

        let awake = options.core.map(Awake::keep).transpose().map_err(|e| Error::of_host("the emulator", e))?;
        let traffic = Traffic::of(ports.len());
        let (thread_taps, thread_wake, thread_epitaph) = (taps.clone(), wake.clone(), epitaph.clone());
        let counted = traffic.clone();
        let body = move || {
            let life = AssertUnwindSafe(|| {
                let looped = realtime::enter(options.core)
                    .and_then(|()| {
                        Loop::new(network, thread_taps, queues, counted, &thread_wake, inbox, options.polling, clocks)
                    })
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
            // `died` waits for a reason, so there is one however the thread ends.
            drop(thread_epitaph.set("its thread has ended".into()));
        };
        let thread = thread::Builder::new().name("emulator".into()).spawn(body);
        let thread = Some(thread.map_err(Error::system("cannot start the emulator's thread"))?);
        let emulator = Emulator { taps, pipe_names, ports, traffic, commands, wake, epitaph, thread, _awake: awake };
        started.recv().unwrap_or_else(|_| Err(emulator.died()))?;
        Ok(emulator)
    }

    /// The names of all pipes, in the order of their numbers.
    pub fn pipe_names(&self) -> &[String] {
        &self.pipe_names
    }

    /// Counters of what passes the nodes' interfaces, which anybody may read at any time.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// The ports of a node, by their places in [`Emulator::traffic`].
    pub fn ports_of(&self, node: &str) -> Vec<usize> {
        self.ports.iter().enumerate().filter(|(_, (of, _))| of == node).map(|(port, _)| port).collect()
    }

    /// Changes pipes, all at the same instant; returns when that has taken effect, with the instant.
    ///
    /// Fails with [`Error::Input`], changing nothing, if a number is out of its range.
    pub fn set(&self, changes: Vec<(PipeId, PipeChange)>) -> Result<RealInstant, Error> {
        self.ask(|reply| Command::Set { changes, reply })?
    }

    /// Which nodes cannot reach which others from now on, by their places: see [`Network::set_cut`].
    pub fn cut(&self, pairs: Vec<[usize; 2]>) -> Result<(), Error> {
        self.ask(|reply| Command::Cut { pairs, reply })
    }

    /// Whether somebody listens on a TCP port of the machine behind an interface that a program has for itself. It is
    /// asked, and what it has answered is told when this is called the next time.
    pub fn knock(&self, port: PortId, tcp: u16) -> Result<bool, Error> {
        self.ask(|reply| Command::Knock { port, tcp, reply })
    }

    /// Changes flows of the network's own, by their places, all at the same instant; returns when that has taken
    /// effect.
    ///
    /// Fails with [`Error::Input`], changing nothing, if there is no such flow or its frames would be too long.
    pub fn change_flows(&self, changes: Vec<(usize, FlowChange)>) -> Result<(), Error> {
        self.ask(|reply| Command::SetFlows { changes, reply })?
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
                    let counted = tap.counted();
                    PortObservation {
                        port: tap.port(),
                        node: node.clone(),
                        interface: interface.clone(),
                        refused,
                        write_errors,
                        ring_drops: counted.map(|c| c.ring),
                        receive_drops: counted.map(|c| c.receive),
                    }
                })
                .collect(),
            intervals: snapshot.intervals,
            flows: snapshot.flows,
            lateness: snapshot.lateness,
            clocks: snapshot.clocks,
            cpu: snapshot.cpu,
            spun: snapshot.spun,
        })
    }

    /// Starts to record what each pipe does, in intervals of `every` from `from` on; [`Emulator::observe`] gives them.
    pub fn start_series(&self, from: RealInstant, every: RealDuration) {
        self.send(Command::StartSeries { from, every });
    }

    /// From now on what the nodes' kernels say of the date by ICMP is what `date` says of the instant: ns since 1970.
    pub fn show_dates(&self, date: impl Fn(RealInstant) -> u64 + Send + 'static) {
        self.send(Command::ShowDates(Dates(Box::new(date))));
    }

    /// Ends that record, with everything counted until the same instant: the interval that is running is included, and
    /// is shorter.
    pub fn end_series(&self) -> Result<Observation, Error> {
        self.observation(true)
    }

    /// Records every frame that enters one of some pipes, from now on until [`Capture::finish`]. `stamp` says what date
    /// a frame bears.
    ///
    /// One at a time: a second one ends the first. Fails if a file cannot be made.
    pub fn capture(&self, files: Vec<CaptureFile>, stamp: Stamp) -> Result<Capture, Error> {
        let (capture, sniffer) = Capture::start(files, &self.pipe_names, stamp)?;
        self.ask(|reply| Command::Sniff { sniffer: Some(sniffer), reply })?;
        Ok(capture)
    }

    /// Frames recorded until now go to their files, and nothing more.
    fn end_capture(&self) -> Result<(), Error> {
        self.ask(|reply| Command::Sniff { sniffer: None, reply }).map(drop)
    }

    /// Notes what happens to the frames of nodes, by their places, from now on until [`Emulator::end_watch`].
    ///
    /// One at a time: a second one ends the first.
    pub fn watch(&self, nodes: &[usize]) -> Result<Passages, Error> {
        let (passages, watcher) = Passages::of(nodes);
        self.ask(|reply| Command::Watch { watcher: Some(watcher), reply })?;
        Ok(passages)
    }

    /// Notes nothing more; what has been noted until now can still be read.
    pub fn end_watch(&self) -> Result<(), Error> {
        self.ask(|reply| Command::Watch { watcher: None, reply }).map(drop)
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

// Here, so that what writes captures need not know the emulator.
impl Capture {
    /// Ends the capture and closes the files. Fails if one could not be written.
    pub fn finish(self, emulator: &Emulator) -> Result<Vec<Captured>, Error> {
        emulator.end_capture()?;
        self.join()
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
