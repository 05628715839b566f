//! One exec under ptrace: from the notification to the program's first instruction.
//!
//! The thread is attached (PTRACE_SEIZE) while it waits for the answer to its notification, so nothing can happen to
//! it in between. Then three stops: the exec has happened; its system call ends (calls cannot be injected before that);
//! the one injected call, an mmap, is done. The calls here must all come from the thread that seized.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr;

use libc::{c_long, c_uint, c_void, pid_t};

use crate::auxv::{Elf, KernelVdso, vdso_base};
use crate::layout::{BOOTSTRAP_OFFSET, BOOTSTRAP_ROOM, IMAGE as IMAGE_ADDRESS, IMAGE_ROOM, STATE, STATE_SIZE};
use crate::page::IMAGE;
use crate::rate::CpuRate;

const BOOTSTRAP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bootstrap"));
const _: () = assert!(BOOTSTRAP.len() <= BOOTSTRAP_ROOM as usize);
const _: () = assert!(IMAGE.len() <= IMAGE_ROOM as usize);

const PTRACE_GETSIGMASK: c_uint = 0x420a;
const PTRACE_SETSIGMASK: c_uint = 0x420b;
/// `cs` of 64-bit code.
const USER_CS: u64 = 0x33;

/// What is the same for every exec on this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe {
    vdso: KernelVdso,
    entry: u64,
}

impl Recipe {
    pub fn new() -> Result<Recipe, crate::Error> {
        let entry = Elf(IMAGE).entry().expect("build.rs links an ELF file");
        Ok(Recipe { vdso: KernelVdso::own()?, entry: IMAGE_ADDRESS + entry })
    }
}

/// The part of `struct state` (`guest/dilation.h`) that the injector writes.
#[repr(C)]
struct State {
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
}

/// How far an exec has come.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The kernel is at it.
    Executing,
    /// The new program is loaded; waiting for the end of the execve call.
    Entering,
    /// Waiting for the injected mmap.
    Mapping { registers: Registers, vdso: u64, mask: u64 },
}

type Registers = libc::user_regs_struct;

/// What a stop of a tracee led to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// More stops will come.
    Continues,
    /// The image is in place and the thread is detached.
    Injected,
    /// The kernel refused the exec and the thread is detached, in its old program.
    NotExecuted,
    /// The program cannot be dilated, for this reason. It must not run undilated.
    Refused(String),
}

/// A thread between its exec's notification and its detaching.
#[derive(Debug)]
pub(crate) struct Tracee {
    pid: pid_t,
    cpu: CpuRate,
    stage: Stage,
}

impl Tracee {
    /// Attaches to a thread that waits for the answer to a notification.
    pub fn seize(tid: pid_t, cpu: CpuRate) -> io::Result<Tracee> {
        let options = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
        ptrace(libc::PTRACE_SEIZE, tid, 0, options as usize)?;
        Ok(Tracee { pid: tid, cpu, stage: Stage::Executing })
    }

    /// After the notification is answered: makes a failed exec stop too. An error means that the thread is gone.
    pub fn interrupt(&self) {
        let _ = ptrace(libc::PTRACE_INTERRUPT, self.pid, 0, 0);
    }

    /// Takes the next step at a stop that `waitpid` reported for `pid`, which may have changed by an exec.
    pub fn step(&mut self, pid: pid_t, status: i32, recipe: &Recipe) -> Outcome {
        self.pid = pid;
        match self.try_step(status, recipe) {
            Ok(outcome) => outcome,
            // Killed while stopped: its end will be reported.
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Outcome::Continues,
            Err(e) => Outcome::Refused(format!("the clock could not be put into it: {e}")),
        }
    }

    fn try_step(&mut self, status: i32, recipe: &Recipe) -> io::Result<Outcome> {
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        match self.stage {
            Stage::Executing if event == libc::PTRACE_EVENT_EXEC => {
                self.stage = Stage::Entering;
                self.resume(libc::PTRACE_SYSCALL)
            }
            // Back in user space without an exec. A signal on its way is passed on.
            Stage::Executing => {
                self.detach(if event == 0 { signal } else { 0 })?;
                Ok(Outcome::NotExecuted)
            }
            Stage::Entering if signal == libc::SIGTRAP | 0x80 => self.begin_mapping(recipe),
            Stage::Entering => self.resume(libc::PTRACE_SYSCALL),
            Stage::Mapping { registers, vdso, mask } if event == 0 && signal == libc::SIGTRAP => {
                self.finish(recipe, registers, vdso, mask)
            }
            // Some stop on the way (a late INTERRUPT, a group stop, which takes effect when we detach).
            Stage::Mapping { .. } if event != 0 => self.resume(libc::PTRACE_SINGLESTEP),
            Stage::Mapping { .. } => {
                Ok(Outcome::Refused(format!("signal {signal} hit it before its first instruction")))
            }
        }
    }

