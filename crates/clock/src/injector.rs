//! The thread that puts the guest image into every program at `execve`.
//!
//! It serves any number of listeners (one for each `dilate-exec`) and any number of execs at once, each a [`Tracee`] that is
//! dealt with when it stops, so that a slow exec delays nobody. Between execs it sleeps. One thing cannot be done without
//! waiting for the program: giving it the memfd. Each listener has a [`Giver`] for that.
//!
//! Threads of *one* process have their turn one after the other. The kernel ends all others when one has executed,
//! and holds a lock meanwhile that attaching needs too: an injector that attached to a second thread would wait in the
//! kernel for the first one, which waits for the second, attached, to be reaped by the injector.
//!
//! Rules for the process that it lives in:
//! - `waitpid(-1)` belongs to nobody: the injector waits for its tracees only (`__WNOTHREAD`), and others must wait
//!   for children that they know, or they take the injector's stops.
//! - A *direct* child of this process that is dilated must be waited for by pidfd first ([`crate::wait`]): the kernel
//!   shows a tracee's stops to its parent's threads too, if tracer and parent are one process. If such a child is killed in
//!   the midst of an exec, the injector may be the one who reaps it.
//! - SIGCHLD gets a handler (by signal-hook, so others may have theirs).

use std::collections::HashMap;
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use libc::pid_t;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType};
use scale::{Tdf, VirtualInstant};
use signal_hook::SigId;

use crate::giver::Giver;
use crate::layout::CALL_MEMFD;
use crate::notify::{self, Notification};
use crate::tracee::{self, Outcome, Recipe, Tracee};
use crate::{ClockPage, CpuRate, Error, standstill};

/// What the injector has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InjectorCounters {
    /// Programs that were started dilated.
    pub injected: u64,
    /// Calls of execve that the kernel itself refused, mostly a shell looking along `PATH`.
    pub not_executed: u64,
    /// Programs that could not be dilated, and so were not run.
    pub refused: u64,
}

#[derive(Debug, Default)]
struct Counters {
    injected: AtomicU64,
    not_executed: AtomicU64,
    refused: AtomicU64,
}

/// The running injector. Dropping it stops the thread; what is dilated then runs on, but can start no program any more.
#[derive(Debug)]
pub struct Injector {
    admissions: mpsc::Sender<Admission>,
    changes: mpsc::Sender<Change>,
    wake: Arc<OwnedFd>,
    stop: Arc<AtomicBool>,
    counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Admission {
    socket: OwnedFd,
    cpu: CpuRate,
}

/// A change of the rate that the thread is to make when no exec is under way.
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
    /// From now on the clocks run at 1/`tdf`, and all that waits for a time, or for a timer, waits until the same virtual instant
    /// as before: all programs stand still for the change. Gives its virtual instant; before the page's start nothing is changed.
    pub fn set_tdf(&self, tdf: Tdf) -> Result<VirtualInstant, Error> {
        let (done, when) = mpsc::channel();
        self.changes.send(Change { tdf, done }).map_err(|_| Error::InjectorEnded)?;
        wake(&self.wake);
        when.recv().map_err(|_| Error::InjectorEnded)
    }
}

impl Injector {
    /// Starts the thread, on `core` if one is given. `refused` is called by the thread, with a sentence, for each program
    /// that could not be dilated.
    pub fn start(
        page: &ClockPage,
        core: Option<usize>,
        refused: impl Fn(&str) + Send + 'static,
    ) -> Result<Injector, Error> {
        let recipe = Recipe::new()?;
        let (admissions, admitted) = mpsc::channel();
        let (changes, asked) = mpsc::channel();
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = Arc::new(wake.map_err(Error::system("no eventfd for the injector"))?);
        let stop = Arc::new(AtomicBool::new(false));
        let counters = Arc::new(Counters::default());
        let mut work = Work::new(page.clone(), recipe, Box::new(refused), counters.clone(), &wake)?;
        let (ended, woken) = (stop.clone(), wake.clone());
        let thread = std::thread::Builder::new().name("injector".to_owned()).spawn(move || {
            settle(core);
            while !ended.load(Ordering::Acquire) {
                work.turn(&admitted, &woken);
                work.change_rate(&asked);
            }
        });
        let thread = thread.map_err(Error::system("the injector's thread cannot be started"))?;
        Ok(Injector { admissions, changes, wake, stop, counters, thread: Some(thread) })
    }

