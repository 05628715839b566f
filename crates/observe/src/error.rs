//! Errors of this room.

/// Why something could not be observed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel does not take the program, or not what is asked of it.
    #[error("system calls cannot be counted: {0}")]
    Bpf(String),
    /// A process cannot be looked at.
    #[error("{what}: {source}")]
    Process {
        /// The process.
        what: String,
        /// The kernel's error.
        source: std::io::Error,
    },
}
