//! The process that keeps the shares while a run lasts: idle burners, what ends timeslices, and what follows who
//! sleeps and how fast a core is.

mod burners;
pub(crate) mod client;
pub(crate) mod controller;
mod followers;
pub(crate) mod process;
pub(crate) mod protocol;
mod reschedule;
pub(crate) mod shared_array;
mod watchdog;

use std::sync::mpsc::channel;

use crate::Error;

/// Starts a thread that works once it is settled: where it is to be, and how it is to be scheduled. Fails if it cannot
/// be settled.
fn start_thread(
    name: &str,
    settle: impl FnOnce() -> Result<(), Error> + Send + 'static,
    work: impl FnOnce() + Send + 'static,
) -> Result<(), Error> {
    let (settled, outcome) = channel();
    let body = move || {
        let ready = settle();
        let begun = ready.is_ok();
        if settled.send(ready).is_ok() && begun {
            work();
        }
    };
    std::thread::Builder::new().name(name.into()).spawn(body).map_err(Error::io("start a thread"))?;
    outcome.recv().map_err(|_| Error::Keeper(format!("its thread `{name}` ended at its start")))?
}
