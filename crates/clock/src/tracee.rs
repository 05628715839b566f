//! One exec under ptrace: from the notification to the program's first instruction.
//!
//! The thread is attached (PTRACE_SEIZE) while it waits for the answer to its notification, so nothing can happen to it
//! in between. It stops once, in one of two ways: when the kernel has loaded the new program, or on its way back to the
//! old one. Either way it is detached there. The calls here must all come from the thread that seized, which has one
//! tracee at a time: so whatever it waits for is that one, even if its number has changed, as another thread than the
//! first of a process gets the first one's number when it executes.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::io::fcntl_dupfd_cloexec;

use libc::{c_uint, c_void, pid_t};

use crate::auxv::{Elf, KernelVdso, vdso_base};
use crate::layout::{
    AFFINITY, AFFINITY_WORDS, BOOTSTRAP_ROOM, CALL_MEMFD, IMAGE as IMAGE_ADDRESS, OPEN_HOW, PARAMETERS_BELOW,
};
use crate::memory::{Plain, read_memory, write_memory};
use crate::page::{ClockPage, IMAGE};
use crate::virtual_cpu::VirtualCpu;

const BOOTSTRAP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bootstrap"));
const _: () = assert!(BOOTSTRAP.len() as u64 <= BOOTSTRAP_ROOM);

const PTRACE_GETSIGMASK: c_uint = 0x420a;
const PTRACE_SETSIGMASK: c_uint = 0x420b;
/// `cs` of 64-bit code.
const USER_CS: u64 = 0x33;

/// Descriptors from here on are hardly ever taken: a name that leads to another process by mistake (in another PID
/// namespace) leads nowhere.
const RARE_DESCRIPTOR: i32 = 900;
const O_RDONLY_CLOEXEC: u64 = (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY) as u64;

/// Constants of every exec of a page's guests.
#[derive(Debug)]
pub(crate) struct Recipe {
    vdso: KernelVdso,
    image_entry: u64,
    cookie: u64,
    /// The memfd's name for who may look into this process: `/proc/PID/fd/N`.
    name: [u8; NAME_ROOM],
    _named: OwnedFd,
}

const NAME_ROOM: usize = 32;

impl Recipe {
    pub fn new(page: &ClockPage) -> Result<Recipe, crate::Error> {
        let entry = Elf(IMAGE).entry().expect("build.rs links an ELF file");
        // A low limit of descriptors makes the number a common one.
        let named = fcntl_dupfd_cloexec(page.memfd(), RARE_DESCRIPTOR)
            .or_else(|_| page.memfd().as_fd().try_clone_to_owned().map_err(|_| rustix::io::Errno::MFILE))
            .map_err(crate::Error::system("no descriptor for the clock page"))?;
        let text = format!("/proc/{}/fd/{}", std::process::id(), named.as_raw_fd());
        let mut name = [0; NAME_ROOM];
        name[..text.len()].copy_from_slice(text.as_bytes());
        let image_entry = IMAGE_ADDRESS + entry;
        Ok(Recipe { vdso: KernelVdso::own()?, image_entry, cookie: page.cookie(), name, _named: named })
    }
}

/// `struct parameters` of `guest/dilation.h`.
#[repr(C)]
struct Parameters {
    real_vdso: u64,
    real_vdso_len: u64,
    vdso_clock_gettime: u64,
    vdso_getcpu: u64,
    vdso_getrandom: u64,
    entry: u64,
    cpu_whole: u64,
    cpu_frac: u64,
    cpu_num: u64,
    cpu_den: u64,
    tsc_cycles: u64,
    one_core: u64,
    cpus: u64,
    affinity: Affinity,
    node_clock: u64,
}

/// A set of CPUs of the node.
type Affinity = [u64; AFFINITY_WORDS as usize];

/// Where in the parameters of a new program the descriptor of its node's clock belongs, plus one.
pub(crate) const NODE_CLOCK: u64 = offset_of!(Parameters, node_clock) as u64;

