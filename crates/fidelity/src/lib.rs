//! How far a run can be trusted, and how two runs differ. Nothing here opens a file, asks the kernel or reads a clock.
//!
//! From counters to a verdict:
//!
//! - [`counters`] are what was counted, as it stood at one instant. [`monitor`] follows them during a run, and
//!   [`emulator_load`] the emulator's own; what they showed are [`observations`].
//! - [`evidence`] is that and everything else that is known at the end of a run. [`checks`] has one function per
//!   promise: evidence goes in, a [`record::Check`] comes out. The verdict follows from the checks ([`conclude`]).
//!
//! From samples to errors: [`statistics`], and [`compare`], which pairs runs.
//!
//! What each check means, and why its limit is what it is, is in `docs/fidelity.md`.

pub mod checks;
pub mod compare;
pub mod counters;
pub mod emulator_load;
pub mod evidence;
pub mod monitor;
pub mod observations;
pub mod statistics;
mod verdict;
pub mod wording;

pub use verdict::conclude;
