//! The life of an experiment: its plan, its start, its events, what is collected, and its end.
//!
//! This is the only room that knows all the others.

mod collect;
mod error;

mod rundir;
pub mod script;

pub use error::{Error, Result};