/// The bytes written into a new program: the parameters, and the arguments of openat2 by which the bootstrap opens the
/// memfd.
#[repr(C)]
struct Message {
    parameters: Parameters,
    /// `struct open_how`: flags, mode, resolve, and zeros.
    how: [u64; OPEN_HOW as usize / 8],
    name: [u8; NAME_ROOM],
}

const _: () = assert!(size_of::<Message>() as u64 <= PARAMETERS_BELOW);

// SAFETY: `repr(C)`, and all its parts are integers of 64 bits or arrays of them, but for the name at the end, whose
// length is a multiple of that.
unsafe impl Plain for Message {}
const _: () = assert!(NAME_ROOM.is_multiple_of(align_of::<Message>()));

pub(crate) type Registers = libc::user_regs_struct;

/// The outcome of an exec that we traced.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The new program is on its way through the bootstrap, and detached.
    Injected,
    /// The kernel refused the exec and the thread is detached, in its old program.
    NotExecuted,
    /// The program could not be dilated and was killed; the sentence has been told.
    Refused,
    /// The thread was killed, or its process executed in another thread.
    Gone,
}

/// A thread between its exec's notification and its stop.
#[derive(Debug)]
pub(crate) struct Tracee<'a> {
    cpu: VirtualCpu,
    /// Which CPUs the program may use, which its successor inherits; none: all.
    affinity: Affinity,
    /// Whether it can open the memfd by name.
    by_name: bool,
    recipe: &'a Recipe,
}

impl<'a> Tracee<'a> {
    /// Attaches to a thread that waits for the answer to a notification, and makes a failed exec stop too (the stop of
    /// a successful one cancels that). Waits while another thread of the same process is executing.
    ///
    /// Being told before it goes on, the thread cannot run a single instruction of its old program before it stops.
    pub fn seize(tid: pid_t, cpu: VirtualCpu, by_name: bool, recipe: &'a Recipe) -> io::Result<Tracee<'a>> {
        let options = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL;
        order(tid, Order::Seize(options))?;
        // It fails only if the thread is gone, and then its end will be reported.
        let _ = order(tid, Order::Interrupt);
        // Waiting, it cannot change any more. dilate-exec has no image yet, and hands on nothing.
        let handed_on = || read_memory::<Affinity>(tid, AFFINITY).unwrap_or_default();
        let affinity = if cpu.cpus > 0 { handed_on() } else { Affinity::default() };
        Ok(Tracee { cpu, affinity, by_name, recipe })
    }

    /// Waits for the thread's stop and deals with it. `refused` is told about a program that cannot be dilated, which
    /// is killed then.
    pub fn finish(self, refused: impl Fn(pid_t, &str)) -> Outcome {
        let mut outcome = Outcome::Gone;
        loop {
            let mut status = 0;
            // __WNOTHREAD: this thread's tracee, never another thread's children.
            // SAFETY: `status` is a valid place to write to.
            let pid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD) };
            if pid < 0 {
                if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                // Another thread of its process has executed, and the kernel has done away with this one.
                return outcome;
            }
            if !libc::WIFSTOPPED(status) {
                return outcome;
            }
            match self.stopped(pid, status) {
                Ok(Ok(done)) => return done,
                Ok(Err(why)) => {
                    refused(pid, &why);
                    // SAFETY: no memory is involved; it is stopped and traced by us, so the number is still its own.
                    unsafe { libc::kill(pid, libc::SIGKILL) };
                    outcome = Outcome::Refused;
                }
                // Killed while it stood: its end comes next.
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => (),
                Err(e) => {
                    refused(pid, &format!("the clock could not be put into it: {e}"));
                    // SAFETY: as above.
                    unsafe { libc::kill(pid, libc::SIGKILL) };
                    outcome = Outcome::Refused;
                }
            }
        }
    }

    /// Deals with a stop of `pid`, and detaches it. The inner error is why it cannot be dilated.
    fn stopped(&self, pid: pid_t, status: i32) -> io::Result<Result<Outcome, String>> {
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        if event == libc::PTRACE_EVENT_EXEC {
            return inject(pid, self);
        }
        // Back in user space without an exec. A signal on its way is passed on.
        detach(pid, if event == 0 { signal } else { 0 }).map(|()| Ok(Outcome::NotExecuted))
    }
}

