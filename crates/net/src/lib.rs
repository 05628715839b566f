//! The network emulator: links as pipes, and the ports through which nodes use them.
//!
//! The pure half (`links`) is [`Network`]: pipes with bandwidth, delay, impairments and a queue, which join nodes and
//! switches into any connected graph. It reads no clock and makes no system call; time is always passed in, so its
//! tests need no root and no sleep. The other half (`host`) is [`Tap`], a node's interface, and [`Emulator`], the
//! real-time thread that carries frames between interfaces and a `Network`.
//!
//! Everything here is in *real* time and real rates: a dilated link has been scaled before it arrives here.
//! `docs/links.md` describes the model.

mod error;
mod host;
mod links;

pub use self::error::Error;
pub use self::host::capture::{Capture, CaptureFile, Captured, Stamp};
pub use self::host::clocks::Clocks;
pub use self::host::crossings::Crossings;
pub use self::host::emulator::{Emulator, Options};
pub use self::host::lateness::{Lateness, LatenessSecond};
pub use self::host::observation::{Observation, PipeObservation, PortObservation};
pub use self::host::passages::Passages;
pub use self::host::tap::{Tap, raise_loopback};
pub use self::host::traffic::{PortTraffic, Traffic};
pub use self::links::counters::{PipeCounters, PortCounters};
pub use self::links::flow::{FlowChange, FlowCounters, FlowInterval, FlowSpec, Load};
pub use self::links::frame::{Frame, MAX_FRAME};
pub use self::links::ids::{PipeId, PortId};
pub use self::links::ipv6::twin;
pub use self::links::network::{Delivery, Network};
pub use self::links::passages::{Passage, Passed};
pub use self::links::port::{Lan, Port, Rule};
pub use self::links::prefix::Prefix;
pub use self::links::series::PipeInterval;
pub use self::links::spec::{AddressSpec, Jitter, LanSpec, LinkSpec, NetworkSpec, PipeChange, PipeConfig, RouteSpec};
pub use scale::link::{DEFAULT_MTU, Distribution, GilbertElliott, Limit, Loss, Queue, Red};
