//! Counters as plain data: one type for each thing that is counted, from the mechanism that reads it over the interface
//! of a site to the checks that judge a run by it.
//!
//! Mechanisms know nothing of one another and checks nothing of mechanisms, so what they all speak of lies below them.

mod calls;
mod core;
mod disk;
mod host_findings;
mod packets;
mod tcp;

pub use self::calls::{CallUse, NodeCalls, ProgramCalls, Step};
pub use self::core::{CoreTicks, CoreWork, CpuSample, Looks, NodeUse, Speed, Staleness};
pub use disk::{Answered, DiskCounters, lateness_limit};
pub use host_findings::{ForeignThread, UntrueSetting};
pub use packets::{Carried, Flow, ObservedPackets, PacketCount, PacketCounters, Spread, Way};
pub use tcp::TcpCounters;