    /// Admits one more command: gives the descriptor that `dilate-exec` must find as number 3 ([`crate::launch()`] sees to
    /// that). `cpu` is how the CPU clocks of the command and its descendants relate to the kernel's.
    ///
    /// The descriptor is close-on-exec; drop it once the command has its own copy.
    pub fn admit(&self, cpu: CpuRate) -> Result<OwnedFd, Error> {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(Error::system("no socket pair for dilate-exec"))?;
        self.admissions.send(Admission { socket: ours, cpu }).map_err(|_| Error::InjectorEnded)?;
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

    /// What has been done so far.
    pub fn counters(&self) -> InjectorCounters {
        let read = |c: &AtomicU64| c.load(Ordering::Relaxed);
        InjectorCounters {
            injected: read(&self.counters.injected),
            not_executed: read(&self.counters.not_executed),
            refused: read(&self.counters.refused),
        }
    }
}

fn wake(thread: &OwnedFd) {
    // It fails only if the count is full, and then the thread is awake.
    let _ = rustix::io::write(thread, &1u64.to_ne_bytes());
}

impl Drop for Injector {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        wake(&self.wake);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Pins the calling thread, and leaves all signals but SIGCHLD to the others.
fn settle(core: Option<usize>) {
    // SAFETY: the sets live on this stack, and the calls change this thread only.
    unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut mask);
        libc::sigdelset(&mut mask, libc::SIGCHLD);
        libc::pthread_sigmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
        if let Some(core) = core {
            let mut cpus: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(core, &mut cpus);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &cpus);
        }
    }
}

const WAKE: u64 = 0;
const CHILD: u64 = 1;
const FIRST_SOURCE: u64 = 2;

/// Something of a command's that the thread listens to.
enum Source {
    /// The socket over which its listener will come.
    Socket(Admission),
    /// Its seccomp listener.
    Listener(Arc<OwnedFd>, CpuRate, Giver),
}

/// A thread that must not be attached to before another one of its process is done.
struct Held {
    /// The other one.
    behind: pid_t,
    listener: Arc<OwnedFd>,
    cpu: CpuRate,
    notification: Notification,
}

struct Work {
    page: ClockPage,
    recipe: Recipe,
    refused: Box<dyn Fn(&str) + Send>,
    counters: Arc<Counters>,
    epoll: OwnedFd,
    sources: HashMap<u64, Source>,
    next_source: u64,
    tracees: HashMap<pid_t, Tracee>,
    held: Vec<Held>,
    /// Waits until no exec is under way; meanwhile no other begins.
    change: Option<Change>,
    /// A byte for every SIGCHLD: a tracee has stopped.
    child: UnixStream,
    child_handler: SigId,
}

impl Drop for Work {
    fn drop(&mut self) {
        signal_hook::low_level::unregister(self.child_handler);
    }
}

