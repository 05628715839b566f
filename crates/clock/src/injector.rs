//! The injector, which puts the guest image into every program at `execve`.
//!
//! It serves any number of listeners (one for each `dilate-exec`) and any number of execs at once ([`crate::crew`]).
//! The admitting thread receives the listeners of new commands, and changes the rate ([`crate::standstill`]).
//!
//! Rules for the process that it lives in:
//! - No thread may call `waitpid(-1)`: the injector waits for its tracees only (`__WNOTHREAD`), and others must wait
//!   for children that they know, or they take the injector's stops.
//! - A *direct* child of this process that is dilated must be waited for by pidfd first ([`crate::wait`]): the kernel
//!   shows a tracee's stops to its parent's threads too, if tracer and parent are one process. If such a child is
//!   killed in the midst of an exec, the injector may be the one who reaps it.
//! - Its threads block all signals but SIGCHLD, which the kernel does not even send while nobody handles or blocks it.

use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use host::node_clock::NodeClock;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::net::{AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType};
use scale::{Tdf, VirtualInstant};

use crate::crew::Crew;
use crate::settings::UntrueSetting;
use crate::standstill::Standstill;
use crate::{ClockPage, Error, VirtualCpu, supervise};

/// Counts of the injector's work so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InjectorCounters {
    /// Programs that were started dilated.
    pub injected: u64,
    /// Calls of execve that the kernel itself refused, mostly a shell looking along `PATH`.
    pub not_executed: u64,
    /// Programs that could not be dilated, and so were not run.
    pub refused: u64,
}

/// The running injector. Dropping it ends its work; what is dilated then runs on, but can start no program any more.
pub struct Injector {
    admissions: mpsc::Sender<Admission>,
    changes: mpsc::Sender<Change>,
    wake: Arc<OwnedFd>,
    stop: Arc<AtomicBool>,
    crew: Arc<Crew>,
    admitting: Option<JoinHandle<()>>,
}

struct Admission {
    socket: OwnedFd,
    cpu: VirtualCpu,
    of: String,
    clock: Option<NodeClock>,
}

/// A change of the rate that is to be made when no exec is under way.
#[derive(Debug)]
struct Change {
    tdf: Tdf,
    done: mpsc::Sender<VirtualInstant>,
}

/// Changes the rate at which all that an [`Injector`] serves runs. Outlives the injector, and then fails.
#[derive(Clone, Debug)]
pub struct RateChanger {
    changes: mpsc::Sender<Change>,
    wake: Arc<OwnedFd>,
}

impl RateChanger {
    /// From now on the clocks run at 1/`tdf`, and all that waits for a time, or for a timer, waits until the same
    /// virtual instant as before: all programs stand still for the change. Gives its virtual instant; before the page's
    /// start nothing is changed.
    pub fn set_tdf(&self, tdf: Tdf) -> Result<VirtualInstant, Error> {
        let (done, when) = mpsc::channel();
        self.changes.send(Change { tdf, done }).map_err(|_| Error::InjectorEnded)?;
        wake(&self.wake);
        when.recv().map_err(|_| Error::InjectorEnded)
    }
}

impl Injector {
    /// Starts the threads, on `core` if one is given. `refused` is called by one of them, with a sentence, for each
    /// program that could not be dilated.
    pub fn start(
        page: &ClockPage,
        core: Option<usize>,
        refused: impl Fn(&str) + Send + 'static,
    ) -> Result<Injector, Error> {
        let crew = Crew::new(page, core, Box::new(refused))?;
        let (admissions, admitted) = mpsc::channel();
        let (changes, asked) = mpsc::channel();
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = Arc::new(wake.map_err(Error::system("no eventfd for the injector"))?);
        let stop = Arc::new(AtomicBool::new(false));
        let mut admitter = Admitter::new(crew.clone(), &wake)?;
        let (ended, woken) = (stop.clone(), wake.clone());
        let thread = std::thread::Builder::new().name("injector-admits".to_owned()).spawn(move || {
            supervise::settle(core);
            while !ended.load(Ordering::Acquire) {
                admitter.turn(&admitted, &asked, &woken);
            }
        });
        let thread = thread.map_err(Error::system("the injector's thread cannot be started"))?;
        Ok(Injector { admissions, changes, wake, stop, crew, admitting: Some(thread) })
    }

    /// Admits one more command: gives the descriptor that `dilate-exec` must find as number 3, or as the one that it is
    /// told ([`crate::launch()`] sees to that). `cpu` is how the CPU clocks of the command and its descendants relate
    /// to the kernel's.
    ///
    /// The descriptor is close-on-exec; drop it once the command has its own copy.
    pub fn admit(&self, cpu: VirtualCpu) -> Result<OwnedFd, Error> {
        self.admit_as("", cpu, None)
    }

    /// Admits a command of somebody's, whom [`untrue_settings`](Self::untrue_settings) names, which is to live by
    /// the clock of a node, if one is given.
    pub fn admit_as(&self, of: &str, cpu: VirtualCpu, clock: Option<&NodeClock>) -> Result<OwnedFd, Error> {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(Error::system("no socket pair for dilate-exec"))?;
        let admission = Admission { socket: ours, cpu, of: of.to_owned(), clock: clock.cloned() };
        self.admissions.send(admission).map_err(|_| Error::InjectorEnded)?;
        wake(&self.wake);
        Ok(theirs)
    }

