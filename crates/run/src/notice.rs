//! Notices of a run while it goes on, to be shown to the user.

use scale::{RealDuration, VirtualInstant};

/// Something to show.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// The step that is being done before t = 0 or after the end.
    Step(String),
    /// The run goes on.
    Tick(Tick),
    /// The run has ended and its nodes are kept until it is interrupted.
    Kept,
}

/// Where a run is.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Virtual time since t = 0.
    pub virtual_now: VirtualInstant,
    /// Real time since t = 0.
    pub real: RealDuration,
    /// When the run will probably end, the end of what is measured or the limit, and how much real time is left until
    /// then; none if it is not to end by itself.
    pub expected_end: Option<(VirtualInstant, RealDuration)>,
    /// How many nodes run, of how many.
    pub running: (usize, usize),
}
