//! A request that was answered, for who compares a disk with its model.

use disk::Op;
use scale::VirtualInstant;
use serde::{Deserialize, Serialize};

/// A request that was answered, as its model saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// Operation that was asked for.
    pub op: Op,
    /// Where.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// When it came.
    pub arrived: VirtualInstant,
    /// When it was complete.
    pub complete: VirtualInstant,
}
