//! Threads that stand still, and calls that they are made to do meanwhile.
//!
//! As a debugger does it: the thread's registers are put aside, and it is let run through a `syscall` instruction of
//! the guest image, from where the filter lets every call pass. All calls here must come from the thread that seized.

use std::io;
use std::sync::LazyLock;

use libc::pid_t;

use crate::layout::{ADDRESS_HIGH, IMAGE as IMAGE_ADDRESS, SCRATCH, SCRATCH_SIZE};
use crate::memory::{Plain, read_memory, write_memory};
use crate::page::IMAGE;
use crate::tracee::{Order, Registers, detach, order, registers, set_registers, set_signal_mask, signal_mask};

/// The signal by which PTRACE_O_TRACESYSGOOD marks the stops of a call.
const CALL_STOP: i32 = libc::SIGTRAP | 0x80;
const PTRACE_EVENT_STOP: i32 = 128;
/// Unknown to the libc crate.
const SYS_IO_PGETEVENTS: i64 = 333;
const SYS_FUTEX_WAIT: i64 = 455;

/// The address of a `syscall` instruction: all of the image may be executed.
static GATE: LazyLock<u64> = LazyLock::new(|| {
    let at = IMAGE.windows(2).position(|w| w == [0x0f, 0x05]).expect("the image makes system calls");
    IMAGE_ADDRESS + at as u64
});

/// Attaches to a thread and tells it to stop, which [`stop_of`] recognises.
pub(crate) fn seize(tid: pid_t) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
    order(tid, Order::Seize(options))?;
    order(tid, Order::Interrupt)
}

/// The stop that a status of `waitpid` reports of a thread that was told to stop.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It stands. A signal has not interrupted it, and it has executed nothing since it was told.
    Still,
    /// It was about to take this signal (0: none). It stops once more when it is let go with it.
    Signal(i32),
    /// It is no more.
    Gone,
}

/// See [`Stop`].
pub(crate) fn stop_of(status: i32) -> Stop {
    if !libc::WIFSTOPPED(status) {
        Stop::Gone
    } else if status >> 16 == PTRACE_EVENT_STOP {
        Stop::Still
    } else {
        Stop::Signal(if status >> 16 == 0 { libc::WSTOPSIG(status) } else { 0 })
    }
}

