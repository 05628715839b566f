//! How long the machine leaves alone what nobody uses of its memory.

use host::Change;
use host::reclaim::Reclaim;
use scale::{Tdf, page_cache_time};

/// That idle memory stays for as much virtual time as on a target that has this machine's kernel, or why it does not.
pub struct IdleMemory(Result<Reclaim, String>);

impl IdleMemory {
    /// Has it stay so, until this is dropped. `id` is the run's.
    pub fn take(id: &str, tdf: Tdf) -> IdleMemory {
        // Runs that are not dilated need nothing, and do not stand in the way of others.
        if tdf == Tdf::ONE {
            return IdleMemory(Ok(Reclaim::none()));
        }
        IdleMemory(Reclaim::take(id, |usually| page_cache_time(tdf, usually)).map_err(|e| e.to_string()))
    }

    /// Settings that are other ones for the whole machine, or why they are not as they should be.
    pub fn conditions(&self) -> Result<Vec<Change>, String> {
        self.0.as_ref().map(Reclaim::changes).map_err(String::clone)
    }

    /// How many pages of files the machine has read again so far, where idle memory goes in real time.
    pub fn pages_read_again(&self) -> Option<u64> {
        self.0.as_ref().err().and_then(|_| host::reclaim::pages_read_again())
    }
}
