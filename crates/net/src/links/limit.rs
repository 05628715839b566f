//! How long a queue may be.

/// How much may wait or be in transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// This many packets, at least 1.
    Packets(usize),
    /// This many bytes, as charged; at least one of the link's largest frames.
    Bytes(usize),
}