    /// At the end of execve: makes the thread map its state page.
    fn begin_mapping(&mut self, recipe: &Recipe) -> io::Result<Outcome> {
        let registers = self.registers()?;
        if registers.cs != USER_CS {
            return Ok(Outcome::Refused("32-bit programs cannot be dilated".to_owned()));
        }
        let Some(vdso) = vdso_base(self.pid) else {
            return Ok(Outcome::Refused("it has no vDSO, or its auxiliary vector cannot be read".to_owned()));
        };
        let mask = self.signal_mask()?;
        self.set_signal_mask(!0)?;
        let mut call = registers;
        call.rip = vdso + recipe.vdso.syscall;
        call.rax = libc::SYS_mmap as u64;
        // Not within a system call, so that nothing is restarted.
        call.orig_rax = u64::MAX;
        call.rdi = STATE;
        call.rsi = STATE_SIZE;
        // Not writable: that would be refused under W^X policies. Our own writing overrides it, the image changes it.
        call.rdx = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        call.r10 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        call.r8 = u64::MAX;
        call.r9 = 0;
        self.set_registers(&call)?;
        self.stage = Stage::Mapping { registers, vdso, mask };
        self.resume(libc::PTRACE_SINGLESTEP)
    }

    /// The mmap is done: writes state and bootstrap, and lets the thread run into it.
    fn finish(&mut self, recipe: &Recipe, registers: Registers, vdso: u64, signal_mask: u64) -> io::Result<Outcome> {
        let result = self.registers()?.rax;
        if result != STATE {
            let error = io::Error::from_raw_os_error((result as i64).wrapping_neg() as i32);
            return Ok(Outcome::Refused(format!("address {STATE:#x} is not free in it: {error}")));
        }
        let at = |offset: u64| if offset == 0 { 0 } else { vdso + offset };
        let state = State {
            real_vdso: vdso,
            real_vdso_len: recipe.vdso.len,
            vdso_clock_gettime: at(recipe.vdso.clock_gettime),
            vdso_getcpu: at(recipe.vdso.getcpu),
            vdso_getrandom: at(recipe.vdso.getrandom),
            entry: registers.rip,
            signal_mask,
            cpu_whole: self.cpu.forward.whole,
            cpu_frac: self.cpu.forward.frac,
            cpu_back_whole: self.cpu.back.whole,
            cpu_back_frac: self.cpu.back.frac,
        };
        let memory = OpenOptions::new().write(true).open(format!("/proc/{}/mem", self.pid))?;
        // SAFETY: `State` is eleven u64 without padding.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const state).cast::<u8>(), size_of::<State>()) };
        memory.write_all_at(bytes, STATE)?;
        memory.write_all_at(BOOTSTRAP, STATE + BOOTSTRAP_OFFSET)?;

        let mut start = registers;
        start.rip = STATE + BOOTSTRAP_OFFSET;
        start.orig_rax = u64::MAX;
        start.r13 = IMAGE.len() as u64;
        start.r14 = recipe.entry;
        self.set_registers(&start)?;
        self.detach(0)?;
        Ok(Outcome::Injected)
    }

    fn resume(&self, how: c_uint) -> io::Result<Outcome> {
        ptrace(how, self.pid, 0, 0)?;
        Ok(Outcome::Continues)
    }

    fn detach(&self, signal: i32) -> io::Result<()> {
        ptrace(libc::PTRACE_DETACH, self.pid, 0, signal as usize).map(drop)
    }

    fn registers(&self) -> io::Result<Registers> {
        // SAFETY: plain integers; every bit pattern is a value.
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        ptrace(libc::PTRACE_GETREGS, self.pid, 0, (&raw mut registers).addr())?;
        Ok(registers)
    }

    fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        ptrace(libc::PTRACE_SETREGS, self.pid, 0, ptr::from_ref(registers).addr()).map(drop)
    }

    fn signal_mask(&self) -> io::Result<u64> {
        let mut mask = 0u64;
        ptrace(PTRACE_GETSIGMASK, self.pid, size_of::<u64>(), (&raw mut mask).addr())?;
        Ok(mask)
    }

    fn set_signal_mask(&self, mask: u64) -> io::Result<()> {
        ptrace(PTRACE_SETSIGMASK, self.pid, size_of::<u64>(), (&raw const mask).addr()).map(drop)
    }
}

/// After EVENT_EXEC of `pid`: the number that the executing thread had before.
pub(crate) fn former_tid(pid: pid_t) -> io::Result<pid_t> {
    let mut tid: libc::c_ulong = 0;
    ptrace(libc::PTRACE_GETEVENTMSG, pid, 0, (&raw mut tid).addr())?;
    Ok(tid as pid_t)
}

/// Lets go of a stopped thread that was attached for nothing.
pub(crate) fn detach(pid: pid_t) {
    let _ = ptrace(libc::PTRACE_DETACH, pid, 0, 0);
}

fn ptrace(request: c_uint, pid: pid_t, address: usize, data: usize) -> io::Result<c_long> {
    // SAFETY: where `data` is an address, the caller's object is alive and as large as the request says; the kernel
    // checks everything about `pid`.
    let result = unsafe { libc::ptrace(request, pid, address as *mut c_void, data as *mut c_void) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
