//! The life of an experiment: its plan, its start, its events, what is collected, and its end.
//!
//! This is the only room that knows all the others.

mod attend;
mod captures;
mod cast;
mod collect;
mod control;
mod error;
mod exec;
mod interrupt;
mod life;
mod logs;
mod notice;
mod observer;
pub mod plan;
mod registry;
mod results;
mod rundir;
pub mod script;
mod series;
mod stage;
mod timeline;
mod versions;

pub use captures::Recording;
pub use error::{Error, Result};
pub use exec::exec;
pub use interrupt::listen as interrupts;
pub use life::{Outcome, Request, claim_directory, run};
pub use logs::{find_live, find_run, print as print_logs};
pub use notice::{Notice, Tick, warn};
pub use plan::Plan;
pub use registry::{Cores, LiveRun, live_runs, sweep};
