//! Measures a core: how fast it is, how long its caches remember, who used how much of it.

pub mod caches;
pub(crate) mod interrupts;
pub mod meter;
pub mod probe;
pub(crate) mod sample;
pub(crate) mod usage;
pub(crate) mod yardstick;
