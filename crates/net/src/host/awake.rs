//! Keeps the emulator's core from falling asleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use host::sched::{self, Class};
use rustix::thread::{Pid, gettid};

use crate::Error;
use crate::host::realtime;

/// A thread that spins on a core whenever nobody else wants it (SCHED_IDLE).
///
/// An idle core sleeps, and waking it costs: in a virtual machine 50 to 100 µs, because the host must first run it
/// again; on bare metal as much in the deeper states. Every frame that arrives after a pause would enter the network
/// that much late. Anything else that wants the core gets it at once.
#[derive(Debug)]
pub(crate) struct Awake {
    stop: Arc<AtomicBool>,
    id: Option<Pid>,
    thread: Option<JoinHandle<()>>,
}

impl Awake {
    pub fn keep(core: usize) -> Result<Awake, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, (ready, started)) = (stop.clone(), channel());
        let spin = move || {
            let idle = realtime::bind(core).and_then(|()| sched::set(Class::Idle).map_err(realtime::not_scheduled));
            // The other side waits for this, so it is there.
            let _ = ready.send(idle.map(|()| gettid()));
            while !seen.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        let failed = Error::system("cannot start the thread that keeps the emulator's core awake");
        let mut awake = match thread::Builder::new().name("awake".into()).spawn(spin) {
            Ok(thread) => Awake { stop, id: None, thread: Some(thread) },
            Err(e) => return Err(failed(e)),
        };
        awake.id = Some(started.recv().unwrap_or_else(|_| Err(Error::Died("a thread of it has ended".into())))?);
        Ok(awake)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // On a core that others keep busy it would not notice for a long time.
        let _ = self.id.map(|id| sched::set_other(Some(id), Class::Ordinary));
        if let Some(thread) = self.thread.take() {
            // It has nothing to panic about.
            let _ = thread.join();
        }
    }
}
