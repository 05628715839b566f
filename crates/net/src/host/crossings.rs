//! How far nodes' clocks were from the run's when frames crossed from node to node.

use hdrhistogram::Histogram;
use scale::{RealDuration, RealInstant};
use serde::{Deserialize, Serialize};

use crate::host::lateness::nanoseconds;

/// All frames that crossed while nodes had clocks of their own; times are real nanoseconds.
///
/// Each histogram holds all frames of its kind, those too whose value is 0, so that its quantiles are of all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crossings {
    /// Frames read that bore no clock: their instant is the run's when they were read.
    pub unstamped: u64,
    /// By how much the clock in a frame was ahead of the run's: for so long it was held.
    #[serde(with = "crate::host::histogram")]
    pub ahead: Histogram<u64>,
    /// By how much it was behind when the frame was read.
    #[serde(with = "crate::host::histogram")]
    pub behind: Histogram<u64>,
    /// By how much a frame that is handed over entered pipes later than it should, since others had entered meanwhile.
    #[serde(with = "crate::host::histogram")]
    pub pushed: Histogram<u64>,
    /// Frames handed to nodes that had nothing to do.
    pub to_idle: u64,
    /// Frames handed to others that only acknowledge: no program sees them, and no clock is raised for them.
    pub acknowledgements: u64,
    /// By how much the clock of a node that had the core, or waited for it, was ahead of the run's when it was handed
    /// any other frame.
    #[serde(with = "crate::host::histogram")]
    pub lead: Histogram<u64>,
    /// By how much it was behind.
    #[serde(with = "crate::host::histogram")]
    pub lag: Histogram<u64>,
}

impl Default for Crossings {
    fn default() -> Crossings {
        let [ahead, behind, pushed, lead, lag] = std::array::from_fn(|_| nanoseconds());
        Crossings { unstamped: 0, ahead, behind, pushed, to_idle: 0, acknowledgements: 0, lead, lag }
    }
}

impl Crossings {
    /// Frames read that bore their node's clock.
    pub fn stamped(&self) -> u64 {
        self.ahead.len()
    }

    /// A frame is read at `now` that was sent at `sent` by its node's clock.
    pub(crate) fn sent(&mut self, now: RealInstant, sent: RealInstant) {
        record(&mut self.ahead, sent.since(now));
        record(&mut self.behind, now.since(sent));
    }

    /// A frame is handed over that entered pipes so much later than it should.
    pub(crate) fn pushed(&mut self, late: RealDuration) {
        record(&mut self.pushed, late);
    }

    /// A frame is handed to a node that is not idle, whose clock shows `shown`.
    pub(crate) fn received(&mut self, now: RealInstant, shown: RealInstant) {
        record(&mut self.lead, shown.since(now));
        record(&mut self.lag, now.since(shown));
    }
}

fn record(histogram: &mut Histogram<u64>, value: RealDuration) {
    histogram.saturating_record(value.as_nanos());
}