impl Work {
    fn new(
        page: ClockPage,
        recipe: Recipe,
        refused: Box<dyn Fn(&str) + Send>,
        counters: Arc<Counters>,
        wake: &OwnedFd,
    ) -> Result<Work, Error> {
        let no_signal = |source| Error::System { what: "SIGCHLD cannot be watched", source };
        let (child, told) = UnixStream::pair().map_err(no_signal)?;
        child.set_nonblocking(true).map_err(no_signal)?;
        let child_handler = signal_hook::low_level::pipe::register(libc::SIGCHLD, told).map_err(no_signal)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::system("no epoll for the injector"))?;
        let work = Work {
            page,
            recipe,
            refused,
            counters,
            epoll,
            sources: HashMap::new(),
            next_source: FIRST_SOURCE,
            tracees: HashMap::new(),
            held: Vec::new(),
            change: None,
            child,
            child_handler,
        };
        work.watch(wake.as_fd(), WAKE).map_err(Error::system("no epoll for the injector"))?;
        work.watch(work.child.as_fd(), CHILD).map_err(Error::system("no epoll for the injector"))?;
        Ok(work)
    }

    fn watch(&self, fd: BorrowedFd, key: u64) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, fd, EventData::new_u64(key), EventFlags::IN)
    }

    /// Sleeps until something happens, and deals with it.
    fn turn(&mut self, admitted: &mpsc::Receiver<Admission>, wake: &OwnedFd) {
        let mut room = [const { MaybeUninit::<Event>::uninit() }; 64];
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut room, None) else {
            // Interrupted by SIGCHLD, and so its byte is there.
            return;
        };
        for event in events {
            let (key, flags) = (event.data.u64(), event.flags);
            match key {
                WAKE => {
                    let _ = rustix::io::read(wake, &mut [0u8; 8]);
                    for admission in admitted.try_iter() {
                        self.listen(Source::Socket(admission));
                    }
                }
                CHILD => {
                    while self.child.read(&mut [0; 64]).is_ok_and(|n| n > 0) {}
                    self.reap();
                }
                _ => self.serve(key, flags),
            }
        }
    }

    /// Makes the change that is asked for, if it can be made now.
    fn change_rate(&mut self, asked: &mpsc::Receiver<Change>) {
        loop {
            self.change = self.change.take().or_else(|| asked.try_recv().ok());
            // A held thread is behind a tracee.
            if !self.tracees.is_empty() || self.change.is_none() {
                return;
            }
            let Some(Change { tdf, done }) = self.change.take() else { return };
            let (at, said) = standstill::change(&self.page, tdf);
            said.iter().for_each(|sentence| (self.refused)(sentence));
            // Whoever asked may have gone.
            let _ = done.send(at);
        }
    }

    fn listen(&mut self, source: Source) {
        let fd = match &source {
            Source::Socket(admission) => admission.socket.as_fd(),
            Source::Listener(listener, ..) => listener.as_fd(),
        };
        match self.watch(fd, self.next_source) {
            Ok(()) => {
                self.sources.insert(self.next_source, source);
                self.next_source += 1;
            }
            // Dropping the descriptor makes the command fail with a sentence of its own.
            Err(e) => (self.refused)(&format!("a command cannot be served: {e}")),
        }
    }

    fn serve(&mut self, key: u64, flags: EventFlags) {
        let readable = flags.contains(EventFlags::IN);
        match self.sources.get(&key) {
            Some(Source::Socket(admission)) if readable => match receive_fd(admission.socket.as_fd()) {
                Ok(Some(listener)) => {
                    notify::take_turns(listener.as_fd());
                    let (listener, cpu) = (Arc::new(listener), admission.cpu);
                    match Giver::start(&listener, &self.page) {
                        Ok(giver) => self.listen(Source::Listener(listener, cpu, giver)),
                        Err(e) => (self.refused)(&format!("a command cannot be served: {e}")),
                    }
                }
                Ok(None) => drop(self.sources.remove(&key)),
                Err(e) => {
                    (self.refused)(&format!("the listener of a command did not arrive: {e}"));
                    self.sources.remove(&key);
                }
            },
            // It will still be readable.
            Some(Source::Listener(..)) if readable && self.change.is_some() => (),
            Some(Source::Listener(listener, cpu, giver)) if readable => {
                // NotFound: killed between the event and now.
                let Ok(notification) = notify::receive(listener.as_fd()) else { return };
                if notification.nr as u64 == CALL_MEMFD {
                    match notification.args[0] as i32 {
                        0 => giver.give(notification),
                        error => self.end(notification.pid as pid_t, &no_room(error)),
                    }
                    return;
                }
                let (listener, cpu) = (listener.clone(), *cpu);
                if i64::from(notification.nr) == libc::SYS_ptrace {
                    self.refuse(&not_traced(notification.pid as pid_t));
                    // Fails only if the thread was killed meanwhile.
                    let _ = notify::refuse(listener.as_fd(), notification.id, libc::EPERM);
                    return;
                }
                self.execute(listener, cpu, notification);
            }
            // Hung up: the command, and for a listener its last descendant, is gone. Closing ends the watch.
            Some(_) => drop(self.sources.remove(&key)),
            None => (),
        }
    }

    /// Lets a thread execute, now or after the other one of its process that is at it.
    fn execute(&mut self, listener: Arc<OwnedFd>, cpu: CpuRate, notification: Notification) {
        let tid = notification.pid as pid_t;
        if let Some(behind) = self.sibling(tid) {
            self.held.push(Held { behind, listener, cpu, notification });
            return;
        }
        match attach(listener.as_fd(), cpu, &notification) {
            Ok(Some(tracee)) => drop(self.tracees.insert(tid, tracee)),
            Ok(None) => (),
            Err(why) => {
                self.refuse(&why);
                // Fails only if the thread was killed meanwhile.
                let _ = notify::refuse(listener.as_fd(), notification.id, libc::EPERM);
            }
        }
    }

    /// A tracee of the same process as `tid`. Nothing is asked of the kernel while there are no tracees.
    fn sibling(&mut self, tid: pid_t) -> Option<pid_t> {
        if self.tracees.is_empty() {
            return None;
        }
        let process = tracee::process_of(tid)?;
        self.tracees.values_mut().find_map(|tracee| (tracee.process() == Some(process)).then(|| tracee.tid()))
    }

    /// `tid` is no tracee any more: those behind it have their turn, unless they have ended with it.
    fn done(&mut self, tid: pid_t) {
        for held in self.held.extract_if(.., |held| held.behind == tid).collect::<Vec<_>>() {
            if notify::still_waits(held.listener.as_fd(), held.notification.id) {
                self.execute(held.listener, held.cpu, held.notification);
            }
        }
    }

    fn refuse(&self, sentence: &str) {
        self.counters.refused.fetch_add(1, Ordering::Relaxed);
        (self.refused)(sentence);
    }

    /// Ends a program that must not run undilated. It stands under our eyes, so the number is still its own. Whoever sees it
    /// dead must find the reason told.
    fn end(&self, pid: pid_t, why: &str) {
        self.refuse(&format!("{} (process {pid}) was ended: {why}", name_of(pid)));
        // SAFETY: no memory involved.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }

    /// Deals with every tracee that has stopped.
    fn reap(&mut self) {
        loop {
            let mut status = 0;
            // __WNOTHREAD: this thread's tracees, never another thread's children.
            // SAFETY: `status` is a valid place to write to.
            let pid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG) };
            if pid <= 0 {
                return;
            }
            if libc::WIFSTOPPED(status) {
                self.stopped(pid, status);
            } else if self.tracees.remove(&pid).is_some() {
                self.done(pid);
            }
        }
    }

    fn stopped(&mut self, pid: pid_t, status: i32) {
        if status >> 16 == libc::PTRACE_EVENT_EXEC {
            // Another thread than the first has executed and now bears the first one's number.
            if let Ok(former) = tracee::former_tid(pid)
                && former != pid
                && let Some(moved) = self.tracees.remove(&former)
            {
                self.tracees.insert(pid, moved);
            }
        }
        let Some(tracee) = self.tracees.remove(&pid) else {
            // The end of a thread is told before all else, so this cannot be; if it is, nothing must stay stopped.
            let _ = tracee::detach(pid, 0);
            return;
        };
        match tracee.stopped(pid, status, &self.recipe) {
            Outcome::Injected => drop(self.counters.injected.fetch_add(1, Ordering::Relaxed)),
            Outcome::NotExecuted => drop(self.counters.not_executed.fetch_add(1, Ordering::Relaxed)),
            Outcome::Refused(why) => self.end(pid, &why),
            Outcome::Gone => (),
        }
        self.done(tracee.tid());
    }
}

