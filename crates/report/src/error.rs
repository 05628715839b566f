//! Why something cannot be shown.

use fidelity::compare::Incomparable;

/// A failure of this room.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A run directory that cannot be read or written.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// Runs that cannot be compared with one another.
    #[error(transparent)]
    Incomparable(#[from] Incomparable),
}
