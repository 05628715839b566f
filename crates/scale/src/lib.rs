//! All arithmetic with the time dilation factor, and the quantities it works on.
//!
//! A *time dilation factor* (TDF) of 10 lets ten real seconds pass while one virtual second passes
//! (Gupta et al., *To Infinity and Beyond: Time-Warped Network Emulation*, NSDI 2006, §2). Real and
//! virtual quantities are different types, and only a [`Tdf`] turns one into the other, so that a
//! factor forgotten or applied twice does not compile.
//!
//! Nothing here reads a clock or a file.

mod cpu_pace;
mod disk;
mod fixed;
mod kernel;
pub mod link;
mod node_clock;
mod packing;
mod polling;
mod rate;
mod rto;
mod rtt;
mod share;
mod tdf;
mod time;
mod time_domain;
mod timeslice;

pub use cpu_pace::CpuPace;
pub use disk::{DiskClock, JournalTimes, page_cache_time};
pub use fixed::Fixed;
pub use kernel::{KernelTimer, StuckTimer, stuck_timers};
pub use node_clock::{NodeClockLine, NodeRate};
pub use packing::{loads, pack, smallest_that_fits, tdf_that_packs};
pub use rate::{RealRate, VirtualRate};
pub use rto::{INITIAL_RTO, KernelTick, Timeout, initial_rto};
pub use share::{TargetCpu, sold, tdf_that_fits, tdf_that_leaves};
pub use tdf::{Tdf, TdfError};
pub use time::{RealDuration, RealInstant, VirtualDuration, VirtualInstant};
pub use time_domain::{Real, Time, Virtual};
pub use timeslice::Timeslice;
