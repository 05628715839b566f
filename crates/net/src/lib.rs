//! The network emulator: links as pipes, and the ports through which nodes use them.
//!
//! The pure half is [`Network`]: pipes with bandwidth, delay, impairments and a queue, which join nodes and switches into
//! any connected graph. It reads no clock and makes no system call; time is always passed in, so it is tested without
//! root, sleep or luck. The real half is [`Tap`], a node's interface, and [`Emulator`], the real-time thread that carries
//! frames between interfaces and a `Network`.
//!
//! Everything here is in *real* time and real rates: a dilated link has been scaled before it arrives here.
//! `docs/network.md` describes the model.

mod error;
mod host;
mod links;

pub use error::Error;
pub use host::capture::{Capture, CaptureFile, Captured, Stamp};
pub use host::emulator::{Emulator, Options};
pub use host::lateness::{Lateness, LatenessSecond};
pub use host::observation::{Observation, PipeObservation, PortObservation};
pub use host::tap::{Tap, raise_loopback};
pub use links::counters::{PipeCounters, PortCounters};
pub use links::frame::{Frame, MAX_FRAME};
pub use links::ids::{PipeId, PortId};
pub use links::network::{Delivery, Network};
pub use links::port::{Port, Rule};
pub use links::prefix::Prefix;
pub use links::series::PipeInterval;
pub use links::spec::{Jitter, LinkSpec, NetworkSpec, PipeChange, PipeConfig, RouteSpec};
pub use scale::link::{DEFAULT_MTU, Distribution, GilbertElliott, Limit, Loss, Queue, Red};