/// Attaches to a thread that is about to execute, and lets it. The error is the sentence about a program that could not be
/// started.
fn attach(listener: BorrowedFd, cpu: CpuRate, n: &Notification) -> Result<Option<Tracee>, String> {
    let tid = n.pid as pid_t;
    let tracee = match Tracee::seize(tid, cpu) {
        Ok(tracee) => tracee,
        Err(e) => {
            if !notify::still_waits(listener, n.id) {
                return Ok(None);
            }
            let why = match tracer_of(tid) {
                Some(tracer) => format!(
                    "{} (process {tracer}) traces it; debuggers can attach to a dilated process, but not follow an exec",
                    name_of(tracer)
                ),
                None => format!("it cannot be attached to ({e})"),
            };
            return Err(format!("{} (process {tid}) may not start another program: {why}", name_of(tid)));
        }
    };
    // Told before it goes on (it only waits for us or for its death), so that it cannot run a single instruction of its old
    // program before it stops.
    tracee.interrupt();
    // If the thread was killed meanwhile this fails, and its end will be reported.
    let _ = notify::let_go(listener, n.id);
    Ok(Some(tracee))
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

fn no_room(error: i32) -> String {
    let error = io::Error::from_raw_os_error(error.wrapping_neg());
    format!("it has no room for the clock ({error}): it needs a free descriptor, and addresses that few programs use")
}

/// What is said of a process that asks to be traced by its parent.
fn not_traced(pid: pid_t) -> String {
    let parent = tracee::status_of(pid, "PPid:").unwrap_or(0);
    format!(
        "{} (process {pid}) may not have itself traced by {} (process {parent}): debuggers can attach to a dilated process, but \
         not start one",
        name_of(pid),
        name_of(parent)
    )
}

fn name_of(pid: pid_t) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    if name.trim().is_empty() { "a program".to_owned() } else { name.trim().to_owned() }
}

fn tracer_of(pid: pid_t) -> Option<pid_t> {
    tracee::status_of(pid, "TracerPid:").filter(|pid| *pid != 0)
}

/// The listener's number matters to nobody; naming it helps when debugging.
impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Socket(a) => write!(f, "Socket({})", a.socket.as_raw_fd()),
            Source::Listener(l, ..) => write!(f, "Listener({})", l.as_raw_fd()),
        }
    }
}
