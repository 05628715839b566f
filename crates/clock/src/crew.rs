//! The threads that serve execs.
//!
//! Each listener has one thread that waits for its notifications, its leader. When one comes, the leader lets the exec
//! go, makes another thread the leader, and stays with the exec until its program runs. So each exec has a thread of
//! its own, none waits for another, and a thread sleeps where the kernel wakes it directly: asleep in `waitpid`, it
//! costs one switch. A thread that has nothing to do waits to be made leader, or ends if there are enough of those.
//!
//! Threads of *one* process that execute at once need no order among them: the kernel ends all others when one has
//! executed, and holds a lock meanwhile that attaching needs too, so it is only the second one's own thread that waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};

use host::node_clock::NodeClock;
use libc::pid_t;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use scale::{Tdf, VirtualInstant};

use crate::layout::{
    CALL_LISTENER, CALL_MEMFD, CALL_NOTE, COOKIE, EMPTIED, EXECUTE_SANDBOXED, IMAGE, LISTENED, NOT_GIVEN, TRACED,
    TRACED_WITHIN,
};
use crate::listeners::Listeners;
use crate::memory::{read_memory, write_memory};
use crate::notify::{self, Notification};
use crate::settings::{UntrueSetting, told};
use crate::standstill::Standstill;
use crate::tracee::{self, NODE_CLOCK, Outcome, Recipe, Tracee};
use crate::{ClockPage, Error, VirtualCpu, keep, supervise};

/// Threads beside one for each command. Beyond that an exec waits until another of its command is done.
const MOST: usize = 256;
/// Threads that are kept although they have nothing to do.
const IDLE: usize = 8;
const STACK: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub injected: AtomicU64,
    pub not_executed: AtomicU64,
    pub refused: AtomicU64,
}

/// The seccomp listener of a command.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) fd: OwnedFd,
    cpu: VirtualCpu,
    /// Whose programs it serves.
    of: String,
    /// The clock of the node that it is in.
    clock: Option<NodeClock>,
    /// Execs under way.
    busy: AtomicUsize,
    /// Its programs could not open the memfd by its name.
    unnamed: AtomicBool,
}

/// Called, with a sentence, for each program that could not be dilated.
pub(crate) type Refused = Box<dyn Fn(&str) + Send>;

pub(crate) struct Crew {
    page: ClockPage,
    recipe: Recipe,
    core: Option<usize>,
    pub counters: Counters,
    /// Settings that programs made and that are not in virtual time, as they told.
    pub untrue: Mutex<BTreeSet<UntrueSetting>>,
    /// Programs that wanted to trace others from their start, and were refused: their names, by process.
    pub tracers: Mutex<BTreeMap<pid_t, String>>,
    /// Programs that have taken away, from themselves or from others, what dilates them: their names, by process.
    pub unfit: Mutex<BTreeMap<pid_t, String>>,
    /// Threads, and their tracers, of which the user has been told that they are not told of calls.
    untold: Mutex<BTreeSet<(pid_t, pid_t)>>,
    refused: Mutex<Refused>,
    /// Those that programs have made.
    listeners: Arc<Listeners>,
    /// Read by each exec under way, and written by a change of the rate, which may not meet one.
    execs: RwLock<()>,
    /// Readable when all are to stop.
    stop: OwnedFd,
    state: Mutex<State>,
    vacancy: Condvar,
}

#[derive(Default)]
struct State {
    /// Listeners that need a leader.
    vacant: VecDeque<Arc<Listener>>,
    /// How many there are.
    listeners: usize,
    threads: usize,
    idle: usize,
    stopped: bool,
}

