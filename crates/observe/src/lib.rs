//! Measuring without disturbing: system calls of programs, counted in the kernel by a BPF program of ours, without an
//! event to user space for a single call; and packets, flow by flow, of what the network says of each.
//!
//! The levels at which two test beds are compared, and transitions between calls as a Markov chain, are those of
//! *Virtually the Same: Comparing Physical and Virtual Testbeds* (SAND2019-1949C, sections 3 and 4). `docs/observe.md`
//! says how it is used and what it costs.

mod calls;
mod error;
mod names;
mod packets;
mod plain;
mod series;

pub use calls::{Calls, Scope, Taken};
pub use error::Error;
pub use packets::{Fate, Happened, Packets};
pub use plain::{Observed, Plain, is_there, program_of};
