//! How far a run can be trusted, and how two runs differ. Nothing here opens a file, asks the kernel or reads a clock.
//!
//! From counters to a verdict:
//!
//! - [`counters`] are what was counted, as it stood at one instant. [`monitor`] follows them during a run, and
//!   [`emulator_load`] the emulator's own; what they showed are [`observations`].
//! - [`core_speed`] follows how fast the nodes' core was.
//! - [`evidence`] is that and everything else that is known at the end of a run. [`checks`] has one function per
//!   promise: evidence goes in, and what it does to times comes out ([`effects`]).
//! - [`links`] tell whose metrics no CPU decides.
//! - [`findings`] are all of that. With the samples of the metrics, and the part of them that is chance ([`sampling`]),
//!   they become intervals, and those, held against the [`accuracy`] that was asked for, the verdict.
//!
//! [`so_far`] is what is known of checks while a run goes on.
//!
//! From samples to errors: [`statistics`], and [`compare`], which pairs runs. [`require`] holds one against limits.
//!
//! `docs/checks.md` explains each check and the size of its effect.

pub mod accuracy;
mod budget;
pub mod checks;
pub mod compare;
pub mod core_speed;
pub mod counters;
pub mod effects;
pub mod emulator_load;
pub mod evidence;
pub mod findings;
pub mod hold;
pub mod links;
pub mod monitor;
pub mod observations;
pub mod require;
pub mod sampling;
pub mod so_far;
pub mod statistics;
pub mod units;
pub mod wording;

pub use findings::conclude;
