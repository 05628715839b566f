//! Keeps a core from falling asleep.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use rustix::thread::{Pid, gettid, sched_yield};

use crate::error::{Context, Error, Lack};
use crate::sched::{self, Class};

/// A thread that spins on a core whenever nobody else wants it (SCHED_IDLE).
///
/// An idle core sleeps, and waking it costs: in a virtual machine 50 to 100 µs, because the host must first run it
/// again; on bare metal as much in the deeper states. Whoever is woken there would come that much late. Anything else
/// that wants the core gets it at once, or within some µs.
#[derive(Debug)]
pub struct Awake {
    stop: Arc<AtomicBool>,
    id: Option<Pid>,
    thread: Option<JoinHandle<()>>,
}

/// How often it spins, for some µs, before it asks whether somebody wants the core. The kernel's fair scheduler does
/// not let a task that is woken take the core, even from an idle one, as long as it has had more than its due (EEVDF).
/// It soon has not, for an idle task weighs a third of a percent, but nobody looks again before the tick, 4 ms later.
const SPINS: u32 = 256;

impl Awake {
    /// Keeps a core awake until this is dropped.
    ///
    /// # Errors
    ///
    /// If this process may not use that core.
    pub fn keep(core: usize) -> Result<Awake, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, (ready, started)) = (stop.clone(), channel());
        let spin = move || {
            // Lowering one's own class needs no privilege.
            let idle = crate::pin(core).and_then(|()| sched::set(Class::Idle));
            // The other side waits for this, so it is there.
            let _ = ready.send(idle.map(|()| gettid()));
            while !seen.load(Ordering::Relaxed) {
                (0..SPINS).for_each(|_| std::hint::spin_loop());
                sched_yield();
            }
        };
        let what = || format!("cannot start the thread that keeps core {core} awake");
        let thread = thread::Builder::new().name("awake".into()).spawn(spin).context(what)?;
        let mut awake = Awake { stop, id: None, thread: Some(thread) };
        let died = |_| Err(io::Error::other("it has ended"));
        let help = "choose a core that `nproc` and `taskset -p $$` show";
        let refused = |e| Lack::new(format!("core {core} cannot be kept awake: {e}"), help);
        awake.id = Some(started.recv().unwrap_or_else(died).map_err(refused)?);
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_core_that_is_not_there_cannot_be_kept_awake() {
        let said = Awake::keep(1_000).unwrap_err().to_string();
        assert!(said.starts_with("core 1000 cannot be kept awake") && said.contains("nproc"), "{said}");
    }

    #[test]
    fn it_ends_with_what_holds_it() {
        let core = crate::cores::usable().unwrap()[0];
        let awake = Awake::keep(core).unwrap();
        let id = awake.id.unwrap().as_raw_nonzero();
        let there = || std::path::Path::new(&format!("/proc/self/task/{id}")).exists();
        assert!(there());
        drop(awake);
        // A thread is joined a moment before the kernel takes it off its list.
        let patience = Instant::now() + Duration::from_secs(10);
        while there() {
            assert!(Instant::now() < patience, "it is still there 10 s after it was joined");
            thread::sleep(Duration::from_millis(1));
        }
    }
}
