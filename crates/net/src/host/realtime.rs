//! Ways to make a thread punctual.

use std::io;

use host::sched::{self, Class};

use crate::Error;

/// Above ordinary real-time threads' usual 1, below what the kernel's own time-keeping needs.
const PRIORITY: u8 = 50;

/// Binds the calling thread to `core`.
fn bind(core: usize) -> Result<(), Error> {
    host::pin(core).map_err(|e| Error::Machine {
        what: format!("the emulator cannot run on core {core}: {e}"),
        help: "choose a core that `nproc` and `taskset -p $$` show".into(),
    })
}

/// Words for the user where the kernel refuses a scheduling class.
fn not_scheduled(e: io::Error) -> Error {
    Error::Machine {
        what: format!("the emulator may not be scheduled in real time: {e}"),
        help: "run as root; if this shell is in a cpu control group of version 1, move it to the root group".into(),
    }
}

/// Makes the calling thread punctual: on `core`, SCHED_FIFO, timers as exact as the machine's.
pub(crate) fn enter(core: Option<usize>) -> Result<(), Error> {
    core.map_or(Ok(()), bind)?;
    sched::set(Class::RealTime { priority: PRIORITY, inherited: false }).map_err(not_scheduled)?;
    host::time::precise_sleep().map_err(Error::system("cannot set the timer slack"))
}
