//! Runs that are to be made, one after the other or several at once: a queue in a file that outlives whoever works on
//! it (Netbed's batch experiments, OSDI'02, section 3.7).
//!
//! The queue is an SQLite database, so that a job is never half written. Who makes a job holds a lock on a file of its
//! own, which the kernel drops however a process ends, and which the run itself inherits: as long as anything of a job
//! lives, nobody else begins it. What is noted as running and not locked was cut, and is tried again.
//!
//! Nothing here knows what a run is; it is a program with words, made by [`Queue::work`].

mod capacity;
mod error;
mod job;
mod lock;
mod store;
mod sweep;
mod worker;

pub use capacity::{Bound, Next, Range, majority};
pub use error::{Error, Result};
pub use job::{Job, State, Times, Wanted};
pub use lock::Held;
pub use store::{MOST_TRIES, Queue};
pub use sweep::{Axis, Point, Sweep};
pub use worker::{Worked, ask_to_end};
