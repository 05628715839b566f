//! What a run reports while it goes on, to be shown to the user.

use std::fmt::Display;
use std::io::Write;

use scale::{RealDuration, VirtualInstant};

/// Tells the user something on standard error. A terminal that has gone, or a full disk behind it, must not end a run.
pub fn warn(what: impl Display) {
    let _ = writeln!(std::io::stderr(), "diorama: {what}");
}

/// Something to show.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// What the engine is doing before t = 0 or after the end.
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