/// Writes parameters and bootstrap into a program that has just been loaded, and lets it run into them.
fn inject(pid: pid_t, tracee: &Tracee) -> io::Result<Result<Outcome, String>> {
    let (recipe, cpu) = (tracee.recipe, tracee.cpu);
    let mut registers = registers(pid)?;
    if registers.cs != USER_CS {
        return Ok(Err("32-bit programs cannot be dilated".to_owned()));
    }
    let Some(vdso) = vdso_base(pid, registers.rsp) else {
        return Ok(Err("it has no vDSO, or its auxiliary vector cannot be read".to_owned()));
    };
    let (forward, (cpu_num, cpu_den)) = (cpu.pace.forward(), cpu.pace.ratio());
    let at = |offset: u64| if offset == 0 { 0 } else { vdso + offset };
    let mut how = [0; OPEN_HOW as usize / 8];
    how[0] = O_RDONLY_CLOEXEC;
    let message = Message {
        parameters: Parameters {
            real_vdso: vdso,
            real_vdso_len: recipe.vdso.len,
            vdso_clock_gettime: at(recipe.vdso.clock_gettime),
            vdso_getcpu: at(recipe.vdso.getcpu),
            vdso_getrandom: at(recipe.vdso.getrandom),
            entry: registers.rip,
            cpu_whole: forward.whole,
            cpu_frac: forward.frac,
            cpu_num,
            cpu_den,
            tsc_cycles: cpu.tsc_cycles,
            one_core: cpu.one_core.into(),
            cpus: cpu.cpus.into(),
            affinity: tracee.affinity,
            node_clock: 0,
        },
        how,
        name: recipe.name,
    };
    let (place, below) = (vdso + recipe.vdso.room, registers.rsp - PARAMETERS_BELOW);
    write_memory(pid, below, &message)?;
    // The page is not writable, but private: as its tracer we get the process a copy of it.
    for (i, word) in BOOTSTRAP.chunks(8).enumerate() {
        let mut padded = [0; 8];
        padded[..word.len()].copy_from_slice(word);
        order(pid, Order::Poke(place + 8 * i as u64, padded))?;
    }

    // bootstrap.S says what it finds where. A new program's registers are 0.
    registers.rip = place;
    registers.rdi = IMAGE_ADDRESS;
    registers.r12 = below;
    registers.r13 = recipe.image_entry;
    registers.r14 = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE) as u64;
    registers.rbx = recipe.cookie;
    if tracee.by_name {
        registers.rbp = libc::SYS_openat2 as u64;
        registers.rsi = below + offset_of!(Message, name) as u64;
        registers.rdx = below + offset_of!(Message, how) as u64;
        registers.r10 = OPEN_HOW;
    } else {
        registers.rbp = CALL_MEMFD;
        registers.r10 = below;
        registers.r8 = u64::from((-libc::ENOENT) as u32);
    }
    set_registers(pid, &registers)?;
    detach(pid, 0)?;
    Ok(Ok(Outcome::Injected))
}

/// The registers of a stopped thread.
pub(crate) fn registers(pid: pid_t) -> io::Result<Registers> {
    // SAFETY: plain integers; every bit pattern is a value.
    let mut registers: Registers = unsafe { std::mem::zeroed() };
    // SAFETY: the request writes one `user_regs_struct` where its data points to, and ignores the address.
    unsafe { ptrace(libc::PTRACE_GETREGS, pid, 0, (&raw mut registers).addr())? };
    Ok(registers)
}

