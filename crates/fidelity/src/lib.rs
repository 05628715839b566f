//! How far a run can be trusted, and how two runs differ.
//!
//! [`record`], [`events`] and [`samples`] are the run directory: what a run writes and what everything after it reads.

pub mod checks;
pub mod compare;
mod error;
pub mod events;
pub mod host;
pub mod html;
pub mod observe;
pub mod record;
pub mod runs;
pub mod samples;
mod waiting;
pub mod watch;

pub use error::Error;
