//! Models of disks: drives with platters, drives of flash memory, and volumes of cloud providers.
//!
//! A [`Disk`] is told which [`Request`]s arrive and what time it is, and says when each is complete, in its own order,
//! and when what was written would survive a power cut. Time is virtual and always an argument: nothing here reads a
//! clock, sleeps, makes a system call or starts a thread, so whoever serves a block device decides when to ask. The
//! same parameters, seed and requests give the same answers.
//!
//! ```text
//! disk.submit(now, request)?;                 // when one arrives
//! let next = disk.next_event();               // sleep until then, or until the next request
//! disk.advance(now, &mut events);             // what has been done up to now
//! let lost = disk.cut_power(now, &mut events); // which writes did not survive
//! ```
//!
//! `docs/disk-models.md` says what is modelled, from which sources the parameters are, how close the models come, and
//! what they leave out. Nothing here knows the time dilation factor: what a disk does takes virtual time.

pub mod catalogue;
pub mod cloud;
mod disk;
pub mod hdd;
mod ledger;
mod outbox;
mod parameters;
mod request;
mod slots;
pub mod ssd;

pub use disk::{Counters, Disk};
pub use parameters::{ParameterError, Parameters};
pub use request::{Event, EventKind, LONGEST, Lost, Op, Refused, Request, SECTOR, Span};
