//! How long the machine leaves alone what nobody uses of its memory.

use std::thread::{Builder, JoinHandle};

use host::Change;
use host::reclaim::Reclaim;
use scale::{Tdf, page_cache_time};

type Taken = Result<Reclaim, String>;

/// That idle memory stays for as much virtual time as on a target that has this machine's kernel, or why it does not.
pub struct IdleMemory {
    taken: Taken,
    /// Has the kernel change it, which looks up to half a second later.
    taking: Option<JoinHandle<Taken>>,
}

impl IdleMemory {
    /// Leaves it as it is.
    pub fn none() -> IdleMemory {
        IdleMemory { taken: Ok(Reclaim::none()), taking: None }
    }

    /// Has it stay so, until this is dropped. `id` is the run's.
    pub fn take(id: &str, tdf: Tdf) -> IdleMemory {
        // Runs that are not dilated need nothing, and do not stand in the way of others.
        if tdf == Tdf::ONE {
            return IdleMemory::none();
        }
        let id = id.to_owned();
        let take = move || Reclaim::take(&id, |usually| page_cache_time(tdf, usually)).map_err(|e| e.to_string());
        match thread().spawn(take.clone()) {
            Ok(thread) => IdleMemory { taken: Ok(Reclaim::none()), taking: Some(thread) },
            Err(_) => IdleMemory { taken: take(), taking: None },
        }
    }

    /// Settings that are other ones for the whole machine, or why they are not as they should be: waits until they are.
    pub fn conditions(&mut self) -> Result<Vec<Change>, String> {
        self.wait();
        self.taken.as_ref().map(Reclaim::changes).map_err(String::clone)
    }

    /// How many pages of files the machine has read again so far, where idle memory goes in real time.
    pub fn pages_read_again(&self) -> Option<u64> {
        self.taken.as_ref().err().and_then(|_| host::reclaim::pages_read_again())
    }

    /// Begins to restore it. Whoever drops this waits until that is done, and so does who restores it beside something.
    pub fn begin_to_restore(&mut self) {
        let taken = std::mem::replace(self, IdleMemory::none());
        let restore = move || {
            drop(taken);
            Ok(Reclaim::none())
        };
        // Where no thread can be had, it is dropped here.
        self.taking = thread().spawn(restore).ok();
    }

    /// Restores it beside what is done `meanwhile`.
    pub fn restore_beside(self, meanwhile: impl FnOnce()) {
        std::thread::scope(|threads| {
            // Where no thread can be had, it is dropped here.
            let _ = thread().spawn_scoped(threads, move || drop(self));
            meanwhile();
        });
    }

    fn wait(&mut self) {
        if let Some(thread) = self.taking.take() {
            self.taken = thread.join().unwrap_or_else(|_| Err("a thread failed that was to change it".into()));
        }
    }
}

impl Drop for IdleMemory {
    fn drop(&mut self) {
        // Waits for a change that is under way, so that it is restored, too.
        self.wait();
    }
}

fn thread() -> Builder {
    Builder::new().name("idle-memory".into())
}
