//! Time dilation of processes on a stock kernel.
//!
//! The frightening part runs inside the dilated processes and is explained at the top of `guest/dilation.h`. This side
//! holds the [`ClockPage`] that all of them read, and the [`Injector`], which puts the guest image into every program
//! at `execve` and is idle otherwise. The way of a command under dilation:
//!
//! 1. [`Injector::admit`] gives one end of a socket; the command is started as `dilate-exec -- COMMAND` with that
//!    socket as descriptor 3, or as the one that it is told ([`DILATE_EXEC`], [`launch()`]).
//! 2. `dilate-exec` installs the seccomp filter, sends the listener over the socket, and executes the command.
//! 3. That `execve`, like every later one of its descendants, notifies the injector, which attaches, lets it happen,
//!    maps the image and detaches.
//!
//! The crate is the only one with ptrace and seccomp. x86-64, Linux 5.19 or later.

mod auxv;
mod crew;
mod injector;
mod keep;
mod launch;
mod listeners;
mod memory;
mod notify;
mod page;
pub mod probe;
mod prober;
mod remote;
mod settings;
mod standstill;
mod supervise;
mod timers;
mod tracee;
mod tsc;
mod virtual_cpu;

pub use injector::{Injector, InjectorCounters, RateChanger};
pub use launch::{DILATE_EXEC, DILATE_EXEC_PATH, dilate_exec_file, launch, launch_by, wait};
pub use page::{ClockPage, Earlier, Stretch, Zero};
pub use prober::{ClockReading, Prober, clock_error_ppm};
pub use settings::{Untrue, UntrueSetting};
pub use supervise::{Ended, Reaper};
pub use virtual_cpu::VirtualCpu;

/// The upper half of the addresses of the image that is put into programs: what calls the kernel from there does so for
/// dilation.
pub const IMAGE_UPPER_HALF: u32 = layout::ADDRESS_HIGH as u32;

/// Constants of `guest/layout.h`.
mod layout {
    include!(concat!(env!("OUT_DIR"), "/layout.rs"));
}

/// Why something could not be dilated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine lacks something; `help` says what would give it.
    #[error("{what}: {help}")]
    Machine {
        /// The thing that is missing.
        what: String,
        /// The command or setting that helps.
        help: String,
    },
    /// A CPU rate that is no rate.
    #[error("a CPU speed of {0} makes no sense: it is a fraction of a core between 0.001 and 1000")]
    Speed(f64),
    /// A system call failed that should not.
    #[error("{what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// The injector's thread is gone.
    #[error("the injector has ended, so nothing can be started under dilation")]
    InjectorEnded,
    /// A prober's answer was none.
    #[error("the clock prober answered `{0}`, which is not two numbers")]
    Prober(String),
}

impl Error {
    /// For `map_err`: names what was tried.
    pub(crate) fn system<E: Into<std::io::Error>>(what: &'static str) -> impl FnOnce(E) -> Error {
        move |source| Error::System { what, source: source.into() }
    }
}
