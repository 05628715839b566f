//! Faults of a script, and their places.

use std::fmt;
use std::path::PathBuf;

/// A place in a script.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file, as the user may call it.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Something that is to be said about a script: what is wrong and what would be right, or what becomes of it here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where; none if it is about the whole script.
    pub place: Option<Place>,
    /// The fault.
    pub what: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// Why a script cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("{}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The fault, and what would be right.
        why: String,
    },
    /// The script is wrong in at least one place.
    #[error("{}", lines(.0))]
    Script(Vec<Note>),
    /// The file that says what hardware is here is wrong.
    #[error("{}", .0.render())]
    Hardware(model::Error),
    /// The machine lacks something.
    #[error("{what}; {help}")]
    Machine {
        /// The thing that is lacking.
        what: String,
        /// The command that helps.
        help: String,
    },
}

/// The most that is worth reading at once.
const SHOWN: usize = 20;

fn lines(notes: &[Note]) -> String {
    let mut text: Vec<String> = notes.iter().take(SHOWN).map(Note::to_string).collect();
    if notes.len() > SHOWN {
        text.push(format!("and {} more", notes.len() - SHOWN));
    }
    text.join("\n")
}
