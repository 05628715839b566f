//! Flows that exist only in the network: what they are told, and what is told of them.

use scale::RealInstant;
use serde::{Deserialize, Serialize};
use traffic::Pattern;

/// A flow of the emulator's own: sources that are all alike, each of which sends on its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSpec {
    /// Its name.
    pub name: String,
    /// The nodes or switches from which and to which each source sends.
    pub ways: Vec<(String, String)>,
    /// Loads of the sources.
    pub load: Load,
    /// Of all that is drawn.
    pub seed: u64,
}

/// Load of a source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The length of its frames in bytes, as pipes charge it.
    pub frame: usize,
    /// When they leave, in real seconds. What is greedy has no meaning here, and is refused.
    #[serde(with = "PatternDef")]
    pub pattern: Pattern,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Pattern")]
struct PatternDef {
    #[serde(with = "ShapeDef")]
    shape: traffic::Shape,
    packets: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "traffic::Shape")]
enum ShapeDef {
    Constant { interval: f64, noise: bool },
    Poisson { interval: f64 },
    Bursts { interval: f64, on: f64, off: f64, pareto: Option<f64> },
    Greedy,
}

/// Changes of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum FlowChange {
    /// All its sources begin, if they have not.
    Start,
    /// They send no more. What is under way arrives.
    Stop,
    /// From now on they send otherwise, or will when they start.
    Load(Load),
}

/// Fates of the packets of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCounters {
    /// Left their sources.
    pub sent: u64,
    /// Arrived; copies count, too.
    pub arrived: u64,
    /// Were dropped: by a queue, by chance, by a link that is down.
    pub lost: u64,
    /// How long those took that arrived, in real ns: the sum.
    pub delay: u64,
}

impl FlowCounters {
    pub(crate) fn since(&self, before: &FlowCounters) -> FlowCounters {
        FlowCounters {
            sent: self.sent - before.sent,
            arrived: self.arrived - before.arrived,
            lost: self.lost - before.lost,
            delay: self.delay - before.delay,
        }
    }
}

/// A flow in one interval of the [series](crate::PipeInterval). One that did not run, and of which nothing arrived, has
/// none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowInterval {
    /// Which flow, by its place in the specification.
    pub flow: usize,
    /// When the interval began.
    pub from: RealInstant,
    /// When it ended.
    pub to: RealInstant,
    /// Whether it ran all the time.
    pub whole: bool,
    /// By how much its counters grew.
    pub grew: FlowCounters,
    /// The length of its frames in bytes, at the end of the interval.
    pub frame: usize,
}