/// Waits until a thread that was told to stop stands.
pub(crate) fn await_still(tid: pid_t) -> io::Result<()> {
    loop {
        let mut status = 0;
        // SAFETY: `status` is a valid place to write to.
        let pid = unsafe { libc::waitpid(tid, &mut status, libc::__WALL | libc::__WNOTHREAD) };
        match (pid, stop_of(status)) {
            (..0, _) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            (_, Stop::Still) => return Ok(()),
            (_, Stop::Signal(signal)) => go_on(tid, signal)?,
            (_, Stop::Gone) => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    }
}

/// Lets a thread run on to its next stop, with a signal if that is not 0.
pub(crate) fn go_on(tid: pid_t, signal: i32) -> io::Result<()> {
    order(tid, Order::Continue(signal))
}

/// A thread that stands still and lends itself.
#[derive(Debug)]
pub(crate) struct Remote {
    tid: pid_t,
    registers: Registers,
    mask: u64,
    /// A signal that nothing can block came meanwhile.
    postponed: i32,
}

impl Remote {
    /// Borrows a thread that is [`Stop::Still`], with all threads of its process. No signal reaches it until
    /// [`end`](Self::end).
    pub fn begin(tid: pid_t) -> io::Result<Remote> {
        let (registers, mask) = (registers(tid)?, signal_mask(tid)?);
        set_signal_mask(tid, !0)?;
        Ok(Remote { tid, registers, mask, postponed: 0 })
    }

    /// Makes the call: what the kernel answers, or its error.
    pub fn call(&mut self, nr: libc::c_long, arguments: [u64; 4]) -> io::Result<i64> {
        let mut now = self.registers;
        (now.rip, now.rax) = (*GATE, nr as u64);
        // Nothing that the kernel could want to restart.
        now.orig_rax = !0;
        [now.rdi, now.rsi, now.rdx, now.r10] = arguments;
        set_registers(self.tid, &now)?;
        for _ in ["entry", "exit"] {
            order(self.tid, Order::ToCall)?;
            self.wait_for(CALL_STOP)?;
        }
        match registers(self.tid)?.rax as i64 {
            error @ -4095..0 => Err(io::Error::from_raw_os_error(-error as i32)),
            result => Ok(result),
        }
    }

    /// Writes `value` to the process's scratch memory, at `offset`, and gives its address there.
    pub fn put<T: Plain>(&self, offset: usize, value: &T) -> io::Result<u64> {
        assert!(offset + size_of::<T>() <= SCRATCH_SIZE as usize);
        let at = SCRATCH + offset as u64;
        write_memory(self.tid, at, value)?;
        Ok(at)
    }

    /// Reads from the scratch memory.
    pub fn get<T: Plain + Default>(&self, offset: usize) -> io::Result<T> {
        assert!(offset + size_of::<T>() <= SCRATCH_SIZE as usize);
        read_memory(self.tid, SCRATCH + offset as u64)
    }

    /// The call from which it came to stand gives this, once it is given back.
    pub fn returns(&mut self, result: i64) {
        self.registers.rax = result as u64;
    }

    /// Gives the thread back: it stands as it did at the beginning.
    pub fn end(mut self) -> io::Result<()> {
        // To a stop as the first one was, from which the kernel goes on with a call that was interrupted.
        order(self.tid, Order::Interrupt)?;
        go_on(self.tid, 0)?;
        self.wait_for(0)?;
        set_registers(self.tid, &self.registers)?;
        set_signal_mask(self.tid, self.mask)?;
        if self.postponed != 0 {
            // SAFETY: no memory involved.
            unsafe { libc::syscall(libc::SYS_tkill, self.tid, self.postponed) };
        }
        Ok(())
    }

    /// Waits for a stop with this signal; 0: for one that the thread was told to make.
    fn wait_for(&mut self, signal: i32) -> io::Result<()> {
        loop {
            let mut status = 0;
            // SAFETY: `status` is a valid place to write to.
            let pid = unsafe { libc::waitpid(self.tid, &mut status, libc::__WALL | libc::__WNOTHREAD) };
            if pid < 0 {
                return Err(io::Error::last_os_error());
            }
            match stop_of(status) {
                Stop::Gone => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
                Stop::Still if signal == 0 => return Ok(()),
                Stop::Signal(came) if came == signal => return Ok(()),
                Stop::Signal(came @ 1..) => self.postponed = came,
                Stop::Still | Stop::Signal(_) => (),
            }
            order(self.tid, if signal == 0 { Order::Continue(0) } else { Order::ToCall })?;
        }
    }
}

/// Lets a thread go. If it waits, with a time-out, within the image, it looks at the page again at once; and a wait
/// that the stop would end with EINTR, as only a signal may, is begun again.
pub(crate) fn release(tid: pid_t) -> io::Result<()> {
    let mut at = registers(tid)?;
    if let Some(then) = instead_of_interrupted(&at)
        && !about_to_be_signalled(tid)
    {
        match then {
            Then::Answer(result) => at.rax = result as u64,
            Then::Again => {
                at.rax = at.orig_rax;
                at.rip -= 2; // the length of `syscall`
            }
        }
        at.orig_rax = !0;
        set_registers(tid, &at)?;
    }
    detach(tid, 0)
}

#[derive(Debug, PartialEq, Eq)]
enum Then {
    /// The call gives this, and its caller is the image, which asks the page whether it is true.
    Answer(i64),
    Again,
}

/// The action in place of the kernel's own after an interrupted call; `None`: the kernel's is right, or nothing
/// was interrupted.
fn instead_of_interrupted(at: &Registers) -> Option<Then> {
    const INTERRUPTED: i64 = -(libc::EINTR as i64);
    // The kernel's ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND and ERESTART_RESTARTBLOCK.
    if !matches!(at.rax as i64, INTERRUPTED | -514..=-512 | -516) {
        return None;
    }
    let nr = at.orig_rax as i64;
    if at.rip >> 32 == ADDRESS_HIGH
        && let Some(result) = timed_out(nr, at)
    {
        return Some(Then::Answer(result));
    }
    // The last ones are sockets' with a time-out. They have carried nothing yet, or they would give that. A connect
    // that is begun again goes on with the same handshake.
    let ends = at.rax as i64 == INTERRUPTED
        && matches!(
            nr,
            libc::SYS_epoll_wait
                | libc::SYS_epoll_pwait
                | libc::SYS_epoll_pwait2
                | libc::SYS_semop
                | libc::SYS_semtimedop
                | libc::SYS_rt_sigtimedwait
                | libc::SYS_io_getevents
                | SYS_IO_PGETEVENTS
                | libc::SYS_read
                | libc::SYS_readv
                | libc::SYS_recvfrom
                | libc::SYS_recvmsg
                | libc::SYS_recvmmsg
                | libc::SYS_accept
                | libc::SYS_accept4
                | libc::SYS_connect
                | libc::SYS_write
                | libc::SYS_writev
                | libc::SYS_sendto
                | libc::SYS_sendmsg
                | libc::SYS_sendmmsg
        );
    ends.then_some(Then::Again)
}

/// The result of a call whose time is up; `None` if it has no time-out, or the image would not ask again.
fn timed_out(nr: i64, at: &Registers) -> Option<i64> {
    const WAIT_REQUEUE_PI: u64 = 11;
    // The sets of a longer select are not kept (poll.c).
    const LONGEST_SELECT: u64 = 1024;
    let (timeout, result) = match nr {
        libc::SYS_clock_nanosleep if at.rdi == libc::CLOCK_MONOTONIC as u64 => (1, 0),
        libc::SYS_ppoll => (at.rdx, 0),
        libc::SYS_pselect6 if at.rdi <= LONGEST_SELECT => (at.r8, 0),
        libc::SYS_epoll_pwait2 => (at.r10, 0),
        libc::SYS_futex if at.rsi & 0x7f != WAIT_REQUEUE_PI => (at.r10, libc::ETIMEDOUT),
        libc::SYS_futex_waitv => (at.r10, libc::ETIMEDOUT),
        SYS_FUTEX_WAIT => (at.r8, libc::ETIMEDOUT),
        libc::SYS_mq_timedsend | libc::SYS_mq_timedreceive => (at.r8, libc::ETIMEDOUT),
        libc::SYS_rt_sigtimedwait => (at.rdx, libc::EAGAIN),
        libc::SYS_semtimedop => (at.r10, libc::EAGAIN),
        libc::SYS_io_getevents | SYS_IO_PGETEVENTS => (at.r8, 0),
        _ => return None,
    };
    (timeout != 0).then_some(-i64::from(result))
}

/// Whether a signal is on its way that the thread does not block, and that so has a right to interrupt it.
fn about_to_be_signalled(tid: pid_t) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let set = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name));
        line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok()).unwrap_or(0)
    };
    (set("SigPnd:") | set("ShdPnd:")) & !set("SigBlk:") != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stopped_in(nr: i64, rax: i64, rip: u64) -> Registers {
        // SAFETY: plain integers; every bit pattern is a value.
        let mut at: Registers = unsafe { std::mem::zeroed() };
        (at.orig_rax, at.rax, at.rip) = (nr as u64, rax as u64, rip);
        at
    }

    #[test]
    fn only_waits_with_a_time_out_look_again() {
        let image = IMAGE_ADDRESS + 0x1000;
        let mut at = stopped_in(libc::SYS_ppoll, -514, image);
        assert_eq!(instead_of_interrupted(&at), None, "without a time-out");
        at.rdx = 0x1000;
        assert_eq!(instead_of_interrupted(&at), Some(Then::Answer(0)));
        at.rip = 0x40_0000;
        assert_eq!(instead_of_interrupted(&at), None, "the program's own, which the kernel restarts");
        let mut cpu = stopped_in(libc::SYS_clock_nanosleep, -514, image);
        cpu.rdi = libc::CLOCK_THREAD_CPUTIME_ID as u64;
        assert_eq!(instead_of_interrupted(&cpu), None, "a sleep on a CPU clock ends where it ends");
    }

    #[test]
    fn what_only_a_signal_may_interrupt_is_begun_again() {
        let at = stopped_in(libc::SYS_epoll_wait, -4, 0x40_0000);
        assert_eq!(instead_of_interrupted(&at), Some(Then::Again));
        assert_eq!(instead_of_interrupted(&stopped_in(libc::SYS_close, -4, 0x40_0000)), None);
        assert_eq!(instead_of_interrupted(&stopped_in(-1, -4, 0x40_0000)), None, "between calls");
        assert_eq!(instead_of_interrupted(&stopped_in(libc::SYS_epoll_wait, 1, 0x40_0000)), None);
    }
}
