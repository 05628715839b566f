//! The network emulator: links as pipes, and the ports through which nodes use them.
//!
//! The pure half is [`Network`]: pipes with bandwidth, delay, impairments and a queue, which join nodes and switches into
//! any connected graph. It reads no clock and makes no system call; time is always passed in, so it is tested without
//! root, sleep or luck. The real half is [`Tap`], a node's interface, and [`Emulator`], the real-time thread that carries
//! frames between interfaces and a `Network`.
//!
//! Everything here is in *real* time and real rates: a dilated link has been scaled before it arrives here.
//! `docs/network.md` describes the model.

mod address;
mod awake;
mod capture;
mod draws;
mod emulator;
mod error;
mod frame;
mod given;
mod jitter;
mod lateness;
mod loss;
mod namespace;
mod netlink;
mod network;
mod observation;
mod pipe;
mod policy;
mod prefix;
mod queue;
mod realtime;
mod red;
mod routing;
mod series;
mod spec;
mod tap;
mod topology;

#[cfg(test)]
mod impairment_tests;
#[cfg(test)]
mod pipe_tests;
#[cfg(test)]
mod routing_tests;
#[cfg(test)]
mod series_tests;
#[cfg(test)]
mod topology_tests;

pub use capture::{Capture, CaptureFile, Captured, Stamp};
pub use emulator::{Emulator, Options};
pub use error::Error;
pub use frame::{Frame, MAX_FRAME};
pub use jitter::{Distribution, Jitter};
pub use lateness::{Lateness, LatenessSecond};
pub use loss::{GilbertElliott, Loss};
pub use network::{Delivery, Network, PortCounters};
pub use observation::{Observation, PipeObservation, PortObservation};
pub use pipe::PipeCounters;
pub use prefix::Prefix;
pub use queue::{Limit, Queue};
pub use red::Red;
pub use series::PipeInterval;
pub use spec::{DEFAULT_MTU, LinkSpec, NetworkSpec, PipeChange, PipeConfig, RouteSpec};
pub use tap::{Tap, raise_loopback};
pub use topology::{PipeId, Port, PortId, Rule};
