//! One exec under ptrace: from the notification to the program's first instruction.
//!
//! The thread is attached (PTRACE_SEIZE) while it waits for the answer to its notification, so nothing can happen to it in
//! between. It stops once, in one of two ways: when the kernel has loaded the new program, or on its way back to the old
//! one. Either way it is detached there. The calls here must all come from the thread that seized.

use std::io;
use std::ptr;

use libc::{c_long, c_uint, c_void, pid_t};

use crate::auxv::{Elf, KernelVdso, vdso_base};
use crate::layout::{BOOTSTRAP_ROOM, IMAGE as IMAGE_ADDRESS, IMAGE_ROOM, PARAMETERS_BELOW};
use crate::page::IMAGE;
use crate::rate::CpuRate;

const BOOTSTRAP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bootstrap"));
const _: () = assert!(BOOTSTRAP.len() as u64 <= BOOTSTRAP_ROOM);
const _: () = assert!(IMAGE.len() as u64 <= IMAGE_ROOM);

const PTRACE_GETSIGMASK: c_uint = 0x420a;
const PTRACE_SETSIGMASK: c_uint = 0x420b;
/// `cs` of 64-bit code.
const USER_CS: u64 = 0x33;

/// What is the same for every exec on this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe {
    vdso: KernelVdso,
    image_entry: u64,
}

impl Recipe {
    pub fn new() -> Result<Recipe, crate::Error> {
        let entry = Elf(IMAGE).entry().expect("build.rs links an ELF file");
        Ok(Recipe { vdso: KernelVdso::own()?, image_entry: IMAGE_ADDRESS + entry })
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
    signal_mask: u64,
    cpu_whole: u64,
    cpu_frac: u64,
    cpu_back_whole: u64,
    cpu_back_frac: u64,
    image_len: u64,
    image_entry: u64,
    tsc_cycles: u64,
}

pub(crate) type Registers = libc::user_regs_struct;

/// What a stop of a tracee led to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The new program is on its way through the bootstrap, and detached.
    Injected,
    /// The kernel refused the exec and the thread is detached, in its old program.
    NotExecuted,
    /// The program cannot be dilated, for this reason. It must not run undilated.
    Refused(String),
    /// It was killed while it stood; its end will be reported.
    Gone,
}

/// A thread between its exec's notification and its stop.
#[derive(Debug)]
pub(crate) struct Tracee {
    tid: pid_t,
    cpu: CpuRate,
    /// Known when somebody has asked; `Some(None)` if it was gone by then.
    process: Option<Option<pid_t>>,
}

impl Tracee {
    /// Attaches to a thread that waits for the answer to a notification.
    pub fn seize(tid: pid_t, cpu: CpuRate) -> io::Result<Tracee> {
        let options = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL;
        ptrace(libc::PTRACE_SEIZE, tid, 0, options as usize)?;
        Ok(Tracee { tid, cpu, process: None })
    }

    /// The thread's number when it was seized.
    pub fn tid(&self) -> pid_t {
        self.tid
    }

    /// The number of its process; `None` if it is gone, or has executed and has its process's number for its own.
    pub fn process(&mut self) -> Option<pid_t> {
        let tid = self.tid;
        *self.process.get_or_insert_with(|| process_of(tid))
    }

    /// Makes a failed exec stop too. The stop of a successful one cancels it.
    pub fn interrupt(&self) {
        // It fails only if the thread is gone, and then its end will be reported.
        let _ = ptrace(libc::PTRACE_INTERRUPT, self.tid, 0, 0);
    }

    /// Deals with the stop that `waitpid` reported for `pid`, which differs from the thread's number if a thread other than
    /// the first has executed.
    pub fn stopped(&self, pid: pid_t, status: i32, recipe: &Recipe) -> Outcome {
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        let result = if event == libc::PTRACE_EVENT_EXEC {
            inject(pid, self.cpu, recipe)
        } else {
            // Back in user space without an exec. A signal on its way is passed on.
            detach(pid, if event == 0 { signal } else { 0 }).map(|()| Outcome::NotExecuted)
        };
        match result {
            Ok(outcome) => outcome,
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Outcome::Gone,
            Err(e) => Outcome::Refused(format!("the clock could not be put into it: {e}")),
        }
    }
}