impl Crew {
    pub fn new(page: &ClockPage, core: Option<usize>, refused: Refused) -> Result<Arc<Crew>, Error> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(Error::system("no eventfd for the injector"))?;
        Ok(Arc::new(Crew {
            page: page.clone(),
            recipe: Recipe::new(page)?,
            core,
            counters: Counters::default(),
            untrue: Mutex::default(),
            tracers: Mutex::default(),
            unfit: Mutex::default(),
            untold: Mutex::default(),
            refused: Mutex::new(refused),
            listeners: Arc::default(),
            execs: RwLock::new(()),
            stop,
            state: Mutex::default(),
            vacancy: Condvar::new(),
        }))
    }

    /// Serves a command's listener until its last process is gone.
    pub fn serve(self: &Arc<Crew>, listener: OwnedFd, cpu: VirtualCpu, of: String, clock: Option<NodeClock>) {
        notify::take_turns(listener.as_fd());
        // A node's clock comes with the memfd, which is asked for then.
        let unnamed = AtomicBool::new(clock.is_some());
        let listener = Listener { fd: listener, cpu, of, clock, busy: AtomicUsize::new(0), unnamed };
        self.state().listeners += 1;
        if !self.find_leader(&Arc::new(listener)) {
            self.state().listeners -= 1;
            self.report("a command cannot be served: no thread can be started for it");
        }
    }

    /// Tells about something that could not be done.
    pub fn report(&self, sentence: &str) {
        (self.refused.lock().expect("nobody panics while telling"))(sentence);
    }

    /// Changes the rate when no exec is under way, for all that wait too. The virtual instant of the change.
    pub fn change_rate(&self, standstill: &mut Standstill, tdf: Tdf) -> VirtualInstant {
        let _alone = self.execs.write().expect("nobody panics while executing");
        let (at, said) = standstill.change(&self.page, tdf);
        said.iter().for_each(|sentence| self.report(sentence));
        at
    }

    /// Leads no listener any more. Execs that are under way are seen to their end.
    pub fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        state.vacant.clear();
        // It cannot fail: the count is never read, and is far from full.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        self.vacancy.notify_all();
        drop(state);
        self.listeners.stop();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding the lock")
    }

    /// Has another thread lead `listener`; false if there is none to be had.
    fn find_leader(self: &Arc<Crew>, listener: &Arc<Listener>) -> bool {
        let mut state = self.state();
        if state.stopped {
            return true;
        }
        if state.idle > state.vacant.len() {
            state.vacant.push_back(listener.clone());
            self.vacancy.notify_one();
            return true;
        }
        if state.threads >= MOST + state.listeners {
            return false;
        }
        let (crew, first) = (self.clone(), listener.clone());
        let work = move || crew.work(first);
        let started = std::thread::Builder::new().name("injector".to_owned()).stack_size(STACK).spawn(work);
        state.threads += usize::from(started.is_ok());
        started.is_ok()
    }

    /// The life of a thread.
    fn work(self: Arc<Crew>, first: Arc<Listener>) {
        supervise::settle(self.core);
        let mut next = Some(first);
        while let Some(listener) = next {
            self.lead(listener);
            next = self.next_vacancy();
        }
    }

    /// Waits to be made leader; `None` when the thread is to end.
    fn next_vacancy(&self) -> Option<Arc<Listener>> {
        let mut state = self.state();
        loop {
            if let Some(listener) = state.vacant.pop_front() {
                return Some(listener);
            }
            if state.stopped || state.idle >= IDLE {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            state = self.vacancy.wait(state).expect("nobody panics while holding the lock");
            state.idle -= 1;
        }
    }

    /// Leads a listener until another thread does, or no thread needs to.
    fn lead(self: &Arc<Crew>, listener: Arc<Listener>) {
        while let Some((notification, under_way)) = self.next(&listener) {
            let led_on = if notification.nr as u64 == CALL_MEMFD {
                drop(under_way);
                self.give(&listener, &notification)
            } else if notification.nr as u64 == CALL_NOTE {
                self.note(&listener, &notification);
                false
            } else if notification.nr as u64 == CALL_LISTENER && notification.args[0] == TRACED {
                drop(under_way);
                self.tell_of_tracer(&listener, notification.pid as pid_t, notification.id);
                false
            } else if notification.nr as u64 == CALL_LISTENER && notification.args[0] == EMPTIED {
                drop(under_way);
                self.tell_of_emptied(&listener, &notification);
                false
            } else if notification.nr as u64 == CALL_LISTENER {
                drop(under_way);
                self.serve_listener(&listener, &notification)
            } else if i64::from(notification.nr) == libc::SYS_ptrace {
                self.refuse_tracing(notification.pid as pid_t);
                // Fails only if the thread was killed meanwhile.
                let _ = notify::refuse(listener.fd.as_fd(), notification.id, libc::EPERM);
                false
            } else if keep::is_about_addresses(&notification) {
                self.keep(&listener, &notification, under_way)
            } else {
                self.execute(&listener, &notification, under_way)
            };
            if led_on {
                return;
            }
        }
        self.state().listeners -= 1;
    }

    /// The next notification; `None` when the last process of the command is gone, or all is to stop.
    ///
    /// Not taken while the rate changes: whose notification has been taken can only be killed, not be stopped.
    fn next(&self, listener: &Listener) -> Option<(Notification, RwLockReadGuard<'_, ()>)> {
        loop {
            let mut fds = [PollFd::new(&listener.fd, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
            // Interrupted by a SIGCHLD that somebody else in this process handles.
            if poll(&mut fds, None).is_err() {
                continue;
            }
            if !fds[1].revents().is_empty() {
                return None;
            }
            let events = fds[0].revents();
            if events.contains(PollFlags::IN) {
                let under_way = self.execs.read().expect("nobody panics while changing the rate");
                // NotFound: killed meanwhile.
                if let Ok(notification) = notify::receive(listener.fd.as_fd()) {
                    return Some((notification, under_way));
                }
            } else if !events.is_empty() {
                return None;
            }
        }
    }

    /// Gives the memfd to a new program that has asked for it, or hears why it could not be used. Returns whether
    /// another thread leads the listener now.
    ///
    /// The kernel answers only when the program has run and installed the descriptor, which may take a while;
    /// interrupted by a signal, it gives the program a 0 that is no descriptor.
    fn give(self: &Arc<Crew>, listener: &Arc<Listener>, n: &Notification) -> bool {
        let tried = n.args[4] as i32;
        if tried >= 0 || -tried > NOT_GIVEN as i32 {
            let error = if tried >= 0 { libc::EEXIST } else { -tried - NOT_GIVEN as i32 };
            self.end(n.pid as pid_t, &no_room(error));
            return false;
        }
        let led_on = self.find_leader(listener);
        listener.unnamed.store(true, Ordering::Relaxed);
        let fd = listener.fd.as_fd();
        // Anybody may make this call, for what little good it does: the memfd is sealed and read-only, the clock is its
        // own node's, and the number of that is written into its own memory.
        let give = || {
            if let Some(clock) = &listener.clock {
                let number = notify::install(fd, n.id, clock.guest())?;
                write_memory(n.pid as pid_t, n.args[3].wrapping_add(NODE_CLOCK), &u64::from(number + 1))?;
            }
            notify::give(fd, n.id, self.page.memfd())
        };
        if let Err(e) = supervise::without_signals(give) {
            // Fails if the thread was killed, which needs no answer.
            let _ = notify::refuse(fd, n.id, NOT_GIVEN as i32 + e.raw_os_error().unwrap_or(libc::ENOSYS));
        }
        led_on
    }

    /// Hears of a setting that is not what a program takes it for.
    fn note(&self, listener: &Listener, n: &Notification) {
        let (what, how) = told(n.args[0], n.args[1]);
        let setting = UntrueSetting { of: listener.of.clone(), what, how };
        self.untrue.lock().expect("nobody panics while holding the lock").insert(setting);
        // Fails only if the thread was killed meanwhile. No answer is of interest.
        let _ = notify::refuse(listener.fd.as_fd(), n.id, libc::ENOSYS);
    }

    /// Answers a thread that asks whether its tracer can be told of a call that has trapped. One that is not dilated
    /// would let the call be carried out in real time.
    fn tell_of_tracer(&self, listener: &Listener, tid: pid_t, id: u64) {
        let within = tracer_of(tid).map(|tracer| (tracer, read_memory::<u64>(tracer, LISTENED).is_ok()));
        if let Some((tracer, false)) = within
            && self.untold.lock().expect("nobody panics while holding the lock").insert((tid, tracer))
        {
            self.report(&format!(
                "{} (process {tid}) has calls about which its tracer is to be asked (SECCOMP_RET_TRACE), and {} \
                 (process {tracer}), which traces it, is not dilated: of those with a time it is not told, and they \
                 fail with ENOSYS; run the tracer dilated, too",
                name_of(tid),
                name_of(tracer)
            ));
        }
        let answer = if matches!(within, Some((_, true))) { TRACED_WITHIN as i64 } else { 0 };
        // Fails only if the thread was killed meanwhile.
        let _ = notify::answer(listener.fd.as_fd(), id, answer, 0);
    }

    /// Hears from a tracer that what it traces needs the image, and has not got it.
    fn tell_of_emptied(&self, listener: &Listener, n: &Notification) {
        let tracer = n.pid as pid_t;
        if self.note_unfit(tracer) {
            let sentence = format!(
                "{} (process {tracer}) has taken away memory of a process that it traces, its stack or what dilates \
                 it, and has it make a call (number {}) that would have to be answered there: that fails; have it run \
                 its programs in another way (gVisor: runsc --platform=ptrace)",
                name_of(tracer),
                n.args[1]
            );
            self.refuse_in(listener, tracer, &sentence);
        }
        // Fails only if the thread was killed meanwhile.
        let _ = notify::answer(listener.fd.as_fd(), n.id, 0, 0);
    }

    /// Keeps what dilates a program in its memory, which the program wants for itself. Returns whether another thread
    /// leads the listener now.
    fn keep(self: &Arc<Crew>, listener: &Arc<Listener>, n: &Notification, under_way: RwLockReadGuard<()>) -> bool {
        let (tid, fd) = (n.pid as pid_t, listener.fd.as_fd());
        let is_there = read_memory::<u64>(tid, IMAGE + COOKIE).is_ok_and(|word| word == self.page.cookie());
        if !keep::takes_ours(n) || !is_there || tracer_of(tid).is_some() {
            // Fails only if the thread was killed meanwhile.
            let _ = notify::let_go(fd, n.id);
            return false;
        }
        // Attaching waits for an exec in the same process.
        let led_on = self.find_leader(listener);
        let unmaps = i64::from(n.nr) == libc::SYS_munmap;
        let done = match unmaps {
            true => keep::unmap_around(tid, n.args[0], n.args[1], || notify::answer(fd, n.id, 0, 0)),
            false => Err(io::Error::from_raw_os_error(libc::EEXIST)),
        };
        if let Err(e) = done
            && e.raw_os_error() != Some(libc::ESRCH)
        {
            let (from, to) = (keep::OURS.start, keep::OURS.end);
            let why = match unmaps {
                true => format!(
                    "it unmaps its memory and what dilates it, which it cannot be kept from ({e}): run diorama as root"
                ),
                false => format!(
                    "it puts memory of its own (MAP_FIXED) where what dilates it is, at {from:#x} to {to:#x}: have it \
                     leave out these addresses (MAP_FIXED_NOREPLACE does), or run it undilated"
                ),
            };
            self.note_unfit(tid);
            self.refuse_in(listener, tid, &format!("{} (process {tid}) was ended: {why}", name_of(tid)));
            // SAFETY: no memory involved. It waits for an answer of ours, or is stopped, so the number is its own.
            unsafe { libc::kill(tid, libc::SIGKILL) };
        }
        drop(under_way);
        led_on
    }

    /// Notes a program that cannot do without what dilates it, and does away with it; whether it is a new one.
    fn note_unfit(&self, pid: pid_t) -> bool {
        self.unfit.lock().expect("nobody panics while holding the lock").insert(pid, name_of(pid)).is_none()
    }

    /// Does what a program wants of a listener that it has made. Returns whether another thread leads ours now.
    fn serve_listener(self: &Arc<Crew>, listener: &Arc<Listener>, n: &Notification) -> bool {
        let led_on = Listeners::may_take_long(n) && self.find_leader(listener);
        let (value, error) = match self.listeners.serve(listener, n) {
            Ok(None) => return led_on,
            Ok(Some(value)) => (value, 0),
            Err(e) => (0, -e.raw_os_error().unwrap_or(libc::EIO)),
        };
        // Fails only if the thread was killed meanwhile.
        let _ = notify::answer(listener.fd.as_fd(), n.id, value, error);
        led_on
    }

    /// Lets a thread execute, and stays with it. Returns whether another thread leads the listener now.
    fn execute(self: &Arc<Crew>, listener: &Arc<Listener>, n: &Notification, under_way: RwLockReadGuard<()>) -> bool {
        // Attaching waits for an exec in the same process, so be replaced before if there is an exec. Else first things
        // first.
        let mut led_on = listener.busy.fetch_add(1, Ordering::Relaxed) > 0 && self.find_leader(listener);
        match self.attach(listener, n) {
            Ok(Some(tracee)) => {
                // If the thread was killed meanwhile this fails, and its end will be reported.
                let _ = notify::let_go(listener.fd.as_fd(), n.id);
                led_on = led_on || self.find_leader(listener);
                let count = match tracee.finish(|pid, why| self.report_ended(pid, why)) {
                    Outcome::Injected => Some(&self.counters.injected),
                    Outcome::NotExecuted => Some(&self.counters.not_executed),
                    Outcome::Refused | Outcome::Gone => None,
                };
                if let Some(count) = count {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(None) => (),
            Err(why) => {
                self.refuse(&why);
                // Fails only if the thread was killed meanwhile.
                let _ = notify::refuse(listener.fd.as_fd(), n.id, libc::EPERM);
            }
        }
        drop(under_way);
        listener.busy.fetch_sub(1, Ordering::Relaxed);
        led_on
    }

    /// Attaches to a thread that is about to execute; `None` if it is gone. The error is the sentence about a program
    /// that could not be started.
    fn attach<'a>(&'a self, listener: &Listener, n: &Notification) -> Result<Option<Tracee<'a>>, String> {
        let tid = n.pid as pid_t;
        let sandboxed = n.args[5] as u32 == EXECUTE_SANDBOXED as u32;
        let by_name = !sandboxed && !listener.unnamed.load(Ordering::Relaxed);
        match Tracee::seize(tid, listener.cpu, by_name, &self.recipe) {
            Ok(tracee) => Ok(Some(tracee)),
            Err(_) if !notify::still_waits(listener.fd.as_fd(), n.id) => Ok(None),
            Err(e) => {
                let why = match tracer_of(tid) {
                    Some(tracer) => format!(
                        "{} (process {tracer}) traces it; debuggers can attach to a dilated process, but not follow \
                         an exec",
                        self.note_tracer(tracer)
                    ),
                    None if e.raw_os_error() == Some(libc::EPERM) && !rustix::process::geteuid().is_root() => {
                        "only root may attach to it, because it has another user, or keeps its memory to itself \
                         (PR_SET_DUMPABLE, as ssh-agent does): run diorama as root"
                            .to_owned()
                    }
                    None => format!("it cannot be attached to ({e})"),
                };
                Err(format!("{} (process {tid}) may not start another program: {why}", name_of(tid)))
            }
        }
    }

    /// Refuses, as [`refuse`](Self::refuse) does, in a node, which gets the sentence as its last words, too.
    fn refuse_in(&self, listener: &Listener, pid: pid_t, sentence: &str) {
        if listener.of.is_empty() {
            return self.refuse(sentence);
        }
        self.refuse(&format!("node {}: {sentence}", listener.of));
        // Its standard error may be closed, or full.
        let opened =
            std::fs::OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(format!("/proc/{pid}/fd/2"));
        let _ = opened.and_then(|mut file| writeln!(file, "diorama: {sentence}"));
    }

    fn refuse(&self, sentence: &str) {
        self.counters.refused.fetch_add(1, Ordering::Relaxed);
        self.report(sentence);
    }

    /// Reports that a process may not have itself traced by its parent, as it has asked.
    fn refuse_tracing(&self, pid: pid_t) {
        let parent = tracee::status_of(pid, "PPid:").unwrap_or(0);
        self.refuse(&format!(
            "{} (process {pid}) may not have itself traced by {} (process {parent}): debuggers can attach to a dilated \
             process, but not start one",
            name_of(pid),
            self.note_tracer(parent)
        ));
    }

    /// Notes a program that wanted to trace another from its start; its name.
    fn note_tracer(&self, pid: pid_t) -> String {
        let name = name_of(pid);
        self.tracers.lock().expect("nobody panics while holding the lock").insert(pid, name.clone());
        name
    }

    /// Reports why a program is ended. Called before it is killed, so that the reason is there when its end is noticed.
    fn report_ended(&self, pid: pid_t, why: &str) {
        self.refuse(&format!("{} (process {pid}) was ended: {why}", name_of(pid)));
    }

    /// Ends a program that must not run undilated. It waits for an answer of ours, so the number is still its own.
    fn end(&self, pid: pid_t, why: &str) {
        self.report_ended(pid, why);
        // SAFETY: no memory involved.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

fn no_room(error: i32) -> String {
    let error = io::Error::from_raw_os_error(error);
    format!("it has no room for the clock ({error}): it needs a free descriptor, and addresses that few programs use")
}

fn name_of(pid: pid_t) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    if name.trim().is_empty() { "a program".to_owned() } else { name.trim().to_owned() }
}

fn tracer_of(pid: pid_t) -> Option<pid_t> {
    tracee::status_of(pid, "TracerPid:").filter(|pid| *pid != 0)
}