/// The registers with which a stopped thread goes on.
pub(crate) fn set_registers(pid: pid_t, registers: &Registers) -> io::Result<()> {
    // SAFETY: the request reads one `user_regs_struct` where its data points to, and ignores the address.
    unsafe { ptrace(libc::PTRACE_SETREGS, pid, 0, ptr::from_ref(registers).addr()) }
}

/// The signals that a stopped thread blocks.
pub(crate) fn signal_mask(pid: pid_t) -> io::Result<u64> {
    let mut mask = 0u64;
    // SAFETY: the request writes as many bytes as its address says, eight, where its data points to.
    unsafe { ptrace(PTRACE_GETSIGMASK, pid, size_of::<u64>(), (&raw mut mask).addr())? };
    Ok(mask)
}

/// Blocks other signals instead.
pub(crate) fn set_signal_mask(pid: pid_t, mask: u64) -> io::Result<()> {
    // SAFETY: the request reads as many bytes as its address says, eight, where its data points to.
    unsafe { ptrace(PTRACE_SETSIGMASK, pid, size_of::<u64>(), (&raw const mask).addr()) }
}

/// An order of a tracer to a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// Be traced from now on, with these options.
    Seize(i32),
    /// Stop.
    Interrupt,
    /// Run on to the next stop, with this signal if it is not 0.
    Continue(i32),
    /// Run on to the next stop, or to where a system call begins or ends.
    ToCall,
    /// Be traced no longer, with this signal if it is not 0.
    Detach(i32),
    /// Have this word at this address of its memory.
    Poke(u64, [u8; 8]),
}

/// Gives an order to a thread.
pub(crate) fn order(tid: pid_t, order: Order) -> io::Result<()> {
    let (request, address, data) = match order {
        Order::Seize(options) => (libc::PTRACE_SEIZE, 0, options as usize),
        Order::Interrupt => (libc::PTRACE_INTERRUPT, 0, 0),
        Order::Continue(signal) => (libc::PTRACE_CONT, 0, signal as usize),
        Order::ToCall => (libc::PTRACE_SYSCALL, 0, 0),
        Order::Detach(signal) => (libc::PTRACE_DETACH, 0, signal as usize),
        Order::Poke(at, word) => (libc::PTRACE_POKEDATA, at as usize, usize::from_ne_bytes(word)),
    };
    // SAFETY: none of these requests touches memory of this process: their data is a number, and their address, if they
    // have one, the other's.
    unsafe { ptrace(request, tid, address, data) }
}

/// Lets go of a stopped thread, which gets `signal` if it is not 0.
pub(crate) fn detach(pid: pid_t, signal: i32) -> io::Result<()> {
    order(pid, Order::Detach(signal))
}

/// The system call, for requests whose answer is no data.
///
/// # Safety
/// The memory that the request reads or writes in this process, by its address and its data, is alive and as large as
/// it says.
unsafe fn ptrace(request: c_uint, pid: pid_t, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: as this function asks of its callers; the kernel checks everything about `pid`.
    let result = unsafe { libc::ptrace(request, pid, address as *mut c_void, data as *mut c_void) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A number in /proc/TID/status; `None` if there is no such thread.
pub(crate) fn status_of(tid: pid_t, name: &str) -> Option<pid_t> {
    status_text(tid, name)?.parse().ok()
}

/// The text behind a name in /proc/TID/status; `None` if there is no such thread.
pub(crate) fn status_text(tid: pid_t, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    Some(status.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned())
}

/// Opens a process by its number.
pub(crate) fn open_process(process: pid_t) -> io::Result<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(process).ok_or(io::ErrorKind::NotFound)?;
    Ok(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?)
}

/// Duplicates a descriptor of an open process.
pub(crate) fn descriptor_of(process: &OwnedFd, number: i32) -> io::Result<OwnedFd> {
    // SAFETY: only numbers; what is returned is a new descriptor of this process.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
