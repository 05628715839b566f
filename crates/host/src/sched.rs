//! How a thread is scheduled.

use std::fs;
use std::io;
use std::path::Path;

use rustix::thread::Pid;
use scale::RealDuration;

use crate::Error;

/// The classes of the kernel's scheduler that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// An ordinary task (SCHED_OTHER).
    Ordinary,
    /// An ordinary task of nice 0 that asks for slices of this length (Linux 6.12); zero for the kernel's own choice.
    Slices(RealDuration),
    /// Runs only when no ordinary task wants the core (SCHED_IDLE).
    Idle,
    /// First in, first out, before every ordinary task (SCHED_FIFO).
    RealTime {
        /// 1 to 99, the highest goes first.
        priority: u8,
        /// Whether threads and processes that it starts are real-time ones too.
        inherited: bool,
    },
}

/// `struct sched_attr` of sched_setattr(2), its first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SIZE: u32 = size_of::<SchedAttr>() as u32;

/// Puts the calling thread into a class.
pub fn set(class: Class) -> io::Result<()> {
    set_other(None, class)
}

/// Puts a thread of this process, or the calling one, into a class.
pub fn set_other(thread: Option<Pid>, class: Class) -> io::Result<()> {
    let thread = thread.map_or(0, |t| t.as_raw_nonzero().get());
    let (policy, priority) = match class {
        Class::Ordinary => (libc::SCHED_OTHER, 0),
        Class::Idle => (libc::SCHED_IDLE, 0),
        Class::RealTime { priority, inherited: true } => (libc::SCHED_FIFO, priority),
        Class::RealTime { priority, inherited: false } => (libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority),
        Class::Slices(length) => {
            let attr = SchedAttr { size: SIZE, runtime: length.as_nanos(), ..SchedAttr::default() };
            // SAFETY: `attr` is a valid sched_attr of the size that it states, only read by the kernel.
            return checked(unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attr, 0) });
        }
    };
    let parameters = libc::sched_param { sched_priority: priority.into() };
    // SAFETY: `parameters` is a valid sched_param, only read by the kernel.
    checked(unsafe { libc::sched_setscheduler(thread, policy, &parameters) }.into())
}

/// A session of this process's own, which the kernel gives as little of a core as it can beside others, until this is
/// dropped.
///
/// Where cores are divided among sessions first (autogroups, as Debian and Ubuntu have them), a thread of
/// [`Class::Idle`] gives way within its session only: beside another's, and the kernel's own threads, it has as much as
/// any. Control groups of the CPU, where this process is in one, go before that.
#[derive(Debug)]
pub struct LightSession(());

/// The kernel's file for that, and the least and the usual that can be written.
const AUTOGROUP: &str = "/proc/self/autogroup";
const LIGHT: &[u8] = b"19";
const USUAL: &[u8] = b"0";

impl LightSession {
    /// Nothing, where cores are not divided so, or this process cannot have a session of its own.
    pub fn begin() -> Option<LightSession> {
        // Of a session that others are in it is theirs, too, what it weighs.
        let own = rustix::process::setsid().is_ok() || leads_session();
        let light = own && fs::write(AUTOGROUP, LIGHT).is_ok();
        light.then_some(LightSession(()))
    }
}

fn leads_session() -> bool {
    // SAFETY: a number in and a number out. Not by rustix: a leader that is in another namespace of processes has the
    // number 0 here, which is no process to it.
    let leader = unsafe { libc::getsid(0) };
    leader == rustix::process::getpid().as_raw_nonzero().get()
}

impl Drop for LightSession {
    fn drop(&mut self) {
        // It was possible before.
        let _ = fs::write(AUTOGROUP, USUAL);
    }
}

/// The slice that the calling thread has asked for; zero where the kernel has none per task (before 6.12).
pub fn slice() -> io::Result<RealDuration> {
    let mut attr = SchedAttr { size: SIZE, ..SchedAttr::default() };
    // SAFETY: the kernel writes at most SIZE bytes into `attr`, which is that large and lives across the call.
    checked(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, SIZE, 0) })?;
    Ok(RealDuration::from_nanos(attr.runtime))
}

/// A thread's use of its cores so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadTimes {
    /// For how long it ran.
    pub ran: RealDuration,
    /// For how long it was ready to run and did not.
    pub waited: RealDuration,
    /// How often it was let run.
    pub timeslices: u64,
}

/// Reads a thread's times by its id (`/proc/TID/schedstat`).
pub fn times_of(thread: u32) -> Result<ThreadTimes, Error> {
    let path = format!("/proc/{thread}/schedstat");
    let text = std::fs::read_to_string(&path).map_err(|e| Error::file("read", Path::new(&path), e))?;
    let fields: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [ran, waited, timeslices] = fields[..] else {
        return Err(Error::system(format!("{path} has no three numbers"), io::ErrorKind::InvalidData));
    };
    Ok(ThreadTimes { ran: RealDuration::from_nanos(ran), waited: RealDuration::from_nanos(waited), timeslices })
}

fn checked(code: libc::c_long) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod as_root {
    use super::*;

    #[test]
    fn a_thread_can_be_made_to_give_way() {
        let tried = || {
            // SAFETY: a number in and a number out; 0 is the calling thread.
            let class = || unsafe { libc::sched_getscheduler(0) };
            set(Class::Idle).unwrap();
            assert_eq!(class(), libc::SCHED_IDLE);
            set(Class::Ordinary).unwrap();
            assert_eq!(class(), libc::SCHED_OTHER);
            set(Class::Slices(RealDuration::from_nanos(300_000))).unwrap();
            let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
            assert!(times_of(own).unwrap().timeslices > 0);
            let slice = slice().unwrap().as_nanos();
            assert!(slice == 300_000 || slice == 0, "{slice}: an old kernel has none");
        };
        std::thread::spawn(tried).join().unwrap();
    }

    #[test]
    fn a_session_is_light_for_as_long_as_that_is_wanted() {
        let weight = || fs::read_to_string(AUTOGROUP).ok().filter(|said| !said.is_empty());
        let light = LightSession::begin();
        // Who leads a group of others cannot begin a session, who is in a container may not write there, and a session
        // of which the kernel keeps no weight (its first one) says nothing. All that is known only now: what begins a
        // session gets a weight by that.
        let writable = fs::OpenOptions::new().write(true).open(AUTOGROUP).is_ok();
        assert_eq!(light.is_some(), leads_session() && weight().is_some() && writable);
        let Some(light) = light else { return };
        assert!(weight().unwrap().trim_end().ends_with("nice 19"), "{:?}", weight());
        drop(light);
        assert!(weight().unwrap().trim_end().ends_with("nice 0"), "{:?}", weight());
    }
}
