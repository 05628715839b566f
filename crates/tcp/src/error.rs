//! Why a program could not be used.

/// The machine does not run one of the programs.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Error {
    what: &'static str,
    why: String,
}

impl Error {
    pub(crate) fn new(what: &'static str, why: impl ToString) -> Error {
        Error { what, why: why.to_string() }
    }
}

/// An error of libbpf, as one of ours.
pub(crate) fn error(what: &'static str, error: libbpf_rs::Error) -> Error {
    Error::new(what, host::bpf::refused(error))
}