/// Writes parameters and bootstrap into a program that has just been loaded, and lets it run into them.
fn inject(pid: pid_t, cpu: CpuRate, recipe: &Recipe) -> io::Result<Outcome> {
    let mut registers = registers(pid)?;
    if registers.cs != USER_CS {
        return Ok(Outcome::Refused("32-bit programs cannot be dilated".to_owned()));
    }
    let Some(vdso) = vdso_base(pid, registers.rsp) else {
        return Ok(Outcome::Refused("it has no vDSO, or its auxiliary vector cannot be read".to_owned()));
    };
    let at = |offset: u64| if offset == 0 { 0 } else { vdso + offset };
    let parameters = Parameters {
        real_vdso: vdso,
        real_vdso_len: recipe.vdso.len,
        vdso_clock_gettime: at(recipe.vdso.clock_gettime),
        vdso_getcpu: at(recipe.vdso.getcpu),
        vdso_getrandom: at(recipe.vdso.getrandom),
        entry: registers.rip,
        signal_mask: signal_mask(pid)?,
        cpu_whole: cpu.forward.whole,
        cpu_frac: cpu.forward.frac,
        cpu_back_whole: cpu.back.whole,
        cpu_back_frac: cpu.back.frac,
        image_len: IMAGE.len() as u64,
        image_entry: recipe.image_entry,
        tsc_cycles: cpu.tsc_cycles,
    };
    let (place, below) = (vdso + recipe.vdso.room, registers.rsp - PARAMETERS_BELOW);
    write_memory(pid, below, &parameters)?;
    // The page is not writable, but private: as its tracer we get the process a copy of it.
    for (i, word) in BOOTSTRAP.chunks(8).enumerate() {
        let mut padded = [0; 8];
        padded[..word.len()].copy_from_slice(word);
        ptrace(libc::PTRACE_POKEDATA, pid, place as usize + 8 * i, usize::from_ne_bytes(padded))?;
    }

    // The image restores the mask when it has its handler in place.
    set_signal_mask(pid, !0)?;
    registers.rip = place;
    registers.r12 = below;
    registers.r13 = parameters.image_len;
    registers.r14 = parameters.image_entry;
    set_registers(pid, &registers)?;
    detach(pid, 0)?;
    Ok(Outcome::Injected)
}

/// Writes `value`, of plain integers, into the memory of a process.
pub(crate) fn write_memory<T>(pid: pid_t, at: u64, value: &T) -> io::Result<()> {
    let len = size_of::<T>();
    let local = libc::iovec { iov_base: ptr::from_ref(value).cast_mut().cast(), iov_len: len };
    let remote = libc::iovec { iov_base: at as *mut c_void, iov_len: len };
    // SAFETY: `local` is the whole of `value`, which is read; the kernel checks the other process's side.
    match unsafe { libc::process_vm_writev(pid, &local, 1, &remote, 1, 0) } {
        -1 => Err(io::Error::last_os_error()),
        n if n as usize == len => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EFAULT)),
    }
}

/// The registers of a stopped thread.
pub(crate) fn registers(pid: pid_t) -> io::Result<Registers> {
    // SAFETY: plain integers; every bit pattern is a value.
    let mut registers: Registers = unsafe { std::mem::zeroed() };
    ptrace(libc::PTRACE_GETREGS, pid, 0, (&raw mut registers).addr())?;
    Ok(registers)
}

/// The registers with which a stopped thread goes on.
pub(crate) fn set_registers(pid: pid_t, registers: &Registers) -> io::Result<()> {
    ptrace(libc::PTRACE_SETREGS, pid, 0, ptr::from_ref(registers).addr()).map(drop)
}

/// The signals that a stopped thread blocks.
pub(crate) fn signal_mask(pid: pid_t) -> io::Result<u64> {
    let mut mask = 0u64;
    ptrace(PTRACE_GETSIGMASK, pid, size_of::<u64>(), (&raw mut mask).addr())?;
    Ok(mask)
}

/// Blocks other signals instead.
pub(crate) fn set_signal_mask(pid: pid_t, mask: u64) -> io::Result<()> {
    ptrace(PTRACE_SETSIGMASK, pid, size_of::<u64>(), (&raw const mask).addr()).map(drop)
}

/// The process that a thread belongs to; `None` if there is no such thread.
pub(crate) fn process_of(tid: pid_t) -> Option<pid_t> {
    status_of(tid, "Tgid:")
}

/// A number in /proc/TID/status; `None` if there is no such thread.
pub(crate) fn status_of(tid: pid_t, name: &str) -> Option<pid_t> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

/// After EVENT_EXEC of `pid`: the number that the executing thread had before.
pub(crate) fn former_tid(pid: pid_t) -> io::Result<pid_t> {
    let mut tid: libc::c_ulong = 0;
    ptrace(libc::PTRACE_GETEVENTMSG, pid, 0, (&raw mut tid).addr())?;
    Ok(tid as pid_t)
}

/// Lets go of a stopped thread, which gets `signal` if it is not 0.
pub(crate) fn detach(pid: pid_t, signal: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_DETACH, pid, 0, signal as usize).map(drop)
}

/// The system call, for requests whose answer is no data.
pub(crate) fn ptrace(request: c_uint, pid: pid_t, address: usize, data: usize) -> io::Result<c_long> {
    // SAFETY: where `data` is an address, the caller's object is alive and as large as the request says; the kernel
    // checks everything about `pid`.
    let result = unsafe { libc::ptrace(request, pid, address as *mut c_void, data as *mut c_void) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