    /// A handle to change the rate with.
    pub fn rate_changer(&self) -> RateChanger {
        RateChanger { changes: self.changes.clone(), wake: self.wake.clone() }
    }

    /// See [`RateChanger::set_tdf`].
    pub fn set_tdf(&self, tdf: Tdf) -> Result<VirtualInstant, Error> {
        self.rate_changer().set_tdf(tdf)
    }

    /// Settings of the kernel that programs have made so far, and that are not what they take them for.
    pub fn untrue_settings(&self) -> Vec<UntrueSetting> {
        self.crew.untrue.lock().expect("nobody panics while holding the lock").iter().cloned().collect()
    }

    /// The name of a process, if it has wanted to trace others from their start, and was refused.
    pub fn refused_tracer(&self, pid: libc::pid_t) -> Option<String> {
        self.crew.tracers.lock().expect("nobody panics while holding the lock").get(&pid).cloned()
    }

    /// Names of programs that have taken away, from themselves or from others, what dilates them, and failed for it.
    pub fn unfit(&self) -> Vec<String> {
        self.crew.unfit.lock().expect("nobody panics while holding the lock").values().cloned().collect()
    }

    /// Counts of its work so far.
    pub fn counters(&self) -> InjectorCounters {
        let read = |c: &AtomicU64| c.load(Ordering::Relaxed);
        let counters = &self.crew.counters;
        InjectorCounters {
            injected: read(&counters.injected),
            not_executed: read(&counters.not_executed),
            refused: read(&counters.refused),
        }
    }
}

fn wake(thread: &OwnedFd) {
    // It fails only if the count is full, and then the thread is awake.
    let _ = rustix::io::write(thread, &1u64.to_ne_bytes());
}

impl std::fmt::Debug for Injector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Injector").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

impl Drop for Injector {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        wake(&self.wake);
        if let Some(thread) = self.admitting.take() {
            let _ = thread.join();
        }
        self.crew.stop();
    }
}

const WAKE: u64 = 0;
const FIRST_SOCKET: u64 = 1;

/// How often to look after threads that a change of the rate could not stop.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Receives the listeners of new commands, and changes the rate.
struct Admitter {
    crew: Arc<Crew>,
    epoll: OwnedFd,
    /// Those over which a listener may come.
    sockets: HashMap<u64, Admission>,
    next: u64,
    standstill: Standstill,
    /// A change of the rate may have left threads attached that had not stopped: they are let go when they do.
    left: bool,
}

impl Admitter {
    fn new(crew: Arc<Crew>, wake: &OwnedFd) -> Result<Admitter, Error> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::system("no epoll for the injector"))?;
        let standstill = Standstill::default();
        let admitter = Admitter { crew, epoll, sockets: HashMap::new(), next: FIRST_SOCKET, standstill, left: false };
        admitter.watch(wake.as_fd(), WAKE).map_err(Error::system("no epoll for the injector"))?;
        Ok(admitter)
    }

    fn watch(&self, fd: BorrowedFd, key: u64) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, fd, EventData::new_u64(key), EventFlags::IN)
    }

    /// Sleeps until something happens, and deals with it.
    fn turn(&mut self, admitted: &mpsc::Receiver<Admission>, asked: &mpsc::Receiver<Change>, wake: &OwnedFd) {
        let mut room = [const { MaybeUninit::<Event>::uninit() }; 64];
        let patience = self.left.then_some(&LOOK_AGAIN);
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut room, patience) else { return };
        for event in events {
            let (key, flags) = (event.data.u64(), event.flags);
            if key == WAKE {
                let _ = rustix::io::read(wake, &mut [0u8; 8]);
                for admission in admitted.try_iter() {
                    self.admit(admission);
                }
            } else if flags.contains(EventFlags::IN) {
                self.receive(key);
            } else {
                // Hung up. Closing ends the watch.
                self.sockets.remove(&key);
            }
        }
        for Change { tdf, done } in asked.try_iter() {
            let at = self.crew.change_rate(&mut self.standstill, tdf);
            self.left = true;
            // The caller may no longer be waiting for the answer.
            let _ = done.send(at);
        }
        if self.left {
            self.left = self.standstill.release_left();
        }
    }

    fn admit(&mut self, admission: Admission) {
        match self.watch(admission.socket.as_fd(), self.next) {
            Ok(()) => {
                self.sockets.insert(self.next, admission);
                self.next += 1;
            }
            // Dropping the descriptor makes the command fail with a sentence of its own.
            Err(e) => self.crew.report(&format!("a command cannot be served: {e}")),
        }
    }

    fn receive(&mut self, key: u64) {
        let Some(admission) = self.sockets.get(&key) else { return };
        match receive_fd(admission.socket.as_fd()) {
            Ok(Some(listener)) => {
                let Admission { cpu, of, clock, .. } = admission;
                self.crew.serve(listener, *cpu, of.clone(), clock.clone())
            }
            Ok(None) => drop(self.sockets.remove(&key)),
            Err(e) => {
                self.crew.report(&format!("the listener of a command did not arrive: {e}"));
                self.sockets.remove(&key);
            }
        }
    }
}

/// The next listener from a `dilate-exec`; `None` when the other end is closed.
fn receive_fd(socket: BorrowedFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let message = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = part {
            return Ok(fds.next());
        }
    }
    if message.bytes == 0 { Ok(None) } else { Err(io::Error::other("a message without a descriptor")) }
}
