//! Why nothing can be mapped.

/// Always the user's input (exit code 2).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is wrong; [`model::Error::render`] shows where.
    #[error(transparent)]
    File(#[from] model::Error),
    /// Faults of the files themselves, whatever is mapped where; the sentence says what would be right.
    #[error("{0}")]
    Input(String),
}

impl Error {
    /// For a person at a terminal.
    pub fn render(&self) -> String {
        match self {
            Error::File(e) => e.render(),
            Error::Input(what) => what.clone(),
        }
    }
}
