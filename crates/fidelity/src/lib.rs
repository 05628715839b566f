//! How far a run can be trusted, and how two runs differ.
//!
//! - [`record`], [`events`] and [`samples`] are the run directory: what a run writes and what everything after it reads.
//! - [`watch`] is fed the kernel's counters during a run and keeps the worst interval of each quantity; [`observe`] names
//!   those that are not a node's or a core's own.
//! - [`checks`] holds one pure function per promise of the design: what was seen goes in, a [`record::Check`] comes out.
//! - [`runs`] opens runs again, [`compare`] pairs them and states their errors, [`html`] draws them.
//!
//! Nothing here reads a clock where a time could be passed in.

pub mod checks;
pub mod compare;
mod error;
pub mod html;
pub mod observe;
pub mod overload;
pub mod statistics;
mod verdict;
pub mod watch;

pub use error::Error;
pub use verdict::conclude;
