//! The life of an experiment: its plan, its start, its events, what is collected, and its end.
//!
//! This is the only room that knows all the others.

mod attend;
mod captures;
mod cast;
mod collect;
mod control;
pub mod dilate;
pub mod doctor;
mod error;
mod exec;
mod helper;
mod interrupt;
mod life;
mod load;
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
pub use helper::become_helper;
pub use interrupt::listen as interrupts;
pub use life::{Outcome, Request, claim_directory, run};
pub use load::load;
pub use logs::{find_live, find_run, print as print_logs};
pub use model::Experiment;
pub use notice::{Notice, Tick, warn};
pub use plan::Plan;
pub use registry::{Cores, LiveRun, live_runs, sweep};
pub use scale::Tdf;
