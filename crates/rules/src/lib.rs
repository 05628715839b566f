//! Rules that keep the rooms of this repository apart, as functions from the text of a file to what is wrong with it.
//!
//! `docs/architecture.md` says what each crate is for. What of it can be seen in the text is checked here, so that it
//! stays true: which crate may depend on which ([`rooms`]), how large a cycle of its modules may be ([`modules`]),
//! which words only one of them may use ([`words`]), that what the pages name is there ([`names`]), how long these are
//! ([`pages`]), and that all tests are run ([`test_files`]). `tests/tree.rs` applies all of it to the repository.
//!
//! Nothing here is needed to build or to run Diorama, and nothing depends on it.

use std::fmt;

pub mod modules;
pub mod names;
pub mod pages;
pub mod paths;
pub mod rooms;
pub mod test_files;
pub mod text;
pub mod words;

/// Something that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Breach {
    /// The file, from the repository's root.
    pub path: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The fault, and what would be right.
    pub says: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.says)
    }
}

impl Breach {
    fn new(path: &str, line: usize, says: impl Into<String>) -> Breach {
        Breach { path: path.to_string(), line, says: says.into() }
    }
}
